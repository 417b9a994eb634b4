//! Identify: data about the controller and about namespaces.

use nvme_spec::admin::{self, Attachment, Cns};
use nvme_spec::identify::{
    Controller, ControllerList, ControllerType, Namespace, NamespaceList, NvmLimits, Oacs, Oncs,
};
use nvme_spec::registers::Vs;
use nvme_spec::{Cid, DataPointer, Nsid, Sqe, StatusCode};
use sim_nvme::config::{Cache, Capabilities, CommandLimits};
use sim_nvme::{AdminConfig, Config, NamespaceConfig};

use super::support::{BUFFER, Driver, NO_COMMANDS, PAGE, config};

const CID: Cid = Cid(0);

fn three_namespaces() -> Driver {
    let namespaces = (0..3).map(|_| NamespaceConfig::zeroes(1 << 20)).collect();
    let mut driver = Driver::new(Config { namespaces, ..config() });
    driver.put(&ControllerList::of([0].into_iter()));
    driver.succeed(admin::namespace_attachment(CID, Attachment::Detach, Nsid(2), PAGE));
    driver
}

fn identify(driver: &mut Driver, cns: Cns, nsid: u32) -> [u8; 4096] {
    driver.fill(0xee);
    driver.succeed(admin::identify(CID, cns, Nsid(nsid), PAGE));
    driver.data()
}

fn listed(driver: &mut Driver, cns: Cns, after: u32) -> Vec<u32> {
    identify(driver, cns, after);
    driver.data::<NamespaceList>().iter().map(|nsid| nsid.0).collect()
}

#[test]
fn limits_of_the_command_set_are_stated_from_revision_2_on() {
    let limits = CommandLimits { vsl: 2, wzsl: 3, dmrl: 4, dmrsl: 500, dmsl: 600 };
    let mut driver = Driver::new(Config { limits, ..config() });
    driver.refuse(admin::identify_nvm_limits(CID, PAGE), StatusCode::InvalidField);
    let capabilities = Capabilities { version: Vs::new().with_mjr(2), ..Capabilities::default() };
    let mut driver = Driver::new(Config { limits, capabilities, ..config() });
    identify(&mut driver, Cns::CommandSetController, 0);
    let stated: NvmLimits = driver.data();
    assert_eq!((stated.vsl, stated.wzsl, stated.dmrl), (2, 3, 4));
    assert_eq!((stated.dmrsl.get(), stated.dmsl.get()), (500, 600));
}

#[test]
fn the_controller_reports_its_configuration() {
    let cache = Some(Cache { bytes: 1 << 20, linger_ns: 0 });
    let mut driver = Driver::new(Config { mdts: 5, cache, atomic_blocks: 8, ..config() });
    identify(&mut driver, Cns::Controller, 0);
    let about: Controller = driver.data();
    assert_eq!(about.serial_number(), "SIM00001");
    assert_eq!(about.model_number(), "capnvme simulated controller");
    assert_eq!(about.firmware_revision(), "1.0");
    assert_eq!(about.subsystem_name(), "nqn.2026-11.example.capnvme:simulated");
    assert_eq!(&about.sn[8..], b"            ");
    assert_eq!((about.version().mjr(), about.version().mnr()), (1, 4));
    assert_eq!((about.mdts, about.cntrltype), (5, 1));
    assert!(about.supports_standard_entries() && about.has_volatile_write_cache());
    assert_eq!((about.acl_z, about.aerl_z, about.elpe_z, about.npss_z), (3, 3, 63, 2));
    assert_eq!(about.nn.get(), 256);
    assert_eq!((about.apsta, about.ctratt.get()), (1, 1));
    assert_eq!((about.tnvmcap.get(), about.unvmcap.get()), (2 << 20, 1 << 20));
    assert_eq!((about.awun_z.get(), about.awupf_z.get()), (7, 7));
    assert_eq!((about.wctemp.get(), about.cctemp.get(), about.kas.get()), (343, 373, 0));
    assert_eq!((about.sgls.get(), about.fuses.get(), about.sanicap.get()), (0, 0, 0x4000_0006));
    assert_eq!((about.frmw, about.lpa, about.oaes.get()), (0x17, 0x26, 0x300));
    let commands = Oacs::new()
        .with_format(true)
        .with_namespaces(true)
        .with_doorbell_buffer(true)
        .with_lockdown(true)
        .with_firmware(true)
        .with_self_test(true);
    assert_eq!(about.optional_admin(), commands);
    let expected = Oncs::new()
        .with_compare(true)
        .with_dataset_management(true)
        .with_write_zeroes(true)
        .with_feature_save(true)
        .with_timestamp(true)
        .with_verify(true)
        .with_copy(true);
    assert_eq!(about.optional_nvm(), expected);
    assert_eq!(about.psd[0].max_power.get(), 2500);
    assert!(!about.psd[1].is_non_operational() && about.psd[2].is_non_operational());
    assert_eq!((about.psd[2].entry_us.get(), about.psd[2].exit_us.get()), (2_000, 5_000));
    assert_eq!(about.psd[3], Default::default());
    driver.assert_clean();
}

