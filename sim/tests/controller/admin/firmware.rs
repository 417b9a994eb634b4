//! Firmware: pieces of an image, slots, activation by a reset and at once.

use nvme_spec::admin::{self, CommitAction, FirmwarePiece, firmware_commit};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::Controller;
use nvme_spec::log::{ActiveFirmware, FirmwareSlots, LogPage};
use nvme_spec::{Cid, Sqe, StatusCode};
use sim_nvme::{AdminConfig, Config, OptionalCommands, firmware_image};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);

/// A piece of a whole number of pages.
const fn piece(page: u32, pages: u32) -> FirmwarePiece {
    FirmwarePiece { dwords_z: pages * 1024 - 1, offset_dwords: page * 1024 }
}

fn put_piece(driver: &mut Driver, image: &[u8], page: usize) -> Sqe {
    driver.put(&image[page * 4096..][..4096]);
    piece(page as u32, 1).sqe(CID, PAGE)
}

/// Downloads an image page by page, the last one first.
fn download(driver: &mut Driver, image: &[u8]) {
    for page in (0..image.len() / 4096).rev() {
        let sqe = put_piece(driver, image, page);
        driver.succeed(sqe);
    }
}

fn running(driver: &mut Driver) -> String {
    driver.succeed(admin::identify_controller(CID, PAGE));
    driver.data::<Controller>().firmware_revision().into()
}

/// The slot that runs, the one that runs next, and the revisions of the first three.
fn slots(driver: &mut Driver) -> (u8, u8, [String; 3]) {
    let log: FirmwareSlots = driver.log(LogPage::FirmwareSlots);
    let active = ActiveFirmware::from_bits(log.afi);
    let text = |slot: usize| String::from_utf8_lossy(&log.revisions[slot]).trim_matches([' ', '\0']).to_string();
    (active.active(), active.next(), [0, 1, 2].map(text))
}

fn texts(revisions: [&str; 3]) -> [String; 3] {
    revisions.map(String::from)
}

#[test]
fn an_image_runs_from_the_next_reset_on() {
    let mut driver = Driver::new(config());
    download(&mut driver, &firmware_image("2.0", 3));
    driver.succeed(firmware_commit(CID, CommitAction::ReplaceAndActivate, 2));
    assert_eq!(slots(&mut driver), (1, 2, texts(["1.0", "2.0", ""])));
    assert_eq!(running(&mut driver), "1.0");
    driver.reset();
    assert_eq!(slots(&mut driver), (2, 0, texts(["1.0", "2.0", ""])));
    assert_eq!(running(&mut driver), "2.0");
    // The first slot is there for the way back, which a loss of power goes too.
    driver.succeed(firmware_commit(CID, CommitAction::Activate, 1));
    driver.lose_power();
    assert_eq!(slots(&mut driver), (1, 0, texts(["1.0", "2.0", ""])));
    driver.reset();
    assert_eq!(running(&mut driver), "1.0");
    driver.assert_clean();
}

#[test]
fn an_image_may_only_be_stored_and_the_controller_may_choose_its_slot() {
    let mut driver = Driver::new(config());
    for revision in ["2.0", "3.0", "4.0"] {
        download(&mut driver, &firmware_image(revision, 1));
        driver.succeed(firmware_commit(CID, CommitAction::Replace, 0));
    }
    assert_eq!(slots(&mut driver), (1, 0, texts(["1.0", "4.0", "3.0"])));
    driver.reset();
    assert_eq!(running(&mut driver), "1.0");
}

#[test]
fn overlapping_pieces_are_refused_and_others_stay() {
    let mut driver = Driver::new(config());
    let image = firmware_image("2.0", 3);
    let sqe = put_piece(&mut driver, &image, 1);
    driver.succeed(sqe);
    driver.refuse(sqe, StatusCode::OverlappingRange);
    driver.refuse(piece(0, 2).sqe(CID, super::support::buffer(8192)), StatusCode::OverlappingRange);
    for page in [0, 2] {
        let sqe = put_piece(&mut driver, &image, page);
        driver.succeed(sqe);
    }
    driver.succeed(firmware_commit(CID, CommitAction::Replace, 3));
    assert_eq!(slots(&mut driver).2, texts(["1.0", "", "2.0"]));
    driver.assert_clean();
}

#[test]
fn odd_pieces_and_pieces_beyond_the_largest_image_are_refused() {
    let mut driver = Driver::new(config());
    for odd in [
        FirmwarePiece { dwords_z: 1022, offset_dwords: 0 },
        FirmwarePiece { dwords_z: 0, offset_dwords: 0 },
        FirmwarePiece { dwords_z: 1023, offset_dwords: 1 },
        FirmwarePiece { dwords_z: 1023, offset_dwords: 256 * 1024 },
        FirmwarePiece { dwords_z: 1023, offset_dwords: u32::MAX - 1023 },
    ] {
        driver.refuse(odd.sqe(CID, PAGE), StatusCode::InvalidField);
    }
    driver.refuse(firmware_commit(CID, CommitAction::Replace, 2), StatusCode::InvalidFirmwareImage);
    driver.assert_clean();
    driver.refuse_field(FirmwarePiece { dwords_z: u32::MAX, offset_dwords: 0 }.sqe(CID, PAGE), 10);
}

