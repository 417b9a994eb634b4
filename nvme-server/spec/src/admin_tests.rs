use zerocopy::IntoBytes;

use super::*;
use crate::expected::bytes;

const PAGE: u64 = 0x1122_3344_5566_7000;
const PAGE_BYTES: &[u8] = &[0x00, 0x70, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];
/// CID 0xBEEF at bytes 2 and 3.
const CID: Cid = Cid(0xbeef);

#[test]
fn identify_controller_has_the_bytes_of_the_standard() {
    let sqe = identify_controller(CID, DataPointer::page(PAGE));
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x06, 0, 0xef, 0xbe]), (24, PAGE_BYTES), (40, &[0x01])]));
}

#[test]
fn identify_namespace_has_the_bytes_of_the_standard() {
    let sqe = identify_namespace(CID, Nsid(0x0102_0304), DataPointer::page(PAGE));
    let expected = bytes::<64>(&[(0, &[0x06, 0, 0xef, 0xbe]), (4, &[4, 3, 2, 1]), (24, PAGE_BYTES)]);
    assert_eq!(sqe.as_bytes(), expected);
}

#[test]
fn identify_active_namespaces_has_the_bytes_of_the_standard() {
    let sqe = identify_active_namespaces(CID, Nsid::NONE, DataPointer::page(PAGE));
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x06, 0, 0xef, 0xbe]), (24, PAGE_BYTES), (40, &[0x02])]));
}

#[test]
fn create_io_cq_has_the_bytes_of_the_standard() {
    let create = CreateIoCq {
        qid: QueueId(0x0102),
        qsize_z: 1023,
        interrupt: CqInterrupt::Vector(0x0304),
        memory: QueueMemory::Contiguous(PAGE),
    };
    let expected = bytes::<64>(&[
        (0, &[0x05, 0, 0xef, 0xbe]),
        (24, PAGE_BYTES),
        (40, &[0x02, 0x01, 0xff, 0x03]), // QID, QSIZE
        (44, &[0x03, 0x00, 0x04, 0x03]), // PC and IEN, IV
    ]);
    assert_eq!(create.sqe(CID).as_bytes(), expected);
    assert_eq!(CreateIoCq::from_sqe(&create.sqe(CID)), create);
}

#[test]
fn polled_cq_has_neither_interrupt_nor_vector() {
    let create = CreateIoCq {
        qid: QueueId(1),
        qsize_z: 63,
        interrupt: CqInterrupt::Disabled,
        memory: QueueMemory::Contiguous(PAGE),
    };
    assert_eq!(create.sqe(CID).cdw11, 1);
    assert_eq!(CreateIoCq::from_sqe(&create.sqe(CID)), create);
}

#[test]
fn create_io_sq_has_the_bytes_of_the_standard() {
    let create = CreateIoSq {
        qid: QueueId(5),
        qsize_z: 0x03ff,
        cqid: QueueId(0x0607),
        priority: QueuePriority::Medium,
        memory: QueueMemory::Contiguous(PAGE),
    };
    let expected = bytes::<64>(&[
        (0, &[0x01, 0, 0xef, 0xbe]),
        (24, PAGE_BYTES),
        (40, &[0x05, 0x00, 0xff, 0x03]), // QID, QSIZE
        (44, &[0x05, 0x00, 0x07, 0x06]), // PC and QPRIO 10b, CQID
    ]);
    assert_eq!(create.sqe(CID).as_bytes(), expected);
    assert_eq!(CreateIoSq::from_sqe(&create.sqe(CID)), create);
}

#[test]
fn priorities_have_the_codes_of_the_standard() {
    let classes = [
        (QueuePriority::Urgent, 0b001),
        (QueuePriority::High, 0b011),
        (QueuePriority::Medium, 0b101),
        (QueuePriority::Low, 0b111),
    ];
    for (priority, dw11) in classes {
        let memory = QueueMemory::Contiguous(0);
        let create = CreateIoSq { qid: QueueId(1), qsize_z: 1, cqid: QueueId(0), priority, memory };
        assert_eq!(create.sqe(CID).cdw11, dw11);
        assert_eq!(CreateIoSq::from_sqe(&create.sqe(CID)).priority, priority);
    }
}

#[test]
fn queue_in_listed_pages_clears_pc() {
    let memory = QueueMemory::Listed(PAGE);
    let create = CreateIoCq { qid: QueueId(1), qsize_z: 1, interrupt: CqInterrupt::Disabled, memory };
    assert_eq!(create.sqe(CID).cdw11, 0);
    assert_eq!(CreateIoCq::from_sqe(&create.sqe(CID)), create);
}

#[test]
fn delete_commands_name_the_queue() {
    let sq = delete_io_sq(CID, QueueId(0x0102));
    assert_eq!(sq.as_bytes(), bytes::<64>(&[(0, &[0x00, 0, 0xef, 0xbe]), (40, &[0x02, 0x01])]));
    let cq = delete_io_cq(CID, QueueId(0x0102));
    assert_eq!(cq.as_bytes(), bytes::<64>(&[(0, &[0x04, 0, 0xef, 0xbe]), (40, &[0x02, 0x01])]));
    assert_eq!(deleted_queue(&cq), QueueId(0x0102));
}

