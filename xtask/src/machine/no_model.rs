//! In the place of `model`, for the program without the simulator: there are no such controllers.

use crate::machine::disk::UserDisk;
use anyhow::{Result, bail};
use capdl::Scenario;
use sim_fault::ControllerEffect;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// The served controllers of a run: no value.
pub(crate) enum Models {}

impl Models {
    /// Refuses: the whole program runs a scenario with such controllers.
    pub(crate) fn serve(_: &Scenario, _: &Path, _: Option<&UserDisk>) -> Result<Self> {
        bail!("this program has no simulator: run cargo xtask")
    }

    pub(crate) fn sockets(&self) -> Vec<PathBuf> {
        match *self {}
    }

    pub(crate) fn faults(&self) -> Vec<Sender<ControllerEffect>> {
        match *self {}
    }

    pub(crate) fn end(self) -> (Vec<String>, Vec<(Instant, String)>) {
        match self {}
    }
}
