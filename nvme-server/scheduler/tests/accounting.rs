//! A policy's counts and refusals: laws that hold for every policy and every order of events.

#![forbid(unsafe_code)]

use blk_api::config::SchedulingPolicy;
use proptest::prelude::*;
use scheduler::{
    Class, ClassWeights, Commands, Decision, Kind, Paced, Policy, RateLimit, Resource, RoundRobin, STARVATION_LIMIT_NS,
    SessionId, Share, ShareError, StrictUrgent, Tenant,
};

const SESSIONS: u8 = 6;

fn tenant(class: Class) -> Tenant {
    Tenant { share: Share::of(class), highest: Class::Urgent }
}

fn tenants() -> Vec<Tenant> {
    (0..SESSIONS).map(|session| tenant(Class::ALL[usize::from(session) % 4])).collect()
}

/// Number of the policies that configurations name, and of the one of a controller that weighs.
const POLICIES: usize = SchedulingPolicy::ALL.len() + 1;

fn policy(number: usize, tenants: &[Tenant]) -> Box<dyn Policy> {
    match SchedulingPolicy::ALL.get(number) {
        Some(named) => scheduler::configured(*named, tenants, ClassWeights::default()).unwrap(),
        None => Box::new(StrictUrgent::new(tenants).unwrap()),
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Ready(u8),
    Idle(u8),
    /// Serves the next session, with up to this many bytes a command, and up to this many commands.
    Serve(u32, u16),
    /// The command in flight at this place, modulo their number, completes or is aborted.
    Back(usize, bool),
    Pass(u64),
    Change(u8, Class, u16, Option<u64>),
    Reset,
}

fn class() -> impl Strategy<Value = Class> {
    prop::sample::select(Class::ALL.to_vec())
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..SESSIONS + 2).prop_map(Step::Ready),
        1 => (0..SESSIONS + 2).prop_map(Step::Idle),
        8 => (0u32..1 << 21, 1u16..70).prop_map(|(bytes, many)| Step::Serve(bytes, many)),
        6 => (any::<usize>(), any::<bool>()).prop_map(|(place, aborted)| Step::Back(place, aborted)),
        4 => (0u64..20_000_000).prop_map(Step::Pass),
        1 => (0..SESSIONS, class(), 1u16.., prop::option::of(1u64..100_000))
            .prop_map(|(session, class, weight, limit)| Step::Change(session, class, weight, limit)),
        1 => Just(Step::Reset),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn counts_return_to_zero_in_any_completion_order(
        number in 0..POLICIES, steps in prop::collection::vec(step(), 1..400),
    ) {
        let mut policy = policy(number, &tenants());
        let mut now = 0;
        let mut waiting = [false; SESSIONS as usize];
        let mut held: Vec<(Commands, u64)> = Vec::new();
        for step in steps {
            match step {
                Step::Ready(session) => {
                    policy.ready(SessionId(session), now);
                    waiting.iter_mut().skip(usize::from(session)).take(1).for_each(|waiting| *waiting = true);
                }
                Step::Idle(session) => {
                    policy.idle(SessionId(session));
                    waiting.iter_mut().skip(usize::from(session)).take(1).for_each(|waiting| *waiting = false);
                }
                Step::Serve(bytes, many) => match policy.next(now) {
                    Decision::Serve { session, quantum } => {
                        prop_assert!(waiting[usize::from(session.0)], "{session:?} has nothing to give");
                        prop_assert!(quantum.commands >= 1 && quantum.bytes >= 4096);
                        prop_assert_eq!(policy.next(now), Decision::Serve { session, quantum });
                        let bytes = bytes.min(quantum.bytes);
                        let command = Commands { session, kind: Kind::Write, bytes, count: many.clamp(1, quantum.commands) };
                        policy.submitted(command, now);
                        held.push((command, now));
                    }
                    Decision::Wait { until_ns } => prop_assert!(until_ns > now),
                    Decision::Nothing => {}
                },
                Step::Back(place, aborted) if !held.is_empty() => {
                    let (command, at) = held.swap_remove(place % held.len());
                    if aborted { policy.aborted(command, now) } else { policy.completed(command, at, now) }
                }
                Step::Back(..) => {}
                Step::Pass(ns) => now += ns,
                Step::Change(session, class, weight, per_second) => {
                    let iops_limit = per_second.map(|per_second| RateLimit { per_second, burst: 4 });
                    let share = Share { class, weight, iops_limit, bandwidth_limit: None };
                    prop_assert_eq!(policy.set_share(SessionId(session), share), Ok(()));
                    prop_assert_eq!(policy.share(SessionId(session)), Some(share));
                }
                Step::Reset => {
                    policy.reset(now);
                    held.clear();
                }
            }
            for session in (0..SESSIONS).map(SessionId) {
                let ours = held.iter().map(|(command, _)| command).filter(|command| command.session == session);
                let ours: u16 = ours.map(|command| command.count).sum();
                prop_assert_eq!(policy.in_device(session), u32::from(ours));
            }
        }
        for (command, at) in held {
            policy.completed(command, at, now);
        }
        // One completion too many changes nothing.
        for session in (0..=SESSIONS).map(SessionId) {
            policy.completed(Commands { session, kind: Kind::Read, bytes: 4096, count: 1 }, 0, now);
            prop_assert_eq!(policy.in_device(session), 0);
        }
        // With nothing in the device a session that waits is served, now or in bounded time.
        for session in (0..SESSIONS).filter(|session| waiting[usize::from(*session)]).map(SessionId) {
            policy.set_share(session, Share::of(Class::Low)).unwrap();
        }
        let deadline = now + STARVATION_LIMIT_NS.max(64 * 1_000_000_000);
        while let Decision::Wait { until_ns } = policy.next(now) {
            prop_assert!(until_ns > now && until_ns <= deadline);
            now = until_ns;
        }
        prop_assert_eq!(policy.next(now) != Decision::Nothing, waiting.contains(&true));
    }
}

