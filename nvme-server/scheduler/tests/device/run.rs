//! A server in virtual time: tenants that submit in a loop, a policy that decides, a device.

use crate::controller::Step;
pub use crate::load::{Load, tenants};
use crate::model::{Asked, Device, Operation};
use scheduler::{Commands, Decision, Kind, Policy, Quantum, SessionId, Share};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Blocks of 4 KiB that a tenant has.
const REGION_BLOCKS: u64 = 4096;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1_000 * MS;

/// A request that was answered.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub at: u64,
    pub latency: u64,
    pub bytes: u64,
}

struct Request {
    operation: Operation,
    /// The first byte of its blocks.
    at: u64,
    begun: u64,
    left: u32,
    open: u32,
}

/// The time that the server takes, nanoseconds. Events meanwhile wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct ServerTime {
    pub pass: u64,
    /// For each command submitted, and for each completed.
    pub command: u64,
}

/// A command in the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct InDevice {
    session: u8,
    request: usize,
    bytes: u32,
    submitted: u64,
}

struct State {
    load: Load,
    requests: Vec<Request>,
    waiting: VecDeque<usize>,
    done: Vec<Done>,
    submitted: Vec<(u64, u32)>,
    /// The longest that a request waited for its turn.
    held: u64,
    /// Requests so far.
    begun: usize,
    random: u64,
    /// The random state for the places of requests.
    place: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Completed(InDevice),
    /// The doorbell of a simulated controller.
    Rung(usize),
    Device(Step),
    Arrives {
        session: u8,
        request: usize,
    },
    Refused {
        session: u8,
        request: usize,
    },
    Discounted {
        session: u8,
        request: usize,
        bytes: u32,
    },
    SlowDown(u64, u64),
}

/// The server, its tenants and their device.
pub struct Run<'p> {
    pub policy: &'p mut dyn Policy,
    pub device: Device,
    /// The time after which a lost command is discounted, if ever.
    pub discount: Option<u64>,
    pub server: ServerTime,
    /// Until when the server handles the events of its last pass.
    busy_until: u64,
    /// Commands of a simulated controller, by number, and free numbers.
    in_device: Vec<(InDevice, Asked)>,
    free: Vec<usize>,
    tenants: Vec<State>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// The time that the policy waits for.
    wake: Option<u64>,
    sequence: u64,
    now: u64,
}

impl<'p> Run<'p> {
    pub fn new(policy: &'p mut dyn Policy, device: Device, loads: &[Load]) -> Self {
        let (tenants, events) = (Vec::new(), BinaryHeap::new());
        let mut run = Self {
            policy,
            device,
            discount: None,
            server: ServerTime::default(),
            busy_until: 0,
            in_device: Vec::new(),
            free: Vec::new(),
            tenants,
            events,
            wake: None,
            sequence: 0,
            now: 0,
        };
        for (session, load) in (0u8..).zip(loads) {
            let requests = (0..load.depth)
                .map(|_| Request { operation: load.operations[0], at: 0, begun: 0, left: 0, open: 0 })
                .collect();
            let random = 0x9e37_79b9_7f4a_7c15 ^ (u64::from(session) << 32);
            run.tenants.push(State {
                load: *load,
                requests,
                waiting: VecDeque::new(),
                done: Vec::new(),
                submitted: Vec::new(),
                held: 0,
                begun: 0,
                random,
                place: random,
            });
            for request in 0..load.depth as usize {
                run.at(load.from, Event::Arrives { session, request });
            }
        }
        run
    }

    /// At `time` the device becomes slower by this factor.
    pub fn slow_down_at(&mut self, time: u64, numerator: u64, denominator: u64) {
        self.at(time, Event::SlowDown(numerator, denominator));
    }

