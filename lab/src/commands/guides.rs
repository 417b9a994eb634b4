//! Follows guides of the documentation, as their reader does: saves files, changes lines of files, and types the commands.
//!
//! Each command must succeed, or fail where the page says so. The reader of `first-hour.md` works in an empty folder, that of
//! `add-a-policy.md` and `add-a-component.md` in a copy of the project. Left out: what the commands print.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use kernel::installed::VARIABLES;
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use xtask::cargo::cargo_in;
use xtask::image::own;
use xtask::project::Project;

/// Words before the name of a file, whose content is the next block.
const SAVE: &str = "Save this as `";
/// Words before the name of a file, into which the next block goes.
const CHANGE: &str = "In `";
/// Comment on a command that must fail.
const FAILS: &str = "fails";
/// Folders of the project that its copy lacks.
const NOT_COPIED: [&str; 3] = ["target", ".git", "kernel/source"];

/// A guide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Guide {
    /// The commands of a first hour.
    FirstHour,
    /// A scheduling policy.
    Policy,
    /// A component of a new kind.
    Component,
}

impl Guide {
    /// Every guide.
    pub(crate) const ALL: [Self; 3] = [Self::FirstHour, Self::Policy, Self::Component];

    const fn page(self) -> &'static str {
        match self {
            Self::FirstHour => "docs/guide/first-hour.md",
            Self::Policy => "docs/guide/add-a-policy.md",
            Self::Component => "docs/guide/add-a-component.md",
        }
    }
}

impl fmt::Display for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FirstHour => "the commands of the first hour",
            Self::Policy => "a scheduling policy by its guide",
            Self::Component => "a component of a new kind by its guide",
        })
    }
}

/// Step of the page's reader.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Deed {
    /// Writes a file.
    Save { name: String, content: String },
    /// Changes a file beside the only line with these words.
    Change { name: String, place: Place, words: String, content: String },
    /// Runs cargo with these words.
    Run { words: Vec<String>, fails: bool },
}

/// Place of new lines in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Above,
    Below,
    InsteadOf,
}

/// Does what the guide says.
pub(crate) fn check(project: &Project, guide: Guide) -> Result<Counted> {
    let name = guide.page();
    let page = fs::read_to_string(project.path(name)).with_context(|| format!("cannot read {name}"))?;
    let deeds = deeds(&page);
    ensure!(deeds.iter().any(|deed| matches!(deed, Deed::Run { .. })), "{name} has no commands");
    if guide == Guide::FirstHour {
        let folder = tempfile::tempdir().context("there is no place for the page's files")?;
        let program = std::env::current_exe().context("this program cannot be found")?;
        // The program stands for `cargo xtask`.
        let run = |words: &[String]| {
            let mut command = own::command(project, &program);
            command.args(words.iter().skip(1));
            command
        };
        deeds.iter().try_for_each(|deed| follow(deed, folder.path(), &run))?;
        return Ok(Counted::one());
    }
    /// Guides share the copy, and what was compiled for it.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _held = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let copy = project.target_folder("guide")?;
    update(project.root(), &copy)?;
    let cargo = |words: &[String]| {
        let mut command = cargo_in(&copy);
        command.args(words);
        command
    };
    let done = deeds.iter().try_for_each(|deed| follow(deed, &copy, &cargo));
    // The next guide begins with the project as it is.
    update(project.root(), &copy)?;
    done.map(|()| Counted::one())
}

/// Does a deed in `folder`; `command` is that of the words after `cargo`.
fn follow(deed: &Deed, folder: &Path, command: &dyn Fn(&[String]) -> Command) -> Result<()> {
    match deed {
        Deed::Save { name, content } => {
            let file = folder.join(name);
            file.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(file, content).with_context(|| format!("cannot write {name}"))
        }
        Deed::Change { name, place, words, content } => {
            let file = folder.join(name);
            let text = fs::read_to_string(&file).with_context(|| format!("cannot read {name}"))?;
            let changed = changed(&text, *place, words, content);
            let changed = changed.with_context(|| format!("{name} has no line, or several lines, with '{words}'"))?;
            fs::write(&file, changed).with_context(|| format!("cannot write {name}"))
        }
        Deed::Run { words, fails } => {
            let mut command = command(words);
            for name in VARIABLES {
                command.env_remove(name);
            }
            let output = command.current_dir(folder).output().context("cannot run it")?;
            let printed = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
            let last: Vec<_> = printed.iter().flat_map(|text| text.lines().rev().take(12)).collect();
            let ended = if *fails { "succeeded" } else { "failed" };
            ensure!(output.status.success() != *fails, "`cargo {}` {ended}: {}", words.join(" "), last.join("; "));
            Ok(())
        }
    }
}

/// The text with new lines beside the only line with these words.
fn changed(text: &str, place: Place, words: &str, content: &str) -> Option<String> {
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut places = lines.iter().enumerate().filter(|(_, line)| line.contains(words)).map(|(at, _)| at);
    let at = places.next()?;
    if places.next().is_some() {
        return None;
    }
    drop(places);
    match place {
        Place::Above => lines.insert(at, content),
        Place::Below => lines.insert(at + 1, content),
        Place::InsteadOf => lines[at] = content,
    }
    Some(lines.concat())
}

/// Makes `copy` equal the project, but for its results. Files that are equal already stay, so that cargo compiles only what changed.
fn update(project: &Path, copy: &Path) -> Result<()> {
    let theirs = files(project, Path::new(""))?;
    for file in &theirs {
        let content = fs::read(project.join(file)).with_context(|| format!("cannot read {}", file.display()))?;
        let to = copy.join(file);
        if fs::read(&to).is_ok_and(|known| known == content) {
            continue;
        }
        to.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::copy(project.join(file), &to).with_context(|| format!("cannot write {}", to.display()))?;
    }
    let more = files(copy, Path::new(""))?.into_iter().filter(|file| !theirs.contains(file));
    more.into_iter().try_for_each(|file| fs::remove_file(copy.join(file))).context("a file of a guide stays")
}

