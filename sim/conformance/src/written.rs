//! The written sequences, by topic.

mod cnode;
mod cycles;
mod devices;
mod faults;
mod ipc;
mod stale;
mod strangers;
mod threads;
mod untyped;
mod vspace;

use crate::script::{OWN_RULES, Rules, Script};
use sim_kernel::Arch;

/// Sequences in which a stock kernel differs, by what the model leaves out: `sim/FIDELITY.md` has the reasons.
const DIFFERING: [(&str, Arch); 1] = [("a mapping has the rights of both the capability and the call", Arch::X86_64)];

/// All sequences by topic.
#[must_use]
pub fn all() -> Vec<Script> {
    [
        untyped::all(),
        cnode::all(),
        cycles::all(),
        vspace::all(),
        strangers::all(),
        stale::all(),
        devices::all(),
        threads::all(),
        ipc::all(),
        faults::all(),
    ]
    .concat()
}

/// The sequences for a kernel of this architecture with these rules.
#[must_use]
pub fn of(arch: Arch, rules: Rules) -> Vec<Script> {
    let mut scripts: Vec<_> = all().into_iter().map(|script| script.on(arch).under(rules)).collect();
    scripts.retain(|script| rules == OWN_RULES || !DIFFERING.contains(&(script.name.as_str(), arch)));
    scripts
}

/// Name of the file below `sim/conformance/journals/` with the kernel's answers to [`of`], as its serial line gave them.
#[must_use]
pub fn journal(arch: Arch, rules: Rules) -> String {
    format!("{arch}{}", if rules == OWN_RULES { "" } else { "-stock" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model;
    use crate::script::KERNELS;
    use std::collections::BTreeSet;

    #[test]
    fn every_sequence_ends_on_the_model_and_does_the_same_again() {
        let of = |(arch, rules)| all().into_iter().map(move |script| script.on(arch).under(rules));
        for script in KERNELS.into_iter().flat_map(of) {
            let journal = model::run(&script).unwrap_or_else(|stuck| panic!("{}: {stuck:?}", script.name));
            let root = journal.iter().filter(|entry| entry.thread == 0).count();
            let calls = script.threads[0].iter().filter(|op| **op != crate::Op::Nothing).count();
            assert_eq!(root, calls, "{}: the root thread has finished", script.name);
            assert_eq!(model::run(&script), Ok(journal), "{}", script.name);
        }
    }

    #[test]
    fn names_distinguish_sequences() {
        let names: BTreeSet<_> = all().into_iter().map(|script| script.name).collect();
        assert_eq!(names.len(), all().len());
    }
}
