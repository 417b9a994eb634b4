//! Programs of later releases of Debian, installed privately below `target/tools/`.
//!
//! They come with their own copy of every shared library that they need, the loader included: the machine's packages stay as they
//! are. `apt` fetches the packages, `mirror` finds their source.

mod apt;
mod mirror;

use crate::progress::Step;
use crate::project::Project;
use anyhow::{Context, Result, ensure};
use apt::PrivateApt;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folder of the project that holds the installed tools.
const TOOLS: &str = "target/tools";
/// File in a tool's folder: a line with the recipe, and one with the tool's version.
const STAMP: &str = "stamp";

/// A set of packages, and what is made of them.
pub(super) struct Tool {
    /// Name of its folder.
    pub(super) name: &'static str,
    /// The tool in a sentence, such as "a QEMU with vfio-user".
    pub(super) what: &'static str,
    /// Option of `cargo xtask setup` that installs it.
    pub(super) option: &'static str,
    /// Packages whose dependencies are all that it needs.
    pub(super) packages: &'static [&'static str],
    /// Changes when [`Tool::install`] leaves other files in the folder, or makes them in another way.
    pub(super) recipe: &'static str,
}

/// An installed tool.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Installed {
    /// The tool's folder.
    pub(super) folder: PathBuf,
    /// The tool's version.
    pub(super) version: String,
}

impl Tool {
    /// The tool that is installed; `None` if there is none, or one of another recipe.
    ///
    /// # Errors
    /// The stamp cannot be read.
    pub(super) fn installed(&self, project: &Project) -> Result<Option<Installed>> {
        let folder = self.folder(project);
        let version = match fs::read_to_string(folder.join(STAMP)) {
            Ok(text) => self.stamped(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                let shown = project.shown(&folder);
                return Err(error).with_context(|| format!("cannot read {shown}/{STAMP}: remove {shown}"));
            }
        };
        Ok(version.map(|version| Installed { folder, version }))
    }

    /// Installs the tool, unless it is installed. `fill` makes the files of its folder, the second path, from the unpacked packages,
    /// the first path, and returns its version.
    ///
    /// Nothing is in the tool's folder until everything is. After an interruption, the next call starts from nothing.
    ///
    /// # Errors
    /// The packages cannot be fetched or unpacked, or `fill` fails.
    pub(super) fn install(
        &self,
        project: &Project,
        fill: impl FnOnce(&Path, &Path) -> Result<String>,
    ) -> Result<Installed> {
        if let Some(installed) = self.installed(project)? {
            return Ok(installed);
        }
        project.target_folder("tools")?;
        let folder = self.folder(project);
        let step = Step::new(format!("installing {}", self.what));
        let _lock = lock(&folder.with_extension("lock"), &step)?;
        // Another process may have installed it since.
        if let Some(installed) = self.installed(project)? {
            return Ok(installed);
        }
        let part = folder.with_extension("part");
        remove(&part)?;
        let unpacked = self.unpack_packages(project, &part, &step)?;
        let whole = part.join("whole");
        let cannot = || format!("cannot write to {}", whole.display());
        fs::create_dir_all(&whole).with_context(cannot)?;
        let version = fill(&unpacked, &whole)?;
        fs::write(whole.join(STAMP), self.stamp_of(&version)).with_context(cannot)?;
        remove(&folder)?;
        fs::rename(&whole, &folder)
            .with_context(|| format!("cannot move {} to {}", self.what, project.shown(&folder)))?;
        remove(&part)?;
        Ok(Installed { folder, version })
    }

    fn folder(&self, project: &Project) -> PathBuf {
        project.path(TOOLS).join(self.name)
    }

    /// Fetches the packages and unpacks them below `part`.
    fn unpack_packages(&self, project: &Project, part: &Path, step: &Step) -> Result<PathBuf> {
        let apt = PrivateApt::new(part.join("apt"), &mirror::of_this_machine(), self.option)?;
        step.say("fetching package lists, some 10 MB");
        apt.update()?;
        step.line(&format!("{}, below {}", apt.plan(self.packages)?, project.shown(&self.folder(project))));
        step.say("downloading");
        let packages = apt.download(self.packages)?;
        step.say("unpacking");
        let unpacked = part.join("unpacked");
        packages.iter().try_for_each(|package| unpack(package, &unpacked))?;
        Ok(unpacked)
    }

    fn stamp_of(&self, version: &str) -> String {
        format!("{}\n{version}\n", self.recipe)
    }

    /// The version in a stamp of this recipe.
    fn stamped(&self, stamp: &str) -> Option<String> {
        let (recipe, version) = stamp.split_once('\n')?;
        (recipe == self.recipe).then(|| version.trim_end().to_owned())
    }
}

/// Waits until no other process installs; the lock ends with the file, or with this process.
fn lock(path: &Path, step: &Step) -> Result<File> {
    let cannot = || format!("cannot lock {}", path.display());
    let file = File::create(path).with_context(cannot)?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => step.say("waiting for another process that installs it"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(cannot),
    }
    file.lock().with_context(cannot)?;
    Ok(file)
}

fn unpack(package: &Path, to: &Path) -> Result<()> {
    let output = Command::new("dpkg-deb")
        .arg("-x")
        .args([package, to])
        .stdin(Stdio::null())
        .output()
        .context("cannot run dpkg-deb: this set-up is for Debian 12 and its relatives")?;
    ensure!(
        output.status.success(),
        "cannot unpack {}: {}; make room there, or start again",
        package.display(),
        String::from_utf8_lossy(&output.stderr).lines().last().unwrap_or("dpkg-deb said nothing")
    );
    Ok(())
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    const TOOL: Tool = Tool { name: "t", what: "a tool", option: "--with-t", packages: &["p"], recipe: "recipe 1" };

    #[test]
    fn only_a_stamp_of_this_recipe_counts() {
        let place = tempfile::tempdir().unwrap();
        let project = Project::at(place.path());
        assert_eq!(TOOL.installed(&project).unwrap(), None, "no stamp");
        let folder = place.path().join("target/tools/t");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(STAMP), TOOL.stamp_of("1.2")).unwrap();
        let expected = Installed { folder: folder.clone(), version: "1.2".to_owned() };
        assert_eq!(TOOL.installed(&project).unwrap().as_ref(), Some(&expected));
        assert_eq!(TOOL.install(&project, |_, _| bail!("it is installed")).unwrap(), expected);
        fs::write(folder.join(STAMP), "recipe 0\n1.2\n").unwrap();
        assert_eq!(TOOL.installed(&project).unwrap(), None, "another recipe");
    }
}
