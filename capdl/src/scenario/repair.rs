//! All unknown keys and values of wrong types of a file: after each, its place is taken out of the document, and the rest is read again.

use super::beyond::Beyond;
use super::error::MOST;
use super::file::File;
use super::sentence::{line_of, list_for_table, sentence};
use super::{lists, program};
use crate::scenario::refusal::Refusal;
use serde::Deserialize;
use std::ops::Range;
use toml::Spanned;
use toml::de::{self, DeArray, DeTable, DeValue};

/// A document that cannot be read.
pub(super) struct Unread<'a> {
    /// Refusals of all keys and values that cannot be read.
    pub(super) refusals: Vec<Refusal>,
    /// The numbers among these values that are beyond their types, each with the index of its refusal.
    pub(super) numbers: Vec<(usize, Beyond)>,
    /// The document without the other ones, and with the nearest ends of their types in the places of the numbers, if that can be read.
    pub(super) rest: Option<Spanned<DeTable<'a>>>,
}

/// Reads the file's document.
///
/// # Errors
/// A refusal for each key and value that cannot be read.
pub(super) fn read<'a>(text: &str, document: &Spanned<DeTable<'a>>) -> Result<File, Unread<'a>> {
    let (mut left, mut taken, mut refusals) = (document.clone(), Vec::new(), Vec::new());
    let mut numbers: Vec<(usize, Beyond)> = Vec::new();
    loop {
        let Wrong { place, is_missing, number, refusal } = match read_once(text, &left) {
            Ok(file) if refusals.is_empty() => return Ok(file),
            Ok(_) => return Err(Unread { refusals, numbers, rest: Some(left) }),
            Err(wrong) => wrong,
        };
        // Keys that were taken out of a table are missing there now, and so are keys that it lacked before.
        let follows = |place: &Range<usize>| {
            taken.iter().any(|table| if is_missing { table == place } else { has(place, table) })
                || numbers.iter().any(|(_, number)| number.place == *place)
        };
        let is_new = !place.as_ref().is_some_and(follows);
        let index = refusals.len();
        if is_new {
            refusals.push(refusal);
        }
        let whole = left.span();
        match (number.filter(|_| is_new), place) {
            (Some(number), _) if refusals.len() < MOST => {
                number.put_nearest(left.get_mut());
                numbers.push((index, *number));
            }
            (None, Some(place)) if refusals.len() < MOST => match take_out(left.get_mut(), &whole, &place) {
                Some(table) => taken.push(table),
                None => return Err(Unread { refusals, numbers, rest: None }),
            },
            _ => return Err(Unread { refusals, numbers, rest: None }),
        }
    }
}

/// The first error of a document.
struct Wrong {
    /// Place of the key or the value; of the table that lacks a key.
    place: Option<Range<usize>>,
    /// Whether a key is missing.
    is_missing: bool,
    number: Option<Box<Beyond>>,
    refusal: Refusal,
}

impl Wrong {
    /// `place` is that of the error, where the reader's is not it.
    fn new(text: &str, place: Option<Range<usize>>, (program, error): (Option<&str>, de::Error)) -> Self {
        let place = place.or_else(|| error.span());
        let (line, message) = sentence(text, place.clone(), error.message());
        let message = match program {
            Some(program) => format!("in the configuration of {program}, {message}"),
            None => message,
        };
        let is_missing = error.message().starts_with("missing field");
        Self { place, is_missing, number: Beyond::of(text, &error).map(Box::new), refusal: Refusal { line, message } }
    }

    fn of_list(text: &str, place: Range<usize>) -> Self {
        let (line, message) = list_for_table(text, place.start);
        Self { place: Some(place), is_missing: false, number: None, refusal: Refusal { line: Some(line), message } }
    }

    fn of_date(text: &str, key: &str, place: Range<usize>) -> Self {
        let message =
            format!("`{key}` is a date or a time, which no key takes: write a number, true, false, or text in quotes");
        let line = Some(line_of(text, place.start));
        Self { place: Some(place), is_missing: false, number: None, refusal: Refusal { line, message } }
    }
}

/// Reads the document up to its first error.
fn read_once(text: &str, document: &Spanned<DeTable<'_>>) -> Result<File, Wrong> {
    if let Some((key, place)) = date_in(document.get_ref()) {
        return Err(Wrong::of_date(text, key, place));
    }
    let file = deserialize(document);
    let error = file.as_ref().err().map(|(_, error)| error);
    match lists::misplaced(document, error, |changed| deserialize(changed).err().map(|(_, error)| error)) {
        Some(place) => Err(Wrong::of_list(text, place)),
        None => file.map_err(|error| Wrong::new(text, refused_element(document, &error.1), error)),
    }
}

