//! The rule about badges of notifications: a woken component can distinguish a signal from a message, from the clock and from
//! an interrupt.
//!
//! Several components may signal one notification with the same bits: a signal is a hint to poll, and the kernel ORs badges.
//! Nobody may make up bits that mean a message, a tick of the clock or an interrupt.

use super::reach::Held;
use super::{Channel, Role, Rule, System};
use crate::layout::rights::{READ, WRITE};
use blk_api::config::badge;
use capdl_spec::{Object, ObjectId, ObjectKind};
use platform::Badge;

/// The supervisor's notification.
const SUPERVISOR: &str = "root-task.event";

impl System<'_> {
    /// Checks who waits on each notification, and who signals it.
    pub(super) fn signals(&mut self) {
        for id in 0..self.specification.objects.len() as ObjectId {
            if self.object(id).kind == ObjectKind::Notification {
                self.signallers(id);
            }
        }
    }

    /// Checks that the clock ticks the configured components, each by a notification that nobody else waits on.
    ///
    /// The supervisor marks its signal as the clock's, so the notification must be the component's own. Another component that
    /// waits there would learn the time, and a component that waits for ticks elsewhere would wait without end.
    pub(super) fn ticks(&mut self) {
        for index in self.indices() {
            let Some(notification) = self.specification.components[index].tick else { continue };
            let (who, name) = (self.who(index), self.object(notification).name.clone());
            if self.object(notification).kind != ObjectKind::Notification {
                self.refuse(Rule::SignalsMarked, format!("the clock would tick {who} on {name}, no notification"));
                continue;
            }
            let waiters: Vec<usize> = self.indices().filter(|index| self.waits(*index, notification)).collect();
            if let Some(other) = waiters.iter().find(|waiter| **waiter != index) {
                let other = self.who(*other);
                let path = format!("the clock that is to tick {who} signals {name}, where {other} waits");
                self.refuse(Rule::SignalsMarked, path);
            }
            if !waiters.contains(&index) {
                let path = format!("the clock that is to tick {who} signals {name}, where {who} does not wait");
                self.refuse(Rule::SignalsMarked, path);
            }
        }
    }

    /// Checks that only the declared components wake a component. One that waits on an endpoint is woken by its bound
    /// notification.
    pub(super) fn declared(&mut self) {
        for id in 0..self.specification.objects.len() as ObjectId {
            let Object { kind: ObjectKind::Notification, name, .. } = self.object(id) else { continue };
            if name == SUPERVISOR {
                continue;
            }
            let waiter = self.indices().find(|index| self.waits(*index, id));
            for index in self.indices() {
                let signals = self.given(index, id).into_iter().find(|held| held.rights & WRITE != 0);
                let Some(held) = signals.filter(|_| !waiter.is_some_and(|waiter| self.may_wake(index, waiter))) else {
                    continue;
                };
                let (who, way) = (self.who(index), held.path);
                let whom = waiter.map_or("nobody".into(), |waiter| self.who(waiter));
                let path = format!("{who} signals {name}, where {whom} waits, by {way}: nothing declares that");
                self.refuse(Rule::SignalsDeclared, path);
            }
        }
    }

    /// Whether `index` may wake `waiter`, by its role or by a declared channel.
    fn may_wake(&self, index: usize, waiter: usize) -> bool {
        let name = |index: usize| &self.specification.components[index].name;
        let is_peer = |channel: &Channel| channel.from == *name(index) && channel.to == *name(waiter);
        index == waiter
            || self.roles[waiter] == Role::Console
            || self.serves(index, waiter)
            || self.serves(waiter, index)
            || self.is_policy_of(waiter, index)
            || (self.roles[index], self.roles[waiter]) == (Role::Policy, Role::Control)
            || ((self.roles[index], self.roles[waiter]) == (Role::NvmeServer, Role::Control)
                && self.declaration.administration.is_some())
            || self.declaration.channels.iter().any(is_peer)
    }

    fn signallers(&mut self, notification: ObjectId) {
        let name = &self.object(notification).name;
        let waiters: Vec<usize> = self.indices().filter(|index| self.waits(*index, notification)).collect();
        if let [first, second, ..] = waiters.as_slice() {
            let (first, second) = (self.who(*first), self.who(*second));
            self.refuse(Rule::SignalsMarked, format!("{first} and {second} both wait on {name}"));
        }
        if *name == SUPERVISOR {
            return self.supervisors(notification);
        }
        let interrupts = waiters.iter().any(|index| self.roles[*index] == Role::NvmeServer);
        for index in self.indices() {
            for held in self.given(index, notification) {
                // A component that waits there alone mints the badges of others from its unbadged capability.
                if held.rights & WRITE == 0 || (held.badge == 0 && waiters == [index]) {
                    continue;
                }
                let Some(reason) = wrong(held.badge, interrupts) else { continue };
                let (who, badge, way) = (self.who(index), held.badge, held.path);
                self.refuse(
                    Rule::SignalsMarked,
                    format!("{who} signals {name} with the badge {badge:#x}, {reason}, by {way}"),
                );
            }
        }
    }

    /// Checks the signals to the supervisor. The PCI server reports silenced drivers. An NVMe server reports teardowns of its
    /// own clients, and asks for its own alarm. A client asks for its own alarms, if it has any. Nobody else signals it.
    fn supervisors(&mut self, notification: ObjectId) {
        let silenced = (0..u32::BITS as u8).fold(0, |bits, driver| bits | Badge::silenced(driver));
        for index in self.indices() {
            for held in self.given(index, notification) {
                let alarms = self.alarm_numbers(index).fold(0, |bits, number| bits | Badge::alarm(number));
                let allowed = match self.roles[index] {
                    Role::PciServer => silenced,
                    Role::NvmeServer => alarms | Badge::TORN_DOWN,
                    _ => alarms,
                };
                if held.rights != WRITE || held.badge & !allowed != 0 || held.badge & Badge::SIGNAL == 0 {
                    let (who, badge, way) = (self.who(index), held.badge, held.path);
                    let path = format!("{who} could signal the supervisor {badge:#x} by {way}, which is not for it");
                    self.refuse(Rule::SignalsMarked, path);
                }
            }
        }
    }

    fn waits(&self, index: usize, notification: ObjectId) -> bool {
        self.specification.components[index].bound_notification == Some(notification)
            || self.given(index, notification).iter().any(|held| held.rights & READ != 0)
    }

    /// The component's capabilities to `object`. Capabilities that a server could get from its own clients are left out: the
    /// clients hold them, and the rule checks the clients.
    fn given(&self, index: usize, object: ObjectId) -> Vec<Held> {
        let given = |held: &&Held| held.object == object && (held.own || self.roles[index] == Role::Client);
        self.holdings[index].iter().filter(given).cloned().collect()
    }
}

/// The reason why a badge is wrong, if it is. `interrupts` says whether interrupts of a controller arrive at the notification.
fn wrong(signal: u64, interrupts: bool) -> Option<&'static str> {
    let vectors = (0..u64::BITS).fold(0, |bits, vector| bits | badge::vector(vector)) & !Badge::SIGNAL;
    if signal & Badge::SIGNAL == 0 {
        Some("which is not marked as a signal and would be taken for a message")
    } else if signal & Badge::TICK != 0 {
        Some("which says the clock ticked")
    } else if signal & Badge::ALARM != 0 {
        Some("which says the alarm went off")
    } else if interrupts && signal & vectors != 0 {
        Some("which says the controller interrupted")
    } else {
        None
    }
}
