//! Circles of files within a crate: files of which each imports each other, directly or through others.
//!
//! A file of a large circle cannot be read, tested or changed alone. Such a circle comes from a file that defines a part and works on
//! the whole at the same time. So the rule is: *a file defines a part, or works on the whole, not both*. A part is a type with a
//! state of its own and methods over that state; its file imports no file that works on the whole. Functions over the whole state, in
//! `impl Whole` or with a parameter `&mut Whole`, stand in files that no part imports. A circle opens in one of these ways:
//!
//! - the definition of the whole moves into a file that imports only parts;
//! - a small type that both sides use, an enumeration or a constant, moves into a file of its own;
//! - a call upward becomes a value that is returned.
//!
//! A few files that belong closely together may import each other: as many as [`LARGEST`]. Neighbour: `modules` reads the imports. Left
//! out: integration tests, benchmarks and examples.

use super::modules::{Imports, Modules};
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use xtask::project::Project;

/// Files of the largest circle that may stay.
const LARGEST: usize = 5;

/// The rule, and where it is explained.
pub(super) const RULE: &str = "a file defines a part, or works on the whole, not both: \
                               lab/src/commands/directions/circles.rs says how a large circle opens";

/// A circle of files.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Circle {
    package: String,
    files: Vec<File>,
}

#[derive(PartialEq, Eq, Debug)]
struct File {
    path: String,
    /// Files of the circle that this one imports, and the names.
    imports: Vec<(String, BTreeSet<String>)>,
}

impl fmt::Display for Circle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "circle of {} files in {}:", self.files.len(), self.package)?;
        self.files.iter().try_for_each(|file| write!(f, " {}", file.path))
    }
}

impl Circle {
    /// Whether the circle has more files than any may have.
    pub(super) fn is_too_large(&self) -> bool {
        self.files.len() > LARGEST
    }

    /// The circle and the imports in it, a line for each file.
    pub(super) fn explained(&self) -> String {
        let mut text = format!("{} files of {} import each other:", self.files.len(), self.package);
        for File { path, imports } in &self.files {
            let names = |names: &BTreeSet<String>| names.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let imports: Vec<_> = imports.iter().map(|(file, of)| format!("{file} ({})", names(of))).collect();
            text += &format!("\n  {path} imports {}", imports.join(", "));
        }
        text
    }
}

/// The circles of all libraries and programs of the workspace, the largest first.
pub(super) fn of_workspace(project: &Project, metadata: &Value) -> Result<Vec<Circle>> {
    let mut all = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        for target in package["targets"].as_array().into_iter().flatten() {
            let is_kind = |kind: &Value| kind == "lib" || kind == "bin";
            if let (Some(package), Some(root)) = (package["name"].as_str(), target["src_path"].as_str())
                && target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(is_kind))
            {
                all.extend(of_crate(package, Path::new(root), |file| project.shown(file).to_string())?);
            }
        }
    }
    all.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    Ok(all)
}

/// The circles of the crate with this root. `shown` is the name of a file.
fn of_crate(package: &str, root: &Path, shown: impl Fn(&Path) -> String) -> Result<Vec<Circle>> {
    let modules = Modules::read(root)?;
    let imports = modules.imports();
    let reached: Vec<_> = (0..imports.len()).map(|file| reached(&imports, file)).collect();
    let shown = |file: usize| shown(&modules.files[file]);
    let mut circles = Vec::new();
    for (first, of_first) in reached.iter().enumerate() {
        let circle: Vec<usize> = of_first.iter().copied().filter(|file| reached[*file].contains(&first)).collect();
        // The file with the lowest number stands for the circle.
        if circle.first() == Some(&first) {
            let of_file = |file: &usize| {
                let imported = circle.iter().filter_map(|on| Some((shown(*on), imports[*file].get(on)?.clone())));
                File { path: shown(*file), imports: imported.collect() }
            };
            circles.push(Circle { package: package.to_owned(), files: circle.iter().map(of_file).collect() });
        }
    }
    Ok(circles)
}

