//! Features: current, default and saved values, and refusals.

use nvme_spec::admin::{self, CqInterrupt, CreateIoCq, QueueMemory};
use nvme_spec::feature::{
    ArbitrationWeights, Capabilities, Feature, HostId, InterruptVector, NumberOfQueues, Select, TemperatureThreshold,
    Timestamp, get_feature, get_feature_selected, save_feature, set_feature,
};
use nvme_spec::{Cid, Nsid, QueueId, Sqe, StatusCode};
use sim_nvme::config::Cache;
use sim_nvme::{Config, NamespaceConfig};

use super::support::{BUFFER, Driver, PAGE, config};

const CID: Cid = Cid(0);

fn get(driver: &mut Driver, feature: Feature, select: Select) -> u32 {
    driver.succeed(get_feature_selected(CID, feature, select))
}

fn current(driver: &mut Driver, feature: Feature) -> u32 {
    get(driver, feature, Select::Current)
}

#[test]
fn a_value_holds_until_a_reset_and_a_saved_one_beyond() {
    let mut driver = Driver::new(config());
    let kept = ArbitrationWeights::new().with_burst(2).with_high_z(9).into_bits();
    let passing = ArbitrationWeights::new().with_burst(3).into_bits();
    driver.succeed(save_feature(CID, Feature::Arbitration, kept));
    driver.succeed(set_feature(CID, Feature::Arbitration, passing));
    assert_eq!(current(&mut driver, Feature::Arbitration), passing);
    assert_eq!(get(&mut driver, Feature::Arbitration, Select::Saved), kept);
    assert_eq!(get(&mut driver, Feature::Arbitration, Select::Default), 0);
    driver.reset();
    assert_eq!(current(&mut driver, Feature::Arbitration), kept);
    driver.lose_power();
    assert_eq!(current(&mut driver, Feature::Arbitration), kept);
    assert_eq!(get(&mut driver, Feature::Arbitration, Select::Default), 0);
}

#[test]
fn without_a_saved_value_the_default_one_is_reported() {
    let mut driver = Driver::new(config());
    driver.succeed(set_feature(CID, Feature::WriteAtomicity, 1));
    assert_eq!(get(&mut driver, Feature::WriteAtomicity, Select::Saved), 0);
    driver.reset();
    assert_eq!(current(&mut driver, Feature::WriteAtomicity), 0);
}

#[test]
fn what_can_be_done_to_a_feature_is_reported_and_true() {
    let mut driver = Driver::new(config());
    let supported = |driver: &mut Driver, feature| Capabilities::from_bits(get(driver, feature, Select::Supported));
    let arbitration = supported(&mut driver, Feature::Arbitration);
    assert!(arbitration.saveable() && arbitration.changeable() && !arbitration.of_namespace());
    for feature in [Feature::NumberOfQueues, Feature::PowerManagement, Feature::Timestamp, Feature::HostId] {
        assert!(!supported(&mut driver, feature).saveable());
        driver.refuse(save_feature(CID, feature, 0), StatusCode::FeatureNotSaveable);
    }
    let recovery = Sqe { nsid: 1, ..get_feature_selected(CID, Feature::ErrorRecovery, Select::Supported) };
    assert!(Capabilities::from_bits(driver.succeed(recovery)).of_namespace());
}

#[test]
fn unknown_features_and_those_without_a_use_are_refused() {
    let mut driver = Driver::new(config());
    for fid in [0x00, 0x03, 0x06, 0x0d, 0x0f, 0x10, 0x7f, 0x80, 0x82, 0xff] {
        driver.refuse(Sqe { cdw10: fid, ..set_feature(CID, Feature::Arbitration, 0) }, StatusCode::InvalidField);
        driver.refuse(Sqe { cdw10: fid, ..get_feature(CID, Feature::Arbitration) }, StatusCode::InvalidField);
    }
    driver.assert_clean();
    driver.refuse_field(Sqe { cdw10: 0x401, ..get_feature(CID, Feature::Arbitration) }, 10);
}

