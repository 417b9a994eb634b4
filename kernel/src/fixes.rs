//! The defects of seL4 5.0.0 on x86_64 and AArch64, and their corrections.
//!
//! A correction is a list of edits to a *copy* of the kernel's source. Each edit names a file and an anchor, a text as
//! short as can be unique. The edit fails unless the anchor is found exactly once, so that another version of the source is
//! noticed and not built half corrected. Each correction can be left out by name: the tests fail without it
//! ([`crate::regress`]). The corrections themselves are in a module for each architecture and one for both.
//!
//! Three of them, `fastpath-reply`, `short-signal` and `short-wait`, make the kernel quicker and change nothing else: their defect is the
//! number of instructions, and that is what their tests count.

mod aarch64;
mod shared;
mod x86_64;

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

use crate::Arch;
use crate::files;

/// The name of a correction, as the command line and the folder names spell it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FixName {
    /// The kernel's stack starts on a boundary of its size.
    StackAlignment,
    /// Deleting any copy of a frame capability removes the mapping made through it.
    FrameCopy,
    /// Removing a device's IO address space empties the IOMMU's context cache.
    ContextCache,
    /// Counting bits needs no routine of the compiler's library.
    Popcount,
    /// A badge that does not fit an endpoint capability is an error.
    EndpointBadge,
    /// An unmapped IO page table is empty and has no copies.
    IoPageTable,
    /// Revoking an IOSpace capability deletes the capabilities derived from it.
    IoSpaceRevoke,
    /// A system call leaves none of the caller's flags in the kernel.
    SyscallFlags,
    /// An interrupt or exception leaves the direction of string instructions as compiled code needs it.
    InterruptDirection,
    /// A thread runs with its own segment bases, whatever the thread before it did to them.
    SegmentBases,
    /// User level ends a page below the addresses that are not canonical.
    UserTop,
    /// A thread that is suspended after its system call was finished continues after it.
    SuspendAfterCall,
    /// Only the root task may use the processor's physical timer.
    TimerOwner,
    /// A deleted thread's floating point registers are written nowhere.
    FpuOwner,
    /// Changing the mapping of a frame whose table is gone is an error.
    FrameRemap,
    /// Cache operations act where the frame is mapped, and nowhere else.
    FrameFlush,
    /// The fastpath does not switch to a thread whose address space lost its identifier.
    FastpathAsid,
    /// An answer to a less urgent caller takes the fastpath when nobody between the two is ready.
    FastpathReply,
    /// A signal is sent without decoding an invocation.
    ShortSignal,
    /// A wait for which nothing is there blocks at once.
    ShortWait,
}

impl FixName {
    /// The spelling on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::StackAlignment => "stack-alignment",
            Self::FrameCopy => "frame-copy",
            Self::ContextCache => "context-cache",
            Self::Popcount => "popcount",
            Self::EndpointBadge => "endpoint-badge",
            Self::IoPageTable => "io-page-table",
            Self::IoSpaceRevoke => "io-space-revoke",
            Self::SyscallFlags => "syscall-flags",
            Self::InterruptDirection => "interrupt-direction",
            Self::SegmentBases => "segment-bases",
            Self::UserTop => "user-top",
            Self::SuspendAfterCall => "suspend-after-call",
            Self::TimerOwner => "timer-owner",
            Self::FpuOwner => "fpu-owner",
            Self::FrameRemap => "frame-remap",
            Self::FrameFlush => "frame-flush",
            Self::FastpathAsid => "fastpath-asid",
            Self::FastpathReply => "fastpath-reply",
            Self::ShortSignal => "short-signal",
            Self::ShortWait => "short-wait",
        }
    }
}

impl fmt::Display for FixName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for FixName {
    type Err = anyhow::Error;

    /// Fails on an unknown name, and lists the known ones.
    fn from_str(text: &str) -> Result<Self> {
        Fix::all().map(|fix| fix.name).find(|name| name.as_str() == text).with_context(|| {
            let known: Vec<_> = Fix::all().map(|fix| fix.name.as_str()).collect();
            format!("there is no kernel fix named '{text}'; the fixes are {}", known.join(", "))
        })
    }
}

