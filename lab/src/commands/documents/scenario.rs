//! The scenario that README.md shows whole, from its file.

use super::parts::replace_part;
use super::texts::Texts;
use anyhow::{Context, Result};
use std::fs;
use xtask::project::Project;

/// Name of the scenario.
const SHOWN: &str = "two-tenants";

/// Writes it.
pub(super) fn make(project: &Project, texts: &mut Texts) -> Result<()> {
    let path = project.scenario(SHOWN)?;
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", project.shown(&path)))?;
    replace_part(texts, "README.md", "scenario", &format!("```toml\n{text}```\n"))
}
