//! Values that their keys' types of numbers cannot have, as 300 or "x" for a key of 8 bits: the range of the key refuses them, as it does
//! 200.
//!
//! The ends of the type are put in the value's place. The sentence that refuses one of them, and not the other, gets the value as it is
//! written.

use super::repair::{Unread, replace};
use super::sentence::{key_of, most_of, written};
use crate::scenario::refusal::Refusal;
use std::ops::Range;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};

/// A value that its key's type of numbers cannot have.
pub(super) struct Beyond {
    pub(super) place: Range<usize>,
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

    /// Puts the nearest end of the type in the value's place.
    pub(super) fn put_nearest(&self, table: &mut DeTable<'_>) {
        self.put(self.ends[0], table);
    }

    fn put(&self, end: &'static str, table: &mut DeTable<'_>) {
        if let Ok(end) = DeValue::parse(end) {
            replace(table, &self.place, end.get_ref());
        }
    }

    /// The sentence about `end` in the number's place, about the number. A bound on the other side is no mend.
    fn mend<'a>(&self, end: &str, mut refusals: impl Iterator<Item = &'a Refusal>) -> Option<String> {
        let is_part = |c: char| c.is_alphanumeric() || "-_".contains(c);
        refusals.find_map(|Refusal { message, .. }| {
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

/// The refusals, those of numbers with the ranges of their keys, where `check` refuses an end of their type in the rest of the file.
pub(super) fn refine(unread: Unread<'_>, check: impl Fn(&Spanned<DeTable<'_>>) -> Vec<Refusal>) -> Vec<Refusal> {
    let Unread { mut refusals, numbers, rest } = unread;
    let Some(rest) = rest.filter(|_| !numbers.is_empty()) else { return refusals };
    let near = check(&rest);
    for (index, number) in numbers {
        let mut changed = rest.clone();
        number.put(number.ends[1], changed.get_mut());
        let far = check(&changed);
        // Refusals of both are about other parts of the file.
        let of_near = number.mend(number.ends[0], near.iter().filter(|one| !far.contains(one)));
        let mend = of_near.or_else(|| number.mend(number.ends[1], far.iter().filter(|one| !near.contains(one))));
        if let Some((refusal, mend)) = refusals.get_mut(index).zip(mend) {
            refusal.message = mend;
        }
    }
    refusals
}