    fn at(&mut self, time: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((time, self.sequence, event)));
    }

    /// Runs until `end`.
    pub fn until(&mut self, end: u64) {
        while let Some(time) = self.next_event().into_iter().chain(self.wake).min().filter(|time| *time <= end) {
            self.now = time;
            if self.is_of_device() {
                self.device_works();
                continue;
            }
            if time < self.busy_until {
                self.defer(time);
                continue;
            }
            // Events of the same time are seen at once, as a server sees a batch of completions.
            let mut handled = 0;
            while self.next_event() == Some(time) && !self.is_of_device() {
                let Some(Reverse((.., event))) = self.events.pop() else { return };
                handled += u64::from(matches!(event, Event::Completed(_)));
                self.happens(event);
            }
            let before = self.busy_until;
            self.busy_until = time + self.server.pass + self.server.command * handled;
            self.serve();
            if self.server.pass == 0 {
                self.busy_until = before;
            }
        }
    }

    /// Whether the next event is one that the server does not see.
    fn is_of_device(&self) -> bool {
        matches!(self.events.peek(), Some(Reverse((_, _, Event::Device(_) | Event::Rung(_)))))
            && self.next_event().is_some_and(|time| time <= self.now)
    }

    /// The server sees this event, or wakes, when it is done with its last pass.
    fn defer(&mut self, time: u64) {
        if self.next_event() == Some(time) {
            let Some(Reverse((_, sequence, event))) = self.events.pop() else { return };
            self.events.push(Reverse((self.busy_until, sequence, event)));
        } else {
            self.wake = Some(self.busy_until);
        }
    }

    fn device_works(&mut self) {
        let Some(Reverse((.., event))) = self.events.pop() else { return };
        let Device::Simulated(controller) = &mut self.device else { return };
        let (done, next) = match event {
            Event::Rung(number) => {
                let (command, asked) = self.in_device[number];
                (None, [controller.submit(command.session.into(), asked, self.now), None])
            }
            Event::Device(step) => controller.step(step, self.now),
            _ => return,
        };
        if let Some(asked) = done {
            self.free.push(asked.number);
            self.at(self.now, Event::Completed(self.in_device[asked.number].0));
        }
        next.into_iter().flatten().for_each(|(at, step)| self.at(at, Event::Device(step)));
    }

    fn next_event(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((time, ..))| *time)
    }

    fn happens(&mut self, event: Event) {
        let now = self.now;
        match event {
            Event::Rung(_) | Event::Device(_) => {}
            Event::Discounted { session, request, bytes } => {
                self.policy.aborted(self.command(session, request, bytes), now);
            }
            Event::Refused { session, request } => self.answered(session, request),
            Event::SlowDown(numerator, denominator) => self.device.slow_down(numerator, denominator),
            Event::Arrives { session, request } => {
                let tenant = &mut self.tenants[usize::from(session)];
                if now >= tenant.load.to {
                    return;
                }
                let burst = tenant.load.burst;
                if now.checked_div(burst).is_some_and(|part| part % 2 == 1) {
                    return self.at((now / burst + 1) * burst, event);
                }
                tenant.begun += 1;
                let operation = tenant.load.operations[tenant.begun % 2];
                tenant.place = tenant.place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let blocks = u64::from(tenant.load.bytes.div_ceil(4096).max(1));
                let drawn = (tenant.place >> 40) % (REGION_BLOCKS / blocks).max(1);
                let at = if tenant.load.is_hot { 0 } else { u64::from(session) * REGION_BLOCKS + drawn * blocks };
                tenant.requests[request] =
                    Request { operation, at: at * 4096, begun: now, left: tenant.load.bytes, open: 0 };
                tenant.waiting.push_back(request);
                self.policy.ready(SessionId(session), now);
            }
            Event::Completed(InDevice { session, request, bytes, submitted }) => {
                self.policy.completed(self.command(session, request, bytes), submitted, now);
                let state = &mut self.tenants[usize::from(session)].requests[request];
                state.open -= 1;
                if state.open == 0 && state.left == 0 {
                    self.answered(session, request);
                }
            }
        }
    }

    /// A command of a tenant's request, of so many bytes.
    fn command(&self, session: u8, request: usize, bytes: u32) -> Commands {
        let kind = self.tenants[usize::from(session)].requests[request].operation.kind();
        Commands { session: SessionId(session), kind, bytes, count: 1 }
    }

    /// The tenant has its answer, and submits the request again after a while.
    fn answered(&mut self, session: u8, request: usize) {
        let now = self.now;
        let tenant = &mut self.tenants[usize::from(session)];
        let bytes = u64::from(tenant.load.bytes);
        tenant.done.push(Done { at: now, latency: now - tenant.requests[request].begun, bytes });
        tenant.random = tenant.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        // Between half and one and a half of the time.
        let think = tenant.load.think / 2 + (tenant.random >> 33) * tenant.load.think / (1 << 31);
        self.at(now + think, Event::Arrives { session, request });
    }

    fn serve(&mut self) {
        self.wake = None;
        for _ in 0..100_000 {
            match self.policy.next(self.now) {
                Decision::Serve { session, quantum } => self.submit(session, quantum),
                Decision::Wait { until_ns } => {
                    assert!(until_ns > self.now, "a policy that waits for the past turns in circles");
                    self.wake = Some(until_ns);
                    return;
                }
                Decision::Nothing => return,
            }
        }
        panic!("the policy never comes to an end");
    }

    fn submit(&mut self, session: SessionId, quantum: Quantum) {
        let now = self.now;
        let tenant = &mut self.tenants[usize::from(session.0)];
        let request = *tenant.waiting.front().expect("only who waits is served");
        if tenant.load.is_refused {
            tenant.waiting.pop_front();
            self.policy.refused(session, 1, now);
            if tenant.waiting.is_empty() {
                self.policy.idle(session);
            }
            return self.at(now, Event::Refused { session: session.0, request });
        }
        let state = &mut tenant.requests[request];
        let most = if state.operation.kind() == Kind::Other { quantum.named } else { quantum.bytes };
        let bytes = state.left.min(most);
        if state.left == tenant.load.bytes {
            tenant.held = tenant.held.max(now - state.begun);
        }
        let at = state.at + u64::from(tenant.load.bytes - state.left);
        let asked = Asked { number: 0, operation: state.operation, at, bytes, times: 1, is_hot: tenant.load.is_hot };
        state.left -= bytes;
        state.open += 1;
        if state.left == 0 {
            tenant.waiting.pop_front();
        }
        tenant.submitted.push((now, bytes));
        let none_left = tenant.waiting.is_empty();
        self.policy.submitted(self.command(session.0, request, bytes), now);
        if none_left {
            self.policy.idle(session);
        }
        self.busy_until += self.server.command;
        self.reaches_device(InDevice { session: session.0, request, bytes, submitted: now }, asked);
    }

    fn reaches_device(&mut self, command: InDevice, asked: Asked) {
        if matches!(self.device, Device::Simulated(_)) {
            let number = self.free.pop().unwrap_or(self.in_device.len());
            let place = (command, Asked { number, ..asked });
            match self.in_device.get_mut(number) {
                Some(free) => *free = place,
                None => self.in_device.push(place),
            }
            return self.at(self.now.max(self.busy_until), Event::Rung(number));
        }
        let completes = self.device.submit(asked, self.now);
        let InDevice { session, request, bytes, .. } = command;
        match self.discount {
            _ if completes < u64::MAX => self.at(completes, Event::Completed(command)),
            Some(time) => self.at(self.now + time, Event::Discounted { session, request, bytes }),
            None => {}
        }
    }

    /// Resets the controller: the tenants submit the commands that it held again, and notice nothing but latency.
    pub fn reset(&mut self) {
        self.policy.reset(self.now);
        let held: Vec<_> = std::mem::take(&mut self.events).into_vec();
        for Reverse((time, sequence, event)) in held {
            let Event::Completed(InDevice { session, request, bytes, .. }) = event else {
                self.events.push(Reverse((time, sequence, event)));
                continue;
            };
            let tenant = &mut self.tenants[usize::from(session)];
            let state = &mut tenant.requests[request];
            state.open -= 1;
            if state.left == 0 {
                tenant.waiting.push_back(request);
            }
            state.left += bytes;
            self.policy.ready(SessionId(session), self.now);
        }
        self.serve();
    }

    pub fn set_share(&mut self, session: u8, share: Share) {
        self.policy.set_share(SessionId(session), share).expect("a share that is allowed");
    }

    /// The commands that a tenant submitted: when, and of how many bytes.
    pub fn submitted(&self, tenant: usize) -> &[(u64, u32)] {
        &self.tenants[tenant].submitted
    }

    /// The longest that a request of a tenant waited until its first command was submitted.
    pub fn held(&self, tenant: usize) -> u64 {
        self.tenants[tenant].held
    }

    /// The longest time between two answers to a tenant.
    pub fn longest_pause(&self, tenant: usize, from: u64, to: u64) -> u64 {
        let (mut last, mut longest) = (from, 0);
        for done in self.tenants[tenant].done.iter().filter(|done| done.at >= from && done.at < to) {
            (longest, last) = (longest.max(done.at - last), done.at);
        }
        longest.max(to - last)
    }

    /// The results of a tenant between two times.
    pub fn result(&self, tenant: usize, from: u64, to: u64) -> Outcome {
        let done = self.tenants[tenant].done.iter().filter(|done| done.at >= from && done.at < to);
        let mut latencies: Vec<u64> = done.clone().map(|done| done.latency).collect();
        latencies.sort_unstable();
        let bytes = done.map(|done| done.bytes).sum::<u64>();
        Outcome { latencies, bytes, seconds: (to - from) as f64 / SECOND as f64 }
    }
}

/// The results of a tenant.
pub struct Outcome {
    latencies: Vec<u64>,
    pub bytes: u64,
    seconds: f64,
}

impl Outcome {
    pub fn iops(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    /// The part of the requests that took longer than `latency`.
    pub fn late(&self, latency: u64) -> f64 {
        let late = self.latencies.iter().filter(|one| **one > latency).count();
        late as f64 / self.latencies.len() as f64
    }

    /// Whether nothing was served.
    pub fn is_nothing(&self) -> bool {
        self.latencies.is_empty()
    }

    /// The latency that `permille` of the requests do not exceed.
    pub fn percentile(&self, permille: usize) -> u64 {
        assert!(!self.latencies.is_empty(), "nothing was served");
        self.latencies[(self.latencies.len() * permille / 1000).min(self.latencies.len() - 1)]
    }
}
