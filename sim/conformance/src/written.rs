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

use crate::script::Script;

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
