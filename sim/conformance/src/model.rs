//! Sequences on the kernel's model.
//!
//! There are no programs here: the thread that the model runs makes the next call of its part. A call that the model answers
//! at once is written into the journal only when its thread runs again, because on seL4 too another may run in between. A
//! call that waits is answered by the model's later result for the thread.

use crate::answer::{Answer, Arrived, Entry};
use crate::invoke::{CSpaceLayout, Caller};
use crate::op::{Context, HELPERS, Letter, Op, THREADS};
use crate::script::Script;
use crate::stage::{Boot, BootUntyped, Failure, HELPER_TCB, LOWEST_SIGNAL, MAPPING_AREA, OWN_TCB, Stage};
use core::cell::RefCell;
use platform::{Cap, MESSAGE_WORDS, Message, Tcb, UserContext, Vaddr};
use report::FaultKind;
use sim_kernel::{
    Access, Arch, Delivery, Fault, FaultReport, Interface, Invoker, Kernel, MachineConfig, RootTask, ThreadId,
};
use std::rc::Rc;

/// RAM of the machine, as the one in QEMU has.
const RAM: u64 = 256 << 20;
/// Steps after which a sequence counts as endless; the longest has some hundred.
const STEPS: u32 = 100_000;
/// Start address of the model's helpers. They have no program: their calls are counted in the second argument.
const START: u64 = 0x1000;
/// End of the mapping area (`platform-sel4`).
const MAPPING_AREA_END: u64 = 0x7000_0000;

/// Bytes that are no instruction on either architecture: `ud2` (Intel SDM volume 2), and `udf` (Arm DDI 0487, section
/// C6.2), whose upper half is zero.
const UNDEFINED_INSTRUCTION: [u8; 4] = [0x0f, 0x0b, 0, 0];
/// The exception's number: the x86_64 kernel reports the processor's, the AArch64 kernel of 5.0.0 none. Later ones report the syndrome:
/// an unknown reason, at an instruction of 32 bits (Arm DDI 0487, section D13.2.37).
const fn undefined_instruction(arch: Arch, interface: Interface) -> u32 {
    match (arch, interface) {
        (Arch::X86_64, _) => 6,
        (Arch::Aarch64, Interface::Old) => 0,
        (Arch::Aarch64, Interface::Current) => 1 << 25,
    }
}

/// The reason why a sequence has no journal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck(pub String);

impl From<Failure> for Stuck {
    fn from(Failure(what, error): Failure) -> Self {
        Self(error.map_or_else(|| what.to_owned(), |error| format!("{what}: {error}")))
    }
}

/// The journal of `script`, made on a new machine.
///
/// # Errors
/// [`Stuck`] when the stage cannot be set or cleared, and when the sequence does not end.
pub fn run(script: &Script) -> Result<Vec<Entry>, Stuck> {
    let machine = match script.arch {
        Arch::X86_64 => MachineConfig::q35(RAM, Vec::new()),
        Arch::Aarch64 => MachineConfig::virt(RAM, Vec::new()),
    };
    let (kernel, root) = Kernel::boot(MachineConfig { rules: script.rules, ..machine });
    if root.mapping_area.vaddr != Vaddr::new(MAPPING_AREA) {
        return Err(Stuck("the mapping area is not where sequences have it".to_owned()));
    }
    let kernel = Rc::new(RefCell::new(kernel));
    let invoker = Invoker::new(kernel.clone(), root.thread);
    let stage = Stage::build(&invoker, boot_of(&root))?;
    let lowest = start_of(HELPERS as u8 + 1, 0);
    stage.start_lowest(&invoker, &lowest)?;
    stage.begin(&invoker, script.priorities)?;
    let mut run = Run::new(kernel, &root, &stage, script)?;
    run.play()?;
    stage.end(&invoker)?;
    Ok(run.journal)
}

