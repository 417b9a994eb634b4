//! Measures the time of a decision: `next`, `submitted` and `completed` for one command, with two sessions and with 64.

#![forbid(unsafe_code)]

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use scheduler::{
    Class, ClassWeights, Commands, Decision, Dedicated, Kind, Paced, Policy, RoundRobin, SessionId, Share, Tenant,
    Weighted,
};
use std::hint::black_box;

fn decide(criterion: &mut Criterion, name: &str, make: impl Fn(&[Tenant]) -> Box<dyn Policy>) {
    let mut group = criterion.benchmark_group(name);
    for sessions in [2u8, 64] {
        let tenant = Tenant { share: Share::of(Class::Medium), highest: Class::Medium };
        let mut policy = make(&vec![tenant; usize::from(sessions)]);
        (0..sessions).for_each(|session| policy.ready(SessionId(session), 0));
        let mut now = 0u64;
        group.bench_function(BenchmarkId::from_parameter(sessions), |bencher| {
            bencher.iter(|| {
                now += 1000;
                let Decision::Serve { session, quantum } = black_box(policy.next(now)) else { return };
                let command = Commands { session, kind: Kind::Read, bytes: quantum.bytes.min(4096), count: 1 };
                policy.submitted(command, now);
                policy.completed(command, now, now + 500);
            });
        });
    }
    group.finish();
}

fn decisions(criterion: &mut Criterion) {
    decide(criterion, "round robin, sessions", |tenants| Box::new(RoundRobin::new(tenants).expect("shares")));
    decide(criterion, "dedicated, sessions", |tenants| Box::new(Dedicated::new(tenants).expect("shares")));
    decide(criterion, "weighted, sessions", |tenants| {
        Box::new(Weighted::new(tenants, ClassWeights::default()).expect("shares"))
    });
    decide(criterion, "paced, sessions", |tenants| Box::new(Paced::new(tenants).expect("shares")));
}

criterion_group!(benches, decisions);
criterion_main!(benches);
