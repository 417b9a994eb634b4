//! Single requests, made of the events of their traces.
//!
//! The events of a tenant's server and of its client are merged by their times. A request is complete when it was answered, and its
//! client took the answer, if there are events of the client. A client with a virtual function has no server: it writes a server's
//! events itself. Requests of which events are missing are counted and left out.

use super::events::{Entry, Events, Ring};
use blk_api::request::Opcode;
use blk_api::trace::{Event, What};
use std::collections::{BTreeMap, VecDeque};

/// A complete request. Times are in nanoseconds of the machine's clock, and each is not before the one above it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// The tenant.
    pub tenant: String,
    /// The server of the tenant's controller.
    pub server: String,
    /// The tenant's client has submitted it to a virtual function, and the server knows nothing of it.
    pub on_function: bool,
    /// Number of the session's opening among those that were seen, and the request's number in it.
    pub opening: u32,
    /// The request's number on the ring, modulo 2^32.
    pub number: u32,
    /// The operation; `None` of a request that was refused.
    pub opcode: Option<Opcode>,
    /// The first block, as the session numbers it.
    pub first: u64,
    /// Bytes.
    pub bytes: u64,
    /// Time at which the client published it to the server, if that was seen.
    pub published: Option<u64>,
    /// Time of the pass in which the server took it, or at which the client's turn began: the statistics count its latency from here.
    pub seen: u64,
    /// Time at which it was taken off the ring, in its session's turn; or after the request before it in the client's.
    pub taken: u64,
    /// Time at which its checks had ended.
    pub checked: u64,
    /// The commands.
    pub commands: Vec<Command>,
    /// Time at which the last command was completed: the statistics count its latency until here.
    pub completed: u64,
    /// Time at which its answer was published; or at which the client with a function had taken it.
    pub answered: u64,
    /// Time at which the client had taken the answer, if that was seen.
    pub received: Option<u64>,
}

/// A command of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Command {
    /// The queue pair, and the command's identifier there.
    pub queue: u16,
    /// The identifier.
    pub cid: u16,
    /// The first block, as the session numbers it.
    pub first: u64,
    /// Bytes.
    pub bytes: u32,
    /// Time at which it was in the submission queue.
    pub submitted: u64,
    /// Time at which the doorbell was rung for it.
    pub rung: u64,
    /// Time of the pass in which its completion was found.
    pub completed: u64,
    /// The status field of its completion.
    pub status: u16,
}

/// All requests of a system.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    /// The complete ones, by tenant in the order of their answers.
    pub complete: Vec<Request>,
    /// Requests that were seen and are left out: some of their events are missing, or had not happened yet.
    pub incomplete: u64,
}

impl Request {
    /// The parts of the time from its taking to its answer: each begins where the one before it ends. The first to the last but one are
    /// the latency that the statistics count.
    #[must_use]
    pub fn parts(&self) -> [Part; 6] {
        let last = |time: fn(&Command) -> u64, after: u64| self.commands.iter().map(time).fold(after, u64::max);
        let submitted = last(|one| one.submitted, self.checked).min(self.completed.max(self.checked));
        let rung = last(|one| one.rung, submitted).min(self.completed.max(submitted));
        let ends = [
            ("turn", self.taken),
            ("check", self.checked),
            ("submit", submitted),
            ("doorbell", rung),
            ("device", self.completed),
            ("answer", self.answered),
        ];
        let mut begins = self.seen;
        ends.map(|(name, ends)| {
            let part = Part { name, begins, ends: ends.max(begins) };
            begins = part.ends;
            part
        })
    }

    /// Nanoseconds from the pass in which it was taken to the one in which its last command was found completed.
    #[must_use]
    pub const fn latency(&self) -> u64 {
        self.completed.saturating_sub(self.seen)
    }
}

/// A part of a request's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// The name, which says what the request waits for or what is done with it.
    pub name: &'static str,
    /// Time at which it begins.
    pub begins: u64,
    /// Time at which it ends.
    pub ends: u64,
}

