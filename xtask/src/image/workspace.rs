//! A workspace of the project's crates, some of a user's, and programs that are generated from them.
//!
//! Cargo names what it compiled by the place of the crate below the workspace's root. So the root, a folder below `target/own/`,
//! has links to the project's folders, and its manifest is the project's with more members. What was compiled for the project is
//! then used as it is; only the user's crates are compiled. A user's crate may be in any folder: the workspace has links to its
//! files, and its manifest, in which the paths to the project's crates lead to those of the workspace.
//!
//! Neighbours: `own` decides about the generated programs. Left out: building them.

use crate::project::{Project, write_whole};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// The workspace's folder.
pub(crate) struct Workspace {
    root: PathBuf,
    /// The project's folder, without links in its path.
    project: PathBuf,
    /// The project's crates, relative to its folder.
    crates: Vec<PathBuf>,
}

/// Dependencies of a generated crate.
#[derive(Default)]
pub(crate) struct Dependencies(Table);

impl Dependencies {
    /// Adds a crate in a folder of the workspace.
    pub(crate) fn add(&mut self, package: &str, folder: &Path, features: &[&str]) {
        let features = features.iter().map(|feature| Value::String((*feature).into())).collect();
        let path = Value::String(folder.display().to_string());
        let dependency = [("path".to_owned(), path), ("features".to_owned(), Value::Array(features))];
        self.0.insert(package.into(), Value::Table(Table::from_iter(dependency)));
    }
}

impl Workspace {
    /// Makes the workspace `name`, or updates it. `generated` are the folders of its generated programs.
    ///
    /// # Errors
    /// Files that cannot be read or written.
    pub(crate) fn make(project: &Project, name: &str, generated: Vec<String>) -> Result<Self> {
        let root = project.target_folder(&format!("own/{name}"))?;
        let lock = project.path("Cargo.lock");
        let project = project.root().canonicalize().context("the project's folder cannot be found")?;
        let mut manifest = table(&project.join("Cargo.toml"))?;
        let workspace = manifest.get_mut("workspace").and_then(Value::as_table_mut).context("it has no workspace")?;
        workspace.remove("default-members");
        let members = workspace.get_mut("members").and_then(Value::as_array_mut).context("it has no members")?;
        let crates: Vec<_> = members.iter().filter_map(Value::as_str).map(PathBuf::from).collect();
        for folder in crates.iter().filter_map(|path| path.iter().next()) {
            link(&project.join(folder), &root.join(folder))?;
        }
        members.extend(generated.into_iter().map(Value::String));
        write(&root.join("Cargo.toml"), &manifest.to_string())?;
        let changed = |file: &Path| fs::metadata(file).and_then(|known| known.modified()).ok();
        let copy = root.join("Cargo.lock");
        if changed(&copy) < changed(&lock) {
            fs::copy(&lock, &copy).with_context(|| format!("cannot write {}", copy.display()))?;
        }
        Ok(Self { root, project, crates })
    }

