//! Names of code in Markdown documents, in backticks: a path must be that of a file or folder of the project, or the end of one;
//! `Type::function` must name something that the code defines.
//!
//! Left out: blocks of code; paths with a placeholder, such as `fuzz/targets/NAME.rs`; what a build makes below `target/`;
//! paths outside of the project, which begin with no folder of it and do not end with `.rs`; items of other crates.

use super::links::parser;
use super::texts::{Texts, line};
use pulldown_cmark::Event;
use std::collections::BTreeSet;

/// Beginnings of names in guides: the reader's files, which the project does not have.
const READERS: [&str; 2] = ["my-", "my_"];
/// Words that define an item.
const DEFINING: [&str; 10] =
    ["fn", "const", "static", "struct", "enum", "union", "trait", "type", "mod", "macro_rules!"];

/// A sentence for each name that stands for nothing. `exists` says whether the project has a path.
pub(super) fn wrong_names(texts: &Texts, exists: impl Fn(&str) -> bool) -> Vec<String> {
    let known = Known::of(texts);
    let mut wrong = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (event, place) in parser(text).into_offset_iter() {
            let Event::Code(code) = event else { continue };
            let is_wrong =
                if code.contains("::") { known.lacks_item(&code) } else { known.lacks_path(&code) && !exists(&code) };
            if is_wrong {
                wrong.push(format!("{path}:{} names `{code}`, which is not there", line(text, place.start)));
            }
        }
    }
    wrong
}

/// Everything that a name can stand for.
struct Known<'a> {
    /// Ends of the paths of all files, and of their folders.
    ends: BTreeSet<&'a str>,
    /// Folders at the root.
    roots: BTreeSet<&'a str>,
    /// Crates of the project, with `_` in their names.
    crates: BTreeSet<String>,
    /// Each file's text, and the items that it defines.
    files: Vec<(&'a str, BTreeSet<&'a str>)>,
}

impl<'a> Known<'a> {
    fn of(texts: &'a Texts) -> Self {
        let (mut ends, mut roots) = (BTreeSet::new(), BTreeSet::new());
        for path in texts.keys() {
            roots.extend(path.split_once('/').map(|(root, _)| root));
            let cuts = |path: &'a str| path.match_indices('/').map(|(at, _)| at);
            for path in cuts(path).map(|at| &path[..at]).chain([path.as_str()]) {
                ends.insert(path);
                ends.extend(cuts(path).map(|at| &path[at + 1..]));
            }
        }
        let manifests = texts.iter().filter(|(path, _)| path.ends_with("Cargo.toml"));
        let named = manifests.flat_map(|(_, text)| text.lines().filter_map(|line| line.strip_prefix("name = \"")));
        let crates = named.map(|name| name.trim_end_matches('"').replace('-', "_")).collect();
        let code = texts.iter().filter(|(path, _)| path.ends_with(".rs"));
        let files = code.map(|(_, text)| (text.as_str(), defined(text))).collect();
        Self { ends, roots, crates, files }
    }

    /// Whether the code is a path into the project that the project does not have.
    fn lacks_path(&self, code: &str) -> bool {
        let path = code.trim_end_matches('/');
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_-./".contains(sign);
        let is_ours = code.split_once('/').is_some_and(|(root, _)| self.roots.contains(root));
        let is_placeholder = |part: &str| {
            READERS.iter().any(|begin| part.starts_with(begin)) || part.split('.').next().is_some_and(is_loud)
        };
        let has_placeholder = path.split('/').any(is_placeholder);
        path.chars().all(is_plain)
            && (is_ours || path.ends_with(".rs"))
            && !has_placeholder
            && !self.ends.contains(path)
    }

