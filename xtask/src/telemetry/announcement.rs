//! A run's announcement of where its telemetry is, for commands that watch it: the file `live.json` in the run's folder, from the
//! moment on at which all pages are known until the run's end.

use super::sample::Places;
use crate::project::write_whole;
use anyhow::{Context, Result, bail, ensure};
use blk_api::administration::Right;
use blk_api::extent::Extent;
use capdl::{Scenario, scenario};
use capdl_spec::{Arch, Component, Specification};
use control_api::Act;
use report::TelemetryPages;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const FILE: &str = "live.json";
/// Number of this form of the file.
const FORMAT: u32 = 6;

/// The contents of the file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    format: u32,
    /// The scenario's name.
    pub scenario: String,
    /// The architecture, which determines where the machine's memory begins.
    pub arch: Arch,
    /// The process that runs it.
    process: i32,
    /// The pages.
    pub places: Places,
    /// The control component, where there is one.
    pub control: Option<Control>,
}

/// What an operator can do.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Control {
    /// The acts that the scenario gives its control component.
    pub acts: Vec<Act>,
    /// The components by their numbers.
    pub components: Vec<(u16, String)>,
    /// The blocks of each tenant, as the scenario gives them.
    pub extents: BTreeMap<String, Vec<Extent>>,
    /// The rights to administer controllers.
    pub administration: Vec<Right>,
}

impl Control {
    /// The control component of a system.
    fn of(scenario: &Scenario, specification: &Specification) -> Option<Self> {
        let scenario::Control { acts, administration } = scenario.control.clone()?;
        let named = |one: &Component| (one.id, one.name.clone());
        let components = specification.components.iter().map(named).collect();
        let extents = scenario.tenants.iter().map(|tenant| (tenant.name.clone(), tenant.extents.clone())).collect();
        Some(Self { acts, components, extents, administration })
    }
}

impl Announcement {
    /// The announcement of a run by this process.
    fn new(scenario: &str, arch: Arch, places: Places, control: Option<Control>) -> Self {
        let process = std::process::id().cast_signed();
        Self { format: FORMAT, scenario: scenario.into(), arch, process, places, control }
    }

    /// Writes the file into the run's folder.
    fn write(&self, folder: &Path) -> Result<()> {
        write_whole(&folder.join(FILE), &serde_json::to_vec(self)?)
    }

    /// Reads the file in a run's folder.
    ///
    /// # Errors
    /// The file is not there, or of another version of the program.
    fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(FILE);
        let read = |bytes: Vec<u8>| serde_json::from_slice::<Self>(&bytes).ok().filter(|one| one.format == FORMAT);
        let bytes = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        read(bytes).with_context(|| format!("{} is of another version: run the scenario again", file.display()))
    }

    /// The file as it is now; `None` if it is gone. It grows while the system starts.
    #[must_use]
    pub fn again(folder: &Path) -> Option<Self> {
        Self::read(folder).ok()
    }

    /// Whether the run goes on: its file is there, and its process.
    #[must_use]
    pub fn goes_on(&self, folder: &Path) -> bool {
        let is_there = Pid::from_raw(self.process).is_some_and(|process| test_kill_process(process).is_ok());
        is_there && folder.join(FILE).exists()
    }
}

/// The announcement of a run of this process, as soon as its pages are known and until the value is dropped.
#[derive(Debug)]
pub struct Announced<'a> {
    scenario: &'a Scenario,
    specification: &'a Specification,
    folder: &'a Path,
    pages: usize,
}

impl<'a> Announced<'a> {
    /// A run with this folder, not announced yet.
    #[must_use]
    pub const fn new(scenario: &'a Scenario, specification: &'a Specification, folder: &'a Path) -> Self {
        Self { scenario, specification, folder, pages: 0 }
    }

