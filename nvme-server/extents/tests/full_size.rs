//! Compares a table of the size that the NVMe server makes, with nodes as large as they are outside unit tests, with the
//! model.

#![forbid(unsafe_code)]

mod model;

use extent_table::{ExtentTable, Merging, Record, Right, Rights};
use model::{Draws, Model};

const RECORDS: usize = 16_384;
const SESSIONS: usize = 8;
/// Block numbers of a session: room for some more records than the table holds.
const NUMBERS: u64 = 200_000;

impl Draws {
    /// Draws one session for half of the calls or more, the others for the rest.
    fn session(&mut self) -> usize {
        if self.below(2) == 0 { 0 } else { usize::try_from(self.below(8)).expect("a small number") }
    }

    /// A record of up to 8 blocks; all agree, so none is refused.
    fn record(&mut self) -> Record {
        let (first, blocks) = (self.below(NUMBERS), 1 + self.below(8));
        Record::new(first, first + 77, blocks, Rights::READ).expect("small numbers")
    }
}

#[test]
fn a_full_table_of_full_size_does_what_the_model_does() {
    let mut table = ExtentTable::new(RECORDS, SESSIONS, Merging::Off).expect("a size that can be");
    let mut model = Model::new(RECORDS, SESSIONS, Merging::Off);
    let mut draws = Draws(5);
    let mut evictions = 0;
    // One session fills the table alone; then all of them use it.
    for index in 0..20_000 {
        let record = Record::new(10 * index, 10 * index + 77, 10, Rights::READ).expect("small numbers");
        let answer = table.install(0, record);
        assert_eq!(answer, model.install(0, record));
        evictions += usize::from(answer.is_ok_and(|evicted| evicted.is_some()));
    }
    assert_eq!((table.records(0), evictions), (RECORDS, 20_000 - RECORDS));
    for _ in 0..12_000 {
        let session = draws.session();
        if draws.below(2000) == 0 {
            table.clear(session);
            model.clear(session);
        }
        match draws.below(8) {
            0 => {
                let (first, blocks) = (draws.below(NUMBERS), 1 + draws.below(50));
                assert_eq!(table.remove(session, first, blocks), model.remove(session, first, blocks));
            }
            1..4 => {
                let record = draws.record();
                assert_eq!(table.install(session, record), model.install(session, record));
            }
            _ => {
                let first = draws.below(NUMBERS);
                let modelled = model.locate(session, first, 8, Right::Read);
                assert_eq!(table.locate(session, first, 8, Right::Read), modelled);
            }
        }
    }
    for entry in &model.entries {
        assert_eq!(table.record_of(entry.session, entry.record.first()), Some(entry.record));
    }
    for session in 0..SESSIONS {
        assert_eq!(table.records(session), model.held(session));
        table.clear(session);
        assert_eq!(table.records(session), 0);
    }
}
