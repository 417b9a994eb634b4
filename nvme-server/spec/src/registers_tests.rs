use std::format;

use super::*;

/// The value at offset 0 of QEMU's controller.
const QEMU_CAP: u64 = 0x0040_1820_0f01_07ff;

#[test]
fn cap_of_qemu_is_decoded() {
    let cap = Cap::from_bits(QEMU_CAP);
    assert_eq!(cap.mqes_z(), 2047);
    assert_eq!(cap.max_queue_entries(), 2048);
    assert!(cap.cqr());
    assert!(!cap.ams_wrr());
    assert!(!cap.ams_vendor());
    assert_eq!(cap.to(), 15);
    assert_eq!(cap.timeout(), Duration::from_millis(7_500));
    assert_eq!(cap.dstrd(), 0);
    assert!(!cap.nssrs());
    assert!(cap.css_nvm());
    assert!(cap.css_other());
    assert!(cap.css_admin_only());
    assert!(!cap.bps());
    assert_eq!(cap.mpsmin(), 0);
    assert_eq!(cap.min_page_bytes(), 4096);
    assert_eq!(cap.mpsmax(), 4);
    assert_eq!(cap.max_page_bytes(), 65536);
    assert!(!cap.pmrs());
    assert!(!cap.cmbs());
}

#[test]
fn cap_fields_stand_where_the_standard_puts_them() {
    assert_eq!(Cap::new().with_ams_wrr(true).into_bits(), 1 << 17);
    assert_eq!(Cap::new().with_ams_vendor(true).into_bits(), 1 << 18);
    assert_eq!(Cap::new().with_to(0xff).into_bits(), 0xff00_0000);
    assert_eq!(Cap::new().with_dstrd(0xf).into_bits(), 0xf_0000_0000);
    assert_eq!(Cap::new().with_nssrs(true).into_bits(), 1 << 36);
    assert_eq!(Cap::new().with_css_nvm(true).into_bits(), 1 << 37);
    assert_eq!(Cap::new().with_bps(true).into_bits(), 1 << 45);
    assert_eq!(Cap::new().with_mpsmin(0xf).into_bits(), 0xf << 48);
    assert_eq!(Cap::new().with_mpsmax(0xf).into_bits(), 0xf << 52);
    assert_eq!(Cap::new().with_pmrs(true).into_bits(), 1 << 56);
    assert_eq!(Cap::new().with_cmbs(true).into_bits(), 1 << 57);
}

#[test]
fn cap_at_its_limits_does_not_overflow() {
    let cap = Cap::from_bits(u64::MAX);
    assert_eq!(cap.max_queue_entries(), 65536);
    assert_eq!(cap.timeout(), Duration::from_millis(127_500));
    assert_eq!(cap.max_page_bytes(), 128 << 20);
    assert_eq!(Cap::from_bits(0).timeout(), Duration::from_millis(500));
}

#[test]
fn registers_stand_where_the_standard_puts_them() {
    let expected = [
        (Register::Cap, 0x00),
        (Register::Vs, 0x08),
        (Register::Intms, 0x0c),
        (Register::Intmc, 0x10),
        (Register::Cc, 0x14),
        (Register::Csts, 0x1c),
        (Register::Nssr, 0x20),
        (Register::Aqa, 0x24),
        (Register::Asq, 0x28),
        (Register::Acq, 0x30),
        (Register::Cmbloc, 0x38),
        (Register::Cmbsz, 0x3c),
    ];
    for (register, offset) in expected {
        assert_eq!(register.offset(), offset, "{register:?}");
    }
}

