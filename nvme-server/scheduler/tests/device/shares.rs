//! Shares by weight, and equal shares of equals.

use crate::model::{Device, Unit};
use crate::run::{Load, MS, Run, SECOND, tenants};
use scheduler::{
    Class, ClassWeights, Commands, Decision, Dedicated, Kind, Paced, Policy, RoundRobin, SessionId, Share, Tenant,
    Weighted,
};

fn weighted_and_paced(loads: &[Load]) -> [Box<dyn Policy>; 2] {
    let tenants = tenants(loads);
    let weighted = Weighted::new(&tenants, ClassWeights::default()).unwrap();
    [Box::new(weighted), Box::new(Paced::new(&tenants).unwrap())]
}

fn bytes_of(policy: &mut dyn Policy, device: Device, loads: &[Load]) -> Vec<f64> {
    let mut run = Run::new(policy, device, loads);
    run.until(6 * SECOND);
    (0..loads.len()).map(|tenant| run.result(tenant, SECOND, 6 * SECOND).bytes as f64).collect()
}

/// Each got its share, in proportion to `parts`, within a twentieth.
fn assert_shares(got: &[f64], parts: &[f64], text: &str) {
    let (sum, whole) = (got.iter().sum::<f64>(), parts.iter().sum::<f64>());
    for (got, part) in got.iter().zip(parts) {
        let (share, wanted) = (got / sum, part / whole);
        assert!((share / wanted - 1.0).abs() <= 0.05, "{text}: {share:.3} instead of {wanted:.3}");
    }
}

#[test]
fn saturating_classes_share_by_weight_at_full_throughput() {
    let classes = [Class::High, Class::Medium, Class::Low];
    for device in [Device::channels(4, 80_000, 5_000), Device::throttled(Unit::FourKib)] {
        for bytes in [4096, 131_072] {
            let loads = classes.map(|class| Load::new(class, bytes, 64));
            let mut weighted = Weighted::new(&tenants(&loads), ClassWeights::default()).unwrap();
            let got = bytes_of(&mut weighted, device.clone(), &loads);
            assert_shares(&got, &[6.0, 3.0, 1.0], "classes");
            let mut round_robin = RoundRobin::new(&tenants(&loads)).unwrap();
            let even = bytes_of(&mut round_robin, device.clone(), &loads);
            assert_shares(&[got.iter().sum(), even.iter().sum()], &[1.0, 1.0], "in all");
        }
    }
}

#[test]
fn sessions_of_a_class_share_it_by_weight() {
    let loads = [6, 3, 1].map(|weight| Load::new(Class::Medium, 4096, 64).weighing(weight));
    for mut policy in weighted_and_paced(&loads) {
        let got = bytes_of(policy.as_mut(), Device::channels(4, 80_000, 5_000), &loads);
        assert_shares(&got, &[6.0, 3.0, 1.0], "sessions");
    }
}

#[test]
fn large_requests_pay_for_their_size() {
    // Where 4 KiB always cost the same, a tenant with larger requests gets no more.
    let loads = [4096, 131_072].map(|bytes| Load::new(Class::Low, bytes, 64));
    let mut paced = Paced::new(&tenants(&loads)).unwrap();
    let mut run = Run::new(&mut paced, Device::throttled(Unit::FourKib), &loads);
    run.until(20 * SECOND);
    let got = [0, 1].map(|tenant| run.result(tenant, 5 * SECOND, 20 * SECOND).bytes as f64);
    assert!(got[1] / got[0] < 2.0, "{got:?}");
}

#[test]
fn urgent_goes_first_and_only_as_far_as_its_limit() {
    let mut loads = [Load::new(Class::Urgent, 4096, 64), Load::new(Class::Low, 4096, 64)];
    loads[0].share.iops_limit = Some(scheduler::RateLimit { per_second: 10_000, burst: 16 });
    let mut weighted = Weighted::new(&tenants(&loads), ClassWeights::default()).unwrap();
    let device = Device::channels(4, 80_000, 5_000);
    let got = bytes_of(&mut weighted, device.clone(), &loads);
    let left = device.rate(4096) - 10_000.0;
    assert_shares(&got, &[10_000.0, left], "urgent and the rest");
}

#[test]
fn equals_get_equal_parts_whatever_their_number() {
    for count in [2, 17, 64] {
        let loads = vec![Load::new(Class::Medium, 4096, 4); count];
        let tenants = tenants(&loads);
        let policies: [Box<dyn Policy>; 4] = [
            Box::new(RoundRobin::new(&tenants).unwrap()),
            Box::new(Dedicated::new(&tenants).unwrap()),
            Box::new(Weighted::new(&tenants, ClassWeights::default()).unwrap()),
            Box::new(Paced::new(&tenants).unwrap()),
        ];
        for mut policy in policies {
            let got = bytes_of(policy.as_mut(), Device::channels(4, 80_000, 5_000), &loads);
            let (least, most) = got.iter().fold((f64::MAX, 0f64), |(low, high), got| (low.min(*got), high.max(*got)));
            assert!(most / least <= 1.02, "{count}: {least} to {most}");
        }
    }
}

