//! The tables of attacks in `docs/guide/functions.md`, from the rows that programs and judge read.

use super::parts::replace_part;
use super::texts::Texts;
use anyhow::Result;
use workload::attacks::{Attacker, KINDS};
use xtask::project::Project;

/// Writes the tables.
pub(super) fn make(_: &Project, texts: &mut Texts) -> Result<()> {
    let table = |(attacker, title): (Attacker, &str)| {
        let rows = KINDS.iter().filter(|kind| kind.attacker == attacker);
        let rows = rows.map(|kind| format!("| {} | {} | {} |\n", kind.name, kind.tries, kind.barriers.join("; ")));
        format!("| {title} | it tries | what stops it |\n|---|---|---|\n{}", rows.collect::<String>())
    };
    let titles = [
        (Attacker::Session, "with a session"),
        (Attacker::Function, "with a function"),
        (Attacker::Probe, "the probe"),
    ];
    replace_part(texts, "docs/guide/functions.md", "attacks", &titles.map(table).join("\n"))
}
