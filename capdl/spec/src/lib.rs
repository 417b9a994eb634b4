//! The binary specification of a system: its objects, the contents of frames, mappings and capabilities.
//!
//! `capdl` writes and checks it, and the root task builds exactly what it states. This crate has the format alone. One
//! [`Object`] may stand for an array of like objects (`count`), so a window of a thousand frames is one entry.
//!
//! An image consists of the length of the specification (u64, little endian), the specification in postcard, padding to a page,
//! and the data that [`Fill`]s point into. In the root task's image it starts at the symbol `__payload_start`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod role;

pub use role::Role;

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

/// Number of an object in [`Specification::objects`].
pub type ObjectId = u32;

/// The architecture of a system's programs and its kernel; it determines the machine.
// The whole tree uses this type. It stands in this crate because the crate depends on no other of the project.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Arch {
    /// A PC: QEMU's q35 with an Intel IOMMU.
    #[default]
    #[serde(rename = "x86_64")]
    X86_64,
    /// QEMU's virt with a Cortex-A57, a GICv2 and an SMMUv3.
    #[serde(rename = "aarch64")]
    Aarch64,
}

impl Arch {
    /// All architectures.
    pub const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Name on the command line, in scenarios and in folder names.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arch {
    type Err = String;

    /// Fails on another name; the error lists the valid names.
    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|arch| arch.name() == text);
        named.ok_or_else(|| format!("there is no architecture '{text}': write x86_64 or aarch64"))
    }
}

/// A whole system.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Specification {
    /// The scenario's name.
    pub name: String,
    /// The system's architecture, which determines the machine.
    pub arch: Arch,
    /// All objects.
    pub objects: Vec<Object>,
    /// All mappings, of memory and of devices.
    pub mappings: Vec<Mapping>,
    /// The contents of all CNodes.
    pub caps: Vec<CapRun>,
    /// The components with their threads.
    pub components: Vec<Component>,
    /// Moments of a run, which kills, changes and loads wait for. A root task without fault injection refuses them.
    pub moments: Vec<Moment>,
    /// Components that the root task stops at any point of their work, for tests. A root task without fault injection refuses
    /// them.
    pub kills: Vec<Kill>,
    /// Whether the root task reports every capability it installed.
    pub report_caps: bool,
    /// Whether the system has no IOMMU. Drivers then give devices the machine's own addresses, and every array of frames has
    /// consecutive ones.
    pub no_iommu: bool,
}

/// Cptr for received capabilities, in the CSpaces of components that hold their own CNode. Others receive none.
pub const RECEIVE_CPTR: u64 = 3;

/// A moment of a run: it comes some time after all that it needs has happened, and only once. The root task's fault injection
/// announces it to the components.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Moment {
    /// All that must have happened before; nothing for a time after the supervisor's start.
    pub needs: Vec<Need>,
    /// Microseconds from then on.
    pub after_us: u64,
}

/// Something that must have happened to a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Need {
    /// Number of the component that must have done it.
    pub component: u16,
    /// The event that is counted.
    pub counted: Counted,
    /// How often it must have happened, at least.
    pub at_least: u32,
}

/// Something of a component that is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Counted {
    /// A milestone that the component counts itself, by its number (`report::milestones`).
    Milestone(u8),
    /// Deaths of the component.
    Deaths,
    /// Restarts of the component.
    Restarts,
}

/// A component that the root task's fault injection stops as if it had faulted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kill {
    /// Number of the component that is stopped.
    pub component: u16,
    /// Number of the moment of the first stop in [`Specification::moments`].
    pub moment: u16,
    /// Number of stops, at least 1: the first one at its moment, then one in each following incarnation.
    pub times: u32,
    /// Microseconds from the start of a following incarnation to its stop.
    pub every_us: u64,
    /// Upper bound of a further delay, microseconds; each following incarnation has a different one.
    pub spread_us: u32,
}

/// `count` objects of a kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Object {
    /// The object's name, unique.
    pub name: String,
    /// The object's kind.
    pub kind: ObjectKind,
    /// How many, at least 1.
    pub count: u32,
    /// Initial contents of small frames, consecutive over the array; without it the frames hold zeroes.
    pub fill: Option<Fill>,
}

