use std::vec::Vec;

use zerocopy::little_endian::U16;
use zerocopy::{FromBytes, IntoBytes};

use super::*;
use crate::expected::bytes;
use crate::registers::Vs;
use crate::{Lba, Nsid};

fn controller(pieces: &[(usize, &[u8])]) -> Controller {
    Controller::read_from_bytes(&bytes::<4096>(pieces)).unwrap()
}

fn namespace(pieces: &[(usize, &[u8])]) -> Namespace {
    Namespace::read_from_bytes(&bytes::<4096>(pieces)).unwrap()
}

#[test]
fn controller_fields_stand_where_the_standard_puts_them() {
    let id = controller(&[
        (0, &[0x36, 0x1b]),
        (2, &[0xf4, 0x1a]),
        (4, b"deadbeef            "),
        (24, b"QEMU NVMe Ctrl                          "),
        (64, b"7.2.22  "),
        (72, &[6]),
        (77, &[7]),
        (78, &[1, 0]),
        (80, &[0x00, 0x04, 0x01, 0x00]),
        (111, &[1]),
        (128, &[1, 0, 2, 0, 3, 0]),
        (256, &[0x2a, 0x01]),
        (258, &[3]),
        (259, &[4]),
        (261, &[7]),
        (266, &[0x57, 0x01]),
        (268, &[0x75, 0x01]),
        (280, &[9]),
        (320, &[5, 0]),
        (328, &[8, 0, 0, 0]),
        (352, &[0x11]),
        (512, &[0x66]),
        (513, &[0x44]),
        (514, &[0x22]),
        (516, &[0x00, 0x01, 0x00, 0x00]),
        (520, &[0x5d, 0x01]),
        (522, &[1, 0]),
        (525, &[7]),
        (534, &[3]),
        (536, &[1, 0, 0, 0]),
        (540, &[0x33]),
        (768, b"nqn.2019-08.org.qemu:deadbeef\0"),
        (2048, &[0xc4, 0x09]),
        (4095, &[0xaa]),
    ]);
    assert_eq!(id.vid.get(), 0x1b36);
    assert_eq!(id.ssvid.get(), 0x1af4);
    assert_eq!(id.serial_number(), "deadbeef");
    assert_eq!(id.model_number(), "QEMU NVMe Ctrl");
    assert_eq!(id.firmware_revision(), "7.2.22");
    assert_eq!(id.rab, 6);
    assert_eq!(id.mdts, 7);
    assert_eq!(id.cntlid.get(), 1);
    assert_eq!(id.version(), Vs::new().with_mjr(1).with_mnr(4));
    assert_eq!(id.cntrltype, 1);
    assert_eq!(id.crdt.map(U16::get), [1, 2, 3]);
    assert_eq!(id.oacs.get(), 0x012a);
    assert_eq!((id.acl_z, id.aerl_z, id.lpa), (3, 4, 7));
    assert_eq!((id.wctemp.get(), id.cctemp.get()), (343, 373));
    assert_eq!(id.tnvmcap.get(), 9);
    assert_eq!(id.kas.get(), 5);
    assert_eq!(id.sanicap.get(), 8);
    assert_eq!(id.pels.get(), 0x11);
    assert_eq!((id.sqes, id.cqes), (0x66, 0x44));
    assert_eq!(id.maxcmd.get(), 0x22);
    assert_eq!(id.nn.get(), 256);
    assert_eq!(id.oncs.get(), 0x015d);
    assert_eq!(id.fuses.get(), 1);
    assert_eq!((id.vwc, id.ocfs.get()), (7, 3));
    assert_eq!(id.sgls.get(), 1);
    assert_eq!(id.mnan.get(), 0x33);
    assert_eq!(id.subsystem_name(), "nqn.2019-08.org.qemu:deadbeef");
    assert_eq!(id.psd[0].max_power.get(), 2500);
    assert_eq!(id.vendor[1023], 0xaa);
}

#[test]
fn optional_commands_are_decoded() {
    let id = controller(&[(256, &[0x2a, 0x01]), (520, &[0x9d, 0x00]), (525, &[1])]);
    let admin = id.optional_admin();
    assert!(admin.format() && admin.namespaces() && admin.directives() && admin.doorbell_buffer());
    assert!(!admin.security() && !admin.firmware() && !admin.virtualization());
    let nvm = id.optional_nvm();
    assert!(nvm.compare() && nvm.dataset_management() && nvm.write_zeroes() && nvm.verify());
    assert!(!nvm.write_uncorrectable() && !nvm.reservations() && !nvm.copy());
    assert!(Oncs::from_bits(0x100).copy());
    assert!(id.has_volatile_write_cache());
}

