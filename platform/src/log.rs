//! Log macros: defmt's on the target (feature `defmt`), those of the `log` crate on the build machine.
//!
//! Arguments are integers, strings, or types that have both `defmt::Format` and `Display`; placeholders are `{}`,
//! `{:x}` and `{:#x}`, which both support.

#[cfg(feature = "defmt")]
pub use defmt::{debug, error, info, trace, warn};
#[cfg(not(feature = "defmt"))]
pub use log::{debug, error, info, trace, warn};
