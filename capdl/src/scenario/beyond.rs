//! Numbers beyond their keys' types, as 300 is for a key of 8 bits: the range of the key refuses them, as it does 200.
//!
//! The ends of the type are put in the number's place. The sentence that refuses one of them gets the number as it is written.

use super::repair::replace;
use super::sentence::{key_of, most_of};
use super::validate::Refusal;
use std::ops::Range;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};

/// A number that its key's type cannot have.
pub(super) struct Beyond {
    place: Range<usize>,
    key: String,
    number: i128,
    /// Ends of the type, the nearest to the number first.
    ends: [&'static str; 2],
}

impl Beyond {
    /// The number that an error of the reader is about, if it is such an error.
    pub(super) fn of(text: &str, error: &de::Error) -> Option<Self> {
        let (found, expected) = error.message().split_once("integer `")?.1.split_once('`')?;
        let (number, most) = (found.parse().ok()?, most_of(expected.strip_prefix(", expected ")?)?);
        let place = error.span()?;
        let key = key_of(text, place.start)?.rsplit('.').next()?.to_owned();
        Some(Self { place, key, number, ends: if number < 0 { ["0", most] } else { [most, "0"] } })
    }

    /// The sentence about `end` in the number's place, about the number. A bound on the other side is no mend.
    fn mend(&self, end: &str, refusals: &[Refusal]) -> Option<String> {
        let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
        refusals.iter().find_map(|Refusal { message, .. }| {
            let (fault, mend) = message.rsplit_once(": ")?;
            let names_key = fault.contains(&self.key) || fault.contains(&self.key.replace('_', " "));
            let names_range = mend.contains(|c: char| c.is_ascii_digit()) && !mend.ends_with("or more");
            let mut from = 0;
            while let Some(at) = fault.get(from..)?.find(end).map(|at| from + at) {
                let (before, after) = (fault.get(..at)?, fault.get(at + end.len()..)?);
                if names_key && names_range && !before.ends_with(is_part) && !after.starts_with(is_part) {
                    return Some(format!("{before}{}{after}: {mend}", self.number));
                }
                from = at + end.len();
            }
            None
        })
    }
}

/// Refuses the numbers with the ranges of their keys, where `check` refuses an end of their type; otherwise as `refusals` do, one for each
/// number.
pub(super) fn refine(
    document: &Spanned<DeTable<'_>>,
    numbers: &[Beyond],
    refusals: &mut [Refusal],
    check: impl Fn(&Spanned<DeTable<'_>>) -> Vec<Refusal>,
) {
    let with = |end: fn(&Beyond) -> &'static str| {
        let mut changed = document.clone();
        for number in numbers {
            if let Ok(end) = DeValue::parse(end(number)) {
                replace(changed.get_mut(), &number.place, end.get_ref());
            }
        }
        check(&changed)
    };
    let [near, far] = [with(|number| number.ends[0]), with(|number| number.ends[1])];
    for (number, refusal) in numbers.iter().zip(refusals) {
        let mend = number.mend(number.ends[0], &near).or_else(|| number.mend(number.ends[1], &far));
        refusal.message = mend.unwrap_or_else(|| std::mem::take(&mut refusal.message));
    }
}
