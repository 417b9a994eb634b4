//! The statistics and the trace of a client with a function, in memory that the build machine reads.
//!
//! The layouts are those of a session at an NVMe server ([`blk_api::telemetry`], [`blk_api::trace`]). A turn begins with the first
//! request since the doorbell was rung, and latencies count from there; a client that takes longer begins another turn. Completions
//! that are taken together are counted to one time. In a function without telemetry the usual way of a request has nothing of this.
//!
//! Left out: the client's own part of a request, before it submits it and after it took the answer.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::Class;
use blk_api::request::{Opcode, Request, Simple};
use blk_api::telemetry::{FUNCTION_PAGE, FUNCTION_TRACE_PAGE, Session};
use blk_api::trace::{Event, Kinds, Tracer, What};
use core::mem::offset_of;
use nvme_spec::{Cid, QueueId};
use platform::{Environment, Memory, PAGE_SIZE, Platform};
use telemetry::TELEMETRY;
use telemetry::page::{CONTENTS, Writer};
use workload::Client;

/// The most writings of the page in a second: somewhat more than ticks, of which none is to come too early.
const WRITINGS: u64 = 25;
/// Turns of the longest length in a second.
const TURNS: u64 = 50_000;

/// A command in flight.
#[derive(Clone, Copy)]
pub(super) struct Command {
    /// Time from which its request is counted, if it is the whole of one.
    began: u64,
    /// Bytes of its blocks.
    bytes: u32,
    opcode: Opcode,
}

impl Command {
    /// A command of a place that had none.
    const NONE: Self = Self { began: 0, bytes: 0, opcode: Opcode::Flush };
}

/// A command's number among those in flight, and its identifier.
#[derive(Clone, Copy)]
pub(super) struct Id {
    pub(super) place: u16,
    pub(super) cid: Cid,
}

/// The blocks of a command that is a part of a request, as the session numbers them, and their bytes.
pub(super) struct Extent {
    pub(super) first: u64,
    pub(super) blocks: u32,
    pub(super) bytes: u32,
}

/// The statistics and the trace.
pub(super) struct Telemetry<P: Platform> {
    clock: P,
    queue: QueueId,
    page: Writer<P::Memory>,
    contents: Session,
    /// The commands in flight, by place.
    commands: Vec<Command>,
    /// By place at the engine, the time from which a request is counted.
    taken: Vec<u64>,
    /// Time at which the turn began.
    turn: Option<u64>,
    /// Time of the completions that are being taken.
    found: Option<u64>,
    /// Answers so far.
    answers: u32,
    /// The client sleeps until an interrupt.
    sleeps: bool,
    /// Time from which on the page is written again.
    next_writing: u64,
    trace: Option<Box<Tracer<P>>>,
}

impl<P: Platform> Telemetry<P> {
    /// The telemetry of a function that was brought up, with a queue pair for `depth` commands and an engine for so many requests.
    /// `None` in a scenario without.
    #[inline(never)]
    pub(super) fn new(
        clock: &P,
        environment: &Environment,
        queue: QueueId,
        depth: u16,
        requests: u16,
    ) -> Option<Box<Self>> {
        let region = environment.region(TELEMETRY)?;
        let memory = clock.memory(region).ok()?;
        let page = FUNCTION_PAGE.checked_mul(PAGE_SIZE)?.checked_add(CONTENTS)?;
        let openings = memory.load_acquire_u32(page.checked_add(offset_of!(Session, openings))?).ok()?;
        let client = environment.config::<Client>();
        let class = client.as_ref().and_then(|one| Class::ALL.into_iter().find(|class| class.name() == one.class));
        let traced = client.as_ref().map_or(Kinds::ALL, |client| Kinds(client.traced));
        let trace_pages = (memory.len() / PAGE_SIZE).saturating_sub(FUNCTION_TRACE_PAGE);
        let mut trace = Tracer::new(clock, region, FUNCTION_TRACE_PAGE, trace_pages, traced);
        if let Some(trace) = &mut trace {
            trace.mark(What::Opened, 0);
        }
        let now = clock.ticks();
        let contents = Session {
            opened_at: now,
            openings: openings.wrapping_add(1),
            is_open: 1,
            class: class.map_or(u32::MAX, Class::number),
            queue_pairs: 1,
            ..Session::default()
        };
        let mut telemetry = Box::new(Self {
            clock: clock.clone(),
            queue,
            page: Writer::new(memory, FUNCTION_PAGE).ok()?,
            contents,
            commands: vec![Command::NONE; usize::from(depth)],
            taken: vec![0; usize::from(requests)],
            turn: None,
            found: None,
            answers: 0,
            sleeps: false,
            next_writing: now,
            trace,
        });
        telemetry.look(0);
        Some(telemetry)
    }

