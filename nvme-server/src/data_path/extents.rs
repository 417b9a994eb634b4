//! What sessions may touch: the table of all of them, and the part of it that is one session's.
//!
//! `split` asks it for each command. The table (`extent_table`) holds as many records as fit; the policy component
//! installs and removes them (`policy`), and a session that is closed has none.

use blk_api::config::ServerConfig;
use blk_api::request::Opcode;
use extent_table::{ExtentTable, Located, Merging, Miss, Record, Right, SizeError};

/// The table of the server that is configured so, without records.
///
/// # Errors
/// [`SizeError`].
pub(crate) fn table(config: &ServerConfig) -> Result<ExtentTable, SizeError> {
    let merging = if config.merging { Merging::On } else { Merging::Off };
    ExtentTable::new(config.records as usize, config.sessions.len(), merging)
}

/// One session's part of the table.
pub(crate) struct Extents<'a> {
    table: &'a mut ExtentTable,
    session: usize,
    /// The record that was used last: most blocks lie in it.
    newest: Option<Record>,
}

impl<'a> Extents<'a> {
    /// That of session `session`.
    pub(crate) fn new(table: &'a mut ExtentTable, session: usize) -> Self {
        let newest = table.newest(session);
        Self { table, session, newest }
    }

    /// Where the session's block `first` lies, for `opcode`, and how many of the `blocks` from there on lie behind it.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub(crate) fn locate(&mut self, opcode: Opcode, first: u64, blocks: u64) -> Result<Located, Miss> {
        let right = if opcode == Opcode::Read { Right::Read } else { Right::Write };
        if let Some(located) = self.newest.and_then(|newest| newest.locate(first, blocks, right)) {
            return Ok(located);
        }
        self.search(first, blocks, right)
    }

    #[inline(never)]
    fn search(&mut self, first: u64, blocks: u64, right: Right) -> Result<Located, Miss> {
        let located = self.table.locate(self.session, first, blocks, right);
        self.newest = self.table.newest(self.session);
        located
    }
}
