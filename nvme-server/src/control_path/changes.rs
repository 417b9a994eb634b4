//! The changes that the policy component has asked for and that are under way, and the notifications it waits for.

use crate::data_path::queues::Allotment;
use alloc::vec::Vec;
use blk_api::policy::{Refusal, Removal, Share as AskedShare};
use core::cell::{Cell, RefCell};
use nvme_driver::pci::Interrupts;
use platform::{Cap, Notification};
use scheduler::Share;

/// Requests under way; one change of each kind at a time.
pub(crate) struct Changes {
    /// The policy component's notification.
    pub policy: Cap<Notification>,
    /// Removals whose end it is to be notified of, one a session.
    pub removals: RefCell<Vec<Removal>>,
    pub reconfiguration: Cell<Option<Reconfiguration>>,
    /// The last reconfiguration, if it was refused.
    pub reconfiguration_refused: Cell<Option<(AskedShare, Refusal)>>,
    pub interrupts: Cell<Option<InterruptsChange>>,
    /// Whether no command may be submitted, so that those in flight come to an end.
    pub holds_back: Cell<bool>,
    /// The last change of the interrupt mode that was refused, and why.
    pub interrupts_refused: Cell<Option<(Interrupts, Refusal)>>,
}

impl Changes {
    /// Creates the state with no change under way.
    pub(crate) fn new(policy: Cap<Notification>) -> Self {
        Self {
            policy,
            removals: RefCell::default(),
            reconfiguration: Cell::new(None),
            reconfiguration_refused: Cell::new(None),
            interrupts: Cell::new(None),
            holds_back: Cell::new(false),
            interrupts_refused: Cell::new(None),
        }
    }
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

/// A change of the controller's interrupt mode that is under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterruptsChange {
    pub to: Interrupts,
    /// Whether it waits for commands in flight.
    pub waits: bool,
}
