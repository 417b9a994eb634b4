//! The states of a slot, as a pure function: a reading of its registers in, an order out (PCIe 6.7.1).
//!
//! ```text
//! Empty ── present ──> Starting ── link ──> Settling ── 100 ms ──> Arriving ── found ──> On
//!   ^                                                                                    │ button
//!   │                                                                                    v
//!   └── Falling <── no claim ── Leaving <── 5 s without a second press ─────────── Withdrawable
//!                                      (Off instead of Empty, while the device is still in the slot)
//! ```
//!
//! Wherever the device has power and vanishes, the slot is `Lost` until no driver has a claim, and then loses its power.
//! A device that does not start, or a fault of the power controller, ends in `Off`: only the button or another device starts
//! the slot again. Each state either waits for something of the outside or has an end.
//!
//! Neighbours: `slot` reads the registers and carries out the orders. Left out: the latch, and the attention indicator.

use pci_spec::slot::{FIRST_ANSWER_MS, LINK_TO_ACCESS_MS, POWER_OFF_MS, WITHDRAW_MS};

const NS_PER_MS: u64 = 1_000_000;
/// Time for the link to come up after power was turned on. The standard has no limit; a device answers within
/// [`FIRST_ANSWER_MS`] of it.
const LINK_UP_MS: u64 = 2 * FIRST_ANSWER_MS;
/// Time in which a driver releases a function that is to be removed: a controller may take so long to shut down (NVMe base
/// specification 1.4, section 7.6.2, leaves it to the controller).
pub const RELEASE_MS: u64 = 10_000;
/// Time in which a driver releases a function that vanished, or is stopped.
pub const LOST_MS: u64 = 2000;

/// A reading of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// The time.
    pub now_ns: u64,
    /// There is a device in the slot.
    pub present: bool,
    /// There is a device with power at the other end of the link.
    pub link: bool,
    /// Since the last reading a device came or went.
    pub exchanged: bool,
    /// Since then, the link went down or up.
    pub link_changed: bool,
    /// Since then, the attention button was pressed.
    pub button: bool,
    /// Since then, the power controller found a fault.
    pub fault: bool,
    /// A driver has a claim of a function in the slot.
    pub claimed: bool,
}

impl Seen {
    /// Whether the device that was there at the last reading is not there any more, or was without link meanwhile.
    const fn interrupted(&self) -> bool {
        self.exchanged || self.link_changed || !self.present || !self.link
    }
}

/// State of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// There was no device at the last reading. No power.
    Empty,
    /// There is a device, and it is not to be started. No power.
    Off,
    /// Power is on, and the link has until this time to come up.
    Starting {
        /// The end.
        until_ns: u64,
    },
    /// The link is up, and the device must not be accessed before this time.
    Settling {
        /// The end.
        until_ns: u64,
    },
    /// The device may be accessed, and has until this time to answer.
    Arriving {
        /// The end.
        until_ns: u64,
    },
    /// The slot's functions can be claimed.
    On,
    /// The button was pressed: a second press until this time withdraws the request.
    Withdrawable {
        /// The end.
        until_ns: u64,
    },
    /// Drivers are to release their functions until this time.
    Leaving {
        /// The end.
        until_ns: u64,
    },
    /// The device vanished, or was exchanged. Drivers are to release their functions until this time.
    Lost {
        /// The end.
        until_ns: u64,
        /// The power controller found a fault.
        fault: bool,
    },
    /// Power was turned off. Nothing may rely on that before this time.
    Falling {
        /// The end.
        until_ns: u64,
        /// The device that is still there afterwards is not to be started.
        stays_off: bool,
    },
}

/// The part of a slot's state that its registers do not show. It outlives the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kept {
    /// None: the registers show the state.
    #[default]
    Nothing,
    /// The device is to be removed, unless the button is pressed again.
    Requested,
    /// The device is to lose its power, or has lost it, and must not be started again.
    StaysOff,
    /// Power was turned off, and a device that is there may be started again later.
    Rests,
}

impl Kept {
    /// The bit of a word by which the press of the button that led to this was not cleared yet.
    const PRESSED: u32 = 1 << 8;

    /// What is left of it when the device that it concerned is gone.
    #[must_use]
    pub const fn without_device(self, has_power: bool) -> Self {
        match self {
            Self::StaysOff | Self::Rests if !has_power => Self::Rests,
            _ => Self::Nothing,
        }
    }