    /// The folder of a crate in the workspace.
    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Writes the generated crate `name` with one program, which depends on `dependencies` alone, and its files by their names.
    ///
    /// # Errors
    /// Files that cannot be written.
    pub(crate) fn generate(
        &self,
        name: &str,
        program: &str,
        dependencies: Dependencies,
        files: &[(&str, &str)],
    ) -> Result<()> {
        let folder = self.root.join(name);
        let strings = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(key, text)| ((*key).to_owned(), Value::String((*text).to_owned())));
            Value::Table(Table::from_iter(pairs))
        };
        let binary = strings(&[("name", program), ("path", "src/main.rs")]);
        let mut manifest = Table::new();
        manifest.insert("package".into(), strings(&[("name", name), ("edition", "2024")]));
        manifest.insert("bin".into(), Value::Array(vec![binary]));
        manifest.insert("dependencies".into(), Value::Table(dependencies.0));
        write(&folder.join("Cargo.toml"), &manifest.to_string())?;
        files.iter().try_for_each(|(file, text)| write(&folder.join(file), text))
    }

    /// The folder in the workspace of the crate at `theirs`. It gets links to the crate's files if it is not one of the project's.
    ///
    /// # Errors
    /// Files that cannot be read or written; a crate that inherits from a workspace other than the project's.
    pub(crate) fn take(&self, theirs: &Path) -> Result<PathBuf> {
        let theirs = theirs.canonicalize().with_context(|| format!("{} cannot be found", theirs.display()))?;
        if let Ok(below) = theirs.strip_prefix(&self.project)
            && self.crates.iter().any(|known| known == below)
        {
            return Ok(self.root.join(below));
        }
        let name = theirs.file_name().context("a crate has no name")?;
        let folder = self.root.join("theirs").join(name);
        remove_links_from(&folder, &theirs)?;
        for entry in fs::read_dir(&theirs).with_context(|| format!("cannot read {}", theirs.display()))? {
            let entry = entry?.file_name();
            if !["Cargo.toml", "Cargo.lock", "target"].iter().any(|own| entry == *own) {
                link(&theirs.join(&entry), &folder.join(&entry))?;
            }
        }
        let file = theirs.join("Cargo.toml");
        let mut manifest = table(&file)?;
        // The workspace is this one, and the crate's tests are not built in it.
        ["workspace", "lints", "profile", "dev-dependencies"].iter().for_each(|key| drop(manifest.remove(*key)));
        self.redirect(&theirs, &mut manifest).with_context(|| format!("in {}", file.display()))?;
        write(&folder.join("Cargo.toml"), &manifest.to_string())?;
        Ok(folder)
    }

    /// Lets the paths of dependencies in a manifest's table lead into the workspace.
    fn redirect(&self, theirs: &Path, table: &mut Table) -> Result<()> {
        for (key, value) in table {
            let Value::Table(inner) = value else { continue };
            ensure!(
                !inner.contains_key("workspace"),
                "'{key}' is inherited from a workspace: write it out, as crates of scenarios are built in the project's"
            );
            if key.ends_with("dependencies") {
                for (_, dependency) in inner.iter_mut() {
                    if let Some(Value::String(path)) = dependency.get_mut("path") {
                        *path = self.take(&theirs.join(&*path))?.display().to_string();
                    }
                }
            }
            self.redirect(theirs, inner)?;
        }
        Ok(())
    }
}

fn table(file: &Path) -> Result<Table> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    text.parse().with_context(|| format!("{} is no TOML", file.display()))
}

/// Removes the links in a folder that do not lead to files of `theirs`: another crate of this name had been there.
fn remove_links_from(folder: &Path, theirs: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for link in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let is_other = fs::read_link(&link).is_ok_and(|to| to.parent() != Some(theirs) || !to.exists());
        if is_other {
            fs::remove_file(&link).with_context(|| format!("cannot remove {}", link.display()))?;
        }
    }
    Ok(())
}

/// Makes a link, unless it is there. One that leads elsewhere is from before the project was moved.
fn link(to: &Path, at: &Path) -> Result<()> {
    fs::create_dir_all(at.parent().unwrap_or(at))
        .with_context(|| format!("cannot make the folder of {}", at.display()))?;
    if fs::read_link(at).is_ok_and(|there| there != to) {
        fs::remove_file(at).with_context(|| format!("cannot remove {}", at.display()))?;
    }
    match symlink(to, at) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).with_context(|| format!("cannot make the link {}", at.display()))
        }
        _ => Ok(()),
    }
}

