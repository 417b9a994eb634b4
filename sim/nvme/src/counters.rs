//! Counters of a controller, for the SMART log and for users outside.

/// Counts since the controller was created. Resets do not clear them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Bytes that Read, Compare and Verify read from the media.
    pub bytes_read: u64,
    /// Bytes taken from the host by writes.
    pub bytes_written: u64,
    /// Read and Compare commands completed.
    pub reads: u64,
    /// Write commands completed.
    pub writes: u64,
    /// Commands fetched, of any kind.
    pub fetched: u64,
    /// Completions posted.
    pub posted: u64,
    /// Commands completed with a media or data integrity error.
    pub media_errors: u64,
    /// Interrupts raised.
    pub interrupts: u64,
    /// Number of times that power came on, the first included.
    pub power_cycles: u64,
    /// Power losses without a shutdown before.
    pub unsafe_shutdowns: u64,
}
