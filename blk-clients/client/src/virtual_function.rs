//! The function path: the client drives a virtual function of the controller by a queue pair of its own.
//!
//! An entry that one command can do without a list of PRPs becomes that command at once. Every other entry goes through a
//! backlog, where it is checked, cut into commands and submitted as far as there is room. The checks are those of the
//! server, so both paths answer a request with the same status. They protect nobody else: the function's namespace is the
//! session's alone, and its address space has only the session's memory.
//!
//! Neighbours: `opening` brings the function up; queue pair, engine and bring-up are those of `nvme-driver`, with which the NVMe server
//! drives its function. A function whose controller was reset, by the NVMe server's successor for instance, is
//! brought up again, and unanswered requests are submitted again. While the function is withdrawn from the client, requests are
//! answered here, and it is asked for again now and then ([`VirtualFunction::withdraw`]). A function that is silent with commands in
//! flight is brought up again, too ([`silence`]). In a scenario with telemetry all entries go the general way, where they are counted
//! ([`mod@telemetry`]). Left out: a limit on interrupts.

use crate::virtual_function::backlog::Backlog;
use crate::virtual_function::silence::Silence;
use crate::virtual_function::telemetry::{Extent, Id, Telemetry};
use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::request::{Bounds, Entry, Opcode, Simple};
use blk_api::ring::Completed;
use core::convert::Infallible;
use nvme_driver::command::{self, Abilities, Target};
use nvme_driver::cursor::{CommandLimits, Run};
use nvme_driver::prp;
use nvme_driver::queue::Queue;
use nvme_driver::silence::limit_seconds;
use nvme_driver::{DeviceFault, Engine, Line, Registers, RetryDelays};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, Lba};
use platform::{Cap, Endpoint, Environment, Kernel, Platform};

mod backlog;
mod opening;
mod silence;
mod telemetry;

/// Polls in a row without a completion after which the controller's status is read.
const POLLS_IN_VAIN: u32 = 4096;
/// Polls before a sleep, each after an event, after which the controller's status is read.
const WAKES_IN_VAIN: u32 = 8;
/// Polls of a wait, at most.
const POLLS: u32 = 32;
/// Pauses after each of them. Those of a wait are some ten microseconds, about the time of a fast command. The controller works without
/// any other component, so a yield after each poll would bring nothing.
const PAUSES_A_POLL: u32 = 2;
/// Of so many waits that end with a completion one yields: others of the client's priority run, too.
const WAITS_A_YIELD: u32 = 16;
/// Milliseconds between two attempts to have a withdrawn function again.
const WITHDRAWN_MS: u64 = 50;
/// Commands after which the doorbell is rung without being asked for: the controller works on them while the client goes on.
const RING_AFTER: u32 = 8;

/// A virtual function that takes commands.
pub(crate) struct VirtualFunction<P: Platform> {
    platform: P,
    environment: Rc<Environment>,
    /// The PCI server.
    pci: Cap<Endpoint>,
    controller: Registers<P::Mmio>,
    /// The queue pair. Each command has a word: the user data of its request, or the request's place at the engine and its operation
    /// ([`Part`]).
    queue: Queue<P, u64, Served>,
    target: Target,
    bounds: Bounds,
    /// The bounds of requests that are one command.
    small: Bounds,
    limits: CommandLimits,
    abilities: Abilities,
    /// Delays before retries.
    delays: RetryDelays,
    /// Interrupts that stay masked until they are acknowledged.
    masked_lines: Vec<Line>,
    engine: Engine,
    backlog: Backlog,
    /// Entries become commands at once: none waits before them, and they are not counted for telemetry.
    is_plain: bool,
    /// The statistics and the trace, in a scenario with telemetry.
    telemetry: Option<Box<Telemetry<P>>>,
    /// Polls since the last completion.
    in_vain: u32,
    /// Waits for completions that ended with one.
    waits: u32,
    /// Commands until the doorbell is rung without being asked for.
    until_ring: u32,
    /// Writes of the tail doorbell.
    doorbells: u64,
    silence: Silence,
    /// While it is withdrawn, the time in ticks at which it is asked for again.
    withdrawn: Option<u64>,
    /// The last completion of a command that was no success of a whole request.
    rest: Ended,
    /// The last completion that [`Taken::Other`] reported.
    other: Completed,
    /// The last fault.
    fault: DeviceFault,
}

