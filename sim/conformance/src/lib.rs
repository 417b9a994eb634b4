//! Conformance of the kernel's model with the kernel: sequences of calls that are made on both.
//!
//! A sequence ([`Op`]s of up to four threads) is data. On seL4 the interpreter in `src/program/` makes its calls: a
//! root task over `platform-sel4`, started in QEMU with the sequences as its payload. On the build machine [`model`]
//! makes the same calls on `sim-kernel`. Both set the same [`stage`] with the same invocations before, and both write a
//! journal of [`Answer`]s; the journals must be equal, in order, entry by entry ([`compare`]).
//!
//! Sequences are written by topic ([`written`]) or generated from a seed ([`generate`]). Threads have fixed priorities, and
//! the root thread is above the helpers. So seL4's scheduling leaves no choice, and journals do not depend on time.
//!
//! Left out: devices and their interrupts, DMA, and other processors.

#![cfg_attr(target_os = "none", no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;
#[cfg(not(target_os = "none"))]
mod arch;
#[cfg(not(target_os = "none"))]
pub mod compare;
#[cfg(not(target_os = "none"))]
pub mod generate;
mod invoke;
#[cfg(not(target_os = "none"))]
pub mod line;
#[cfg(not(target_os = "none"))]
pub mod model;
mod op;
#[cfg(not(target_os = "none"))]
pub mod script;
#[cfg(not(target_os = "none"))]
pub mod shrink;
pub mod stage;
pub mod wire;
#[cfg(not(target_os = "none"))]
pub mod written;

pub use answer::{Answer, Arrived, Entry};
pub use invoke::{CSpaceLayout, Caller};
pub use op::{Context, HELPERS, Letter, Op, Path, Shown, Slot, THREADS};
