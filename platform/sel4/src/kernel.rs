//! The seam's [`Kernel`] by system calls. What is said about each method there is not said again here.

use crate::bindings::{
    bitfield::{Guard, io_port_capdata, io_space_capdata, seL4_CapData, seL4_CapRights, seL4_PrioProps},
    constant, invoke,
    invoke::seL4_UserContext as user_context,
};
use crate::invocation::{Sel4, is_short};
use crate::syscall;
use core::arch::x86_64::__cpuid;
use core::ops::Range;
use platform::{
    AbsoluteCPtr, AsidControl, AsidPool, Badge, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Error, Frame,
    IoPageTable, IoPort, IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType,
    Paddr, Result, Resume, Rights, TableLevel, Tcb, TranslationTable, Trigger, Untyped, UserContext, VSpace, Vaddr,
};

/// The address a device writes to interrupt the processor (Intel SDM volume 3, section 11.11.1).
const MSI_ADDRESS: u64 = 0xfee0_0000;
const MSI_APIC_ID_SHIFT: u32 = 12;
/// The only I/O APIC of the machines this runs on.
const IOAPIC: u64 = 0;

impl Kernel for Sel4 {
    fn untyped_retype(
        &self,
        untyped: Cap<Untyped>,
        object_type: ObjectType,
        size_bits: u8,
        cnode: Cap<CNode>,
        slots: Range<u64>,
    ) -> Result<()> {
        // Index and depth 0: the slots lie in the named CNode itself.
        let count = slots.end.saturating_sub(slots.start);
        let (kind, size) = (object_number(object_type), u64::from(size_bits));
        done(invoke::seL4_Untyped_Retype(self, untyped.bits(), kind, size, cnode.bits(), 0, 0, slots.start, count))
    }

    fn cnode_copy(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        let rights = rights_word(rights);
        done(invoke::seL4_CNode_Copy(self, dest.root.bits(), dest.index, to, src.root.bits(), src.index, from, rights))
    }

    fn cnode_mint(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        let (rights, data) = (rights_word(rights), cap_data(data)?);
        let (root, index) = (src.root.bits(), src.index);
        done(invoke::seL4_CNode_Mint(self, dest.root.bits(), dest.index, to, root, index, from, rights, data))
    }

    fn cnode_move(&self, dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()> {
        let (to, from) = (u64::from(dest.depth), u64::from(src.depth));
        done(invoke::seL4_CNode_Move(self, dest.root.bits(), dest.index, to, src.root.bits(), src.index, from))
    }

    fn cnode_delete(&self, slot: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_Delete(self, slot.root.bits(), slot.index, u64::from(slot.depth)))
    }

