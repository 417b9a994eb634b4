//! Opcodes that exist, and fields that must be zero.

use nvme_spec::admin::{self, FormatDw10, Opcode};
use nvme_spec::feature::{Feature, get_feature, set_feature};
use nvme_spec::identify::Controller;
use nvme_spec::log::{CommandEffects, Effects, Execution, LogPage, LogRead, Scope};
use nvme_spec::sqe::Cdw0;
use nvme_spec::{Cid, DataPointer, Nsid, Sqe, StatusCode};
use proptest::prelude::*;
use proptest::sample::select;
use sim_nvme::{AdminConfig, Config};

use super::support::{BUFFER, Driver, NO_COMMANDS, PAGE, config};

const CID: Cid = Cid(0);

fn bare() -> Config {
    Config { admin: AdminConfig { commands: NO_COMMANDS, ..AdminConfig::default() }, ..config() }
}

fn with_keep_alive() -> Config {
    Config { admin: AdminConfig { keep_alive_100ms: 1, ..AdminConfig::default() }, ..config() }
}

fn claimed(driver: &mut Driver) -> (Vec<u8>, Vec<u8>) {
    let log: Effects = driver.log(LogPage::CommandEffects);
    let opcodes = |entries: &[zerocopy::little_endian::U32; 256]| {
        let supported = |raw: &u8| CommandEffects::from_bits(entries[usize::from(*raw)].get()).supported();
        (0..=u8::MAX).filter(supported).collect()
    };
    (opcodes(&log.admin), opcodes(&log.io))
}

#[test]
fn every_opcode_of_the_effects_log_is_known_and_no_other_is() {
    for config in [config(), bare(), with_keep_alive()] {
        let mut driver = Driver::new(config);
        driver.make_io_queue();
        let (admin, io) = claimed(&mut driver);
        for opcode in 0..=u8::MAX {
            // An asynchronous event request is recognized by the missing completion.
            if opcode == Opcode::AsyncEventRequest as u8 {
                assert!(admin.contains(&opcode));
                continue;
            }
            let unknown = |status: nvme_spec::Status| status.code() == StatusCode::InvalidOpcode;
            // CDW2 is reserved in every command, so none is executed.
            let mut sqe = Sqe::new(opcode, CID, Nsid::NONE, DataPointer::NONE);
            sqe.cdw2 = 1;
            assert_eq!(unknown(driver.admin(sqe).status()), !admin.contains(&opcode), "admin {opcode:#x}");
            assert_eq!(unknown(driver.io(sqe).status()), !io.contains(&opcode), "I/O {opcode:#x}");
        }
    }
}

#[test]
fn optional_commands_depend_on_the_configuration() {
    let mandatory = [0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c];
    assert_eq!(claimed(&mut Driver::new(bare())).0, mandatory);
    let all = [mandatory.as_slice(), &[0x0d, 0x10, 0x11, 0x14, 0x15, 0x24, 0x7c, 0x80, 0x84]].concat();
    assert_eq!(claimed(&mut Driver::new(config())).0, all);
    assert!(claimed(&mut Driver::new(with_keep_alive())).0.contains(&0x18));
    assert_eq!(claimed(&mut Driver::new(config())).1, [0x00, 0x01, 0x02, 0x05, 0x08, 0x09, 0x0c, 0x19]);
}

#[test]
fn security_and_directives_are_unknown() {
    let mut driver = Driver::new(config());
    for opcode in [
        Opcode::SecuritySend,
        Opcode::SecurityReceive,
        Opcode::DirectiveSend,
        Opcode::DirectiveReceive,
        Opcode::VirtualizationManagement,
        Opcode::KeepAlive,
    ] {
        driver.refuse(Sqe::new(opcode as u8, CID, Nsid::NONE, DataPointer::NONE), StatusCode::InvalidOpcode);
    }
    driver.assert_clean();
}

#[test]
fn effects_report_what_format_and_management_change() {
    let mut driver = Driver::new(config());
    let log: Effects = driver.log(LogPage::CommandEffects);
    let effects = |opcode: Opcode| CommandEffects::from_bits(log.admin[opcode as usize].get());
    let format = effects(Opcode::FormatNvm);
    assert!(format.block_contents() && format.namespace());
    assert_eq!(format.execution(), Execution::AloneInNamespace as u8);
    assert!(effects(Opcode::NamespaceManagement).inventory());
    assert!(effects(Opcode::NamespaceAttachment).inventory());
    let scope = Scope::new().with_controller(true).into_bits();
    assert_eq!(effects(Opcode::Identify), CommandEffects::new().with_supported(true).with_scope(scope));
    assert!(CommandEffects::from_bits(log.io[1].get()).block_contents());
}

