//! The components of a run. Each has a stack of its own, created when its thread first runs.

use crate::component::{Identity, SimPlatform};
use crate::coroutine::{Coroutine, Turn};
use crate::inbox::{execute, rest};
use crate::log::{self, Logger};
use crate::panics;
use crate::programs::{self, IMAGE_BYTES};
use crate::root::Root;
use crate::trace::Kind;
use crate::world::{Progress, State, World};
use platform::{CPtr, Environment, PAGE_SIZE, Vaddr};
use sim_fault::{ComponentEffect, ComponentFault};
use sim_kernel::{Access, Fault, ThreadId};
use std::any::Any;
use std::rc::Rc;

/// Upper limit on the length of an environment, in bytes; a longer one is not read.
const LONGEST_ENVIRONMENT: u64 = 1 << 20;
/// The exception of an undefined instruction.
const INVALID_OPCODE: u32 = 6;

/// All components that ran so far.
pub(crate) struct Components {
    root: Option<Root>,
    faults: Vec<ComponentFault>,
    running: Vec<Option<Running>>,
    panics: Vec<Panic>,
}

struct Running {
    coroutine: Coroutine,
    logger: Rc<Logger>,
    /// How often its thread had been started when it began.
    starts: u32,
}

/// A component that panicked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Panic {
    /// The component's name.
    pub component: String,
    /// Virtual time of the panic.
    pub at_ns: u64,
    /// The panic message, with its location.
    pub message: String,
}

impl Components {
    /// The root task is the first component; `faults` apply to the others.
    pub(crate) const fn new(root: Root, faults: Vec<ComponentFault>) -> Self {
        Self { root: Some(root), faults, running: Vec::new(), panics: Vec::new() }
    }

    /// Runs the processor until `until_ns` of virtual time.
    pub(crate) fn run(&mut self, world: &Rc<World>, until_ns: u64) -> Progress {
        loop {
            match world.next_thread(until_ns) {
                Ok(thread) => self.resume(world, thread),
                Err(progress) => return progress,
            }
        }
    }

    /// Runs `thread`, which must be runnable, until it is suspended, ends or panics.
    fn resume(&mut self, world: &Rc<World>, thread: ThreadId) {
        let starts = world.view().kernel.starts(thread);
        let place = thread.number() as usize;
        if self.running.get(place).and_then(Option::as_ref).is_none_or(|running| running.starts != starts) {
            if self.running.len() <= place {
                self.running.resize_with(place + 1, || None);
            }
            // Unwinds the stack of the incarnation before. It is dead, so nothing that it does has an effect.
            self.running[place] = None;
            match self.start(world, thread) {
                Ok(running) => self.running[place] = Some(running),
                Err(fault) => return world.outside().kernel.fault(thread, fault),
            }
        }
        let Some(running) = &mut self.running[place] else { return };
        log::speaks(Some(Rc::clone(&running.logger)));
        let turn = running.coroutine.resume();
        log::speaks(None);
        match turn {
            Turn::Suspended => {}
            // The component has finished, and so has its rest: the thread stops as after a fault.
            Turn::Ended => world.outside().kernel.fault(thread, Fault::Exception(INVALID_OPCODE)),
            Turn::Panicked(panic) => self.panicked(world, thread, &*panic),
        }
    }

    /// The components that panicked.
    pub(crate) fn panics(&self) -> &[Panic] {
        &self.panics
    }

    /// Ends a panicked component by a fault, as on the target. Records its name, the time and the message.
    fn panicked(&mut self, world: &Rc<World>, thread: ThreadId, panic: &(dyn Any + Send)) {
        let running = self.running.get(thread.number() as usize).and_then(Option::as_ref);
        let component = running.map(|running| running.logger.name.clone()).unwrap_or_default();
        let mut state = world.outside();
        let message = panics::take().unwrap_or_else(|| panics::text(panic));
        self.panics.push(Panic { component, at_ns: state.now_ns, message });
        state.note(thread, Kind::Ended, u64::from(INVALID_OPCODE));
        state.kernel.fault(thread, Fault::Exception(INVALID_OPCODE));
    }

