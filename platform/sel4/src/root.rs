//! The root task's start, from its first instruction to its main function, and the root task's own platform.
//!
//! The kernel starts the root task without a stack and with an address space that it laid out: the image, then the IPC
//! buffer, then the boot info. Beyond that, and apart from any component, the root task has an area of addresses to map
//! frames into and a payload behind its program. Both are regions of its platform, by name.

use crate::abi;
use crate::arch;
use crate::boot_info::BootInfo;
use crate::component::Sel4Platform;
use crate::executor;
use crate::initial;
use crate::invocation::Sel4;
use crate::ipc_buffer::IpcBuffer;
use crate::memory::Sel4Memory;
use crate::runtime::start_heap;
use crate::{log, time};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::ops::Deref;
use core::ptr::addr_of;
use platform::{AbsoluteCPtr, CPtr, Cap, Event, HEAP_BYTES, Name, Notification, OutOfBounds, Platform};
use platform::{Region, RegionKind, Vaddr};

/// Bytes of the root task's stack.
pub const STACK_BYTES: usize = 256 << 10;

/// Area in which the root task may map anything; it makes the paging structures itself.
pub const MAPPING_AREA: (Vaddr, u64) = (Vaddr::new(0x4000_0000), 0x3000_0000);
/// Area in which it may map device registers, likewise; in the same GiB.
pub const DEVICE_AREA: (Vaddr, u64) = (Vaddr::new(0x7000_0000), 0x1000_0000);

/// Bits of a cptr of the root task's CSpace, as of every component's.
const CSPACE_DEPTH: u8 = 64;

/// The stack, for the entry that [`root_task!`](crate::root_task) writes. Page aligned, so that its top is too.
#[doc(hidden)]
#[repr(C, align(4096))]
pub struct Stack(pub(crate) core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only the processor's stack pointer reaches it.
unsafe impl Sync for Stack {}

#[doc(hidden)]
pub static STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]));

unsafe extern "C" {
    /// Start of the payload section, from `root-task.ld`.
    static __payload_start: u8;
}

/// The root task's platform: that of a component (to which it dereferences) and the parts of the root task alone.
#[derive(Clone)]
pub struct RootPlatform {
    platform: Sel4Platform,
    ipc_buffer: IpcBuffer,
    boot_info: Rc<BootInfo>,
    payload: Region,
    mapping_area: Region,
    device_area: Region,
}

impl RootPlatform {
    /// The payload that xtask put behind the program: the system's specification and its components' data, up to the end of
    /// the image's last page.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the image ends before the payload's place.
    pub fn payload(&self) -> Result<Sel4Memory, OutOfBounds> {
        self.platform.memory(&self.payload)
    }

    /// Addresses that are free for mapping frames: [`Platform::memory`] of parts of it gives access to the mapped frames.
    #[must_use]
    pub fn mapping_area(&self) -> &Region {
        &self.mapping_area
    }

    /// Addresses that are free for mapping device registers, for [`Platform::mmio`].
    #[must_use]
    pub fn device_area(&self) -> &Region {
        &self.device_area
    }

    /// Prints on the kernel's serial port, for what happens before the log is there: debug kernels only.
    pub fn print(&self, text: core::fmt::Arguments<'_>) {
        log::print(text);
    }

    /// Starts the log: frames and reports go to the ring in `region`, a part of the mapping area that was mapped, and `console` is
    /// signalled for them.
    ///
    /// # Errors
    /// [`OutOfBounds`] when the region is not of the mapping area or has no size for a ring.
    pub fn start_log(&self, region: &Region, console: Option<Cap<Notification>>) -> Result<(), OutOfBounds> {
        log::start(self.platform.memory(region)?, self.platform.kernel(), console)
    }

    /// `cptr` of the root task's CSpace, in the form for CNode invocations.
    #[must_use]
    pub const fn absolute(&self, cptr: CPtr) -> AbsoluteCPtr {
        AbsoluteCPtr { root: initial::CNODE, index: cptr.bits(), depth: CSPACE_DEPTH }
    }

    /// Sends bytes on the machine's serial line, which has no owner any more: for the message that there is no system.
    pub fn write_panic(&self, bytes: &[u8]) {
        arch::write_panic(self, bytes);
    }

    /// The boot info from the kernel.
    #[must_use]
    pub fn boot_info(&self) -> &BootInfo {
        &self.boot_info
    }

