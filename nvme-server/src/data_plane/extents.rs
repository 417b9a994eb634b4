//! Locates the blocks of a session's requests: each command asks the table of extents whether the session may, and where its
//! blocks lie. The policy component installs and removes the records, and a session that is closed has none. Left out: the
//! cuts that make commands of a request ([`nvme_driver::cursor`]).

use blk_api::config::ServerConfig;
use blk_api::operation::Right;
use blk_api::request::Simple;
use extent_table::{ExtentTable, Located, Merging, Miss, Record, SizeError};
use nvme_driver::cursor::Run;

pub(crate) use nvme_driver::cursor::{CommandLimits, Piece};

/// The table of the server that is configured so, without records.
///
/// # Errors
/// [`SizeError`].
pub(crate) fn table(config: &ServerConfig) -> Result<ExtentTable, SizeError> {
    let merging = if config.merging { Merging::On } else { Merging::Off };
    ExtentTable::new(config.records as usize, config.sessions.len(), merging)
}

/// A session's part of the table.
pub(crate) struct Extents<'a> {
    table: &'a mut ExtentTable,
    session: usize,
    /// The record that was used last: most blocks lie in it.
    newest: Option<Record>,
}

impl<'a> Extents<'a> {
    /// The part of session `session`.
    pub(crate) fn new(table: &'a mut ExtentTable, session: usize) -> Self {
        let newest = table.newest(session);
        Self { table, session, newest }
    }

    /// Locates the session's block `first`, to which it needs `right`, and counts how many of the `blocks` follow each other there.
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub(crate) fn locate(&mut self, right: Right, first: u64, blocks: u64) -> Result<Located, Miss> {
        let right = match right {
            Right::Read => extent_table::Right::Read,
            Right::Write => extent_table::Right::Write,
        };
        if let Some(located) = self.newest.and_then(|newest| newest.locate(first, blocks, right)) {
            return Ok(located);
        }
        self.search(first, blocks, right)
    }

    /// [`Extents::locate`] for a [`Cursor`].
    ///
    /// # Errors
    /// [`Miss`].
    #[inline(always)]
    pub(crate) fn run(&mut self, right: Right, first: u64, blocks: u64) -> Result<Run, Miss> {
        self.locate(right, first, blocks).map(|Located { lba, blocks }| Run { lba, blocks })
    }

    #[inline(never)]
    fn search(&mut self, first: u64, blocks: u64, right: extent_table::Right) -> Result<Located, Miss> {
        let located = self.table.locate(self.session, first, blocks, right);
        self.newest = self.table.newest(self.session);
        located
    }
}

