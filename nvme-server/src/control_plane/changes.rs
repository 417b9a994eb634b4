//! Changes that the policy component has asked for and that are under way.

use crate::data_plane::queues::Allotment;
use blk_api::policy::{Refusal, Share as AskedShare};
use core::cell::Cell;
use nvme_driver::pci::Interrupts;
use scheduler::Share;

/// Changes under way; one of each kind at a time.
#[derive(Default)]
pub(crate) struct Changes {
    pub reconfiguration: Cell<Option<Reconfiguration>>,
    /// The last reconfiguration, if it was refused.
    pub reconfiguration_refused: Cell<Option<(AskedShare, Refusal)>>,
    /// The interrupt mode that the controller is to have.
    pub interrupts: Cell<Option<Interrupts>>,
    /// The last change of the interrupt mode that was refused, and why.
    pub interrupts_refused: Cell<Option<(Interrupts, Refusal)>>,
}

/// A change of a session's queue pairs that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reconfiguration {
    /// The share that was asked for.
    pub share: AskedShare,
    /// The session.
    pub index: usize,
    /// The queue pairs it is to have.
    pub to: Allotment,
    /// The rest of its share before the change.
    pub before: Share,
}