#[test]
fn cc_fields_stand_where_the_standard_puts_them() {
    assert_eq!(Cc::new().with_en(true).into_bits(), 0x0000_0001);
    assert_eq!(Cc::new().with_css(CommandSet::AdminOnly).into_bits(), 0x0000_0070);
    assert_eq!(Cc::new().with_mps(0xf).into_bits(), 0x0000_0780);
    assert_eq!(Cc::new().with_ams(Arbitration::WeightedUrgent).into_bits(), 0x0000_0800);
    assert_eq!(Cc::new().with_ams(Arbitration::Vendor).into_bits(), 0x0000_3800);
    assert_eq!(Cc::new().with_shn(ShutdownNotification::Normal).into_bits(), 0x0000_4000);
    assert_eq!(Cc::new().with_shn(ShutdownNotification::Abrupt).into_bits(), 0x0000_8000);
    assert_eq!(Cc::new().with_iosqes(0xf).into_bits(), 0x000f_0000);
    assert_eq!(Cc::new().with_iocqes(0xf).into_bits(), 0x00f0_0000);
}

#[test]
fn cc_for_the_nvm_command_set_with_4k_pages() {
    let cc = Cc::new().with_en(true).with_iosqes(IOSQES_64).with_iocqes(IOCQES_16);
    assert_eq!(cc.into_bits(), 0x0046_0001);
}

#[test]
fn reserved_values_in_cc_are_reported_as_such() {
    let cc = Cc::from_bits(0x0000_2050);
    assert_eq!(cc.css(), CommandSet::Reserved);
    assert_eq!(cc.ams(), Arbitration::Reserved);
}

#[test]
fn csts_is_decoded() {
    assert!(Csts::from_bits(1).rdy());
    assert!(Csts::from_bits(2).cfs());
    assert_eq!(Csts::from_bits(0x4).shst(), ShutdownStatus::Processing);
    assert_eq!(Csts::from_bits(0x9).shst(), ShutdownStatus::Complete);
    assert!(Csts::from_bits(0x10).nssro());
    assert!(Csts::from_bits(0x20).pp());
    assert!(Csts::from_bits(0xffff_ffff).is_absent());
    assert!(!Csts::from_bits(0x0000_0003).is_absent());
}

#[test]
fn aqa_holds_both_sizes() {
    assert_eq!(Aqa::new().with_asqs_z(31).with_acqs_z(63).into_bits(), 0x003f_001f);
    assert_eq!(Aqa::new().with_asqs_z(4095).with_acqs_z(4095).into_bits(), 0x0fff_0fff);
}

#[test]
fn version_is_printed_as_people_write_it() {
    assert_eq!(format!("{}", Vs::from_bits(0x0001_0400)), "1.4");
    assert_eq!(format!("{}", Vs::from_bits(0x0001_0201)), "1.2.1");
    assert!(Vs::from_bits(0x0001_0400) > Vs::from_bits(0x0001_0300));
}

#[test]
fn doorbells_without_stride_are_four_bytes_apart() {
    let doorbells = Cap::from_bits(QEMU_CAP).doorbells();
    assert_eq!(doorbells.sq_tail(QueueId::ADMIN), Some(0x1000));
    assert_eq!(doorbells.cq_head(QueueId::ADMIN), Some(0x1004));
    assert_eq!(doorbells.sq_tail(QueueId(1)), Some(0x1008));
    assert_eq!(doorbells.cq_head(QueueId(1)), Some(0x100c));
    assert_eq!(doorbells.sq_tail(QueueId(64)), Some(0x1200));
    assert_eq!(doorbells.cq_head(QueueId(65535)), Some(0x8_0ffc));
    assert_eq!(doorbells.end(QueueId(64)), Some(0x1208));
}

#[test]
fn doorbells_follow_the_stride() {
    let layout = |dstrd| Cap::new().with_dstrd(dstrd).doorbells();
    assert_eq!(layout(1).stride_bytes(), 8);
    assert_eq!(layout(1).cq_head(QueueId(3)), Some(0x1038));
    assert_eq!(layout(4).sq_tail(QueueId(2)), Some(0x1100));
    // A page for each pair of doorbells, as in a controller that can isolate tenants.
    assert_eq!(layout(9).sq_tail(QueueId(1)), Some(0x2000));
    assert_eq!(layout(9).cq_head(QueueId(1)), Some(0x2800));
    assert_eq!(layout(15).stride_bytes(), 131_072);
    assert_eq!(layout(15).cq_head(QueueId(65535)), Some(0x1000 + 131_071 * 131_072));
}