#[test]
fn transfer_limit_is_a_power_of_two_pages() {
    assert_eq!(controller(&[(77, &[7])]).max_transfer_bytes(4096), Some(524_288));
    assert_eq!(controller(&[(77, &[1])]).max_transfer_bytes(65536), Some(131_072));
    assert_eq!(controller(&[]).max_transfer_bytes(4096), None);
    assert_eq!(controller(&[(77, &[63])]).max_transfer_bytes(4096), None);
    assert_eq!(controller(&[(77, &[255])]).max_transfer_bytes(4096), None);
}

#[test]
fn limits_of_commands_without_data_have_their_places_and_units() {
    let mut bytes = [0; 4096];
    (bytes[0], bytes[1], bytes[3]) = (2, 3, 9);
    bytes[4..8].copy_from_slice(&70_000u32.to_le_bytes());
    bytes[8..16].copy_from_slice(&50_000u64.to_le_bytes());
    let limits = NvmLimits::read_from_bytes(&bytes).unwrap();
    assert_eq!((limits.wzsl, limits.dmrl, limits.range_blocks()), (3, 9, Some(50_000)));
    assert_eq!((limits.verify_bytes(4096), NvmLimits::NONE.verify_bytes(4096)), (Some(16_384), None));
    let about = controller(&[(77, &[7])]);
    assert_eq!(limits.zeroes_bytes(&about, 4096), Some(32_768));
    assert_eq!(NvmLimits::NONE.zeroes_bytes(&about, 4096), Some(524_288), "as a transfer, without a statement");
    assert_eq!(NvmLimits::NONE.zeroes_bytes(&controller(&[]), 4096), None);
    assert_eq!(NvmLimits::NONE.range_blocks(), None);
    let version = |major| Vs::new().with_mjr(major);
    assert!(NvmLimits::are_stated(version(2), false) && NvmLimits::are_stated(version(1), true));
    assert!(!NvmLimits::are_stated(version(1), false));
}

#[test]
fn entry_sizes_are_checked_against_their_range() {
    assert!(controller(&[(512, &[0x66, 0x44])]).supports_standard_entries());
    assert!(controller(&[(512, &[0x96, 0x54])]).supports_standard_entries());
    assert!(!controller(&[(512, &[0x77, 0x44])]).supports_standard_entries());
    assert!(!controller(&[(512, &[0x66, 0x33])]).supports_standard_entries());
    assert!(!controller(&[]).supports_standard_entries());
}

#[test]
fn text_of_a_hostile_controller_is_safe_to_print() {
    assert_eq!(controller(&[(24, b"evil\x1b[2Jmodel")]).model_number(), "evil");
    assert_eq!(controller(&[(24, &[0xff; 40])]).model_number(), "");
    assert_eq!(controller(&[(4, b"  42 \0 junk")]).serial_number(), "42");
    assert_eq!(controller(&[(768, &[b'x'; 256])]).subsystem_name().len(), 256);
}