/// A replacement in one file of the kernel's source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The file, relative to the kernel's source folder.
    pub file: &'static str,
    /// The text to replace; it must occur exactly once.
    pub anchor: &'static str,
    /// The text that replaces it.
    pub replacement: &'static str,
}

/// A defect of the kernel and the edits that correct it.
#[derive(Clone, Copy, Debug)]
pub struct Fix {
    /// The fix's name.
    pub name: FixName,
    /// The architectures with the defect: the other's code is right, or has no such thing.
    pub on: &'static [Arch],
    /// The defect, its cause, and its effect on a system without the correction.
    pub explanation: &'static str,
    /// The edits, in the order in which they are applied.
    pub edits: &'static [Edit],
}

impl Fix {
    /// Every correction, in the order of application.
    pub fn all() -> impl Iterator<Item = &'static Fix> {
        [x86_64::FIXES, aarch64::FIXES, shared::FIXES].into_iter().flatten()
    }

    /// Fixes of an architecture, in the order of application.
    pub fn of(arch: Arch) -> impl Iterator<Item = &'static Fix> {
        Self::all().filter(move |fix| fix.on.contains(&arch))
    }

    /// Applies the correction to the copy of the source in `folder`.
    ///
    /// Fails when a file cannot be read or written, and when an anchor is not found exactly once.
    pub fn apply(&self, folder: &Path) -> Result<()> {
        for edit in self.edits {
            edit.apply(folder).with_context(|| format!("kernel fix '{}' does not apply", self.name))?;
        }
        Ok(())
    }
}

impl Edit {
    fn apply(&self, folder: &Path) -> Result<()> {
        let path = folder.join(self.file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let edited = replace_once(&text, self.anchor, self.replacement).with_context(|| format!("in {}", self.file))?;
        files::write_whole(&path, edited.as_bytes())
    }
}

/// `text` with the only occurrence of `anchor` replaced; an error when there is none, or more than one.
fn replace_once(text: &str, anchor: &str, replacement: &str) -> Result<String> {
    match text.matches(anchor).count() {
        1 => Ok(text.replacen(anchor, replacement, 1)),
        0 => bail!("the anchor {anchor:?} is not there; is this the pinned version of the source?"),
        count => bail!("the anchor {anchor:?} is there {count} times instead of once"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_found_once_is_replaced() {
        assert_eq!(replace_once("a b c", "b", "x").unwrap(), "a x c");
    }

    #[test]
    fn an_anchor_that_is_missing_is_an_error_that_quotes_it() {
        let error = replace_once("a b c", "d", "x").unwrap_err().to_string();
        assert!(error.contains("\"d\" is not there"), "{error}");
    }

    #[test]
    fn an_anchor_found_twice_is_an_error_that_counts() {
        let error = replace_once("a b b", "b", "x").unwrap_err().to_string();
        assert!(error.contains("\"b\" is there 2 times instead of once"), "{error}");
    }

    #[test]
    fn a_fix_that_does_not_apply_names_itself_and_the_file() {
        let folder = std::env::temp_dir().join(format!("kernel-fix-{}", std::process::id()));
        let file = folder.join("include/util.h");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "nothing to find here").unwrap();
        let fix = Fix::all().find(|fix| fix.name == FixName::Popcount).unwrap();
        let error = format!("{:#}", fix.apply(&folder).unwrap_err());
        fs::remove_dir_all(&folder).unwrap();
        assert!(error.contains("'popcount'") && error.contains("include/util.h"), "{error}");
    }

    #[test]
    fn every_name_is_read_back() {
        for fix in Fix::all() {
            assert_eq!(fix.name.to_string().parse::<FixName>().unwrap(), fix.name);
        }
    }

    #[test]
    fn an_unknown_name_lists_the_known_ones() {
        let error = "stack".parse::<FixName>().unwrap_err().to_string();
        assert!(error.contains("'stack'") && error.contains("stack-alignment, frame-copy"), "{error}");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = Fix::all().map(|fix| fix.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), Fix::all().count());
    }
}
