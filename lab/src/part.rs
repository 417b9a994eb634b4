//! `--part K/N`: one of N parts of a range, for N machines that share its runs.
//!
//! The parts follow each other, cover the range, and differ in size by one run at most. A range of fewer runs than parts has empty ones.

use anyhow::{Result, bail};
use std::ops::Range;
use std::str::FromStr;
use xtask::arguments;

/// A part of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Part {
    /// Number of the part, from 0.
    number: u64,
    /// Number of parts; more than `number`.
    of: u64,
}

impl FromStr for Part {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let number = |text: &str| arguments::seed(text).ok();
        match text.split_once('/').and_then(|(part, of)| number(part).zip(number(of))) {
            Some((number, of)) if number < of => Ok(Self { number, of }),
            _ => bail!("write the part's number, from 0, and the number of parts: 0/4 to 3/4"),
        }
    }
}

impl Part {
    /// This part of `range`.
    pub(crate) fn of(self, range: &Range<u64>) -> Range<u64> {
        let size = u128::from(range.end.saturating_sub(range.start));
        // The quotient is at most `size`, which fits, and so does its sum with the start.
        let begin = |number: u128| range.start + (size * number / u128::from(self.of)) as u64;
        begin(self.number.into())..begin(u128::from(self.number) + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The law of all parts of a range.
    fn check(range: &Range<u64>, of: u64) {
        let parts: Vec<_> = (0..of).map(|number| Part { number, of }.of(range)).collect();
        let mut next = range.start;
        for part in &parts {
            assert_eq!(part.start, next, "{range:?} in {of}: {parts:?}");
            next = part.end;
        }
        assert_eq!(next, range.end, "{range:?} in {of}: {parts:?}");
        let sizes = parts.iter().map(|part| part.end - part.start);
        assert!(sizes.clone().max().zip(sizes.min()).is_some_and(|(most, least)| most - least <= 1), "{parts:?}");
    }

    #[test]
    fn parts_follow_each_other_cover_the_range_and_are_nearly_equal() {
        for of in 1..40 {
            for size in 0..80 {
                check(&(7..7 + size), of);
            }
            for range in [0..u64::MAX, 0..u64::MAX - 1, u64::MAX - 3..u64::MAX, 1 << 63..u64::MAX] {
                check(&range, of);
            }
        }
    }

    #[test]
    fn last_of_the_most_parts_ends_with_the_range() {
        let [first, last] = [0, u64::MAX - 1].map(|number| Part { number, of: u64::MAX }.of(&(0..u64::MAX)));
        assert_eq!((first, last), (0..1, u64::MAX - 1..u64::MAX));
    }

    #[test]
    fn part_that_is_none_is_refused() {
        assert_eq!("2/3".parse::<Part>().unwrap(), Part { number: 2, of: 3 });
        for text in ["", "1", "/", "1/", "/4", "4/4", "0/0", "-1/4", "1/4/2", "1.5/4", "a/b", "1/18446744073709551616"]
        {
            let error = text.parse::<Part>().unwrap_err().to_string();
            assert!(error.contains("0/4 to 3/4"), "{text}: {error}");
        }
    }
}