#[test]
fn namespace_fields_stand_where_the_standard_puts_them() {
    let ns = namespace(&[
        (0, &[0x00, 0x00, 0x20]),
        (8, &[0x01]),
        (16, &[0x02]),
        (24, &[0x1c]),
        (25, &[7]),
        (26, &[1]),
        (27, &[3]),
        (28, &[0x1f]),
        (29, &[1]),
        (30, &[1]),
        (33, &[9]),
        (46, &[0x44, 0x01]),
        (48, &[5]),
        (64, &[6]),
        (72, &[8]),
        (74, &[13, 0, 14, 0, 0, 0, 15]),
        (92, &[10]),
        (99, &[1]),
        (100, &[11]),
        (102, &[12]),
        (104, &[0xa0, 0xa1, 0xa2]),
        (120, &[0x52, 0x54, 0x00, 0, 0, 0, 0, 1]),
        (128, &[0x00, 0x00, 0x09, 0x00]),
        (132, &[0x08, 0x00, 0x0c, 0x02]),
        (188, &[0x10, 0x00, 0x0c, 0x00]),
        (384, &[0xbb]),
    ]);
    assert_eq!((ns.nsze.get(), ns.ncap.get(), ns.nuse.get()), (0x20_0000, 1, 2));
    assert_eq!((ns.nsfeat, ns.nlbaf_z, ns.flbas), (0x1c, 7, 1));
    assert_eq!((ns.mc, ns.dpc, ns.dps, ns.nmic, ns.dlfeat), (3, 0x1f, 1, 1, 9));
    assert_eq!((ns.noiob.get(), ns.nvmcap.get(), ns.npwg_z.get(), ns.nows_z.get()), (0x144, 5, 6, 8));
    assert_eq!((ns.anagrpid.get(), ns.nsattr, ns.nvmsetid.get(), ns.endgid.get()), (10, 1, 11, 12));
    assert_eq!((ns.mssrl.get(), ns.mcl.get(), ns.msrc_z), (13, 14, 15));
    assert_eq!(ns.nguid[..3], [0xa0, 0xa1, 0xa2]);
    assert_eq!(ns.eui64, [0x52, 0x54, 0x00, 0, 0, 0, 0, 1]);
    assert_eq!(ns.lbaf[15].get(), 0x000c_0010);
    assert_eq!(ns.vendor[0], 0xbb);

    let format = ns.format().unwrap();
    assert_eq!((format.ms(), format.lbads(), format.rp()), (8, 12, 2));
    assert_eq!(ns.block_bytes(), Some(4096));
    assert_eq!(ns.size_bytes(), Some(0x2_0000_0000));
    assert_eq!(ns.end(), Lba(0x20_0000));
    assert!(ns.deallocated_reads_zeroes());
}

#[test]
fn impossible_formats_are_refused() {
    // Format 3 in use, but only formats 0 to 2 exist.
    assert_eq!(namespace(&[(25, &[2]), (26, &[3]), (140, &[0, 0, 9, 0])]).format(), None);
    // Blocks of 256 bytes, then of 4 GiB.
    assert_eq!(namespace(&[(128, &[0, 0, 8, 0])]).block_bytes(), None);
    assert_eq!(namespace(&[(128, &[0, 0, 32, 0])]).block_bytes(), None);
    assert_eq!(namespace(&[(0, &[0xff; 8]), (128, &[0, 0, 9, 0])]).size_bytes(), None);
}

#[test]
fn format_index_has_its_upper_bits_in_flbas() {
    // Formats 0 to 16: 512 bytes, and 4096 in format 16, which is in use.
    let pieces: &[(usize, &[u8])] =
        &[(0, &[8]), (25, &[16]), (26, &[0x20]), (128, &[0, 0, 9, 0]), (192, &[0, 0, 12, 0])];
    let ns = namespace(pieces);
    assert_eq!((ns.format_index(), ns.block_bytes(), ns.size_bytes()), (16, Some(4096), Some(32768)));
    // The last of 64 formats.
    let last = namespace(&[(25, &[63]), (26, &[0x6f]), (380, &[0, 0, 11, 0])]);
    assert_eq!((last.format_index(), last.block_bytes()), (63, Some(2048)));
    // The bit between the two parts is the place of metadata; the highest one is reserved.
    let beside = namespace(&[(25, &[16]), (26, &[0xb0]), (128, &[0, 0, 9, 0]), (192, &[0, 0, 12, 0])]);
    assert_eq!((beside.format_index(), beside.block_bytes()), (16, Some(4096)));
    // More formats than there are places for.
    assert_eq!(namespace(&[(25, &[64]), (26, &[0]), (128, &[0, 0, 9, 0])]).format(), None);
}

#[test]
fn format_index_beyond_the_number_of_formats_is_not_taken_for_another() {
    // As a controller describes a namespace to a host that did not enable extended formats: 16 of them, and index 16.
    let ns = namespace(&[(0, &[8]), (25, &[15]), (26, &[0x20]), (128, &[0, 0, 9, 0]), (192, &[0, 0, 12, 0])]);
    assert_eq!((ns.format(), ns.block_bytes()), (None, None));
    assert_eq!(ns.plain(12), Err(NotPlain::NoSuchFormat { index: 16, formats: 16 }));
}