#[test]
fn images_with_gaps_or_damage_are_invalid_and_forgotten() {
    let mut driver = Driver::new(config());
    let image = firmware_image("2.0", 2);
    let mut damaged = image.clone();
    damaged[4100] ^= 1;
    let commit = firmware_commit(CID, CommitAction::ReplaceAndActivate, 2);
    let sqe = put_piece(&mut driver, &image, 1);
    driver.succeed(sqe);
    driver.refuse(commit, StatusCode::InvalidFirmwareImage);
    download(&mut driver, &damaged);
    driver.refuse(commit, StatusCode::InvalidFirmwareImage);
    download(&mut driver, &image[..4096]);
    driver.refuse(commit, StatusCode::InvalidFirmwareImage);
    assert_eq!(slots(&mut driver), (1, 0, texts(["1.0", "", ""])));
    download(&mut driver, &image);
    driver.succeed(commit);
}

#[test]
fn a_reset_forgets_pieces() {
    let mut driver = Driver::new(config());
    let image = firmware_image("2.0", 1);
    download(&mut driver, &image);
    driver.reset();
    driver.refuse(firmware_commit(CID, CommitAction::Replace, 2), StatusCode::InvalidFirmwareImage);
    download(&mut driver, &image);
}

#[test]
fn slots_that_cannot_be_used_are_refused() {
    let mut driver = Driver::new(config());
    download(&mut driver, &firmware_image("2.0", 1));
    for (action, slot) in [
        (CommitAction::Replace, 1),
        (CommitAction::ReplaceAndActivate, 1),
        (CommitAction::ActivateNow, 1),
        (CommitAction::Replace, 4),
        (CommitAction::Activate, 7),
        (CommitAction::Activate, 0),
    ] {
        driver.refuse(firmware_commit(CID, action, slot), StatusCode::InvalidFirmwareSlot);
    }
    driver.refuse(firmware_commit(CID, CommitAction::Activate, 2), StatusCode::InvalidFirmwareImage);
    // Actions about boot partitions, and one that is reserved.
    let commit = firmware_commit(CID, CommitAction::Replace, 2);
    for bits in [6 << 3, 7 << 3, 4 << 3, 1 << 31] {
        driver.refuse(Sqe { cdw10: 2 | bits, ..commit }, StatusCode::InvalidField);
    }
    driver.assert_clean();
    driver.refuse_field(Sqe { cdw10: commit.cdw10 | 1 << 6, ..commit }, 10);
    driver.succeed(commit);
}

#[test]
fn an_activation_without_a_reset_is_announced_and_pauses_the_controller() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    let events = AsyncEvents::new().with_firmware_activation(true).into_bits();
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events));
    let event = driver.submit(0, admin::async_event_request(CID));
    download(&mut driver, &firmware_image("2.0", 1));
    let commit = driver.submit(0, firmware_commit(CID, CommitAction::ActivateNow, 2));
    driver.pass(1_000_000);
    assert_eq!(driver.completion(event).map(|entry| entry.dw0), Some(AsyncEvent::FIRMWARE_ACTIVATION.into_bits()));
    assert!(driver.csts().pp() && driver.csts().rdy());
    let start_ns = driver.now_ns;
    let identify = driver.submit(0, admin::identify_controller(CID, PAGE));
    assert!(driver.wait(identify).status().is_success());
    assert!((38_000_000..40_000_000).contains(&(driver.now_ns - start_ns)));
    assert!(driver.wait(commit).status().is_success());
    assert!(!driver.csts().pp());
    assert_eq!(slots(&mut driver), (2, 0, texts(["1.0", "2.0", ""])));
    assert_eq!(running(&mut driver), "2.0");
    // The image of a slot, without a new one.
    driver.succeed(firmware_commit(CID, CommitAction::ActivateNow, 1));
    assert_eq!(running(&mut driver), "1.0");
    driver.refuse(firmware_commit(CID, CommitAction::ActivateNow, 3), StatusCode::InvalidFirmwareImage);
    driver.assert_clean();
}

#[test]
fn a_reset_ends_the_pause_of_an_activation() {
    let mut driver = Driver::new(config());
    driver.succeed(firmware_commit(CID, CommitAction::Activate, 1));
    driver.submit(0, firmware_commit(CID, CommitAction::ActivateNow, 1));
    driver.pass(1_000_000);
    assert!(driver.csts().pp());
    driver.reset();
    assert!(!driver.csts().pp());
    assert_eq!(running(&mut driver), "1.0");
    driver.assert_clean();
}

#[test]
fn attributes_of_firmware_are_those_of_the_configuration() {
    let admin = AdminConfig { firmware_slots: 7, activation_ns: 250_000_000, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    driver.succeed(admin::identify_controller(CID, PAGE));
    let about: Controller = driver.data();
    assert_eq!((about.frmw, about.fwug, about.mtfa.get()), (0x1f, 1, 3));
    assert!(about.optional_admin().firmware());
    let commands = OptionalCommands { firmware: false, ..AdminConfig::default().commands };
    let mut driver = Driver::new(Config { admin: AdminConfig { commands, ..AdminConfig::default() }, ..config() });
    driver.succeed(admin::identify_controller(CID, PAGE));
    let about: Controller = driver.data();
    assert_eq!((about.frmw, about.fwug, about.mtfa.get(), about.oaes.get()), (0x03, 0, 0, 0x100));
    driver.refuse(firmware_commit(CID, CommitAction::Activate, 1), StatusCode::InvalidOpcode);
    driver.refuse_field(set_feature(CID, Feature::AsyncEvents, 0x200), 11);
}