    /// Writes the announcement if more pages are known than before. Returns their places then.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn look(&mut self, reported: &[TelemetryPages], arch: Arch) -> Result<Option<Places>> {
        if reported.len() == self.pages {
            return Ok(None);
        }
        self.pages = reported.len();
        let places = Places::new(self.scenario, reported);
        let control = Control::of(self.scenario, self.specification);
        Announcement::new(&self.scenario.name, arch, places.clone(), control).write(self.folder)?;
        Ok(Some(places))
    }
}

impl Drop for Announced<'_> {
    fn drop(&mut self) {
        // A file that stays names a process that has ended.
        let _ = fs::remove_file(self.folder.join(FILE));
    }
}

/// The run that goes on, of the scenario with this name if one is given: the newest. Returns its folder, below `runs`, and its
/// announcement.
///
/// # Errors
/// There is none.
pub fn find(runs: &Path, named: Option<&str>) -> Result<(PathBuf, Announcement)> {
    let mut going = going(runs);
    let Some(named) = named else {
        let newest = going.pop().map(|(_, folder, one)| (folder, one));
        return newest.context(
            "no run with telemetry goes on: start one, for example with `cargo xtask demo telemetry`, and keep it running meanwhile",
        );
    };
    let names: Vec<String> = going.iter().map(|(.., one)| one.scenario.clone()).collect();
    match going.into_iter().rfind(|(.., one)| one.scenario == named) {
        Some((_, folder, one)) => Ok((folder, one)),
        None if names.is_empty() => {
            bail!(
                "no run of '{named}' goes on: start it with `cargo xtask demo {named}`; it needs [telemetry] in its scenario"
            )
        }
        None => bail!("no run of '{named}' goes on; these do: {}", names.join(", ")),
    }
}

/// The run of this process that goes on, if there is one.
#[must_use]
pub fn ours(runs: &Path) -> Option<(PathBuf, Announcement)> {
    let own = std::process::id().cast_signed();
    going(runs).into_iter().rfind(|(.., one)| one.process == own).map(|(_, folder, one)| (folder, one))
}

/// All runs that go on, the newest last.
fn going(runs: &Path) -> Vec<(SystemTime, PathBuf, Announcement)> {
    let entries = fs::read_dir(runs).into_iter().flatten().filter_map(Result::ok);
    let mut going: Vec<_> = entries
        .filter_map(|entry| {
            let folder = entry.path();
            let since = fs::metadata(folder.join(FILE)).and_then(|file| file.modified()).ok()?;
            let announcement = Announcement::read(&folder).ok().filter(|one| one.goes_on(&folder))?;
            Some((since, folder, announcement))
        })
        .collect();
    going.sort_by_key(|(since, ..)| *since);
    going
}

/// Checks that a run goes on.
///
/// # Errors
/// The run is over.
pub fn ensure_going(announcement: &Announcement, folder: &Path) -> Result<()> {
    ensure!(announcement.goes_on(folder), "the run of '{}' is over", announcement.scenario);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_run_that_goes_on_is_found() {
        let runs = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = runs.path().join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let error = |named| find(runs.path(), named).unwrap_err().to_string();
        assert!(error(None).starts_with("no run with telemetry goes on"));
        let one = Announcement::new("one", Arch::X86_64, Places::default(), None);
        one.write(&folder("one-1")).unwrap();
        let over =
            Announcement { process: i32::MAX, ..Announcement::new("over", Arch::Aarch64, Places::default(), None) };
        over.write(&folder("over-1")).unwrap();
        fs::write(folder("broken-1").join(FILE), "{").unwrap();
        assert_eq!(find(runs.path(), None).unwrap(), (folder("one-1"), one.clone()));
        assert_eq!(find(runs.path(), Some("one")).unwrap().1, one);
        assert_eq!(ours(runs.path()), Some((folder("one-1"), one.clone())));
        assert_eq!(error(Some("two")), "no run of 'two' goes on; these do: one");
        fs::remove_file(folder("one-1").join(FILE)).unwrap();
        assert!(error(Some("one")).contains("start it with `cargo xtask demo one`"));
        assert_eq!(ensure_going(&one, &folder("one-1")).unwrap_err().to_string(), "the run of 'one' is over");
    }
}