/// The function failed: [`VirtualFunction::fault`] has the reason, so that a result fits into registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Failed;

/// What [`VirtualFunction::complete`] took, beside the user data: both are returned in registers, so that a caller with rings and no
/// function does not write its own completions to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    /// The completion of a request that succeeded.
    Success,
    /// The completion that [`VirtualFunction::other`] has, user data included.
    Other,
    /// There is none.
    Nothing,
    /// The function failed, as [`Failed`] says.
    Failed,
}

/// The part of a request that a command serves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Served {
    /// The whole of a request.
    Whole,
    /// The whole of a request that is counted for telemetry.
    Counted,
    /// A part of one that is pending at the engine.
    Part,
}

/// A command that ended: its identifier, its word, its part of a request, its status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ended {
    cid: Cid,
    word: u64,
    served: Served,
    status: nvme_spec::Status,
}

impl Ended {
    /// An end that stands where there was none yet.
    const NONE: Self = Self { cid: Cid::NONE, word: 0, served: Served::Whole, status: nvme_spec::Status::SUCCESS };
}

/// The request that a command serves a part of, by its place at the engine, and the request's operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    place: u16,
    opcode: Opcode,
}

impl Part {
    fn word(self) -> u64 {
        u64::from(self.opcode as u8) << 16 | u64::from(self.place)
    }

    fn of(word: u64) -> Self {
        // The word was made of one.
        Self { place: word as u16, opcode: Opcode::from_raw((word >> 16) as u8).unwrap_or(Opcode::Flush) }
    }
}

impl<P: Platform> VirtualFunction<P> {
    /// The environment by which it was brought up.
    pub(crate) fn environment(&self) -> Rc<Environment> {
        Rc::clone(&self.environment)
    }

    /// The PCI server, which gave the function.
    pub(crate) const fn pci(&self) -> Cap<Endpoint> {
        self.pci
    }

    /// Takes an entry; `false` when there is no room for it. The controller sees it after [`VirtualFunction::ring`].
    ///
    /// # Errors
    /// [`Failed`]: [`DeviceFault::OwnMemory`], a defect.
    // Apart from its caller, so that callers with rings contain little code.
    #[inline(never)]
    pub(crate) fn submit(&mut self, entry: &Entry) -> Result<bool, Failed> {
        if self.is_plain && self.submit_simple(entry, Served::Whole).is_some() {
            return self.ring_if_due();
        }
        self.submit_other(entry)
    }

    /// Submits an entry that one command can do without a list of PRPs. `None` if it is another, or without room for it.
    #[inline(always)]
    fn submit_simple(&mut self, entry: &Entry, served: Served) -> Option<(Cid, Simple)> {
        // Everything that can fail comes before the command's place is taken.
        let simple = entry.simple(&self.small)?;
        let Simple { opcode, lba, blocks, user_data, segment } = simple;
        let blocks = Blocks::below(Lba(lba), blocks, Lba(self.small.blocks))?;
        let start = self.target.window.checked_add(u64::from(segment.offset))?;
        let data = prp::without_list(start, segment.len)?;
        let cid = self.queue.commands.reserve(user_data, served)?.spend();
        let sqe = if opcode == Opcode::Read {
            nvm::read(cid, self.target.nsid, blocks, data)
        } else {
            nvm::write(cid, self.target.nsid, blocks, data)
        };
        self.queue.pair.submit(&sqe);
        Some((cid, simple))
    }

    /// Rings after a simple entry, if enough of them were submitted.
    #[inline(always)]
    fn ring_if_due(&mut self) -> Result<bool, Failed> {
        self.until_ring = self.until_ring.wrapping_sub(1);
        if self.until_ring == 0
            && let Err(fault) = self.ring()
        {
            return Err(self.fail(fault));
        }
        Ok(true)
    }

    /// Rings for the submitted commands.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`]: a defect.
    #[inline(always)]
    pub(crate) fn ring(&mut self) -> Result<(), DeviceFault> {
        self.until_ring = RING_AFTER;
        if self.queue.pair.ring()? {
            self.doorbells = self.doorbells.wrapping_add(1);
            if let Some(telemetry) = &mut self.telemetry {
                telemetry.rang();
            }
        }
        Ok(())
    }

    /// The delays that the controller states before retries.
    pub(crate) const fn retry_delays(&self) -> RetryDelays {
        self.delays
    }

