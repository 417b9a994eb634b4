//! The kernel's invocations, typed. Implemented by system calls on seL4 and by models in tests. Label numbers are left out.

use crate::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, Cap, Endpoint, Frame, IoPageTable, IoSpace, Iova,
    IrqControl, IrqHandler, Message, Notification, ObjectType, Paddr, Result, Rights, TableLevel, Tcb,
    TranslationTable, Untyped, VSpace, Vaddr,
};
use core::future::Future;
use core::ops::Range;
use serde::{Deserialize, Serialize};

/// Data that [`Kernel::cnode_mint`] puts into the new capability.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CapData {
    /// A badge: 28 bits for endpoints (more is refused), 64 for notifications.
    Badge(Badge),
    /// A CNode's guard: its size in bits and its value.
    Guard {
        /// Bits of guard.
        size: u8,
        /// The guard itself.
        value: u64,
    },
    /// The first and last port of an I/O port range, on x86_64 alone.
    IoPorts(u16, u16),
    /// An IOSpace: the IOMMU domain (1..=65535) and the PCI requester id (bus << 8 | device << 3 | function).
    IoSpace {
        /// IOMMU domain, one per requester id.
        domain: u16,
        /// PCI requester id.
        requester_id: u16,
    },
}

/// Cache attributes of a mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum CacheAttributes {
    /// Ordinary memory, coherent with DMA.
    WriteBack,
    /// Device registers.
    Uncached,
}

/// The registers of a thread for its start, or to explain its fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UserContext {
    /// Program counter.
    pub instruction_pointer: u64,
    /// Stack pointer.
    pub stack_pointer: u64,
    /// First three arguments of an entry function in the platform's C calling convention.
    pub arguments: [u64; 3],
}

