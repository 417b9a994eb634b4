//! Costs in virtual time. The defaults for kernel operations are cycles that the seL4 project publishes for a Skylake
//! processor (SEEDS F1). The others are estimates of that order, and marked as such.

/// Nanoseconds of virtual time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Costs {
    /// A call, up to the receiver's wake-up.
    pub call_ns: u64,
    /// A reply, up to the caller's wake-up.
    pub reply_ns: u64,
    /// A signal, up to the waiter's wake-up.
    pub signal_ns: u64,
    /// An interrupt, up to its thread's wake-up.
    pub interrupt_ns: u64,
    /// Entering and leaving the kernel for a wait, a poll or a yield. An estimate: half a signal.
    pub wait_ns: u64,
    /// Any other invocation. An estimate: decoding and a table's change.
    pub invocation_ns: u64,
    /// An access to ordinary memory, whatever its size up to a structure; an estimate for warm caches.
    pub access_ns: u64,
    /// A page's worth of bytes copied; an estimate.
    pub page_ns: u64,
    /// Reading a device's register over PCI Express: a round trip; an estimate.
    pub register_read_ns: u64,
    /// Writing a device's register: posted; an estimate.
    pub register_write_ns: u64,
    /// A pause of a component that polls: 16 of 140 cycles, as on a Skylake processor at 3 GHz.
    pub pause_ns: u64,
    /// Computation of a component from one wait to the next, without its accesses; an estimate.
    pub turn_ns: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            call_ns: 239,
            reply_ns: 192,
            signal_ns: 251,
            interrupt_ns: 546,
            wait_ns: 125,
            invocation_ns: 200,
            access_ns: 2,
            page_ns: 120,
            register_read_ns: 700,
            register_write_ns: 30,
            pause_ns: 747,
            turn_ns: 30,
        }
    }
}