/// Writes a file, unless it is there with this content: what is unchanged is not built again.
fn write(file: &Path, text: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::create_dir_all(file.parent().unwrap_or(file))
        .with_context(|| format!("cannot make the folder of {}", file.display()))?;
    write_whole(file, text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    /// A project with the crates `client` and `servers/one`, and a user's crate with this manifest.
    fn ground(theirs: &str) -> (TempDir, Workspace, PathBuf) {
        let place = tempfile::tempdir().unwrap();
        let project = place.path().join("project");
        write(&project.join("Cargo.toml"), "[workspace]\nmembers = ['client', 'servers/one']").unwrap();
        write(&project.join("Cargo.lock"), "").unwrap();
        write(&project.join("client/src/lib.rs"), "").unwrap();
        write(&project.join("servers/one/src/lib.rs"), "").unwrap();
        let workspace = Workspace::make(&Project::at(&project), "mine", vec!["program".into()]).unwrap();
        let mine = place.path().join("elsewhere/mine");
        write(&mine.join("Cargo.toml"), theirs).unwrap();
        write(&mine.join("src/lib.rs"), "// mine").unwrap();
        (place, workspace, mine)
    }

    fn path_in<'t>(manifest: &'t Table, keys: &[&str]) -> &'t str {
        let (first, rest) = keys.split_first().unwrap();
        rest.iter().fold(&manifest[*first], |value, key| &value[*key])["path"].as_str().unwrap()
    }

    #[test]
    fn projects_crates_keep_their_places_beside_the_generated_ones() {
        let (place, workspace, _) = ground("");
        let manifest = table(&workspace.path("Cargo.toml")).unwrap();
        let members = manifest["workspace"]["members"].as_array().unwrap();
        assert_eq!(members.iter().filter_map(Value::as_str).collect::<Vec<_>>(), ["client", "servers/one", "program"]);
        assert!(workspace.path("servers/one/src/lib.rs").is_file());
        let taken = workspace.take(&place.path().join("project/servers/one")).unwrap();
        assert_eq!(taken, workspace.path("servers/one"));
    }

    #[test]
    fn a_project_that_was_moved_is_found_in_its_new_place() {
        let (place, workspace, _) = ground("");
        let (old, new) = (place.path().join("project"), place.path().join("moved"));
        fs::rename(&old, &new).unwrap();
        let moved = Workspace::make(&Project::at(&new), "mine", Vec::new()).unwrap();
        assert!(moved.path("servers/one/src/lib.rs").is_file() && !workspace.path("client").exists());
    }

    #[test]
    fn a_users_crate_depends_on_the_workspaces_crates() {
        let (place, workspace, mine) = ground(
            "workspace = {}\n[package]\nname = 'mine'\n[dependencies]\nserde = '1'\nclient = { path = '../../project/client' }\n\
             [target.'cfg(unix)'.dependencies]\nhelper = { path = '../helper' }\n",
        );
        write(&place.path().join("elsewhere/helper/Cargo.toml"), "[package]\nname = 'helper'").unwrap();
        let taken = workspace.take(&mine).unwrap();
        assert_eq!(fs::read_to_string(taken.join("src/lib.rs")).unwrap(), "// mine");
        let manifest = table(&taken.join("Cargo.toml")).unwrap();
        assert_eq!(Path::new(path_in(&manifest, &["dependencies", "client"])), workspace.path("client"));
        let helper = path_in(&manifest, &["target", "cfg(unix)", "dependencies", "helper"]);
        assert_eq!(Path::new(helper), workspace.path("theirs/helper"));
        assert!(!manifest.contains_key("workspace") && manifest["dependencies"]["serde"].is_str());
    }

    #[test]
    fn another_crate_of_the_name_takes_the_place_of_the_first() {
        let (place, workspace, mine) = ground("[package]\nname = 'mine'");
        write(&mine.join("build.rs"), "").unwrap();
        let taken = workspace.take(&mine).unwrap();
        let other = place.path().join("other/mine");
        write(&other.join("Cargo.toml"), "[package]\nname = 'mine'").unwrap();
        write(&other.join("src/lib.rs"), "// other").unwrap();
        assert_eq!(workspace.take(&other).unwrap(), taken);
        assert_eq!(fs::read_to_string(taken.join("src/lib.rs")).unwrap(), "// other");
        assert!(!taken.join("build.rs").exists());
    }

    #[test]
    fn what_a_crate_inherits_from_its_own_workspace_is_refused_by_name() {
        let (_place, workspace, mine) = ground("[package]\nname = 'mine'\n[dependencies]\nserde.workspace = true\n");
        let error = format!("{:#}", workspace.take(&mine).unwrap_err());
        assert!(error.contains("mine/Cargo.toml: 'serde' is inherited from a workspace: write it out"), "{error}");
    }
}