/// The kinds of object. The root task holds the last group at boot; retype does not make them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum ObjectKind {
    /// Ordinary memory, 2^`size_bits` bytes.
    Untyped {
        /// log2 of its bytes.
        size_bits: u8,
    },
    /// Device memory; its address is aligned to its size. An array lies consecutively.
    DeviceUntyped {
        /// First byte.
        paddr: u64,
        /// log2 of its bytes.
        size_bits: u8,
    },
    /// An endpoint.
    Endpoint,
    /// A notification.
    Notification,
    /// A CNode of 2^`size_bits` slots.
    CNode {
        /// log2 of its slots.
        size_bits: u8,
    },
    /// A thread.
    Tcb,
    /// An address space: the root of its translation tables.
    VSpace,
    /// A translation table.
    TranslationTable {
        /// The table's level: 1 below the root to 3, whose entries are small frames.
        level: u8,
    },
    /// A 4 KiB frame.
    SmallFrame,
    /// A 2 MiB frame.
    LargeFrame,
    /// 4 KiB of device registers at an address; an array lies consecutively.
    SmallDeviceFrame {
        /// First byte.
        paddr: u64,
    },
    /// 2 MiB of device registers at an address; an array lies consecutively.
    LargeDeviceFrame {
        /// First byte.
        paddr: u64,
    },
    /// An IO page table.
    IoPageTable,
    /// A range of I/O ports.
    IoPorts {
        /// First port.
        first: u16,
        /// Last port.
        last: u16,
    },
    /// The right to make IRQHandlers.
    IrqControl,
    /// The IOSpace from which those of functions are minted.
    IoSpaceMaster,
}

/// Bytes of the image's data that frames are filled with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Fill {
    /// First byte, from the start of the data.
    pub offset: u64,
    /// Bytes; the rest of the last frame is zero.
    pub len: u64,
    /// Bytes of the first frame before the data.
    pub skip: u16,
}

/// An array of frames mapped consecutively.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Mapping {
    /// A [`ObjectKind::VSpace`].
    pub vspace: ObjectId,
    /// Frames (small, large or device) or paging structures (mapped at the addresses they cover, in the order of
    /// levels).
    pub object: ObjectId,
    /// Where the first is mapped.
    pub vaddr: u64,
    /// Whether the mapping may be written.
    pub writable: bool,
    /// Whether code runs from it: never both with `writable`.
    pub executable: bool,
}

/// Capabilities to an array of objects at consecutive cptrs.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CapRun {
    /// A [`ObjectKind::CNode`].
    pub cnode: ObjectId,
    /// First cptr.
    pub cptr: u64,
    /// The object, with its whole array.
    pub object: ObjectId,
    /// Badge for endpoints and notifications, 0 for none. A CNode's guard is chosen so that paths are 64 bits long.
    pub badge: u64,
    /// Bit 0 read, bit 1 write, bit 2 grant, bit 3 grant-reply.
    pub rights: u8,
}

/// A component's thread.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Component {
    /// The component's number, 1 and up: the badge of its fault endpoint.
    pub id: u16,
    /// The component's name.
    pub name: String,
    /// The component's role.
    pub role: Role,
    /// The name of its program.
    pub program: String,
    /// The NVMe server that it belongs to: a client has its session there, a policy component stands beside it.
    pub server: Option<u16>,
    /// Scheduling priority, below the root task's 255.
    pub priority: u8,
    /// The component's [`ObjectKind::Tcb`].
    pub tcb: ObjectId,
    /// The [`ObjectKind::CNode`] of its capabilities: its CSpace root, if it has no `root`.
    pub cnode: ObjectId,
    /// For a client that holds its own CNode, and could delete whatever lies there: a CNode of two slots above it, the CSpace root.
    /// Slot 0 has the CNode, and [`Component::fault_slot`] the fault endpoint. No component holds a capability to it.
    pub root: Option<ObjectId>,
    /// The component's VSpace root.
    pub vspace: ObjectId,
    /// The small frame of its IPC buffer.
    pub ipc_buffer: ObjectId,
    /// Where the IPC buffer is mapped.
    pub ipc_buffer_vaddr: u64,
    /// Slot of its CSpace root, a CNode, with the capability to the supervisor's endpoint. The endpoint itself is the root task's; the
    /// root task mints it there with the component's number as badge.
    pub fault_slot: u64,
    /// The notification bound to its thread, for components that wait on an endpoint.
    pub bound_notification: Option<ObjectId>,
    /// The notification that the supervisor signals with the platform's tick badge twenty times a second.
    pub tick: Option<ObjectId>,
    /// The small frame whose first word says whether the component is alive (`platform::Incarnation`): written by the supervisor,
    /// read by the component's peers.
    pub liveness: Option<ObjectId>,
    /// The small frame that the component maps and its successor finds unchanged; all its other memory is recreated.
    pub keeps: Option<ObjectId>,
    /// Limit on its restarts after faults; without one it stays dead.
    pub restart: Option<RestartPolicy>,
    /// The component's number as a driver at the PCI server. The PCI server takes its device back before it is started again.
    pub driver: Option<u8>,
    /// The first of its numbers by which it may ask the supervisor for alarms (`platform::Badge::alarm`), one for each length
    /// that its role has (`platform::alarm`).
    pub alarm: Option<u8>,
    /// The component that it depends on: it ends with that component, and is started after it. A driver depends on the PCI
    /// server, and the PCI server on the IOMMU server, where there is one.
    pub ends_with: Option<u16>,
    /// For an IOMMU server: the small frame in which it records blocked transactions of devices for the supervisor
    /// (`iommu_api::blocked`).
    pub blocked: Option<ObjectId>,
    /// For an IOMMU server: the small frames that it reads the table of drivers' frames from (`iommu_api::frames`). The root task
    /// writes the table before it starts any component.
    pub frames: Option<ObjectId>,
    /// For a client: where its server acknowledges the teardown of its session. It is not started again before that.
    pub teardown_ack: Option<TeardownAck>,
    /// For the driver of a hot-plug slot's device: the small frame in which the PCI server shows whether that is there
    /// (`pci_api::presence`). The supervisor reads it, and starts the driver again for each arrival.
    pub presence: Option<ObjectId>,
    /// The small frames that it shares with the build machine, which learns their addresses from the root task: its telemetry, or the
    /// mailbox of a control component and the windows for data of its commands. They are numbered one array behind the other.
    pub shown: Vec<ObjectId>,
    /// First instruction.
    pub entry: u64,
    /// Stack pointer at the start.
    pub stack_pointer: u64,
    /// Where its environment is mapped: a u64 length and the postcard bytes.
    pub environment_vaddr: u64,
}

