//! The seam's [`Kernel`] by system calls; the methods are documented there.
//!
//! Names and numbers that differ between the architectures are in [`crate::arch`], and those that differ between kernels in
//! [`crate::abi`].

use crate::abi::{self, guard, rights_word};
use crate::arch;
use crate::bindings::{constant, invoke, invoke::seL4_UserContext as user_context};
use crate::invocation::{Sel4, done, is_short};
use crate::syscall;
use core::future::Future;
use core::ops::Range;
use core::pin::Pin;
use core::task::{Context, Poll};
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType, Paddr,
    Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};

impl Kernel for Sel4 {
    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        cptrs: Range<u64>,
    ) -> Result<()> {
        // Index and depth 0: the cptrs are of the named CNode itself.
        let count = cptrs.end.saturating_sub(cptrs.start);
        let (kind, size) = (arch::object_number(object_type), u64::from(size_bits));
        done(invoke::seL4_Untyped_Retype(self, untyped.bits(), kind, size, cnode.bits(), 0, 0, cptrs.start, count))
    }

    fn cnode_copy(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        let rights = rights_word(rights);
        done(invoke::seL4_CNode_Copy(self, dest.root.bits(), dest.index, to, src.root.bits(), src.index, from, rights))
    }

    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()> {
        if let CapData::IoPorts(first, last) = data {
            return arch::io_ports(self, dest, src, rights, (first, last));
        }
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        let (rights, data) = (rights_word(rights), cap_data(data)?);
        let (root, index) = (src.root.bits(), src.index);
        done(invoke::seL4_CNode_Mint(self, dest.root.bits(), dest.index, to, root, index, from, rights, data))
    }

    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        done(invoke::seL4_CNode_Move(self, dest.root.bits(), dest.index, to, src.root.bits(), src.index, from))
    }

    fn cnode_delete(&self, cptr: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_Delete(self, cptr.root.bits(), cptr.index, u64::from(cptr.depth)))
    }

    fn cnode_revoke(&self, cptr: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_Revoke(self, cptr.root.bits(), cptr.index, u64::from(cptr.depth)))
    }

    fn cnode_save_caller(&self, cptr: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_SaveCaller(self, cptr.root.bits(), cptr.index, u64::from(cptr.depth)))
    }

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
    ) -> Result<()> {
        let cspace = (cspace.bits(), guard(cspace_guard_bits, 0));
        let buffer = (ipc_buffer.bits(), ipc_buffer_frame.bits());
        abi::configure(self, tcb.bits(), fault_endpoint.bits(), priority, cspace, vspace.bits(), buffer)
    }

    fn tcb_write_registers(&self, tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()> {
        let mut registers = [0; user_context::WORDS];
        let UserContext { instruction_pointer, stack_pointer, arguments: [first, second, third] } = *context;
        for (index, value) in
            arch::REGISTERS.into_iter().zip([instruction_pointer, stack_pointer, first, second, third])
        {
            registers[index] = value;
        }
        let resume = u64::from(resume == Resume::Now);
        done(invoke::seL4_TCB_WriteRegisters(self, tcb.bits(), resume, 0, user_context::WORDS as u64, &registers))
    }

    fn tcb_read_registers(&self, tcb: Cap<Tcb>) -> Result<UserContext> {
        let answer = invoke::seL4_TCB_ReadRegisters(self, tcb.bits(), 0, 0, user_context::WORDS as u64)?;
        let [instruction_pointer, stack_pointer, arguments @ ..] =
            arch::REGISTERS.map(|index| answer.word(self, index));
        Ok(UserContext { instruction_pointer, stack_pointer, arguments })
    }

    fn tcb_resume(&self, tcb: Cap<Tcb>) -> Result<()> {
        done(invoke::seL4_TCB_Resume(self, tcb.bits()))
    }

    fn tcb_suspend(&self, tcb: Cap<Tcb>) -> Result<()> {
        done(invoke::seL4_TCB_Suspend(self, tcb.bits()))
    }

    fn tcb_bind_notification(&self, tcb: Cap<Tcb>, notification: Cap<Notification>) -> Result<()> {
        done(invoke::seL4_TCB_BindNotification(self, tcb.bits(), notification.bits()))
    }

    fn asid_control_make_pool(
        &self,
        control: Cap<AsidControl>,
        untyped: Cap<Untyped>,
        dest: AbsoluteCPtr,
    ) -> Result<()> {
        let (root, depth) = (dest.root.bits(), u64::from(dest.depth));
        done(arch::asid_control_make_pool(self, control.bits(), untyped.bits(), root, dest.index, depth))
    }

    fn asid_pool_assign(&self, pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()> {
        done(arch::asid_pool_assign(self, pool.bits(), vspace.bits()))
    }

    fn translation_table_map(
        &self,
        table: Cap<TranslationTable>,
        level: TableLevel,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
    ) -> Result<()> {
        let (table, vspace, vaddr) = (table.bits(), vspace.bits(), vaddr.bits());
        done(match level {
            TableLevel::One => arch::table_one_map(self, table, vspace, vaddr, arch::TABLE_ATTRIBUTES),
            TableLevel::Two => arch::table_two_map(self, table, vspace, vaddr, arch::TABLE_ATTRIBUTES),
            TableLevel::Three => arch::table_three_map(self, table, vspace, vaddr, arch::TABLE_ATTRIBUTES),
        })
    }

    fn frame_map(
        &self,
        frame: Cap<Frame>,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
        rights: Rights,
        attributes: CacheAttributes,
    ) -> Result<()> {
        let attributes = arch::attributes(attributes, rights);
        let rights = rights_word(rights);
        done(arch::page_map(self, frame.bits(), vspace.bits(), vaddr.bits(), rights, attributes))
    }

    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()> {
        done(arch::page_unmap(self, frame.bits()))
    }

    fn frame_get_address(&self, frame: Cap<Frame>) -> Result<Paddr> {
        let answer = arch::page_get_address(self, frame.bits())?;
        Ok(Paddr::new(answer.word(self, 0)))
    }

    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()> {
        arch::page_map_io(self, frame, io_space, rights, iova)
    }

    fn frame_unmap_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()> {
        arch::page_unmap_io(self, frame, io_space, iova)
    }

    fn io_space_open(&self, dest: AbsoluteCPtr, master: AbsoluteCPtr, domain: u16, requester_id: u16) -> Result<()> {
        arch::io_space_open(self, dest, master, domain, requester_id)
    }

    fn io_space_close(&self, master: AbsoluteCPtr, domain: u16) -> Result<()> {
        arch::io_space_close(self, master, domain)
    }

    fn io_page_table_map(&self, table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()> {
        arch::io_page_table_map(self, table, io_space, iova)
    }

    fn io_page_table_unmap(&self, table: Cap<IoPageTable>) -> Result<()> {
        arch::io_page_table_unmap(self, table)
    }

    fn irq_control_get(&self, control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()> {
        arch::irq_control_get(self, control, dest, source, irq)
    }

    fn msi_message(&self, irq: u8) -> (u64, u32) {
        arch::msi_message(irq)
    }

    fn irq_count(&self) -> u8 {
        arch::IRQ_COUNT
    }

    fn irq_masks_messages(&self) -> bool {
        arch::MASKS_MESSAGES
    }

    #[inline]
    fn irq_handler_ack(&self, handler: Cap<IrqHandler>) -> Result<()> {
        done(invoke::seL4_IRQHandler_Ack(self, handler.bits()))
    }

    fn irq_handler_set_notification(&self, handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()> {
        done(invoke::seL4_IRQHandler_SetNotification(self, handler.bits(), notification.bits()))
    }

    fn irq_handler_clear(&self, handler: Cap<IrqHandler>) -> Result<()> {
        done(invoke::seL4_IRQHandler_Clear(self, handler.bits()))
    }

    #[inline]
    fn signal(&self, notification: Cap<Notification>) {
        syscall::signal(notification.bits());
    }

    fn send(&self, dest: CPtr, message: &Message) {
        let (info, words) = self.put_message(message);
        syscall::send(dest.bits(), info, words);
    }

    fn nb_send(&self, dest: CPtr, message: &Message) {
        let (info, words) = self.put_message(message);
        syscall::nb_send(dest.bits(), info, words);
    }

    /// A short answer goes out with the component's next system call, which mostly is the wait for the next message, or
    /// at the end of the task's turn at the latest.
    #[inline(always)]
    fn reply(&self, message: &Message) {
        let (info, words) = self.put_message(message);
        if is_short(info) {
            syscall::reply_soon(info, words);
        } else {
            syscall::reply(info, words);
        }
    }

    /// The answer is waited for inside: the kernel has no call that lets its caller do something else meanwhile.
    #[inline(always)]
    fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> impl Future<Output = Message> {
        const {
            assert!(
                Message::NO_CAPABILITY as u64 == constant::seL4_InvalidCapability,
                "the seam's number is the kernel's"
            );
        }
        Call { kernel: self, endpoint, message }
    }
}

/// A call that is made when it is polled. Not an `async fn`, whose body is never put into its caller's.
struct Call<'kernel, 'message> {
    kernel: &'kernel Sel4,
    endpoint: Cap<Endpoint>,
    message: &'message Message,
}

impl Future for Call<'_, '_> {
    type Output = Message;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, _: &mut Context) -> Poll<Message> {
        let (info, words) = self.kernel.put_message(self.message);
        let received = syscall::call(self.endpoint.bits(), info, words);
        Poll::Ready(self.kernel.take_message(&received))
    }
}

fn cap_data(data: CapData) -> Result<u64> {
    /// The first badge that does not fit an endpoint's capability, in seL4 5.0.0 and in the seam: `Badge::SIGNAL` must be impossible.
    const ENDPOINT_BADGES: u64 = 1 << 28;
    match data {
        // The kernel stops or truncates when an endpoint's badge is too large. It does not report the kind of the
        // capability at a cptr, but our notifications' badges carry a mark that endpoints' cannot have.
        CapData::Badge(badge) if badge.0 >= ENDPOINT_BADGES && !badge.has(Badge::SIGNAL) => {
            Err(Error::RangeError { min: 0, max: ENDPOINT_BADGES - 1 })
        }
        CapData::Badge(badge) => Ok(badge.0),
        CapData::Guard { size, value } => Ok(guard(size, value)),
        // A call of its own.
        CapData::IoPorts(..) => Err(Error::IllegalOperation),
        CapData::IoSpace { domain, requester_id } => arch::io_space_data(domain, requester_id),
    }
}
