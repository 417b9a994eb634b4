use proptest::prelude::*;

use super::*;

const KINDS: [ControllerResource; 2] = [ControllerResource::Queues, ControllerResource::Interrupts];
const FUNCTIONS: u8 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(usize, u16),
    Activate,
    Assign(u8, usize, u16),
    Online(u8),
    Offline(u8),
    AllOffline,
    Enable(u8),
    Disable(u8),
}

fn resources() -> Resources {
    let virtualization = Virtualization {
        functions: FUNCTIONS,
        flexible_queues: 9,
        flexible_interrupts: 6,
        secondary_queues: 5,
        secondary_interrupts: 4,
    };
    let config = Config { queue_pairs: 11, vectors: 8, ..Config::default() };
    let mut resources = Resources::new(&config, &virtualization);
    Place::secondaries(FUNCTIONS).for_each(|place| resources.enable_function(place));
    resources
}

fn step() -> impl Strategy<Value = Step> {
    let (id, kind, count) = (0..FUNCTIONS + 2, 0..2_usize, 0..11_u16);
    prop_oneof![
        (kind.clone(), count.clone()).prop_map(|(kind, count)| Step::Allocate(kind, count)),
        Just(Step::Activate),
        (id.clone(), kind, count).prop_map(|(id, kind, count)| Step::Assign(id, kind, count)),
        id.clone().prop_map(Step::Online),
        id.clone().prop_map(Step::Offline),
        id.clone().prop_map(Step::Enable),
        id.prop_map(Step::Disable),
        Just(Step::AllOffline),
    ]
}

/// The place of a controller, with one that the subsystem does not have.
fn place(id: u8) -> Place {
    std::iter::once(Place::PRIMARY).chain(Place::secondaries(u8::MAX)).nth(id.into()).unwrap()
}

fn apply(resources: &mut Resources, step: Step) -> Result<(), StatusCode> {
    match step {
        Step::Allocate(kind, count) => resources.allocate(KINDS[kind], count),
        Step::Assign(id, kind, count) => resources.assign(place(id), KINDS[kind], count),
        Step::Online(id) => resources.set_online(place(id)),
        Step::Offline(id) => resources.set_offline(place(id)),
        Step::Enable(id) => {
            resources.enable_function(place(id));
            Ok(())
        }
        Step::Disable(id) => {
            resources.disable_function(place(id));
            Ok(())
        }
        Step::Activate => {
            resources.activate();
            Ok(())
        }
        Step::AllOffline => {
            resources.set_all_offline();
            Ok(())
        }
    }
}

proptest! {
    #[test]
    fn no_resource_is_given_twice(steps in proptest::collection::vec(step(), 1..60)) {
        let mut resources = resources();
        for step in steps {
            let before = resources.clone();
            if apply(&mut resources, step).is_err() {
                prop_assert_eq!(format!("{before:?}"), format!("{resources:?}"), "a refusal changes nothing");
            }
            for kind in KINDS {
                let pool = resources.pool(kind);
                prop_assert!(resources.assigned(kind) + pool.primary.max(pool.primary_next) <= pool.flexible);
                for secondary in resources.secondaries() {
                    prop_assert!(secondary.assigned(kind) <= pool.secondary_max);
                    prop_assert!(!secondary.is_online || secondary.assigned(kind) >= kind.minimum());
                    prop_assert!(!secondary.is_online || secondary.is_enabled);
                }
            }
        }
    }
}

#[test]
fn change_of_state_is_counted_and_its_repetition_is_not() {
    let mut resources = resources();
    for kind in KINDS {
        resources.allocate(kind, 0).unwrap();
    }
    resources.activate();
    let changes = |resources: &Resources| resources.secondary(place(1)).unwrap().changes;
    for kind in KINDS {
        resources.assign(place(1), kind, 2).unwrap();
    }
    assert_eq!(changes(&resources), 0);
    for expected in [1, 1] {
        resources.set_online(place(1)).unwrap();
        assert_eq!(changes(&resources), expected);
    }
    for expected in [2, 2] {
        resources.set_offline(place(1)).unwrap();
        assert_eq!(changes(&resources), expected);
    }
}

#[test]
fn limits_leave_out_the_admin_queue_pair() {
    let mut resources = resources();
    assert_eq!(resources.limits(Place::PRIMARY), Limits { queue_pairs: 11, vectors: 8 });
    assert_eq!(resources.limits(place(1)), Limits { queue_pairs: 0, vectors: 0 });
    for kind in KINDS {
        resources.allocate(kind, 1).unwrap();
    }
    resources.activate();
    assert_eq!(resources.limits(Place::PRIMARY), Limits { queue_pairs: 3, vectors: 3 });
}
