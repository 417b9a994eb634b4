//! The kernel's model answers the written sequences as seL4 did.
//!
//! `journals/` has the answers of seL4 5.0.0 with this project's corrections and of an installed kernel, as the serial line gave them.
//! `cargo xtask conformance` says when they are out of date.

#![forbid(unsafe_code)]

use sim_conformance::compare::difference;
use sim_conformance::line::Line;
use sim_conformance::script::{OWN_RULES, Rules};
use sim_conformance::{model, written};
use sim_kernel::Arch;

#[test]
fn the_model_answers_as_the_kernels_did() {
    for (arch, rules) in Arch::ALL.into_iter().flat_map(|arch| [OWN_RULES, Rules::STOCK].map(|rules| (arch, rules))) {
        let name = written::journal(arch, rules);
        let mut line = Line::default();
        line.take(&std::fs::read(format!("journals/{name}")).unwrap());
        assert!(line.ended && line.failure.is_none(), "{name}: {:?}", line.failure);
        let scripts = written::of(arch, rules);
        assert_eq!(line.journals.len(), scripts.len(), "{name} has the journals of other sequences");
        for (script, journal) in scripts.iter().zip(&line.journals) {
            let own = model::run(script).unwrap_or_else(|stuck| panic!("{}: {stuck:?}", script.name));
            assert_eq!(difference(script, &own, journal), None, "{name}");
        }
    }
}
