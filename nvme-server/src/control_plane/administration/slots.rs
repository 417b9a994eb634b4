//! The commands of the administration: checked at the door, kept in slots until they have ended, collected or answered.
//!
//! The door accepts a command into a slot, and the control plane submits it; the data plane, which polls the queues, finds its completion.
//! Each of the three works on the slots for a moment, and none waits. Neighbours: `allow_list` knows the commands, and the parent module
//! has the control plane's part.

use super::allow_list::{self, Allowed, Bytes, Effect};
use crate::control_plane::identity::Namespace;
use crate::jobs::Job;
use crate::link::Link;
use alloc::vec::Vec;
use blk_api::administration::{
    self as api, Command, Completion, Counts, DONE, Ended, MOST_WINDOW, OUTSTANDING, Queue, Refusal, Reset, ResetKind,
    Right, Rights,
};
use blk_api::names;
use core::cell::RefCell;
use nvme_driver::dma::{DmaPool, IoSpaceMap, Window};
use nvme_driver::fault::DeviceFault;
use nvme_driver::prp::PrpLists;
use nvme_driver::queue_pair::{QueuePair, Ring};
use nvme_spec::admin::Opcode;
use nvme_spec::{Cid, Cqe, DataPointer, Nsid, Sqe};
use platform::{AbsoluteCPtr, CPtr, Cap, Environment, Kernel, Message, Notification, PAGE_BITS, Platform};

/// Entries of the I/O queues.
pub(super) const ENTRIES: u16 = 16;
const _: () = assert!(OUTSTANDING < ENTRIES as usize, "a queue never holds all of its entries");
/// Seconds that a command may take, and those that erase data: a format may go over all of the media.
const LIMIT_SECONDS: u64 = 60;
const LONG_LIMIT_SECONDS: u64 = 4 * 3600;

/// Memory of an SQ and of its CQ.
type Rings<P> = (Ring<<P as Platform>::Memory>, Ring<<P as Platform>::Memory>);

/// The administration of the controller.
pub(crate) struct Administration<P: Platform> {
    /// The asker's notification.
    asker: Cap<Notification>,
    /// Place of the caller who waits for a completion.
    caller: AbsoluteCPtr,
    pub(super) window: Window,
    window_bytes: u64,
    /// Rights that an asker may have.
    pub(crate) rights: Rights,
    pub(super) state: RefCell<State<P>>,
}

pub(super) struct State<P: Platform> {
    slots: [Option<Slot>; OUTSTANDING],
    counts: Counts,
    /// The namespaces that the server serves.
    namespaces: Vec<Namespace>,
    pub(super) lists: PrpLists<P::Memory>,
    /// Memory of the I/O queue pair, until it is made.
    pub(super) rings: Option<Rings<P>>,
    pub(super) io: Option<QueuePair<P::Memory, P::Mmio>>,
    /// The controller has the I/O queue pair.
    pub(super) has_io: bool,
    /// The identifier of the last I/O command.
    pub(super) last: Cid,
}

/// A command or a reset that is not over, or was not collected.
#[derive(Clone, Copy)]
struct Slot {
    token: u64,
    request: Request,
    /// The asker waits for it.
    is_waited_for: bool,
    stage: Stage,
}

#[derive(Clone, Copy)]
enum Stage {
    /// The control plane has not begun with it.
    Waits,
    /// The control plane is about to submit it.
    Begun,
    /// The controller has it, until this time at most.
    InFlight(Cid, u64),
    /// The controller has completed it, and the control plane has to look at the consequences.
    Completed(Completion),
    /// The control plane looks at them.
    Concluding,
    /// The completion is to be collected.
    Over(Completion),
}

/// A request that was accepted.
#[derive(Clone, Copy)]
pub(super) enum Request {
    Command(Checked),
    Reset(ResetKind),
}

