//! Scenarios by seed: a system, its tenants' work, and its faults, all drawn, as the text of a scenario file.
//! The text contains the seed of the run. The draws of a seed change with this module, so a text that once failed is kept as a
//! file of its own, in `scenarios/found/`.
//!
//! `system` draws controllers and tenants, `functions` tenants with virtual functions, `faults` the faults, `deaths` the servers that die and are started again. The
//! machine is drawn first, x86_64's or AArch64's. All that is drawn is possible and survivable, and its result is known: which
//! tenant ends or is expelled, which controller is lost. So the run must pass, judged by the text's own expectations. Left
//! out: data that a controller corrupts, which makes a tenant fail, and components other than clients that die for good.

mod deaths;
mod faults;
mod functions;
mod system;

use capdl::Arch;
use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write as _;

/// A scenario whose run must fail: a soak in which it passes judges nothing.
pub const CANARY: &str = include_str!("soak/canary.toml");

/// Returns the scenario of a seed.
#[must_use]
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed ^ 0x5eed_50a4));
    let description = format!("A system drawn from seed {seed}.");
    let mut text = format!("name = \"soak-{seed}\"\ndescription = \"{description}\"\nseed = {seed}\n\n");
    let mut expect = Expect::default();
    let mut controllers = system::draw(&mut draw, &mut expect, &mut text);
    functions::draw(&mut draw, &mut controllers, &mut expect, &mut text);
    faults::draw(&mut draw, &controllers, &mut expect, &mut text);
    let arch = draw.one_of(&Arch::ALL);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "[machine]\narch = \"{}\"\n", arch.name());
    deaths::draw(&mut draw, arch, &controllers, &mut expect, &mut text);
    expect.write(&mut text);
    text
}

/// A drawn controller, as far as the faults depend on it.
struct Controller {
    name: String,
    /// The component of the controller's server.
    server: String,
    /// The controller's policy component.
    policy: String,
    /// The controller's tenants with loads, which retry requests that the controller fails.
    loads: Vec<String>,
    /// The controller's tenant that attacks, if any. It would hold a failed request against the server.
    attacker: Option<String>,
    /// A vector that it has: 1, or 0 where there is only that.
    vector: u64,
    /// The controller's virtual functions.
    functions: u64,
    /// The tenants with loads that drive them.
    function_loads: Vec<String>,
}

/// The expected results, by name: see `capdl::scenario::Expect`.
#[derive(Default)]
struct Expect {
    attackers: Vec<String>,
    expelled: Vec<String>,
    unfinished: Vec<String>,
    faults: Vec<String>,
    lost: Vec<String>,
    /// Components that die and are started again.
    restarted: Vec<String>,
}

impl Expect {
    fn write(&self, text: &mut String) {
        text.push_str("[expect]\ntimeout_seconds = 600\nresets = true\nfaults_may_miss = true\n");
        let Self { attackers, expelled, unfinished, faults, lost, restarted } = self;
        let lists = [
            ("attackers", attackers),
            ("expelled", expelled),
            ("unfinished", unfinished),
            ("faults", faults),
            ("lost", lost),
        ];
        for (key, names) in lists.into_iter().filter(|(_, names)| !names.is_empty()) {
            // Names without quotes in them are written in Rust as in TOML; and writing to a string cannot fail.
            let _ = writeln!(text, "{key} = {names:?}");
        }
        for name in restarted {
            let _ = writeln!(text, "restarts.{name} = 1");
        }
    }
}

/// The source of all draws.
struct Draw(Pcg64Mcg);

impl Draw {
    /// Draws a number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    /// Returns true once in `times`.
    fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Draws one of `choices`, of which there is at least one.
    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        let index = self.below(choices.len() as u64) as usize;
        choices[index].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl::Scenario;
    use capdl::scenario::Interrupts;

    fn drawn(count: u64) -> Vec<Scenario> {
        (0..count).map(|seed| Scenario::parse(&scenario(seed), "drawn").unwrap()).collect()
    }

    #[test]
    fn what_is_drawn_is_a_scenario_and_always_the_same() {
        for seed in 0..300 {
            let text = scenario(seed);
            assert_eq!(text, scenario(seed));
            if let Err(error) = Scenario::parse(&text, "drawn") {
                panic!("seed {seed}: {error}\n{text}");
            }
        }
    }

    #[test]
    fn seeds_differ_in_their_systems_and_faults() {
        let drawn = drawn(100);
        assert!(drawn.iter().any(|one| one.controllers.len() == 2));
        assert!(drawn.iter().any(|one| one.tenants.len() > 3));
        assert!(Arch::ALL.iter().all(|arch| drawn.iter().any(|one| one.machine.arch == *arch)));
        assert!(drawn.iter().any(|one| one.faults.is_empty()));
        assert!(drawn.iter().any(|one| one.faults.len() == 3));
        let mut controllers = drawn.iter().flat_map(|one| &one.controllers);
        assert!(controllers.clone().any(|one| one.virtual_functions == 3));
        assert!(controllers.any(|one| one.changes.iter().any(|change| change.interrupts == Interrupts::Msi)));
    }

    #[test]
    fn seeds_differ_in_what_comes_of_them() {
        let drawn = drawn(1200);
        assert!(drawn.iter().any(|one| !one.expect.attackers.is_empty()));
        let functions = || drawn.iter().flat_map(|one| one.tenants.iter().map(move |tenant| (one, tenant)));
        let mut functions = functions().filter(|(_, tenant)| tenant.path == capdl::scenario::Path::Function);
        assert!(functions.clone().any(|(one, tenant)| one.expect.attackers.contains(&tenant.name)));
        assert!(functions.any(|(one, tenant)| one.expect.restarts.contains_key(&tenant.name)));
        assert!(drawn.iter().any(|one| !one.expect.expelled.is_empty()));
        assert!(drawn.iter().any(|one| !one.expect.unfinished.is_empty()));
        assert!(drawn.iter().any(|one| !one.expect.faults.is_empty()));
        assert!(drawn.iter().any(|one| !one.expect.lost.is_empty()));
        let controllers = || drawn.iter().flat_map(|one| &one.controllers);
        assert!(controllers().any(|one| !one.quirks.is_empty()));
        assert!(controllers().any(|one| one.model.dmrsl == 1 && one.model.retry_delays[1] > 0));
        let later = || controllers().flat_map(|one| &one.later);
        assert!(later().any(|one| one.serial.is_some()) && later().any(|one| one.queue_pairs.is_some()));
        assert!(later().any(|one| one.max_transfer.is_some()));
        assert!(controllers().any(|one| one.model.d3hot && one.model.bridges_d3hot && one.model.soft_reset));
        assert!(controllers().any(|one| one.model.masks_left && !one.saved.is_empty()));
        assert!(controllers().any(|one| one.vectors == 1 && one.memory_buffer > 0 && one.model.table_bar));
        for component in ["pci-server", "iommu-server", "nvme-server", "policy"] {
            assert!(drawn.iter().any(|one| one.expect.restarts.contains_key(component)), "{component}");
        }
    }

    #[test]
    fn somebody_is_always_there_whose_work_must_be_done() {
        for one in drawn(300) {
            let capdl::scenario::Expect { attackers, faults, lost, .. } = &one.expect;
            let is_excused = |name| attackers.contains(name) || faults.contains(name);
            let mut others = one.tenants.iter().filter(|tenant| !lost.contains(&tenant.controller));
            assert!(others.any(|tenant| !is_excused(&tenant.name)), "{}", one.name);
        }
    }
}
