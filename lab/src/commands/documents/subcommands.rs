//! The table of nvme-cli's subcommands in `docs/guide/nvme-cli.md`, from the rows that the tests run.

use super::parts::replace_part;
use super::texts::Texts;
use crate::commands::nvme::subcommands::{GROUPS, Group};
use anyhow::Result;
use xtask::project::Project;

/// Writes the tables, one for each subject.
pub(super) fn make(_: &Project, texts: &mut Texts) -> Result<()> {
    let table = |group: &Group| {
        let rows = group.subcommands.iter().map(|one| format!("| `{}` | {} | {} |\n", one.name, one.outcome, one.note));
        format!("| {} | | |\n|---|---|---|\n{}", group.name, rows.collect::<String>())
    };
    let tables: Vec<_> = GROUPS.iter().map(table).collect();
    replace_part(texts, "docs/guide/nvme-cli.md", "subcommands", &tables.join("\n"))
}
