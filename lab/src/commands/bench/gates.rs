//! Gates: limits on the cost of each benchmark. `cargo xtask bench` and `cargo xtask test` fail above them.
//!
//! A gate is the goal where a slow build machine reaches it, otherwise 3 % above the fewest instructions of three runs when it
//! was last set. A tenant that polls its own function waits for the controller alone, in polls that are counted: its gates allow for a
//! busy build machine, too. At depth 1 the build machine decides which path a read takes, so these gates are for the longer path. A change
//! that makes an operation cheaper also lowers its gate, down to the goal.

use super::Benchmark;
use kernel::{Arch, Kernel};

/// Limits on the cost of one benchmark's operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gate {
    pub(crate) name: &'static str,
    /// Instructions of the whole system on x86_64, at most.
    x86_64: f64,
    /// Instructions of the whole system on AArch64, at most, if it runs there.
    aarch64: Option<f64>,
    /// Writes to the controller's doorbells, at most.
    doorbells: f64,
    /// Goal for the instructions on x86_64.
    goal: Option<f64>,
}

const fn gate(name: &'static str, x86_64: f64, aarch64: f64, doorbells: f64, goal: Option<f64>) -> Gate {
    Gate { name, x86_64, aarch64: Some(aarch64), doorbells, goal }
}

/// The gate of a benchmark on the simulator's controllers, which the AArch64 machine cannot have.
const fn on_model(name: &'static str, x86_64: f64, doorbells: f64, goal: Option<f64>) -> Gate {
    Gate { name, x86_64, aarch64: None, doorbells, goal }
}

/// All gates.
pub(crate) const GATES: &[Gate] = &[
    // name, x86_64, AArch64, doorbells, goal
    gate("ipc-call", 1_200.0, 1_200.0, 0.0, Some(1_200.0)),
    gate("signal-wait", 1_453.0, 1_401.0, 0.0, None),
    gate("read-4k-qd1-interrupt", 4_640.0, 4_750.0, 2.0, Some(4_500.0)),
    gate("read-4k-qd1-polled", 6_545.0, 6_545.0, 2.0, None),
    gate("read-4k-qd1-hybrid", 4_650.0, 4_850.0, 2.0, None),
    gate("read-4k-qd32-interrupt", 600.0, 600.0, 0.1, Some(600.0)),
    gate("read-4k-qd32-polled", 600.0, 600.0, 0.1, Some(600.0)),
    gate("read-4k-qd32-hybrid", 600.0, 600.0, 0.1, None),
    gate("read-4k-qd32-telemetry", 600.0, 600.0, 0.1, None),
    gate("read-4k-qd32-trace", 600.0, 600.0, 0.1, None),
    gate("function-read-4k-qd1-interrupt", 2_500.0, 2_500.0, 2.0, Some(2_500.0)),
    gate("function-read-4k-qd32-polled", 300.0, 400.0, 0.15, Some(200.0)),
    gate("read-4k-2-tenants-qd8", 1_100.0, 1_100.0, 0.3, Some(1_100.0)),
    gate("read-4k-8-tenants-qd8", 1_100.0, 1_100.0, 0.35, Some(1_100.0)),
    gate("read-4k-64-tenants-qd8", 1_100.0, 1_100.0, 0.3, Some(1_100.0)),
    gate("read-4k-2-tenants-qd32", 680.0, 680.0, 0.5, Some(680.0)),
    gate("read-4k-8-tenants-qd32", 680.0, 680.0, 0.5, Some(680.0)),
    on_model("read-4k-8-tenants-device-direct", 550.0, 0.5, Some(550.0)),
    gate("read-4k-2-tenants-hybrid", 680.0, 680.0, 0.5, None),
    gate("read-4k-64-tenants-qd32", 750.0, 750.0, 0.5, Some(750.0)),
    gate("read-128k-qd8", 1_600.0, 1_600.0, 0.3, Some(1_600.0)),
    gate("device-read-4k-qd32", 1_000.0, 1_000.0, 0.1, Some(1_000.0)),
    gate("device-write-4k-qd32", 1_000.0, 1_000.0, 0.1, Some(1_000.0)),
];

/// Limits on an installed kernel for x86_64, which seL4 16.0.0 reaches. Other costs are the user's kernel's, and are not judged.
const INSTALLED: &[(&str, f64)] = &[("ipc-call", 950.0), ("read-4k-qd32-interrupt", 520.0)];

