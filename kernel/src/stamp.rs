//! The stamp of a built kernel: a digest of all its inputs. A kernel with an equal stamp needs no build.

use sha2::{Digest, Sha256};

use crate::configure::Config;
use crate::fixes::Fix;

/// Changes when [`crate::build()`] puts other files into the output folder, or makes them in another way.
const RECIPE: &str = "recipe 6";

/// The digest, as hexadecimal text, of the source's version, the platform added to it, the configuration, the fixes
/// applied, and the tools.
pub(crate) fn stamp(source_version: &str, overlay: &[String], config: &Config, fixes: &[&Fix], tools: &str) -> String {
    let mut hash = Sha256::new();
    let mut part = |text: &str| {
        // The length keeps two different lists of parts from running together into the same bytes.
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    part(RECIPE);
    part(source_version);
    for text in overlay {
        part(text);
    }
    part(&config.header());
    part(tools);
    for fix in fixes {
        part(fix.name.as_str());
        for edit in fix.edits {
            part(edit.file);
            part(edit.anchor);
            part(edit.replacement);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arch;
    use crate::build::Profile;

    fn all() -> Vec<&'static Fix> {
        Fix::all().collect()
    }

    #[test]
    fn the_same_inputs_give_the_same_stamp() {
        let config = Config::new(Arch::X86_64, Profile::Release);
        assert_eq!(stamp("1", &[], &config, &all(), "gcc"), stamp("1", &[], &config, &all(), "gcc"));
    }

    #[test]
    fn every_input_changes_the_stamp() {
        let release = Config::new(Arch::X86_64, Profile::Release);
        let stamps = [
            stamp("1", &[], &release, &all(), "gcc"),
            stamp("2", &[], &release, &all(), "gcc"),
            stamp("1", &["a platform".into()], &release, &all(), "gcc"),
            stamp("1", &[], &Config::new(Arch::X86_64, Profile::Debug), &all(), "gcc"),
            stamp("1", &[], &release, &all()[1..], "gcc"),
            stamp("1", &[], &release, &all(), "gcc 13"),
        ];
        for (index, stamp) in stamps.iter().enumerate() {
            assert!(!stamps[..index].contains(stamp), "{index}");
        }
    }
}