#[test]
fn a_controller_without_optional_commands_promises_none() {
    let admin = AdminConfig { commands: NO_COMMANDS, ..AdminConfig::default() };
    let mut driver = Driver::new(Config { admin, ..config() });
    identify(&mut driver, Cns::Controller, 0);
    assert_eq!(driver.data::<Controller>().oacs.get(), 0);
    assert!(!driver.data::<Controller>().has_volatile_write_cache());
    for cns in [Cns::AllocatedNamespaces, Cns::AllocatedNamespace, Cns::AttachedControllers, Cns::Controllers] {
        driver.refuse(admin::identify(CID, cns, Nsid::NONE, PAGE), StatusCode::InvalidField);
    }
    driver.refuse(admin::identify_namespace(CID, Nsid::ALL, PAGE), StatusCode::InvalidNamespaceOrFormat);
}

#[test]
fn a_namespace_reports_size_and_formats() {
    let mut driver = Driver::new(config());
    identify(&mut driver, Cns::Namespace, 1);
    let about: Namespace = driver.data();
    assert_eq!((about.nsze.get(), about.ncap.get(), about.nuse.get()), (2048, 2048, 2048));
    assert_eq!((about.nlbaf_z, about.flbas, about.block_bytes()), (1, 0, Some(512)));
    assert_eq!((about.mc, about.dpc, about.dps, about.nmic), (0, 0, 0, 0));
    assert_eq!(about.nvmcap.get(), 1 << 20);
    assert!(about.deallocated_reads_zeroes());
    assert_ne!((about.mssrl.get(), about.mcl.get()), (0, 0));
}

#[test]
fn inactive_namespaces_are_zeroes_and_invalid_ones_refused() {
    let mut driver = three_namespaces();
    assert_eq!(identify(&mut driver, Cns::Namespace, 2), [0; 4096]);
    assert_eq!(identify(&mut driver, Cns::Namespace, 200), [0; 4096]);
    for nsid in [0, 257, u32::MAX - 1] {
        let sqe = admin::identify_namespace(CID, Nsid(nsid), PAGE);
        driver.refuse(sqe, StatusCode::InvalidNamespaceOrFormat);
    }
    // Attached or not, it is allocated.
    assert_ne!(identify(&mut driver, Cns::AllocatedNamespace, 2), [0; 4096]);
    assert_eq!(identify(&mut driver, Cns::AllocatedNamespace, 200), [0; 4096]);
    let sqe = admin::identify(CID, Cns::AllocatedNamespace, Nsid::ALL, PAGE);
    driver.refuse(sqe, StatusCode::InvalidNamespaceOrFormat);
}

#[test]
fn the_broadcast_value_reports_common_capabilities() {
    let mut driver = Driver::new(config());
    identify(&mut driver, Cns::Namespace, u32::MAX);
    let about: Namespace = driver.data();
    assert_eq!((about.nsze.get(), about.nlbaf_z), (0, 1));
    assert_eq!(about.lbaf[1].get(), 12 << 16);
}

#[test]
fn lists_begin_above_the_namespace_named() {
    let mut driver = three_namespaces();
    assert_eq!(listed(&mut driver, Cns::ActiveNamespaces, 0), [1, 3]);
    assert_eq!(listed(&mut driver, Cns::ActiveNamespaces, 1), [3]);
    assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces, 0), [1, 2, 3]);
    assert_eq!(listed(&mut driver, Cns::AllocatedNamespaces, 3), [0; 0]);
    for cns in [Cns::ActiveNamespaces, Cns::AllocatedNamespaces] {
        for nsid in [u32::MAX - 1, u32::MAX] {
            driver.refuse(admin::identify(CID, cns, Nsid(nsid), PAGE), StatusCode::InvalidNamespaceOrFormat);
        }
    }
}