#[test]
fn anything_in_a_reserved_field_is_refused_and_remembered() {
    let mut driver = Driver::new(config());
    let identify = admin::identify_controller(CID, PAGE);
    driver.refuse_field(Sqe { cdw0: identify.cdw0.with_fuse(1), ..identify }, 0);
    driver.refuse_field(Sqe { cdw0: identify.cdw0.with_psdt(1), ..identify }, 0);
    driver.refuse_field(Sqe { cdw2: 1, ..identify }, 2);
    driver.refuse_field(Sqe { cdw3: 1, ..identify }, 3);
    driver.refuse_field(Sqe { mptr: 0x1000, ..identify }, 4);
    driver.refuse_field(Sqe { cdw10: identify.cdw10 | 0x100, ..identify }, 10);
    driver.refuse_field(Sqe { cdw11: 1, ..identify }, 11);
    driver.refuse_field(Sqe { cdw14: 0x80, ..identify }, 14);
    driver.refuse_field(Sqe { cdw15: 1, ..identify }, 15);
    driver.refuse_field(Sqe { nsid: 1, ..admin::async_event_request(CID) }, 1);
    driver.refuse_field(Sqe { prp1: 0x1000, ..admin::async_event_request(CID) }, 6);
    driver.refuse_field(Sqe { cdw12: 1, ..admin::delete_namespace(CID, Nsid(1)) }, 12);
    let format = admin::format_nvm(CID, Nsid(1), FormatDw10::new());
    driver.refuse_field(Sqe { cdw10: 1 << 14, ..format }, 10);
}

#[test]
fn a_uuid_index_is_ignored_where_no_uuid_can_be_selected() {
    let mut driver = Driver::new(config());
    for sqe in [
        admin::identify_controller(CID, PAGE),
        LogRead::whole(LogPage::Smart, 512).sqe(CID, Nsid::ALL, PAGE),
        get_feature(CID, Feature::Arbitration),
        set_feature(CID, Feature::Arbitration, 0),
    ] {
        driver.succeed(Sqe { cdw14: 0x7f, ..sqe });
        driver.refuse_field(Sqe { cdw14: 0x80, ..sqe }, 14);
    }
    // The log of effects reports that there is no such choice.
    let log: Effects = driver.log(LogPage::CommandEffects);
    assert!(log.admin.iter().all(|entry| !CommandEffects::from_bits(entry.get()).uuid()));
}

#[test]
fn doorbell_buffers_begin_at_pages() {
    let mut driver = Driver::new(config());
    driver.refuse_field(admin::doorbell_buffer_config(CID, 0x8004, 0x9000), 6);
    driver.refuse_field(admin::doorbell_buffer_config(CID, 0x8000, 0x9800), 8);
    driver.refuse_field(admin::doorbell_buffer_config(CID, 0x8000, 0), 8);
    driver.succeed(admin::doorbell_buffer_config(CID, 0x1_0000, 0x1_1000));
}

fn word() -> impl Strategy<Value = u32> {
    prop_oneof![4 => Just(0), 3 => 0..0x30_u32, 2 => (0..32_u32).prop_map(|bit| 1 << bit), 1 => any::<u32>()]
}

/// Addresses of data: nowhere, well placed, badly placed, and without memory.
fn address() -> impl Strategy<Value = u64> {
    select(vec![0, BUFFER, BUFFER + 0x1000, BUFFER + 4, BUFFER + 1, BUFFER + 0xff8, 1 << 40, u64::MAX - 7])
}

fn any_command() -> impl Strategy<Value = Sqe> {
    let opcodes = (0..=u8::MAX).filter(|&opcode| opcode != Opcode::AsyncEventRequest as u8);
    let known = vec![
        0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0d, 0x10, 0x11, 0x14, 0x15, 0x24, 0x7c, 0x80, 0x84,
    ];
    let opcode = prop_oneof![6 => select(known), 1 => select(opcodes.collect::<Vec<u8>>())];
    let nsid = select(vec![0, 1, 2, 3, 256, 257, u32::MAX - 1, u32::MAX]);
    let rarely = prop_oneof![15 => Just(0), 1 => any::<u8>()];
    let words = [word(), word(), word(), word(), word(), word()];
    (opcode, rarely, nsid, address(), address(), words).prop_map(|(opcode, flags, nsid, prp1, prp2, words)| {
        let [cdw10, cdw11, cdw12, cdw13, cdw14, cdw15] = words;
        let cdw0 = Cdw0::from_bits(u32::from(opcode) | u32::from(flags) << 8);
        Sqe { cdw0, nsid, prp1, prp2, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..Sqe::default() }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Every submitted command is answered once, and the controller goes on.
    #[test]
    fn every_command_is_answered_once(commands in proptest::collection::vec(any_command(), 1..25), fill: u8) {
        let mut driver = Driver::new(config());
        let mut cids = Vec::new();
        for sqe in commands {
            driver.fill(fill);
            let entry = driver.admin(sqe);
            cids.push(entry.cid());
        }
        driver.pass(1_000_000_000);
        for cid in cids {
            prop_assert_eq!(driver.completion(cid), None);
        }
        prop_assert!(driver.csts().rdy() && !driver.csts().cfs());
        driver.succeed(admin::identify_controller(CID, PAGE));
        let about: Controller = driver.data();
        prop_assert_eq!(about.tnvmcap.get(), 2 << 20);
        prop_assert!(about.unvmcap.get() <= 2 << 20);
    }
}
