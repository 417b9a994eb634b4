//! The calls that each architecture's kernel has.
//!
//! A call belongs to x86_64 alone when only that kernel has its object or capability: I/O ports, IOSpaces, IO page tables,
//! pins of an I/O APIC. Any other call is made on both.

use crate::op::{Op, Path, Slot};
use crate::script::Script;
use platform::{CapData, ObjectType};
use sim_kernel::Arch;

impl Op {
    /// Whether the kernel of `arch` has this call.
    #[must_use]
    pub fn is_on(&self, arch: Arch) -> bool {
        arch == Arch::X86_64 || !self.is_x86_64s()
    }

    fn is_x86_64s(&self) -> bool {
        match self {
            Self::MapIo { .. }
            | Self::MapIoTable { .. }
            | Self::UnmapIoTable { .. }
            | Self::GetIoapic { .. }
            | Self::PortIn8 { .. }
            | Self::PortIn32 { .. }
            | Self::Retype { object: ObjectType::IoPageTable, .. }
            | Self::Mint { data: CapData::IoPorts(..) | CapData::IoSpace { .. }, .. } => true,
            Self::Copy { src: path, .. }
            | Self::Move { src: path, .. }
            | Self::Mint { src: path, .. }
            | Self::Delete { slot: path }
            | Self::Revoke { slot: path } => matches!(path, Path::Own(Slot::IO_PORTS | Slot::IO_SPACES)),
            _ => false,
        }
    }
}

impl Script {
    /// The sequence for `arch`, without the calls that its kernel does not have. The others keep their numbers.
    #[must_use]
    pub fn on(mut self, arch: Arch) -> Self {
        self.arch = arch;
        for op in self.threads.iter_mut().flatten() {
            if !op.is_on(arch) {
                *op = Op::Nothing;
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::written;

    #[test]
    fn a_pc_makes_every_call_and_the_other_machine_those_it_has() {
        for script in written::all() {
            assert_eq!(script.clone().on(Arch::X86_64), script, "{}", script.name);
            let other = script.clone().on(Arch::Aarch64);
            let ops = script.threads.iter().flatten().zip(other.threads.iter().flatten());
            for (op, kept) in ops {
                assert!(kept == op || (*kept == Op::Nothing && op.is_x86_64s()), "{}: {op:?}", script.name);
            }
        }
    }

    #[test]
    fn ports_and_io_spaces_are_x86_64s_alone() {
        let read = Op::PortIn8 { ports: Slot(20), port: 0x80 };
        assert!(read.is_on(Arch::X86_64) && !read.is_on(Arch::Aarch64));
        let revoke = Op::Revoke { slot: Path::Own(Slot::IO_SPACES) };
        assert!(revoke.is_on(Arch::X86_64) && !revoke.is_on(Arch::Aarch64));
        assert!(Op::Revoke { slot: Path::Own(Slot::IRQ_CONTROL) }.is_on(Arch::Aarch64));
    }
}
