//! Writes log frames and reports as records into the component's log ring (`report::ring`), for the console.
//!
//! defmt writes a frame in pieces. They are gathered here and become one record, in defmt's raw encoding, because the
//! record marks the frame's ends: a reader decodes each record by itself and is not misled by one that was lost. Nothing
//! here blocks. A frame that is too long, or comes before there is a ring, is lost; the ring counts what a slow console
//! loses.

use crate::invocation::Sel4;
use crate::local::Local;
use crate::memory::Sel4Memory;
use crate::{arch, syscall};
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};
use platform::{Cap, Kernel, Notification, OutOfBounds};
use report::ring::{Kind, MAX_RECORD, Producer};

struct Log {
    ring: Option<Ring>,
    frame: [u8; MAX_RECORD],
    /// Bytes of the frame so far, counted on beyond what fits.
    used: usize,
}

struct Ring {
    producer: Producer<Sel4Memory>,
    kernel: Sel4,
    console: Option<Cap<Notification>>,
}

static STATE: Local<Log> = Local::new(Log { ring: None, frame: [0; MAX_RECORD], used: 0 });
/// Whether a frame is being written.
static OPEN: AtomicBool = AtomicBool::new(false);

/// Starts the log: records go to the ring in `memory`, and `console` is signalled after each.
pub(crate) fn start(memory: Sel4Memory, kernel: &Sel4, console: Option<Cap<Notification>>) -> Result<(), OutOfBounds> {
    let ring = Ring { producer: Producer::new(memory)?, kernel: kernel.clone(), console };
    // SAFETY: the assignment drops the ring that was there before, which calls nothing.
    unsafe { STATE.with(|log| log.ring = Some(ring)) };
    Ok(())
}

/// Puts a report, made at `at_ns` of machine time, into the ring.
pub(crate) fn report(at_ns: u64, bytes: &[u8]) {
    // SAFETY: the ring's producer and the kernel's signal log nothing.
    unsafe {
        STATE.with(|log| {
            if let Some(ring) = &mut log.ring {
                // A report may be too long: its caller prevents that, because here no component could be notified.
                let pushed = ring.producer.push_report(at_ns, bytes).is_ok();
                ring.signal(pushed);
            }
        });
    }
}

impl Ring {
    /// Signals the console when there is a new record.
    fn signal(&self, pushed: bool) {
        if let Some(console) = self.console.filter(|_| pushed) {
            self.kernel.signal(console);
        }
    }
}

impl Log {
    fn append(&mut self, bytes: &[u8]) {
        let end = self.used.saturating_add(bytes.len());
        if let Some(room) = self.frame.get_mut(self.used..end) {
            room.copy_from_slice(bytes);
        }
        self.used = end;
    }

    fn finish(&mut self) {
        if let (Some(ring), Some(frame)) = (&mut self.ring, self.frame.get(..self.used)) {
            // A frame that is too long is lost.
            let pushed = ring.producer.push(Kind::Log, frame).is_ok();
            ring.signal(pushed);
        }
    }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: defmt asks that `acquire` excludes every other context until `release`: there is none (see `Local`), and
// logging from inside a frame's formatting stops the component in `acquire`.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        assert!(!OPEN.swap(true, Ordering::Relaxed), "a value logs while it is being logged");
        // SAFETY: the assignment calls nothing.
        unsafe { STATE.with(|log| log.used = 0) };
    }

    unsafe fn flush() {
        // A record is out as soon as its frame is released.
    }

    unsafe fn release() {
        // SAFETY: the ring's producer and the kernel's signal log nothing.
        unsafe { STATE.with(Log::finish) };
        OPEN.store(false, Ordering::Relaxed);
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: copying bytes logs nothing.
        unsafe { STATE.with(|log| log.append(bytes)) };
    }
}

defmt::timestamp!("{=u64:us}", crate::time::now_us());

/// Reports where and why the component stops, then faults, so that the supervisor sees and ends it.
#[cfg_attr(not(test), panic_handler)]
#[cfg_attr(test, expect(dead_code, reason = "tests have the standard library's"))]
fn panic(info: &PanicInfo) -> ! {
    static PANICKED: AtomicBool = AtomicBool::new(false);
    if !PANICKED.swap(true, Ordering::Relaxed) {
        // The panic may have come from inside a frame, which is given up.
        OPEN.store(false, Ordering::Relaxed);
        let (file, line) = info.location().map_or(("unknown place", 0), |place| (place.file(), place.line()));
        print(format_args!("panicked at {file}:{line}: {}\n", info.message()));
        defmt::error!("panicked at {=str}:{=u32}: {}", file, line, defmt::Display2Format(&info.message()));
    }
    // A caller that was answered before the panic is not left waiting.
    syscall::send_answer();
    arch::syscall::crash()
}

/// defmt's own way to stop; the panic handler reports.
#[defmt::panic_handler]
fn defmt_panic() -> ! {
    panic!("stopped by a defmt macro")
}

/// Prints on the kernel's serial port, for what happens before the log ring is there: debug kernels only.
pub(crate) fn print(text: core::fmt::Arguments) {
    #[cfg(sel4_debug)]
    {
        struct Serial;
        impl core::fmt::Write for Serial {
            fn write_str(&mut self, text: &str) -> core::fmt::Result {
                text.bytes().for_each(syscall::debug_put_char);
                Ok(())
            }
        }
        // It never fails.
        let _ = core::fmt::Write::write_fmt(&mut Serial, text);
    }
    #[cfg(not(sel4_debug))]
    let _ = text;
}
