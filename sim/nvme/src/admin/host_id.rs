//! The host identifier (feature 81h, section 5.21.1.26).

use nvme_spec::StatusCode;

/// Bytes of a long identifier.
pub(super) const LONG_BYTES: usize = 16;
/// Bytes of a short identifier.
pub(super) const SHORT_BYTES: usize = 8;

/// The identifier of the host that uses the controller; all zeroes for none. A short one fills the first half.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HostIdentity([u8; LONG_BYTES]);

impl HostIdentity {
    pub(super) const fn get(&self) -> [u8; LONG_BYTES] {
        self.0
    }

    /// Sets the identifier, which cannot change until a reset.
    ///
    /// # Errors
    /// Command Sequence Error for another identifier than the one that is set.
    pub(super) fn set(&mut self, id: [u8; LONG_BYTES]) -> Result<(), StatusCode> {
        if *self != Self::default() && self.0 != id {
            return Err(StatusCode::CommandSequence);
        }
        self.0 = id;
        Ok(())
    }

    /// Resets with the controller: no host is known.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}