/// The second tenant's part of the bytes of both, and the part of the device's rate that both use.
fn modest_part(policy: &mut dyn Policy, device: &Device, loads: &[Load]) -> (f64, f64) {
    let got = bytes_of(policy, device.clone(), loads);
    (got[1] / (got[0] + got[1]), (got[0] + got[1]) / (5.0 * 4096.0 * device.rate(4096)))
}

/// The experiment of one queue for all (SEEDS V13). The modest tenant is away while its client takes answers, and still is
/// owed its half.
#[test]
fn equals_have_their_half_however_deep_or_large_the_other_asks() {
    let turnaround = |load: Load| load.thinking(10_000);
    let modest = turnaround(Load::new(Class::Medium, 4096, 8));
    let greedy = [Load::new(Class::Medium, 4096, 128), Load::new(Class::Medium, 131_072, 8)].map(turnaround);
    for (device, greedy) in one_line().into_iter().flat_map(|device| greedy.map(|greedy| (device.clone(), greedy))) {
        let loads = [greedy, modest];
        for mut policy in weighted_and_paced(&loads) {
            let (part, used) = modest_part(policy.as_mut(), &device, &loads);
            let text = format!("beside {} bytes, {} deep: {part:.3}, {used:.3} used", greedy.bytes, greedy.depth);
            println!("{text}");
            // Where a device lets one command pass and delays the next ones for it, the cost of large ones is learned too low.
            let least = if greedy.bytes == modest.bytes { 0.48 } else { 0.38 };
            assert!(part >= least, "{text}");
            assert!(used >= 0.95, "{text}");
        }
    }
}

/// Devices that serve one command after the other and all 4 KiB alike.
fn one_line() -> [Device; 2] {
    let (unit_ns, latency) = (25_000, 30_000);
    let throttled = Device::Throttled { empty_at: 0, unit_ns, unit: Unit::FourKib, burst_ns: 100_000_000, latency };
    [Device::channels(1, 0, 25_000), throttled]
}

#[test]
fn rare_submitter_does_not_wait_for_its_equals_depth() {
    let rare = Load::new(Class::Medium, 4096, 1).thinking(2 * MS);
    let loads = [Load::new(Class::Medium, 4096, 128), rare];
    for device in one_line() {
        for mut policy in weighted_and_paced(&loads) {
            let mut run = Run::new(policy.as_mut(), device.clone(), &loads);
            run.until(4 * SECOND);
            let [other, rare] = [0, 1].map(|tenant| run.result(tenant, SECOND, 4 * SECOND));
            // The whole depth is 3.2 ms.
            assert!(rare.percentile(990) <= MS / 2, "{}", rare.percentile(990));
            assert!(other.iops() + rare.iops() >= 0.95 * device.rate(4096), "{}", other.iops());
        }
    }
}

/// An equal that never gets an answer does not take the device from the others, however much of it is in the device.
#[test]
fn session_with_lost_commands_does_not_delay_its_equals() {
    let loads = [Load::new(Class::Medium, 4096, 64); 3];
    let tenants = tenants(&loads);
    let policies: [Box<dyn Policy>; 2] =
        [Box::new(Weighted::new(&tenants, ClassWeights::default()).unwrap()), Box::new(Paced::new(&tenants).unwrap())];
    for mut policy in policies {
        let command = |session, count| Commands { session: SessionId(session), kind: Kind::Read, bytes: 4096, count };
        let mut now = 0;
        // The device is known to take 30 us for a command.
        for _ in 0..1000 {
            for session in [0, 1] {
                policy.ready(SessionId(session), now);
                policy.submitted(command(session, 8), now);
            }
            for session in [0, 1] {
                policy.completed(command(session, 8), now, now + 240_000);
            }
            now += 480_000;
        }
        [1, 2].iter().for_each(|session| policy.idle(SessionId(*session)));
        policy.submitted(command(0, 64), now);
        policy.idle(SessionId(0));
        [1, 2].iter().for_each(|session| policy.ready(SessionId(*session), now));
        let mut served = [0; 3];
        for _ in 0..10 {
            let deadline = now + 20 * MS;
            while let Decision::Wait { until_ns } = policy.next(now) {
                assert!(until_ns > now && until_ns <= deadline);
                now = until_ns;
            }
            let Decision::Serve { session, .. } = policy.next(now) else { panic!("nobody is served") };
            policy.submitted(command(session.0, 1), now);
            policy.completed(command(session.0, 1), now, now + 30_000);
            now += 30_000;
            served[usize::from(session.0)] += 1;
        }
        assert_eq!(served, [0, 5, 5]);
    }
}