#[test]
fn abort_names_queue_and_command() {
    let sqe = abort(CID, CommandName { sq: QueueId(0x0102), cid: Cid(0x0304) });
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x08, 0, 0xef, 0xbe]), (40, &[0x02, 0x01, 0x04, 0x03])]));
    assert_eq!(aborted_command(&sqe), CommandName { sq: QueueId(0x0102), cid: Cid(0x0304) });
    assert!(was_aborted(0));
    assert!(!was_aborted(1));
}

#[test]
fn commands_without_parameters_are_their_opcode_alone() {
    assert_eq!(async_event_request(CID).as_bytes(), bytes::<64>(&[(0, &[0x0c, 0, 0xef, 0xbe])]));
    assert_eq!(keep_alive(CID).as_bytes(), bytes::<64>(&[(0, &[0x18, 0, 0xef, 0xbe])]));
}

#[test]
fn doorbell_buffers_are_the_two_halves_of_the_data_pointer() {
    let sqe = doorbell_buffer_config(CID, PAGE, 0x9000);
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x7c, 0, 0xef, 0xbe]), (24, PAGE_BYTES), (32, &[0x00, 0x90])]));
}

#[test]
fn controllers_are_listed_from_the_one_named() {
    let sqe = identify_controllers(CID, Cns::AttachedControllers, Nsid(7), 0x0102, DataPointer::page(PAGE));
    let expected =
        bytes::<64>(&[(0, &[0x06, 0, 0xef, 0xbe]), (4, &[7]), (24, PAGE_BYTES), (40, &[0x12, 0x00, 0x02, 0x01])]);
    assert_eq!(sqe.as_bytes(), expected);
}

#[test]
fn namespaces_are_created_and_deleted_by_one_opcode() {
    let create = create_namespace(CID, DataPointer::page(PAGE));
    assert_eq!(create.as_bytes(), bytes::<64>(&[(0, &[0x0d, 0, 0xef, 0xbe]), (24, PAGE_BYTES)]));
    assert_eq!(Management::from_dw10(create.cdw10), Some(Management::Create));
    let delete = delete_namespace(CID, Nsid::ALL);
    assert_eq!(delete.as_bytes(), bytes::<64>(&[(0, &[0x0d, 0, 0xef, 0xbe]), (4, &[0xff; 4]), (40, &[1])]));
    assert_eq!(Management::from_dw10(delete.cdw10), Some(Management::Delete));
    assert_eq!(Management::from_dw10(2), None);
}

#[test]
fn namespaces_are_attached_and_detached_by_one_opcode() {
    let attach = namespace_attachment(CID, Attachment::Attach, Nsid(2), DataPointer::page(PAGE));
    assert_eq!(attach.as_bytes(), bytes::<64>(&[(0, &[0x15, 0, 0xef, 0xbe]), (4, &[2]), (24, PAGE_BYTES)]));
    let detach = namespace_attachment(CID, Attachment::Detach, Nsid(2), DataPointer::page(PAGE));
    assert_eq!(detach.cdw10, 1);
    for operation in [Attachment::Attach, Attachment::Detach] {
        assert_eq!(Attachment::from_dw10(operation as u32), Some(operation));
    }
    assert_eq!(Attachment::from_dw10(2), None);
}

#[test]
fn format_has_the_bytes_of_the_standard() {
    let how = FormatDw10::new().with_lbaf(3).with_mset(true).with_pi(2).with_pil(true).with_ses(1);
    let sqe = format_nvm(CID, Nsid(4), how);
    // LBAF 3, MSET bit 4, PI bits 7:5, PIL bit 8, SES bits 11:9.
    assert_eq!(sqe.as_bytes(), bytes::<64>(&[(0, &[0x80, 0, 0xef, 0xbe]), (4, &[4]), (40, &[0x53, 0x03])]));
    assert_eq!(SecureErase::from_raw(1), Some(SecureErase::UserData));
    assert_eq!(SecureErase::from_raw(3), None);
}

