//! `cargo xtask docs`: makes a book of the documents.
//!
//! mdBook builds the book from a copy below `target/book-source/`. The copy has the folders of the project, so links between
//! documents, and to files beside `docs/`, have the same targets as in the project. The first chapter is the project's README.
//! Left out: the rules for documents, which `documents` checks.

use crate::commands::browser;
use crate::commands::documents::{self, SUMMARY, Texts, chapters, links, resolved};
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use xtask::cargo::cargo_in;
use xtask::out;
use xtask::progress::Step;
use xtask::project::Project;

/// Release of mdBook that builds the book.
const MDBOOK: &str = "0.5.4";

/// Arguments of the book.
#[derive(Debug, Args)]
pub(crate) struct Docs {
    /// Redraw figures and rewrite the tables and numbers that have a source instead
    #[arg(long)]
    redraw: bool,
    /// Take the pictures of a running system's page again instead, with Chromium
    #[arg(long, conflicts_with = "redraw")]
    pictures: bool,
}

/// Folder of the pictures that a browser takes.
const PICTURES: &str = "docs/pictures";

/// Builds the book, or makes the generated parts of the documents again.
pub(crate) fn run(project: &Project, docs: &Docs, program: &clap::Command) -> Result<ExitCode> {
    if docs.redraw {
        let redrawn = documents::redraw(project, program)?;
        redrawn.iter().try_for_each(|path| out::line(format_args!("redrawn: {path}")))?;
        if redrawn.is_empty() {
            out::line(format_args!("everything is as its sources say"))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if docs.pictures {
        ensure!(browser::is_installed(), browser::MISSING);
        browser::demonstrated(project, &project.path(PICTURES))?;
        out::line(format_args!("taken: the pictures in {PICTURES}/"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mdbook = mdbook(project)?;
    let source = project.target_folder("book-source")?;
    fs::remove_dir_all(&source).with_context(|| format!("cannot empty {}", project.shown(&source)))?;
    for (path, text) in copies(project, &documents::gathered(project)?)? {
        write(&source.join(path), &text)?;
    }
    let book = project.target_folder("book")?;
    let _step = Step::new("building the book");
    let output = Command::new(mdbook)
        .arg("build")
        .arg("--dest-dir")
        .arg(&book)
        .arg(&source)
        .output()
        .context("cannot run mdbook")?;
    let said = String::from_utf8_lossy(&output.stderr);
    // mdBook prints a message for a missing file and continues.
    let complaint = said.lines().find(|line| line.contains("ERROR") || line.contains("WARN"));
    let failed = (!output.status.success()).then(|| said.lines().last().unwrap_or("nothing"));
    ensure!(complaint.or(failed).is_none(), "mdbook says: {}", complaint.or(failed).unwrap_or_default().trim());
    out::line(format_args!("the book: {}", project.shown(&book.join("index.html"))))?;
    Ok(ExitCode::SUCCESS)
}

/// Path of the mdBook program, which is installed if it is missing.
fn mdbook(project: &Project) -> Result<PathBuf> {
    let root = project.target_folder(&format!("tools/mdbook-{MDBOOK}"))?;
    let program = root.join("bin/mdbook");
    if program.is_file() {
        return Ok(program);
    }
    let step = Step::new(format!("installing mdBook {MDBOOK} below {}, in a few minutes", project.shown(&root)));
    // Outside of the project, whose cargo settings must not apply.
    let mut cargo = cargo_in(&root)
        .args(["install", "mdbook", "--version", MDBOOK, "--locked", "--no-default-features", "--root"])
        .arg(&root)
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run cargo; install Rust from https://rustup.rs")?;
    let mut complaint = "nothing".to_owned();
    for line in cargo.stderr.take().into_iter().flat_map(|said| BufReader::new(said).lines()) {
        let line = line.context("cannot read what cargo says")?;
        step.tick(line.trim());
        // The first error, or else the last line.
        if !complaint.starts_with("error") && !line.trim().is_empty() {
            complaint = line;
        }
    }
    ensure!(
        cargo.wait().context("cannot wait for cargo")?.success(),
        "mdBook cannot be installed: cargo says: {complaint}; once its registry can be reached, run cargo xtask docs again"
    );
    Ok(program)
}

/// Files of the copy: the chapters, the files that they link to, and the order.
fn copies(project: &Project, texts: &Texts) -> Result<Vec<(String, Vec<u8>)>> {
    let text = |path: &str| texts.get(path).with_context(|| format!("{path} is not there"));
    let summary = text(SUMMARY)?;
    let mut files = BTreeSet::new();
    for chapter in chapters(summary) {
        let linked = links(text(&chapter)?).into_iter().map(|(link, _)| link);
        let linked = linked.map(|link| resolved(&chapter, link.split('#').next().unwrap_or_default()));
        files.extend(linked.filter(|path| project.path(path).is_file()));
        files.insert(chapter);
    }
    let read = |path: String| {
        let bytes = fs::read(project.path(&path)).with_context(|| format!("cannot read {path}"))?;
        Ok((format!("src/{path}"), bytes))
    };
    let mut copies = files.into_iter().map(read).collect::<Result<Vec<_>>>()?;
    copies.push(("src/SUMMARY.md".into(), order(summary).into()));
    copies.push(("book.toml".into(), text("docs/book.toml")?.clone().into()));
    Ok(copies)
}

/// The book's order, with the chapters' paths relative to the project's folder.
fn order(summary: &str) -> String {
    let mut order = summary.to_owned();
    for (link, place) in links(summary).into_iter().rev() {
        let from_top = format!("]({})", resolved(SUMMARY, &link));
        let shown = summary.get(place.clone()).unwrap_or_default().replace(&format!("]({link})"), &from_top);
        order.replace_range(place, &shown);
    }
    order
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chapters_are_named_from_the_projects_folder() {
        assert_eq!(
            order("# S\n[All](../README.md)\n- [One `x`](a.md)\n  - [Two](guide/b.md)\n"),
            "# S\n[All](README.md)\n- [One `x`](docs/a.md)\n  - [Two](docs/guide/b.md)\n"
        );
    }

    #[test]
    fn the_copy_has_the_chapters_and_what_they_link_to() {
        let project = Project::here().unwrap();
        let copies = copies(&project, &documents::gathered(&project).unwrap()).unwrap();
        let paths: BTreeSet<_> = copies.iter().map(|(path, _)| path.as_str()).collect();
        for path in ["book.toml", "src/SUMMARY.md", "src/README.md", "src/docs/overview.svg", "src/sim/FIDELITY.md"] {
            assert!(paths.contains(path), "{path}");
        }
        assert!(!paths.iter().any(|path| path.ends_with("Cargo.toml")));
    }
}