    fn cnode_revoke(&self, slot: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_Revoke(self, slot.root.bits(), slot.index, u64::from(slot.depth)))
    }

    fn cnode_save_caller(&self, slot: AbsoluteCPtr) -> Result<()> {
        done(invoke::seL4_CNode_SaveCaller(self, slot.root.bits(), slot.index, u64::from(slot.depth)))
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
        // No maximum controlled priority: a component sets nobody's priority.
        let priority = seL4_PrioProps::new(0, u64::from(priority));
        let guard = guard(cspace_guard_bits, 0);
        let (cspace, vspace, frame) = (cspace.bits(), vspace.bits(), ipc_buffer_frame.bits());
        let (tcb, fault, buffer) = (tcb.bits(), fault_endpoint.bits(), ipc_buffer.bits());
        done(invoke::seL4_TCB_Configure(self, tcb, fault, priority, cspace, guard, vspace, 0, buffer, frame))
    }

    fn tcb_write_registers(&self, tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()> {
        let mut registers = [0; user_context::WORDS];
        registers[user_context::rip] = context.instruction_pointer;
        registers[user_context::rsp] = context.stack_pointer;
        registers[user_context::rdi] = context.arguments[0];
        registers[user_context::rsi] = context.arguments[1];
        registers[user_context::rdx] = context.arguments[2];
        let resume = u64::from(resume == Resume::Now);
        done(invoke::seL4_TCB_WriteRegisters(self, tcb.bits(), resume, 0, user_context::WORDS as u64, &registers))
    }

    fn tcb_read_registers(&self, tcb: Cap<Tcb>) -> Result<UserContext> {
        let answer = invoke::seL4_TCB_ReadRegisters(self, tcb.bits(), 0, 0, user_context::WORDS as u64)?;
        let register = |index| answer.word(self, index);
        Ok(UserContext {
            instruction_pointer: register(user_context::rip),
            stack_pointer: register(user_context::rsp),
            arguments: [register(user_context::rdi), register(user_context::rsi), register(user_context::rdx)],
        })
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
        done(invoke::seL4_X86_ASIDControl_MakePool(self, control.bits(), untyped.bits(), root, dest.index, depth))
    }

    fn asid_pool_assign(&self, pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()> {
        done(invoke::seL4_X86_ASIDPool_Assign(self, pool.bits(), vspace.bits()))
    }

    fn translation_table_map(
        &self,
        table: Cap<TranslationTable>,
        level: TableLevel,
        vspace: Cap<VSpace>,
        vaddr: Vaddr,
    ) -> Result<()> {
        let (table, vspace, vaddr) = (table.bits(), vspace.bits(), vaddr.bits());
        let attributes = constant::seL4_X86_Default_VMAttributes;
        done(match level {
            TableLevel::One => invoke::seL4_X86_PDPT_Map(self, table, vspace, vaddr, attributes),
            TableLevel::Two => invoke::seL4_X86_PageDirectory_Map(self, table, vspace, vaddr, attributes),
            TableLevel::Three => invoke::seL4_X86_PageTable_Map(self, table, vspace, vaddr, attributes),
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
        let attributes = match attributes {
            CacheAttributes::WriteBack => constant::seL4_X86_WriteBack,
            CacheAttributes::Uncached => constant::seL4_X86_Uncacheable,
        };
        let rights = rights_word(rights);
        done(invoke::seL4_X86_Page_Map(self, frame.bits(), vspace.bits(), vaddr.bits(), rights, attributes))
    }

    fn frame_unmap(&self, frame: Cap<Frame>) -> Result<()> {
        done(invoke::seL4_X86_Page_Unmap(self, frame.bits()))
    }

    fn frame_get_address(&self, frame: Cap<Frame>) -> Result<Paddr> {
        let answer = invoke::seL4_X86_Page_GetAddress(self, frame.bits())?;
        Ok(Paddr::new(answer.word(self, 0)))
    }

    fn frame_map_io(&self, frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()> {
        done(invoke::seL4_X86_Page_MapIO(self, frame.bits(), io_space.bits(), rights_word(rights), iova.bits()))
    }

    fn io_page_table_map(&self, table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()> {
        done(invoke::seL4_X86_IOPageTable_Map(self, table.bits(), io_space.bits(), iova.bits()))
    }

    fn io_page_table_unmap(&self, table: Cap<IoPageTable>) -> Result<()> {
        done(invoke::seL4_X86_IOPageTable_Unmap(self, table.bits()))
    }

    fn irq_control_get(&self, control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()> {
        let (control, root, index, depth) = (control.bits(), dest.root.bits(), dest.index, u64::from(dest.depth));
        let irq = u64::from(irq);
        done(match source {
            IrqSource::Line { line, trigger } => {
                let (level, polarity) = match trigger {
                    Trigger::Edge => (0, 0),
                    Trigger::LevelLow => (1, 1),
                };
                let pin = u64::from(line);
                invoke::seL4_IRQControl_GetIOAPIC(self, control, root, index, depth, IOAPIC, pin, level, polarity, irq)
            }
            IrqSource::Message { requester_id } => {
                let id = u64::from(requester_id);
                let (bus, device, function) = (id >> 8, id >> 3 & 0x1f, id & 7);
                // The handle is the kernel's own note for interrupt remapping, which it does not do.
                invoke::seL4_IRQControl_GetMSI(self, control, root, index, depth, bus, device, function, 0, irq)
            }
        })
    }

    fn msi_message(&self, irq: u8) -> (u64, u32) {
        // Leaf 1, ebx: the top byte is the APIC id of this processor, and the kernel runs on this one alone.
        let apic_id = __cpuid(1).ebx >> 24;
        let address = MSI_ADDRESS | u64::from(apic_id) << MSI_APIC_ID_SHIFT;
        (address, constant::IRQ_OFFSET as u32 + u32::from(irq))
    }

    fn irq_count(&self) -> u8 {
        const COUNT: u64 = constant::int_irq_user_max - constant::int_irq_user_min + 1;
        const { assert!(COUNT <= u8::MAX as u64) };
        COUNT as u8
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

    fn ioport_in8(&self, ports: Cap<IoPort>, port: u16) -> Result<u8> {
        let answer = invoke::seL4_X86_IOPort_In8(self, ports.bits(), u64::from(port))?;
        Ok(answer.word(self, 0) as u8)
    }

    fn ioport_out8(&self, ports: Cap<IoPort>, port: u16, value: u8) -> Result<()> {
        done(invoke::seL4_X86_IOPort_Out8(self, ports.bits(), u64::from(port), u64::from(value)))
    }

    fn ioport_in32(&self, ports: Cap<IoPort>, port: u16) -> Result<u32> {
        let answer = invoke::seL4_X86_IOPort_In32(self, ports.bits(), u64::from(port))?;
        Ok(answer.word(self, 0) as u32)
    }

    fn ioport_out32(&self, ports: Cap<IoPort>, port: u16, value: u32) -> Result<()> {
        done(invoke::seL4_X86_IOPort_Out32(self, ports.bits(), u64::from(port), u64::from(value)))
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
    fn reply(&self, message: &Message) {
        let (info, words) = self.put_message(message);
        if is_short(info) {
            syscall::reply_soon(info, words);
        } else {
            syscall::reply(info, words);
        }
    }

    /// The answer is waited for inside: the kernel has no call that lets its caller do something else meanwhile.
    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        const {
            assert!(
                Message::NO_CAPABILITY as u64 == constant::seL4_InvalidCapability,
                "the seam's number is the kernel's"
            );
        }
        let (info, words) = self.put_message(message);
        let received = syscall::call(endpoint.bits(), info, words);
        self.take_message(&received)
    }
}

fn done<T>(result: Result<T>) -> Result<()> {
    result.map(|_| ())
}

const fn object_number(object_type: ObjectType) -> u64 {
    match object_type {
        ObjectType::Untyped => constant::seL4_UntypedObject,
        ObjectType::Endpoint => constant::seL4_EndpointObject,
        ObjectType::Notification => constant::seL4_NotificationObject,
        ObjectType::CNode => constant::seL4_CapTableObject,
        ObjectType::Tcb => constant::seL4_TCBObject,
        ObjectType::VSpace => constant::seL4_X64_PML4Object,
        ObjectType::TranslationTable(TableLevel::One) => constant::seL4_X86_PDPTObject,
        ObjectType::TranslationTable(TableLevel::Two) => constant::seL4_X86_PageDirectoryObject,
        ObjectType::TranslationTable(TableLevel::Three) => constant::seL4_X86_PageTableObject,
        ObjectType::SmallPage => constant::seL4_X86_4K,
        ObjectType::LargePage => constant::seL4_X86_LargePageObject,
        ObjectType::IoPageTable => constant::seL4_X86_IOPageTableObject,
    }
}

fn rights_word(rights: Rights) -> u64 {
    seL4_CapRights::new(u64::from(rights.grant), u64::from(rights.read), u64::from(rights.write))
}

fn guard(size: u8, value: u64) -> u64 {
    Guard::new(seL4_CapData::Guard, value, u64::from(size))
}

fn cap_data(data: CapData) -> Result<u64> {
    /// The first badge that does not fit an endpoint's capability.
    const ENDPOINT_BADGES: u64 = 1 << constant::seL4_BadgeBits;
    match data {
        // The kernel stops or truncates when an endpoint's badge is too large. It does not say what kind of capability
        // lies in a slot, but ours of notifications carry a mark that endpoints' cannot have.
        CapData::Badge(badge) if badge.0 >= ENDPOINT_BADGES && !badge.has(Badge::SIGNAL) => {
            Err(Error::RangeError { min: 0, max: ENDPOINT_BADGES - 1 })
        }
        CapData::Badge(badge) => Ok(badge.0),
        CapData::Guard { size, value } => Ok(guard(size, value)),
        CapData::IoPorts(first, last) => Ok(io_port_capdata::new(u64::from(first), u64::from(last))),
        CapData::IoSpace { domain, requester_id } => {
            Ok(io_space_capdata::new(u64::from(domain), u64::from(requester_id)))
        }
    }
}
