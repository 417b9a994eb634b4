//! Settings that Set Features and Doorbell Buffer Config change and the data path uses.
//!
//! The admin side writes them; a controller reset restores the defaults.

use nvme_spec::feature::{ArbitrationWeights, NumberOfQueues};

/// Settings in force.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Feature 01h.
    pub(crate) arbitration: ArbitrationWeights,
    /// Feature 06h. Without a cache it has no effect.
    pub(crate) write_cache: bool,
    /// Feature 07h: queues granted, if the driver requested them.
    pub(crate) queues: Option<NumberOfQueues>,
    /// Feature 08h.
    pub(crate) coalescing: Coalescing,
    /// Feature 09h: vectors for which coalescing is disabled, by number.
    pub(crate) uncoalesced: Vec<bool>,
    /// Feature 16h, ACRE: the host keeps the delays that CRD names.
    pub(crate) keeps_retry_delays: bool,
    /// Doorbell Buffer Config.
    pub(crate) shadow: Option<Shadow>,
}

/// Interrupt coalescing. It applies to I/O CQs alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Coalescing {
    /// THR: completions before an interrupt, 0's based. 0 is no coalescing.
    pub(crate) threshold_z: u8,
    /// TIME: the longest wait of a completion, units of 100 us. 0 is no wait.
    pub(crate) time_100us: u8,
}

/// Addresses of the driver's shadow doorbells and event indexes, each a memory page laid out as the doorbells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shadow {
    pub(crate) doorbells: u64,
    pub(crate) event_indexes: u64,
}

impl Settings {
    /// Returns the defaults after a reset, for a controller with this many vectors.
    pub(crate) fn new(vectors: u16) -> Self {
        Self {
            arbitration: ArbitrationWeights::new(),
            write_cache: true,
            queues: None,
            coalescing: Coalescing::default(),
            uncoalesced: vec![false; usize::from(vectors.max(1))],
            keeps_retry_delays: false,
            shadow: None,
        }
    }
}
