use super::*;
use crate::build::tests::system_of;
use crate::programs::tests::{R, RW, RX, elf};
use crate::{Programs, Scenario, build};

#[test]
fn the_same_system_gives_the_same_picture() {
    assert_eq!(system_of("demo").svg(), system_of("demo").svg());
}

#[test]
fn the_picture_does_not_depend_on_the_sizes_of_programs() {
    let scenario = Scenario::load(concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios/demo.toml")).unwrap();
    let larger = |base: u64| {
        elf(
            base + 0x2000,
            &[(base, 0x1000, &[1], R), (base + 0x2000, 0x6000, &[2], RX), (base + 0x9000, 0x20000, &[3], RW)],
        )
    };
    let programs = scenario.programs().into_iter().zip(2u64..);
    let programs = programs.fold(Programs::new(), |all, (name, place)| all.with(name, larger(place << 24)));
    assert_eq!(build(&scenario, &programs).unwrap().svg(), system_of("demo").svg());
}

#[test]
fn every_component_and_every_shared_thing_is_in_the_picture() {
    for scenario in ["demo", "bridge-two-controllers", "boot"] {
        let system = system_of(scenario);
        let svg = system.svg();
        for component in &system.specification.components {
            assert!(
                svg.contains(&format!("\n{}\n", component.name)) || svg.contains(&format!(">{}<", component.name)),
                "{}",
                component.name
            );
        }
        for link in links::links(&system.specification) {
            let to_console = system.specification.components[link.to].name == "console";
            assert!(to_console || svg.contains(&link.label), "{link:?}");
        }
    }
}

#[test]
fn a_session_is_six_lines() {
    let specification = system_of("boot").specification;
    let index = |name: &str| specification.components.iter().position(|component| component.name == name).unwrap();
    let (alice, server) = (index("alice"), index("nvme-server"));
    let links = links::links(&specification);
    let session: Vec<_> =
        links.iter().filter(|link| link.joins(alice, server)).map(|link| (link.kind, link.from == alice)).collect();
    use Kind::{Call, Frames, Shared, Signal};
    assert_eq!(
        session,
        [(Call, true), (Signal, true), (Signal, false), (Shared, true), (Shared, false), (Frames, false)]
    );
}

#[test]
fn boxes_of_a_column_do_not_lie_on_each_other() {
    let specification = system_of("sessions-64").specification;
    let layout = Layout::of(&specification, &links::links(&specification), &links::devices(&specification));
    for (one, place) in layout.places.iter().enumerate() {
        for other in layout.places.iter().skip(one + 1) {
            let apart = place.right() <= other.x
                || other.right() <= place.x
                || place.bottom() <= other.y
                || other.bottom() <= place.y;
            assert!(apart);
        }
    }
}