#[test]
fn virtualization_management_has_the_bytes_of_the_standard() {
    let opcode = (0, &[0x1c, 0, 0xef, 0xbe][..]);
    // ACT 3:0, RT 10:8, CNTLID 31:16; NR 15:0.
    let primary = allocate_to_primary(CID, 0x0102, ControllerResource::Interrupts, 0x0304);
    let expected = bytes::<64>(&[opcode, (40, &[0x01, 0x01, 0x02, 0x01]), (44, &[0x04, 0x03])]);
    assert_eq!(primary.as_bytes(), expected);
    let assign = assign_to_secondary(CID, 5, ControllerResource::Queues, 2);
    assert_eq!(assign.as_bytes(), bytes::<64>(&[opcode, (40, &[0x08, 0x00, 0x05, 0x00]), (44, &[2])]));
    assert_eq!(set_online(CID, 5).as_bytes(), bytes::<64>(&[opcode, (40, &[0x09, 0x00, 0x05, 0x00])]));
    assert_eq!(set_offline(CID, 5).as_bytes(), bytes::<64>(&[opcode, (40, &[0x07, 0x00, 0x05, 0x00])]));
    let dw10 = VirtualizationDw10::from_bits(primary.cdw10);
    assert_eq!(VirtualizationAction::from_raw(dw10.act()), Some(VirtualizationAction::PrimaryAllocation));
    assert_eq!(ControllerResource::from_raw(dw10.rt()), Some(ControllerResource::Interrupts));
    assert_eq!((dw10.cntlid(), VirtualizationDw11::from_bits(primary.cdw11).nr()), (0x0102, 0x0304));
    // NRM is in 15:0; the rest is reserved.
    assert_eq!(modified_resources(0xffff_0304), 0x0304);
}

#[test]
fn virtualization_actions_and_resources_are_recognised() {
    for raw in 0..=0xff {
        assert!(VirtualizationAction::from_raw(raw).is_none_or(|action| action as u8 == raw));
        assert!(ControllerResource::from_raw(raw).is_none_or(|resource| resource as u8 == raw));
    }
    let actions = (0..=0xf).filter(|&raw| VirtualizationAction::from_raw(raw).is_some());
    assert_eq!(actions.collect::<std::vec::Vec<_>>(), [1, 7, 8, 9]);
    assert_eq!(ControllerResource::from_raw(2), None);
}

#[test]
fn secondary_controller_needs_an_io_queue_pair_and_a_vector() {
    assert_eq!(ControllerResource::Queues.minimum(), 2);
    assert_eq!(ControllerResource::Interrupts.minimum(), 1);
}

#[test]
fn opcodes_and_selectors_are_recognised() {
    for raw in 0..=0xff {
        assert!(Opcode::from_raw(raw).is_none_or(|opcode| opcode as u8 == raw));
        assert!(Cns::from_raw(raw).is_none_or(|cns| cns as u8 == raw));
    }
    assert_eq!(Opcode::from_raw(0x06), Some(Opcode::Identify));
    assert_eq!(Opcode::from_raw(0x80), Some(Opcode::FormatNvm));
    assert_eq!(Opcode::from_raw(0x03), None);
}

#[test]
fn lockdown_has_the_bits_of_the_standard() {
    let sqe = lock_command(CID, Lock::Prohibit, Opcode::NamespaceAttachment);
    assert_eq!((sqe.opcode(), sqe.cdw10), (0x24, 0x1510));
    let sqe = lock_feature(CID, Lock::Allow, crate::feature::Feature::VolatileWriteCache);
    assert_eq!(sqe.cdw10, 0x0602);
    assert_eq!(LockdownDw10::new().with_interface(LockdownInterface::Endpoints as u8).into_bits(), 0x40);
    for raw in 0..=0xf {
        assert!(LockdownScope::from_raw(raw).is_none_or(|scope| scope as u8 == raw));
        assert!(LockdownInterface::from_raw(raw).is_none_or(|interface| interface as u8 == raw));
    }
}

#[test]
fn firmware_commands_have_the_bits_of_the_standard() {
    let piece = FirmwarePiece { dwords_z: 1023, offset_dwords: 2048 };
    let sqe = piece.sqe(CID, DataPointer::page(0x7000));
    assert_eq!((sqe.opcode(), sqe.cdw10, sqe.cdw11), (0x11, 1023, 2048));
    assert_eq!((FirmwarePiece::from_sqe(&sqe), piece.bytes(), piece.offset()), (piece, 4096, 8192));
    let sqe = firmware_commit(CID, CommitAction::ActivateNow, 5);
    assert_eq!((sqe.opcode(), sqe.cdw10), (0x10, 0x1d));
    for raw in 0..=7 {
        assert!(CommitAction::from_raw(raw).is_none_or(|action| action as u8 == raw));
    }
}

#[test]
fn self_test_and_sanitize_have_the_bits_of_the_standard() {
    let sqe = self_test(CID, SelfTestCode::Extended, Nsid::ALL);
    assert_eq!((sqe.opcode(), sqe.nsid, sqe.cdw10), (0x14, u32::MAX, 2));
    for raw in 0..=0xf {
        assert!(SelfTestCode::from_dw10(raw).is_none_or(|code| code as u32 == raw));
    }
    let how = SanitizeDw10::new().with_action(SanitizeAction::Overwrite as u8).with_unrestricted_exit(true);
    let sqe = sanitize(CID, how.with_passes(2).with_invert(true).with_keep_allocated(true), 0x5a5a_5a5a);
    assert_eq!((sqe.opcode(), sqe.cdw10, sqe.cdw11), (0x84, 0x32b, 0x5a5a_5a5a));
    for raw in 0..=7 {
        assert!(SanitizeAction::from_raw(raw).is_none_or(|action| action as u8 == raw));
    }
}
