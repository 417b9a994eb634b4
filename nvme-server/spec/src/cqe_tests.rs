use zerocopy::FromBytes;

use super::*;
use crate::StatusCode;

#[test]
fn successful_completion_of_the_first_pass_is_decoded() {
    let cqe = Cqe::read_from_bytes(&[
        0x3f, 0x00, 0x1f, 0x00, // DW0
        0x00, 0x00, 0x00, 0x00, // DW1
        0x05, 0x00, 0x02, 0x00, // SQHD 5, SQID 2
        0x34, 0x12, 0x01, 0x00, // CID 1234h, phase 1, status 0
    ])
    .unwrap();
    assert_eq!(cqe.dw0, 0x001f_003f);
    assert_eq!(cqe.sq_head(), 5);
    assert_eq!(cqe.sq(), QueueId(2));
    assert_eq!(cqe.cid(), Cid(0x1234));
    assert_eq!(cqe.phase(), Phase::One);
    assert!(cqe.status().is_success());
}

#[test]
fn media_error_with_do_not_retry_is_decoded() {
    let cqe = Cqe::read_from_bytes(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0x07, 0x40, 0x00, 0xff, 0xff, 0x02, 0x85]).unwrap();
    assert_eq!(cqe.sq_head(), 2047);
    assert_eq!(cqe.sq(), QueueId(64));
    assert_eq!(cqe.cid(), Cid(0xffff));
    assert_eq!(cqe.phase(), Phase::Zero);
    assert_eq!(cqe.status().code(), StatusCode::UnrecoveredRead);
    assert!(cqe.status().do_not_retry());
    assert!(!cqe.status().more());
}

#[test]
fn flags_of_the_status_stand_in_the_top_bits() {
    let entry = |top: u8| Cqe::from_words([0, 0, 0, u32::from(top) << 24]).status();
    assert!(entry(0x80).do_not_retry());
    assert!(entry(0x40).more());
    assert_eq!(entry(0x30).retry_delay_index(), 3);
    assert_eq!(entry(0x0e).sct(), 7);
    assert_eq!(Cqe::from_words([0, 0, 0, 0x01fe_0000]).status().sc(), 0xff);
}

#[test]
fn words_and_bytes_agree() {
    let words = [1u32, 2, 0x0003_0004, 0x8503_0005];
    let mut bytes = [0; 16];
    for (chunk, word) in bytes.chunks_exact_mut(4).zip(words) {
        chunk.copy_from_slice(&word.to_le_bytes());
    }
    let cqe = Cqe { dw1: 0, ..Cqe::from_words(words) };
    assert_eq!(Cqe::from_words(words), Cqe::read_from_bytes(&bytes).unwrap());
    let end = CqeEnd::from_bits(u64::from_le_bytes(*bytes.last_chunk().unwrap()));
    assert_eq!(end.with_result(1), cqe);
    assert_eq!((end.cid(), end.sq(), end.sq_head(), end.status()), (cqe.cid(), cqe.sq(), cqe.sq_head(), cqe.status()));
}

#[test]
fn entry_made_like_a_controller_has_the_bytes_of_the_standard() {
    let position = SqPosition { sq: QueueId(1), head: 9 };
    let status = Status::new(StatusCode::LbaOutOfRange).with_do_not_retry();
    let cqe = Cqe::new(0, position, Cid(7), status, Phase::One);
    assert_eq!(zerocopy::IntoBytes::as_bytes(&cqe), [0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 7, 0, 0x01, 0x81]);
}

#[test]
fn phase_alternates_from_one() {
    assert_eq!(Phase::FIRST, Phase::One);
    assert_eq!(Phase::One.flipped(), Phase::Zero);
    assert_eq!(Phase::Zero.flipped(), Phase::One);
}