fn boot_of(root: &RootTask) -> Boot {
    let untyped = |untyped: &sim_kernel::BootUntyped| {
        let sim_kernel::BootUntyped { cptr, paddr, size_bits, is_device } = *untyped;
        BootUntyped { cap: cptr, paddr, size_bits, is_device }
    };
    Boot {
        untypeds: root.untypeds.iter().map(untyped).collect(),
        free_cptrs: root.free_cptrs.clone(),
        cnode: root.cnode,
        vspace: root.vspace,
        tcb: root.tcb,
        asid_pool: root.asid_pool,
        asid_control: root.asid_control,
        irq_control: root.irq_control,
        io_ports: root.io_ports,
        io_spaces: root.io_space_master,
    }
}

/// A thread's part of the sequence.
struct Part<'a> {
    thread: ThreadId,
    layout: CSpaceLayout,
    calls: &'a [Op],
    /// The number of its next call.
    next: usize,
    /// Whether the thread made that call and has not run since. With the model's answer, if it came at once.
    made: Option<Option<Answer>>,
}

struct Run<'a> {
    kernel: Rc<RefCell<Kernel>>,
    stage: &'a Stage,
    lowest: ThreadId,
    parts: Vec<Part<'a>>,
    journal: Vec<Entry>,
}

impl<'a> Run<'a> {
    fn new(kernel: Rc<RefCell<Kernel>>, root: &RootTask, stage: &'a Stage, script: &'a Script) -> Result<Self, Stuck> {
        let mut parts = Vec::with_capacity(THREADS);
        for (number, calls) in script.threads.iter().enumerate() {
            let (thread, layout) = match number.checked_sub(1).and_then(|helper| HELPER_TCB.get(helper)) {
                None => (Some(root.thread), stage.layout()),
                Some(slot) => {
                    let tcb: Cap<Tcb> = stage.layout().cap(*slot);
                    (kernel.borrow().thread_of(root.thread, tcb), Stage::helper_layout())
                }
            };
            let thread = thread.ok_or_else(|| Stuck("a helper has no thread".to_owned()))?;
            parts.push(Part { thread, layout, calls, next: 0, made: None });
        }
        let lowest = kernel.borrow().thread_of(root.thread, stage.lowest());
        let lowest = lowest.ok_or_else(|| Stuck("the lowest thread is not there".to_owned()))?;
        Ok(Self { kernel, stage, lowest, parts, journal: Vec::new() })
    }

    /// Runs the thread that the model has chosen, until the root thread has finished.
    fn play(&mut self) -> Result<(), Stuck> {
        for _ in 0..STEPS {
            if let Some(why) = self.kernel.borrow().halted() {
                return Err(Stuck(format!("the kernel stopped the machine: {why:?}")));
            }
            let current = self.kernel.borrow().current();
            let current = current.ok_or_else(|| Stuck("nobody runs".to_owned()))?;
            match self.parts.iter().position(|part| part.thread == current) {
                None if current == self.lowest => {
                    self.kernel.borrow_mut().signal(current, Cap::from_bits(u64::from(LOWEST_SIGNAL)));
                }
                None => self.run_stray(current)?,
                Some(number) => {
                    self.finish(number);
                    if !self.step(number) {
                        return Ok(());
                    }
                }
            }
        }
        Err(Stuck("the sequence does not end".to_owned()))
    }

    /// Runs a thread that a sequence made, at the address in its registers. It faults: nothing is mapped there, or an
    /// undefined instruction lies there. No sequence gives it other code.
    fn run_stray(&mut self, thread: ThreadId) -> Result<(), Stuck> {
        let mut kernel = self.kernel.borrow_mut();
        let vaddr = kernel.registers(thread).instruction_pointer;
        let Ok(paddr) = kernel.translate(thread, Vaddr::new(vaddr), Access::Execute) else {
            kernel.fault(thread, Fault::Vm { vaddr, access: Access::Execute });
            return Ok(());
        };
        let mut instruction = [0; UNDEFINED_INSTRUCTION.len()];
        if kernel.memory().read(paddr, &mut instruction).is_err() || instruction != UNDEFINED_INSTRUCTION {
            return Err(Stuck(format!("a thread runs at {vaddr:#x}, where there is no program")));
        }
        let number = undefined_instruction(kernel.arch(), kernel.rules().interface);
        kernel.fault(thread, Fault::Exception(number));
        Ok(())
    }

