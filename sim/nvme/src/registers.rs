//! Contents of the registers of BAR0, and the controller's state behind them (section 3.1). Neighbour: `register_access`.

use nvme_spec::registers::{Aqa, Cap, Cc, Csts};

use crate::config::Capabilities;

/// Register contents and their pending changes.
#[derive(Debug)]
pub(crate) struct Registers {
    pub(crate) capabilities: Capabilities,
    pub(crate) cap: Cap,
    pub(crate) cc: Cc,
    pub(crate) csts: Csts,
    pub(crate) aqa: Aqa,
    pub(crate) asq: u64,
    pub(crate) acq: u64,
    /// Time at which CSTS.RDY follows CC.EN.
    pub(crate) ready_ns: Option<u64>,
    /// Time at which a shutdown is complete.
    pub(crate) shutdown_ns: Option<u64>,
    /// Time until which no command is fetched (CSTS.PP).
    pub(crate) paused_ns: Option<u64>,
    /// Time until which the registers read as ones.
    pub(crate) hidden_until_ns: Option<u64>,
    pub(crate) never_ready: bool,
    pub(crate) removed: bool,
    /// A secondary controller that is offline.
    pub(crate) offline: bool,
    /// The power failed or the subsystem was reset, and nothing shows that the driver noticed.
    pub(crate) unnoticed: bool,
}

impl Registers {
    pub(crate) fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            cap: capabilities.cap(),
            cc: Cc::new(),
            csts: Csts::new(),
            aqa: Aqa::new(),
            asq: 0,
            acq: 0,
            ready_ns: None,
            shutdown_ns: None,
            paused_ns: None,
            hidden_until_ns: None,
            never_ready: false,
            removed: false,
            offline: false,
            unnoticed: false,
        }
    }

    /// Time of the next change without an access.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        // Registers that are hidden for ever have `u64::MAX` here, which never comes.
        let moments = [self.ready_ns, self.shutdown_ns, self.paused_ns, self.hidden_until_ns];
        let earliest = moments.into_iter().map(|moment| moment.unwrap_or(u64::MAX)).fold(u64::MAX, u64::min);
        (earliest != u64::MAX).then_some(earliest)
    }

    /// Whether the machine can reach the controller's registers.
    pub(crate) const fn is_present(&self) -> bool {
        !self.removed && self.hidden_until_ns.is_none()
    }

    /// Whether commands are executed.
    pub(crate) const fn is_ready(&self) -> bool {
        self.csts.rdy() && !self.csts.cfs() && !self.removed
    }

    /// Log2 of the bytes of a memory page, by CC.MPS.
    pub(crate) const fn page_bits(&self) -> u32 {
        12 + self.cc.mps() as u32
    }

    /// Fetches no command until this time.
    pub(crate) const fn pause(&mut self, until_ns: u64) {
        self.paused_ns = Some(until_ns);
        self.csts.set_pp(true);
    }

    /// Fetches commands again.
    pub(crate) const fn resume(&mut self) {
        self.paused_ns = None;
        self.csts.set_pp(false);
    }

    pub(crate) const fn is_removed(&self) -> bool {
        self.removed
    }

    /// Hides the registers from now on, for a time or for ever: they read as ones and writes are lost. Commands go on.
    pub(crate) fn hide(&mut self, now_ns: u64, for_ns: Option<u64>) {
        self.hidden_until_ns = Some(for_ns.map_or(u64::MAX, |ns| now_ns.saturating_add(ns)));
    }

    pub(crate) const fn never_ready(&mut self) {
        self.never_ready = true;
    }

    pub(crate) const fn remove(&mut self) {
        self.removed = true;
        self.ready_ns = None;
        self.shutdown_ns = None;
    }

    /// Sets whether a secondary controller is offline: CSTS reports a fatal error, everything else reads as zeroes, and
    /// writes are lost (section 8.5.3).
    pub(crate) const fn set_offline(&mut self, offline: bool) {
        self.offline = offline;
    }

    /// Resets everything as after power-on, while the driver goes on without noticing.
    ///
    /// It has noticed once it clears CC.EN or CSTS.NSSRO, or enables the controller: only these writes show that it acts
    /// on the reset. A read of CSTS does not, because one processor may read it while another still rings.
    pub(crate) fn reset_unnoticed(&mut self) {
        self.reset();
        self.unnoticed = true;
    }

    /// Whether the driver may still use queues that a loss of power or a subsystem reset has taken from it.
    pub(crate) const fn is_reset_unnoticed(&self) -> bool {
        self.unnoticed
    }

    pub(crate) const fn set_fatal(&mut self) {
        self.csts.set_cfs(true);
    }

    /// Does a function level reset: everything as after power-on, except that broken parts stay broken.
    pub(crate) fn reset(&mut self) {
        let Self { capabilities, never_ready, removed, offline, hidden_until_ns, .. } = *self;
        *self = Self { never_ready, removed, offline, hidden_until_ns, ..Self::new(capabilities) };
    }
}