/// The first date or time, which the reader takes for a table, and its key.
fn date_in<'a>(table: &'a DeTable<'_>) -> Option<(&'a str, Range<usize>)> {
    table.iter().find_map(|(key, value)| date_of(key.get_ref(), value))
}

fn date_of<'a>(key: &'a str, value: &'a Spanned<DeValue<'_>>) -> Option<(&'a str, Range<usize>)> {
    match value.get_ref() {
        DeValue::Datetime(_) => Some((key, value.span())),
        DeValue::Table(table) => date_in(table),
        DeValue::Array(elements) => elements.iter().find_map(|element| date_of(key, element)),
        _ => None,
    }
}

/// The place of the table in a list that causes an error for which the reader blames the list: it does so where a type refuses
/// what it read.
fn refused_element(document: &Spanned<DeTable<'_>>, error: &de::Error) -> Option<Range<usize>> {
    let place = error.span()?;
    let elements = list_at(document.get_ref(), &place)?;
    let causes = |element: &&Spanned<DeValue<'_>>| {
        let (mut changed, mut alone) = (document.clone(), DeArray::new());
        alone.push((*element).clone());
        replace(changed.get_mut(), &place, &DeValue::Array(alone));
        deserialize(&changed).is_err_and(|(_, other)| other.message() == error.message())
    };
    elements.iter().filter(|element| element.get_ref().is_table()).find(causes).map(Spanned::span)
}

/// The list that stands at `place`.
fn list_at<'a, 'i>(table: &'a DeTable<'i>, place: &Range<usize>) -> Option<&'a DeArray<'i>> {
    table.iter().find_map(|(_, value)| list_of(value, place))
}

fn list_of<'a, 'i>(value: &'a Spanned<DeValue<'i>>, place: &Range<usize>) -> Option<&'a DeArray<'i>> {
    match value.get_ref() {
        DeValue::Array(elements) if value.span() == *place => Some(elements),
        DeValue::Array(elements) => elements.iter().find_map(|element| list_of(element, place)),
        DeValue::Table(table) => list_at(table, place),
        _ => None,
    }
}

/// Deserializes the document. An error in a program's configuration has the program's name.
fn deserialize<'a>(document: &'a Spanned<DeTable<'_>>) -> Result<File, (Option<&'a str>, de::Error)> {
    program::check(document).map_err(|(program, error)| (Some(program), error))?;
    File::deserialize(toml::Deserializer::from(document.clone())).map_err(|error| (None, error))
}

/// Takes the innermost entry or element that has `place` out of the table, which stands at `at`. Returns where the table or the list
/// stands that it was in.
fn take_out(table: &mut DeTable<'_>, at: &Range<usize>, place: &Range<usize>) -> Option<Range<usize>> {
    if let Some(within) = table.iter_mut().find_map(|(_, value)| take_out_of(value, place)) {
        return Some(within);
    }
    let (key, _) = table.iter().find(|(key, value)| has(&key.span(), place) || has(&value.span(), place))?;
    let key = key.get_ref().to_string();
    table.remove(key.as_str());
    Some(at.clone())
}

fn take_out_of(value: &mut Spanned<DeValue<'_>>, place: &Range<usize>) -> Option<Range<usize>> {
    let at = value.span();
    match value.get_mut() {
        DeValue::Table(table) => take_out(table, &at, place),
        DeValue::Array(elements) => {
            if let Some(within) = elements.iter_mut().find_map(|element| take_out_of(element, place)) {
                return Some(within);
            }
            // An element that is a table is left out as a whole, and one that is none with its list.
            let index =
                elements.iter().position(|element| element.get_ref().is_table() && has(&element.span(), place))?;
            let mut others = DeArray::new();
            let all = std::mem::replace(elements, DeArray::new()).into_iter().enumerate();
            all.filter(|(number, _)| *number != index).for_each(|(_, element)| others.push(element));
            *elements = others;
            Some(at)
        }
        _ => None,
    }
}

/// Replaces the value that stands at `place`.
pub(super) fn replace<'a>(table: &mut DeTable<'a>, place: &Range<usize>, by: &DeValue<'a>) {
    table.iter_mut().for_each(|(_, value)| replace_in(value, place, by));
}

fn replace_in<'a>(value: &mut Spanned<DeValue<'a>>, place: &Range<usize>, by: &DeValue<'a>) {
    let is_it = value.span() == *place;
    match value.get_mut() {
        old if is_it => *old = by.clone(),
        DeValue::Table(table) => replace(table, place, by),
        DeValue::Array(elements) => elements.iter_mut().for_each(|element| replace_in(element, place, by)),
        _ => {}
    }
}

pub(super) fn has(range: &Range<usize>, place: &Range<usize>) -> bool {
    range.start <= place.start && place.end <= range.end
}
