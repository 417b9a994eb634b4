//! A controller for an unmodified nvme-cli: `nvme` runs under the preload library (`nvme-preload`), and its commands come to a server here.
//!
//! [`FarEnd`] is what executes them: the simulator's controller ([`model`]), or an NVMe server's ([`administered`]). [`server`] has the socket and checks requests, [`policy`]
//! lists the commands that may pass, [`sys`] makes the files that Linux has below `/sys`, and [`program`] runs `nvme`.

pub(crate) mod administered;
pub(crate) mod model;
mod policy;
pub(crate) mod program;
pub(crate) mod server;
mod sys;
#[cfg(test)]
mod tests;

use nvme_passthrough::{Command, Data, Queue, Refusal};
use std::fmt;

/// A controller, as a driver of it offers it: commands are executed one after the other, each with its data.
pub(crate) trait FarEnd: Send {
    /// Executes a command that the policy allows.
    ///
    /// # Errors
    /// No completion. The command may have been executed.
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused>;

    /// Resets the controller, which works afterwards.
    ///
    /// # Errors
    /// A controller that does not become ready.
    fn reset(&mut self) -> Result<(), Refused>;

    /// Resets the NVM subsystem, as [`FarEnd::reset`].
    ///
    /// # Errors
    /// A controller without such a reset, or one that does not become ready.
    fn reset_subsystem(&mut self) -> Result<(), Refused>;

    /// The registers below the doorbells, as reads return them.
    fn registers(&mut self) -> Vec<u8>;
}

/// Completion of a command.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Completion {
    /// SC, SCT, CRD, M and DNR, from bit 0 on.
    pub(crate) status: u16,
    /// Dwords 0 and 1.
    pub(crate) result: u64,
    /// The bytes that [`Data::In`] asked for, or none after a failure.
    pub(crate) data: Vec<u8>,
}

/// A request that was refused, with a sentence for people.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub(crate) Refusal, pub(crate) String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Refused {}

/// Bytes of every structure that Identify returns.
const IDENTIFY_BYTES: u32 = 4096;

/// Reads a structure by Identify; `None` if the controller refuses.
fn identify(far: &mut dyn FarEnd, cns: u8, nsid: u32) -> Result<Option<Vec<u8>>, Refused> {
    let opcode = nvme_spec::admin::Opcode::Identify as u8;
    let command = Command { queue: Queue::Admin, opcode, nsid, cdw2: [0; 2], cdw10: [u32::from(cns), 0, 0, 0, 0, 0] };
    let done = far.execute(&command, &Data::In(IDENTIFY_BYTES))?;
    Ok((done.status == 0).then_some(done.data))
}