    /// Writes the answer to the call of part `number` into the journal, unless the call has to be made again.
    fn finish(&mut self, number: usize) {
        let Some(part) = self.parts.get_mut(number) else { return };
        let Some(known) = part.made.take() else { return };
        let delivery = self.kernel.borrow_mut().take(part.thread);
        let answer = match (delivery, known) {
            (Some(Delivery::Restart), _) => return,
            (_, Some(answer)) => answer,
            (Some(Delivery::Signal(badge)), _) => Answer::received(badge, arrived(&Message::default()), None),
            (Some(Delivery::Message(badge, message)), _) => Answer::received(badge, arrived(&message), fault(&message)),
            (Some(Delivery::Reply(message)), _) => Answer::replied(arrived(&message)),
            (Some(Delivery::Nothing) | None, _) => Answer::Nothing,
        };
        self.journal.push(Entry { thread: number as u8, index: part.next as u16, answer });
        part.next += 1;
    }

    /// Makes the next call of part `number`. Returns whether the sequence continues.
    fn step(&mut self, number: usize) -> bool {
        let Some(part) = self.parts.get_mut(number) else { return false };
        while part.calls.get(part.next) == Some(&Op::Nothing) {
            part.next += 1;
        }
        let Some(op) = part.calls.get(part.next).copied() else {
            if number == 0 {
                return false;
            }
            // The thread stops itself, and again when it is resumed. Without the capability it crashes.
            let own = Cap::from_bits(u64::from(OWN_TCB));
            let mut kernel = self.kernel.borrow_mut();
            if kernel.tcb_suspend(part.thread, own).is_err() && kernel.is_runnable(part.thread) {
                let number = undefined_instruction(kernel.arch(), kernel.rules().interface);
                kernel.fault(part.thread, Fault::Exception(number));
            }
            return true;
        };
        let made = match self.touch(number, op).or_else(|| self.communicate(number, op)) {
            Some(made) => made,
            None => self.invoke(number, op),
        };
        if let Some(part) = self.parts.get_mut(number) {
            part.made = Some(made);
        }
        true
    }

    /// Makes an access to memory. Returns the answer, or none yet after a fault; `None` for other calls.
    fn touch(&mut self, number: usize, op: Op) -> Option<Option<Answer>> {
        let (vaddr, access) = match op {
            Op::Load { vaddr } => (vaddr, Access::Read),
            Op::Store { vaddr, .. } => (vaddr, Access::Write),
            _ => return None,
        };
        if !(MAPPING_AREA..MAPPING_AREA_END).contains(&vaddr) || vaddr % 8 != 0 {
            return Some(Some(Answer::Nothing));
        }
        let thread = self.parts.get(number)?.thread;
        let mut kernel = self.kernel.borrow_mut();
        let Ok(paddr) = kernel.translate(thread, Vaddr::new(vaddr), access) else {
            kernel.fault(thread, Fault::Vm { vaddr, access });
            return Some(None);
        };
        Some(Some(match op {
            Op::Store { value, .. } => {
                let written = kernel.memory_mut().write(paddr, &value.to_le_bytes());
                written.map_or(Answer::Elsewhere, |()| Answer::Done)
            }
            _ => {
                let mut bytes = [0; 8];
                let read = kernel.memory().read(paddr, &mut bytes);
                read.map_or(Answer::Elsewhere, |()| Answer::Value(u64::from_le_bytes(bytes)))
            }
        }))
    }