/// A command that passed the checks.
#[derive(Clone, Copy)]
pub(super) struct Checked {
    pub queue: Queue,
    /// The command without its identifier and its data.
    pub sqe: Sqe,
    /// First byte of its data in the window.
    pub offset: u64,
    /// Bytes that it moves.
    pub bytes: u32,
    pub effect: Effect,
}

/// Work of the control plane.
#[derive(Clone, Copy)]
pub(super) enum Work {
    Begin(Request),
    /// Look at the consequences of a command.
    Conclude(Checked, Completion),
}

impl<P: Platform> Administration<P> {
    /// Takes the memory of the pool that it needs, and maps the asker's window for the device. A caller who waits is kept at `caller`.
    ///
    /// # Errors
    /// One sentence on what the environment lacks.
    pub(crate) fn new(
        environment: &Environment,
        config: api::Administration,
        (pool, space): (&mut DmaPool<P>, &mut IoSpaceMap<P::Kernel>),
        caller: u64,
    ) -> Result<Self, &'static str> {
        let window_bytes = config.window_bytes;
        let asker = environment.cap(names::ADMINISTRATOR).ok_or("it cannot signal its administrator")?;
        let caller = environment.absolute(CPtr::new(caller)).ok_or("it has no CNode of its own")?;
        let missing = "it lacks its administrator's window";
        let first = environment.cap(names::ADMINISTRATION_WINDOW).ok_or(missing)?;
        let pages = environment.cap_count(names::ADMINISTRATION_WINDOW);
        if window_bytes > MOST_WINDOW || u64::from(pages) << PAGE_BITS < window_bytes {
            return Err(missing);
        }
        let iova = space.reserve_window(first, window_bytes).ok_or(missing)?;
        let window = Window { first, pages, iova };
        space.map_pages(&window, 0..pages).map_err(|_| "its administrator's window cannot be mapped")?;
        let no_memory = |_: DeviceFault| "its pool is too small for administration";
        let lists = pool.take(OUTSTANDING as u64).map_err(no_memory)?;
        let lists = PrpLists::new(lists, OUTSTANDING as u16, 1).map_err(no_memory)?;
        let rings = if config.rights.has(Right::Io) {
            Some((pool.take(1).map_err(no_memory)?, pool.take(1).map_err(no_memory)?))
        } else {
            None
        };
        let state = State {
            slots: [None; OUTSTANDING],
            counts: Counts::default(),
            namespaces: Vec::new(),
            lists,
            rings,
            io: None,
            has_io: false,
            last: Cid::default(),
        };
        Ok(Self { asker, caller, window, window_bytes, rights: config.rights, state: RefCell::new(state) })
    }

    /// The calls so far.
    pub(crate) fn counts(&self) -> Counts {
        self.state.borrow().counts
    }

    /// Counts a refusal.
    pub(crate) fn refuse(&self) {
        let counts = &mut self.state.borrow_mut().counts;
        counts.refused = counts.refused.saturating_add(1);
    }

    /// Takes a completion that waits to be collected.
    pub(crate) fn collect(&self) -> Option<Completion> {
        self.state.borrow_mut().slots.iter_mut().find_map(|place| match place {
            Some(Slot { stage: Stage::Over(completion), .. }) => {
                let completion = *completion;
                *place = None;
                Some(completion)
            }
            _ => None,
        })
    }

    /// The namespaces that the server serves from now on.
    pub(crate) fn set_namespaces(&self, namespaces: &[Namespace]) {
        self.state.borrow_mut().namespaces = namespaces.to_vec();
    }

    /// Whether a command is under way with which this namespace ends.
    pub(crate) fn is_ending(&self, nsid: Nsid) -> bool {
        self.state.borrow().slots.iter().flatten().any(|slot| match (slot.request, slot.stage) {
            (Request::Command(Checked { effect, .. }), Stage::Begun | Stage::InFlight(..)) => {
                effect.ended().is_some_and(|ended| ended == Nsid::ALL || ended == nsid)
            }
            _ => false,
        })
    }

    /// Whether the controller has a command of the asker's.
    pub(crate) fn is_busy(&self) -> bool {
        self.state.borrow().slots.iter().flatten().any(|slot| matches!(slot.stage, Stage::InFlight(..)))
    }

    /// The next work of the control plane, with the place of its slot.
    pub(super) fn next_work(&self) -> Option<(usize, Work)> {
        self.state.borrow_mut().slots.iter_mut().enumerate().find_map(|(place, slot)| {
            let slot = slot.as_mut()?;
            let (work, stage) = match (slot.stage, slot.request) {
                (Stage::Waits, request) => (Work::Begin(request), Stage::Begun),
                (Stage::Completed(completion), Request::Command(checked)) => {
                    (Work::Conclude(checked, completion), Stage::Concluding)
                }
                _ => return None,
            };
            slot.stage = stage;
            Some((place, work))
        })
    }

    /// Notes that the controller has the command of this slot, until `deadline` at most.
    pub(super) fn submitted(&self, place: usize, cid: Cid, deadline: u64) {
        if let Some(Some(slot)) = self.state.borrow_mut().slots.get_mut(place) {
            slot.stage = Stage::InFlight(cid, deadline);
        }
    }

    /// Ends the request of this slot: the asker is answered, or may collect the completion that `end` makes for its token.
    pub(super) fn end(&self, kernel: &impl Kernel, place: usize, end: impl FnOnce(u64) -> Completion) {
        let mut state = self.state.borrow_mut();
        let State { slots, counts, .. } = &mut *state;
        let Some(place) = slots.get_mut(place) else { return };
        let Some(slot) = place else { return };
        counts.ended = counts.ended.saturating_add(1);
        let completion = end(slot.token);
        if slot.is_waited_for {
            *place = None;
            kernel.nb_send(CPtr::new(self.caller.index), &Message::with(DONE, &completion));
        } else {
            slot.stage = Stage::Over(completion);
            kernel.signal(self.asker);
        }
    }

    /// Notes the effect of the command of this slot, once it is known better.
    pub(super) fn set_effect(&self, place: usize, known: Effect) {
        if let Some(Some(Slot { request: Request::Command(Checked { effect, .. }), .. })) =
            self.state.borrow_mut().slots.get_mut(place)
        {
            *effect = known;
        }
    }

    /// Ends all commands that the controller had, after its confirmed reset or when it reaches the window no more. Returns the effects
    /// that they may have had.
    pub(super) fn end_all(&self, kernel: &impl Kernel) -> Vec<Effect> {
        let in_flight: Vec<(usize, Effect)> = {
            let mut state = self.state.borrow_mut();
            state.has_io = false;
            let in_flight = |(place, slot): (usize, &Option<Slot>)| match slot {
                Some(Slot { request: Request::Command(checked), stage: Stage::InFlight(..), .. }) => {
                    Some((place, checked.effect))
                }
                _ => None,
            };
            state.slots.iter().enumerate().filter_map(in_flight).collect()
        };
        let end = |(place, effect)| {
            self.end(kernel, place, |token| Completion::without_status(token, Ended::Reset));
            effect
        };
        in_flight.into_iter().map(end).collect()
    }
}