#[test]
fn invalid_shares_are_refused_and_change_nothing() {
    let highest = Class::High;
    let share = Share::of(Class::Medium);
    let session = SessionId(0);
    let iops = |per_second, burst| Share { iops_limit: Some(RateLimit { per_second, burst }), ..share };
    let bandwidth = |per_second, burst| Share { bandwidth_limit: Some(RateLimit { per_second, burst }), ..share };
    let below = |resource, per_second, burst| ShareError::LimitBelowOneRequest {
        session,
        resource,
        limit: RateLimit { per_second, burst },
    };
    let wrong = [
        (Share { weight: 0, ..share }, ShareError::Weight { session, weight: 0 }),
        (iops(0, 5), below(Resource::Commands, 0, 5)),
        (iops(5, 0), below(Resource::Commands, 5, 0)),
        (bandwidth(4095, 1 << 20), below(Resource::Bytes, 4095, 1 << 20)),
        (bandwidth(1 << 20, 4095), below(Resource::Bytes, 1 << 20, 4095)),
        (Share::of(Class::Urgent), ShareError::ClassNotAllowed { session, asked: Class::Urgent, highest }),
    ];
    for number in 0..POLICIES {
        let mut policy = policy(number, &[Tenant { share, highest }]);
        for (wrong, error) in wrong {
            assert_eq!(policy.set_share(session, wrong), Err(error));
            assert_eq!(policy.share(session), Some(share));
            assert_eq!(Paced::new(&[Tenant { share: wrong, highest }]).err(), Some(error));
        }
        assert_eq!(policy.set_share(session, Share::of(Class::High)), Ok(()));
        let nobody = SessionId(1);
        assert_eq!(policy.set_share(nobody, share), Err(ShareError::NoSuchSession { session: nobody }));
    }
    let many = vec![tenant(Class::Low); 129];
    assert_eq!(RoundRobin::new(&many).err(), Some(ShareError::TooManySessions { count: 129 }));
}

#[test]
fn nobody_is_first_by_number() {
    for number in 0..POLICIES {
        let mut policy = policy(number, &vec![tenant(Class::Medium); 8]);
        let order = [5, 2, 7, 0];
        order.iter().for_each(|session| policy.ready(SessionId(*session), 0));
        for session in order.iter().cycle().take(12) {
            let Decision::Serve { session: first, .. } = policy.next(0) else { panic!("somebody waits") };
            assert_eq!(first, SessionId(*session), "policy {number}");
            let command = Commands { session: first, kind: Kind::Read, bytes: 4096, count: 1 };
            policy.submitted(command, 0);
            policy.completed(command, 0, 0);
        }
    }
}

#[test]
fn starved_session_at_its_limit_yields_to_the_next() {
    for named in [SchedulingPolicy::Dedicated, SchedulingPolicy::Weighted, SchedulingPolicy::Paced] {
        let tenants = [Class::Urgent, Class::High, Class::Low].map(tenant);
        let mut policy = scheduler::configured(named, &tenants, ClassWeights::default()).unwrap();
        let limited = |class| Share { iops_limit: Some(RateLimit { per_second: 1, burst: 1 }), ..Share::of(class) };
        policy.set_share(SessionId(2), limited(Class::Low)).unwrap();
        [2, 0, 1].iter().for_each(|session| policy.ready(SessionId(*session), 0));
        let mut serve = || {
            let decision = policy.next(STARVATION_LIMIT_NS);
            assert_eq!(decision, policy.next(STARVATION_LIMIT_NS), "{named:?}: asked twice");
            let Decision::Serve { session, .. } = decision else { panic!("{named:?}: somebody waits") };
            policy.submitted(Commands { session, kind: Kind::Read, bytes: 4096, count: 1 }, STARVATION_LIMIT_NS);
            policy.set_share(SessionId(2), limited(Class::Medium)).unwrap();
            session
        };
        assert_eq!([serve(), serve()], [SessionId(2), SessionId(1)], "{named:?}");
    }
}

/// Both want the only place whenever it is free; the one that is asked second finds it taken and has to wait.
#[test]
fn session_without_room_is_served_by_the_starvation_guard() {
    for number in 0..POLICIES {
        let mut policy = policy(number, &[tenant(Class::Urgent), tenant(Class::Low)]);
        let mut first_of_low = None;
        for now_ns in (0..4 * STARVATION_LIMIT_NS).step_by(100_000) {
            [0, 1].iter().for_each(|session| policy.ready(SessionId(*session), now_ns));
            let Decision::Serve { session, .. } = policy.next(now_ns) else { panic!("somebody waits") };
            let command = Commands { session, kind: Kind::Read, bytes: 4096, count: 1 };
            [0, 1].iter().for_each(|session| policy.idle(SessionId(*session)));
            policy.submitted(command, now_ns);
            policy.completed(command, now_ns, now_ns + 50_000);
            if session == SessionId(1) {
                first_of_low.get_or_insert(now_ns);
            }
        }
        assert!(first_of_low.is_some_and(|at| at <= 2 * STARVATION_LIMIT_NS), "policy {number}: {first_of_low:?}");
    }
}