#[test]
fn plain_blocks_are_told_from_others() {
    let with = |pieces: &[(usize, &[u8])]| {
        let mut all = Vec::from([(0, &[8][..]), (8, &[8][..]), (128, &[0, 0, 9, 0][..])]);
        all.extend_from_slice(pieces);
        namespace(&all).plain(12)
    };
    assert_eq!(with(&[]), Ok(PlainBlocks { blocks: 8, shift: 9 }));
    assert_eq!(with(&[(128, &[0, 0, 12, 2])]), Ok(PlainBlocks { blocks: 8, shift: 12 }));
    assert_eq!(with(&[(0, &[0])]), Err(NotPlain::Inactive));
    assert_eq!(with(&[(26, &[1])]), Err(NotPlain::NoSuchFormat { index: 1, formats: 1 }));
    assert_eq!(with(&[(128, &[0, 0, 0, 0])]), Err(NotPlain::BlockSize { log2: 0 }));
    assert_eq!(with(&[(128, &[0, 0, 13, 0])]), Err(NotPlain::BlockSize { log2: 13 }));
    // Metadata of 8 bytes, in a buffer of their own and after each block; protection information of type 1.
    assert_eq!(with(&[(128, &[8, 0, 9, 0])]), Err(NotPlain::Metadata { bytes: 8 }));
    assert_eq!(with(&[(128, &[8, 0, 9, 0]), (26, &[0x10])]), Err(NotPlain::Metadata { bytes: 8 }));
    assert_eq!(with(&[(29, &[1])]), Err(NotPlain::Protection { kind: 1 }));
    // The place of protection information says nothing when there is none.
    assert_eq!(with(&[(29, &[8])]), Ok(PlainBlocks { blocks: 8, shift: 9 }));
    assert_eq!(with(&[(0, &[0xff; 8])]), Err(NotPlain::TooLarge));
}

#[test]
fn controllers_of_other_types_do_no_io() {
    for (raw, kind) in [
        (0, ControllerType::NotReported),
        (1, ControllerType::Io),
        (2, ControllerType::Discovery),
        (3, ControllerType::Administrative),
    ] {
        assert_eq!(controller(&[(111, &[raw])]).kind(), kind);
        assert_eq!(kind.does_io(), raw < 2);
    }
    assert_eq!(controller(&[(111, &[4])]).kind(), ControllerType::Reserved(4));
    assert!(!ControllerType::Reserved(4).does_io());
}

#[test]
fn namespace_list_ends_at_zero() {
    let list = |pieces: &[(usize, &[u8])]| NamespaceList::read_from_bytes(&bytes::<4096>(pieces)).unwrap();
    let ids = |list: &NamespaceList| list.iter().map(|nsid| nsid.0).collect::<Vec<_>>();
    assert_eq!(ids(&list(&[(0, &[1, 0, 0, 0, 3, 0, 0, 0, 0, 1, 0, 0]), (16, &[9])])), [1, 3, 256]);
    assert_eq!(ids(&list(&[])), [0; 0]);
    // Not ascending, and the broadcast value: both impossible.
    assert_eq!(ids(&list(&[(0, &[2, 0, 0, 0, 2, 0, 0, 0, 3])])), [2]);
    assert_eq!(ids(&list(&[(0, &[1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff])])), [1]);
}

#[test]
fn namespace_list_holds_what_it_was_made_of() {
    let list = NamespaceList::of([Nsid(2), Nsid(0x0102_0304)].into_iter());
    assert_eq!(list.as_bytes(), bytes::<4096>(&[(0, &[2, 0, 0, 0, 4, 3, 2, 1])]));
    assert_eq!(NamespaceList::of((1..=2000).map(Nsid)).iter().count(), 1024);
}

#[test]
fn controller_list_counts_what_it_holds() {
    let list = ControllerList::of([1, 0x0203].into_iter());
    assert_eq!(list.as_bytes(), bytes::<4096>(&[(0, &[2, 0, 1, 0, 3, 2])]));
    assert_eq!(list.listed().unwrap(), [U16::new(1), U16::new(0x0203)]);
    assert_eq!(ControllerList::of(0..4000).listed().unwrap().len(), 2047);
}

