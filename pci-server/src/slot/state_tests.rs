use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const MS: u64 = NS_PER_MS;
/// Time between readings.
const TICK_MS: u64 = 50;

/// A slot with a device, the drivers of its functions, and the checks that hold at every order.
#[derive(Clone, Debug, Default)]
struct World {
    now_ms: u64,
    /// The device in the slot: each has a number of its own.
    device: Option<u32>,
    inserted: u32,
    has_power: bool,
    /// A device that never brings its link up, or never answers.
    is_mute: bool,
    /// Time since which the link is up.
    link_since_ms: Option<u64>,
    powered_off_ms: Option<u64>,
    exchanged: bool,
    link_changed: bool,
    button: bool,
    fault: bool,
    claimed: bool,
    /// The device whose functions can be claimed.
    found: Option<u32>,
    orders: Vec<Order>,
}

impl World {
    fn settle_link(&mut self) {
        let is_up = self.device.is_some() && self.has_power;
        if is_up != self.link_since_ms.is_some() {
            self.link_since_ms = is_up.then_some(self.now_ms);
            self.link_changed = true;
        }
    }

    fn insert(&mut self) {
        if self.device.is_none() {
            self.inserted += 1;
            self.device = Some(self.inserted);
            self.exchanged = true;
            self.settle_link();
        }
    }

    fn pull(&mut self) {
        if self.device.take().is_some() {
            self.exchanged = true;
            self.settle_link();
        }
    }

    /// Reads the slot, and does what is ordered.
    fn read(&mut self, state: State) -> State {
        self.now_ms += TICK_MS;
        let seen = Seen {
            now_ns: self.now_ms * MS,
            present: self.device.is_some(),
            link: self.link_since_ms.is_some(),
            exchanged: core::mem::take(&mut self.exchanged),
            link_changed: core::mem::take(&mut self.link_changed),
            button: core::mem::take(&mut self.button),
            fault: core::mem::take(&mut self.fault),
            claimed: self.claimed,
        };
        let (state, order) = state.next(&seen);
        let state = order.map_or(state, |order| self.obey(state, order));
        if state.is_open() {
            assert_eq!(self.found, self.device, "functions of the device that is there");
        }
        assert_eq!(state.has_power(), self.has_power);
        state
    }

    fn obey(&mut self, state: State, order: Order) -> State {
        self.orders.push(order);
        match order {
            Order::PowerOn => {
                assert!(!self.has_power && self.device.is_some());
                let rested = self.powered_off_ms.is_none_or(|at| at + POWER_OFF_MS <= self.now_ms);
                assert!(rested, "power comes back a second after it went, at the earliest");
                self.has_power = true;
                self.settle_link();
            }
            Order::Arrive => {
                let rested = self.link_since_ms.is_some_and(|at| at + LINK_TO_ACCESS_MS <= self.now_ms);
                assert!(rested, "an access before the device is ready");
                assert!(self.found.is_none() && !self.claimed);
                let arrival = if self.is_mute { Arrival::Silent } else { Arrival::Found };
                let (state, order) = state.arrived(arrival, self.now_ms * MS);
                if arrival == Arrival::Found {
                    self.found = self.device;
                }
                return order.map_or(state, |order| self.obey(state, order));
            }
            Order::Blink | Order::Steady | Order::Leave => {}
            Order::Lose => self.found = None,
            Order::TakeBack => self.claimed = false,
            Order::PowerOff => {
                assert!(!self.claimed, "a driver has registers of a function without power");
                (self.has_power, self.found, self.powered_off_ms) = (false, None, Some(self.now_ms));
                self.settle_link();
            }
        }
        state
    }

    /// The server dies and is started again, and its drivers with it.
    fn restart(&mut self, state: State) -> State {
        let is_ready = self.link_since_ms.is_some_and(|at| at + LINK_TO_ACCESS_MS <= self.now_ms) && !self.is_mute;
        self.found = self.device.filter(|_| is_ready);
        self.claimed = false;
        self.link_changed = false;
        let (kept, _) = Kept::from_word(state.kept().to_word(false));
        let exchanged = core::mem::take(&mut self.exchanged);
        self.button &= !exchanged;
        self.fault &= !exchanged;
        let kept = if exchanged { kept.without_device(self.has_power) } else { kept };
        State::at_start(self.found.is_some(), self.has_power, kept, self.now_ms * MS)
    }

    /// Reads for this long.
    fn wait(&mut self, mut state: State, ms: u64) -> State {
        for _ in 0..ms.div_ceil(TICK_MS) {
            state = self.read(state);
        }
        state
    }

    fn take_orders(&mut self) -> Vec<Order> {
        core::mem::take(&mut self.orders)
    }

    /// A slot with a device that runs and is claimed.
    fn running() -> (Self, State) {
        let mut world = Self::default();
        world.insert();
        let state = world.wait(State::Empty, 400);
        assert_eq!((state, world.take_orders()), (State::On, [Order::PowerOn, Order::Arrive, Order::Steady].into()));
        world.claimed = true;
        (world, state)
    }
}

#[test]
fn a_pressed_button_ends_in_power_off_once_drivers_released() {
    let (mut world, state) = World::running();
    world.button = true;
    let state = world.wait(state, WITHDRAW_MS);
    assert_eq!(world.take_orders(), [Order::Blink]);
    assert!(state.is_open());
    let state = world.wait(state, 100);
    assert_eq!(world.take_orders(), [Order::Leave]);
    assert!(!state.is_open() && state.has_power());
    world.claimed = false;
    let state = world.wait(state, 100);
    assert_eq!(world.take_orders(), [Order::PowerOff]);
    // The device is still in the slot, and stays off until somebody presses again.
    let state = world.wait(state, 60_000);
    assert_eq!((state, world.take_orders()), (State::Off, Vec::new()));
    world.button = true;
    let state = world.wait(state, 400);
    assert_eq!((state, world.take_orders()), (State::On, [Order::PowerOn, Order::Arrive, Order::Steady].into()));
}

