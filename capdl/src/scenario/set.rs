//! Settings: values that a command puts into a scenario's file before it is checked, as in `tenant.alice.class=high`.
//!
//! A table of a list is left out by `tenant.alice=none`. A setting becomes a line behind the file's text, so that its refusal is found as that of any other line is.

use super::nearest;
use super::sentence::MOST_PARTS;
use std::fmt;
use std::str::FromStr;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Value of a table of a list that leaves it out.
const NONE: &str = "none";

/// A value for a key of a scenario. Tables in arrays are named by their `name`, or by their number, counted from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Keys of the tables on the way, and the key itself.
    pub(super) path: Vec<String>,
    /// The setting as it was written.
    written: String,
    /// The value as TOML.
    value: String,
}

/// A setting that is none, or whose place a scenario lacks: one sentence with the fix.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

impl FromStr for Setting {
    type Err = SettingError;

    /// Parses `KEY=VALUE`. The value is TOML, or a word, which is text.
    fn from_str(written: &str) -> Result<Self, SettingError> {
        let wrong = |reason: String| Err(SettingError(reason));
        let Some((path, value)) = written.split_once('=') else {
            return wrong("write a key and its value, as in tenant.alice.class=high".into());
        };
        Self::new(path.trim(), value.trim())
    }
}

impl Setting {
    /// The setting of the key at `path`, with dots between its parts, to `value`: TOML, or a word, which is text.
    ///
    /// # Errors
    /// An empty part of the path, or a value that is neither.
    pub fn new(path: &str, value: &str) -> Result<Self, SettingError> {
        let parts: Vec<_> = path.split('.').map(str::to_owned).collect();
        let is_key =
            |part: &String| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        if !parts.iter().all(is_key) {
            return Err(SettingError(format!(
                "`{path}` is no key: write its tables and its name, as tenant.alice.class"
            )));
        }
        if parts.len() > MOST_PARTS {
            let reason = format!("the key has {} parts, and {MOST_PARTS} are the most: write fewer", parts.len());
            return Err(SettingError(reason));
        }
        let written = format!("{path}={value}");
        let is_toml = !value.contains(char::is_control) && DeTable::parse(&format!("value = {value}")).is_ok();
        let is_word = !value.is_empty() && !value.chars().any(|c| c.is_control() || "\"'[]{},=#".contains(c));
        let value = match (is_toml, is_word) {
            (true, _) => value.to_owned(),
            (false, true) => toml::Value::from(value).to_string(),
            (false, false) => {
                let reason =
                    format!("`{}` is no value: write a number, true, false, a word, or TOML", value.escape_debug());
                return Err(SettingError(reason));
            }
        };
        Ok(Self { path: parts, written, value })
    }

    /// The line that stands for it behind the file's text.
    pub(super) fn line(&self) -> String {
        format!("{} = {}", self.path.last().map_or("", String::as_str), self.value)
    }

    /// Puts the value into the document, and returns its place: the path with the numbers of tables in lists, from 0. `line` is
    /// [`Setting::line`] behind as many spaces as the text before it has bytes.
    pub(super) fn apply<'i>(&'i self, document: &mut DeTable<'i>, line: &'i str) -> Result<Vec<String>, SettingError> {
        let parsed = DeTable::parse(line).map(|table| table.into_inner().into_iter().next());
        let (Ok(Some((key, value))), Some((_, way))) = (parsed, self.path.split_last()) else {
            return Err(SettingError("its value is no TOML: write it in quotes".into()));
        };
        let (mut table, mut place) = (document, self.path.clone());
        let mut rest = way.iter();
        let no_list = |before: usize, list: &str, number: &str| {
            let path = way.get(..before).unwrap_or_default().join(".");
            SettingError(format!(
                "there is no [[{list}]] {number} in this file: write the list with all that it needs, --set '{path}=[{{ … }}]'"
            ))
        };
        while let Some(part) = rest.next() {
            let before = way.len().saturating_sub(rest.len());
            let is_list = match table.get(part.as_str()).map(Spanned::get_ref) {
                Some(DeValue::Array(elements)) => elements.is_empty(),
                Some(_) => false,
                None => true,
            };
            if let Some(number) = rest.clone().next().filter(|next| is_list && next.parse::<usize>().is_ok()) {
                return Err(no_list(before, part, number));
            }
            let fresh = || Spanned::new(value.span(), DeValue::Table(DeTable::new()));
            let written = Spanned::new(key.span(), part.as_str().into());
            table = match table.entry(written).or_insert_with(fresh).get_mut() {
                DeValue::Table(table) => table,
                DeValue::Array(elements) => {
                    let name = rest.next();
                    let index = element(elements, part, name.map_or(key.get_ref(), String::as_str))?;
                    if let Some(name) = place.get_mut(before) {
                        *name = index.to_string();
                    }
                    if name.is_none() {
                        if value.get_ref().as_str() != Some(NONE) {
                            let path = self.path.join(".");
                            let reason =
                                format!("`{path}` is a table: name a key in it, or leave it out with {path}={NONE}");
                            return Err(SettingError(reason));
                        }
                        let all = std::mem::replace(elements, DeArray::new()).into_iter().enumerate();
                        *elements = all.filter(|(other, _)| *other != index).map(|(_, one)| one).collect();
                        return Ok(place);
                    }
                    match elements.get_mut(index).map(Spanned::get_mut) {
                        Some(DeValue::Table(table)) => table,
                        _ => return Err(SettingError(format!("`{part}` has no tables: name it alone"))),
                    }
                }
                _ => return Err(SettingError(format!("`{part}` is no table: name it alone"))),
            };
        }
        table.remove(key.get_ref().as_ref());
        table.insert(key, value);
        Ok(place)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

/// The index of the element with this name, or this number.
fn element(elements: &DeArray<'_>, list: &str, name: &str) -> Result<usize, SettingError> {
    let names: Vec<_> = elements.iter().map(|element| element.get_ref().get("name")?.get_ref().as_str()).collect();
    let number =
        name.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|index| *index < elements.len());
    if let Some(index) = names.iter().position(|known| *known == Some(name)).or(number) {
        return Ok(index);
    }
    let named: Vec<_> = names.into_iter().flatten().collect();
    let mend = match (nearest(name, named.iter().copied()), named.as_slice()) {
        _ if name.parse::<usize>().is_ok() => format!("write its number, 1 to {}", elements.len()),
        (Some(near), _) => format!("did you mean `{near}`?"),
        (None, []) => format!("write its number, 1 to {}", elements.len()),
        (None, _) => format!("write one of {}", named.join(", ")),
    };
    Err(SettingError(format!("there is no {list} `{name}`: {mend}")))
}