/// The files that a file imports, directly or through others.
fn reached(imports: &[Imports], from: usize) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from];
    while let Some(file) = open.pop() {
        open.extend(imports[file].keys().filter(|next| reached.insert(**next)));
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles of a crate with these files, the first of which is the root.
    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = folder.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let shown = |file: &Path| file.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
        let circles = of_crate("p", &folder.path().join(files[0].0), shown).unwrap();
        circles.iter().map(|circle| circle.files.iter().map(|file| file.path.clone()).collect()).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod part; mod whole; pub use part::Part; pub use whole::Whole;");
    const WHOLE: (&str, &str) = ("whole.rs", "use crate::part::Part; pub struct Whole(Part);");

    #[test]
    fn a_part_that_imports_the_whole_makes_a_circle() {
        let ways = [
            "use crate::whole::Whole; pub struct Part; impl Whole {}",
            "use super::Whole; pub struct Part;",
            "pub struct Part; fn act(whole: &mut crate::Whole) {}",
            "pub struct Part; fn act() { use crate::whole; whole::Whole::new() }",
            "pub struct Part; fn act() { assert!(matches!(x, crate::whole::Whole(_))) }",
            "pub struct Part; mod inner { use super::super::{self as root, whole::{Whole as Other}}; }",
        ];
        for part in ways {
            assert_eq!(circles(&[ROOT, ("part.rs", part), WHOLE]), [["part.rs", "whole.rs"]], "{part}");
        }
    }

    #[test]
    fn a_part_by_itself_makes_none() {
        let ways = [
            "pub struct Part;",
            "use core::fmt::Whole; pub struct Part;",
            "pub struct Part; #[cfg(test)] mod tests { use crate::Whole; }",
            "#[cfg(all(test, unix))] use crate::Whole; pub struct Part;",
            "pub struct Part; const TEXT: &str = \"crate::Whole\"; // crate::Whole",
            "pub struct Part; fn act() { self::other(); crate::part::other() } fn other() {}",
        ];
        for part in ways {
            assert!(circles(&[ROOT, ("part.rs", part), WHOLE]).is_empty(), "{part}");
        }
    }

    #[test]
    fn a_re_export_hides_no_circle_and_makes_none() {
        let root = ("lib.rs", "mod part; mod whole; mod face; pub use whole::*;");
        let face = ("face.rs", "pub(crate) use crate::part::Part;");
        let whole = ("whole.rs", "use crate::face::Part; pub struct Whole(Part);");
        let parts = [("use crate::Whole; pub struct Part;", 1), ("pub struct Part;", 0)];
        for (part, expected) in parts {
            assert_eq!(circles(&[root, ("part.rs", part), whole, face]).len(), expected, "{part}");
        }
    }

    #[test]
    fn a_file_and_its_folder_are_a_circle_like_others() {
        let files = [
            ("lib.rs", "mod whole;"),
            ("whole/mod.rs", "mod part; pub struct Whole(part::Part);"),
            ("whole/part.rs", "pub struct Part; impl super::Whole {}"),
        ];
        assert_eq!(circles(&files), [["whole/mod.rs", "whole/part.rs"]]);
    }

    #[test]
    fn each_file_that_a_condition_selects_counts() {
        let root = "#[cfg_attr(unix, path = \"one.rs\")] #[cfg_attr(not(unix), path = \"two.rs\")] mod machine; pub struct Root; \
                    fn f() { machine::start() }";
        let (apart, back) = ("pub fn start() {}", "pub fn start() -> crate::Root {}");
        for (one, two, file) in [(back, apart, "one.rs"), (apart, back, "two.rs")] {
            assert_eq!(circles(&[("lib.rs", root), ("one.rs", one), ("two.rs", two)]), [["lib.rs", file]]);
        }
    }

    #[test]
    fn a_circle_names_the_imports_in_it() {
        let file = |path: &str, imports: &[(&str, &str)]| File {
            path: path.to_owned(),
            imports: imports.iter().map(|(on, name)| ((*on).to_owned(), [(*name).to_owned()].into())).collect(),
        };
        let files = vec![file("a.rs", &[("b.rs", "B")]), file("b.rs", &[("a.rs", "A")])];
        let circle = Circle { package: "p".to_owned(), files };
        assert_eq!(circle.to_string(), "circle of 2 files in p: a.rs b.rs");
        let explained = "2 files of p import each other:\n  a.rs imports b.rs (B)\n  b.rs imports a.rs (A)";
        assert_eq!(circle.explained(), explained);
        assert!(!circle.is_too_large());
    }
}
