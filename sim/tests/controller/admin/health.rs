//! The SMART log: its counts and warnings.

use nvme_spec::admin;
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, TemperatureThreshold, set_feature};
use nvme_spec::log::{LogPage, Smart, Warnings};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, StatusCode};
use sim_fault::{CommandEffect, CommandFault, Fault, QueueKind};
use sim_nvme::{AdminConfig, Config, Health, MediaHealth};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);

fn smart(driver: &mut Driver) -> Smart {
    driver.log(LogPage::Smart)
}

fn set(driver: &mut Driver, health: Health) {
    driver.with_host(|controller, host| controller.set_health(health, host));
}

#[test]
fn data_and_commands_are_counted() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let blocks = Blocks::new(Lba(0), 8).unwrap();
    for _ in 0..3 {
        assert!(driver.io(nvm::write(CID, Nsid(1), blocks, PAGE)).status().is_success());
    }
    assert!(driver.io(nvm::read(CID, Nsid(1), blocks, PAGE)).status().is_success());
    assert!(driver.io(nvm::flush(CID, Nsid(1))).status().is_success());
    let log = smart(&mut driver);
    assert_eq!((log.host_reads.get(), log.host_writes.get()), (1, 3));
    // 4 KiB and 12 KiB, in thousands of 512 bytes rounded up.
    assert_eq!((log.data_units_read.get(), log.data_units_written.get()), (1, 1));
    for _ in 0..130 {
        assert!(driver.io(nvm::write(CID, Nsid(1), blocks, PAGE)).status().is_success());
    }
    // 133 times 8 sectors.
    assert_eq!(smart(&mut driver).data_units_written.get(), 2);
}

#[test]
fn compare_and_verify_read_data_and_only_compare_is_a_host_read() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let blocks = Blocks::new(Lba(0), 8).unwrap();
    driver.fill(0);
    assert!(driver.io(nvm::compare(CID, Nsid(1), blocks, PAGE)).status().is_success());
    let log = smart(&mut driver);
    assert_eq!((log.host_reads.get(), log.data_units_read.get()), (1, 1));
    // 8 and 1000 sectors.
    let thousand = Blocks::new(Lba(0), 1000).unwrap();
    assert!(driver.io(nvm::verify(CID, Nsid(1), thousand)).status().is_success());
    let log = smart(&mut driver);
    assert_eq!((log.host_reads.get(), log.data_units_read.get()), (1, 2));
}

#[test]
fn power_cycles_and_unsafe_shutdowns_are_counted() {
    let mut driver = Driver::new(config());
    let log = smart(&mut driver);
    assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (1, 0));
    driver.reset();
    assert_eq!(smart(&mut driver).power_cycles.get(), 1);
    driver.lose_power();
    let log = smart(&mut driver);
    assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (2, 1));
}