#[test]
fn reserved_bits_of_values_are_refused() {
    let mut driver = Driver::new(config());
    for (feature, value) in [
        (Feature::Arbitration, 0x08),
        (Feature::PowerManagement, 0x100),
        (Feature::PowerManagement, 3),
        (Feature::PowerManagement, 3 << 5),
        (Feature::TemperatureThreshold, 1 << 22),
        (Feature::TemperatureThreshold, 2 << 20),
        (Feature::TemperatureThreshold, 3 << 16),
        (Feature::NumberOfQueues, 0x0000_ffff),
        (Feature::NumberOfQueues, 0xffff_0000),
        (Feature::InterruptCoalescing, 0x1_0000),
        (Feature::WriteAtomicity, 2),
        (Feature::AsyncEvents, 0x400),
    ] {
        driver.refuse_field(set_feature(CID, feature, value), 11);
    }
    driver.refuse_field(Sqe { cdw11: 1, ..get_feature(CID, Feature::Arbitration) }, 11);
    driver.refuse_field(Sqe { prp1: BUFFER, ..set_feature(CID, Feature::Arbitration, 0) }, 6);
    driver.refuse_field(Sqe { cdw12: 1, ..set_feature(CID, Feature::Arbitration, 0) }, 12);
}

#[test]
fn queues_are_granted_up_to_what_there_is_and_before_any_exists() {
    let mut driver = Driver::new(Config { queue_pairs: 8, ..config() });
    assert_eq!(current(&mut driver, Feature::NumberOfQueues), 0x0007_0007);
    let asked = NumberOfQueues::new().with_sqs_z(3).with_cqs_z(99);
    assert_eq!(driver.succeed(asked.set(CID)), 0x0007_0003);
    assert_eq!(current(&mut driver, Feature::NumberOfQueues), 0x0007_0003);
    driver.make_io_queue();
    driver.refuse(asked.set(CID), StatusCode::CommandSequence);
    let memory = QueueMemory::Contiguous(0x8000);
    let beyond = CreateIoCq { qid: QueueId(9), qsize_z: 7, interrupt: CqInterrupt::Disabled, memory };
    driver.refuse(beyond.sqe(CID), StatusCode::InvalidQueueId);
}

#[test]
fn number_of_queues_is_refused_once_a_queue_exists() {
    let mut driver = Driver::new(Config { queue_pairs: 8, ..config() });
    let asked = NumberOfQueues::new().with_sqs_z(3).with_cqs_z(3);
    driver.succeed(asked.set(CID));
    let memory = QueueMemory::Contiguous(0x8000);
    let queue = CreateIoCq { qid: QueueId(1), qsize_z: 7, interrupt: CqInterrupt::Disabled, memory };
    driver.succeed(queue.sqe(CID));
    driver.succeed(admin::delete_io_cq(CID, QueueId(1)));
    driver.refuse(asked.set(CID), StatusCode::CommandSequence);
    driver.reset();
    driver.succeed(asked.set(CID));
}

#[test]
fn a_vector_is_set_only_once_a_queue_uses_it() {
    let mut driver = Driver::new(config());
    let value = InterruptVector::new().with_vector(1).with_coalescing_disabled(true).into_bits();
    driver.refuse_field(set_feature(CID, Feature::InterruptVector, value), 11);
    driver.make_io_queue();
    driver.succeed(set_feature(CID, Feature::InterruptVector, value));
    let get = |vector| Sqe { cdw11: vector, ..get_feature(CID, Feature::InterruptVector) };
    assert_eq!(driver.succeed(get(1)), 0x1_0001);
    assert_eq!(driver.succeed(get(2)), 2);
    driver.refuse_field(get(65), 11);
}

/// Values for each field of the features that are not of namespaces.
fn settings() -> Vec<(Feature, u32)> {
    let shifted = |feature, from: u32, bits: u32| (0..bits).map(move |bit| (feature, 1 << (from + bit)));
    let bursts = (0..8).map(|burst| (Feature::Arbitration, burst));
    let states =
        (0..3).rev().flat_map(|state| (0..3).map(move |workload| (Feature::PowerManagement, state | workload << 5)));
    bursts
        .chain(shifted(Feature::Arbitration, 8, 24))
        .chain(states)
        .chain(shifted(Feature::InterruptCoalescing, 0, 16))
        .chain([1, 0].map(|value| (Feature::WriteAtomicity, value)))
        .chain((0..64).map(|events| (Feature::AsyncEvents, events)))
        .chain([(Feature::AsyncEvents, 0x100), (Feature::AsyncEvents, 0x13f)])
        .chain([1, 0].map(|value| (Feature::VolatileWriteCache, value)))
        .collect()
}

