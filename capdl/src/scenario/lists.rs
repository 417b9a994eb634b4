//! Lists where tables are possible, which serde's readers of structs take: the elements would be keys by their order.
//!
//! The type of a list's place is asked for by an empty table, which only the place of a list refuses as one.

use super::program;
use super::repair::{has, replace};
use std::collections::BTreeMap;
use std::ops::Range;
use toml::Spanned;
use toml::de::{self, DeTable, DeValue};

/// The place of a list that stands where a table is possible. In a document with an error, only a list that causes it counts. `read`
/// returns a document's first error.
pub(super) fn misplaced(
    document: &Spanned<DeTable<'_>>,
    error: Option<&de::Error>,
    read: impl Fn(&Spanned<DeTable<'_>>) -> Option<de::Error>,
) -> Option<Range<usize>> {
    let cause = |error: &de::Error| (error.span(), error.message().to_owned());
    let mut lists = Lists { at: error.and_then(de::Error::span), by_way: BTreeMap::new() };
    lists.find(document.get_ref(), "");
    lists.by_way.into_values().find(|place| {
        let mut changed = document.clone();
        replace(changed.get_mut(), place, &DeValue::Table(DeTable::new()));
        let is_refused = |other: de::Error| {
            let is_no_table = other.message().starts_with("invalid type: map, expected ");
            (other.span().as_ref() == Some(place) && is_no_table) || error.map(cause) == Some(cause(&other))
        };
        !read(&changed).is_some_and(is_refused)
    })
}

/// Lists of a document, one of each type.
struct Lists {
    at: Option<Range<usize>>,
    /// Places, by the keys on the way, and the program whose configuration a list is in.
    by_way: BTreeMap<String, Range<usize>>,
}

impl Lists {
    fn find(&mut self, table: &DeTable<'_>, way: &str) {
        let program = table.get("name").and_then(|name| name.get_ref().as_str()).unwrap_or_default();
        for (key, value) in table {
            let key = key.get_ref();
            match way == program::WAY && key == "config" {
                // A crate of one's own reads its configuration as it likes.
                true if program.is_empty() => {}
                true => self.find_in(value, &format!("{way}.{key} of {program}")),
                false => self.find_in(value, &format!("{way}.{key}")),
            }
        }
    }

    fn find_in(&mut self, value: &Spanned<DeValue<'_>>, way: &str) {
        match value.get_ref() {
            DeValue::Table(table) => self.find(table, way),
            DeValue::Array(elements) => {
                let place = value.span();
                if self.at.as_ref().is_none_or(|at| has(&place, at)) {
                    self.by_way.entry(way.into()).or_insert(place);
                }
                elements.iter().for_each(|element| self.find_in(element, &format!("{way}[]")));
            }
            _ => {}
        }
    }
}
