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
    assert!(was_aborted(0));
    assert!(!was_aborted(1));
}

#[test]
fn async_event_request_is_its_opcode_alone() {
    assert_eq!(async_event_request(CID).as_bytes(), bytes::<64>(&[(0, &[0x0c, 0, 0xef, 0xbe])]));
    // SMART/health, below the spare's threshold, log page 2.
    let event = AsyncEvent::from_bits(0x0002_0201);
    assert_eq!((event.kind(), event.info(), event.log_page()), (1, 2, 2));
}

#[test]
fn smart_log_asks_for_512_bytes_of_the_controller() {
    let expected = bytes::<64>(&[
        (0, &[0x02, 0, 0xef, 0xbe]),
        (4, &[0xff; 4]),
        (24, PAGE_BYTES),
        (40, &[0x02, 0x00, 0x7f, 0x00]), // LID, NUMDL
    ]);
    assert_eq!(get_smart_log(CID, DataPointer::page(PAGE)).as_bytes(), expected);
}

#[test]
fn length_of_a_log_page_is_split_over_two_words() {
    let sqe = get_log_page(CID, LogPage::ErrorInformation, Nsid::ALL, 0x0012_3456, DataPointer::NONE);
    assert_eq!(sqe.cdw10, 0x3456_0001);
    assert_eq!(sqe.cdw11, 0x0000_0012);
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
