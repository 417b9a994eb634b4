//! Kernels of which a test has a part: the invocations that its component makes, as the test needs them.

use crate::{
    AbsoluteCPtr, AsidControl, AsidPool, CNode, CPtr, CacheAttributes, Cap, CapData, Endpoint, Frame, IoPageTable,
    IoSpace, Iova, IrqControl, IrqHandler, IrqSource, Kernel, Message, Notification, ObjectType, Paddr, Result, Resume,
    Rights, TableLevel, Tcb, TranslationTable, Untyped, UserContext, VSpace, Vaddr,
};
use core::future::Future;
use core::ops::Range;

/// Calls a macro with the signatures of all invocations that a kernel must have, but [`Kernel::call`].
macro_rules! invocations {
    ($with:ident) => {
        $with! {
            untyped_retype(untyped: Cap<Untyped>, object_type: ObjectType, size_bits: u8, cnode: Cap<CNode>,
                cptrs: Range<u64>) -> Result<()>;
            cnode_copy(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights) -> Result<()>;
            cnode_mint(dest: AbsoluteCPtr, src: AbsoluteCPtr, rights: Rights, data: CapData) -> Result<()>;
            cnode_move(dest: AbsoluteCPtr, src: AbsoluteCPtr) -> Result<()>;
            cnode_delete(cptr: AbsoluteCPtr) -> Result<()>;
            cnode_revoke(cptr: AbsoluteCPtr) -> Result<()>;
            cnode_save_caller(cptr: AbsoluteCPtr) -> Result<()>;
            tcb_configure(tcb: Cap<Tcb>, fault_endpoint: CPtr, priority: u8, cspace: Cap<CNode>, cspace_guard_bits: u8,
                vspace: Cap<VSpace>, ipc_buffer: Vaddr, ipc_buffer_frame: Cap<Frame>) -> Result<()>;
            tcb_write_registers(tcb: Cap<Tcb>, resume: Resume, context: &UserContext) -> Result<()>;
            tcb_read_registers(tcb: Cap<Tcb>) -> Result<UserContext>;
            tcb_resume(tcb: Cap<Tcb>) -> Result<()>;
            tcb_suspend(tcb: Cap<Tcb>) -> Result<()>;
            tcb_bind_notification(tcb: Cap<Tcb>, notification: Cap<Notification>) -> Result<()>;
            asid_control_make_pool(control: Cap<AsidControl>, untyped: Cap<Untyped>, dest: AbsoluteCPtr) -> Result<()>;
            asid_pool_assign(pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()>;
            translation_table_map(table: Cap<TranslationTable>, level: TableLevel, vspace: Cap<VSpace>,
                vaddr: Vaddr) -> Result<()>;
            frame_map(frame: Cap<Frame>, vspace: Cap<VSpace>, vaddr: Vaddr, rights: Rights,
                attributes: CacheAttributes) -> Result<()>;
            frame_unmap(frame: Cap<Frame>) -> Result<()>;
            frame_get_address(frame: Cap<Frame>) -> Result<Paddr>;
            frame_map_io(frame: Cap<Frame>, io_space: Cap<IoSpace>, rights: Rights, iova: Iova) -> Result<()>;
            io_page_table_map(table: Cap<IoPageTable>, io_space: Cap<IoSpace>, iova: Iova) -> Result<()>;
            io_page_table_unmap(table: Cap<IoPageTable>) -> Result<()>;
            irq_control_get(control: Cap<IrqControl>, dest: AbsoluteCPtr, source: IrqSource, irq: u8) -> Result<()>;
            msi_message(irq: u8) -> (u64, u32);
            irq_count() -> u8;
            irq_handler_ack(handler: Cap<IrqHandler>) -> Result<()>;
            irq_handler_set_notification(handler: Cap<IrqHandler>, notification: Cap<Notification>) -> Result<()>;
            irq_handler_clear(handler: Cap<IrqHandler>) -> Result<()>;
            signal(notification: Cap<Notification>) -> ();
            send(dest: CPtr, message: &Message) -> ();
            nb_send(dest: CPtr, message: &Message) -> ();
            reply(message: &Message) -> ();
        }
    };
}

macro_rules! partial {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        /// A kernel with invocations of a test's own. The others are those of [`Partial::rest`].
        #[allow(missing_docs, clippy::missing_errors_doc, clippy::too_many_arguments, reason = "as Kernel has them")]
        pub trait Partial: Clone + 'static {
            /// The kernel that has the other invocations.
            type Rest: Kernel;

            /// The kernel of the other invocations.
            fn rest(&self) -> Self::Rest;

            $(fn $name(&self, $($argument: $kind),*) -> $result {
                self.rest().$name($($argument),*)
            })*

            fn irq_masks_messages(&self) -> bool {
                self.rest().irq_masks_messages()
            }

            fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> impl Future<Output = Message> {
                async move { self.rest().call(endpoint, message).await }
            }
        }

        impl<T: Partial> Kernel for T {
            $(fn $name(&self, $($argument: $kind),*) -> $result {
                Partial::$name(self, $($argument),*)
            })*

            fn irq_masks_messages(&self) -> bool {
                Partial::irq_masks_messages(self)
            }

            fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> impl Future<Output = Message> {
                Partial::call(self, endpoint, message)
            }
        }
    };
}

macro_rules! nobodys {
    ($($name:ident($($argument:ident: $kind:ty),*) -> $result:ty;)*) => {
        impl Kernel for Nobody {
            $(fn $name(&self, $(_: $kind),*) -> $result {
                self.refuse(stringify!($name))
            })*

            async fn call(&self, _: Cap<Endpoint>, _: &Message) -> Message {
                self.refuse("call")
            }
        }
    };
}

/// A kernel without any invocation: each panics. It has the name of the component that must not make it.
#[derive(Clone, Copy, Debug)]
pub struct Nobody(pub &'static str);

impl Nobody {
    #[expect(clippy::panic, reason = "a test whose component makes this invocation fails")]
    fn refuse(&self, invocation: &str) -> ! {
        panic!("{} has no business with {invocation}", self.0)
    }
}

invocations!(partial);
invocations!(nobodys);
