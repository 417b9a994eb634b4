//! All combinations of the values of varied keys, numbered: the last key varies fastest. A sweep and an experiment run them.

use anyhow::{Error, Result, ensure};
use capdl::Scenario;
use capdl::scenario::Setting;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use xtask::arguments;

/// Most runs of a sweep.
const MOST: u64 = 1_000_000;

/// A key and its values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Vary {
    key: String,
    /// Values in the order of the runs, each once.
    values: Vec<Value>,
    /// The values as they were written.
    written: String,
}

/// A value, and what it sets.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Value {
    written: String,
    settings: Vec<Setting>,
}

/// Settings written as `KEY=VALUE`.
///
/// # Errors
/// A text that is no setting.
pub(crate) fn settings<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<Vec<Setting>> {
    Ok(texts.into_iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>()?)
}

impl Vary {
    /// Values that each stand for settings of several keys. `key` names what they vary, and is no key of the scenario.
    ///
    /// # Errors
    /// A text that is no setting.
    pub(crate) fn groups<N: ToString, T: AsRef<str>>(
        key: &str,
        groups: impl IntoIterator<Item = (N, Vec<T>)>,
    ) -> Result<Self> {
        let value = |(name, texts): (N, _)| Ok(Value { written: name.to_string(), settings: settings(texts)? });
        let values: Vec<_> = groups.into_iter().map(value).collect::<Result<_>>()?;
        let written: Vec<_> = values.iter().map(|value| value.written.as_str()).collect();
        Ok(Self { key: key.to_owned(), written: written.join(","), values })
    }
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
            if !is_range(part) {
                values.push((*part).to_owned());
                continue;
            }
            let range = arguments::range(part).map_err(Error::msg)?;
            let count = range.end - range.start;
            ensure!(count <= MOST, "{part} has {count} values: vary fewer, up to {MOST} runs");
            values.extend(range.map(|number| number.to_string()));
        }
        let mut seen = BTreeSet::new();
        let twice = values.iter().find(|value| !seen.insert(value.as_str()));
        ensure!(twice.is_none(), "{key} has the value {} twice: write each once", twice.map_or("", String::as_str));
        let value = |written: String| Ok(Value { settings: vec![Setting::new(&key, &written)?], written });
        let values = values.into_iter().map(value).collect::<Result<_>>()?;
        Ok(Self { key, values, written: written.join(",") })
    }
}

impl fmt::Display for Vary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.key, self.written)
    }
}

/// Whether a value is written as a range of numbers, possible or not; `..` may also be in a text, such as a path.
fn is_range(text: &str) -> bool {
    let is_number = |end: &str| end.parse::<i128>().is_ok();
    text.split_once("..").is_some_and(|(first, end)| is_number(first) && is_number(end))
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
pub(crate) struct Combinations {
    set: Vec<Setting>,
    vary: Vec<Vary>,
}

impl Combinations {
    /// All combinations of these settings and values.
    ///
    /// # Errors
    /// A key that is varied twice, or too many runs.
    pub(crate) fn of(set: &[Setting], vary: &[Vary]) -> Result<Self> {
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
    pub(crate) fn count(&self) -> u64 {
        self.vary.iter().map(|one| one.values.len() as u64).product()
    }

    /// The varied keys.
    pub(crate) fn keys(&self) -> Vec<String> {
        self.vary.iter().map(|one| one.key.clone()).collect()
    }

    /// The varied keys with their values in run `number`.
    pub(crate) fn values(&self, number: u64) -> Vec<(&str, &str)> {
        self.chosen(number).into_iter().map(|(key, value)| (key, value.written.as_str())).collect()
    }

    fn chosen(&self, number: u64) -> Vec<(&str, &Value)> {
        let mut rest = number;
        let mut values = Vec::new();
        for one in self.vary.iter().rev() {
            let count = one.values.len() as u64;
            values.extend(one.values.get((rest % count) as usize).map(|value| (one.key.as_str(), value)));
            rest /= count;
        }
        values.reverse();
        values
    }

    /// The scenario in a file as run `number` has it.
    ///
    /// # Errors
    /// A scenario that cannot have these values. A varied value is refused as that of the option `--vary`.
    pub(crate) fn load(&self, file: &Path, number: u64) -> Result<Scenario> {
        let vary = |said: String, (key, value): (&str, &str)| {
            said.replace(&format!("--set {key}={value}:"), &format!("--vary {key}={value}:"))
        };
        let loaded = Scenario::load_with(file, None, &self.settings(number));
        loaded.map_err(|error| Error::msg(self.values(number).into_iter().fold(error.to_string(), vary)))
    }

    /// Settings of all runs.
    pub(crate) fn set(&self) -> &[Setting] {
        &self.set
    }

    /// The varied keys with all values.
    pub(crate) fn vary(&self) -> &[Vary] {
        &self.vary
    }

    /// All settings of run `number`.
    pub(crate) fn settings(&self, number: u64) -> Vec<Setting> {
        let varied = self.chosen(number).into_iter().flat_map(|(_, value)| &value.settings);
        self.set.iter().chain(varied).cloned().collect()
    }
}

impl fmt::Display for Combinations {
    /// All that determines the runs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.set.iter().try_for_each(|one| writeln!(f, "set {one}"))?;
        let values = |one: &Vary| one.values.iter().map(|value| value.written.as_str()).collect::<Vec<_>>().join(",");
        self.vary.iter().try_for_each(|one| writeln!(f, "vary {}={}", one.key, values(one)))
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
        let with_range = combinations(&["a=7,0..3"]).unwrap();
        assert_eq!((0..4).map(|number| with_range.values(number)[0].1).collect::<Vec<_>>(), ["7", "0", "1", "2"]);
        assert_eq!(all.settings(4), settings(["seed=2", "a=2", "b=[1, 2]"]).unwrap());
    }

    #[test]
    fn value_of_a_group_stands_for_its_settings() {
        let policies = [("fair", vec!["server.policy=paced"]), ("one queue", vec!["server.policy=dedicated", "a=1"])];
        let vary = [Vary::groups("policy", policies).unwrap(), "seed=3,4".parse().unwrap()];
        let all = Combinations::of(&[], &vary).unwrap();
        assert_eq!((all.count(), all.values(2)), (4, vec![("policy", "one queue"), ("seed", "3")]));
        assert_eq!(all.settings(2), settings(["server.policy=dedicated", "a=1", "seed=3"]).unwrap());
        assert_eq!(Combinations::of(&[], &[]).unwrap().values(0), []);
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
        assert!(twice("a=0..0").starts_with("there is none from 0 up to 0"));
        assert!(twice("a=1,5..3").starts_with("there is none from 5 up to 3"));
        assert!(twice("a=-1..3").starts_with("for '-1' give a whole number"));
        assert!("a=../b,1..x".parse::<Vary>().is_ok());
        assert!(twice("a=0..1000001").starts_with("0..1000001 has 1000001 values"));
        let many = "=0..1001";
        assert!(refusal(&[&format!("a{many}"), &format!("b{many}")]).starts_with("there are 1002001 combinations"));
    }
}
