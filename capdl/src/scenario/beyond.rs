//! Values that their keys' types of numbers cannot have, as 300 or "x" for a key of 8 bits: the range of the key refuses them, as it does
//! 200.
//!
//! The ends of the type are put in the value's place. The sentence that refuses one of them gets the value as it is written.

use super::repair::replace;
use super::sentence::{key_of, most_of, written};
use super::validate::Refusal;
use std::ops::Range;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};

/// A value that its key's type of numbers cannot have.
pub(super) struct Beyond {
    place: Range<usize>,
    key: String,
    value: String,
    /// Ends of the type, the nearest to the value first.
    ends: [&'static str; 2],
}

impl Beyond {
    /// The value that an error of the reader is about, if it is such an error.
    pub(super) fn of(text: &str, error: &de::Error) -> Option<Self> {
        let (found, expected) =
            error.message().strip_prefix("invalid ")?.split_once(": ")?.1.rsplit_once(", expected ")?;
        let (value, most) = (written(found), most_of(expected)?);
        let place = error.span().filter(|_| !["map", "sequence"].contains(&found))?;
        let key = key_of(text, place.start)?.rsplit('.').next()?.to_owned();
        let ends = if value.starts_with('-') { ["0", most] } else { [most, "0"] };
        Some(Self { place, key, value: value.to_owned(), ends })
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
                    return Some(format!("{before}{}{after}: {mend}", self.value));
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