#[test]
fn controller_list_that_cannot_be_is_refused() {
    let list = |pieces: &[(usize, &[u8])]| ControllerList::read_from_bytes(&bytes::<4096>(pieces)).unwrap();
    assert_eq!(list(&[]).listed(), Some(&[][..]));
    assert_eq!(list(&[(0, &[0x00, 0x08])]).listed(), None);
    assert_eq!(list(&[(0, &[2, 0, 5, 0, 5, 0])]).listed(), None);
    assert_eq!(list(&[(0, &[2, 0, 5, 0, 4, 0])]).listed(), None);
}

#[test]
fn primary_controller_fields_stand_where_the_standard_puts_them() {
    let raw = bytes::<4096>(&[
        (0, &[1, 2]),
        (2, &[3, 4]),
        (4, &[3]),
        (32, &[10, 0, 0, 1]),
        (36, &[4, 0, 0, 0]),
        (40, &[2, 0, 9, 1, 5, 1, 6, 1]),
        (64, &[20, 0, 0, 2]),
        (68, &[7, 0, 0, 0]),
        (72, &[3, 0, 8, 2, 5, 2, 6, 2]),
    ]);
    let about = PrimaryCapabilities::read_from_bytes(&raw).unwrap();
    assert_eq!((about.cntlid.get(), about.portid.get(), about.crt), (0x0201, 0x0403, PrimaryCapabilities::KINDS));
    let numbers = |counts: &ResourceCounts| {
        let of_controller = [counts.primary, counts.private, counts.secondary_max, counts.granularity];
        (counts.flexible.get(), counts.assigned.get(), of_controller.map(U16::get))
    };
    assert_eq!(numbers(&about.queues), (0x0100_000a, 4, [2, 0x0109, 0x0105, 0x0106]));
    assert_eq!(numbers(&about.interrupts), (0x0200_0014, 7, [3, 0x0208, 0x0205, 0x0206]));
    assert_eq!(about.queues.free(), Some(0x0100_0004));
}

#[test]
fn resources_in_use_beyond_the_flexible_ones_are_impossible() {
    let mut counts = ResourceCounts::default();
    counts.flexible.set(5);
    counts.assigned.set(3);
    counts.primary.set(2);
    assert_eq!(counts.free(), Some(0));
    counts.primary.set(3);
    assert_eq!(counts.free(), None);
    counts.assigned.set(6);
    assert_eq!(counts.free(), None);
}

#[test]
fn secondary_controller_fields_stand_where_the_standard_puts_them() {
    let raw = bytes::<4096>(&[
        (0, &[2]),
        (32, &[1, 2, 3, 4, 1, 0, 0, 0, 5, 6, 7, 8, 9, 10]),
        (64, &[2, 2, 3, 4, 0xfe, 0, 0, 0, 6, 6]),
        (4064, &[0xee, 0xff]),
    ]);
    let list = SecondaryList::read_from_bytes(&raw).unwrap();
    let entries = list.listed().unwrap();
    assert_eq!((entries[0].scid.get(), entries[0].pcid.get(), entries[0].vfn.get()), (0x0201, 0x0403, 0x0605));
    assert_eq!((entries[0].nvq.get(), entries[0].nvi.get()), (0x0807, 0x0a09));
    assert!(entries[0].is_online() && !entries[1].is_online());
    assert_eq!((entries.len(), list.entries[126].scid.get()), (2, 0xffee));
}

#[test]
fn secondary_list_counts_what_it_holds() {
    let entries = |count: u16| {
        (1..=count).map(|id| {
            let mut entry = SecondaryController::default();
            entry.scid.set(id);
            entry
        })
    };
    let list = SecondaryList::of(entries(2));
    assert_eq!(list.as_bytes(), bytes::<4096>(&[(0, &[2]), (32, &[1]), (64, &[2])]));
    assert_eq!(SecondaryList::of(entries(200)).listed().unwrap().len(), 127);
}

#[test]
fn secondary_list_that_cannot_be_is_refused() {
    let list = |pieces: &[(usize, &[u8])]| SecondaryList::read_from_bytes(&bytes::<4096>(pieces)).unwrap();
    assert_eq!(list(&[]).listed(), Some(&[][..]));
    assert_eq!(list(&[(0, &[128])]).listed(), None);
    assert_eq!(list(&[(0, &[2]), (32, &[5]), (64, &[5])]).listed(), None);
}

