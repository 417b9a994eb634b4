//! Refusals of names.

use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{CONTROL, EDU_DRIVER, IOMMU_SERVER, PROBE};
use std::collections::BTreeSet;

pub(super) fn check_name(what: &str, name: &str, longest: usize, line: usize) -> Checked {
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let letter_first = name.starts_with(|first: char| first.is_ascii_lowercase());
    if !letter_first || name.len() > longest || !name.bytes().all(good) {
        return refuse(
            line,
            format!(
                "{what} name `{}` is not a letter and up to {longest} of a-z, 0-9 and `-` in all: rename it",
                name.escape_debug()
            ),
        );
    }
    let reserved = ["console", "root-task", "pci-server", IOMMU_SERVER, "policy", PROBE, EDU_DRIVER, CONTROL]
        .contains(&name)
        || name.starts_with("nvme-server")
        || name.starts_with("policy-");
    if what == "tenant" && reserved {
        return refuse(line, format!("tenant name `{name}` is a system component's: rename it"));
    }
    Ok(())
}

pub(super) fn check_unique<'a>(what: &str, name: &'a str, names: &mut BTreeSet<&'a str>, line: usize) -> Checked {
    if names.insert(name) {
        return Ok(());
    }
    refuse(line, format!("{what} `{name}` is there twice: rename one of them"))
}
