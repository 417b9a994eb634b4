//! The supervisor's record of a component, with its thread.

use crate::restarts::Restarts;
use capdl_spec::Role;
use platform::{Badge, Cap, Name, Notification, Tcb};

/// The supervisor's record of a component.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The component's number, the badge of its faults.
    pub(crate) id: u16,
    /// The component's name.
    pub(crate) name: Name,
    /// The component's thread.
    pub(crate) tcb: Cap<Tcb>,
    /// Notification that the supervisor signals at every tick.
    pub(crate) tick: Option<Cap<Notification>>,
    /// The component's alarms, if it may ask for some.
    pub(crate) alarms: Option<Alarms>,
    /// Whether the component is alive.
    pub(crate) state: State,
    /// The component's restarts.
    pub(crate) restarts: Restarts,
}

/// The alarms that a component may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarms {
    /// Notification that the supervisor signals when one goes off.
    pub(crate) notification: Cap<Notification>,
    /// The number of the first, and their lengths in microseconds.
    pub(crate) first: u8,
    pub(crate) lengths_us: &'static [u32],
}

impl Alarms {
    /// The lengths of those that `asked` has the bits of.
    pub(crate) fn asked_us(self, asked: u64) -> impl Iterator<Item = u32> {
        let first = self.first;
        let numbered = self.lengths_us.iter().zip(0u8..);
        let asks = move |number: u8| asked & Badge::alarm(first.wrapping_add(number)) & !Badge::SIGNAL != 0;
        numbered.filter_map(move |(length_us, number)| asks(number).then_some(*length_us))
    }
}

/// The lengths of the alarms that a component of this role may ask for, microseconds: one for each of its numbers.
pub(crate) const fn alarms_us(role: Role) -> &'static [u32] {
    match role {
        Role::NvmeServer => &platform::alarm::SERVER_US,
        Role::Client => &platform::alarm::CLIENT_US,
        Role::Control => &platform::alarm::CONTROL_US,
        _ => &[],
    }
}

/// Whether a component is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The component is alive.
    Alive,
    /// The component ended, and is restarted once a driver's device is silent and a client's session is torn down. A client with
    /// a function of its own waits for both.
    Waits {
        /// Time of its end, in ticks of the clock.
        since: u64,
        /// Whether the PCI server has reported its device as silent.
        is_silent: bool,
    },
    /// The component was stopped for good.
    Ended,
}

impl Thread {
    /// Whether the component runs, or could.
    pub(crate) fn is_alive(&self) -> bool {
        self.state == State::Alive
    }
}