    /// Starts the component whose image and environment `thread` was given.
    fn start(&mut self, world: &Rc<World>, thread: ThreadId) -> Result<Running, Fault> {
        if self.root.as_ref().is_some_and(|root| root.thread() == thread)
            && let Some(root) = self.root.take()
        {
            let platform = root.platform(world);
            {
                let State { kernel, machine, observer, now_ns, .. } = &mut *world.outside();
                observer.started("root-task", thread, &[], kernel, machine, *now_ns);
            }
            let logger = platform.logger();
            return Ok(Running { coroutine: coroutine(move || root.live(platform))?, logger, starts: 0 });
        }
        let (run, environment, starts) = {
            let state = world.view();
            let registers = state.kernel.registers(thread);
            let entry = Vaddr::new(registers.instruction_pointer);
            let image = read(&state, thread, entry, IMAGE_BYTES as u64, Access::Execute)?;
            let run = programs::of_image(state.machine.arch, &image).ok_or(Fault::Exception(INVALID_OPCODE))?;
            let environment = read_environment(&state, thread, Vaddr::new(registers.arguments[0]))?;
            (run, environment, state.kernel.starts(thread))
        };
        let name = environment.name.as_str().to_owned();
        let identity = Identity {
            thread,
            regions: environment.regions.clone(),
            wait: environment.wait.filter(|wait| *wait != CPtr::new(0)),
            // The first crash is in its first incarnation, the second one in the next.
            crash_at: self
                .faults
                .iter()
                .filter_map(|fault| crash_at(fault, &name))
                .nth(starts.saturating_sub(1) as usize),
            name,
        };
        let platform = SimPlatform::new(world, identity);
        let logger = platform.logger();
        let receive = environment.receive_cptr.and_then(|cptr| environment.absolute(cptr));
        {
            let State { kernel, machine, observer, now_ns, .. } = &mut *world.outside();
            kernel.set_receive_cptr(thread, receive);
            observer.started(&environment.name, thread, &environment.regions, kernel, machine, *now_ns);
        }
        for fault in self.faults.iter().filter(|fault| fault.component == environment.name.as_str()) {
            if let ComponentEffect::Slow { percent } = fault.effect {
                world.outside().slow(thread, percent);
            }
        }
        let body = move || {
            if let Some(ring) = environment.region(report::names::LOG) {
                // A ring of an impossible size leaves the component without a log, which is no reason to stop.
                let _ = platform.start_log(ring, environment.cap(report::names::LOG));
            }
            let main = run(platform.clone(), environment);
            execute(platform.inbox(), main, || platform.turn());
            platform.ended();
            rest(platform.inbox());
        };
        Ok(Running { coroutine: coroutine(body)?, logger, starts })
    }
}

/// If the build machine has no memory for the stack, the component does not start.
fn coroutine(body: impl FnOnce() + 'static) -> Result<Coroutine, Fault> {
    Coroutine::new(body).map_err(|_| Fault::Exception(INVALID_OPCODE))
}

fn crash_at(fault: &ComponentFault, name: &str) -> Option<u64> {
    match fault.effect {
        ComponentEffect::Crash { at_await } if fault.component == name => Some(at_await),
        _ => None,
    }
}

/// Reads the environment at `vaddr` of a thread's VSpace: its length in 8 bytes, little endian, then postcard.
fn read_environment(state: &State, thread: ThreadId, vaddr: Vaddr) -> Result<Environment, Fault> {
    let nonsense = Fault::Exception(INVALID_OPCODE);
    let len = read(state, thread, vaddr, 8, Access::Read)?;
    let len = len.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
    let bytes = vaddr.checked_add(8).filter(|_| len <= LONGEST_ENVIRONMENT).ok_or(nonsense)?;
    let bytes = read(state, thread, bytes, len, Access::Read)?;
    postcard::from_bytes(&bytes).map_err(|_| nonsense)
}

fn read(state: &State, thread: ThreadId, vaddr: Vaddr, len: u64, access: Access) -> Result<Vec<u8>, Fault> {
    let mut bytes = vec![0; len as usize];
    let mut at = 0;
    while at < bytes.len() {
        let vaddr = Vaddr::new(vaddr.bits().wrapping_add(at as u64));
        let end = bytes.len().min(at + PAGE_SIZE - vaddr.page_offset());
        let frame =
            state.kernel.translate(thread, vaddr, access).map_err(|_| Fault::Vm { vaddr: vaddr.bits(), access })?;
        state
            .kernel
            .memory()
            .read(frame, &mut bytes[at..end])
            .map_err(|_| Fault::Vm { vaddr: vaddr.bits(), access })?;
        at = end;
    }
    Ok(bytes)
}
