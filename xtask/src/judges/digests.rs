//! Compares digests with the range that the scenario names, and with those of the build machine.

use crate::records::results::{Compared, Results};
use capdl::Scenario;
use capdl::scenario::Workload;

/// Violations, one sentence each. `scenario` is the one that was run, with the user's disk in it.
pub fn violations(scenario: &Scenario, results: &Results) -> Vec<String> {
    results.digests.iter().filter_map(|digest| violation(scenario, digest)).collect()
}

fn violation(scenario: &Scenario, digest: &Compared) -> Option<String> {
    let name = &digest.tenant;
    let Some((first, bytes)) = range(scenario, name) else {
        return Some(format!("{name} reports a digest, and it was given nothing to digest"));
    };
    if (digest.first_byte, digest.bytes) != (first, bytes) {
        let (is_first, is_bytes) = (digest.first_byte, digest.bytes);
        return Some(format!(
            "{name} digested {is_bytes} bytes from byte {is_first} and not {bytes} bytes from byte {first}"
        ));
    }
    let must_be = scenario.expect.digests.iter().any(|tenant| *name == tenant.as_str());
    let differs = digest.build_machine_sha256.as_ref().map_or(must_be, |own| *own != digest.sha256);
    differs.then(|| format!("the digest of {name} is not that of the build machine"))
}

/// The range of its namespace that the tenant must digest: first byte and bytes.
fn range(scenario: &Scenario, tenant: &str) -> Option<(u64, u64)> {
    let tenant = scenario.tenants.iter().find(|one| one.name == tenant)?;
    let Workload::Digest(digest) = &tenant.workload else { return None };
    let block_bytes = u64::from(scenario.namespace(tenant)?.block_bytes);
    let [extent] = tenant.extents.as_slice() else { return None };
    let first = extent.first.checked_mul(block_bytes)?.checked_add(digest.first_byte)?;
    let all = extent.blocks.checked_mul(block_bytes)?.checked_sub(digest.first_byte)?;
    Some((first, if digest.bytes == 0 { all } else { digest.bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::{Digest, Report, clip};
    use std::time::Duration;

    fn scenario(workload: &str) -> Scenario {
        let text = format!(
            "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"64M\"\n\
             [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{{ first = 8, blocks = 1024 }}]\n{workload}\n\
             [expect]\ndigests = [\"w\"]\n"
        );
        Scenario::parse(&text, "t.toml").unwrap()
    }

    /// Judges a digest of a range, for which the build machine computed `own`.
    fn sentences(workload: &str, first_byte: u64, bytes: u64, own: Option<u8>) -> Vec<String> {
        let mut results = Results::default();
        let digest = Digest { tenant: clip("w"), first_byte, bytes, sha256: [0xab; 32] };
        results.add(Report::Digest(digest), Duration::ZERO);
        results.digests[0].build_machine_sha256 = own.map(|byte| crate::records::results::hex(&[byte; 32]));
        violations(&scenario(workload), &results)
    }

    const ALL: &str = "program.name = \"digest\"\n[tenant.program.config]";
    const PART: &str = "program.name = \"digest\"\n[tenant.program.config]\nfirst_byte = 512\nbytes = 4096";

    #[test]
    fn digest_covers_exactly_the_requested_bytes() {
        assert!(sentences(ALL, 4096, 524_288, Some(0xab)).is_empty());
        assert!(sentences(PART, 4608, 4096, Some(0xab)).is_empty());
    }

    #[test]
    fn a_digest_of_another_range_is_named_however_right_it_is() {
        let wrong = "w digested 512 bytes from byte 4096 and not 524288 bytes from byte 4096";
        assert_eq!(sentences(ALL, 4096, 512, Some(0xab)), [wrong]);
        let wrong = "w digested 4096 bytes from byte 4096 and not 4096 bytes from byte 4608";
        assert_eq!(sentences(PART, 4096, 4096, Some(0xab)), [wrong]);
        let wrong = "w reports a digest, and it was given nothing to digest";
        assert_eq!(sentences("program.name = \"bench\"\n[tenant.program.config]", 4096, 512, Some(0xab)), [wrong]);
    }

    #[test]
    fn differing_or_uncompared_digest_is_a_violation() {
        for own in [Some(0xba), None] {
            let wrong = sentences(ALL, 4096, 524_288, own);
            assert_eq!(wrong, ["the digest of w is not that of the build machine"]);
        }
    }
}