    /// Names the empty cptr that a received capability arrives at.
    pub fn set_receive_cptr(&self, cptr: CPtr) {
        self.ipc_buffer.set_receive_cptr(self.absolute(cptr));
    }

    /// Waits for an event at the endpoint or notification `wait`.
    #[must_use]
    pub fn wait(&self, wait: CPtr) -> Event {
        executor::wait_blocking(self.platform.kernel(), wait)
    }

    /// Runs `main` as a component that waits at `wait`: from now on [`Platform::next_event`] works.
    pub fn run<F: Future<Output = ()> + 'static>(self, wait: CPtr, main: F) -> ! {
        self.platform.listen(Some(wait));
        self.platform.run(main)
    }

    /// All regions of the root task.
    pub(crate) fn regions(&self) -> Vec<Region> {
        vec![self.payload.clone(), self.mapping_area.clone(), self.device_area.clone()]
    }

    /// The platform, for code that is written against the seam.
    #[must_use]
    pub const fn platform(&self) -> Sel4Platform {
        self.platform
    }
}

impl Deref for RootPlatform {
    type Target = Sel4Platform;

    fn deref(&self) -> &Sel4Platform {
        &self.platform
    }
}

/// Starts the root task: called by [`root_task!`](crate::root_task).
///
/// # Safety
/// Called once, on [`STACK`], as the first thing the program does, with the boot info's address from the kernel.
#[doc(hidden)]
pub unsafe fn start_root_task(boot_info: *const u8, main: fn(&BootInfo, RootPlatform) -> !) -> ! {
    static mut HEAP: [u8; HEAP_BYTES] = [0; HEAP_BYTES];
    // SAFETY: the program has just begun, and nobody else can name the array.
    unsafe { start_heap(&raw mut HEAP) };
    // SAFETY: the caller's word.
    let boot_info = unsafe { BootInfo::read(boot_info) };
    time::start(boot_info.ticks_per_second);
    // SAFETY: the kernel mapped the buffer behind the image, where nothing of the program lies.
    let ipc_buffer = unsafe { IpcBuffer::new(boot_info.ipc_buffer) }.expect("the kernel aligns the IPC buffer");
    let payload_start = addr_of!(__payload_start) as u64;
    let payload = Region {
        name: name("payload"),
        vaddr: Vaddr::new(payload_start),
        // The image's last page is followed by the IPC buffer.
        len: boot_info.ipc_buffer.bits().saturating_sub(payload_start),
        kind: RegionKind::ReadOnly,
    };
    let mapping_area =
        Region { name: name("mapping-area"), vaddr: MAPPING_AREA.0, len: MAPPING_AREA.1, kind: RegionKind::ReadWrite };
    let (vaddr, len) = DEVICE_AREA;
    let device_area = Region { name: name("device-area"), vaddr, len, kind: RegionKind::Arena };
    let regions = vec![payload.clone(), mapping_area.clone(), device_area.clone()];
    // SAFETY: the payload is the last part of the image, in a section that holds nothing else, and the mapping area starts
    // behind image, IPC buffer and boot info, where the program maps nothing that Rust would know of.
    let platform = unsafe { Sel4Platform::new(Sel4::new(ipc_buffer), regions, boot_info.ticks_per_second) };
    // If it fails, switches take longer.
    let _ = abi::without_floating_point(platform.kernel(), initial::TCB);
    let boot_info = Rc::new(boot_info);
    main(
        &boot_info,
        RootPlatform { platform, ipc_buffer, boot_info: Rc::clone(&boot_info), payload, mapping_area, device_area },
    )
}

fn name(text: &str) -> Name {
    // The names here are short.
    Name::try_from(text).unwrap_or_default()
}

/// Makes the root task's program out of its `fn(&BootInfo, RootPlatform) -> !`.
///
/// The program's crate is `no_std` and `no_main`, and this line is all of it. Link it with `root-task.ld`.
#[macro_export]
macro_rules! root_task {
    ($main:path) => {
        #[allow(unsafe_code, reason = "a symbol of the program's start, which nobody in the program calls")]
        #[unsafe(no_mangle)]
        extern "C" fn __root_task_main(boot_info: *const u8) -> ! {
            // SAFETY: `_start` below comes here once, on the stack, with what the kernel gave.
            unsafe { $crate::start_root_task(boot_info, $main) }
        }

        #[allow(unsafe_code, reason = "the program's first instructions, before there is a stack")]
        mod __root_task_start {
            $crate::__start_root_task!(super::__root_task_main);
        }
    };
}