/// The request as one piece, if one command can do it; otherwise [`Cursor::next`] returns the reason.
#[inline(always)]
pub(crate) fn simple(request: &Simple, extents: &mut Extents<'_>, limits: CommandLimits) -> Option<Piece> {
    let Simple { opcode, lba, blocks, segment, .. } = *request;
    if blocks > limits.data_blocks {
        return None;
    }
    let located = extents.locate(opcode.right()?, lba, u64::from(blocks)).ok()?;
    let piece = Piece { first: lba, lba: located.lba, blocks, offset: u64::from(segment.offset) };
    (located.blocks == u64::from(blocks)).then_some(piece)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use blk_api::request::{Access, Bounds, Entry, MAX_SEGMENTS, Opcode, Request, Segment};
    use extent_table::{ExtentTable, Merging, Record, Rights};
    use nvme_driver::cursor::Cursor;
    use proptest::prelude::*;

    const LIMITS: CommandLimits = CommandLimits { data_blocks: 8, bare_blocks: 100, block_shift: 9 };

    /// Numbers 0 to 20 at block 1000, and the 300 after them at block 50.
    fn table() -> ExtentTable {
        let mut table = ExtentTable::new(8, 1, Merging::On).unwrap();
        for (first, lba, blocks) in [(0, 1000, 20), (20, 50, 300)] {
            table.install(0, Record::new(first, lba, blocks, Rights::READ_WRITE).unwrap()).unwrap();
        }
        table
    }

    fn lba_of(number: u64) -> u64 {
        if number < 20 { 1000 + number } else { 50 + number - 20 }
    }

    fn checked(opcode: Opcode, lba: u64, segments: &[Segment], blocks: u32) -> Request {
        let mut entry = Entry { opcode: opcode as u8, lba, blocks, ..Entry::default() };
        entry.segment_count = segments.len() as u8;
        entry.segments[..segments.len()].copy_from_slice(segments);
        let bounds = Bounds { block_shift: 9, max_blocks: 320, window_bytes: 1 << 20, writable: true, blocks: 320 };
        entry.check(&bounds).unwrap()
    }

    /// The short way of a request of one segment.
    fn short(request: &Request, extents: &mut Extents<'_>) -> Option<Piece> {
        let (Some(Access { lba, blocks, .. }), [segment]) = (request.access(), request.ranges()) else { return None };
        let request = Simple { opcode: request.opcode(), lba, blocks, user_data: 0, segment: *segment };
        simple(&request, extents, LIMITS)
    }

    fn next(cursor: &mut Cursor, extents: &mut Extents<'_>) -> Result<Option<Piece>, Miss> {
        cursor.next(|right, first, blocks| extents.run(right, first, blocks), LIMITS)
    }

    fn pieces(request: Request) -> Vec<Piece> {
        let (mut cursor, mut table) = (Cursor::new(request), table());
        let extents = &mut Extents::new(&mut table, 0);
        let pieces: Vec<_> = core::iter::from_fn(|| next(&mut cursor, extents).unwrap()).collect();
        assert!(cursor.finished());
        if let Some(piece) = short(&request, extents) {
            assert_eq!(pieces, [piece], "the short way and the long way agree");
        }
        pieces
    }

    #[test]
    fn a_small_request_is_one_command() {
        let request = checked(Opcode::Read, 3, &[Segment { offset: 516, len: 4096 }], 8);
        assert_eq!(pieces(request), [Piece { first: 3, lba: 1003, blocks: 8, offset: 516 }]);
    }

    #[test]
    fn extents_ranges_and_transfer_limit_all_cut() {
        let segments = [Segment { offset: 0, len: 6 * 512 }, Segment { offset: 8192, len: 20 * 512 }];
        let request = checked(Opcode::Write, 12, &segments, 26);
        assert_eq!(
            pieces(request),
            [
                Piece { first: 12, lba: 1012, blocks: 6, offset: 0 },
                Piece { first: 18, lba: 1018, blocks: 2, offset: 8192 },
                Piece { first: 20, lba: 50, blocks: 8, offset: 8192 + 1024 },
                Piece { first: 28, lba: 58, blocks: 8, offset: 8192 + 5 * 1024 },
                Piece { first: 36, lba: 66, blocks: 2, offset: 8192 + 9 * 1024 },
            ]
        );
    }

    #[test]
    fn commands_without_data_are_cut_by_extents_and_their_own_limit() {
        let request = checked(Opcode::WriteZeroes, 10, &[], 150);
        let found: Vec<_> = pieces(request).iter().map(|piece| (piece.lba, piece.blocks)).collect();
        assert_eq!(found, [(1010, 10), (50, 100), (150, 40)]);
    }

    #[test]
    fn piece_without_a_record_is_the_miss() {
        let mut table = table();
        table.remove(0, 20, 300);
        let request = checked(Opcode::Read, 17, &[Segment { offset: 0, len: 8 * 512 }], 8);
        let mut cursor = Cursor::new(request);
        let extents = &mut Extents::new(&mut table, 0);
        assert_eq!(short(&request, extents), None);
        assert_eq!(next(&mut cursor, extents), Ok(Some(Piece { first: 17, lba: 1017, blocks: 3, offset: 0 })));
        let stopped = cursor;
        assert_eq!(next(&mut cursor, extents), Err(Miss::NotInstalled));
        assert_eq!(cursor, stopped);
    }

    #[test]
    fn a_record_to_read_stops_what_writes() {
        let mut table = ExtentTable::new(8, 1, Merging::On).unwrap();
        table.install(0, Record::new(0, 1000, 320, Rights::READ).unwrap()).unwrap();
        let extents = &mut Extents::new(&mut table, 0);
        let segments = [Segment { offset: 0, len: 512 }];
        assert!(short(&checked(Opcode::Read, 0, &segments, 1), extents).is_some());
        assert_eq!(short(&checked(Opcode::Write, 0, &segments, 1), extents), None);
        for opcode in Opcode::ALL.iter().filter(|opcode| opcode.right().is_some()) {
            let segments = if opcode.moves_data() { &segments[..] } else { &[] };
            let piece = next(&mut Cursor::new(checked(*opcode, 0, segments, 1)), extents);
            let expected = Ok(Some(Piece { first: 0, lba: 1000, blocks: 1, offset: 0 }));
            assert_eq!(piece, if opcode.changes_blocks() { Err(Miss::Forbidden) } else { expected }, "{opcode:?}");
        }
    }

    #[test]
    fn a_flush_is_one_command_without_blocks() {
        let flush = Entry { opcode: 3, ..Entry::default() };
        let bounds = Bounds { block_shift: 9, max_blocks: 1, window_bytes: 0, writable: false, blocks: 320 };
        assert_eq!(pieces(flush.check(&bounds).unwrap()), [Piece { first: 0, lba: 0, blocks: 0, offset: 0 }]);
    }

    proptest! {
        #[test]
        fn pieces_cover_the_request_exactly(
            lba in 0u64..320,
            lens in proptest::collection::vec(1u32..60, 1..=MAX_SEGMENTS),
        ) {
            let blocks: u32 = lens.iter().sum();
            prop_assume!(lba + u64::from(blocks) <= 320);
            let mut offset = 0;
            let segments: Vec<_> = lens.iter().map(|len| {
                let segment = Segment { offset, len: len * 512 };
                offset += len * 512 + 4;
                segment
            }).collect();
            let mut expected_blocks = Vec::new();
            for n in lba..lba + u64::from(blocks) { expected_blocks.push(lba_of(n)) }
            let mut expected_bytes = Vec::new();
            for segment in &segments {
                for b in 0..segment.len / 512 { expected_bytes.push(u64::from(segment.offset + b * 512)) }
            }
            let (mut found_blocks, mut found_bytes) = (Vec::new(), Vec::new());
            for piece in pieces(checked(Opcode::Read, lba, &segments, blocks)) {
                prop_assert!(piece.blocks >= 1 && piece.blocks <= LIMITS.data_blocks);
                for b in 0..u64::from(piece.blocks) {
                    found_blocks.push(piece.lba + b);
                    found_bytes.push(piece.offset + b * 512);
                }
            }
            prop_assert_eq!(found_blocks, expected_blocks);
            prop_assert_eq!(found_bytes, expected_bytes);
        }
    }
}
