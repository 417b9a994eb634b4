//! Types the commands of `docs/guide/first-hour.md`, as its reader does.
//!
//! In an empty folder it saves the page's files and runs its commands in their order, each of which must succeed, or fail where the page
//! says so. Left out: what the commands print.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use kernel::installed::VARIABLES;
use std::fs;
use xtask::image::own;
use xtask::project::Project;

/// The page.
const PAGE: &str = "docs/guide/first-hour.md";
/// Words before the name of a file, whose content is the next block.
const SAVE: &str = "Save this as `";
/// Comment on a command that must fail.
const FAILS: &str = "fails";

/// Step of the page's reader.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Deed {
    Save { name: String, content: String },
    Run { arguments: Vec<String>, fails: bool },
}

/// Does what the page says.
pub(crate) fn check(project: &Project) -> Result<Counted> {
    let page = fs::read_to_string(project.path(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let folder = tempfile::tempdir().context("there is no place for the page's files")?;
    let program = std::env::current_exe().context("this program cannot be found")?;
    let deeds = deeds(&page);
    ensure!(deeds.iter().any(|deed| matches!(deed, Deed::Run { .. })), "{PAGE} has no commands");
    for deed in &deeds {
        match deed {
            Deed::Save { name, content } => {
                fs::write(folder.path().join(name), content).with_context(|| format!("cannot write {name}"))?;
            }
            Deed::Run { arguments, fails } => {
                let mut command = own::command(project, &program);
                for name in VARIABLES {
                    command.env_remove(name);
                }
                let output = command.current_dir(folder.path()).args(arguments).output().context("cannot run it")?;
                let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
                let last: Vec<_> = printed.iter().flat_map(|text| text.lines().rev().take(12)).collect();
                let ended = if *fails { "succeeded" } else { "failed" };
                ensure!(output.status.success() != *fails, "`{}` {ended}: {}", arguments.join(" "), last.join("; "));
            }
        }
    }
    Ok(Counted::one())
}

/// The page's files and commands.
fn deeds(page: &str) -> Vec<Deed> {
    let (mut deeds, mut name, mut block) = (Vec::new(), None, None::<String>);
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(_)) => block = Some(String::new()),
            (Some(text), Some(_)) => {
                let content = std::mem::take(text);
                match name.take() {
                    Some(name) => deeds.push(Deed::Save { name, content }),
                    None => deeds.extend(content.lines().filter_map(run)),
                }
                block = None;
            }
            (Some(text), None) => *text += &format!("{line}\n"),
            (None, None) => {
                let named = line.split_once(SAVE).and_then(|(_, rest)| rest.split_once('`'));
                name = named.map(|(name, _)| name.to_owned()).or(name);
            }
        }
    }
    deeds
}

fn run(line: &str) -> Option<Deed> {
    let words = line.strip_prefix("cargo xtask ")?;
    let (words, comment) = words.split_once(" # ").unwrap_or((words, ""));
    let fails = comment.trim() == FAILS;
    Some(Deed::Run { arguments: words.split_whitespace().map(str::to_owned).collect(), fails })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_commands_are_found_in_their_order() {
        let page = "Save this as `a.toml`. It is\nshort:\n\n```toml\nname = \"a\"\n```\n\n```\ncargo xtask sim a.toml   # fails\n\
                    cargo xtask demo --sim\n```\n\n```text\nPASS a\n```\n";
        let run =
            |words: &[&str], fails| Deed::Run { arguments: words.iter().map(|word| (*word).into()).collect(), fails };
        assert_eq!(
            deeds(page),
            [
                Deed::Save { name: "a.toml".into(), content: "name = \"a\"\n".into() },
                run(&["sim", "a.toml"], true),
                run(&["demo", "--sim"], false),
            ]
        );
    }
}
