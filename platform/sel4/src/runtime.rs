//! A component's start, from its first instruction to its `run`.

use crate::component::Sel4Platform;
use crate::invocation::Sel4;
use crate::ipc_buffer::IpcBuffer;
use crate::{log, time};
use core::future::Future;
use embedded_alloc::LlffHeap as Heap;
use platform::{CPtr, Environment, Platform};

#[cfg_attr(not(test), global_allocator)]
static HEAP: Heap = Heap::empty();

/// Gives the heap its memory.
///
/// # Safety
/// Called once, before anything is allocated. Nothing else uses `memory`, which lives as long as the program.
pub(crate) unsafe fn start_heap(memory: *mut [u8]) {
    // SAFETY: the caller's word.
    unsafe { HEAP.init(memory.cast::<u8>() as usize, memory.len()) };
}

/// Starts a component: called by [`component!`](crate::component) with memory for its heap and the registers that the root
/// task set.
///
/// `environment` is the address of the environment: its length in 8 bytes, little endian, then its postcard bytes.
/// `ticks_per_second` is the rate of the time stamp counter.
///
/// # Safety
/// Called once, as the first thing the program does, by a thread that the root task started with these arguments.
/// Nothing else uses `heap`. `environment` is mapped and does not change, and describes the IPC buffer and the regions
/// truthfully.
#[doc(hidden)]
pub unsafe fn start_component<F>(
    heap: *mut [u8],
    environment: *const u8,
    ticks_per_second: u64,
    run: impl FnOnce(Sel4Platform, Environment) -> F,
) -> !
where
    F: Future<Output = ()> + 'static,
{
    // SAFETY: the program has just begun, and by the caller's word the memory is the heap's.
    unsafe { start_heap(heap) };
    time::start(ticks_per_second);
    // SAFETY: the caller's word.
    let environment = unsafe { read_environment(environment) };
    // SAFETY: the root task maps a frame of its own there and made it the thread's IPC buffer.
    let buffer = unsafe { IpcBuffer::new(environment.ipc_buffer) }.expect("the IPC buffer has an aligned address");
    let receive = environment.receive_cptr.and_then(|cptr| environment.absolute(cptr));
    if let Some(cptr) = receive {
        buffer.set_receive_cptr(cptr);
    }
    let kernel = Sel4::new(buffer);
    let regions = environment.regions.clone();
    // SAFETY: the root task lays regions out apart from the program's image, stack and IPC buffer.
    let platform = unsafe { Sel4Platform::new(kernel.clone(), regions, ticks_per_second) };
    platform.listen(environment.wait.filter(|wait| *wait != CPtr::new(0)));
    if let Some(Ok(memory)) = environment.region(report::names::LOG).map(|region| platform.memory(region)) {
        // A ring of an impossible size leaves the component without a log, which is no reason to stop.
        let _ = log::start(memory, &kernel, environment.cap(report::names::LOG));
    }
    platform.run(run(platform, environment))
}

/// # Safety
/// At `bytes` lies a length in 8 bytes, and as many bytes behind it, none of which change.
unsafe fn read_environment(bytes: *const u8) -> Environment {
    // SAFETY: the caller's word; the length's 8 bytes need no alignment so.
    let len = u64::from_le(unsafe { bytes.cast::<u64>().read_unaligned() });
    let len = usize::try_from(len).expect("the environment's length is one");
    // SAFETY: the caller's word.
    let bytes = unsafe { core::slice::from_raw_parts(bytes.add(size_of::<u64>()), len) };
    postcard::from_bytes(bytes).expect("the environment is one")
}

/// Makes a component's program out of its `async fn run<P: Platform>(platform: P, environment: Environment)`.
///
/// The program's crate is `no_std` and `no_main`, and this line is all of it. Link it with `component.ld`. It has
/// [`HEAP_BYTES`](crate::HEAP_BYTES) of heap, or as many as it asks for: `component!(server::run, heap = 2 << 20)`.
#[macro_export]
macro_rules! component {
    ($run:path) => {
        $crate::component!($run, heap = $crate::HEAP_BYTES);
    };
    ($run:path, heap = $heap:expr) => {
        /// Called by the first instructions; the root task passes the environment's address and the clock's rate.
        extern "C" fn __component_main(environment: *const u8, ticks_per_second: u64) -> ! {
            static mut HEAP: [u8; $heap] = [0; $heap];
            let heap: *mut [u8] = &raw mut HEAP;
            // SAFETY: the root task starts the thread here, once, with the arguments the function asks for; nobody else
            // can name the array.
            unsafe {
                $crate::start_component(heap, environment, ticks_per_second, |platform, environment| {
                    $run(platform, environment)
                })
            }
        }

        #[allow(unsafe_code, reason = "the program's first instructions, the one symbol the linker has to find")]
        mod __component_start {
            $crate::__start_component!(super::__component_main);
        }
    };
}
