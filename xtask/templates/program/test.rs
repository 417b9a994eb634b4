//! Tests the whole program on a machine in memory.

use fake_platform::{FakePlatform, Setup};
use report::Report;
use {crate}::{Config, run};

fn passed(config: &Config) -> bool {
    let reports = FakePlatform::new(&Setup::default()).run(config, run);
    matches!(reports.last(), Some(Report::Done { passed: true, .. }))
}

#[test]
fn blocks_are_read_as_they_were_written() {
    assert!(passed(&Config { blocks: 16 }));
}

#[test]
fn a_session_that_is_too_small_is_a_failure() {
    assert!(!passed(&Config { blocks: 1 << 40 }));
}
