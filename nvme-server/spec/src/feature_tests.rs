use zerocopy::IntoBytes;

use super::*;
use crate::expected::bytes;

#[test]
fn number_of_queues_is_less_one_on_the_wire() {
    let sqe = NumberOfQueues::pairs(64).unwrap().set(Cid(1));
    let expected = bytes::<64>(&[(0, &[0x09, 0, 0x01, 0x00]), (40, &[0x07]), (44, &[0x3f, 0x00, 0x3f, 0x00])]);
    assert_eq!(sqe.as_bytes(), expected);
}

#[test]
fn granted_queues_are_one_more_than_the_wire_says() {
    // 32 SQs and 16 CQs.
    let granted = NumberOfQueues::from_bits(0x000f_001f);
    assert_eq!(granted.sqs(), 32);
    assert_eq!(granted.cqs(), 16);
    assert_eq!(NumberOfQueues::from_bits(0).sqs(), 1);
    assert_eq!(NumberOfQueues::from_bits(u32::MAX).cqs(), 65536);
}

#[test]
fn no_queue_at_all_cannot_be_asked_for() {
    assert_eq!(NumberOfQueues::pairs(0), None);
    assert_eq!(NumberOfQueues::pairs(1), Some(NumberOfQueues::from_bits(0)));
    assert_eq!(NumberOfQueues::pairs(u16::MAX), Some(NumberOfQueues::from_bits(0xfffe_fffe)));
}

#[test]
fn arbitration_weights_have_the_bytes_of_the_standard() {
    let weights = ArbitrationWeights::new()
        .with_burst(ArbitrationWeights::NO_LIMIT)
        .with_low_z(0)
        .with_medium_z(3)
        .with_high_z(7);
    let expected = bytes::<64>(&[(0, &[0x09, 0, 0x02, 0x00]), (40, &[0x01]), (44, &[0x07, 0x00, 0x03, 0x07])]);
    assert_eq!(weights.set(Cid(2)).as_bytes(), expected);
}

#[test]
fn get_feature_has_the_bytes_of_the_standard() {
    let sqe = get_feature(Cid(3), Feature::VolatileWriteCache);
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x0a, 0, 0x03, 0x00]), (40, &[0x06])]));
}

#[test]
fn features_are_recognised() {
    for raw in 0..=0xff {
        assert!(Feature::from_raw(raw).is_none_or(|feature| feature as u8 == raw));
    }
    assert_eq!(Feature::from_raw(7), Some(Feature::NumberOfQueues));
}