/// Ratios: a benchmark costs at most so many times as much as another benchmark.
const NO_MORE_THAN: &[(&str, f64, &str)] = &[
    ("read-4k-64-tenants-qd8", 1.1, "read-4k-2-tenants-qd8"),
    ("read-4k-qd32-hybrid", 1.05, "read-4k-qd32-interrupt"),
    ("read-4k-qd32-hybrid", 1.05, "read-4k-qd32-polled"),
    // 15 instructions more at most.
    ("read-4k-qd32-telemetry", 1.03, "read-4k-qd32-interrupt"),
    // The goal is 60 instructions more; 63 were measured.
    ("read-4k-qd32-trace", 1.15, "read-4k-qd32-telemetry"),
    ("read-4k-2-tenants-hybrid", 1.05, "read-4k-2-tenants-qd32"),
];

/// Former names of benchmarks; the JSON has both names.
const FORMER_NAMES: &[(&str, &str)] =
    &[("read-4k-2-tenants", "read-4k-2-tenants-qd8"), ("read-4k-64-tenants", "read-4k-64-tenants-qd8")];

impl Gate {
    /// The gate of the benchmark `name`.
    pub(crate) fn of(name: &str) -> Option<&'static Self> {
        GATES.iter().find(|gate| gate.name == name)
    }

    /// Instructions per operation, at most, if it runs on this architecture.
    pub(crate) const fn instructions(&self, arch: Arch) -> Option<f64> {
        match arch {
            Arch::X86_64 => Some(self.x86_64),
            Arch::Aarch64 => self.aarch64,
        }
    }

    /// Goal for the instructions per operation.
    pub(crate) fn goal(&self, arch: Arch) -> Option<f64> {
        self.goal.filter(|_| arch == Arch::X86_64)
    }
}

/// The kernel that is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Judged {
    /// The project's own, by all gates.
    Own(Arch),
    /// An installed one, by two.
    Installed(Arch),
}

impl Judged {
    /// The kernel of a run.
    pub(crate) const fn of(kernel: &Kernel) -> Self {
        if kernel.installed.is_some() { Self::Installed(kernel.arch) } else { Self::Own(kernel.arch) }
    }

    /// Instructions per operation of the benchmark `name`, at most.
    pub(super) fn most(self, name: &str) -> Option<f64> {
        match self {
            Self::Own(arch) => Gate::of(name)?.instructions(arch),
            Self::Installed(Arch::X86_64) => INSTALLED.iter().find(|(one, _)| *one == name).map(|(_, most)| *most),
            Self::Installed(Arch::Aarch64) => None,
        }
    }

    /// Goal for them.
    pub(super) fn goal(self, name: &str) -> Option<f64> {
        match self {
            Self::Own(arch) => Gate::of(name)?.goal(arch),
            Self::Installed(_) => None,
        }
    }
}

/// The current name of the benchmark `name`.
pub(crate) fn name_now(name: &str) -> &str {
    FORMER_NAMES.iter().find(|(former, _)| *former == name).map_or(name, |(_, now)| now)
}

/// The benchmarks, with a copy of each renamed one under its former name.
pub(super) fn with_former_names(benchmarks: &[Benchmark]) -> Vec<Benchmark> {
    let named = |former: &str, now: &str| {
        let benchmark = benchmarks.iter().find(|benchmark| benchmark.name == now);
        benchmark.map(|benchmark| Benchmark { name: former.to_owned(), ..benchmark.clone() })
    };
    let former = FORMER_NAMES.iter().filter_map(|(former, now)| named(former, now));
    benchmarks.iter().cloned().chain(former).collect()
}

/// The benchmarks whose costs limit that of `name`.
pub(super) fn judged_against(name: &str) -> impl Iterator<Item = &'static str> {
    NO_MORE_THAN.iter().filter(move |(one, ..)| *one == name).map(|(.., other)| *other)
}