/// Accepts a command, whose caller is kept if it is waited for.
///
/// # Errors
/// [`Refusal`], and nothing has changed.
pub(crate) fn accept<P: Platform>(
    link: &Link<P>,
    administration: &Administration<P>,
    rights: Rights,
    command: &Command,
    is_waited_for: bool,
) -> Result<(), Refusal> {
    let checked = check(link, administration, rights, command)?;
    put(link, administration, Request::Command(checked), command.token, is_waited_for)
}

/// Accepts a reset.
///
/// # Errors
/// As [`accept`].
pub(crate) fn accept_reset<P: Platform>(
    link: &Link<P>,
    administration: &Administration<P>,
    rights: Rights,
    reset: &Reset,
) -> Result<(), Refusal> {
    let kind = reset.kind().ok_or(Refusal::BadRequest)?;
    if !rights.has(Right::Reset) {
        return Err(Refusal::NoRight(Right::Reset));
    }
    if kind == ResetKind::Subsystem && !link.controller.registers.cap().nssrs() {
        return Err(Refusal::NoSubsystemReset);
    }
    put(link, administration, Request::Reset(kind), reset.token, false)
}

/// Puts a request into a slot.
fn put<P: Platform>(
    link: &Link<P>,
    administration: &Administration<P>,
    request: Request,
    token: u64,
    is_waited_for: bool,
) -> Result<(), Refusal> {
    if link.controller.health.get().is_over() {
        return Err(Refusal::Device);
    }
    let mut state = administration.state.borrow_mut();
    let has_waiter = state.slots.iter().flatten().any(|slot| slot.is_waited_for);
    let Some(place) = state.slots.iter_mut().find(|place| place.is_none()).filter(|_| !(is_waited_for && has_waiter))
    else {
        return Err(Refusal::Busy);
    };
    if is_waited_for && link.platform.kernel().cnode_save_caller(administration.caller).is_err() {
        return Err(Refusal::BadRequest);
    }
    *place = Some(Slot { token, request, is_waited_for, stage: Stage::Waits });
    state.counts.accepted = state.counts.accepted.saturating_add(1);
    link.jobs.pass(Job::Administer);
    Ok(())
}

