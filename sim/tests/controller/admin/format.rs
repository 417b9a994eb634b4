//! Format NVM: another size of blocks, and no data left.

use nvme_spec::admin::{self, FormatDw10};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{Namespace, NamespaceList};
use nvme_spec::log::LogPage;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba, Nsid, Status, StatusCode};
use sim_nvme::config::Cache;
use sim_nvme::{AdminConfig, Config, NamespaceConfig};

use super::support::{Driver, PAGE, config};

const CID: Cid = Cid(0);
const FORMAT_4096: FormatDw10 = FormatDw10::new().with_lbaf(1);

/// A namespace that holds 77h everywhere.
fn full(bytes: u64) -> NamespaceConfig {
    let base = Box::new(|_: u64, bytes: &mut [u8]| bytes.fill(0x77));
    NamespaceConfig { base, ..NamespaceConfig::zeroes(bytes) }
}

fn identify(driver: &mut Driver, nsid: u32) -> Namespace {
    driver.succeed(admin::identify_namespace(CID, Nsid(nsid), PAGE));
    driver.data()
}

fn write(driver: &mut Driver, nsid: u32, lba: u64) {
    driver.fill(0x5a);
    let sqe = nvm::write(CID, Nsid(nsid), Blocks::new(Lba(lba), 1).unwrap(), PAGE);
    assert!(driver.io(sqe).status().is_success());
}

fn read(driver: &mut Driver, nsid: u32, lba: u64) -> u8 {
    driver.fill(0xee);
    let sqe = nvm::read(CID, Nsid(nsid), Blocks::new(Lba(lba), 1).unwrap(), PAGE);
    assert!(driver.io(sqe).status().is_success());
    driver.data()
}

#[test]
fn a_format_changes_blocks_and_takes_everything_away() {
    let mut driver = Driver::new(Config { namespaces: vec![full((1 << 20) + 1024)], ..config() });
    driver.make_io_queue();
    write(&mut driver, 1, 0);
    assert_eq!((read(&mut driver, 1, 0), read(&mut driver, 1, 9)), (0x5a, 0x77));
    driver.succeed(admin::format_nvm(CID, Nsid(1), FORMAT_4096));
    let about = identify(&mut driver, 1);
    assert_eq!((about.nsze.get(), about.flbas, about.block_bytes()), (256, 1, Some(4096)));
    assert_eq!((read(&mut driver, 1, 0), read(&mut driver, 1, 255)), (0, 0));
    let beyond = nvm::read(CID, Nsid(1), Blocks::new(Lba(256), 1).unwrap(), PAGE);
    assert_eq!(driver.io(beyond).status().code(), StatusCode::LbaOutOfRange);
    // With the old format again, the rest that made no whole block is also there again.
    driver.succeed(admin::format_nvm(CID, Nsid(1), FormatDw10::new().with_ses(1)));
    assert_eq!(identify(&mut driver, 1).nsze.get(), 2050);
    driver.assert_clean();
}

#[test]
fn formatted_data_does_not_come_back_with_power() {
    for writes in 1..16 {
        let cache = Some(Cache { bytes: 1 << 20, linger_ns: 1_000_000_000_000 });
        let mut driver = Driver::new(Config { cache, namespaces: vec![full(1 << 20)], ..config() });
        driver.make_io_queue();
        for lba in 0..writes {
            write(&mut driver, 1, lba);
        }
        driver.succeed(admin::format_nvm(CID, Nsid(1), FormatDw10::new()));
        driver.lose_power();
        driver.make_io_queue();
        for lba in 0..writes {
            assert_eq!(read(&mut driver, 1, lba), 0);
        }
    }
}

#[test]
fn only_the_namespace_named_is_formatted_or_all_of_them() {
    let namespaces = (0..2).map(|_| NamespaceConfig::zeroes(1 << 20)).collect();
    let mut driver = Driver::new(Config { namespaces, ..config() });
    driver.make_io_queue();
    write(&mut driver, 1, 0);
    write(&mut driver, 2, 0);
    driver.succeed(admin::format_nvm(CID, Nsid(1), FORMAT_4096));
    assert_eq!((read(&mut driver, 1, 0), read(&mut driver, 2, 0)), (0, 0x5a));
    driver.succeed(admin::format_nvm(CID, Nsid::ALL, FORMAT_4096));
    assert_eq!(read(&mut driver, 2, 0), 0);
    assert_eq!(identify(&mut driver, 2).flbas, 1);
}

