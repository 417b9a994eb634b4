//! Invocations of a sequence, made on any kernel: seL4's system calls or the model behind the same trait.
//!
//! Left out: calls that may wait and accesses to memory, which each side does in its own way.

use crate::answer::Answer;
use crate::op::{Context, Op, Path, Shown, Slot};
use crate::stage::{Boot, Ground};
use platform::x86_64::PortIo;
use platform::{AbsoluteCPtr, CNode, CPtr, Cap, CapType, IrqSource, Kernel, UserContext, Vaddr};

/// The depth that finds a slot of a thread's own CNode: its guard fills the word.
const DEPTH: u8 = 64;

/// The layout of a thread's CSpace.
#[derive(Clone, Debug)]
pub enum CSpaceLayout {
    /// The root thread's: the slots for sequences begin at `first`.
    Root {
        /// The first slot for sequences.
        first: u64,
        /// The root thread's capabilities from boot.
        boot: Boot,
    },
    /// A helper's, with the capability to its CNode in this slot.
    Helper {
        /// The slot.
        cnode: u16,
    },
}

impl CSpaceLayout {
    /// The capability pointer of `slot`.
    #[must_use]
    pub fn cptr(&self, slot: Slot) -> CPtr {
        match self {
            Self::Helper { .. } => CPtr::new(u64::from(slot.0)),
            Self::Root { first, boot } => match slot {
                Slot::CNODE => boot.cnode.cptr(),
                Slot::VSPACE => boot.vspace.cptr(),
                Slot::TCB => boot.tcb.cptr(),
                Slot::ASID_POOL => boot.asid_pool.cptr(),
                Slot::ASID_CONTROL => boot.asid_control.cptr(),
                Slot::IRQ_CONTROL => boot.irq_control.cptr(),
                Slot::IO_PORTS => boot.io_ports.cptr(),
                Slot::IO_SPACES => boot.io_spaces.cptr(),
                Slot(number) => CPtr::new(first.wrapping_add(u64::from(number))),
            },
        }
    }

    /// The capability in `slot`, taken for one to a `T`.
    #[must_use]
    pub fn cap<T: CapType>(&self, slot: Slot) -> Cap<T> {
        self.cptr(slot).cast()
    }

    /// The slot that `path` leads to.
    #[must_use]
    pub fn path(&self, path: Path) -> AbsoluteCPtr {
        let (slot, depth) = match path {
            Path::Own(slot) => (slot, DEPTH),
            Path::OwnAt(slot, depth) => (slot, depth),
            Path::In(cnode, index, depth) => return AbsoluteCPtr { root: self.cap(cnode), index, depth },
        };
        AbsoluteCPtr { root: self.cnode(), index: self.cptr(slot).bits(), depth }
    }

    fn cnode(&self) -> Cap<CNode> {
        match self {
            Self::Root { boot, .. } => boot.cnode,
            Self::Helper { cnode } => Cap::from_bits(u64::from(*cnode)),
        }
    }

    /// The slot number with which a retype starts to fill `first` and those behind it.
    fn first_slot(&self, cnode: Slot, first: u16) -> u64 {
        match self {
            Self::Root { .. } if cnode == Slot::CNODE => self.cptr(Slot(first)).bits(),
            _ => u64::from(first),
        }
    }
}

/// The calling thread, and the data that its calls and answers refer to.
pub struct Caller<'a> {
    /// The thread's CSpace.
    pub layout: &'a CSpaceLayout,
    /// The memory that sequences get.
    pub ground: &'a Ground,
    /// The registers with which a helper continues.
    pub helper: &'a dyn Fn(u8, u16) -> UserContext,
}

