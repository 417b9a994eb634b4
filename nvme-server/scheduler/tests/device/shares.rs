//! Shares by weight, and equality of equals.

use crate::model::{Device, Unit};
use crate::run::{Load, Run, SECOND, tenants};
use scheduler::{Class, ClassWeights, Dedicated, Paced, Policy, RoundRobin, Weighted};

fn bytes_of(policy: &mut dyn Policy, device: Device, loads: &[Load]) -> Vec<f64> {
    let mut run = Run::new(policy, device, loads);
    run.until(6 * SECOND);
    (0..loads.len()).map(|tenant| run.result(tenant, SECOND, 6 * SECOND).bytes as f64).collect()
}

/// Each got its share, of the parts given, within a twentieth.
fn assert_shares(got: &[f64], parts: &[f64], text: &str) {
    let (sum, whole) = (got.iter().sum::<f64>(), parts.iter().sum::<f64>());
    for (got, part) in got.iter().zip(parts) {
        let (share, wanted) = (got / sum, part / whole);
        assert!((share / wanted - 1.0).abs() <= 0.05, "{text}: {share:.3} instead of {wanted:.3}");
    }
}

#[test]
fn classes_that_saturate_get_the_device_by_their_weights_and_cost_no_throughput() {
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
    let tenants = tenants(&loads);
    let mut weighted = Weighted::new(&tenants, ClassWeights::default()).unwrap();
    let mut paced = Paced::new(&tenants).unwrap();
    for policy in [&mut weighted as &mut dyn Policy, &mut paced] {
        let got = bytes_of(policy, Device::channels(4, 80_000, 5_000), &loads);
        assert_shares(&got, &[6.0, 3.0, 1.0], "sessions");
    }
}

#[test]
fn large_requests_pay_for_their_size() {
    // Where 4 KiB cost as much wherever they are, who asks for more at once gets no more.
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
    loads[0].share.iops_limit = Some(scheduler::Limit { per_second: 10_000, burst: 16 });
    let mut weighted = Weighted::new(&tenants(&loads), ClassWeights::default()).unwrap();
    let device = Device::channels(4, 80_000, 5_000);
    let got = bytes_of(&mut weighted, device.clone(), &loads);
    let left = device.rate(4096) - 10_000.0;
    assert_shares(&got, &[10_000.0, left], "urgent and the rest");
}

#[test]
fn equals_get_the_same_wherever_they_stand_and_however_many_they_are() {
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
