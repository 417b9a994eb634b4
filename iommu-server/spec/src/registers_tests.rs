use super::*;

/// Read at offsets 0, 4 and 14h of QEMU 7.2's SMMU.
const QEMU: (u32, u32, u32) = (0x0d40_101a, 0x0273_0010, 0x0000_0074);

#[test]
fn identification_of_qemu_is_decoded() {
    let idr0 = Idr0::from_bits(QEMU.0);
    assert!(idr0.stage1() && !idr0.stage2());
    assert_eq!(idr0.table_formats(), 0b10);
    assert!(idr0.coherent() && idr0.asid16() && !idr0.msi() && !idr0.pri() && !idr0.ats());
    assert_eq!(idr0.endianness(), 2);
    assert_eq!(idr0.stall_model(), 1);
    assert!(idr0.always_aborts());
    assert_eq!(idr0.stream_table_levels(), 1);
    let idr1 = Idr1::from_bits(QEMU.1);
    assert_eq!((idr1.stream_bits(), idr1.substream_bits()), (16, 0));
    assert_eq!((idr1.eventq_log2(), idr1.cmdq_log2()), (19, 19));
    assert!(!idr1.tables_preset() && !idr1.queues_preset());
    let idr5 = Idr5::from_bits(QEMU.2);
    assert_eq!(output_bits(idr5.oas()), 44);
    assert!(idr5.granule_4k() && idr5.granule_16k() && idr5.granule_64k());
}

#[test]
fn registers_stand_where_the_standard_puts_them() {
    let expected = [
        0x00, 0x04, 0x14, 0x20, 0x24, 0x28, 0x2c, 0x44, 0x50, 0x54, 0x60, 0x64, 0x68, 0x80, 0x88, 0x90, 0x98, 0x9c,
        0xa0, 0xb0, 0x100a8, 0x100ac,
    ];
    assert_eq!(Register::ALL.map(Register::offset), expected);
    for register in Register::ALL {
        assert_eq!(Register::at(register.offset()), Some(register));
        assert!(!register.is_wide() || register.offset().is_multiple_of(8));
    }
    assert_eq!(Register::at(0x18), None);
}

#[test]
fn fields_stand_where_the_standard_puts_them() {
    assert_eq!(Cr0::new().with_smmu(true).with_eventq(true).with_cmdq(true).into_bits(), 0xd);
    let cr1 = Cr1::new().with_table_shareability(3).with_table_outer(1).with_table_inner(1);
    assert_eq!(cr1.with_queue_shareability(3).with_queue_outer(1).with_queue_inner(1).into_bits(), 0xd75);
    assert_eq!(Cr2::new().with_record_invalid_streams(true).with_private_tlb(true).into_bits(), 6);
    assert_eq!(Gbpa::new().with_abort(true).with_update(true).into_bits(), 0x8010_0000);
    assert_eq!(IrqCtrl::new().with_gerror(true).with_eventq(true).into_bits(), 5);
    assert_eq!(Gerror::new().with_cmdq(true).with_eventq_abort(true).with_service_failure(true).into_bits(), 0x105);
    assert_eq!(CmdqCons::from_bits(0x0200_0123).error(), 2);
    assert_eq!(CmdqCons::from_bits(0x0200_0123).index(), 0x123);
    assert_eq!(EventqIndex::new().with_overflow(true).with_index(5).into_bits(), 0x8000_0005);
}

#[test]
fn table_and_queue_bases_have_the_bits_of_the_standard() {
    let cfg = StrtabBaseCfg::new().with_streams_log2(15).with_split(6).with_format(FORMAT_TWO_LEVEL);
    assert_eq!(cfg.into_bits(), 0x0001_018f);
    let base = QueueBase::at(0x1_4012_3000, 8);
    assert_eq!(base.into_bits(), 0x4000_0001_4012_3008);
    assert_eq!(base.address(), 0x1_4012_3000);
    assert_eq!(QueueBase::at(u64::MAX, 0xff).address(), 0x000f_ffff_ffff_ffe0);
}

#[test]
fn encodings_without_a_meaning_are_reported_as_such() {
    assert_eq!(output_bits(7), 32);
    assert_eq!(CommandError::from_raw(4), None);
    assert_eq!(CommandError::from_raw(1), Some(CommandError::Illegal));
}