#[test]
fn every_field_of_a_feature_reads_back_as_it_was_set() {
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: 0 });
    let mut driver = Driver::new(Config { cache, ..config() });
    for (feature, value) in settings() {
        driver.succeed(set_feature(CID, feature, value));
        assert_eq!(current(&mut driver, feature), value, "{feature:?}");
    }
    for bit in 0..16 {
        for under in [0, 1 << 20] {
            driver.succeed(set_feature(CID, Feature::TemperatureThreshold, 1 << bit | under));
            let sqe = Sqe { cdw11: under, ..get_feature(CID, Feature::TemperatureThreshold) };
            assert_eq!(driver.succeed(sqe), 1 << bit);
        }
        driver.succeed(Sqe { nsid: 1, ..set_feature(CID, Feature::ErrorRecovery, 1 << bit) });
        let sqe = Sqe { nsid: 1, ..get_feature(CID, Feature::ErrorRecovery) };
        assert_eq!(driver.succeed(sqe), 1 << bit);
    }
    driver.assert_clean();
}

/// A single CQ at a time, on each vector in turn.
#[test]
fn coalescing_can_be_disabled_for_each_vector() {
    let mut driver = Driver::new(config());
    for vector in 0..65_u16 {
        let memory = QueueMemory::Contiguous(0x8000);
        let queue = CreateIoCq { qid: QueueId(1), qsize_z: 7, interrupt: CqInterrupt::Vector(vector), memory };
        driver.succeed(queue.sqe(CID));
        for disabled in [true, false] {
            let value = InterruptVector::new().with_vector(vector).with_coalescing_disabled(disabled).into_bits();
            driver.succeed(set_feature(CID, Feature::InterruptVector, value));
            let sqe = Sqe { cdw11: vector.into(), ..get_feature(CID, Feature::InterruptVector) };
            assert_eq!(driver.succeed(sqe), value);
        }
        driver.succeed(admin::delete_io_cq(CID, QueueId(1)));
    }
    driver.assert_clean();
}

#[test]
fn the_write_cache_is_a_feature_only_where_there_is_one() {
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: 0 });
    let mut driver = Driver::new(Config { cache, ..config() });
    assert_eq!(current(&mut driver, Feature::VolatileWriteCache), 1);
    driver.succeed(set_feature(CID, Feature::VolatileWriteCache, 0));
    assert_eq!(current(&mut driver, Feature::VolatileWriteCache), 0);
}

#[test]
fn error_recovery_belongs_to_namespaces_and_the_rest_does_not() {
    let namespaces = vec![NamespaceConfig::zeroes(1 << 20), NamespaceConfig::zeroes(1 << 20)];
    let mut driver = Driver::new(Config { namespaces, ..config() });
    let set = |nsid, value| Sqe { nsid, ..set_feature(CID, Feature::ErrorRecovery, value) };
    let get = |nsid| Sqe { nsid, ..get_feature(CID, Feature::ErrorRecovery) };
    driver.succeed(set(1, 5));
    assert_eq!((driver.succeed(get(1)), driver.succeed(get(2))), (5, 0));
    driver.succeed(set(u32::MAX, 7));
    assert_eq!((driver.succeed(get(1)), driver.succeed(get(2))), (7, 7));
    for nsid in [0, 257] {
        driver.refuse(set(nsid, 1), StatusCode::InvalidNamespaceOrFormat);
        driver.refuse(get(nsid), StatusCode::InvalidNamespaceOrFormat);
    }
    driver.refuse(get(u32::MAX), StatusCode::InvalidNamespaceOrFormat);
    driver.refuse(set(9, 1), StatusCode::InvalidField);
    // NSFEAT does not offer errors for unwritten blocks.
    driver.refuse_field(set(1, 1 << 16), 11);
    let arbitration = Sqe { nsid: 1, ..set_feature(CID, Feature::Arbitration, 0) };
    driver.refuse(arbitration, StatusCode::FeatureNotNamespace);
    driver.succeed(Sqe { nsid: u32::MAX, ..arbitration });
}

