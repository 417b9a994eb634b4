//! The engine's side: each program in `targets/` is a target behind libFuzzer's entry points.

use crate::target::{Subject, Target};
use std::path::Path;
use std::sync::OnceLock;

/// The folder into which the target's seeds are written before the search starts.
pub const SEEDS: &str = "CAPNVME_FUZZ_SEEDS";
/// Set when the search has to find the planted defect.
pub const PLANTED: &str = "CAPNVME_FUZZ_PLANTED";

static SUBJECT: OnceLock<Subject> = OnceLock::new();

/// The program of a target.
#[macro_export]
macro_rules! engine {
    ($target:expr) => {
        ::libfuzzer_sys::fuzz_target!(init: $crate::engine::begin(&$target), |input: &[u8]| {
            $crate::engine::run(&$target, input);
        });
    };
}

/// Called before the first input.
pub fn begin(target: &Target) {
    if let Some(folder) = std::env::var_os(SEEDS) {
        // The simulator, which some seeds come from, installs a hook of its own for panics.
        let engines = std::panic::take_hook();
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            let file = Path::new(&folder).join(format!("seed-{number:03}"));
            std::fs::write(&file, seed).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
        }
        std::panic::set_hook(engines);
    }
}

/// Checks the law on an input.
pub fn run(target: &Target, input: &[u8]) {
    let planted = || if std::env::var_os(PLANTED).is_some() { Subject::Planted } else { Subject::Real };
    (target.law)(input, *SUBJECT.get_or_init(planted));
}
