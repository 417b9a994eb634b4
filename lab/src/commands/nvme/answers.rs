//! Far ends for tests, whose answers are known.

use crate::nvme_cli::{Completion, FarEnd, Refused};
use nvme_passthrough::{Command, Data};
use nvme_spec::Nsid;
use nvme_spec::admin::Opcode;
use nvme_spec::identify::NamespaceList;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zerocopy::IntoBytes as _;

/// CNS values of Identify.
const NAMESPACE: u32 = 0;
const CONTROLLER: u32 = 1;
const ACTIVE: u32 = 2;
/// Texts of Identify Controller.
const TEXTS: [Range<usize>; 2] = [4..72, 768..1024];
/// Numbers of power states in Identify Controller, and of formats in Identify Namespace, 0's based.
const NPSS: usize = 263;
const NLBAF: usize = 25;

/// A far end whose last answer with data is kept.
pub(super) struct Tapped {
    pub(super) far: Box<dyn FarEnd>,
    pub(super) last: Last,
}

/// Data of the last answer.
#[derive(Clone, Default)]
pub(super) struct Last(Arc<Mutex<Vec<u8>>>);

impl Last {
    pub(super) fn bytes(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FarEnd for Tapped {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let done = self.far.execute(command, data)?;
        if matches!(data, Data::In(_)) {
            self.last.bytes().clone_from(&done.data);
        }
        Ok(done)
    }

    fn reset(&mut self) -> Result<(), Refused> {
        self.far.reset()
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        self.far.reset_subsystem()
    }

    fn registers(&mut self) -> Vec<u8> {
        self.far.registers()
    }
}

/// A far end that answers with drawn bytes, but has one namespace.
pub(super) struct Drawn(pub(super) u64);

impl FarEnd for Drawn {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let cns = (command.opcode == Opcode::Identify as u8).then_some(command.cdw10[0]);
        let mut bytes = match cns {
            Some(ACTIVE) => NamespaceList::of([Nsid(1)].into_iter()).as_bytes().to_vec(),
            _ => self.structure(data.bytes()),
        };
        bytes.resize(data.bytes(), 0);
        // A program that prints texts as JSON, and arrays of so many elements, has no answer to some values.
        match cns {
            Some(CONTROLLER) => {
                TEXTS.into_iter().for_each(|place| bytes.get_mut(place).into_iter().flatten().for_each(printable));
                bytes.get_mut(NPSS).into_iter().for_each(|npss| *npss %= 32);
            }
            Some(NAMESPACE) => bytes.get_mut(NLBAF).into_iter().for_each(|nlbaf| *nlbaf %= 64),
            _ => {}
        }
        Ok(Completion { data: bytes, ..Completion::default() })
    }

    fn reset(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn registers(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

fn printable(byte: &mut u8) {
    *byte = b' ' + *byte % (b'~' - b' ' + 1);
}

impl Drawn {
    /// So many bytes and up to seven more: of equally likely bits, or of few ones, or of few zeroes.
    fn structure(&mut self, bytes: usize) -> Vec<u8> {
        let mix: fn(u64, u64) -> u64 = match self.draw() % 4 {
            0 => |one, other| one & other,
            1 => |one, other| one | other,
            _ => |one, _| one,
        };
        let words = std::iter::repeat_with(|| mix(self.draw(), self.draw()));
        words.take(bytes.div_ceil(8)).flat_map(u64::to_le_bytes).collect()
    }

    /// The next number of SplitMix64.
    const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}