    /// Makes an IPC call. Returns the answer where the kernel gives none, or none yet; `None` for other calls.
    fn communicate(&mut self, number: usize, op: Op) -> Option<Option<Answer>> {
        let Part { thread, layout, .. } = self.parts.get(number)?;
        let thread = *thread;
        let mut kernel = self.kernel.borrow_mut();
        match op {
            Op::Signal { notification } => kernel.signal(thread, layout.cap(notification)),
            Op::Send { dest, letter } => kernel.send(thread, layout.cptr(dest), &message(layout, letter)),
            Op::NbSend { dest, letter } => kernel.nb_send(thread, layout.cptr(dest), &message(layout, letter)),
            Op::Reply { letter } => kernel.reply(thread, &message(layout, letter)),
            Op::Yield => kernel.rotate(thread),
            Op::ReceiveSlot { slot } => kernel.set_receive_cptr(thread, slot.map(|slot| layout.path(slot))),
            Op::Call { endpoint, letter } => {
                kernel.call(thread, layout.cptr(endpoint), &message(layout, letter));
                return Some(None);
            }
            Op::ReplyReceive { letter, from } => {
                kernel.reply_receive(thread, &message(layout, letter), layout.cptr(from));
                return Some(None);
            }
            Op::Receive { from } => {
                kernel.receive(thread, layout.cptr(from));
                return Some(None);
            }
            Op::NbReceive { from } => {
                kernel.nb_receive(thread, layout.cptr(from));
                return Some(None);
            }
            Op::Settle => {
                kernel.receive(thread, self.stage.notification());
                return Some(None);
            }
            _ => return None,
        }
        Some(Some(Answer::Done))
    }

    fn invoke(&mut self, number: usize, op: Op) -> Option<Answer> {
        let part = self.parts.get(number)?;
        let invoker = Invoker::new(self.kernel.clone(), part.thread);
        let caller = Caller { layout: &part.layout, ground: &self.stage.ground, helper: &start_of };
        let answer = caller.invoke(&invoker, &op).or_else(|| caller.read_port(&invoker, &op));
        if let Op::WriteRegisters { context: Context::Helper(helper, call), .. } = op {
            self.restart(helper, call);
        }
        answer
    }

    /// Continues a helper at its call `call`, if its registers are set to that.
    fn restart(&mut self, helper: u8, call: u16) {
        let Some(part) = self.parts.get_mut(usize::from(helper)) else { return };
        if self.kernel.borrow().registers(part.thread) == start_of(helper, call) {
            part.next = usize::from(call);
            part.made = None;
            // Drop the result of its previous call.
            self.kernel.borrow_mut().take(part.thread);
        }
    }
}

/// The registers with which a helper starts at its call `call`.
fn start_of(helper: u8, call: u16) -> UserContext {
    UserContext {
        instruction_pointer: START,
        stack_pointer: Stage::stack_top(usize::from(helper)).bits(),
        arguments: [u64::from(helper), u64::from(call), 0],
    }
}

fn message(layout: &CSpaceLayout, letter: Letter) -> Message {
    let words: [u64; MESSAGE_WORDS] = core::array::from_fn(|index| letter.first.wrapping_add(index as u64));
    let words = words.get(..usize::from(letter.words)).unwrap_or(&words);
    let message = Message::from_words(u32::from(letter.label), words);
    match letter.cap {
        Some(cap) => message.and_cap(layout.cptr(cap)),
        None => message,
    }
}

fn arrived(message: &Message) -> Arrived<'_> {
    Arrived { label: message.label, words: message.words(), cap: message.cap_received }
}

fn fault(message: &Message) -> Option<(FaultKind, u64)> {
    let FaultReport { fault, .. } = FaultReport::decode(message)?;
    Some(match fault {
        Fault::Vm { vaddr, access: Access::Read } => (FaultKind::Read, vaddr),
        Fault::Vm { vaddr, access: Access::Write } => (FaultKind::Write, vaddr),
        Fault::Vm { vaddr, access: Access::Execute } => (FaultKind::Execute, vaddr),
        Fault::Capability { cptr, .. } => (FaultKind::Capability, cptr.bits()),
        Fault::UnknownSyscall(number) => (FaultKind::UnknownSyscall, number),
        Fault::Exception(number) => (FaultKind::Exception(u64::from(number)), 0),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::Topic;
    use crate::stage::SETTLED;
    use platform::Badge;

    #[test]
    fn a_root_thread_that_waits_alone_is_reported() {
        let mut script = Script::new(Topic::Threads, "alone");
        script.then(Op::Settle);
        let Badge(settled) = SETTLED;
        let expected = Entry { thread: 0, index: 0, answer: Answer::Signal(settled) };
        assert_eq!(run(&script), Ok(vec![expected]));
    }
}
