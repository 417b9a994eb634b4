//! The steps that random sequences are made of.

use platform::*;
use proptest::prelude::*;

/// The PCI function that IOSpaces are minted for, and the two after it.
pub(super) const FUNCTION: u16 = 0x0010;

/// Object types for retype.
pub(super) const KINDS: [ObjectType; 12] = [
    ObjectType::Untyped,
    ObjectType::Endpoint,
    ObjectType::Notification,
    ObjectType::CNode,
    ObjectType::Tcb,
    ObjectType::VSpace,
    ObjectType::TranslationTable(TableLevel::One),
    ObjectType::TranslationTable(TableLevel::Two),
    ObjectType::TranslationTable(TableLevel::Three),
    ObjectType::SmallPage,
    ObjectType::LargePage,
    ObjectType::IoPageTable,
];

/// A step; its numbers choose among the existing capabilities.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Retype { from: u8, kind: usize, bits: u8, to: u8, count: u8 },
    Copy { to: u8, from: u8, rights: u8 },
    Mint { to: u8, from: u8, rights: u8, data: CapData },
    Move { to: u8, from: u8 },
    Delete(u8),
    Revoke(u8),
    SaveCaller(u8),
    Configure { tcb: u8, priority: u8, cnode: u8, vspace: u8, frame: u8 },
    Registers { tcb: u8, resume: bool },
    Resume(u8),
    Suspend(u8),
    Bind { tcb: u8, notification: u8 },
    MakePool { untyped: u8, to: u8 },
    Assign { pool: u8, vspace: u8 },
    Install { level: u8, table: u8, vspace: u8, page: u8 },
    Map { frame: u8, vspace: u8, page: u8, rights: u8 },
    Unmap(u8),
    InstallIo { table: u8, space: u8, page: u8 },
    UninstallIo(u8),
    MapIo { frame: u8, space: u8, page: u8, rights: u8 },
    Handler { to: u8, irq: u8, pin: Option<u8> },
    Ack(u8),
    Notify { handler: u8, notification: u8 },
    Clear(u8),
    Signal(u8),
    Send { to: u8, cap: Option<u8>, waits: bool },
    Call { to: u8, cap: Option<u8> },
    Reply { cap: Option<u8> },
    Receive { from: u8, waits: bool },
    ReplyReceive { from: u8 },
    ReceiveSlot(u8),
    Fault(u8),
    Rotate,
    Tick,
    Message(u8),
    Pin { pin: u8, level: bool },
}

fn slot() -> impl Strategy<Value = u8> {
    any::<u8>()
}

/// Chooses frames more often than the others: most steps are about them.
fn kind() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..KINDS.len(), 1 => Just(9)]
}

fn data() -> impl Strategy<Value = CapData> {
    prop_oneof![
        (0u64..4).prop_map(|badge| CapData::Badge(Badge(badge))),
        (0u64..4).prop_map(|badge| CapData::Badge(Badge(Badge::SIGNAL | badge))),
        (50u8..64, 0u64..2).prop_map(|(size, value)| CapData::Guard { size, value }),
        (any::<u16>(), any::<u16>()).prop_map(|(first, last)| CapData::IoPorts(first, last)),
        (0u16..3, 0u16..3).prop_map(|(domain, more)| CapData::IoSpace { domain, requester_id: FUNCTION + more }),
    ]
}

fn capabilities() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (slot(), kind(), prop_oneof![1u8..14, Just(12)], slot(), 1u8..4)
            .prop_map(|(from, kind, bits, to, count)| Step::Retype { from, kind, bits, to, count }),
        3 => (slot(), slot(), 0u8..8).prop_map(|(to, from, rights)| Step::Copy { to, from, rights }),
        3 => (slot(), slot(), 0u8..8, data())
            .prop_map(|(to, from, rights, data)| Step::Mint { to, from, rights, data }),
        1 => (slot(), slot()).prop_map(|(to, from)| Step::Move { to, from }),
        2 => slot().prop_map(Step::Delete),
        2 => slot().prop_map(Step::Revoke),
        1 => slot().prop_map(Step::SaveCaller),
    ]
}

fn threads() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (slot(), 1u8..4, slot(), slot(), slot())
            .prop_map(|(tcb, priority, cnode, vspace, frame)| Step::Configure { tcb, priority, cnode, vspace, frame }),
        1 => (slot(), any::<bool>()).prop_map(|(tcb, resume)| Step::Registers { tcb, resume }),
        1 => slot().prop_map(Step::Resume),
        1 => slot().prop_map(Step::Suspend),
        1 => (slot(), slot()).prop_map(|(tcb, notification)| Step::Bind { tcb, notification }),
        1 => slot().prop_map(Step::Fault),
        1 => Just(Step::Rotate),
        1 => Just(Step::Tick),
    ]
}

fn mappings() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (slot(), slot()).prop_map(|(untyped, to)| Step::MakePool { untyped, to }),
        1 => (slot(), slot()).prop_map(|(pool, vspace)| Step::Assign { pool, vspace }),
        2 => (0u8..3, slot(), slot(), any::<u8>())
            .prop_map(|(level, table, vspace, page)| Step::Install { level, table, vspace, page }),
        4 => (slot(), slot(), any::<u8>(), 0u8..8)
            .prop_map(|(frame, vspace, page, rights)| Step::Map { frame, vspace, page, rights }),
        1 => slot().prop_map(Step::Unmap),
        3 => (slot(), slot(), any::<u8>()).prop_map(|(table, space, page)| Step::InstallIo { table, space, page }),
        1 => slot().prop_map(Step::UninstallIo),
        4 => (slot(), slot(), any::<u8>(), 0u8..8)
            .prop_map(|(frame, space, page, rights)| Step::MapIo { frame, space, page, rights }),
    ]
}

fn messages() -> impl Strategy<Value = Step> {
    let cap = || prop::option::of(slot());
    prop_oneof![
        slot().prop_map(Step::Signal),
        (slot(), cap(), any::<bool>()).prop_map(|(to, cap, waits)| Step::Send { to, cap, waits }),
        (slot(), cap()).prop_map(|(to, cap)| Step::Call { to, cap }),
        cap().prop_map(|cap| Step::Reply { cap }),
        (slot(), any::<bool>()).prop_map(|(from, waits)| Step::Receive { from, waits }),
        slot().prop_map(|from| Step::ReplyReceive { from }),
        slot().prop_map(Step::ReceiveSlot),
    ]
}

fn interrupts() -> impl Strategy<Value = Step> {
    prop_oneof![
        (slot(), 0u8..4, prop::option::of(0u8..4)).prop_map(|(to, irq, pin)| Step::Handler { to, irq, pin }),
        slot().prop_map(Step::Ack),
        (slot(), slot()).prop_map(|(handler, notification)| Step::Notify { handler, notification }),
        slot().prop_map(Step::Clear),
        (0u8..4).prop_map(Step::Message),
        (0u8..4, any::<bool>()).prop_map(|(pin, level)| Step::Pin { pin, level }),
    ]
}

/// A step, and the choice of its actor.
pub(super) fn step() -> impl Strategy<Value = (u8, Step)> {
    let step = prop_oneof![4 => capabilities(), 2 => threads(), 3 => mappings(), 3 => messages(), 1 => interrupts()];
    (any::<u8>(), step)
}

pub(super) fn rights(bits: u8) -> Rights {
    Rights { read: bits & 1 != 0, write: bits & 2 != 0, grant: bits & 4 != 0, grant_reply: bits & 8 != 0 }
}
