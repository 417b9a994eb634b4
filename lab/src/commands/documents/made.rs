//! Generated parts of documents: their sources are code, scenarios, data, and cargo's metadata.
//!
//! A maker replaces its part in the texts; a part that is not found is an error. [`stale`] returns the texts that then differ
//! from the files.

use super::texts::{Texts, gathered};
use super::{attacks, benchmarks, counts, licences, options, pictures, reference, scenario, subcommands};
use anyhow::Result;
use clap::Command;
use xtask::project::{Project, write_whole};

type Maker = fn(&Project, &mut Texts) -> Result<()>;

const MAKERS: [Maker; 8] = [
    attacks::make,
    pictures::make,
    reference::make,
    licences::make,
    benchmarks::make,
    counts::make,
    scenario::make,
    subcommands::make,
];

/// New texts of the documents that are out of date.
pub(super) fn stale(project: &Project, program: &Command) -> Result<Texts> {
    let texts = gathered(project)?;
    let mut made = texts.clone();
    options::make(program, &mut made)?;
    MAKERS.iter().try_for_each(|make| make(project, &mut made))?;
    made.retain(|path, text| texts.get(path) != Some(text));
    Ok(made)
}

/// Rewrites the documents that are out of date; returns their names.
///
/// # Errors
/// A source that cannot be read, a part that is not found, or a file that cannot be written.
pub(in crate::commands) fn redraw(project: &Project, program: &Command) -> Result<Vec<String>> {
    let stale = stale(project, program)?;
    stale.iter().try_for_each(|(path, text)| write_whole(&project.path(path), text.as_bytes()))?;
    Ok(stale.into_keys().collect())
}