impl Requests {
    /// The requests of these events.
    #[must_use]
    pub fn of(events: &Events) -> Self {
        let mut all = Self::default();
        for ring in &events.rings {
            let Some(server) = &ring.place.server else { continue };
            let of_client = |one: &&Ring| one.place.tenant == ring.place.tenant && one.place.server.is_none();
            let client = events.rings.iter().find(of_client);
            let has_client = client.is_some_and(|client| client.is_on);
            let block_bytes = events.places().block_bytes(&ring.place.tenant);
            let clock = Clock { ticks_per_second: ring.ticks_per_second };
            let names = (ring.place.tenant.as_str(), server.as_str());
            let mut tenant = Tenant::new(names, has_client, block_bytes, clock);
            tenant.on_function = ring.place.component == ring.place.tenant;
            let of_client = client.iter().flat_map(|client| &client.events).copied();
            for entry in merged(ring.events.iter().copied(), of_client) {
                match entry {
                    Entry::Event(event) => tenant.take(&event),
                    Entry::Lost => tenant.cut(),
                }
            }
            tenant.cut();
            all.complete.append(&mut tenant.complete);
            all.incomplete = all.incomplete.saturating_add(tenant.incomplete);
        }
        all
    }
}

/// The machine's clock.
#[derive(Clone, Copy)]
struct Clock {
    ticks_per_second: u64,
}

impl Clock {
    /// Nanoseconds of a time in ticks.
    fn ns(self, ticks: u64) -> u64 {
        (u128::from(ticks) * 1_000_000_000 / u128::from(self.ticks_per_second.max(1))) as u64
    }
}

/// Two rings' entries by their times. What happens at one time is the client's before the server's. An entry without a time of its own
/// belongs to the one before it.
fn merged(server: impl Iterator<Item = Entry>, client: impl Iterator<Item = Entry>) -> impl Iterator<Item = Entry> {
    let (mut server, mut client) = (server.peekable(), client.peekable());
    std::iter::from_fn(move || {
        let time = |entry: Option<&Entry>| match entry {
            Some(Entry::Event(event)) => event.time().unwrap_or(0),
            Some(Entry::Lost) => 0,
            None => u64::MAX,
        };
        let (of_server, of_client) = (time(server.peek()), time(client.peek()));
        if client.peek().is_some() && of_client <= of_server { client.next() } else { server.next() }
    })
}

/// A command's request.
#[derive(Clone, Copy, Debug)]
enum Of {
    /// The whole request, in [`Tenant::whole`].
    Whole,
    /// A part of the request in this place.
    Place(u16),
}

/// A session's turn.
#[derive(Clone, Copy)]
struct Turn {
    /// Time of its pass, in nanoseconds.
    seen: u64,
    queue: u16,
}

/// The requests of a tenant that are under way, at one point of its trace.
struct Tenant {
    name: String,
    server: String,
    on_function: bool,
    has_client: bool,
    block_bytes: u32,
    clock: Clock,
    opening: u32,
    /// Numbers before which the client has published, and the times.
    published: VecDeque<(u32, u64)>,
    turn: Option<Turn>,
    /// The number of the next request.
    next: u32,
    /// Time of the last submission in the turn, or of its beginning, in ticks.
    last: u64,
    /// Time and queue pair of the completions that are taken, and the number of the next answer.
    completions: (u64, u16, u16),
    /// The status of a command that failed, and of which the next event is.
    failed: u16,
    /// The commands in flight.
    in_flight: BTreeMap<(u16, u16), Of>,
    /// Requests of one command, by that.
    whole: BTreeMap<(u16, u16), Request>,
    /// Requests of several, by place.
    cut: BTreeMap<u16, Request>,
    /// Those that have their answers, with the low bits of the answer's number.
    ended: Vec<(u16, Request)>,
    /// Those whose answers are published, with the answer's number.
    answered: VecDeque<(u32, Request)>,
    complete: Vec<Request>,
    incomplete: u64,
}

