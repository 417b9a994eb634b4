//! The system calls. Their instructions and registers are the architecture's.

use crate::arch::syscall::{exchange, receive, wordless};
use crate::bindings::syscall_number as number;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

pub(crate) use platform::REGISTER_WORDS;

/// Registers after a system call that receives.
#[derive(Clone, Copy)]
pub(crate) struct Received {
    /// The badge of the capability the sender used, or the badges of the signals.
    pub(crate) badge: u64,
    /// The message's description.
    pub(crate) info: u64,
    /// The message's first words.
    pub(crate) words: [u64; REGISTER_WORDS],
}

/// An answer that waits for the next system call: when that is a wait, both are one call, and the kernel's quickest.
static ANSWER_WAITS: AtomicBool = AtomicBool::new(false);
/// The answer's description and words.
static ANSWER: [AtomicU64; 1 + REGISTER_WORDS] = [const { AtomicU64::new(0) }; 1 + REGISTER_WORDS];

/// Sends and waits for the answer.
#[inline(always)]
pub(crate) fn call(cap: u64, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    send_answer();
    exchange(number::Call, cap, info, words)
}

/// Waits for a message or a signal.
#[inline(always)]
pub(crate) fn recv(cap: u64) -> Received {
    match take_answer() {
        Some((info, words)) => exchange(number::ReplyRecv, cap, info, words),
        None => receive(number::Recv, cap),
    }
}

/// Answers the last message and waits for the next.
#[inline(always)]
pub(crate) fn reply_recv(cap: u64, info: u64, words: [u64; REGISTER_WORDS]) -> Received {
    send_answer();
    exchange(number::ReplyRecv, cap, info, words)
}

/// Takes a message or a signal if there is one; the badge is 0 otherwise.
#[inline(always)]
pub(crate) fn nb_recv(cap: u64) -> Received {
    send_answer();
    receive(number::NBRecv, cap)
}

/// Sends and waits until it was received.
#[inline(always)]
pub(crate) fn send(cap: u64, info: u64, words: [u64; REGISTER_WORDS]) {
    send_answer();
    exchange(number::Send, cap, info, words);
}

/// Sends if a receiver waits.
#[inline(always)]
pub(crate) fn nb_send(cap: u64, info: u64, words: [u64; REGISTER_WORDS]) {
    send_answer();
    exchange(number::NBSend, cap, info, words);
}

/// Answers the last message, with words or capabilities in the IPC buffer.
#[inline(always)]
pub(crate) fn reply(info: u64, words: [u64; REGISTER_WORDS]) {
    send_answer();
    exchange(number::Reply, 0, info, words);
}

/// Answers the last message, with words in registers alone: with this component's next system call, or before its
/// task is polled again, whichever comes first.
#[inline(always)]
pub(crate) fn reply_soon(info: u64, words: [u64; REGISTER_WORDS]) {
    send_answer();
    for (kept, word) in ANSWER.iter().zip([info].iter().chain(&words)) {
        kept.store(*word, Ordering::Relaxed);
    }
    ANSWER_WAITS.store(true, Ordering::Relaxed);
}

/// Signals a notification: a send of nothing.
#[inline(always)]
pub(crate) fn signal(cap: u64) {
    send_answer();
    wordless(number::Send, cap);
}

/// Lets others of the same priority run.
#[inline(always)]
pub(crate) fn yield_now() {
    send_answer();
    wordless(number::Yield, 0);
}

/// Prints on the kernel's serial port: debug kernels only.
#[cfg(sel4_debug)]
pub(crate) fn debug_put_char(c: u8) {
    wordless(number::DebugPutChar, u64::from(c));
}

/// Sends the answer that waits, if there is one.
#[inline(always)]
pub(crate) fn send_answer() {
    if ANSWER_WAITS.load(Ordering::Relaxed) {
        send_answer_now();
    }
}

#[cold]
fn send_answer_now() {
    if let Some((info, words)) = take_answer() {
        exchange(number::Reply, 0, info, words);
    }
}

#[inline(always)]
fn take_answer() -> Option<(u64, [u64; REGISTER_WORDS])> {
    if !ANSWER_WAITS.load(Ordering::Relaxed) {
        return None;
    }
    ANSWER_WAITS.store(false, Ordering::Relaxed);
    let [info, words @ ..] = ANSWER.each_ref().map(|kept| kept.load(Ordering::Relaxed));
    Some((info, words))
}
