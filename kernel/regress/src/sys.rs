//! System calls of seL4 and the boot information: the unsafe code that both architectures share.
//!
//! The numbers come from the kernel's own interface files ([`values`]). Left out: every system call the tests do not
//! use, capabilities in received messages, and threads that receive.

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::{self, system_call};

/// The numbers of system calls, invocations, object types, slots and offsets, as the C compiler found them.
pub(crate) mod values {
    include!(concat!(env!("OUT_DIR"), "/values.rs"));
}

/// A slot of the root task's CSpace.
pub(crate) type Slot = u64;

/// The address of this thread's IPC buffer, from the boot information.
static IPC_BUFFER: AtomicUsize = AtomicUsize::new(0);

/// Words of a message that travel in registers.
pub(crate) const REGISTER_WORDS: usize = 4;

/// Bytes of the stack on which the entry code calls [`crate::entry::main`].
pub(crate) const STACK_BYTES: usize = 64 * 1024;

/// The stack; its top is page aligned.
#[repr(C, align(4096))]
pub(crate) struct Stack(core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only the stack pointer refers to it.
unsafe impl Sync for Stack {}

/// The stack of the first thread.
pub(crate) static STACK: Stack = Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]));

/// The boot information, which the root task receives from the kernel.
pub(crate) struct BootInfo {
    address: usize,
}

impl BootInfo {
    /// # Safety
    ///
    /// `address` is what the kernel passed to the root task, and this is called once, before any invocation.
    pub(crate) unsafe fn new(address: usize) -> Self {
        let info = Self { address };
        IPC_BUFFER.store(info.word(values::BOOT_INFO_IPC_BUFFER) as usize, Ordering::Relaxed);
        info
    }

    /// The word at `offset`, one of the offsets in [`values`].
    pub(crate) fn word(&self, offset: i64) -> u64 {
        // SAFETY: the structure is mapped readable for the life of the program and is longer than any offset in
        // `values`; its fields are not aligned.
        unsafe { core::ptr::read_unaligned((self.address as i64 + offset) as *const u64) }
    }

    /// The byte at `offset`, which lies in the boot information.
    pub(crate) fn byte(&self, offset: i64) -> u8 {
        // SAFETY: as for `word`.
        unsafe { core::ptr::read((self.address as i64 + offset) as *const u8) }
    }
}

/// The result of a system call that receives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Received {
    /// The message's label; an invocation's error, 0 for none.
    pub(crate) label: u64,
    /// The first word.
    pub(crate) word: u64,
}

/// The description of a message.
pub(crate) const fn message_info(label: u64, caps: usize, length: usize) -> u64 {
    label << 12 | (caps as u64) << 7 | length as u64
}

/// Invokes a capability, and returns the kernel's error number or the first word of its reply.
pub(crate) fn invoke(capability: Slot, label: i64, words: &[u64], caps: &[Slot]) -> Result<u64, u64> {
    let buffer = IPC_BUFFER.load(Ordering::Relaxed);
    for (index, word) in words.iter().enumerate().skip(REGISTER_WORDS) {
        // SAFETY: the IPC buffer is mapped for this thread; a message of the tests has at most twenty-one words.
        unsafe { volatile_write(buffer + values::IPC_BUFFER_WORDS as usize + index * 8, *word) };
    }
    for (index, cap) in caps.iter().enumerate() {
        // SAFETY: as above; an invocation has at most three capabilities, for which the buffer has room.
        unsafe { volatile_write(buffer + values::IPC_BUFFER_CAPS as usize + index * 8, *cap) };
    }
    let mut registers = [0; REGISTER_WORDS];
    for (register, word) in registers.iter_mut().zip(words) {
        *register = *word;
    }
    let info = message_info(label as u64, caps.len(), words.len());
    let answer = system_call(values::SYS_CALL, capability, info, registers);
    if answer.label == 0 { Ok(answer.word) } else { Err(answer.label) }
}

/// Waits for a message on an endpoint.
pub(crate) fn receive(endpoint: Slot) -> Received {
    system_call(values::SYS_RECV, endpoint, 0, [0; REGISTER_WORDS])
}

/// Waits for a message or a signal by system call `number`, which may answer a caller first.
pub(crate) fn wait_by(number: i64, object: Slot) {
    system_call(number, object, message_info(0, 0, 0), [0; REGISTER_WORDS]);
}

/// The label of the message that [`prober`] sends; larger than any fault's.
pub(crate) const PROBED: u64 = 0x100;

