//! What sessions may touch: the table of all of them, and the part of it that is one session's.
//!
//! `split` asks it for each command. The table (`extent_table`) holds as many records as fit; a session's are installed
//! when it is opened, from the server's configuration, and removed when it is closed.

use blk_api::config::SessionConfig;
use blk_api::extent::ExtentMap;
use blk_api::request::Opcode;
use extent_table::{ExtentTable, Located, Merging, Miss, Record, Right, Rights, SizeError};

/// Records of all sessions together (SEEDS M3).
pub(crate) const RECORDS: usize = 16_384;

/// The table of a server with so many sessions.
///
/// # Errors
/// [`SizeError`], of more sessions than a server can have.
pub(crate) fn table(sessions: usize) -> Result<ExtentTable, SizeError> {
    ExtentTable::new(RECORDS, sessions, Merging::On)
}

/// Gives session `index` a record for each of its extents, and no other.
pub(crate) fn install_configured(table: &mut ExtentTable, index: usize, config: &SessionConfig, extents: &ExtentMap) {
    table.clear(index);
    let rights = if config.writable { Rights::READ_WRITE } else { Rights::READ };
    for (first, extent) in extents.runs() {
        // Both were checked when the extents were numbered, and numbers of one session do not overlap. Without a record
        // the session is refused these blocks.
        if let Ok(record) = Record::new(first, extent.first, extent.blocks, rights) {
            let _ = table.install(index, record);
        }
    }
}

/// One session's part of the table.
pub(crate) struct Extents<'a> {
    table: &'a mut ExtentTable,
    session: usize,
}

impl<'a> Extents<'a> {
    /// That of session `session`.
    pub(crate) const fn new(table: &'a mut ExtentTable, session: usize) -> Self {
        Self { table, session }
    }

    /// Where the session's block `first` lies, for `opcode`, and how many of the `blocks` from there on lie behind it.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub(crate) fn locate(&mut self, opcode: Opcode, first: u64, blocks: u64) -> Result<Located, Miss> {
        let right = if opcode == Opcode::Read { Right::Read } else { Right::Write };
        self.table.locate(self.session, first, blocks, right)
    }
}