impl Caller<'_> {
    /// Makes the call `op`; `None` when it is not an invocation that every architecture has.
    pub fn invoke<K: Kernel>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        self.slots(kernel, op)
            .or_else(|| self.threads(kernel, op))
            .or_else(|| self.mappings(kernel, op))
            .or_else(|| self.devices(kernel, op))
    }

    fn slots<K: Kernel>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        let Self { layout, .. } = self;
        Some(Answer::of(match *op {
            Op::Retype { untyped, object, size_bits, cnode, first, count } => {
                let first = layout.first_slot(cnode, first);
                let slots = first..first.wrapping_add(u64::from(count));
                kernel.untyped_retype(layout.cap(untyped), object, size_bits, layout.cap(cnode), slots)
            }
            Op::Copy { dest, src, rights } => kernel.cnode_copy(layout.path(dest), layout.path(src), rights),
            Op::Mint { dest, src, rights, data } => {
                kernel.cnode_mint(layout.path(dest), layout.path(src), rights, data)
            }
            Op::Move { dest, src } => kernel.cnode_move(layout.path(dest), layout.path(src)),
            Op::Delete { slot } => kernel.cnode_delete(layout.path(slot)),
            Op::Revoke { slot } => kernel.cnode_revoke(layout.path(slot)),
            Op::SaveCaller { slot } => kernel.cnode_save_caller(layout.path(slot)),
            _ => return None,
        }))
    }

    fn threads<K: Kernel>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        let Self { layout, .. } = self;
        Some(Answer::of(match *op {
            Op::Configure { tcb, fault_endpoint, priority, cspace, guard_bits, vspace, buffer, frame } => kernel
                .tcb_configure(
                    layout.cap(tcb),
                    CPtr::new(u64::from(fault_endpoint)),
                    priority,
                    layout.cap(cspace),
                    guard_bits,
                    layout.cap(vspace),
                    Vaddr::new(buffer),
                    layout.cap(frame),
                ),
            Op::WriteRegisters { tcb, start, context } => {
                kernel.tcb_write_registers(layout.cap(tcb), start, &self.context(context))
            }
            Op::ReadRegisters { tcb, shown } => {
                return Some(match (kernel.tcb_read_registers(layout.cap(tcb)), shown) {
                    (Ok(context), Shown::Values) => Answer::Registers(registers(&context)),
                    (Ok(_), Shown::Success) => Answer::Done,
                    (Err(error), _) => Answer::refused(error),
                });
            }
            Op::Resume { tcb } => kernel.tcb_resume(layout.cap(tcb)),
            Op::Suspend { tcb } => kernel.tcb_suspend(layout.cap(tcb)),
            Op::Bind { tcb, notification } => kernel.tcb_bind_notification(layout.cap(tcb), layout.cap(notification)),
            _ => return None,
        }))
    }

    fn mappings<K: Kernel>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        let Self { layout, .. } = self;
        Some(Answer::of(match *op {
            Op::MakePool { control, untyped, dest } => {
                kernel.asid_control_make_pool(layout.cap(control), layout.cap(untyped), layout.path(dest))
            }
            Op::AssignPool { pool, vspace } => kernel.asid_pool_assign(layout.cap(pool), layout.cap(vspace)),
            Op::MapTable { level, table, vspace, vaddr } => {
                kernel.translation_table_map(layout.cap(table), level, layout.cap(vspace), Vaddr::new(vaddr))
            }
            Op::MapFrame { frame, vspace, vaddr, rights, cache } => {
                kernel.frame_map(layout.cap(frame), layout.cap(vspace), Vaddr::new(vaddr), rights, cache)
            }
            Op::UnmapFrame { frame } => kernel.frame_unmap(layout.cap(frame)),
            Op::FrameAddress { frame } => {
                let address = kernel.frame_get_address(layout.cap(frame));
                return Some(address.map_or_else(Answer::refused, |paddr| self.ground.answer(paddr)));
            }
            _ => return None,
        }))
    }

    fn devices<K: Kernel>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        let Self { layout, .. } = self;
        Some(Answer::of(match *op {
            Op::MapIo { frame, space, rights, iova } => {
                kernel.frame_map_io(layout.cap(frame), layout.cap(space), rights, platform::Iova::new(iova))
            }
            Op::MapIoTable { table, space, iova } => {
                kernel.io_page_table_map(layout.cap(table), layout.cap(space), platform::Iova::new(iova))
            }
            Op::UnmapIoTable { table } => kernel.io_page_table_unmap(layout.cap(table)),
            Op::GetIoapic { control, dest, pin, line, irq } => {
                let source = IrqSource::Line { line: pin, trigger: line };
                kernel.irq_control_get(layout.cap(control), layout.path(dest), source, irq)
            }
            Op::GetMsi { control, dest, requester_id, irq } => {
                let source = IrqSource::Message { requester_id };
                kernel.irq_control_get(layout.cap(control), layout.path(dest), source, irq)
            }
            Op::Ack { handler } => kernel.irq_handler_ack(layout.cap(handler)),
            Op::SetNotification { handler, notification } => {
                kernel.irq_handler_set_notification(layout.cap(handler), layout.cap(notification))
            }
            Op::ClearHandler { handler } => kernel.irq_handler_clear(layout.cap(handler)),
            _ => return None,
        }))
    }

    /// Makes the call `op` when it reads an I/O port, which only x86_64 has; `None` when it does not.
    pub fn read_port<K: PortIo>(&self, kernel: &K, op: &Op) -> Option<Answer> {
        let Self { layout, .. } = self;
        Some(Answer::of(match *op {
            Op::PortIn8 { ports, port } => kernel.ioport_in8(layout.cap(ports), port).map(|_| ()),
            Op::PortIn32 { ports, port } => kernel.ioport_in32(layout.cap(ports), port).map(|_| ()),
            _ => return None,
        }))
    }

    fn context(&self, context: Context) -> UserContext {
        match context {
            Context::Helper(helper, call) => (self.helper)(helper, call),
            Context::Plain([instruction_pointer, stack_pointer, arguments @ ..]) => {
                UserContext { instruction_pointer, stack_pointer, arguments }
            }
        }
    }
}

const fn registers(context: &UserContext) -> [u64; 5] {
    let [first, second, third] = context.arguments;
    [context.instruction_pointer, context.stack_pointer, first, second, third]
}