    /// The form in the kept page. `is_pressed`: the button's event is not cleared yet.
    #[must_use]
    pub const fn to_word(self, is_pressed: bool) -> u32 {
        let kept = match self {
            Self::Nothing => 0,
            Self::Requested => 1,
            Self::StaysOff => 2,
            Self::Rests => 3,
        };
        if is_pressed { kept | Self::PRESSED } else { kept }
    }

    /// The content of a word, and whether a press that is seen is that which led to it.
    #[must_use]
    pub const fn from_word(word: u32) -> (Self, bool) {
        let kept = match word & !Self::PRESSED {
            1 => Self::Requested,
            2 => Self::StaysOff,
            3 => Self::Rests,
            _ => Self::Nothing,
        };
        (kept, word & Self::PRESSED != 0)
    }
}

/// An order to the slot or to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Turn power on; the power indicator blinks.
    PowerOn,
    /// Find the device's functions and give them addresses, then call [`State::arrived`].
    Arrive,
    /// The power indicator blinks: a removal was requested.
    Blink,
    /// The power indicator shines: the request was withdrawn.
    Steady,
    /// Let no function be claimed any more, and notify drivers that they are to release theirs.
    Leave,
    /// Forget the functions, which are gone, and notify drivers.
    Lose,
    /// Take the functions back from drivers that kept them.
    TakeBack,
    /// Forget the functions, and turn power off; the power indicator is dark.
    PowerOff,
}

/// Result of an [`Order::Arrive`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// Functions can be claimed.
    Found,
    /// Nothing answers yet.
    Silent,
    /// A device answers and cannot be used.
    Unusable,
}

impl State {
    /// State at the start of the server, of a slot of which an earlier one kept this; `has_power` is what the slot has. The walk
    /// found functions of a device that can be used, or the slot has power and may have a device that was not ready, or that an
    /// earlier server did not finish.
    #[must_use]
    pub const fn at_start(is_found: bool, has_power: bool, kept: Kept, now_ns: u64) -> Self {
        const fn after(now_ns: u64, ms: u64) -> u64 {
            now_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
        }
        match (kept, is_found, has_power) {
            (Kept::Requested, true, _) => Self::Withdrawable { until_ns: after(now_ns, WITHDRAW_MS) },
            // No driver has a claim at the start of a server: the device loses its power at the first reading.
            (Kept::StaysOff, _, true) => Self::Leaving { until_ns: after(now_ns, RELEASE_MS) },
            (Kept::StaysOff | Kept::Rests, _, false) => {
                let stays_off = matches!(kept, Kept::StaysOff);
                Self::Falling { until_ns: after(now_ns, POWER_OFF_MS), stays_off }
            }
            (_, true, _) => Self::On,
            (_, false, true) => Self::Starting { until_ns: after(now_ns, LINK_UP_MS) },
            (_, false, false) => Self::Empty,
        }
    }

    /// The part of it that registers do not show.
    #[must_use]
    pub const fn kept(self) -> Kept {
        match self {
            Self::Withdrawable { .. } => Kept::Requested,
            Self::Leaving { .. }
            | Self::Off
            | Self::Lost { fault: true, .. }
            | Self::Falling { stays_off: true, .. } => Kept::StaysOff,
            Self::Falling { stays_off: false, .. } => Kept::Rests,
            Self::Empty
            | Self::Starting { .. }
            | Self::Settling { .. }
            | Self::Arriving { .. }
            | Self::On
            | Self::Lost { fault: false, .. } => Kept::Nothing,
        }
    }