    /// A read or write was submitted as one command.
    pub(super) fn submitted(&mut self, id: Id, request: &Simple) {
        let now = self.clock.ticks();
        let Simple { opcode, lba, blocks, segment, .. } = *request;
        let began = self.turn(now);
        self.count_command(id, Command { began, bytes: segment.len, opcode });
        self.contents.sums.requests = self.contents.sums.requests.wrapping_add(1);
        if let Some(trace) = &mut self.trace {
            trace.submitted(&if trace.has(opcode) {
                Event::at(What::Whole, now, opcode, lba, [id.cid.0, blocks.wrapping_sub(1) as u16, now as u16])
            } else {
                Event::of(What::Skipped, 0, [0; 3])
            });
        }
    }

    /// A request was taken, to be cut into commands. Its blocks have `bytes`.
    pub(super) fn taken(&mut self, place: u16, request: &Request, bytes: u32) {
        let now = self.clock.ticks();
        let began = self.turn(now);
        if let Some(taken) = self.taken.get_mut(usize::from(place)) {
            *taken = began;
        }
        self.contents.sums.requests = self.contents.sums.requests.wrapping_add(1);
        let (opcode, first) = (request.opcode(), request.access().map_or(0, |access| access.lba));
        if let Some(trace) = &mut self.trace {
            trace.write(&if trace.has(opcode) {
                Event::at(What::Taken, now, opcode, first, [place, bytes as u16, bytes.wrapping_shr(16) as u16])
            } else {
                Event::of(What::Skipped, 0, [0; 3])
            });
        }
    }