/// The rate of three tenants of 8 KiB together, on a device that loses commands of these numbers.
fn beside_lost_commands(
    make: fn(&[Tenant]) -> Box<dyn Policy>,
    classes: [Class; 3],
    device: &Device,
    lost: &[u64],
    discount: Option<u64>,
) -> f64 {
    let loads = classes.map(|class| Load::new(class, 8192, 6));
    let mut policy = make(&tenants(&loads));
    let mut run = Run::new(&mut *policy, device.clone().losing(lost), &loads);
    run.discount = discount;
    run.until(8 * SECOND);
    [0, 1, 2].map(|tenant| run.result(tenant, 3 * SECOND, 8 * SECOND).iops()).iter().sum()
}

#[test]
fn a_device_that_loses_commands_is_not_taken_to_be_slow() {
    let weighted =
        |tenants: &[Tenant]| -> Box<dyn Policy> { Box::new(Weighted::new(tenants, ClassWeights::default()).unwrap()) };
    let paced = |tenants: &[Tenant]| -> Box<dyn Policy> { Box::new(Paced::new(tenants).unwrap()) };
    let long =
        Device::Throttled { empty_at: 0, unit_ns: 250_000, unit: Unit::FourKib, burst_ns: 0, latency: 2_000_000 };
    for device in [Device::channels(4, 80_000, 5_000), Device::throttled(Unit::FourKib), long] {
        for make in [weighted as fn(&[Tenant]) -> Box<dyn Policy>, paced] {
            for (classes, lost) in [
                ([Class::Medium, Class::Low, Class::Low], &[200, 301][..]),
                ([Class::Medium; 3], &[200, 201, 202, 203]),
                ([Class::High, Class::Medium, Class::Low], &[300]),
            ] {
                let whole = beside_lost_commands(make, classes, &device, &[], None);
                let discounted = beside_lost_commands(make, classes, &device, lost, Some(SECOND));
                let kept = beside_lost_commands(make, classes, &device, lost, None);
                let text = format!("{lost:?} of {classes:?}: {whole:.0}, {discounted:.0}, {kept:.0}");
                assert!(discounted > 0.95 * whole, "{text}");
                // Lost commands that are not discounted may use up the in-flight limit; the starvation guard still
                // serves the others steadily.
                assert!(kept > whole / 64.0, "{text}");
            }
        }
    }
}

/// The slow controller of the simulator's runs in which shares change. It holds many commands, and each is on its way for
/// ten times the time it takes. The tenants' depths are not much more than the in-flight limit.
#[test]
fn weights_hold_on_a_device_that_is_long_and_quick() {
    let device = Device::Throttled { empty_at: 0, unit_ns: 2_500, unit: Unit::Command, burst_ns: 0, latency: 27_000 };
    let loads = [Class::Medium, Class::Low].map(|class| Load::new(class, 4096, 64).thinking(10_000));
    let mut weighted = Weighted::new(&tenants(&loads), ClassWeights::default()).unwrap();
    let mut run = Run::new(&mut weighted, device.clone(), &loads);
    run.until(SECOND);
    for (from, to) in [(0, 10 * MS), (10 * MS, SECOND)] {
        let got = [0, 1].map(|tenant| run.result(tenant, from, to).iops());
        println!("{got:?}");
        assert_shares(&got, &[3.0, 1.0], "classes");
        assert!(got[0] + got[1] >= 0.95 * device.rate(4096), "{got:?}");
    }
}

#[test]
fn session_moved_to_an_empty_class_starts_level() {
    let loads = [Load::new(Class::Medium, 4096, 64); 2];
    let mut weighted = Weighted::new(&tenants(&loads), ClassWeights::default()).unwrap();
    let mut run = Run::new(&mut weighted, Device::channels(4, 80_000, 5_000), &loads);
    run.until(SECOND);
    run.set_share(1, Share::of(Class::Low));
    run.until(SECOND + 100 * MS);
    let got = [0, 1].map(|tenant| run.result(tenant, SECOND, SECOND + 100 * MS).iops());
    assert_shares(&got, &[3.0, 1.0], "classes");
}

/// Charges from before the device is known have no long effect.
#[test]
fn many_equals_are_even_from_the_first_milliseconds_on() {
    for (count, bytes) in [2, 8, 16].into_iter().flat_map(|count| [4096, 131_072].map(|bytes| (count, bytes))) {
        let loads = vec![Load::new(Class::Medium, bytes, 8).thinking(10_000); count];
        for mut policy in weighted_and_paced(&loads) {
            // 128 KiB take 20 us, as with the controller of the experiment.
            let mut run = Run::new(policy.as_mut(), Device::channels(1, 400, 600), &loads);
            run.until(20 * MS);
            let got: Vec<f64> = (0..count).map(|tenant| run.result(tenant, 0, 20 * MS).bytes as f64).collect();
            let (least, most) = got.iter().fold((f64::MAX, 0f64), |(low, high), got| (low.min(*got), high.max(*got)));
            println!("{count} of {bytes}: {:.2}", least / most);
            assert!(least / most >= 0.8, "{count} of {bytes}: {:.2}", least / most);
        }
    }
}