    /// Whether the code is an item of the project that no file defines.
    fn lacks_item(&self, code: &str) -> bool {
        let path = code.split('(').next().unwrap_or_default().trim_end_matches('!');
        let is_plain = |sign: char| sign.is_ascii_alphanumeric() || "_:".contains(sign);
        let Some((of, item)) = path.rsplit_once("::").filter(|_| path.chars().all(is_plain)) else { return false };
        let root = of.split("::").next().unwrap_or_default();
        let of = of.rsplit("::").next().unwrap_or_default();
        if root.starts_with(|first: char| first.is_ascii_lowercase()) && !self.crates.contains(root) {
            return false;
        }
        let is_there = |(text, items): &(&str, BTreeSet<&str>)| items.contains(item) && has_word(text, of);
        // A crate or a module is named in no file of its own.
        let is_module = of.starts_with(|first: char| first.is_ascii_lowercase());
        !self.files.iter().any(|file| if is_module { file.1.contains(item) } else { is_there(file) })
    }
}

/// Whether the name is all in capitals, as a placeholder is.
fn is_loud(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn has_word(text: &str, word: &str) -> bool {
    let is_part = |sign: char| sign.is_alphanumeric() || sign == '_';
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let after = text.get(at + word.len()..).and_then(|after| after.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

/// Items that a file defines: what follows a defining word, public fields, variants, and what it exports again.
fn defined(text: &str) -> BTreeSet<&str> {
    let words = |line| str::split(line, |sign: char| !sign.is_alphanumeric() && sign != '_');
    let mut items = BTreeSet::new();
    for line in text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")) {
        if line.starts_with("pub use ") {
            items.extend(words(line));
        }
        let pairs = line.split_whitespace().zip(line.split_whitespace().skip(1));
        let named = pairs.filter(|(before, _)| DEFINING.contains(before) || before.starts_with("pub"));
        items.extend(named.filter_map(|(_, item)| words(item).next()));
        let first = words(line).next().unwrap_or_default();
        items.extend(first.starts_with(|sign: char| sign.is_ascii_uppercase()).then_some(first));
    }
    items
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    fn wrong(document: &str) -> Vec<String> {
        let code = "pub struct Session;\n\nimpl Session {\n    pub(crate) const fn open(&self) {}\n}\n\npub enum Kind {\n    \
                    Shared(u8),\n}\n// fn gone() {} of Session\nmacro_rules! component {}\n";
        let texts = texts(&[
            ("docs/a.md", document),
            ("sim/Cargo.toml", "[package]\nname = \"sim-pci\""),
            ("sim/src/session/open.rs", code),
        ]);
        wrong_names(&texts, |path| path == "sim/speed")
    }

    #[test]
    fn a_path_is_that_of_a_file_or_the_end_of_one() {
        assert!(
            wrong("`sim/src/session/open.rs` `session/open.rs` `open.rs` `sim/src/` `src/session` `sim/speed`")
                .is_empty()
        );
        let text = "`sim/gone`, and\n`gone/open.rs` with `close.rs`";
        let one = |line: usize, name: &str| format!("docs/a.md:{line} names `{name}`, which is not there");
        assert_eq!(wrong(text), [one(1, "sim/gone"), one(2, "gone/open.rs"), one(2, "close.rs")]);
    }

    #[test]
    fn placeholders_and_what_is_outside_of_the_project_are_not_checked() {
        assert!(
            wrong("`target/x/` `sim/NAME.rs` `sim/K/` `my-program.rs` `drivers/probe.c` `demo --sim` `read/write`")
                .is_empty()
        );
    }

    #[test]
    fn an_item_is_defined_in_a_file_that_has_its_type() {
        let right =
            "`Session::open` `Session::open(x)` `Kind::Shared` `sim_pci::Session` `sim_pci::component!` `log::info!`";
        assert!(wrong(right).is_empty(), "{:?}", wrong(right));
        let one = |name: &str| format!("docs/a.md:1 names `{name}`, which is not there");
        assert_eq!(
            wrong("`Session::gone` `Session::Kinds` `Other::open` `sim_pci::gone`"),
            [one("Session::gone"), one("Session::Kinds"), one("Other::open"), one("sim_pci::gone")]
        );
    }
}