/// A sentence for each gate that `one` misses; `others` are the benchmarks it is compared with. The run with the fewest
/// instructions is judged: the excess of other runs, polls without result and timer ticks, depends on the build machine. So does the
/// luck of one run, and the other benchmark is taken by its median.
pub(super) fn missed_by(judged: Judged, one: &Benchmark, others: &[Benchmark]) -> Vec<String> {
    let (mut missed, name, cost) = (Vec::new(), &one.name, one.spread.0);
    if let Some(most) = judged.most(name).filter(|most| cost > *most) {
        missed.push(format!("{name} takes {cost:.0} instructions an operation, and {most:.0} is the most"));
    }
    if let Judged::Installed(_) = judged {
        return missed;
    }
    if let Some(gate) = Gate::of(name).filter(|gate| one.doorbells_per_op > gate.doorbells) {
        let (doorbells, most) = (one.doorbells_per_op, gate.doorbells);
        missed.push(format!("{name} rings {doorbells:.3} doorbells, and {most} is the most"));
    }
    for (_, times, other) in NO_MORE_THAN.iter().filter(|(judged, ..)| judged == name) {
        let mut others = others.iter().filter(|known| known.name == *other).map(|known| known.instructions_per_op);
        if let Some(others) = others.rfind(|others| cost > times * others) {
            missed.push(format!(
                "{name} takes {cost:.0} instructions an operation, and {other} {others:.0}: {times} times that is the most"
            ));
        }
    }
    missed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::measuring;
    use capdl::Scenario;
    use std::collections::BTreeSet;
    use xtask::project::Project;

    fn benchmark(name: &str, instructions: f64, doorbells_per_op: f64) -> Benchmark {
        Benchmark {
            name: name.into(),
            instructions_per_op: instructions,
            doorbells_per_op,
            by_component: [].into(),
            spread: (instructions, instructions),
        }
    }

    #[test]
    fn every_benchmark_has_a_gate_and_every_gate_a_benchmark() {
        let project = Project::here().unwrap();
        let measured = |file| Scenario::load(file).unwrap().expect.measured;
        let measured: BTreeSet<_> = measuring(&project, "").unwrap().into_iter().flat_map(measured).collect();
        assert_eq!(measured, GATES.iter().map(|gate| gate.name.to_owned()).collect());
        assert_eq!(GATES.len(), measured.len(), "one gate each");
    }

    #[test]
    fn goals_are_below_gates() {
        for gate in GATES {
            let goal = gate.goal(Arch::X86_64).unwrap_or(0.0);
            assert!(goal <= gate.x86_64, "{}: lower the gate to the goal", gate.name);
        }
    }

    #[test]
    fn a_benchmark_above_its_gate_is_named() {
        let gate = Gate::of("read-4k-qd32-polled").unwrap();
        for arch in Arch::ALL {
            let most = gate.instructions(arch).unwrap();
            assert!(missed_by(Judged::Own(arch), &benchmark(gate.name, most, gate.doorbells), &[]).is_empty());
            let above = benchmark(gate.name, most + 1.0, gate.doorbells + 0.4);
            let [instructions, doorbells] = missed_by(Judged::Own(arch), &above, &[]).try_into().unwrap();
            assert!(
                instructions.contains(&format!("takes {:.0} instructions an operation", most + 1.0)),
                "{instructions}"
            );
            assert_eq!(doorbells, "read-4k-qd32-polled rings 0.500 doorbells, and 0.1 is the most");
        }
    }

    #[test]
    fn a_benchmark_that_costs_too_much_more_than_another_is_named() {
        let two = [benchmark("read-4k-2-tenants-qd8", 500.0, 0.1)];
        let many = |instructions| benchmark("read-4k-64-tenants-qd8", instructions, 0.1);
        assert!(missed_by(Judged::Own(Arch::X86_64), &many(549.0), &two).is_empty());
        let [sentence] = missed_by(Judged::Own(Arch::X86_64), &many(560.0), &two).try_into().unwrap();
        assert!(sentence.ends_with("and read-4k-2-tenants-qd8 500: 1.1 times that is the most"), "{sentence}");
        assert!(missed_by(Judged::Own(Arch::X86_64), &two[0], &[many(560.0)]).is_empty());
    }

    #[test]
    fn a_benchmark_keeps_its_former_name_beside_its_own() {
        let all = with_former_names(&[benchmark("read-4k-2-tenants-qd8", 500.0, 0.1), benchmark("ipc-call", 9.0, 0.0)]);
        let names: Vec<_> = all.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["read-4k-2-tenants-qd8", "ipc-call", "read-4k-2-tenants"]);
        assert_eq!((name_now("read-4k-2-tenants"), name_now("ipc-call")), ("read-4k-2-tenants-qd8", "ipc-call"));
    }

    #[test]
    fn an_installed_kernel_is_judged_by_two_gates() {
        let missed = |arch, name, cost| missed_by(Judged::Installed(arch), &benchmark(name, cost, 9.0), &[]).len();
        assert_eq!(missed(Arch::X86_64, "ipc-call", 950.0), 0);
        assert_eq!(missed(Arch::X86_64, "ipc-call", 951.0), 1);
        assert_eq!(missed(Arch::Aarch64, "ipc-call", 9_000.0), 0);
        assert_eq!(missed(Arch::X86_64, "signal-wait", 9_000.0), 0);
        assert!(INSTALLED.iter().all(|(name, _)| Gate::of(name).is_some()));
    }
}
