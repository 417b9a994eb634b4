//! Defects of released kernels that the project's own kernel does not have: what a system on each kernel is not promised.
//!
//! Known from the sources of 13.0.0 to 16.0.0, which are alike in these places, and from the scenarios that show them. A later release is
//! taken to have them until it is looked at. Each is named for the correction that 5.0.0 gets ([`crate::fixes`]); the corrections that are
//! not here are in all these releases, or concern what they no longer have.

use crate::Arch;
use crate::fixes::FixName;
use crate::installed::Release;

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The correction of 5.0.0.
    pub fix: FixName,
    /// The architectures on which releases have the defect.
    pub on: &'static [Arch],
    /// The releases that have it.
    pub releases: Release,
    /// Words that complete the sentence "this kernel leaves".
    pub leaves: &'static str,
    /// Scenarios that show it, and others that rely on the correction; none where only the source shows it.
    pub shown_by: &'static [&'static str],
}

/// 13.0.0 and all later ones, until one is found that lacks the defect.
const FROM_13: Release = Release { first: 13, last: None };

/// All defects.
pub const GAPS: &[Gap] = &[
    Gap {
        fix: FixName::IoSpaceRevoke,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "to a driver the address space of a device that was taken from it",
        shown_by: &["probe-dma", "probe-revoke"],
    },
    Gap {
        fix: FixName::ContextCache,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "to a device the memory of a driver that ended, until the IOMMU forgets its tables",
        shown_by: &["probe-dma", "probe-revoke"],
    },
    Gap {
        fix: FixName::IoPageTable,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "the entries of an IOMMU's table that was unmapped, so that it must not be used again",
        shown_by: &["probe-dma", "probe-revoke"],
    },
    Gap {
        fix: FixName::SyscallFlags,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "to every thread a way to stop the machine: the nested-task flag at a system call",
        shown_by: &["hostile-processor"],
    },
    Gap {
        fix: FixName::InterruptDirection,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "to every thread the direction of the kernel's string instructions in interrupts",
        shown_by: &[],
    },
    Gap {
        fix: FixName::FastpathAsid,
        on: &[Arch::X86_64],
        releases: FROM_13,
        leaves: "a thread in an address space without an identifier, where the root task deletes ASID pools",
        shown_by: &[],
    },
    Gap {
        fix: FixName::TimerOwner,
        on: &[Arch::Aarch64],
        releases: FROM_13,
        leaves: "to every thread the timer of the supervisor, which it can stop",
        shown_by: &["hostile-processor"],
    },
];

impl Gap {
    /// Gaps of a release for an architecture. A kernel whose release is not known exactly has those of each that it may be.
    pub fn of(arch: Arch, release: Release) -> impl Iterator<Item = &'static Self> {
        GAPS.iter().filter(move |gap| gap.on.contains(&arch) && gap.releases.overlaps(release))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixes::Fix;

    #[test]
    fn a_gap_is_closed_by_a_correction_for_its_architectures() {
        for gap in GAPS {
            let fix = Fix::all().find(|fix| fix.name == gap.fix).unwrap();
            assert!(gap.on.iter().all(|arch| fix.on.contains(arch)), "{}", gap.fix);
            assert_eq!(GAPS.iter().filter(|other| other.fix == gap.fix).count(), 1, "{} is there twice", gap.fix);
        }
    }

    #[test]
    fn a_release_has_the_gaps_of_its_range() {
        let of = |first, last| Release { first, last };
        for (release, has) in [(of(13, Some(13)), true), (of(16, None), true), (of(12, Some(12)), false)] {
            assert_eq!(Gap::of(Arch::X86_64, release).count() > 0, has, "{release}");
        }
        assert!(!of(13, Some(15)).overlaps(of(16, None)) && of(16, None).overlaps(of(13, None)));
    }

    #[test]
    fn table_of_limits_has_each_gap() {
        let limits = include_str!("../../docs/limits.md");
        for Gap { fix, on, releases, leaves, shown_by } in GAPS {
            let on = if *on == [Arch::Aarch64] { "AArch64" } else { "x86_64" };
            let shown_by = if shown_by.is_empty() { "the source".to_owned() } else { shown_by.join(", ") };
            let row = format!("| {fix} | {on} | {releases} | {leaves} | {shown_by} |");
            assert!(limits.contains(&row), "docs/limits.md lacks the row {row}");
        }
    }
}
