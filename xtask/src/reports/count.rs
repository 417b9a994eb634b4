//! Numbers with their nouns.

use std::fmt::Display;

/// The number and the noun, which gets its plural with `s`: `1 wrong byte`, `2 wrong bytes`.
pub fn count(number: impl Display + PartialEq + From<u8>, noun: &str) -> String {
    let plural = if number == 1.into() { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_and_noun_agree() {
        assert_eq!([0u64, 1, 2].map(|runs| count(runs, "run")), ["0 runs", "1 run", "2 runs"]);
    }
}