    /// A command of the request in `place` was submitted.
    pub(super) fn submitted_part(&mut self, id: Id, opcode: Opcode, extent: &Extent, place: u16) {
        let now = self.clock.ticks();
        self.turn(now);
        self.count_command(id, Command { began: 0, bytes: extent.bytes, opcode });
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.has(opcode)) {
            let blocks_z = extent.blocks.wrapping_sub(1) as u16;
            trace.write(&Event::at(What::Part, now, opcode, extent.first, [id.cid.0, blocks_z, place]));
        }
    }

    /// A request was answered without a command.
    pub(super) fn refused(&mut self, status: Status) {
        let now = self.clock.ticks();
        self.turn(now);
        self.contents.sums.requests = self.contents.sums.requests.wrapping_add(1);
        let number = self.answers as u16;
        self.answers = self.answers.wrapping_add(1);
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::Refused, now, [0, number, status as u16]));
            trace.mark(What::Answered, self.answers);
        }
    }

    /// A request was refused by a check.
    pub(super) fn failed_check(&mut self) {
        self.contents.sums.refused = self.contents.sums.refused.wrapping_add(1);
    }

    /// A request was forbidden, because the function is withdrawn.
    pub(super) fn forbidden(&mut self) {
        let sums = &mut self.contents.sums;
        (sums.requests, sums.forbidden) = (sums.requests.wrapping_add(1), sums.forbidden.wrapping_add(1));
    }

    /// The tail doorbell was rung.
    #[cold]
    pub(super) fn rang(&mut self) {
        self.turn = None;
        self.contents.sums.doorbells = self.contents.sums.doorbells.wrapping_add(1);
        if let Some(trace) = &mut self.trace {
            trace.mark(What::Rung, self.answers);
        }
    }

    /// The client sleeps until an interrupt, unless there is something to take.
    pub(super) const fn sleeps(&mut self, sleeps: bool) {
        self.sleeps = sleeps;
    }

    /// The command of a whole request was completed, which answers it.
    pub(super) fn completed(&mut self, id: Id, status: nvme_spec::Status) {
        let (now, command) = self.count_completion(id, status);
        let number = self.answers as u16;
        self.answers = self.answers.wrapping_add(1);
        if status.is_success() {
            self.contents.record(command.opcode.kind(), now.wrapping_sub(command.began), 1);
        }
        match &mut self.trace {
            Some(trace) if status.is_success() => trace.completed(id.cid.0),
            Some(trace) => trace.write(&Event::of(What::Completed, now, [id.cid.0, self.queue.0, number])),
            None => {}
        }
    }

    /// A command of the request in `place` was completed. `answer` is the request's, if that was its last command.
    pub(super) fn completed_part(&mut self, id: Id, status: nvme_spec::Status, place: u16, answer: Option<Status>) {
        let (now, command) = self.count_completion(id, status);
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::PartCompleted, now, [id.cid.0, self.queue.0, place]));
        }
        let Some(answer) = answer else { return };
        if status.is_success()
            && let Some(taken) = self.taken.get(usize::from(place))
        {
            self.contents.record(command.opcode.kind(), now.wrapping_sub(*taken), 1);
        }
        let number = self.answers as u16;
        self.answers = self.answers.wrapping_add(1);
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::Ended, trace.now(), [place, number, answer as u16]));
        }
    }

    /// The completions so far were taken, and the head doorbell was rung.
    #[cold]
    pub(super) fn published(&mut self) {
        self.found = None;
        self.contents.sums.doorbells = self.contents.sums.doorbells.wrapping_add(1);
        if let Some(trace) = &mut self.trace {
            trace.mark(What::Answered, self.answers);
        }
    }

    /// Writes the page if it is time for that; so many entries wait for room.
    pub(super) fn look(&mut self, waiting: usize) {
        let now = self.clock.ticks();
        if now >= self.next_writing {
            self.contents.in_ring = waiting as u32;
            self.write(now);
        }
    }

    /// The function is closed, or withdrawn: nothing is in flight.
    pub(super) fn ends(&mut self) {
        (self.turn, self.found, self.sleeps) = (None, None, false);
        (self.contents.is_open, self.contents.in_ring, self.contents.in_device) = (0, 0, 0);
        self.write(self.clock.ticks());
    }

    fn write(&mut self, now: u64) {
        let pause = self.clock.ticks_per_second().checked_div(WRITINGS).unwrap_or_default();
        self.next_writing = now.saturating_add(pause);
        self.contents.written_at = now;
        // The page is as long as its contents.
        let _ = self.page.write(&self.contents);
        self.contents.peaks = [0; 2];
    }

    /// The time of the turn to which something belongs that happens `now`.
    fn turn(&mut self, now: u64) -> u64 {
        let longest = self.clock.ticks_per_second().checked_div(TURNS).unwrap_or_default();
        if let Some(began) = self.turn.filter(|began| now.wrapping_sub(*began) <= longest) {
            return began;
        }
        self.turn = Some(now);
        let number = self.contents.sums.requests as u16;
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::turn(now, now, self.queue.0, number));
        }
        now
    }

    fn count_command(&mut self, id: Id, command: Command) {
        if let Some(place) = self.commands.get_mut(usize::from(id.place)) {
            *place = command;
        }
        let Session { sums, in_device, .. } = &mut self.contents;
        (sums.commands, *in_device) = (sums.commands.wrapping_add(1), in_device.wrapping_add(1));
    }

    /// Counts a completed command. Returns the time of the completions that it is of, and the command.
    fn count_completion(&mut self, id: Id, status: nvme_spec::Status) -> (u64, Command) {
        let now = match self.found {
            Some(found) => found,
            None => self.find(),
        };
        let command = self.commands.get(usize::from(id.place)).copied().unwrap_or(Command::NONE);
        let Session { sums, in_device, .. } = &mut self.contents;
        *in_device = in_device.saturating_sub(1);
        if status.is_success() {
            sums.count_bytes(command.opcode.kind(), command.bytes.into());
        } else {
            sums.errors = sums.errors.wrapping_add(1);
            if let Some(trace) = &mut self.trace {
                trace.write(&Event::of(What::Failed, now, [id.cid.0, self.queue.0, status.to_raw()]));
            }
        }
        (now, command)
    }

    /// Begins to take completions. Returns the time that they are counted to.
    fn find(&mut self) -> u64 {
        let now = self.clock.ticks();
        self.found = Some(now);
        let interrupts = &mut self.contents.sums.interrupts;
        *interrupts = interrupts.wrapping_add(u64::from(core::mem::take(&mut self.sleeps)));
        let number = self.answers as u16;
        if let Some(trace) = &mut self.trace {
            trace.write(&Event::of(What::Completions, now, [0, self.queue.0, number]));
        }
        now
    }
}