impl Tenant {
    fn new((name, server): (&str, &str), has_client: bool, block_bytes: u32, clock: Clock) -> Self {
        Self {
            name: name.into(),
            server: server.into(),
            on_function: false,
            has_client,
            block_bytes,
            clock,
            opening: 0,
            published: VecDeque::new(),
            turn: None,
            next: 0,
            last: 0,
            completions: (0, 0, 0),
            failed: 0,
            in_flight: BTreeMap::new(),
            whole: BTreeMap::new(),
            cut: BTreeMap::new(),
            ended: Vec::new(),
            answered: VecDeque::new(),
            complete: Vec::new(),
            incomplete: 0,
        }
    }

    /// Gives up all requests that are under way.
    fn cut(&mut self) {
        let under_way = self.whole.len() + self.cut.len() + self.ended.len() + self.answered.len();
        self.incomplete = self.incomplete.saturating_add(under_way as u64);
        self.in_flight.clear();
        self.whole.clear();
        self.cut.clear();
        self.ended.clear();
        self.answered.clear();
        self.turn = None;
    }

    /// Takes the next event.
    fn take(&mut self, event: &Event) {
        let Some(what) = event.what() else { return };
        let (time, [id, second, third]) = (self.clock.ns(event.word), event.parts());
        match what {
            What::Opened => {
                self.cut();
                self.published.clear();
                (self.opening, self.next) = (self.opening.wrapping_add(1), 0);
            }
            What::Begun => {
                self.cut();
                self.next = event.number();
            }
            What::Turn => {
                self.turn = Some(Turn { seen: time, queue: second });
                self.next = self.next.wrapping_add(third.wrapping_sub(self.next as u16).into());
                self.last = event.turn_time();
            }
            What::Whole => self.whole(event),
            What::Taken => {
                if let Some(request) = self.begin(event, 0) {
                    let bytes = u32::from(second) | u32::from(third) << 16;
                    self.cut.insert(id, Request { bytes: bytes.into(), ..request });
                }
            }
            What::Part => self.part(event),
            What::Skipped => self.next = self.next.wrapping_add(1),
            What::Refused => {
                if let Some(request) = self.begin(event, 0) {
                    self.ended.push((second, Request { opcode: None, completed: time, ..request }));
                }
            }
            What::Rung => {
                let commands = self.whole.values_mut().chain(self.cut.values_mut()).flat_map(|one| &mut one.commands);
                commands.filter(|one| one.rung == 0).for_each(|one| one.rung = time);
            }
            What::Completions => self.completions = (time, second, third),
            What::Commands => {
                let (time, queue, mut answer) = self.completions;
                for id in event.ids() {
                    self.completed(What::Completed, (queue, id), answer, time);
                    answer = answer.wrapping_add(1);
                }
                self.completions.2 = answer;
            }
            What::Failed => self.failed = third,
            What::Completed => {
                self.completed(what, (second, id), third, time);
                self.completions.2 = third.wrapping_add(1);
            }
            What::PartCompleted | What::Kept => self.completed(what, (second, id), third, time),
            What::Ended => {
                if let Some(mut request) = self.cut.remove(&id) {
                    if request.completed == 0 {
                        // It had no command.
                        request.completed = time;
                    }
                    self.ended.push((second, request));
                }
                self.completions.2 = second.wrapping_add(1);
            }
            What::Answered => {
                let next = event.number();
                for (number, mut request) in self.ended.drain(..) {
                    request.answered = time;
                    let number = next.wrapping_sub((next as u16).wrapping_sub(number).into());
                    self.answered.push_back((number, request));
                }
                if !self.has_client {
                    self.complete.extend(self.answered.drain(..).map(|(_, request)| request));
                }
            }
            What::Cut => {
                self.incomplete = self.incomplete.saturating_add(self.whole.len() as u64);
                self.whole.clear();
                self.in_flight.retain(|_, of| matches!(of, Of::Place(_)));
            }
            What::Published => self.published.push_back((event.number(), time)),
            What::Received => {
                let next = event.number();
                let count = self.answered.iter().take_while(|(number, _)| is_before(*number, next)).count();
                for (_, request) in self.answered.drain(..count) {
                    self.complete.push(Request { received: Some(time), ..request });
                }
            }
        }
    }