    /// Whether the slot's functions can be claimed.
    #[must_use]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::On | Self::Withdrawable { .. })
    }

    /// Whether the slot has power.
    #[must_use]
    pub const fn has_power(self) -> bool {
        !matches!(self, Self::Empty | Self::Off | Self::Falling { .. })
    }

    /// The state after a reading, and the order that leads there. After an order it is called again with a new reading.
    #[must_use]
    pub fn next(self, seen: &Seen) -> (Self, Option<Order>) {
        match self {
            Self::Empty if seen.present => start(seen),
            Self::Off if !seen.present => (Self::Empty, None),
            Self::Off if seen.button || seen.exchanged => start(seen),
            Self::Empty | Self::Off => (self, None),
            Self::Starting { .. } | Self::Settling { .. } | Self::Arriving { .. } => self.rise(seen),
            Self::On | Self::Withdrawable { .. } => self.run(seen),
            Self::Leaving { .. } | Self::Lost { .. } | Self::Falling { .. } => self.fall(seen),
        }
    }

    /// The state after an [`Order::Arrive`].
    #[must_use]
    pub fn arrived(self, arrival: Arrival, now_ns: u64) -> (Self, Option<Order>) {
        match (self, arrival) {
            (Self::Arriving { .. }, Arrival::Found) => (Self::On, Some(Order::Steady)),
            (Self::Arriving { until_ns }, Arrival::Silent) if now_ns < until_ns => (self, None),
            (Self::Arriving { .. }, Arrival::Silent | Arrival::Unusable) => power_off(now_ns, true),
            _ => (self, None),
        }
    }

    /// A device that is being started.
    fn rise(self, seen: &Seen) -> (Self, Option<Order>) {
        if seen.fault || !seen.present {
            return power_off(seen.now_ns, seen.fault);
        }
        let is_due = |until_ns| until_ns <= seen.now_ns;
        match self {
            Self::Starting { .. } if seen.link => (Self::Settling { until_ns: after(seen, LINK_TO_ACCESS_MS) }, None),
            Self::Starting { until_ns } if is_due(until_ns) => power_off(seen.now_ns, true),
            // The link went down, or another device is there now: its time begins again.
            Self::Settling { .. } | Self::Arriving { .. } if seen.interrupted() => {
                (Self::Starting { until_ns: after(seen, LINK_UP_MS) }, None)
            }
            Self::Settling { until_ns } if is_due(until_ns) => {
                (Self::Arriving { until_ns: after(seen, FIRST_ANSWER_MS) }, Some(Order::Arrive))
            }
            Self::Arriving { .. } => (self, Some(Order::Arrive)),
            _ => (self, None),
        }
    }

    /// A device whose functions can be claimed.
    fn run(self, seen: &Seen) -> (Self, Option<Order>) {
        if seen.fault || seen.interrupted() {
            let lost = Self::Lost { until_ns: after(seen, LOST_MS), fault: seen.fault };
            return (lost, Some(Order::Lose));
        }
        match self {
            Self::On if seen.button => (Self::Withdrawable { until_ns: after(seen, WITHDRAW_MS) }, Some(Order::Blink)),
            Self::Withdrawable { .. } if seen.button => (Self::On, Some(Order::Steady)),
            Self::Withdrawable { until_ns } if until_ns <= seen.now_ns => {
                (Self::Leaving { until_ns: after(seen, RELEASE_MS) }, Some(Order::Leave))
            }
            _ => (self, None),
        }
    }

    /// A device that goes or is gone.
    fn fall(self, seen: &Seen) -> (Self, Option<Order>) {
        let is_gone = seen.fault || seen.interrupted();
        match self {
            Self::Leaving { .. } if seen.claimed && is_gone => {
                (Self::Lost { until_ns: after(seen, LOST_MS), fault: seen.fault }, Some(Order::Lose))
            }
            // Another device in the place of this one is to be started.
            Self::Leaving { .. } if !seen.claimed => power_off(seen.now_ns, seen.fault || !is_gone),
            Self::Lost { fault, .. } if !seen.claimed => power_off(seen.now_ns, fault || seen.fault),
            Self::Leaving { until_ns } | Self::Lost { until_ns, .. } if until_ns <= seen.now_ns => {
                (self, Some(Order::TakeBack))
            }
            Self::Falling { until_ns, stays_off } => {
                // Once the device was taken out, one that is there later is another.
                let stays_off = stays_off && seen.present && !seen.exchanged;
                let rests = if stays_off { Self::Off } else { Self::Empty };
                (if until_ns <= seen.now_ns { rests } else { Self::Falling { until_ns, stays_off } }, None)
            }
            _ => (self, None),
        }
    }
}

fn start(seen: &Seen) -> (State, Option<Order>) {
    (State::Starting { until_ns: after(seen, LINK_UP_MS) }, Some(Order::PowerOn))
}

fn power_off(now_ns: u64, stays_off: bool) -> (State, Option<Order>) {
    let until_ns = now_ns.saturating_add(POWER_OFF_MS.saturating_mul(NS_PER_MS));
    (State::Falling { until_ns, stays_off }, Some(Order::PowerOff))
}

const fn after(seen: &Seen, ms: u64) -> u64 {
    seen.now_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
}

#[cfg(test)]
#[path = "state_tests.rs"]
#[expect(clippy::arithmetic_side_effects, reason = "tests compute with numbers of their own")]
mod tests;