#[test]
fn media_errors_are_counted_and_others_are_not() {
    let mut driver = Driver::new(Config { faults: vec![one_unreadable()], ..config() });
    driver.make_io_queue();
    let read = nvm::read(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert_eq!(driver.io(read).status().code(), StatusCode::UnrecoveredRead);
    assert!(driver.io(read).status().is_success());
    let beyond = nvm::read(CID, Nsid(1), Blocks::new(Lba(9999), 1).unwrap(), PAGE);
    assert_eq!(driver.io(beyond).status().code(), StatusCode::LbaOutOfRange);
    assert_eq!(smart(&mut driver).media_errors.get(), 1);
}

#[test]
fn a_compare_failure_is_no_media_error() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    driver.fill(1);
    let compare = nvm::compare(CID, Nsid(1), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert_eq!(driver.io(compare).status().code(), StatusCode::CompareFailure);
    let log = smart(&mut driver);
    assert_eq!(log.media_errors.get(), 0);
    // It is a command that failed, and its blocks were read.
    assert_eq!((log.error_log_entries.get(), log.data_units_read.get()), (1, 1));
}

/// The first read finds that the medium cannot be read.
fn one_unreadable() -> Fault {
    Fault::Command(CommandFault {
        opcodes: vec![2],
        times: Some(1),
        ..CommandFault::new(QueueKind::Io, CommandEffect::Status { sct: 2, sc: 0x81, dnr: false })
    })
}

#[test]
fn sensors_and_warnings_are_reported() {
    let mut driver = Driver::new(config());
    let log = smart(&mut driver);
    assert_eq!((log.temperature.get(), log.spare, log.spare_threshold, log.used), (313, 100, 10, 0));
    assert_eq!(log.warnings(), Warnings::new());
    let worn = Health {
        temperature_kelvin: 343,
        spare_percent: 9,
        used_percent: 97,
        media: MediaHealth::Degraded,
        ..Health::default()
    };
    set(&mut driver, worn);
    let log = smart(&mut driver);
    assert_eq!((log.temperature.get(), log.spare, log.used), (343, 9, 97));
    assert_eq!(log.warnings(), Warnings::new().with_spare(true).with_temperature(true).with_reliability(true));
}

#[test]
fn hot_controller_warns_from_the_start_and_after_a_reset() {
    let admin =
        AdminConfig { health: Health { temperature_kelvin: 350, ..Health::default() }, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    assert!(smart(&mut driver).warnings().temperature());
    driver.succeed(set_feature(CID, Feature::TemperatureThreshold, 360));
    assert!(!smart(&mut driver).warnings().temperature());
    driver.reset();
    assert!(smart(&mut driver).warnings().temperature());
}

#[test]
fn hours_and_hot_minutes_pass() {
    let mut driver = Driver::new(config());
    driver.pass(2 * 3_600_000_000_000);
    set(&mut driver, Health { temperature_kelvin: 350, ..Health::default() });
    driver.pass(180_000_000_000);
    set(&mut driver, Health { temperature_kelvin: 380, ..Health::default() });
    driver.pass(60_000_000_000);
    let log = smart(&mut driver);
    assert_eq!((log.power_on_hours.get(), log.warning_minutes.get(), log.critical_minutes.get()), (2, 3, 1));
}

#[test]
fn a_sensor_beyond_its_threshold_warns_until_its_log_is_read() {
    let mut driver = Driver::new(config());
    let events = AsyncEvents::new().with_warnings(0x3f).into_bits();
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events));
    let threshold = |kelvin, sensor, under| {
        let value = TemperatureThreshold::new().with_kelvin(kelvin).with_sensor(sensor).with_under(under);
        set_feature(CID, Feature::TemperatureThreshold, value.into_bits())
    };
    driver.succeed(threshold(330, 2, 0));
    driver.succeed(threshold(280, 2, 1));
    let [first, second] = [(); 2].map(|()| driver.submit(0, admin::async_event_request(CID)));
    let feel = |driver: &mut Driver, kelvin| {
        let mut health = driver.controller.health();
        health.sensors_kelvin[1] = kelvin;
        set(driver, health);
        driver.pass(1_000_000);
    };
    feel(&mut driver, 329);
    assert_eq!(driver.completion(first), None);
    feel(&mut driver, 330);
    assert_eq!(driver.completion(first).map(|entry| entry.dw0), Some(AsyncEvent::TEMPERATURE.into_bits()));
    // Cold and hot are one source: it stays masked.
    feel(&mut driver, 300);
    feel(&mut driver, 280);
    assert_eq!(driver.completion(second), None);
    let log = smart(&mut driver);
    assert_eq!(log.sensors.map(|kelvin| kelvin.get()), [313, 280, 0, 0, 0, 0, 0, 0]);
    assert!(log.warnings().temperature());
    feel(&mut driver, 300);
    assert!(!smart(&mut driver).warnings().temperature());
    feel(&mut driver, 280);
    assert_eq!(driver.completion(second).map(|entry| entry.dw0), Some(AsyncEvent::TEMPERATURE.into_bits()));
    driver.assert_clean();
}

#[test]
fn a_threshold_that_comes_down_to_the_temperature_warns() {
    let mut driver = Driver::new(config());
    let events = AsyncEvents::new().with_warnings(0x3f).into_bits();
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events));
    let cid = driver.submit(0, admin::async_event_request(CID));
    driver.succeed(set_feature(CID, Feature::TemperatureThreshold, 313));
    assert_eq!(AsyncEvent::from_bits(driver.wait(cid).dw0), AsyncEvent::TEMPERATURE);
    assert!(smart(&mut driver).warnings().temperature());
    driver.succeed(set_feature(CID, Feature::TemperatureThreshold, 343));
    assert!(!smart(&mut driver).warnings().temperature());
    driver.succeed(set_feature(CID, Feature::TemperatureThreshold, 313 | 1 << 20));
    assert!(smart(&mut driver).warnings().temperature());
}