#[test]
fn a_feature_of_the_controller_can_be_read_by_any_valid_namespace() {
    let mut driver = Driver::new(config());
    let value = ArbitrationWeights::new().with_burst(2).into_bits();
    driver.succeed(set_feature(CID, Feature::Arbitration, value));
    // Active, and without a namespace.
    for nsid in [1, 9] {
        assert_eq!(driver.succeed(Sqe { nsid, ..get_feature(CID, Feature::Arbitration) }), value);
        let default = get_feature_selected(CID, Feature::Arbitration, Select::Default);
        assert_eq!(driver.succeed(Sqe { nsid, ..default }), 0);
        driver.refuse(Sqe { nsid, ..set_feature(CID, Feature::Arbitration, 0) }, StatusCode::FeatureNotNamespace);
    }
    let beyond = Sqe { nsid: 257, ..get_feature(CID, Feature::Arbitration) };
    driver.refuse(beyond, StatusCode::InvalidNamespaceOrFormat);
    driver.assert_clean();
}

#[test]
fn temperature_has_two_thresholds() {
    let mut driver = Driver::new(config());
    let set = |kelvin, sensor, under| {
        let value = TemperatureThreshold::new().with_kelvin(kelvin).with_sensor(sensor).with_under(under);
        set_feature(CID, Feature::TemperatureThreshold, value.into_bits())
    };
    let get = |under: u32| Sqe { cdw11: under << 20, ..get_feature(CID, Feature::TemperatureThreshold) };
    assert_eq!((driver.succeed(get(0)), driver.succeed(get(1))), (343, 0));
    driver.succeed(set(330, 0, 0));
    driver.succeed(set(260, TemperatureThreshold::ALL_SENSORS, 1));
    assert_eq!((driver.succeed(get(0)), driver.succeed(get(1))), (330, 260));
    driver.refuse_field(Sqe { cdw11: 0xf << 16, ..get(0) }, 11);
}

#[test]
fn each_sensor_has_thresholds_of_its_own() {
    let mut driver = Driver::new(config());
    let at = |sensor: u8, under: u8| TemperatureThreshold::new().with_sensor(sensor).with_under(under);
    let set = |value: TemperatureThreshold, kelvin| {
        set_feature(CID, Feature::TemperatureThreshold, value.with_kelvin(kelvin).into_bits())
    };
    let get = |value: TemperatureThreshold, select| {
        let sqe = get_feature_selected(CID, Feature::TemperatureThreshold, select);
        Sqe { cdw11: value.into_bits(), ..sqe }
    };
    for sensor in [1, 2] {
        assert_eq!(driver.succeed(get(at(sensor, 0), Select::Current)), 0xffff);
        assert_eq!(driver.succeed(get(at(sensor, 1), Select::Current)), 0);
    }
    driver.succeed(set(at(1, 0), 330));
    driver.succeed(set(at(2, 1), 270));
    let values = |driver: &mut Driver| {
        [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)]
            .map(|(sensor, under)| driver.succeed(get(at(sensor, under), Select::Current)))
    };
    assert_eq!(values(&mut driver), [343, 0, 330, 0, 0xffff, 270]);
    driver.succeed(set(at(TemperatureThreshold::ALL_SENSORS, 0), 335));
    assert_eq!(values(&mut driver), [335, 0, 335, 0, 335, 270]);
    assert_eq!(driver.succeed(get(at(2, 0), Select::Default)), 0xffff);
    for sensor in 3..15 {
        driver.refuse_field(set(at(sensor, 0), 330), 11);
        driver.refuse_field(get(at(sensor, 0), Select::Current), 11);
    }
    driver.reset();
    assert_eq!(values(&mut driver), [343, 0, 0xffff, 0, 0xffff, 0]);
}