#[test]
fn controllers_are_listed_from_an_identifier_on() {
    let mut config = config();
    config.identity.controller_id = 7;
    let mut driver = Driver::new(config);
    for (first, expected) in [(0, 1), (7, 1), (8, 0)] {
        driver.succeed(admin::identify_controllers(CID, Cns::Controllers, Nsid::NONE, first, PAGE));
        assert_eq!(driver.data::<ControllerList>().count.get(), expected);
        driver.succeed(admin::identify_controllers(CID, Cns::AttachedControllers, Nsid(1), first, PAGE));
        assert_eq!(driver.data::<ControllerList>().count.get(), expected);
    }
    driver.succeed(admin::identify_controllers(CID, Cns::AttachedControllers, Nsid(9), 0, PAGE));
    assert_eq!(driver.data::<ControllerList>().count.get(), 0);
    let sqe = admin::identify_controllers(CID, Cns::AttachedControllers, Nsid::NONE, 0, PAGE);
    driver.refuse(sqe, StatusCode::InvalidNamespaceOrFormat);
}

#[test]
fn metadata_protection_and_purpose_are_as_configured() {
    let odd = NamespaceConfig { metadata: 16, protection: 2, ..NamespaceConfig::zeroes(1 << 20) };
    let config = Config { namespaces: vec![odd], purpose: ControllerType::Administrative, ..config() };
    let mut driver = Driver::new(config);
    identify(&mut driver, Cns::Controller, 0);
    assert_eq!(driver.data::<Controller>().kind(), ControllerType::Administrative);
    identify(&mut driver, Cns::Namespace, 1);
    let about: Namespace = driver.data();
    assert_eq!((about.format().map(|format| format.ms()), about.dps), (Some(16), 2));
}

#[test]
fn identifiers_of_a_namespace_are_those_it_has() {
    let named = NamespaceConfig { nguid: [0xa1; 16], eui64: [0xb2; 8], ..NamespaceConfig::zeroes(1 << 20) };
    let namespaces = vec![named, NamespaceConfig::zeroes(1 << 20)];
    let mut driver = Driver::new(Config { namespaces, ..config() });
    let page = identify(&mut driver, Cns::NamespaceDescriptors, 1);
    let expected = [&[1, 8, 0, 0][..], &[0xb2; 8], &[2, 16, 0, 0], &[0xa1; 16], &[0; 4]].concat();
    assert_eq!(page[..expected.len()], expected);
    let page = identify(&mut driver, Cns::NamespaceDescriptors, 2);
    // A made-up UUID of version 8.
    assert_eq!(page[..4], [3, 16, 0, 0]);
    assert_eq!((page[10] >> 4, page[12] >> 6), (8, 0b10));
    assert_eq!(page[20..24], [0; 4]);
    driver.refuse(admin::identify(CID, Cns::NamespaceDescriptors, Nsid(9), PAGE), StatusCode::InvalidField);
    let sqe = admin::identify(CID, Cns::NamespaceDescriptors, Nsid::ALL, PAGE);
    driver.refuse(sqe, StatusCode::InvalidNamespaceOrFormat);
}

#[test]
fn unknown_selectors_and_fields_of_others_are_refused() {
    let mut driver = Driver::new(config());
    for cns in [0x04, 0x05, 0x14, 0x16, 0xff] {
        let sqe = Sqe { cdw10: cns, ..admin::identify_controller(CID, PAGE) };
        driver.refuse(sqe, StatusCode::InvalidField);
    }
    driver.assert_clean();
    driver.refuse_field(admin::identify(CID, Cns::Controller, Nsid(1), PAGE), 1);
    driver.refuse_field(admin::identify_controllers(CID, Cns::Namespace, Nsid(1), 1, PAGE), 10);
}

#[test]
fn a_page_across_two_needs_both_pointers() {
    let mut driver = Driver::new(config());
    let whole = identify(&mut driver, Cns::Controller, 0);
    for offset in [4, 0x800, 0xc00, 0xffc] {
        driver.fill(0xee);
        let data = DataPointer { prp1: BUFFER + offset, prp2: BUFFER + 0x2000 };
        driver.succeed(admin::identify_controller(CID, data));
        let memory: [u8; 0x3000] = driver.data();
        let first = 0x1000 - offset as usize;
        assert!(
            memory[offset as usize..0x1000] == whole[..first] && memory[0x2000..][..0x1000 - first] == whole[first..]
        );
        // Without the second pointer the rest would go to address 0.
        driver.machine.blocked = 0..1;
        let data = DataPointer { prp2: 0, ..data };
        let status = driver.admin(admin::identify_controller(CID, data)).status();
        assert_eq!(status.code(), StatusCode::DataTransferError);
        driver.machine.blocked = 0..0;
    }
}
