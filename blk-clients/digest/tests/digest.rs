//! The whole program on a machine in memory, against the hash of the disk itself.

use fake_platform::{FakePlatform, Order, Setup, client};
use report::Report;
use sha2::Digest as _;
use workload::{Client, Digest};

fn run(digest: Digest, bad_block: Option<u64>) -> (Vec<Report>, Vec<u8>) {
    let platform = FakePlatform::new(&Setup { order: Order::Drawn(5), ..Setup::default() });
    let disk = platform.server(|server| {
        server.bad_block = bad_block;
        for (index, byte) in server.disk.iter_mut().enumerate() {
            *byte = (index / 7 + index / 513) as u8;
        }
        server.disk.clone()
    });
    let client = Client { first_block: 64, ..client(&Setup::default(), &digest) };
    (platform.run_as(&client, digest::run), disk)
}

#[test]
fn digest_is_that_of_the_range_in_order() {
    let all = Digest { first_byte: 0, bytes: 0, block_bytes: 65536, depth: 4 };
    let piece = Digest { first_byte: 512 * 3, bytes: 512 * 1001, block_bytes: 5120, depth: 16 };
    for (digest, range) in [(all, 0..2 << 20), (piece, 512 * 3..512 * 1004)] {
        let (reports, disk) = run(digest, None);
        let reported =
            reports.iter().find_map(|report| if let Report::Digest(reported) = report { Some(reported) } else { None });
        let reported = reported.unwrap_or_else(|| panic!("{reports:?}"));
        assert_eq!(reported.first_byte, range.start as u64 + 64 * 512);
        assert_eq!(reported.bytes, range.len() as u64);
        assert_eq!(reported.sha256[..], sha2::Sha256::digest(&disk[range])[..]);
        assert!(matches!(reports.last(), Some(Report::Done { passed: true, .. })));
        assert!(matches!(reports.first(), Some(Report::FirstIo { .. })));
    }
}

#[test]
fn unreadable_block_and_bad_ranges_give_no_digest() {
    let base = Digest { first_byte: 0, bytes: 0, block_bytes: 4096, depth: 4 };
    let cases = [
        (base.clone(), Some(100), "read at block 96: media error"),
        (Digest { first_byte: 100, ..base.clone() }, None, "whole blocks"),
        (Digest { bytes: 3 << 20, ..base.clone() }, None, "whole blocks"),
        (Digest { block_bytes: 0, ..base }, None, "whole blocks"),
    ];
    for (digest, bad_block, expected) in cases {
        let (reports, _) = run(digest, bad_block);
        assert!(matches!(reports.last(), Some(Report::Done { passed: false, .. })));
        assert!(!reports.iter().any(|report| matches!(report, Report::Digest(_))));
        let found = |report: &Report| matches!(report, Report::Failure { reason, .. } if reason.contains(expected));
        assert!(reports.iter().any(found), "{reports:?}");
    }
}
