//! The layout that all systems share: sizes and addresses, cptrs, rights, and badges at the console.

use capdl_spec::{ObjectKind, Role};
use platform::Badge;

/// Bytes of a small frame.
pub const PAGE: u64 = 4096;
/// Bytes of a large frame, and what one page table covers.
pub const LARGE_PAGE: u64 = 2 << 20;
/// Bytes that one page directory covers.
pub const DIRECTORY_BYTES: u64 = 1 << 30;

/// Where the environment is mapped.
pub const ENVIRONMENT_VADDR: u64 = 0x1000_0000;
/// Where the IPC buffer is mapped.
pub const IPC_BUFFER_VADDR: u64 = 0x1010_0000;
/// The end of the stack: the first address above it.
pub const STACK_TOP: u64 = 0x1030_0000;
/// Pages of stack; the page below is not mapped.
pub const STACK_PAGES: u32 = 32;
/// Where a component's log ring is mapped.
pub const LOG_VADDR: u64 = 0x2000_0000;
/// Where the other regions begin.
pub const REGIONS_VADDR: u64 = 0x3000_0000;
/// Bytes of records a component's log ring keeps.
pub const LOG_BYTES: u64 = 64 << 10;

/// Bytes of the window for data of commands by which a control component administers a controller.
pub const ADMINISTRATION_BYTES: u64 = 128 << 10;

/// Slot of the fault endpoint in a CSpace root.
pub const FAULT_SLOT: u64 = 1;
/// Cptr of the capability to the component's own CNode.
pub const CNODE_CPTR: u64 = 2;
/// First cptr of named capabilities.
pub const FIRST_NAMED_CPTR: u64 = 8;

/// Rights as the specification has them.
pub mod rights {
    /// Receive, or read.
    pub const READ: u8 = 1;
    /// Send, or write.
    pub const WRITE: u8 = 2;
    /// Send capabilities, in a message or in the answer to one that was received, and be answered a call.
    pub const GRANT: u8 = 4;
    /// Be answered a call, which then carries no capability. seL4 5.0.0 lacks this right, and has [`GRANT`] there.
    pub const GRANT_REPLY: u8 = 8;
    /// Read and write.
    pub const READ_WRITE: u8 = READ | WRITE;
    /// The rights of a caller on an endpoint.
    pub const CALL: u8 = WRITE | GRANT_REPLY;
    /// The rights of a caller that sends capabilities along.
    pub const CALL_WITH_CAPS: u8 = WRITE | GRANT;
    /// Every right. Grant includes grant-reply.
    pub const ALL: u8 = READ | WRITE | GRANT;
}

/// Bytes an object of this kind occupies in an address space, for frames.
pub const fn frame_bytes(kind: ObjectKind) -> Option<u64> {
    match kind {
        ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => Some(PAGE),
        ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => Some(LARGE_PAGE),
        _ => None,
    }
}

/// log2 of the bytes of each of the probe's two untypeds.
pub const PROBE_MEMORY_BITS: u8 = 16;

/// The badge with which a component signals the console that its log ring has entries. Components share bits when there are
/// more of them than bits below those with a meaning.
pub const fn log_badge(component: u16) -> u64 {
    Badge::SIGNAL | 1 << (component % Badge::ALARM.trailing_zeros() as u16)
}

/// The lengths of the alarms that a component of this role may ask for, microseconds: one for each of its numbers.
pub const fn alarms_us(role: Role) -> &'static [u32] {
    match role {
        Role::NvmeServer => &platform::alarm::SERVER_US,
        Role::Client => &platform::alarm::CLIENT_US,
        Role::Control => &platform::alarm::CONTROL_US,
        _ => &[],
    }
}
