//! A function's entries that wait for a command, and its answers that wait to be taken.

use alloc::collections::VecDeque;
use blk_api::Status;
use blk_api::request::Entry;
use blk_api::ring::Completed;

/// Entries that are not submitted yet, and answers that wait to be taken. Neither queue grows beyond its first capacity.
pub(super) struct Backlog {
    /// The most entries, and the most answers.
    most: usize,
    pub(super) entries: VecDeque<Entry>,
    pub(super) answers: VecDeque<Completed>,
}

impl Backlog {
    /// Creates an empty one, for `most` entries.
    pub(super) fn new(most: u32) -> Self {
        let most = most as usize;
        let room = most.saturating_add(1);
        Self { most, entries: VecDeque::with_capacity(room), answers: VecDeque::with_capacity(room) }
    }

    pub(super) fn has_room(&self) -> bool {
        self.entries.len() < self.most
    }

    pub(super) fn has_room_for_answer(&self) -> bool {
        self.answers.len() < self.most
    }

    /// Takes the next entry, if its answer has room.
    pub(super) fn next(&mut self) -> Option<Entry> {
        if self.has_room_for_answer() { self.entries.pop_front() } else { None }
    }

    /// Forgets all entries and answers.
    pub(super) fn forget(&mut self) {
        self.entries.clear();
        self.answers.clear();
    }

    pub(super) fn answer(&mut self, user_data: u64, status: Status) {
        self.answers.push_back(Completed { user_data, status: status as u16, ..Completed::default() });
    }
}