/// A command about the host identifier, of 128 bits or of 64.
fn host_id(sqe: Sqe, is_long: bool) -> Sqe {
    Sqe { prp1: BUFFER, cdw11: HostId::new().with_long(is_long).into_bits(), ..sqe }
}

#[test]
fn the_host_identifier_is_set_once_until_a_reset() {
    let mut driver = Driver::new(config());
    let set = set_feature(CID, Feature::HostId, 0);
    let get = get_feature(CID, Feature::HostId);
    let read = |driver: &mut Driver, is_long| {
        driver.fill(0xee);
        driver.succeed(host_id(get, is_long));
        driver.data::<[u8; 17]>()
    };
    assert_eq!(read(&mut driver, true)[..17], [&[0; 16][..], &[0xee]].concat());
    let id: [u8; 16] = std::array::from_fn(|index| index as u8 + 1);
    driver.put(&id);
    driver.succeed(host_id(set, true));
    driver.succeed(host_id(set, true));
    assert_eq!(read(&mut driver, true)[..16], id);
    assert_eq!(read(&mut driver, false)[..9], [1, 2, 3, 4, 5, 6, 7, 8, 0xee]);
    driver.put(&[9_u8; 16]);
    driver.refuse(host_id(set, true), StatusCode::CommandSequence);
    driver.refuse(host_id(set, false), StatusCode::CommandSequence);
    driver.assert_clean();
    driver.reset();
    driver.put(&[9_u8; 16]);
    driver.succeed(host_id(set, false));
    assert_eq!(read(&mut driver, true)[..17], [&[9; 8][..], &[0; 8], &[0xee]].concat());
    let default = get_feature_selected(CID, Feature::HostId, Select::Default);
    driver.succeed(host_id(default, true));
    assert_eq!(driver.data::<[u8; 16]>(), [0; 16]);
    driver.refuse_field(Sqe { cdw11: 2, ..host_id(set, false) }, 11);
}

#[test]
fn every_selection_of_every_feature_is_answered() {
    let mut driver = Driver::new(config());
    for feature in [0x01, 0x02, 0x04, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0e, 0x81] {
        let data = if feature >= 0x0c { BUFFER } else { 0 };
        let get =
            |select: u32| Sqe { cdw10: feature | select << 8, prp1: data, ..get_feature(CID, Feature::Arbitration) };
        let [current, default, saved, supported] = [0, 1, 2, 3].map(|select| driver.succeed(get(select)));
        assert_eq!((current, saved), (default, default), "{feature:#x}");
        assert!(Capabilities::from_bits(supported).changeable(), "{feature:#x}");
        for select in 4..8 {
            driver.refuse_field(get(select), 10);
        }
        if !Capabilities::from_bits(supported).saveable() {
            let save = Sqe { cdw10: feature | 1 << 31, prp1: data, ..set_feature(CID, Feature::Arbitration, 0) };
            driver.refuse(save, StatusCode::FeatureNotSaveable);
        }
    }
}

#[test]
fn the_timestamp_counts_from_what_was_set() {
    let mut driver = Driver::new(config());
    let at = |mut sqe: Sqe| {
        sqe.prp1 = PAGE.prp1;
        sqe
    };
    driver.put(&Timestamp::new(5_000, 0));
    driver.succeed(at(set_feature(CID, Feature::Timestamp, 0)));
    driver.pass(2_000_000_000);
    driver.succeed(at(get_feature(CID, Feature::Timestamp)));
    let reported: Timestamp = driver.data();
    assert_eq!(reported, Timestamp::new(7_000, Timestamp::SET_BY_HOST));
    driver.reset();
    driver.succeed(at(get_feature(CID, Feature::Timestamp)));
    let reported: Timestamp = driver.data();
    assert_eq!(reported.attributes, Timestamp::SINCE_RESET);
    assert!(reported.milliseconds() < 1_000);
}

#[test]
fn set_features_names_no_namespace_that_cannot_be() {
    let mut driver = Driver::new(config());
    let sqe = Sqe { nsid: 257, ..set_feature(CID, Feature::Arbitration, 0) };
    driver.refuse(sqe, StatusCode::InvalidNamespaceOrFormat);
    driver.succeed(admin::identify_namespace(CID, Nsid(1), PAGE));
}