    /// Writes of the tail doorbell.
    pub(crate) const fn doorbells(&self) -> u64 {
        self.doorbells
    }

    /// Takes the next completion of a command: its user data, if it succeeded and did all of its request. After anything else
    /// [`VirtualFunction::go_on`] finds out what became of a request.
    #[inline(never)]
    pub(crate) fn complete(&mut self) -> (u64, Taken) {
        // No calls: it needs no stack.
        match self.take() {
            Ok(Some(Ended { word, served: Served::Whole, status, .. })) if status.is_success() => {
                (word, Taken::Success)
            }
            Ok(Some(rest)) => {
                self.rest = rest;
                (0, Taken::Other)
            }
            Ok(None) => (0, Taken::Nothing),
            Err(fault) => self.failed(fault),
        }
    }

    /// Goes on after [`VirtualFunction::complete`] took anything but a success.
    #[inline(never)]
    pub(crate) fn go_on(&mut self, taken: Taken) -> Taken {
        match taken {
            Taken::Success | Taken::Failed => taken,
            Taken::Other => self.complete_other(self.rest),
            Taken::Nothing => self.found_nothing(),
        }
    }

    /// The completion that [`Taken::Other`] stands for.
    #[cold]
    pub(crate) const fn other(&self) -> Completed {
        self.other
    }

    /// Takes the next completion of a command.
    #[inline(always)]
    fn take(&mut self) -> Result<Option<Ended>, DeviceFault> {
        let Some(end) = self.queue.pair.complete()? else { return Ok(None) };
        let (word, served) = self.queue.commands.complete(end.cid())?;
        Ok(Some(Ended { cid: end.cid(), word: *word, served, status: end.status() }))
    }

    /// Goes on after the completion of a command that failed, is counted, or is not all of its request.
    #[inline(never)]
    fn complete_other(&mut self, ended: Ended) -> Taken {
        let mut ended = ended;
        loop {
            if let Some(completed) = self.completed(ended) {
                return self.took(completed);
            }
            match self.take() {
                Ok(Some(next)) => ended = next,
                Ok(None) => return self.found_nothing(),
                Err(fault) => return self.failed(fault).1,
            }
        }
    }

    fn took(&mut self, completed: Completed) -> Taken {
        self.other = completed;
        Taken::Other
    }

    /// The fault for which it [`Failed`].
    #[cold]
    pub(crate) const fn fault(&self) -> DeviceFault {
        self.fault
    }

    // Inlined, so that the fault is not passed by the stack: a caller's usual way then needs none.
    #[inline(always)]
    fn fail(&mut self, fault: DeviceFault) -> Failed {
        self.fault = fault;
        Failed
    }

    #[inline(always)]
    fn failed(&mut self, fault: DeviceFault) -> (u64, Taken) {
        self.fault = fault;
        (0, Taken::Failed)
    }

    /// Publishes which completions were taken, to the controller.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`]: a defect.
    #[inline(always)]
    pub(crate) fn publish_taken(&mut self) -> Result<(), DeviceFault> {
        if self.queue.pair.ring_head()? {
            self.in_vain = 0;
            self.silence.ends();
            if let Some(telemetry) = &mut self.telemetry {
                telemetry.published();
            }
        }
        Ok(())
    }

    /// Pauses until a command is completed, or for some microseconds. Returns whether the client is to yield.
    #[inline(never)]
    pub(crate) fn pause(&mut self) -> bool {
        for _ in 0..POLLS {
            if self.queue.pair.has_completion() {
                self.waits = self.waits.wrapping_add(1);
                return self.waits.is_multiple_of(WAITS_A_YIELD);
            }
            (0..PAUSES_A_POLL).for_each(|_| self.platform.pause());
        }
        true
    }

