//! Paths in the project, and writing of files so that none is left half-written.
//!
//! All output is below `target/`; messages name files relative to the project.

use anyhow::{Context, Result, ensure};
use capdl::scenario::nearest;
use std::fs;
use std::path::{Path, PathBuf};

/// The project's folder.
#[derive(Clone, Debug)]
pub struct Project {
    root: PathBuf,
}

impl Project {
    /// The checkout of the package that cargo runs, or else the one that contains the current folder.
    ///
    /// # Errors
    /// No such checkout.
    pub fn here() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
        let current = std::env::current_dir().context("the current folder cannot be found: change to another one")?;
        Self::of(manifest.as_deref(), &current)
    }

    /// Like [`Project::here`]. `manifest` is the folder of the package that cargo runs, which may be another project's.
    fn of(manifest: Option<&Path>, current: &Path) -> Result<Self> {
        let candidates = manifest.and_then(Path::parent).into_iter().chain(current.ancestors());
        let root = candidates.into_iter().find(|folder| is_checkout(folder)).with_context(|| {
            format!("{} is not in a checkout of capnvme: change to one, and run cargo xtask there", current.display())
        })?;
        Ok(Self { root: root.to_path_buf() })
    }

    /// A project in another folder, for tests.
    pub fn at(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    /// The folder of the top manifest.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the project.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// A folder below `target/`, created if it is missing.
    pub fn target_folder(&self, below: &str) -> Result<PathBuf> {
        let folder = self.root.join("target").join(below);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make the folder {}", self.shown(&folder)))?;
        Ok(folder)
    }

    /// `path` as messages show it.
    pub fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.root).unwrap_or(path).display().to_string()
    }

    /// The file of a scenario that a user named: a file, or a name in `scenarios/`.
    pub fn scenario(&self, named: &str) -> Result<PathBuf> {
        let in_folder = self.root.join("scenarios").join(format!("{named}.toml"));
        let given = PathBuf::from(named);
        ensure!(
            in_folder.is_file() || given.is_file() || !given.exists(),
            "'{named}' is a {}: name a TOML file, or one of scenarios/",
            if given.is_dir() { "folder" } else { "device or pipe" }
        );
        [in_folder, given].into_iter().find(|path| path.is_file()).with_context(|| {
            let known = self.scenarios().unwrap_or_default();
            // Names are written in small letters, and a path that is no file ends in one.
            let name = Path::new(named).file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
            let mend = match nearest(&name, known.iter().map(String::as_str)) {
                Some(near) => {
                    format!("did you mean '{near}'? Otherwise name a TOML file, or another one of scenarios/")
                }
                None => format!("name a TOML file, or one of scenarios/: {}", known.join(", ")),
            };
            format!("there is no scenario '{named}': {mend}")
        })
    }

    /// The names of the project's crates.
    pub fn crates(&self) -> Result<Vec<String>> {
        let file = fs::read_to_string(self.path("Cargo.toml")).context("cannot read the project's Cargo.toml")?;
        let manifest: toml::Table = file.parse().context("the project's Cargo.toml is no TOML")?;
        let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
        let ours = dependencies.into_iter().flatten().filter(|(_, dependency)| dependency.get("path").is_some());
        Ok(ours.map(|(name, _)| name.clone()).collect())
    }

    /// The names of all scenarios, sorted; without those that the soak found.
    pub fn scenarios(&self) -> Result<Vec<String>> {
        self.scenarios_in("scenarios")
    }

    /// The names of the scenarios that the soak found, each of which failed once; sorted.
    pub fn found(&self) -> Result<Vec<String>> {
        self.scenarios_in("scenarios/found")
    }

    fn scenarios_in(&self, folder: &str) -> Result<Vec<String>> {
        let unreadable = || format!("cannot read the folder {folder}/");
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(folder)).with_context(unreadable)? {
            let path = entry.with_context(unreadable)?.path();
            if path.extension().is_some_and(|extension| extension == "toml") {
                names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Whether `folder` is the top of a checkout of this project.
fn is_checkout(folder: &Path) -> bool {
    folder.join("xtask/Cargo.toml").is_file() && folder.join("scenarios").is_dir() && folder.join("capdl").is_dir()
}

/// Writes `bytes` to `path`: a reader finds the old file or the whole new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = part_of(path);
    fs::write(&part, bytes).and_then(|()| fs::rename(&part, path)).map_err(|error| {
        // Removes a partial file, if there is one.
        let _ = fs::remove_file(&part);
        anyhow::Error::new(error).context(format!("cannot write {}", path.display()))
    })
}

/// Temporary path of a file that is being written.
pub fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(format!(".part-{}", std::process::id()));
    part.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        write_whole(&folder.path().join("a"), b"whole").unwrap();
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"whole");
        fs::create_dir(folder.path().join("taken")).unwrap();
        fs::write(folder.path().join("taken/inside"), b"").unwrap();
        assert!(write_whole(&folder.path().join("taken"), b"x").is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn the_checkout_is_cargos_or_that_of_the_current_folder() {
        let folder = tempfile::tempdir().unwrap();
        for checkout in ["cargos", "current"] {
            for below in ["xtask/src", "scenarios", "capdl"] {
                fs::create_dir_all(folder.path().join(checkout).join(below)).unwrap();
            }
            fs::write(folder.path().join(checkout).join("xtask/Cargo.toml"), b"").unwrap();
        }
        let manifest = folder.path().join("cargos/xtask");
        let (current, elsewhere) = (folder.path().join("current"), folder.path().join("elsewhere"));
        let root = |manifest: Option<&Path>, current: &Path| Project::of(manifest, current).map(|found| found.root);
        assert_eq!(root(Some(&manifest), &current).unwrap(), folder.path().join("cargos"));
        assert_eq!(root(None, &current.join("xtask/src")).unwrap(), current);
        assert_eq!(root(Some(&elsewhere.join("other")), &current).unwrap(), current, "another project's package");
        let error = root(None, &elsewhere).unwrap_err().to_string();
        assert!(
            error.ends_with("is not in a checkout of capnvme: change to one, and run cargo xtask there"),
            "{error}"
        );
    }

    #[test]
    fn a_scenario_that_is_not_there_is_answered_with_those_that_are() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("scenarios")).unwrap();
        fs::write(folder.path().join("scenarios/demo.toml"), b"").unwrap();
        let project = Project::at(folder.path());
        assert!(project.scenario("demo").is_ok());
        let error = |named: &str| project.scenario(named).unwrap_err().to_string();
        for named in ["DEMO", "scenarios/demo", "./scenarios/dmeo.toml"] {
            assert!(error(named).contains("did you mean 'demo'?"), "{}", error(named));
        }
        assert!(error("dmeo").contains("no scenario 'dmeo': did you mean 'demo'?"), "{}", error("dmeo"));
        assert!(error("other").ends_with("one of scenarios/: demo"), "{}", error("other"));
        assert!(
            error("/dev").ends_with("'/dev' is a folder: name a TOML file, or one of scenarios/"),
            "{}",
            error("/dev")
        );
        assert!(error("/dev/null").contains("is a device or pipe: name"), "{}", error("/dev/null"));
    }
}