#[test]
fn a_format_takes_its_time() {
    let admin = AdminConfig { format_ns: 700_000_000, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    let start_ns = driver.now_ns;
    driver.succeed(admin::format_nvm(CID, Nsid(1), FORMAT_4096));
    assert!((700_000_000..701_000_000).contains(&(driver.now_ns - start_ns)));
}

#[test]
fn format_of_a_high_index_has_upper_bits() {
    // 20 formats of 512 bytes, but one of 2048 and one of 8192.
    let mut formats = vec![9; 20];
    (formats[17], formats[19]) = (11, 13);
    let namespace = NamespaceConfig { formats, ..NamespaceConfig::zeroes(1 << 20) };
    let mut driver = Driver::new(Config { namespaces: vec![namespace], ..config() });
    driver.make_io_queue();
    assert_eq!(identify(&mut driver, 1).nlbaf_z, 19);
    for (index, flbas, bytes) in [(17, 0x21, 2048), (19, 0x23, 8192), (1, 1, 512)] {
        driver.succeed(admin::format_nvm(CID, Nsid(1), FormatDw10::of(index)));
        let about = identify(&mut driver, 1);
        assert_eq!((about.flbas, about.format_index(), about.block_bytes()), (flbas, index, Some(bytes)));
        assert_eq!(about.nsze.get(), (1 << 20) / u64::from(bytes));
    }
    driver.succeed(admin::format_nvm(CID, Nsid(1), FormatDw10::of(17)));
    write(&mut driver, 1, 511);
    assert_eq!((read(&mut driver, 1, 511), read(&mut driver, 1, 510)), (0x5a, 0));
    driver.refuse(admin::format_nvm(CID, Nsid(1), FormatDw10::of(20)), StatusCode::InvalidFormat);
    driver.assert_clean();
}

#[test]
fn what_cannot_be_formatted_is_refused_and_left_alone() {
    let mut driver = Driver::new(config());
    driver.make_io_queue();
    write(&mut driver, 1, 0);
    let plain = FormatDw10::new();
    for (nsid, how, code) in [
        (1, plain.with_lbaf(2), StatusCode::InvalidFormat),
        (1, plain.with_pi(1), StatusCode::InvalidFormat),
        (1, plain.with_pil(true), StatusCode::InvalidFormat),
        (1, plain.with_mset(true), StatusCode::InvalidFormat),
        (1, plain.with_ses(2), StatusCode::InvalidField),
        (1, plain.with_ses(7), StatusCode::InvalidField),
        (9, plain, StatusCode::InvalidField),
        (0, plain, StatusCode::InvalidNamespaceOrFormat),
        (257, plain, StatusCode::InvalidNamespaceOrFormat),
    ] {
        driver.refuse(admin::format_nvm(CID, Nsid(nsid), how), code);
    }
    assert_eq!(read(&mut driver, 1, 0), 0x5a);
}

#[test]
fn a_change_of_format_is_reported_and_the_same_format_is_not() {
    let mut driver = Driver::new(config());
    let events = AsyncEvents::new().with_namespace_changed(true).into_bits();
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events));
    let cid = driver.submit(0, admin::async_event_request(CID));
    driver.succeed(admin::format_nvm(CID, Nsid(1), FormatDw10::new()));
    assert_eq!(driver.completion(cid), None);
    driver.succeed(admin::format_nvm(CID, Nsid(1), FORMAT_4096));
    assert_eq!(AsyncEvent::from_bits(driver.wait(cid).dw0), AsyncEvent::NAMESPACE_CHANGED);
    let changed: NamespaceList = driver.log(LogPage::ChangedNamespaces);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [Nsid(1)]);
}

#[test]
fn nothing_else_is_done_with_a_namespace_while_it_is_formatted() {
    let namespaces = (0..2).map(|_| NamespaceConfig::zeroes(1 << 20)).collect();
    let mut driver = Driver::new(Config { namespaces, ..config() });
    driver.make_io_queue();
    assert_eq!(identify(&mut driver, 1).fpi, 0x80);
    let format = driver.submit(0, admin::format_nvm(CID, Nsid(1), FORMAT_4096));
    driver.pass(59_500_000);
    assert_eq!(identify(&mut driver, 1).fpi, 0x80 | 41);
    let busy = Status::new(StatusCode::FormatInProgress).with_more();
    let read = |nsid| nvm::read(CID, Nsid(nsid), Blocks::new(Lba(0), 1).unwrap(), PAGE);
    assert_eq!(driver.io(read(1)).status(), busy);
    assert_eq!(driver.admin(admin::format_nvm(CID, Nsid(1), FORMAT_4096)).status(), busy);
    assert_eq!(driver.admin(admin::delete_namespace(CID, Nsid::ALL)).status(), busy);
    assert!(driver.io(read(2)).status().is_success());
    assert!(driver.wait(format).status().is_success());
    assert!(driver.io(read(1)).status().is_success());
    assert_eq!(identify(&mut driver, 1).fpi, 0x80);
}