/// Where a server acknowledges the teardown of a dead client's session (`platform::Incarnation::acknowledge_teardown`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TeardownAck {
    /// The small frame that the server writes and the supervisor reads.
    pub page: ObjectId,
    /// The session's number at the server.
    pub session: u32,
}

/// Limit on the restarts of a component.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RestartPolicy {
    /// Most restarts in any `within_ms`; the next fault ends the component for good.
    pub times: u16,
    /// Milliseconds.
    pub within_ms: u32,
}

/// log2 of the slots of a [`Component::root`]. The first bit of a path selects the slot, so the paths of the component's own
/// capabilities, which begin with 0, are the same as without it.
pub const ROOT_BITS: u8 = 1;

impl Component {
    /// The CSpace root of its thread.
    #[must_use]
    pub const fn cspace(&self) -> ObjectId {
        match self.root {
            Some(root) => root,
            None => self.cnode,
        }
    }

    /// The path of its fault endpoint in its CSpace.
    #[must_use]
    pub const fn fault_path(&self) -> u64 {
        match self.root {
            Some(_) => self.fault_slot.rotate_right(ROOT_BITS as u32),
            None => self.fault_slot,
        }
    }
}

impl Specification {
    /// Returns the specification at the start of an image, and the image's data.
    ///
    /// # Errors
    /// One sentence, for a truncated or invalid image.
    pub fn parse(image: &[u8]) -> Result<(Self, &[u8]), &'static str> {
        let len_bytes = image.first_chunk::<8>().ok_or("the image is shorter than its header")?;
        let len = usize::try_from(u64::from_le_bytes(*len_bytes)).map_err(|_| "the image's length is impossible")?;
        let end = len.checked_add(8).ok_or("the image's length is impossible")?;
        let bytes = image.get(8..end).ok_or("the image is shorter than its specification")?;
        let specification = postcard::from_bytes(bytes).map_err(|_| "the specification does not decode")?;
        let data = image.get(end.next_multiple_of(4096)..).ok_or("the image is shorter than its data's start")?;
        Ok((specification, data))
    }

    /// Returns the image of the specification with `data`.
    #[must_use]
    pub fn to_image(&self, data: &[u8]) -> Vec<u8> {
        let bytes = postcard::to_allocvec(self).unwrap_or_default();
        let mut image = Vec::from((bytes.len() as u64).to_le_bytes());
        image.extend_from_slice(&bytes);
        image.resize(image.len().next_multiple_of(4096), 0);
        image.extend_from_slice(data);
        image
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_architecture_is_refused_with_the_known_names() {
        for arch in Arch::ALL {
            assert_eq!(arch.name().parse(), Ok(arch));
        }
        let error = "arm".parse::<Arch>().unwrap_err();
        assert_eq!(error, "there is no architecture 'arm': write x86_64 or aarch64");
    }

    #[test]
    fn an_image_gives_back_what_it_was_made_of() {
        let specification = Specification { name: "demo".into(), ..Specification::default() };
        let image = specification.to_image(&[1, 2, 3]);
        assert_eq!(image.len(), 4096 + 3);
        assert_eq!(Specification::parse(&image), Ok((specification, &[1u8, 2, 3][..])));
    }

    #[test]
    fn a_cut_image_is_refused_with_a_sentence() {
        let image = Specification::default().to_image(&[]);
        assert!(Specification::parse(&image[..4]).is_err());
        assert!(Specification::parse(&image[..10]).is_err());
        assert!(Specification::parse(&[0xff; 64]).is_err());
    }
}
