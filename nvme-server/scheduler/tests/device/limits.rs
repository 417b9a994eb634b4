//! Limits hold under every policy: over every interval, with their burst, and no less than they allow.

use crate::model::{Device, Operation};
use crate::run::{Load, MS, Run, SECOND, tenants};
use scheduler::{Class, ClassWeights, Dedicated, MIN_PIECE, Paced, Policy, RateLimit, RoundRobin, Share, Weighted};

fn each_policy(loads: &[Load], look: impl Fn(&Run<'_>, &str)) {
    let tenants = tenants(loads);
    let policies: [(&str, Box<dyn Policy>); 4] = [
        ("round robin", Box::new(RoundRobin::new(&tenants).unwrap())),
        ("dedicated", Box::new(Dedicated::new(&tenants).unwrap())),
        ("weighted", Box::new(Weighted::new(&tenants, ClassWeights::default()).unwrap())),
        ("paced", Box::new(Paced::new(&tenants).unwrap())),
    ];
    for (name, mut policy) in policies {
        let mut run = Run::new(policy.as_mut(), Device::channels(4, 40_000, 2_000), loads);
        run.until(3 * SECOND);
        look(&run, name);
    }
}

/// The greatest sum of `amount` over the commands submitted in any `interval`.
fn most_in(run: &Run<'_>, interval: u64, amount: impl Fn(u32) -> u64) -> u64 {
    let submitted = run.submitted(0);
    let (mut most, mut sum, mut first) = (0, 0, 0);
    for (at, bytes) in submitted {
        sum += amount(*bytes);
        while submitted[first].0 + interval <= *at {
            sum -= amount(submitted[first].1);
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn commands_stay_within_rate_and_burst_in_every_interval() {
    let limit = RateLimit { per_second: 2_000, burst: 20 };
    let mut limited = Load::new(Class::High, 4096, 64);
    limited.share.iops_limit = Some(limit);
    each_policy(&[limited, Load::new(Class::Low, 4096, 16)], |run, name| {
        for interval in [MS, 10 * MS, 100 * MS, SECOND] {
            let allowed = limit.per_second * interval / SECOND + limit.burst;
            let most = most_in(run, interval, |_| 1);
            assert!(most <= allowed + 1, "{name}: {most} in {interval}");
        }
        let got = run.result(0, SECOND, 3 * SECOND).iops();
        assert!((1_960.0..=2_040.0).contains(&got), "{name}: {got}");
    });
}

#[test]
fn large_requests_stay_within_rate_and_burst() {
    let limit = RateLimit { per_second: 50_000_000, burst: 1 << 18 };
    let mut limited = Load::new(Class::High, 1 << 20, 8);
    limited.share.bandwidth_limit = Some(limit);
    each_policy(&[limited, Load::new(Class::Low, 4096, 16)], |run, name| {
        for interval in [MS, 10 * MS, 100 * MS, SECOND] {
            let allowed = limit.per_second * interval / SECOND + limit.burst;
            let most = most_in(run, interval, u64::from);
            assert!(most <= allowed + u64::from(MIN_PIECE), "{name}: {most} in {interval}");
        }
        let got = run.result(0, SECOND, 3 * SECOND).bytes as f64 / 2.0;
        assert!((0.96..=1.04).contains(&(got / 50e6)), "{name}: {got}");
    });
}

/// Write Zeroes and Discard move nothing and count for the blocks that they name.
#[test]
fn blocks_that_are_named_stay_within_the_limit_of_bytes() {
    let limit = RateLimit { per_second: 1_000_000, burst: 1 << 16 };
    let mut limited = Load::new(Class::High, 32 << 20, 4).of(Operation::Discard);
    limited.share.bandwidth_limit = Some(limit);
    each_policy(&[limited, Load::new(Class::Low, 4096, 16)], |run, name| {
        for interval in [MS, 100 * MS, SECOND] {
            let allowed = limit.per_second * interval / SECOND + limit.burst;
            let most = most_in(run, interval, u64::from);
            assert!(most <= allowed + u64::from(MIN_PIECE), "{name}: {most} in {interval}");
        }
        let all: u64 = run.submitted(0).iter().map(|(_, bytes)| u64::from(*bytes)).sum();
        assert!((0.96..=1.04).contains(&(all as f64 / 3e6)), "{name}: {all}");
    });
}

#[test]
fn limit_changes_while_running_without_a_second_burst() {
    let loads = [Load::new(Class::High, 4096, 64)];
    let mut policy = Paced::new(&tenants(&loads)).unwrap();
    let mut run = Run::new(&mut policy, Device::channels(4, 40_000, 2_000), &loads);
    run.until(SECOND);
    let limited = |per_second| Share { iops_limit: Some(RateLimit { per_second, burst: 10 }), ..Share::of(Class::Low) };
    run.set_share(0, limited(1_000));
    run.until(2 * SECOND);
    for _ in 0..10 {
        run.set_share(0, limited(4_000));
    }
    run.until(3 * SECOND);
    let [before, slow, quick] = [0, 1, 2].map(|from| run.result(0, from * SECOND, (from + 1) * SECOND).iops());
    assert!(before > 80_000.0, "{before}");
    // Commands in the device when the limit came are finished as well.
    assert!((1_000.0..=1_200.0).contains(&slow), "{slow}");
    assert!((3_960.0..=4_040.0).contains(&quick), "{quick}");
}
