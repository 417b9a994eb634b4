//! Changes of rights that are still to come, and those that are due.
//!
//! They are known from the configuration, with their times after the system began, so a policy component that is started
//! again changes anew what was due, and the rest at its time.

use crate::book::{Book, Unsound};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use blk_api::policy::Change;

/// Changes, the earliest first.
pub(crate) struct Changes {
    pending: VecDeque<Change>,
}

impl Changes {
    /// These changes of what stands in `book`.
    ///
    /// # Errors
    /// [`Unsound`] if one of them could not be written down when its time has come.
    pub(crate) fn new(mut all: Vec<Change>, book: &Book) -> Result<Self, Unsound> {
        all.sort_by_key(|change| change.after_ms);
        let mut later = book.clone();
        for change in &all {
            later.change(change.session, &change.what)?;
        }
        Ok(Self { pending: all.into() })
    }

    /// The next change, if it is due after so many milliseconds.
    pub(crate) fn due(&self, elapsed_ms: u64) -> Option<&Change> {
        self.pending.front().filter(|change| u64::from(change.after_ms) <= elapsed_ms)
    }

    /// The first one is carried out.
    pub(crate) fn done(&mut self) {
        self.pending.pop_front();
    }
}
