use std::format;
use std::string::ToString;

use super::*;

#[test]
fn same_code_of_another_type_is_another_status() {
    assert_ne!(Status::from_raw(0x081), Status::from_raw(0x281));
    assert_eq!(Status::from_raw(0x081).code(), StatusCode::CapacityExceeded);
    assert_eq!(Status::from_raw(0x281).code(), StatusCode::UnrecoveredRead);
    assert!(!Status::from_raw(0x100).is_success());
}

#[test]
fn every_named_code_survives_the_way_there_and_back() {
    for (code, bits) in NAMED {
        assert_eq!(code.to_bits(), *bits);
        assert_eq!(StatusCode::from_bits(*bits), *code);
    }
}

#[test]
fn every_raw_value_survives_the_way_there_and_back() {
    for raw in 0..0x8000 {
        let status = Status::from_raw(raw);
        assert_eq!(status.to_raw(), raw);
        assert_eq!(status.code().to_bits(), raw & 0x7ff);
        assert_eq!(status.is_success(), raw & 0x7ff == 0);
    }
    assert_eq!(Status::from_raw(0x8000), Status::SUCCESS);
}

#[test]
fn codes_have_the_numbers_of_the_standard() {
    let expected = [
        (StatusCode::InvalidOpcode, 0, 0x01),
        (StatusCode::InvalidField, 0, 0x02),
        (StatusCode::SqDeleted, 0, 0x08),
        (StatusCode::InvalidNamespaceOrFormat, 0, 0x0b),
        (StatusCode::PrpOffset, 0, 0x13),
        (StatusCode::LbaOutOfRange, 0, 0x80),
        (StatusCode::CqInvalid, 1, 0x00),
        (StatusCode::InvalidQueueId, 1, 0x01),
        (StatusCode::InvalidQueueDeletion, 1, 0x0c),
        (StatusCode::WriteFault, 2, 0x80),
        (StatusCode::CompareFailure, 2, 0x85),
    ];
    for (code, sct, sc) in expected {
        let status = Status::new(code);
        assert_eq!((status.sct(), status.sc()), (sct, sc), "{code:?}");
    }
}

#[test]
fn unnamed_codes_keep_their_numbers() {
    assert_eq!(Status::from_raw(0x7c1).code(), StatusCode::Other { sct: 7, sc: 0xc1 });
    assert_eq!(Status::from_raw(0x7c1).to_string(), "unnamed status, type 0x7 code 0xc1");
}

#[test]
fn words_say_what_happened_and_whether_to_retry() {
    assert_eq!(Status::from_raw(0x0281).to_string(), "the medium could not be read");
    assert_eq!(Status::from_raw(0x4080).to_string(), "blocks beyond the end of the namespace (do not retry)");
    assert_eq!(format!("{:?}", Status::from_raw(0x6002)), "Status(0x6002: InvalidField, more, do not retry)");
}

#[test]
fn flags_leave_the_code_alone() {
    let status = Status::new(StatusCode::InvalidField).with_more().with_do_not_retry();
    assert_eq!(status.to_raw(), 0x6002);
    assert!(status.more() && status.do_not_retry());
    assert_eq!(status.code(), StatusCode::InvalidField);
}

#[test]
fn passing_states_and_delays_ask_for_a_retry_and_dnr_forbids_it() {
    let passing = [0x021, 0x022, 0x024, 0x082].map(Status::from_raw);
    assert!(passing.iter().all(|status| status.asks_for_retry()));
    assert!(passing.iter().all(|status| !status.with_do_not_retry().asks_for_retry()));
    let media = Status::new(StatusCode::UnrecoveredRead);
    assert!(!media.asks_for_retry() && media.with_retry_delay_index(2).asks_for_retry());
    assert_eq!(media.with_retry_delay_index(3).retry_delay_index(), 3);
    assert!(!Status::SUCCESS.with_retry_delay_index(1).asks_for_retry());
}