#[test]
fn identifiers_of_a_namespace_have_headers() {
    assert_eq!(IdDescriptor::new(IdKind::Eui64).as_bytes(), [1, 8, 0, 0]);
    assert_eq!(IdDescriptor::new(IdKind::Nguid).as_bytes(), [2, 16, 0, 0]);
    assert_eq!(IdDescriptor::new(IdKind::Uuid).as_bytes(), [3, 16, 0, 0]);
    for raw in 0..=0xff {
        assert!(IdKind::from_raw(raw).is_none_or(|kind| kind as u8 == raw));
    }
}

#[test]
fn command_set_is_among_the_identifiers_of_a_namespace() {
    let list = |pieces: &[(usize, &[u8])]| IdList::read_from_bytes(&bytes::<4096>(pieces)).unwrap();
    let eui64: &[u8] = &[1, 8, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let zoned = list(&[(0, eui64), (12, &[4, 1, 0, 0, 2])]);
    assert_eq!(zoned.iter().map(|(kind, id)| (kind, id.len())).collect::<Vec<_>>(), [(1, 8), (4, 1)]);
    assert_eq!(zoned.command_set(), Some(CommandSetId::Zoned));
    assert_eq!(list(&[(0, &[4, 1, 0, 0, 0])]).command_set(), Some(CommandSetId::Nvm));
    assert_eq!(list(&[(0, &[4, 1, 0, 0, 1])]).command_set(), Some(CommandSetId::KeyValue));
    assert_eq!(list(&[(0, &[4, 1, 0, 0, 9])]).command_set(), Some(CommandSetId::Other(9)));
    assert_eq!(list(&[(0, eui64)]).command_set(), None);
    // Identifiers without bytes and of more than there are end the list.
    assert_eq!(list(&[(0, &[4, 0, 0, 0]), (4, &[4, 1, 0, 0, 2])]).command_set(), None);
    let long: Vec<(usize, &[u8])> = (0..16).map(|index| (index * 259, &[3, 255][..])).collect();
    assert_eq!(list(&long).iter().count(), 15);
}

#[test]
fn power_state_fields_stand_where_the_standard_puts_them() {
    let state = PowerState::read_from_bytes(&bytes::<32>(&[
        (0, &[0xc4, 0x09]),
        (3, &[0x02]),
        (4, &[1, 2]),
        (8, &[3]),
        (12, &[4, 5, 6, 7]),
        (16, &[8]),
        (18, &[0x80]),
        (20, &[9]),
        (22, &[0x41]),
    ]))
    .unwrap();
    assert_eq!(state.max_power.get(), 2500);
    assert!(state.is_non_operational() && !PowerFlags::from_bits(state.flags).fine());
    assert_eq!((state.entry_us.get(), state.exit_us.get()), (0x201, 3));
    assert_eq!((state.read_throughput, state.read_latency), (4, 5));
    assert_eq!((state.write_throughput, state.write_latency), (6, 7));
    assert_eq!((state.idle_power.get(), state.idle_scale), (8, 0x80));
    assert_eq!((state.active_power.get(), state.active_load_scale), (9, 0x41));
}

#[test]
fn flags_have_the_bits_of_the_standard() {
    assert_eq!(Cmic::new().with_controllers(true).with_virtual_function(true).into_bits(), 0x06);
    assert_eq!(Oaes::new().with_namespace_changed(true).with_firmware_activation(true).into_bits(), 0x300);
    assert_eq!(Frmw::new().with_first_read_only(true).with_slots(1).into_bits(), 0x03);
    assert_eq!(Frmw::new().with_activate_without_reset(true).into_bits(), 0x10);
    assert_eq!(Lpa::new().with_effects(true).with_extended(true).into_bits(), 0x06);
    assert_eq!(Lpa::new().with_supported_pages(true).into_bits(), 0x20);
    assert_eq!(Oacs::new().with_lockdown(true).with_lba_status(true).into_bits(), 0x600);
    assert_eq!(Ctratt::new().with_long_host_id(true).into_bits(), 1);
    let sanitize = Sanicap::new().with_erase(true).with_keep_inhibited(true).with_modifies_after(2);
    assert_eq!(sanitize.into_bits(), 0xa000_0002);
    assert_eq!(Fna::new().with_erase_all(true).with_cryptographic(true).into_bits(), 0x06);
    assert_eq!(Nsfeat::new().with_unwritten_error(true).with_preferred_sizes(true).into_bits(), 0x14);
}