/// The files below `folder`, relative to `root`.
fn files(root: &Path, folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if NOT_COPIED.iter().any(|name| path == Path::new(name)) {
            continue;
        }
        match entry.file_type()? {
            kind if kind.is_dir() => found.extend(files(root, &path)?),
            kind if kind.is_file() => drop(found.insert(path)),
            _ => {}
        }
    }
    Ok(found)
}

/// The page's files, changes and commands.
fn deeds(page: &str) -> Vec<Deed> {
    let (mut deeds, mut open, mut block) = (Vec::new(), None, None::<String>);
    for line in page.lines() {
        match (&mut block, line.strip_prefix("```")) {
            (None, Some(_)) => block = Some(String::new()),
            (Some(text), Some(_)) => {
                let content = std::mem::take(text);
                match open.take() {
                    Some(Open::Save(name)) => deeds.push(Deed::Save { name, content }),
                    Some(Open::Change(name, place, words)) => deeds.push(Deed::Change { name, place, words, content }),
                    None => deeds.extend(content.lines().filter_map(run)),
                }
                block = None;
            }
            (Some(text), None) => *text += &format!("{line}\n"),
            (None, None) => open = opens(line).or(open),
        }
    }
    deeds
}

/// Purpose of the next block.
enum Open {
    Save(String),
    Change(String, Place, String),
}

fn opens(line: &str) -> Option<Open> {
    if let Some((_, rest)) = line.split_once(SAVE) {
        return rest.split_once('`').map(|(name, _)| Open::Save(name.to_owned()));
    }
    let (name, rest) = line.strip_prefix(CHANGE)?.split_once("`, ")?;
    let (place, words) = rest.split_once(" `")?;
    let place = match place {
        "above" => Place::Above,
        "below" => Place::Below,
        "instead of" => Place::InsteadOf,
        _ => return None,
    };
    Some(Open::Change(name.to_owned(), place, words.strip_suffix("`:")?.to_owned()))
}

/// The command of a line.
fn run(line: &str) -> Option<Deed> {
    let words = line.strip_prefix("cargo ")?;
    let (words, comment) = words.split_once(" # ").unwrap_or((words, ""));
    let fails = comment.trim() == FAILS;
    Some(Deed::Run { words: words.split_whitespace().map(str::to_owned).collect(), fails })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn files_changes_and_commands_are_found_in_their_order() {
        let page = "Save this as `a.toml`. It is\nshort:\n\n```toml\nname = \"a\"\n```\n\nIn `b.rs`, below `mod a;`:\n\n```rust\nmod b;\n```\n\n\
                    ```\ncargo xtask sim a.toml   # fails\ncargo test\n```\n\n```text\nPASS a\n```\n";
        let run = |words: &[&str], fails| Deed::Run { words: words.iter().map(|word| (*word).into()).collect(), fails };
        let (name, words, content) = ("b.rs".into(), "mod a;".into(), "mod b;\n".into());
        assert_eq!(
            deeds(page),
            [
                Deed::Save { name: "a.toml".into(), content: "name = \"a\"\n".into() },
                Deed::Change { name, place: Place::Below, words, content },
                run(&["xtask", "sim", "a.toml"], true),
                run(&["test"], false),
            ]
        );
    }

    #[test]
    fn lines_go_beside_the_only_one_with_the_words() {
        let text = "one\ntwo\nthree\n";
        let changed = |place, words| changed(text, place, words, "new\n");
        assert_eq!(changed(Place::Below, "two").unwrap(), "one\ntwo\nnew\nthree\n");
        assert_eq!(changed(Place::Above, "two").unwrap(), "one\nnew\ntwo\nthree\n");
        assert_eq!(changed(Place::InsteadOf, "two").unwrap(), "one\nnew\nthree\n");
        assert_eq!((changed(Place::Below, "four"), changed(Place::Below, "e")), (None, None));
    }

    #[test]
    fn changes_of_the_guides_find_their_places() {
        let project = Project::here().unwrap();
        for guide in Guide::ALL {
            let mut texts = BTreeMap::new();
            for deed in deeds(&fs::read_to_string(project.path(guide.page())).unwrap()) {
                let Deed::Change { name, place, words, content } = deed else { continue };
                let read = || fs::read_to_string(project.path(&name)).unwrap();
                let text: &mut String = texts.entry(name.clone()).or_insert_with(read);
                *text = changed(text, place, &words, &content).unwrap_or_else(|| panic!("{name}: {words}"));
            }
        }
    }

    #[test]
    fn a_copy_has_what_the_project_has() {
        let place = tempfile::tempdir().unwrap();
        let [project, copy] = ["project", "copy"].map(|name| place.path().join(name));
        for (file, content) in [("project/a/b", "new"), ("project/target/x", ""), ("copy/a/b", "old"), ("copy/c", "")] {
            fs::create_dir_all(place.path().join(file).parent().unwrap()).unwrap();
            fs::write(place.path().join(file), content).unwrap();
        }
        update(&project, &copy).unwrap();
        assert_eq!(files(&copy, Path::new("")).unwrap().into_iter().collect::<Vec<_>>(), [Path::new("a/b")]);
        assert_eq!(fs::read_to_string(copy.join("a/b")).unwrap(), "new");
    }
}