    /// A request was submitted as one command.
    fn whole(&mut self, event: &Event) {
        let [id, blocks_z, checked] = event.parts();
        let time = event.time_after(self.last);
        // The time of the checks' end has its lower bits alone.
        let since_checked = (time as u16).wrapping_sub(checked);
        let Some(mut request) = self.begin(event, since_checked) else { return };
        let queue = self.turn.map_or(0, |turn| turn.queue);
        let command = self.command(event, (queue, id), blocks_z);
        request.bytes = command.bytes.into();
        request.commands.push(command);
        self.in_flight.insert((queue, id), Of::Whole);
        if self.whole.insert((queue, id), request).is_some() {
            // Its completion was not seen.
            self.incomplete = self.incomplete.saturating_add(1);
        }
    }

    /// A command of a request in a place was submitted.
    fn part(&mut self, event: &Event) {
        let ([id, blocks_z, place], Some(turn)) = (event.parts(), self.turn) else { return };
        self.last = event.time_after(self.last);
        let command = self.command(event, (turn.queue, id), blocks_z);
        if let Some(request) = self.cut.get_mut(&place) {
            request.commands.push(command);
            self.in_flight.insert((turn.queue, id), Of::Place(place));
        }
    }

    /// The next request was taken off the ring, and its checks had ended so many ticks before the event. `None` if the beginning of its
    /// turn is missing.
    fn begin(&mut self, event: &Event, since_checked: u16) -> Option<Request> {
        let (number, taken) = (self.next, self.last);
        self.next = number.wrapping_add(1);
        let earlier = self.published.iter().take_while(|(before, _)| !is_before(number, *before)).count();
        self.published.drain(..earlier);
        let turn = self.turn?;
        if event.time().is_none() {
            self.last = event.time_after(taken);
        }
        let published = self.published.front().map(|(_, time)| *time);
        let checked = self.last.saturating_sub(since_checked.into()).max(taken);
        Some(Request {
            tenant: self.name.clone(),
            server: self.server.clone(),
            on_function: self.on_function,
            opening: self.opening,
            number,
            opcode: event.opcode(),
            first: event.first(),
            bytes: 0,
            // A client on another processor may publish during the pass.
            published: published.map(|time| time.min(turn.seen)),
            seen: turn.seen,
            taken: self.clock.ns(taken).max(turn.seen),
            checked: self.clock.ns(checked).max(turn.seen),
            commands: Vec::new(),
            completed: 0,
            answered: 0,
            received: None,
        })
    }

    /// A command that was submitted at the time of the last submission.
    fn command(&self, event: &Event, (queue, cid): (u16, u16), blocks_z: u16) -> Command {
        let blocks =
            if event.opcode().is_some_and(Opcode::moves_data) { u32::from(blocks_z).saturating_add(1) } else { 0 };
        Command {
            queue,
            cid,
            first: event.first(),
            bytes: blocks.saturating_mul(self.block_bytes),
            submitted: self.clock.ns(self.last),
            rung: 0,
            completed: 0,
            status: 0,
        }
    }

    /// The command with this identifier on this queue pair was completed: of the request in place `number`, or with that number of its
    /// answer.
    fn completed(&mut self, what: What, (queue, id): (u16, u16), number: u16, time: u64) {
        let status = std::mem::take(&mut self.failed);
        let completed = |request: &mut Request| {
            request.completed = time;
            let mut commands = request.commands.iter_mut().rev();
            if let Some(command) = commands.find(|one| (one.queue, one.cid) == (queue, id) && one.completed == 0) {
                (command.completed, command.status) = (time, status);
            }
        };
        match self.in_flight.remove(&(queue, id)) {
            Some(Of::Whole) => {
                let Some(mut request) = self.whole.remove(&(queue, id)) else { return };
                completed(&mut request);
                if what == What::Kept {
                    self.cut.insert(number, request);
                } else {
                    self.ended.push((number, request));
                }
            }
            Some(Of::Place(place)) => {
                if let Some(request) = self.cut.get_mut(&place) {
                    completed(request);
                }
            }
            None => {}
        }
    }
}

/// Whether a number comes before another one. Numbers wrap.
const fn is_before(number: u32, next: u32) -> bool {
    next.wrapping_sub(number).cast_signed() > 0
}

#[cfg(test)]
pub(super) mod tests;
