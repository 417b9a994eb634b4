//! Refused entries cost no other session anything.

use crate::model::Device;
use crate::run::{Load, MS, Run, SECOND, tenants};
use scheduler::{Class, ClassWeights, Dedicated, Paced, Policy, RoundRobin, StrictUrgent, Tenant, Weighted};

type Make = fn(&[Tenant]) -> Box<dyn Policy>;

/// Every policy.
const POLICIES: [(&str, Make); 5] = [
    ("round robin", |tenants| Box::new(RoundRobin::new(tenants).unwrap())),
    ("dedicated", |tenants| Box::new(Dedicated::new(tenants).unwrap())),
    ("weighted", |tenants| Box::new(Weighted::new(tenants, ClassWeights::default()).unwrap())),
    ("paced", |tenants| Box::new(Paced::new(tenants).unwrap())),
    ("strict urgent", |tenants| Box::new(StrictUrgent::new(tenants).unwrap())),
];

/// The result of the first of the loads: commands a second, and the latency that one in a hundred exceeds.
fn first_of(make: Make, device: &Device, loads: &[Load]) -> (f64, u64) {
    let mut policy = make(&tenants(loads));
    let mut run = Run::new(policy.as_mut(), device.clone(), loads);
    run.until(400 * MS);
    let got = run.result(0, 100 * MS, 400 * MS);
    (got.iops(), got.percentile(990))
}

#[test]
fn neighbour_is_unaffected_by_tenants_with_refused_entries() {
    for (device, (name, make)) in [Device::channels(1, 0, 25_000), Device::channels(4, 20_000, 5_000)]
        .into_iter()
        .flat_map(|device| POLICIES.map(|policy| (device.clone(), policy)))
    {
        for (own, theirs) in Class::ALL.into_iter().flat_map(|own| Class::ALL.map(|theirs| (own, theirs))) {
            let neighbour = Load::new(own, 4096, 4).thinking(5_000);
            let (iops, p99) = first_of(make, &device, &[neighbour]);
            for count in [1, 7, 31] {
                let mut loads = vec![Load::new(theirs, 4096, 1).refused().thinking(40_000 * count); count as usize];
                loads.insert(0, neighbour);
                let (beside, late) = first_of(make, &device, &loads);
                let text =
                    format!("{name}, {own:?} beside {count} {theirs:?}: {beside:.0} of {iops:.0}, {late} of {p99}");
                assert!(beside >= 0.95 * iops && late as f64 <= 1.2 * p99 as f64, "{text}");
            }
        }
    }
}

/// A tenant with refused entries that then floods the device has not raised its pace meanwhile.
#[test]
fn refusals_are_no_sign_that_a_class_may_have_more() {
    let device = Device::channels(1, 0, 50_000);
    let victim = Load::new(Class::High, 4096, 1).thinking(100_000);
    let refused = Load::new(Class::Low, 4096, 8).refused().thinking(10_000).between(0, SECOND);
    let flood = Load::new(Class::Low, 4096, 64).between(SECOND, u64::MAX);
    let late = |loads: &[Load]| {
        let mut policy = Paced::new(&tenants(loads)).unwrap();
        let mut run = Run::new(&mut policy, device.clone(), loads);
        run.until(SECOND + 100 * MS);
        run.result(0, SECOND, SECOND + 100 * MS).percentile(950)
    };
    let (after, without) = (late(&[victim, flood, refused]), late(&[victim, flood]));
    assert!(after <= without + without / 4, "{after} instead of {without}");
}