/// Checks a command: its fields, the list, the rights, its data, and whose its namespace is.
fn check<P: Platform>(
    link: &Link<P>,
    administration: &Administration<P>,
    rights: Rights,
    command: &Command,
) -> Result<Checked, Refusal> {
    let queue = command.queue().ok_or(Refusal::BadRequest)?;
    let opcode = u8::try_from(command.opcode).map_err(|_| Refusal::BadRequest)?;
    let nsid = Nsid(command.nsid);
    let [cdw2, cdw3] = command.cdw2;
    let [cdw10, cdw11, cdw12, cdw13, cdw14, cdw15] = command.cdw10;
    let sqe = Sqe::new(opcode, Cid::default(), nsid, DataPointer::NONE);
    let sqe = Sqe { cdw2, cdw3, cdw10, cdw11, cdw12, cdw13, cdw14, cdw15, ..sqe };
    let not_allowed = Refusal::NotAllowed { queue: command.queue, opcode: command.opcode, cdw10 };
    let Allowed { right, bytes, effect } = allow_list::find(queue, &sqe).ok_or(not_allowed)?;
    if !rights.has(right) {
        return Err(Refusal::NoRight(right));
    }
    let needed = match (queue, bytes) {
        (Queue::Admin, Bytes::Fixed(bytes)) => bytes,
        (_, bytes) => {
            let state = administration.state.borrow();
            let namespace = state.namespaces.iter().find(|namespace| namespace.nsid == nsid);
            let shift = namespace.ok_or(Refusal::NoNamespace(nsid.0))?.block_shift;
            match bytes {
                Bytes::Fixed(bytes) => bytes,
                Bytes::Blocks(blocks) => blocks.checked_shl(shift.into()).unwrap_or(u64::MAX),
            }
        }
    };
    let is_small = link.controller.registers.cap().max_queue_entries() < u32::from(ENTRIES);
    if queue == Queue::Io && (is_small || link.controller.granted.get() <= link.config.queue_pairs()) {
        return Err(Refusal::NoQueuePair);
    }
    let (offset, given, has) = (command.offset, u64::from(command.bytes), administration.window_bytes);
    if !offset.is_multiple_of(4) || offset.checked_add(given).is_none_or(|end| end > has) {
        return Err(Refusal::OutsideWindow { offset, bytes: given, has });
    }
    let bytes = u32::try_from(needed).ok().filter(|bytes| *bytes <= command.bytes);
    let bytes = bytes.ok_or(Refusal::TooShort { bytes: given, needed })?;
    let ended = effect.ended();
    let functions = link.config.functions.iter().map(|function| function.nsid);
    if let Some(taken) = functions.into_iter().find(|of| ended.is_some_and(|nsid| nsid == Nsid::ALL || nsid.0 == *of)) {
        return Err(Refusal::OfFunction(taken));
    }
    Ok(Checked { queue, sqe, offset, bytes, effect })
}

