//! A cache of walks through IO page tables.

use crate::access::Access;

/// Walks cached at a time: more than the pages of queues and windows that a busy device moves between.
const KNOWN_WALKS: usize = 256;

/// Results of walks through the tables, cached until anything in them changes.
#[derive(Clone, Debug)]
pub(crate) struct KnownWalks {
    walks: Box<[KnownWalk; KNOWN_WALKS]>,
    generation: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct KnownWalk {
    /// Generation of the tables when the walk was made; the entry is valid only in the current generation.
    generation: u64,
    requester_id: u16,
    is_write: bool,
    page: u64,
    frame: u64,
}

impl KnownWalks {
    pub(crate) fn new() -> Self {
        Self { walks: Box::new([KnownWalk::default(); KNOWN_WALKS]), generation: 1 }
    }

    pub(crate) const fn forget(&mut self) {
        self.generation += 1;
    }

    const fn place(page: u64, access: Access) -> usize {
        (page * 2 + matches!(access, Access::Write) as u64) as usize % KNOWN_WALKS
    }

    pub(crate) fn frame(&self, requester_id: u16, page: u64, access: Access) -> Option<u64> {
        let known = &self.walks[Self::place(page, access)];
        let is_it = known.generation == self.generation
            && known.page == page
            && known.requester_id == requester_id
            && known.is_write == (access == Access::Write);
        is_it.then_some(known.frame)
    }

    pub(crate) fn learn(&mut self, requester_id: u16, page: u64, access: Access, frame: u64) {
        let (generation, is_write) = (self.generation, access == Access::Write);
        self.walks[Self::place(page, access)] = KnownWalk { generation, requester_id, is_write, page, frame };
    }
}
