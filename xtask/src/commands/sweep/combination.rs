//! All combinations of the values of varied keys, numbered: the last key varies fastest.

use anyhow::{Result, ensure};
use capdl::scenario::Setting;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;

/// Most runs of a sweep.
const MOST: u64 = 1_000_000;

/// A key and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Vary {
    key: String,
    /// Values in the order of the runs, each once.
    values: Vec<String>,
    /// The values as they were written.
    written: String,
}

impl FromStr for Vary {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (key, values) = text.split_once('=').unwrap_or((text, ""));
        let written: Vec<_> = parts(values).into_iter().map(str::trim).collect();
        ensure!(
            !key.is_empty() && written.iter().all(|value| !value.is_empty()),
            "write a key and values: tenant.alice.depth=1,2,4"
        );
        let key = key.trim().to_owned();
        let mut values = Vec::new();
        for part in &written {
            match range(part) {
                Some(range) => {
                    let count = range.end - range.start;
                    ensure!(count <= MOST, "{part} has {count} values: vary fewer, up to {MOST} runs");
                    values.extend(range.map(|number| number.to_string()));
                }
                None => values.push((*part).to_owned()),
            }
        }
        let mut seen = BTreeSet::new();
        let twice = values.iter().find(|value| !seen.insert(value.as_str()));
        ensure!(twice.is_none(), "{key} has the value {} twice: write each once", twice.map_or("", String::as_str));
        values.iter().try_for_each(|value| Setting::new(&key, value).map(|_| ()))?;
        Ok(Self { key, values, written: written.join(",") })
    }
}

impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.written)
    }
}

/// The whole numbers from A up to and without B, if the value is A..B.
fn range(value: &str) -> Option<Range<u64>> {
    let (first, end) = value.split_once("..")?;
    Some(first.parse().ok()?..end.parse().ok()?).filter(|range| !range.is_empty())
}

/// Splits at the commas outside of quotes and brackets.
fn parts(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, c) in text.char_indices() {
        match (c, quote) {
            (c, Some(open)) if c == open => quote = None,
            (_, Some(_)) => {}
            ('"' | '\'', None) => quote = Some(c),
            ('[' | '{', None) => depth += 1,
            (']' | '}', None) => depth = depth.saturating_sub(1),
            (',', None) if depth == 0 => {
                parts.push(text.get(begin..at).unwrap_or_default());
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text.get(begin..).unwrap_or_default());
    parts
}

/// The combinations, and what is set in all of them.
pub(super) struct Combinations {
    set: Vec<Setting>,
    vary: Vec<Vary>,
}

impl Combinations {
    /// All of them.
    ///
    /// # Errors
    /// A key that is varied twice, or too many runs.
    pub(super) fn of(set: &[Setting], vary: &[Vary]) -> Result<Self> {
        for (index, one) in vary.iter().enumerate() {
            let twice = vary.iter().skip(index + 1).any(|other| other.key == one.key);
            ensure!(!twice, "the key {} is varied twice: write all its values in one --vary", one.key);
        }
        let counts = vary.iter().map(|one| one.values.len() as u64);
        let count = counts.fold(1_u64, u64::saturating_mul);
        ensure!(count <= MOST, "there are {count} combinations: vary fewer values, up to {MOST} runs");
        Ok(Self { set: set.to_vec(), vary: vary.to_vec() })
    }

    /// Number of runs.
    pub(super) fn count(&self) -> u64 {
        self.vary.iter().map(|one| one.values.len() as u64).product()
    }

    /// The varied keys.
    pub(super) fn keys(&self) -> Vec<String> {
        self.vary.iter().map(|one| one.key.clone()).collect()
    }

    /// The varied keys with their values in run `number`.
    pub(super) fn values(&self, number: u64) -> Vec<(&str, &str)> {
        let mut rest = number;
        let mut values: Vec<_> = self
            .vary
            .iter()
            .rev()
            .map(|one| {
                let count = one.values.len() as u64;
                let value = one.values.get((rest % count) as usize).map_or("", String::as_str);
                rest /= count;
                (one.key.as_str(), value)
            })
            .collect();
        values.reverse();
        values
    }

    /// Settings of all runs.
    pub(super) fn set(&self) -> &[Setting] {
        &self.set
    }

    /// The varied keys with all values.
    pub(super) fn vary(&self) -> &[Vary] {
        &self.vary
    }

    /// All settings of run `number`.
    ///
    /// # Errors
    /// A value that is none; each was parsed once before.
    pub(super) fn settings(&self, number: u64) -> Result<Vec<Setting>> {
        let varied = self.values(number).into_iter().map(|(key, value)| Setting::new(key, value));
        Ok(self.set.iter().cloned().map(Ok).chain(varied).collect::<Result<_, _>>()?)
    }
}

impl fmt::Display for Combinations {
    /// All that determines the runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.set.iter().try_for_each(|one| writeln!(f, "set {one}"))?;
        self.vary.iter().try_for_each(|one| writeln!(f, "vary {}={}", one.key, one.values.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn combinations(vary: &[&str]) -> Result<Combinations> {
        let vary: Vec<_> = vary.iter().map(|one| one.parse().unwrap()).collect();
        Combinations::of(&["seed=2".parse().unwrap()], &vary)
    }

    #[test]
    fn last_key_varies_fastest_and_every_combination_is_there_once() {
        let all = combinations(&["a=1,2", "b=x,[1, 2],\"p,q\""]).unwrap();
        let runs: Vec<_> = (0..all.count()).map(|number| all.values(number)).collect();
        let of = |a, b| vec![("a", a), ("b", b)];
        let expected =
            [of("1", "x"), of("1", "[1, 2]"), of("1", "\"p,q\""), of("2", "x"), of("2", "[1, 2]"), of("2", "\"p,q\"")];
        assert_eq!(runs, expected);
        assert_eq!("a=7,0..3".parse::<Vary>().unwrap().values, ["7", "0", "1", "2"]);
        let settings: Vec<_> = all.settings(4).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(settings, ["seed=2", "a=2", "b=[1, 2]"]);
    }

    #[test]
    fn keys_without_values_and_too_many_runs_are_refused() {
        for text in ["a", "a=", "=1", "a=1,,2", "a.=1"] {
            assert!(text.parse::<Vary>().is_err(), "{text}");
        }
        let refusal = |vary: &[&str]| combinations(vary).map(|_| ()).unwrap_err().to_string();
        assert!(refusal(&["a=1", "a=2"]).starts_with("the key a is varied twice"));
        let twice = |text: &str| text.parse::<Vary>().unwrap_err().to_string();
        assert_eq!(twice("a=x,y,x"), "a has the value x twice: write each once");
        assert_eq!(twice("a=2,0..4"), "a has the value 2 twice: write each once");
        assert!(twice("a=0..1000001").starts_with("0..1000001 has 1000001 values"));
        let many = "=0..1001";
        assert!(refusal(&[&format!("a{many}"), &format!("b{many}")]).starts_with("there are 1002001 combinations"));
    }
}