    /// Prepares for a sleep until the next interrupt. Returns whether there are completions already.
    ///
    /// # Errors
    /// [`DeviceFault`]: the controller failed.
    pub(crate) fn prepare_sleep(&mut self) -> Result<bool, DeviceFault> {
        let kernel = self.platform.kernel();
        for line in &self.masked_lines {
            match line {
                // Without its acknowledgement the next event comes from elsewhere, and it is acknowledged again.
                Line::Own(handler) => {
                    let _ = kernel.irq_handler_ack(*handler);
                }
                Line::Shared(resume) => kernel.signal(*resume),
            }
        }
        if self.withdrawn.is_none() && self.in_vain >= WAKES_IN_VAIN {
            self.in_vain = 0;
            self.check()?;
        }
        let is_ready = !self.backlog.answers.is_empty() || self.queue.pair.has_completion();
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.sleeps(!is_ready);
        }
        Ok(is_ready)
    }

    /// The session is closed: the last statistics are written.
    pub(crate) fn close(&mut self) {
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.ends();
        }
    }

    /// Forbids all requests from now on, and forgets those in flight: the function is not the client's any more, and its registers
    /// must not be accessed. After a while it fails as if it had been reset, so that it is opened again.
    ///
    /// # Errors
    /// [`DeviceFault::OwnMemory`]: a defect.
    pub(crate) fn withdraw(&mut self) -> Result<(), DeviceFault> {
        let pause = self.platform.ticks_per_second().saturating_mul(WITHDRAWN_MS) / 1000;
        self.withdrawn = Some(self.platform.ticks().saturating_add(pause));
        self.queue.pair.reset()?;
        self.backlog.forget();
        self.is_plain = false;
        self.close();
        // Requests that were begun are answered by the session, and those of the next opening have an engine of their own.
        self.engine.cut_short(Status::Forbidden);
        Ok(())
    }

    /// Takes an entry whose command needs a list, that is no single command, that has no room now, or that is counted.
    #[inline(never)]
    fn submit_other(&mut self, entry: &Entry) -> Result<bool, Failed> {
        if self.withdrawn.is_some() {
            let has_room = self.backlog.has_room_for_answer();
            if has_room {
                self.backlog.answer(entry.user_data, Status::Forbidden);
                self.telemetry.iter_mut().for_each(|telemetry| telemetry.forbidden());
            }
            return Ok(has_room);
        }
        if self.telemetry.is_some()
            && !self.is_behind()
            && let Some((cid, simple)) = self.submit_simple(entry, Served::Counted)
        {
            let id = self.id(cid);
            self.telemetry.iter_mut().for_each(|telemetry| telemetry.submitted(id, &simple));
            return self.ring_if_due();
        }
        if !self.backlog.has_room() {
            return Ok(false);
        }
        self.backlog.entries.push_back(*entry);
        self.catch_up().map_err(|fault| self.fail(fault))?;
        Ok(true)
    }

    /// Submits as much of the backlog as there is room for.
    #[inline(never)]
    fn catch_up(&mut self) -> Result<(), DeviceFault> {
        while self.queue.commands.has_room() {
            if !self.engine.is_cutting() {
                let Some(entry) = self.backlog.next() else { break };
                self.begin(&entry)?;
                continue;
            }
            self.submit_commands()?;
        }
        self.is_plain = self.telemetry.is_none() && !self.is_behind();
        Ok(())
    }

    /// Whether there are entries in the backlog, one of them partly submitted or none.
    fn is_behind(&self) -> bool {
        self.engine.is_cutting() || !self.backlog.entries.is_empty()
    }

    /// A command's identifier, and its number among those in flight.
    fn id(&self, cid: Cid) -> Id {
        Id { place: self.queue.commands.place(cid), cid }
    }

    /// Begins a request, or answers it at once.
    fn begin(&mut self, entry: &Entry) -> Result<(), DeviceFault> {
        let answer = match entry.check(&self.bounds) {
            Ok(request) => match self.abilities.answer_now(request.opcode()) {
                None => {
                    let place = self.engine.begin(request, entry.user_data)?;
                    if let Some(telemetry) = &mut self.telemetry {
                        let blocks = request.access().map_or(0, |access| access.blocks);
                        telemetry.taken(place, &request, blocks << self.bounds.block_shift);
                    }
                    return Ok(());
                }
                Some(answer) => answer,
            },
            Err(status) => {
                self.telemetry.iter_mut().for_each(|telemetry| telemetry.failed_check());
                status
            }
        };
        self.backlog.answer(entry.user_data, answer);
        self.telemetry.iter_mut().for_each(|telemetry| telemetry.refused(answer));
        Ok(())
    }

    /// Submits commands for the request that is being cut until it is done, or there is no room.
    fn submit_commands(&mut self) -> Result<(), DeviceFault> {
        while let Some(opcode) = self.engine.to_submit() {
            if !self.queue.commands.has_room() {
                return Ok(());
            }
            // The namespace is the session's, so its blocks have the same numbers there.
            let here = |_, lba, blocks| Ok::<_, Infallible>(Run { lba, blocks });
            let Ok(next) = self.engine.next(here, self.abilities.limits(opcode, self.limits));
            let (piece, place) = next.ok_or(DeviceFault::OwnMemory)?;
            let bytes = piece.blocks << self.bounds.block_shift;
            let extent = Extent { first: piece.first, blocks: piece.blocks, bytes };
            let word = Part { place, opcode }.word();
            let cid = self.queue.submit(&self.target, opcode, piece, bytes, word, Served::Part)?;
            let id = self.id(cid);
            self.telemetry.iter_mut().for_each(|telemetry| telemetry.submitted_part(id, opcode, &extent, place));
        }
        self.backlog.answers.extend(self.engine.end(Status::Success).map(Completed::from));
        Ok(())
    }

    /// The answer to the request of a completed command, if it was its last one.
    fn completed(&mut self, Ended { cid, word, served, status: ended }: Ended) -> Option<Completed> {
        let id = self.id(cid);
        match served {
            Served::Whole | Served::Counted => {
                self.telemetry.iter_mut().for_each(|telemetry| telemetry.completed(id, ended));
                // Only reads and writes are one command.
                let (status, device_status) = outcome(Opcode::Read, ended);
                Some(Completed { user_data: word, status: status as u16, device_status, reserved: 0 })
            }
            Served::Part => {
                let Part { place, opcode } = Part::of(word);
                let (status, device_status) = outcome(opcode, ended);
                let answer = self.engine.pending.end_one(place, status, device_status);
                let status = answer.map(|answer| answer.status);
                self.telemetry.iter_mut().for_each(|telemetry| telemetry.completed_part(id, ended, place, status));
                answer.map(Completed::from)
            }
        }
    }

    /// Takes an answer that needed no command, after all completions were taken. Submits what waited for room, and has the
    /// controller checked now and then.
    #[inline(never)]
    fn found_nothing(&mut self) -> Taken {
        if let Err(fault) = self.catch_up_if_behind() {
            return self.failed(fault).1;
        }
        match self.backlog.answers.pop_front() {
            Some(completed) => self.took(completed),
            None => Taken::Nothing,
        }
    }

    fn catch_up_if_behind(&mut self) -> Result<(), DeviceFault> {
        // A caller that received no completion need not call `publish_taken`. A withdrawn function has none to publish.
        self.publish_taken()?;
        if !self.is_plain {
            if let Some(telemetry) = &mut self.telemetry {
                telemetry.look(self.backlog.entries.len());
            }
            if let Some(until) = self.withdrawn {
                let is_over = self.backlog.answers.is_empty() && self.platform.ticks() >= until;
                return if is_over { Err(DeviceFault::NotReady) } else { Ok(()) };
            }
            self.catch_up()?;
            self.ring()?;
        }
        self.in_vain = self.in_vain.wrapping_add(1);
        if self.in_vain.is_multiple_of(POLLS_IN_VAIN) {
            self.check()?;
        }
        Ok(())
    }

    /// Checks the controller, and how long it has been silent.
    ///
    /// # Errors
    /// [`DeviceFault::TimedOut`], or what its status shows.
    #[cold]
    fn check(&mut self) -> Result<(), DeviceFault> {
        let mut parts = self.queue.commands.tags_mut().map(|(_, served)| *served == Served::Part);
        let limit = parts.next().map(|first| limit_seconds(first || parts.any(|is_part| is_part)));
        let (now, rate) = (self.platform.ticks(), self.platform.ticks_per_second());
        let checked = self.controller.check().and_then(|_| self.silence.check(limit, now, rate));
        checked.inspect_err(|fault| self.fault = *fault)
    }
}

/// The status with which a command answers its request, and the controller's. One that the controller asks for again has failed here:
/// the request is made again (`device::retries`).
fn outcome(opcode: Opcode, status: nvme_spec::Status) -> (Status, u16) {
    match status.without_more() {
        status if status.is_success() => (Status::Success, 0),
        // A discard is a hint, and done if it is not done at once.
        status if status.asks_for_retry() && opcode != Opcode::Discard => (Status::DeviceError, status.to_raw()),
        status => (command::failure(opcode, status), status.to_raw()),
    }
}
