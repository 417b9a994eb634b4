//! Scenarios by seed: a system, its tenants' work, and what goes wrong, all drawn, as the text of a scenario file.
//! The seed is in the text, for the run. What a seed draws changes with this file; a text that once failed is kept as a
//! file of its own, in `scenarios/found/`.
//!
//! What is drawn is possible and survivable: the run must pass. Tenants make again what the controller fails; so a fault of
//! the controller costs time and never data.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write as _;

/// The scenario of a seed.
#[must_use]
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw(Pcg64Mcg::seed_from_u64(seed ^ 0x5eed_50a4));
    let description = format!("A system drawn from seed {seed}.");
    let mut text = format!("name = \"soak-{seed}\"\ndescription = \"{description}\"\nseed = {seed}\n\n");
    let controllers = 1 + draw.one_in(4);
    for controller in 0..controllers {
        draw.controller(controller, controllers, &mut text);
    }
    // Who polls must not keep those away from the processor whom it waits for.
    let completions = if draw.one_in(3) == 1 {
        text.push_str("[server]\npriority = 100\n\n[console]\npriority = 100\n\n");
        &["interrupt", "hybrid", "polled"][..]
    } else {
        &["interrupt"][..]
    };
    for controller in 0..controllers {
        draw.tenants(controller, completions, &mut text);
    }
    for _ in 0..draw.below(4) {
        draw.fault(controllers, &mut text);
    }
    text.push_str("[expect]\ntimeout_seconds = 600\nresets = true\n");
    text
}

/// Blocks of the only namespace of a drawn controller.
const BLOCKS: u64 = 65_536;

struct Draw(Pcg64Mcg);

impl Draw {
    /// A number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound.max(1)
    }

    /// 1 once in `times`, else 0.
    fn one_in(&mut self, times: u64) -> u64 {
        u64::from(self.below(times) == 0)
    }

    fn one_of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        let index = self.below(choices.len() as u64) as usize;
        choices.get(index).copied().unwrap_or_default()
    }

    fn controller(&mut self, number: u64, controllers: u64, text: &mut String) {
        let attach = self.one_of(&["root", "root-port", "switch", "bridge"]);
        // Two pins may come to share one of the I/O APIC's, which the PCI server gives to one driver alone.
        let pin = self.one_in(4) == 1 && controllers == 1;
        let interrupts = if pin { "intx" } else { "msix" };
        let block_bytes = [512, 4096][self.below(2) as usize];
        let size = BLOCKS * block_bytes;
        let media = self.one_of(&["open-express", "dram", "mram", "pram", "flash"]);
        let (stride, queue_entries) = (self.below(5), 64 << self.below(6));
        let (max_transfer, write_cache) = (3 + self.below(5), [0, 1 << 20][self.below(2) as usize]);
        let arbitration = self.one_of(&["round-robin", "weighted-round-robin"]);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[controller]]\nname = \"disk-{number}\"\nattach = \"{attach}\"\ninterrupts = \"{interrupts}\"\n\
             model = {{ media = \"{media}\", doorbell_stride = {stride}, queue_entries = {queue_entries}, \
             max_transfer = {max_transfer}, write_cache = {write_cache}, arbitration = \"{arbitration}\" }}\n\n\
             [[controller.namespace]]\nsize = {size}\nblock_bytes = {block_bytes}\ncontent = \"pattern\"\n\n"
        );
    }

    fn tenants(&mut self, controller: u64, completions: &[&str], text: &mut String) {
        let tenants = 1 + self.below(4);
        let share = BLOCKS / tenants;
        for number in 0..tenants {
            let class = self.one_of(&["urgent", "high", "medium", "low"]);
            let completion = self.one_of(completions);
            let (queue_pairs, depth) = (1 + self.below(3), 1 << self.below(6));
            let first = share * number;
            let _ = write!(
                text,
                "[[tenant]]\nname = \"t{controller}-{number}\"\ncontroller = \"disk-{controller}\"\n\
                 class = \"{class}\"\nqueue_pairs = {queue_pairs}\ndepth = {depth}\nwindow = \"4M\"\ncompletion = \"{completion}\"\n\
                 extents = [{{ first = {first}, blocks = {share} }}]\n\n"
            );
            self.load(text);
        }
    }

    fn load(&mut self, text: &mut String) {
        let pattern = self.one_of(&["random", "sequential"]);
        let block_bytes = 4096u64 << self.below(3);
        let max_block_bytes = [0, block_bytes * 4][self.below(2) as usize];
        let (read_percent, depth) = (self.below(101), 1 + self.below(16));
        let (operations, seed) = (100 + self.below(900), self.below(1 << 32));
        let (misalign, segments) = (4 * self.below(2), 1 + self.below(2));
        let flush_every = [0, 16, 64][self.below(3) as usize];
        let zeroes = self.one_in(3) == 1;
        let _ = write!(
            text,
            "[tenant.workload.bench]\npattern = \"{pattern}\"\nblock_bytes = {block_bytes}\n\
             max_block_bytes = {max_block_bytes}\nread_percent = {read_percent}\ndepth = {depth}\n\
             operations = {operations}\nmisalign_bytes = {misalign}\nsegments = {segments}\n\
             flush_every = {flush_every}\nzeroes = {zeroes}\nretries = 8\nseed = {seed}\n\n"
        );
    }

    fn fault(&mut self, controllers: u64, text: &mut String) {
        let controller = self.below(controllers);
        let per_million = 100 + self.below(5_000);
        let command = |effect: &str, times: u64| {
            format!(
                "command = {{ controller = \"disk-{controller}\", per_million = {per_million}, times = {times}, \
                 effect = {effect} }}\n"
            )
        };
        let at_ns = 1_000_000 + self.below(50_000_000);
        let control = |effect: &str| {
            format!("controller = {{ controller = \"disk-{controller}\", at_ns = {at_ns}, effect = {effect} }}\n")
        };
        let fault = match self.below(9) {
            0 => command("{ delay = { ns = 3000000 } }", 50),
            1 => command("{ status = { sct = 2, sc = 0x81 } }", 20),
            2 => command("\"drop-completion\"", 2),
            3 => command("\"duplicate-completion\"", 2),
            4 => command("\"wrong-cid\"", 2),
            5 => command("\"wrong-sqhd\"", 2),
            6 => command("\"lose-interrupt\"", 20),
            7 => control("\"fatal-status\""),
            _ => control("{ spurious-interrupt = { vector = 1 } }"),
        };
        let _ = write!(text, "[[fault]]\n{fault}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl::Scenario;

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
        let drawn: Vec<_> = (0..100).map(|seed| Scenario::parse(&scenario(seed), "drawn").unwrap()).collect();
        assert!(drawn.iter().any(|one| one.controllers.len() == 2));
        assert!(drawn.iter().any(|one| one.tenants.len() > 3));
        assert!(drawn.iter().any(|one| one.faults.is_empty()));
        assert!(drawn.iter().any(|one| one.faults.len() == 3));
    }
}