/// Invocations on capabilities, by the names of rust-sel4, and IPC. Each is one system call. Errors are the kernel's.
#[expect(clippy::missing_errors_doc, reason = "all errors are the kernel's own, see crate::Error")]
pub trait Kernel: Clone + 'static {
    /// Makes `cptrs.len()` objects of `object_type` at the empty `cptrs` of `cnode` (a CNode the caller's CSpace
    /// reaches directly). `size_bits` counts for untypeds (bytes) and CNodes (slots).
    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        cptrs: Range<u64>,
    ) -> Result<()>;

    /// Copies a capability with at most `rights`.
    fn cnode_copy(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()>;
    /// Copies a capability with at most `rights` and new data.
    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()>;
    /// Moves a capability.
    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()>;
    /// Deletes a capability, and its object with the last one.
    fn cnode_delete(&self, cptr: AbsoluteCPtr) -> Result<()>;
    /// Deletes every capability derived from this one.
    fn cnode_revoke(&self, cptr: AbsoluteCPtr) -> Result<()>;
    /// Saves the right to answer the message being handled at an empty cptr, for later.
    fn cnode_save_caller(&self, cptr: AbsoluteCPtr) -> Result<()>;

    /// Gives a thread its fault endpoint (a cptr of *its* CSpace, 0 for none), priority, CSpace, VSpace and IPC buffer.
    #[expect(clippy::too_many_arguments, reason = "one invocation of the kernel, its arguments are given")]
    fn tcb_configure(
        &self,
        tcb: Cap<Tcb>,
        fault_endpoint: CPtr,
        priority: u8,
        cspace: Cap<CNode>,
        cspace_guard_bits: u8,
        vspace: Cap<VSpace>,
        ipc_buffer: Vaddr,
        ipc_buffer_frame: Cap<Frame>,
    ) -> Result<()>;
    /// Sets the registers of a thread and starts it if `resume` is [`Resume::Now`].
    fn tcb_write_registers(&self, tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()>;
    /// Reads the registers of a thread.
    fn tcb_read_registers(&self, tcb: Cap<Tcb>) -> Result<UserContext>;
    /// Lets a thread run.
    fn tcb_resume(&self, tcb: Cap<Tcb>) -> Result<()>;
    /// Stops a thread.
    fn tcb_suspend(&self, tcb: Cap<Tcb>) -> Result<()>;
    /// Makes signals on `notification` end the thread's waits on endpoints.
    fn tcb_bind_notification(&self, tcb: Cap<Tcb>, notification: Cap<Notification>) -> Result<()>;

    /// Makes a pool of address space identifiers from a 4 KiB untyped.
    fn asid_control_make_pool(
        &self,
        control: Cap<AsidControl>,
        untyped: Cap<Untyped>,
        dest: AbsoluteCPtr,
    ) -> Result<()>;
    /// Gives a VSpace an identifier, before anything is mapped in it.
    fn asid_pool_assign(&self, pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()>;

    /// Installs a translation table of `level`, which it was made for, under those above it.
    fn translation_table_map(
        &self,
        table: Cap<TranslationTable>,
        level: TableLevel,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
    ) -> Result<()>;
    /// Maps a frame. Without execute permission there is no data in code and no code in data: the processor's
    /// no-execute bit is beyond seL4 5.0.0, so W^X means that no mapping is both writable and holding code.
    fn frame_map(
        &self,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        rights: Rights,
        attributes: CacheAttributes,
    ) -> Result<()>;
    /// Removes the mapping made through this capability.
    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()>;
    /// The frame's physical address.
    fn frame_get_address(&self, frame: Cap<Frame>) -> Result<Paddr>;
    /// Maps a frame into the address space of a PCI function. `FailedLookup` asks for another IO page table.
    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()>;

    /// Unmaps a frame from the address space of a PCI function, where it was mapped at `iova` by this capability.
    fn frame_unmap_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()> {
        // The kernel finds the mapping by the capability.
        let _ = (io_space, iova);
        self.frame_unmap(frame)
    }
    /// Makes the IOSpace of a PCI function from the master, named by `domain` (1..=65535, one per requester id) and the
    /// function's requester id. Nothing is mapped in it.
    fn io_space_open(&self, dest: AbsoluteCPtr, master: AbsoluteCPtr, domain: u16, requester_id: u16) -> Result<()> {
        self.cnode_mint(dest, master, Rights::ALL, CapData::IoSpace { domain, requester_id })
    }
    /// Closes an IOSpace before its capability is revoked and deleted: where the kernel has no IOSpaces, this has their server
    /// unmap everything, so that the function reaches nothing any more. Domain 0 stands for all.
    fn io_space_close(&self, master: AbsoluteCPtr, domain: u16) -> Result<()> {
        let _ = (master, domain);
        Ok(())
    }
    /// Installs the next missing level of IO page tables on the way to `iova`.
    fn io_page_table_map(&self, table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()>;
    /// Unmaps an IO page table.
    fn io_page_table_unmap(&self, table: Cap<IoPageTable>) -> Result<()>;

    /// Makes the handler of an interrupt, which raises kernel interrupt `irq`. For [`IrqSource::Message`] the device must write
    /// [`Kernel::msi_message`] of the same `irq`.
    fn irq_control_get(&self, control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()>;
    /// The address and data a device writes to raise kernel interrupt `irq`.
    fn msi_message(&self, irq: u8) -> (u64, u32);
    /// Number of kernel interrupts for lines and messages together: `irq` is below it.
    fn irq_count(&self) -> u8;
    /// Whether a message-signalled interrupt stays masked until [`Kernel::irq_handler_ack`], as an interrupt of a line does
    /// everywhere.
    fn irq_masks_messages(&self) -> bool {
        false
    }
    /// Acknowledges that the interrupt was handled; the next one can come.
    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()>;
    /// Signals `notification` (with its badge) at each interrupt.
    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()>;
    /// Ends the signals of interrupts.
    fn irq_handler_clear(&self, handler: Cap<IrqHandler>) -> Result<()>;

    /// Signals a notification.
    fn signal(&self, notification: Cap<Notification>);
    /// Sends to an endpoint or answers a saved caller; waits until the message is received.
    fn send(&self, dest: CPtr, message: &Message);
    /// Sends if a receiver waits; otherwise the message is lost.
    fn nb_send(&self, dest: CPtr, message: &Message);
    /// Answers the message being handled.
    fn reply(&self, message: &Message);
    /// Sends and waits for the answer. A capability in the answer lands at the environment's receive cptr.
    ///
    /// The endpoint capability must carry grant or grant-reply, or the answer never comes.
    fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> impl Future<Output = Message>;
}

/// Whether a thread starts when its registers are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Resume {
    /// The thread runs from now on.
    Now,
    /// The thread stays as it was.
    Later,
}

/// Source of an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IrqSource {
    /// A line of the interrupt controller: on x86_64 a pin of the I/O APIC, on AArch64 an interrupt of the GIC.
    Line {
        /// The line's number.
        line: u8,
        /// The line's trigger.
        trigger: Trigger,
    },
    /// A message that a PCI function writes.
    Message {
        /// The function's requester id (bus << 8 | device << 3 | function). Neither kernel checks it.
        requester_id: u16,
    },
}

/// Trigger of an interrupt line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Trigger {
    /// A rising edge.
    Edge,
    /// A level, active low where lines have a polarity: PCI's INTx.
    LevelLow,
}
