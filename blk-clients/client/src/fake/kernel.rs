//! A kernel that knows a client's few capabilities and refuses everything else.

use super::{PEER, POLICY, SERVER, World};
use alloc::rc::Rc;
use core::ops::Range;
use platform::*;

/// The kernel.
#[derive(Clone)]
pub struct FakeKernel {
    world: Rc<World>,
}

impl FakeKernel {
    pub(crate) const fn new(world: Rc<World>) -> Self {
        Self { world }
    }
}

macro_rules! refused {
    ($(fn $name:ident($($argument:ty),*) -> $output:ty;)+) => {$(
        fn $name(&self, $(_: $argument),*) -> Result<$output> {
            Err(Error::InvalidCapability(0))
        }
    )+};
}

impl Kernel for FakeKernel {
    refused! {
        fn untyped_retype(Cap<Untyped>, ObjectType, u8, Cap<CNode>, Range<u64>) -> ();
        fn cnode_copy(AbsoluteCPtr, AbsoluteCPtr, Rights) -> ();
        fn cnode_mint(AbsoluteCPtr, AbsoluteCPtr, Rights, CapData) -> ();
        fn cnode_move(AbsoluteCPtr, AbsoluteCPtr) -> ();
        fn cnode_delete(AbsoluteCPtr) -> ();
        fn cnode_revoke(AbsoluteCPtr) -> ();
        fn cnode_save_caller(AbsoluteCPtr) -> ();
        fn tcb_configure(Cap<Tcb>, CPtr, u8, Cap<CNode>, u8, Cap<VSpace>, Vaddr, Cap<Frame>) -> ();
        fn tcb_write_registers(Cap<Tcb>, Resume, &UserContext) -> ();
        fn tcb_read_registers(Cap<Tcb>) -> UserContext;
        fn tcb_resume(Cap<Tcb>) -> ();
        fn tcb_suspend(Cap<Tcb>) -> ();
        fn tcb_bind_notification(Cap<Tcb>, Cap<Notification>) -> ();
        fn asid_control_make_pool(Cap<AsidControl>, Cap<Untyped>, AbsoluteCPtr) -> ();
        fn asid_pool_assign(Cap<AsidPool>, Cap<VSpace>) -> ();
        fn translation_table_map(Cap<TranslationTable>, TableLevel, Cap<VSpace>, Vaddr) -> ();
        fn frame_map(Cap<Frame>, Cap<VSpace>, Vaddr, Rights, CacheAttributes) -> ();
        fn frame_unmap(Cap<Frame>) -> ();
        fn frame_get_address(Cap<Frame>) -> Paddr;
        fn frame_map_io(Cap<Frame>, Cap<IoSpace>, Rights, Iova) -> ();
        fn io_page_table_map(Cap<IoPageTable>, Cap<IoSpace>, Iova) -> ();
        fn io_page_table_unmap(Cap<IoPageTable>) -> ();
        fn irq_control_get(Cap<IrqControl>, AbsoluteCPtr, IrqSource, u8) -> ();
        fn irq_handler_ack(Cap<IrqHandler>) -> ();
        fn irq_handler_set_notification(Cap<IrqHandler>, Cap<Notification>) -> ();
        fn irq_handler_clear(Cap<IrqHandler>) -> ();
    }

    fn msi_message(&self, _: u8) -> (u64, u32) {
        (0, 0)
    }

    fn irq_count(&self) -> u8 {
        0
    }

    fn signal(&self, notification: Cap<Notification>) {
        if notification.bits() == PEER {
            self.world.peer_answers();
        } else {
            self.world.rang();
        }
    }

    fn send(&self, _: CPtr, _: &Message) {}

    fn nb_send(&self, _: CPtr, _: &Message) {}

    fn reply(&self, _: &Message) {}

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        if endpoint.bits() == POLICY {
            if !self.world.policy_answers() {
                return Message::new(Message::NO_CAPABILITY);
            }
            return self.world.server().ask(message);
        }
        assert_eq!(endpoint.bits(), SERVER, "a call on what is no endpoint: a fault on a real machine");
        if !self.world.turn_over_a_call() {
            return Message::new(Message::NO_CAPABILITY);
        }
        self.world.server().answer(message)
    }
}