/// The program of a second thread: reads the word at `address` and sends it to `endpoint`. If the address is not
/// mapped, the thread's fault goes there instead.
pub(crate) extern "C" fn prober(address: usize, endpoint: Slot) -> ! {
    // SAFETY: nothing in this program lies at the probed address; that it may fault is the purpose of the thread.
    let word = unsafe { volatile_read(address) };
    system_call(values::SYS_SEND, endpoint, message_info(PROBED, 0, 1), [word, 0, 0, 0]);
    loop {
        system_call(values::SYS_YIELD, 0, 0, [0; REGISTER_WORDS]);
    }
}

/// The program of a second thread: calls `called`, and sends nothing to `endpoint`, where its faults go.
pub(crate) extern "C" fn caller(called: usize, _endpoint: Slot) -> ! {
    system_call(values::SYS_CALL, called as Slot, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
    loop {
        system_call(values::SYS_YIELD, 0, 0, [0; REGISTER_WORDS]);
    }
}

/// The program of a server: answers each message that comes to `served` with nothing, and waits for the next.
pub(crate) extern "C" fn server(served: usize, _endpoint: Slot) -> ! {
    let mut number = values::SYS_RECV;
    loop {
        system_call(number, served as Slot, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
        number = values::SYS_REPLY_RECV;
    }
}

/// Calls that [`measured_caller`] makes.
pub(crate) const MEASURED_CALLS: u64 = 1000;

/// The program of a client: calls `called` and sends `endpoint` the ticks of the clock that [`MEASURED_CALLS`] calls took.
/// It sends them by a call that nobody answers, so it runs no more.
pub(crate) extern "C" fn measured_caller(called: usize, endpoint: Slot) -> ! {
    let call = || system_call(values::SYS_CALL, called as Slot, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
    call();
    let begin = arch::ticks();
    for _ in 0..MEASURED_CALLS {
        call();
    }
    let ticks = arch::ticks().wrapping_sub(begin);
    loop {
        system_call(values::SYS_CALL, endpoint, message_info(PROBED, 0, 1), [ticks, 0, 0, 0]);
    }
}

/// The program of a second thread: waits for a signal on `notification` and then sends a message to `endpoint`. If the wait
/// is not what it was, the thread's fault goes there instead.
pub(crate) extern "C" fn waiter(notification: usize, endpoint: Slot) -> ! {
    receive(notification as Slot);
    system_call(values::SYS_SEND, endpoint, message_info(PROBED, 0, 1), [0; REGISTER_WORDS]);
    loop {
        system_call(values::SYS_YIELD, 0, 0, [0; REGISTER_WORDS]);
    }
}

/// The program of a second thread: sends nothing to `answered`, an endpoint or a notification, for each signal of `asked`.
pub(crate) extern "C" fn answerer(asked: usize, answered: Slot) -> ! {
    loop {
        receive(asked as Slot);
        system_call(values::SYS_SEND, answered, message_info(PROBED, 0, 0), [0; REGISTER_WORDS]);
    }
}

/// Signals a notification.
pub(crate) fn signal(notification: Slot) {
    system_call(values::SYS_SEND, notification, message_info(0, 0, 0), [0; REGISTER_WORDS]);
}

/// Signals a notification by a call, which the kernel answers.
pub(crate) fn signal_by_call(notification: Slot) {
    system_call(values::SYS_CALL, notification, message_info(0, 0, 0), [0; REGISTER_WORDS]);
}

/// # Safety
///
/// `address` is mapped readable, aligned for its type, and not an object of this program.
pub(crate) unsafe fn volatile_read<T: Copy>(address: usize) -> T {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::read_volatile(address as *const T) }
}

/// # Safety
///
/// `address` is mapped writable, aligned for its type, and not an object of this program.
pub(crate) unsafe fn volatile_write<T: Copy>(address: usize, value: T) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::write_volatile(address as *mut T, value) }
}

/// Prints on the line that the build machine reads.
pub(crate) fn print(text: &str) {
    text.bytes().for_each(arch::put);
}

/// Prints a number in hexadecimal.
pub(crate) fn print_number(number: u64) {
    print("0x");
    let digits = (64 - (number | 1).leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        let value = (number >> (digit * 4) & 0xf) as usize;
        print("0123456789abcdef".get(value..=value).unwrap_or("?"));
    }
}

/// The bytes from `start` to `end`.
///
/// # Safety
///
/// Both are of one object, in this order, which nobody writes to.
pub(crate) unsafe fn between(start: *const u8, end: *const u8) -> &'static [u8] {
    // SAFETY: the caller's promise.
    unsafe { core::slice::from_raw_parts(start, end.offset_from_unsigned(start)) }
}