/// Finds completions of the asker's commands, on behalf of the data plane.
///
/// # Errors
/// Whatever is wrong with a queue.
pub(crate) fn poll<P: Platform>(link: &Link<P>) -> Result<(), DeviceFault> {
    let Some(administration) = &link.administration else { return Ok(()) };
    while let Some(cqe) = link.controller.admin.take_ended() {
        completed(link, administration, Queue::Admin, &cqe)?;
    }
    while let Some(cqe) = administration.next_io_completion()? {
        completed(link, administration, Queue::Io, &cqe)?;
    }
    Ok(())
}

/// Finds a command that took too long, at a tick.
pub(crate) fn overdue<P: Platform>(link: &Link<P>) -> Option<DeviceFault> {
    let state = link.administration.as_ref()?.state.borrow();
    let now = link.platform.ticks();
    let is_late = |slot: &Slot| matches!(slot.stage, Stage::InFlight(_, deadline) if now > deadline);
    state.slots.iter().flatten().any(is_late).then_some(DeviceFault::TimedOut)
}

/// Time at which a command that is submitted now is late.
pub(super) fn deadline<P: Platform>(link: &Link<P>, checked: &Checked) -> u64 {
    let erases = checked.queue == Queue::Admin
        && [Opcode::FormatNvm as u8, Opcode::Sanitize as u8].contains(&checked.sqe.opcode());
    let seconds = if erases { LONG_LIMIT_SECONDS } else { LIMIT_SECONDS };
    link.platform.ticks().saturating_add(link.platform.ticks_per_second().saturating_mul(seconds))
}

fn completed<P: Platform>(
    link: &Link<P>,
    administration: &Administration<P>,
    queue: Queue,
    cqe: &Cqe,
) -> Result<(), DeviceFault> {
    let completion = |token| Completion {
        token,
        result: u64::from(cqe.dw1) << 32 | u64::from(cqe.dw0),
        status: cqe.status().to_raw().into(),
        ended: Ended::Completed as u32,
    };
    let (place, has_effect) = {
        let mut state = administration.state.borrow_mut();
        let found = state.slots.iter_mut().enumerate().find_map(|(place, slot)| match slot {
            Some(Slot { token, request: Request::Command(checked), stage: stage @ Stage::InFlight(..), .. }) => {
                let is_it = checked.queue == queue && matches!(stage, Stage::InFlight(cid, _) if *cid == cqe.cid());
                let has_effect = checked.effect != Effect::None;
                if is_it && has_effect {
                    *stage = Stage::Completed(completion(*token));
                }
                is_it.then_some((place, has_effect))
            }
            _ => None,
        });
        found.ok_or(DeviceFault::UnknownCommand(cqe.cid().0))?
    };
    if has_effect {
        link.jobs.pass(Job::Administer);
    } else {
        administration.end(link.platform.kernel(), place, completion);
    }
    if link.changes.interrupts.get().is_some() && !administration.is_busy() {
        link.jobs.pass(Job::ChangeInterrupts);
    }
    Ok(())
}

impl<P: Platform> Administration<P> {
    fn next_io_completion(&self) -> Result<Option<Cqe>, DeviceFault> {
        let mut state = self.state.borrow_mut();
        let State { io: Some(pair), has_io: true, .. } = &mut *state else { return Ok(None) };
        let found = pair.complete_with_result()?;
        if found.is_some() {
            pair.ring_head()?;
        }
        Ok(found)
    }
}
