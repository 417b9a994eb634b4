//! The policy component in memory: a kernel that takes its calls at the server and its answers, and nothing else.

use blk_api::policy::{self, INSTALL, PolicyConfig, Record};
use platform::fake::{Nobody, Partial, Ram, Registers, Start};
use platform::{
    AbsoluteCPtr, CPtr, Cap, Endpoint, Event, Message, Notification, OutOfBounds, PAGE_SIZE, Platform, Region,
    RegionKind, Result, Vaddr,
};
use report::milestones::Watched;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

const SERVER: u64 = 8;

#[derive(Default)]
struct State {
    event: Option<Event>,
    answer: Option<Message>,
    installed: Vec<Record>,
    /// The server's answer to every call.
    server: Message,
    ms: u64,
}

/// The component and its surroundings.
pub(super) struct World {
    component: Pin<Box<dyn Future<Output = ()>>>,
    around: Around,
    liveness: Ram,
    log: Ram,
}

#[derive(Clone)]
struct Around {
    state: Rc<RefCell<State>>,
    start: Rc<Start>,
}

impl World {
    /// Starts a component with this configuration, which then waits. Its server runs and accepts all calls.
    pub(super) fn start(config: &PolicyConfig) -> Self {
        let state = Rc::new(RefCell::new(State { server: Message::new(policy::DONE), ..State::default() }));
        let [liveness, log, kept] = [(); 3].map(|()| Ram::new(PAGE_SIZE));
        let around = Around { state, start: Rc::new(start(config, [&liveness, &log, &kept])) };
        let component = Box::pin(::policy::run(around.clone(), around.start.environment.clone()));
        let mut world = Self { component, around, liveness, log };
        world.poll();
        world
    }

    fn poll(&mut self) {
        let ended = self.component.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert_eq!(ended, Poll::Pending, "the component ended");
    }

    /// Delivers an event to the component, which acts on it.
    pub(super) fn deliver(&mut self, event: Event) {
        self.around.state.borrow_mut().event = Some(event);
        self.poll();
        assert!(self.around.state.borrow().event.is_none(), "the component waits for no event");
    }

    pub(super) fn take_answer(&self) -> Option<Message> {
        self.around.state.borrow_mut().answer.take()
    }

    /// Takes the records that the server received and accepted since the last call.
    pub(super) fn take_installed(&self) -> Vec<Record> {
        std::mem::take(&mut self.around.state.borrow_mut().installed)
    }

    pub(super) fn server_answers(&self, answer: &Message) {
        self.around.state.borrow_mut().server = answer.clone();
    }

    pub(super) fn pass(&self, ms: u64) {
        self.around.state.borrow_mut().ms += ms;
    }

    pub(super) fn ms(&self) -> u64 {
        self.around.state.borrow().ms
    }

    /// Announces a moment to the component.
    pub(super) fn announce(&self, moment: u16) {
        Watched::new(self.log.clone()).announce(moment).expect("a moment of the configuration");
    }

    /// The server's liveness page.
    pub(super) const fn liveness(&self) -> &Ram {
        &self.liveness
    }
}

/// The component's start, with its server's liveness page, the first page of its log ring, and the page of kept orders.
fn start(config: &PolicyConfig, [liveness, log, kept]: [&Ram; 3]) -> Start {
    let mut start = Start::new("policy");
    start.caps("server", SERVER, 1);
    start.caps("endpoint", 9, 1);
    start.caps("event", 10, 1);
    start.memory("liveness-server", RegionKind::ReadOnly, liveness);
    start.memory("log", RegionKind::ReadWrite, log);
    start.caps("control", 11, 1);
    start.memory("kept", RegionKind::ReadWrite, kept);
    start.environment.receive_cptr = Some(CPtr::new(5));
    start.environment.config = postcard::to_allocvec(config).unwrap_or_default();
    start
}

impl Platform for Around {
    type Kernel = Self;
    type Memory = Ram;
    type Mmio = Registers;

    fn kernel(&self) -> &Self {
        self
    }

    fn memory(&self, region: &Region) -> core::result::Result<Ram, OutOfBounds> {
        self.start.at(region)
    }

    fn mmio(&self, _: Vaddr, _: usize) -> core::result::Result<Registers, OutOfBounds> {
        Err(OutOfBounds)
    }

    fn ticks(&self) -> u64 {
        self.state.borrow().ms
    }

    fn ticks_per_second(&self) -> u64 {
        1000
    }

    fn next_event(&self) -> impl Future<Output = Event> {
        poll_fn(|_| self.state.borrow_mut().event.take().map_or(Poll::Pending, Poll::Ready))
    }

    fn poll_event(&self) -> Option<Event> {
        self.state.borrow_mut().event.take()
    }

    async fn yield_now(&self) {}

    fn report(&self, bytes: &[u8]) {
        assert!(report::Report::decode(bytes).is_some(), "a report that does not decode");
    }
}

impl Partial for Around {
    type Rest = Nobody;

    fn rest(&self) -> Nobody {
        Nobody("the policy component")
    }

    fn reply(&self, message: &Message) {
        let earlier = self.state.borrow_mut().answer.replace(message.clone());
        assert!(earlier.is_none(), "a call was answered twice");
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Message {
        assert_eq!(endpoint.bits(), SERVER);
        let mut state = self.state.borrow_mut();
        if message.label == INSTALL && state.server.label == policy::DONE {
            let record = message.payload().expect("a record");
            state.installed.push(record);
        }
        state.server.clone()
    }

    fn nb_send(&self, _: CPtr, _: &Message) {}

    fn signal(&self, _: Cap<Notification>) {}

    fn cnode_delete(&self, _: AbsoluteCPtr) -> Result<()> {
        Ok(())
    }
}
