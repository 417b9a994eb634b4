//! A thread of a sequence: reads its calls, makes them, writes the answers into the journal.
//!
//! Helpers run this too. They may not allocate, and get their arguments in one word: their [`Part`].

use crate::machine;
use platform::{CPtr, Cap, Kernel, Memory, Name, OutOfBounds, Platform, Region, RegionKind, Tcb, UserContext, Vaddr};
use platform_sel4::{Fault, FlatMessage, Sel4, Sel4Memory, Sel4Platform};
use report::FaultKind;
use sim_conformance::stage::Ground;
use sim_conformance::stage::{JOURNAL_BYTES, LOWEST_SIGNAL, MAPPING_AREA, OWN_TCB, SCRIPT_BYTES, Stage};
use sim_conformance::wire::{Journal, Sequence};
use sim_conformance::{Answer, Arrived, Caller, Entry, Letter, Op};

/// The work of a helper: the calls of `thread` in the sequence being played, from `call` on.
#[derive(Clone, Copy)]
pub(crate) struct Part {
    pub(crate) thread: u8,
    pub(crate) call: u16,
}

impl Part {
    pub(crate) fn to_bits(self) -> u64 {
        u64::from(self.call) << 8 | u64::from(self.thread)
    }

    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self { thread: bits as u8, call: (bits >> 8) as u16 }
    }
}

/// A thread of a sequence.
pub(crate) struct Thread<'a> {
    platform: Sel4Platform,
    caller: Caller<'a>,
    number: u8,
    journal: Journal<Sel4Memory>,
    /// The notification at which the root thread waits until no other thread can run.
    settled: Option<CPtr>,
}

impl<'a> Thread<'a> {
    pub(crate) const fn new(
        platform: Sel4Platform,
        caller: Caller<'a>,
        number: u8,
        journal: Journal<Sel4Memory>,
        settled: Option<CPtr>,
    ) -> Self {
        Self { platform, caller, number, journal, settled }
    }

    /// Makes `calls`, of which the first has the number `first`.
    pub(crate) fn make(&self, calls: impl Iterator<Item = Op>, first: u16) {
        for (index, call) in (first..).zip(calls) {
            let Some(answer) = self.answer(&call) else { continue };
            // A full journal lacks the later answers, and the comparison shows that.
            let _ = self.journal.push(&Entry { thread: self.number, index, answer });
        }
    }

    fn answer(&self, call: &Op) -> Option<Answer> {
        let kernel = self.platform.kernel();
        match call {
            Op::Nothing => None,
            Op::Load { vaddr } => Some(self.word(*vaddr).map_or(Answer::Nothing, Answer::Value)),
            Op::Store { vaddr, value } => Some(self.store(*vaddr, *value).map_or(Answer::Nothing, |()| Answer::Done)),
            call => self
                .communicate(kernel, call)
                .or_else(|| self.caller.invoke(kernel, call))
                .or_else(|| machine::invoke(&self.caller, kernel, call)),
        }
    }

    /// Makes IPC calls, and those that belong to them.
    fn communicate(&self, kernel: &Sel4, call: &Op) -> Option<Answer> {
        let layout = self.caller.layout;
        let received = |(badge, message): (_, FlatMessage)| Answer::received(badge, arrived(&message), fault(&message));
        match *call {
            Op::Signal { notification } => kernel.signal(layout.cap(notification)),
            Op::Send { dest, letter } => kernel.send_flat(layout.cptr(dest), &self.message(letter)),
            Op::NbSend { dest, letter } => kernel.nb_send_flat(layout.cptr(dest), &self.message(letter)),
            Op::Call { endpoint, letter } => {
                let answer = kernel.call_flat(layout.cptr(endpoint), &self.message(letter));
                return Some(Answer::replied(arrived(&answer)));
            }
            Op::Reply { letter } => kernel.reply_flat(&self.message(letter)),
            Op::ReplyReceive { letter, from } => {
                return Some(received(kernel.reply_receive(&self.message(letter), layout.cptr(from))));
            }
            Op::Receive { from } => return Some(received(kernel.receive(layout.cptr(from)))),
            Op::NbReceive { from } => return Some(received(kernel.nb_receive(layout.cptr(from)))),
            Op::Settle => return Some(received(kernel.receive(self.settled?))),
            Op::ReceiveSlot { slot } => kernel.set_receive_cptr(slot.map(|slot| layout.path(slot))),
            Op::Yield => kernel.yield_now(),
            _ => return None,
        }
        Some(Answer::Done)
    }

    fn message(&self, letter: Letter) -> FlatMessage {
        let words = (0..u64::from(letter.words)).map(|index| letter.first.wrapping_add(index));
        let mut message = FlatMessage::new(u32::from(letter.label), words);
        message.cap = letter.cap.map(|cap| self.caller.layout.cptr(cap));
        message
    }

    fn word(&self, vaddr: u64) -> Result<u64, OutOfBounds> {
        self.platform.memory(&region(vaddr, 8, RegionKind::ReadWrite))?.read(0)
    }

    fn store(&self, vaddr: u64, value: u64) -> Result<(), OutOfBounds> {
        self.platform.memory(&region(vaddr, 8, RegionKind::ReadWrite))?.write(0, &value)
    }
}

/// Does a helper's part, and then stops.
pub(crate) fn help(platform: &Sel4Platform, part: Part) -> Result<(), OutOfBounds> {
    let layout = Stage::helper_layout();
    let caller = Caller { layout: &layout, ground: &Ground::default(), helper: &|_, _| UserContext::default() };
    let thread = Thread::new(*platform, caller, part.thread, journal(*platform)?, None);
    let calls = Sequence::at(script(*platform)?, 0).calls(usize::from(part.thread), part.call)?;
    thread.make(calls, part.call);
    let own = Cap::<Tcb>::from_bits(u64::from(OWN_TCB));
    // A sequence that takes the capability away makes the helper fault instead, in the model too.
    let _ = platform.kernel().tcb_suspend(own);
    Ok(())
}

/// Signals again and again that no other thread can run.
pub(crate) fn signal_for_ever(platform: &Sel4Platform) -> ! {
    loop {
        platform.kernel().signal(Cap::from_bits(u64::from(LOWEST_SIGNAL)));
    }
}

/// The journal that all threads write.
pub(crate) fn journal(platform: Sel4Platform) -> Result<Journal<Sel4Memory>, OutOfBounds> {
    platform.memory(&region(MAPPING_AREA, JOURNAL_BYTES, RegionKind::ReadWrite)).map(Journal::new)
}

/// The memory of the sequence being played, which all threads read.
pub(crate) fn script(platform: Sel4Platform) -> Result<Sel4Memory, OutOfBounds> {
    platform.memory(&region(MAPPING_AREA + JOURNAL_BYTES, SCRIPT_BYTES, RegionKind::ReadWrite))
}

const fn region(vaddr: u64, len: u64, kind: RegionKind) -> Region {
    Region { name: Name::new(), vaddr: Vaddr::new(vaddr), len, kind }
}

fn arrived(message: &FlatMessage) -> Arrived<'_> {
    Arrived { label: message.label, words: message.words(), cap: message.cap_received }
}

fn fault(message: &FlatMessage) -> Option<(FaultKind, u64)> {
    Fault::of(message.label, message.words()).map(|fault| (fault.kind, fault.address))
}
