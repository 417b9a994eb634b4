use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::expected::bytes;
use crate::log::Warnings;

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

#[test]
fn saving_and_selecting_have_the_bits_of_the_standard() {
    let save = save_feature(Cid(4), Feature::TemperatureThreshold, 0x0030_0157);
    let expected = bytes::<64>(&[(0, &[0x09, 0, 0x04, 0x00]), (40, &[0x04, 0, 0, 0x80]), (44, &[0x57, 0x01, 0x30])]);
    assert_eq!(save.as_bytes(), expected);
    for (select, bits) in
        [(Select::Current, 0), (Select::Default, 0x100), (Select::Saved, 0x200), (Select::Supported, 0x300)]
    {
        assert_eq!(get_feature_selected(Cid(5), Feature::Arbitration, select).cdw10, bits | 1);
        assert_eq!(Select::from_raw(select as u8), Some(select));
    }
    assert_eq!(Select::from_raw(4), None);
    let supported = Capabilities::from_bits(0b101);
    assert!(supported.saveable() && !supported.of_namespace() && supported.changeable());
}

#[test]
fn values_have_the_bits_of_the_standard() {
    assert_eq!(PowerManagement::new().with_state(4).with_workload(2).into_bits(), 0x44);
    let threshold = TemperatureThreshold::new().with_kelvin(0x157).with_under(1);
    assert_eq!(threshold.with_sensor(TemperatureThreshold::ALL_SENSORS).into_bits(), 0x001f_0157);
    assert_eq!(ErrorRecovery::new().with_retry_limit(5).with_unwritten_is_error(true).into_bits(), 0x0001_0005);
    assert_eq!(WriteCache::new().with_enabled(true).into_bits(), 1);
    assert_eq!(InterruptCoalescing::new().with_threshold_z(9).with_time(2).into_bits(), 0x0209);
    assert_eq!(InterruptVector::new().with_vector(3).with_coalescing_disabled(true).into_bits(), 0x0001_0003);
    assert_eq!(WriteAtomicity::new().with_disable_normal(true).into_bits(), 1);
    let events = AsyncEvents::new().with_warnings(Warnings::new().with_temperature(true).into_bits());
    assert_eq!(events.with_namespace_changed(true).with_endurance(true).into_bits(), 0x4102);
}

#[test]
fn timestamp_is_48_bits_of_milliseconds_and_their_origin() {
    let timestamp = Timestamp::new(0xffff_0605_0403_0201, Timestamp::SET_BY_HOST);
    assert_eq!(timestamp.as_bytes(), [1, 2, 3, 4, 5, 6, 0x02, 0]);
    assert_eq!(timestamp.milliseconds(), 0x0605_0403_0201);
    assert_eq!(Timestamp::read_from_bytes(&[1, 0, 0, 0, 0, 0, 0, 0]), Ok(Timestamp::new(1, Timestamp::SINCE_RESET)));
}

#[test]
fn idle_transitions_and_host_identifiers_have_the_bits_of_the_standard() {
    let transition = IdleTransition::new(2, 0x0001_0203);
    assert_eq!(transition.as_bytes(), [0x10, 0x03, 0x02, 0x01, 0, 0, 0, 0]);
    assert_eq!((transition.state(), transition.idle_ms()), (2, 0x0001_0203));
    assert_eq!(AutonomousPower::new().with_enabled(true).into_bits(), 1);
    assert_eq!(HostId::new().with_long(true).into_bits(), 1);
    assert_eq!(Feature::from_raw(0x81), Some(Feature::HostId));
}
