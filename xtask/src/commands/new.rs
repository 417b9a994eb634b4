//! `cargo xtask new`: creates a user's own client program: a crate with a test and a scenario.
//!
//! The crate is a `no_std` library that works in any folder, inside or outside of this project, and belongs to no other
//! workspace. Its files come from `xtask/templates/program/`.

use crate::out;
use crate::project::{Project, write_whole};
use anyhow::{Context, Result, ensure};
use capdl::scenario::Workload;
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Created files, below the crate's folder.
const FILES: [(&str, &str); 5] = [
    ("Cargo.toml", include_str!("../../templates/program/manifest.toml")),
    ("src/lib.rs", include_str!("../../templates/program/lib.rs")),
    ("tests/{name}.rs", include_str!("../../templates/program/test.rs")),
    ("{name}.toml", include_str!("../../templates/program/scenario.toml")),
    (".gitignore", "/target\n"),
];

/// Arguments of the command.
#[derive(Debug, Args)]
pub struct New {
    /// The folder of the new crate, which is named after it
    path: PathBuf,
}

/// Creates the crate and prints the commands that run it.
pub fn run(project: &Project, new: &New) -> Result<ExitCode> {
    let folder = make(project, &new.path)?;
    let (shown, name) = (new.path.display(), name(&folder));
    out::line(format_args!(
        "{shown} is a client program, with a test and a scenario. Next:\n  \
         cargo test --manifest-path {shown}/Cargo.toml\n  \
         cargo xtask demo {shown}/{name}.toml --sim\n  \
         cargo xtask demo {shown}/{name}.toml"
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Creates the crate in the folder `path`, which must not exist yet; returns the folder.
pub fn make(project: &Project, path: &Path) -> Result<PathBuf> {
    // A scenario that named the crate would report a wrong name; its check is used here.
    let written = format!("path = {:?}", path.display().to_string());
    toml::from_str::<Workload>(&written).map_err(|error| anyhow::anyhow!("{}", error.message()))?;
    let (shown, name) = (path.display(), name(path));
    ensure!(
        !project.crates()?.contains(&name),
        "{shown} ends in `{name}`, which is a crate of the project: name another folder, for instance my-{name}"
    );
    ensure!(!path.exists(), "{shown} is there already: name another folder");
    fs::create_dir_all(path).with_context(|| format!("cannot make the folder {shown}"))?;
    let folder = path.canonicalize().with_context(|| format!("cannot find {shown}"))?;
    let root = root(project, &folder)?;
    for (file, text) in FILES {
        let fill = |text: &str| {
            let crate_name = name.replace('-', "_");
            text.replace("{name}", &name).replace("{crate}", &crate_name).replace("{root}", &root)
        };
        let file = folder.join(fill(file));
        fs::create_dir_all(file.parent().unwrap_or(&folder)).context("cannot make the crate's folders")?;
        write_whole(&file, fill(text).as_bytes())?;
    }
    // The dependency versions that this project is tested with.
    fs::copy(project.path("Cargo.lock"), folder.join("Cargo.lock")).context("cannot copy the lock file")?;
    Ok(folder)
}

fn name(folder: &Path) -> String {
    folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The project's folder, as the crate refers to it: a relative path if the crate is inside, so that both can be moved together.
fn root(project: &Project, folder: &Path) -> Result<String> {
    let top = project.root().canonicalize().context("the project's folder cannot be found")?;
    let root = match folder.strip_prefix(&top) {
        Ok(inside) => inside.components().map(|_| "..").collect::<Vec<_>>().join("/"),
        Err(_) => top.display().to_string(),
    };
    Ok(root)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl::Scenario;

    #[test]
    fn a_crate_has_the_name_of_its_folder_and_a_scenario_that_names_it() {
        let project = Project::here().unwrap();
        let place = tempfile::tempdir().unwrap();
        let folder = make(&project, &place.path().join("my-program")).unwrap();
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        assert_eq!(manifest["package"]["name"].as_str(), Some("my-program"));
        let client = manifest["dependencies"]["blk-client"]["path"].as_str().unwrap();
        assert!(Path::new(client).join("Cargo.toml").is_file(), "{client}");
        let scenario = Scenario::load(folder.join("my-program.toml")).unwrap();
        assert_eq!(scenario.own_programs()[0].path.canonicalize().unwrap(), folder);
        assert!(fs::read_to_string(folder.join("tests/my-program.rs")).unwrap().contains("use my_program::"));
    }

    #[test]
    fn a_crate_inside_of_the_project_finds_it_by_the_way_up() {
        let project = Project::here().unwrap();
        let place = tempfile::tempdir_in(project.target_folder("new").unwrap()).unwrap();
        let folder = make(&project, &place.path().join("inside")).unwrap();
        let manifest: toml::Table = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let client = manifest["dependencies"]["blk-client"]["path"].as_str().unwrap();
        assert!(client.starts_with("../../../..") && folder.join(client).join("Cargo.toml").is_file(), "{client}");
    }

    #[test]
    fn a_name_that_is_none_and_a_folder_that_is_there_are_refused() {
        let project = Project::here().unwrap();
        let place = tempfile::tempdir().unwrap();
        let error = |name: &str| make(&project, &place.path().join(name)).unwrap_err().to_string();
        assert!(error("My_Program").ends_with("rename it"), "{}", error("My_Program"));
        assert!(error("digest").contains("a program of the project"), "{}", error("digest"));
        assert!(error("scheduler").ends_with("a crate of the project: name another folder, for instance my-scheduler"));
        assert!(error("match").ends_with("to my-match"), "{}", error("match"));
        assert!(!place.path().join("match").exists());
        fs::create_dir(place.path().join("taken")).unwrap();
        assert!(error("taken").ends_with("is there already: name another folder"));
    }
}
