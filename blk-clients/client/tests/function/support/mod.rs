//! A machine in memory for a client with a virtual function: the PCI server's answers, a kernel that keeps the accounting it
//! needs, and the model of a controller. Time passes when the client reads it or waits.

mod kernel;
mod machine;

pub(crate) use machine::{Machine, Setup};

use blk_client::{Completed, Device, Entry, Opcode, OpenError, Segment, Session};
use fake_platform::block_on;
pub(crate) use fake_platform::turn;
use platform::Platform;

/// Opens a session on the machine's function.
pub(crate) fn session(machine: &Machine) -> Session<Machine> {
    try_session(machine).expect("a session")
}

/// A session of the machine, if it can be opened.
pub(crate) fn try_session(machine: &Machine) -> Result<Session<Machine>, OpenError> {
    block_on(Session::open(machine.clone(), &machine.environment(), machine.options()))
}

/// Opens a device on the machine's function.
pub(crate) fn device(machine: &Machine) -> Device<Machine> {
    block_on(Device::open(machine.clone(), &machine.environment(), machine.options())).expect("a device")
}

/// An entry that moves `blocks` blocks of 512 bytes at `offset` of the window.
pub(crate) fn entry(opcode: Opcode, lba: u64, blocks: u32, offset: u32) -> Entry {
    let mut entry = Entry { opcode: opcode as u8, lba, blocks, ..Entry::default() };
    if opcode.moves_data() {
        entry.segment_count = 1;
        entry.segments[0] = Segment { offset, len: blocks * 512 };
    }
    entry
}

/// Submits entries with their indices as user data, and waits for all their completions, sorted by user data. Ends early when the
/// function was reset.
pub(crate) fn exchange<P: Platform>(
    session: &mut Session<P>,
    entries: &[Entry],
) -> Result<Vec<Completed>, blk_client::Error> {
    block_on(async {
        let (mut submitted, mut found) = (0, vec![]);
        while found.len() < entries.len() && !session.server_died() {
            while submitted < entries.len() {
                let entry = Entry { user_data: submitted as u64, ..entries[submitted] };
                if !session.submit(&entry)? {
                    break;
                }
                submitted += 1;
            }
            session.publish()?;
            let before = found.len();
            while let Some(completed) = session.complete()? {
                found.push(completed);
            }
            session.publish_taken()?;
            if found.len() == before {
                session.wait().await?;
            }
        }
        found.sort_by_key(|completed| completed.user_data);
        Ok(found)
    })
}
