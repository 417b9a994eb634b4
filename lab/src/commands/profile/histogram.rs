//! The histogram of program counters that the instruction counter writes (`plugin/histogram.c`), by component.

use anyhow::{Context, Result};
use std::collections::BTreeMap;
use xtask::machine::counts::{self, Instructions};

/// Instructions executed at each address.
pub(super) type Addresses = BTreeMap<u64, u64>;

/// The addresses of each component.
///
/// # Errors
/// A line that is not an address and a count.
pub(super) fn by_component(text: &str) -> Result<BTreeMap<String, Addresses>> {
    let mut all: BTreeMap<String, Addresses> = BTreeMap::new();
    for line in text.lines() {
        let (address, count) = parse(line).with_context(|| format!("the counter wrote a strange line: '{line}'"))?;
        *all.entry(counts::component(address)).or_default().entry(address).or_default() += count;
    }
    Ok(all)
}

/// The instructions of each component.
///
/// # Errors
/// As [`by_component`].
pub(super) fn sums(text: &str) -> Result<Instructions> {
    let all = by_component(text)?.into_iter();
    Ok(all.map(|(name, addresses)| (name, addresses.values().sum())).collect())
}

fn parse(line: &str) -> Option<(u64, u64)> {
    let (address, count) = line.split_once(':')?;
    Some((u64::from_str_radix(address, 16).ok()?, count.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_belong_to_the_component_whose_program_is_there() {
        let text = "4001000:7\n5000010:2\n4001004:9\nffffffff80100000:5\n";
        let all = by_component(text).unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["bench", "kernel", "nvme-server"]);
        assert_eq!(all.get("nvme-server"), Some(&Addresses::from([(0x0400_1000, 7), (0x0400_1004, 9)])));
        assert_eq!(sums(text).unwrap().get("nvme-server"), Some(&16));
        assert!(by_component("4001000\n").unwrap_err().to_string().contains("'4001000'"));
    }
}
