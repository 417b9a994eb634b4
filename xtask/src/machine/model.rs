//! Controllers of a model that are served to QEMU over vfio-user, as a run sees them. The crate `lab` has the model.

use crate::machine::disk::UserDisk;
use anyhow::Result;
use capdl::Scenario;
use sim_fault::ControllerEffect;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// The served controllers of a run.
pub trait Models {
    /// The sockets, in the order of the controllers.
    fn sockets(&self) -> Vec<PathBuf>;

    /// The ways to let faults of whole controllers happen, in the same order.
    fn faults(&self) -> Vec<Sender<ControllerEffect>>;

    /// Ends the servers after QEMU has ended; afterwards the images have what tenants wrote. Returns what the drivers did that
    /// the standard forbids, and failures of the servers, one sentence each; and the first commands that faults hit.
    fn end(self: Box<Self>) -> (Vec<String>, Vec<(Instant, String)>);
}

/// Serves every controller of a scenario, whose images are in this folder; a user's disk replaces one of them.
pub type Serve = fn(&Scenario, &Path, Option<&UserDisk>) -> Result<Box<dyn Models>>;