#[test]
fn a_second_press_withdraws_the_first() {
    let (mut world, state) = World::running();
    world.button = true;
    let state = world.wait(state, WITHDRAW_MS / 2);
    world.button = true;
    let state = world.wait(state, 60_000);
    assert_eq!((state, world.take_orders()), (State::On, [Order::Blink, Order::Steady].into()));
}

#[test]
fn a_driver_that_keeps_its_function_loses_it() {
    let (mut world, state) = World::running();
    world.button = true;
    world.wait(state, WITHDRAW_MS + RELEASE_MS + 500);
    assert_eq!(world.take_orders(), [Order::Blink, Order::Leave, Order::TakeBack, Order::PowerOff]);
}

#[test]
fn a_pulled_device_is_lost_and_its_successor_arrives() {
    let (mut world, state) = World::running();
    world.pull();
    let state = world.wait(state, 50);
    assert_eq!((state.is_open(), world.take_orders()), (false, [Order::Lose].into()));
    world.insert();
    let state = world.wait(state, LOST_MS);
    assert_eq!(world.take_orders(), [Order::TakeBack], "its driver still had it");
    let state = world.wait(state, 2000);
    assert_eq!(world.take_orders(), [Order::PowerOff, Order::PowerOn, Order::Arrive, Order::Steady]);
    assert_eq!((state, world.found), (State::On, Some(2)));
}

#[test]
fn an_exchange_between_two_readings_is_no_return() {
    let (mut world, state) = World::running();
    world.pull();
    world.insert();
    world.read(state);
    assert_eq!(world.take_orders(), [Order::Lose]);
}

#[test]
fn a_device_that_never_answers_is_turned_off_and_left() {
    let mut world = World { is_mute: true, ..World::default() };
    world.insert();
    let state = world.wait(State::Empty, 60_000);
    assert_eq!(state, State::Off);
    let orders = world.take_orders();
    assert_eq!((orders.first(), orders.last()), (Some(&Order::PowerOn), Some(&Order::PowerOff)));
    assert!(orders[1..orders.len() - 1].iter().all(|order| *order == Order::Arrive));
}

#[test]
fn a_power_fault_is_not_tried_again() {
    let (mut world, state) = World::running();
    world.fault = true;
    let state = world.wait(state, 60_000);
    assert_eq!(world.take_orders(), [Order::Lose, Order::TakeBack, Order::PowerOff]);
    assert_eq!(state, State::Off);
}

#[test]
fn a_device_pulled_while_it_leaves_is_lost() {
    let (mut world, state) = World::running();
    world.button = true;
    let state = world.wait(state, WITHDRAW_MS + 100);
    world.pull();
    let state = world.wait(state, 50);
    assert_eq!(world.take_orders(), [Order::Blink, Order::Leave, Order::Lose]);
    world.claimed = false;
    let state = world.wait(state, 2000);
    assert_eq!((state, world.take_orders()), (State::Empty, [Order::PowerOff].into()));
}

#[test]
fn a_server_that_dies_at_any_point_of_a_removal_leaves_it_to_the_next() {
    for ticks in 0..400 {
        let (mut world, mut state) = World::running();
        world.button = true;
        state = world.wait(state, TICK_MS * ticks);
        let state = world.restart(state);
        let state = world.wait(state, 60_000);
        assert_eq!((state, world.has_power), (State::Off, false), "after {ticks} ticks");
        let state = world.restart(state);
        assert_eq!(world.wait(state, 60_000), State::Off, "after {ticks} ticks");
    }
}

#[derive(Clone, Copy, Debug)]
enum Deed {
    Insert,
    Pull,
    Press,
    Fault,
    Claim,
    Release,
    Mute(bool),
    Restart,
    Wait(u64),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        3 => Just(Deed::Insert),
        3 => Just(Deed::Pull),
        3 => Just(Deed::Press),
        1 => Just(Deed::Fault),
        3 => Just(Deed::Claim),
        2 => Just(Deed::Release),
        1 => any::<bool>().prop_map(Deed::Mute),
        2 => Just(Deed::Restart),
        6 => (0u64..500).prop_map(Deed::Wait),
        2 => (0u64..12_000).prop_map(Deed::Wait),
    ];
    prop::collection::vec(deed, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever is done to a slot, the orders keep the standard's times, no function of another device is open, no power goes
    /// while a driver has a claim (`World::obey`), and the slot comes to rest.
    #[test]
    fn any_history_keeps_the_laws_and_comes_to_rest(deeds in deeds()) {
        let (mut world, mut state) = (World::default(), State::Empty);
        for deed in deeds {
            match deed {
                Deed::Insert => world.insert(),
                Deed::Pull => world.pull(),
                Deed::Press => world.button = true,
                Deed::Fault => world.fault = true,
                Deed::Claim => world.claimed |= state.is_open(),
                Deed::Release => world.claimed = false,
                Deed::Mute(is_mute) => world.is_mute = is_mute,
                Deed::Restart => state = world.restart(state),
                Deed::Wait(ms) => state = world.wait(state, ms),
            }
        }
        world.is_mute = false;
        let state = world.wait(state, 30_000);
        let rests = match world.device {
            None => state == State::Empty && !world.claimed,
            Some(_) => state == State::On || state == State::Off && !world.claimed,
        };
        prop_assert!(rests, "{:?} {:?}", state, world);
        world.orders.clear();
        prop_assert_eq!(world.wait(state, 30_000), state);
        prop_assert_eq!(&world.orders, &[]);
    }
}
