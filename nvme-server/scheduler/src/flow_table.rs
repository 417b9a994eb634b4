//! The table of sessions: which of them wait, in which order within a class, and how much the device holds of each.
//!
//! The order is start-time fair queueing (Goyal, Vin, Cheng, SIGCOMM 1996). A session's next command starts, in virtual
//! time, where its last one ended, and the least start goes first. A session that was away starts where the others are
//! by now: it neither saves up nor pays. The policy sets the cost of a command.
//!
//! A session whose limit is used up is parked until a time, and left out of its line until then.

use crate::bucket::Bucket;
use crate::policy::{Commands, Kind, Quantum};
use crate::share::{self, CLASSES, MAX_SESSIONS, MIN_PIECE, SessionId, Share, ShareError, Tenant};
use crate::winner_tree::WinnerTree;
use alloc::vec::Vec;
use blk_api::config::Class;

/// Commands of one turn where only equals wait: as many as a controller's own arbitration takes from a queue at once. A
/// client is then notified of so many together. The in-flight limit, not the turn, bounds the commands in the device.
const TURN: u16 = 8;

/// Whether sessions of different classes stand in one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lines {
    /// A single line for all; class and weight do not count.
    One,
    /// A line for each class.
    PerClass,
}

/// Commands in the device, and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    /// Commands.
    pub commands: u64,
    /// Bytes of these commands.
    pub bytes: u64,
}

impl Load {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self { commands: self.commands.saturating_add(other.commands), bytes: self.bytes.saturating_add(other.bytes) }
    }

    const fn minus(self, other: Self) -> Self {
        Self { commands: self.commands.saturating_sub(other.commands), bytes: self.bytes.saturating_sub(other.bytes) }
    }

    /// Commands plus pieces of 4 KiB: the measure of a load while the device is unknown.
    #[inline]
    pub(crate) const fn parts(self) -> u64 {
        self.commands.saturating_add(self.bytes.div_ceil(MIN_PIECE as u64))
    }

    /// The load of `commands`.
    pub(crate) const fn of(commands: &Commands) -> Self {
        let bytes = match commands.kind {
            Kind::Read | Kind::Write => named(commands),
            Kind::Other => 0,
        };
        Self { commands: commands.count as u64, bytes }
    }
}

/// Bytes that `commands` move or name, together.
const fn named(commands: &Commands) -> u64 {
    // A product of 16 and 32 bits.
    (commands.bytes as u64).wrapping_mul(commands.count as u64)
}

/// Where a session stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// The session has no command to submit.
    Away,
    /// In its line.
    InLine,
    /// The session's limit is used up.
    Parked,
}

/// A session's place, share and limits.
#[derive(Clone, Debug)]
struct Flow {
    share: Share,
    highest: Class,
    iops: Option<Bucket>,
    bandwidth: Option<Bucket>,
    place: Place,
    /// The start of its next command in its line's virtual time.
    begin: u64,
    load: Load,
}

impl Flow {
    /// When its limits let a command go.
    #[inline]
    fn allowed_at(&self) -> u64 {
        let commands = self.iops.as_ref().map_or(0, |bucket| bucket.ready_at(1));
        let bytes = self.bandwidth.as_ref().map_or(0, |bucket| bucket.ready_at(u64::from(MIN_PIECE)));
        commands.max(bytes)
    }
}

/// The sessions that wait in one line.
#[derive(Clone, Debug)]
struct Line {
    order: WinnerTree,
    /// Virtual time: the start of the command that was served last.
    time: u64,
    /// Sessions that wait, parked ones left out.
    waiting: u32,
}

/// All sessions.
#[derive(Clone, Debug)]
pub struct FlowTable {
    flows: Vec<Flow>,
    lines: [Line; CLASSES],
    kind: Lines,
    /// Parked sessions, by when the limit lets the next command go.
    parked: WinnerTree,
    loads: [Load; CLASSES],
    /// The load of all classes together.
    total: Load,
    /// Sessions of each class.
    members: [u16; CLASSES],
    /// The classes that have sessions, a bit each.
    present: u8,
    /// Sessions that wait in any line.
    waiting: u32,
}

impl FlowTable {
    /// A table with all sessions away.
    ///
    /// # Errors
    /// [`ShareError`]: a share that is not allowed, or too many.
    pub fn new(tenants: &[Tenant], kind: Lines) -> Result<Self, ShareError> {
        if tenants.len() > MAX_SESSIONS {
            return Err(ShareError::TooManySessions { count: tenants.len() });
        }
        let mut flows = Vec::with_capacity(tenants.len());
        let mut members = [0; CLASSES];
        for (number, tenant) in (0u8..).zip(tenants) {
            let share = tenant.share;
            share::check(SessionId(number), &share, tenant.highest)?;
            count(&mut members, share.class, 1);
            flows.push(Flow {
                share,
                highest: tenant.highest,
                iops: share.iops_limit.map(Bucket::new),
                bandwidth: share.bandwidth_limit.map(Bucket::new),
                place: Place::Away,
                begin: 0,
                load: Load::default(),
            });
        }
        let line = Line { order: WinnerTree::new(), time: 0, waiting: 0 };
        Ok(Self {
            flows,
            lines: [line.clone(), line.clone(), line.clone(), line],
            kind,
            parked: WinnerTree::new(),
            loads: [Load::default(); CLASSES],
            total: Load::default(),
            present: present(&members),
            members,
            waiting: 0,
        })
    }

    pub(crate) fn share(&self, session: SessionId) -> Option<Share> {
        self.flows.get(usize::from(session.0)).map(|flow| flow.share)
    }

    pub(crate) fn in_device(&self, session: SessionId) -> u32 {
        let commands = self.flows.get(usize::from(session.0)).map_or(0, |flow| flow.load.commands);
        u32::try_from(commands).unwrap_or(u32::MAX)
    }

    /// The class of a session.
    #[inline]
    pub(crate) fn class(&self, session: SessionId) -> Option<Class> {
        self.flows.get(usize::from(session.0)).map(|flow| flow.share.class)
    }

    /// The load of all classes in the device.
    #[inline]
    pub(crate) const fn total(&self) -> Load {
        self.total
    }

    /// The load of `class` in the device.
    #[inline]
    pub(crate) fn load(&self, class: Class) -> Load {
        self.loads.get(class.index()).copied().unwrap_or_default()
    }

    /// The load of the classes less urgent than `class` in the device.
    #[inline]
    pub(crate) fn load_below(&self, class: Class) -> Load {
        self.load_between(class, Class::Low)
    }

    /// The load of the classes less urgent than `above`, down to `class`, in the device.
    #[inline]
    pub(crate) fn load_between(&self, above: Class, class: Class) -> Load {
        let loads = self.loads.iter().take(class.index().wrapping_add(1)).skip(above.index().wrapping_add(1));
        loads.fold(Load::default(), |sum, load| sum.plus(*load))
    }

    /// The load of `class` and the more urgent ones in the device.
    #[inline]
    pub(crate) fn load_down_to(&self, class: Class) -> Load {
        self.loads.iter().take(class.index().wrapping_add(1)).fold(Load::default(), |sum, load| sum.plus(*load))
    }

    /// Whether a session of `class` waits that is not parked. One in line may still turn out to be at its limit.
    #[inline]
    pub(crate) fn class_waits(&self, class: Class) -> bool {
        self.lines.get(self.line_of(class)).is_some_and(|line| line.waiting > 0)
    }

    /// Changes a share. A new class means a new line.
    pub(crate) fn set_share(&mut self, session: SessionId, share: Share) -> Result<(), ShareError> {
        let flow = self.flows.get(usize::from(session.0)).ok_or(ShareError::NoSuchSession { session })?;
        share::check(session, &share, flow.highest)?;
        let (place, old, load) = (flow.place, flow.share.class, flow.load);
        self.leave(session);
        count(&mut self.members, old, -1);
        count(&mut self.members, share.class, 1);
        self.present = present(&self.members);
        self.change_load(old, |sum| sum.minus(load));
        self.change_load(share.class, |sum| sum.plus(load));
        let line = self.line_of(share.class);
        let time = self.lines.get(line).map_or(0, |line| line.time);
        if let Some(flow) = self.flows.get_mut(usize::from(session.0)) {
            let bucket = |old: Option<Bucket>, limit| match old {
                Some(old) => old.with_limit(limit),
                None => Bucket::new(limit),
            };
            flow.iops = share.iops_limit.map(|limit| bucket(flow.iops, limit));
            flow.bandwidth = share.bandwidth_limit.map(|limit| bucket(flow.bandwidth, limit));
            if old != share.class {
                // The lines' virtual times are not comparable.
                flow.begin = time;
            }
            flow.share = share;
        }
        if place != Place::Away {
            self.enter(session);
        }
        Ok(())
    }

    /// Whether a session waits, in its line or parked.
    #[inline]
    pub(crate) fn waits(&self, session: SessionId) -> bool {
        self.flows.get(usize::from(session.0)).is_some_and(|flow| flow.place != Place::Away)
    }

    /// Whether any session waits, in a line or parked.
    #[inline]
    pub(crate) fn any_waits(&self) -> bool {
        self.waiting > 0 || self.parked.first().is_some()
    }

    /// The session has a command to submit. Returns whether its line was empty until now.
    #[inline]
    pub(crate) fn ready(&mut self, session: SessionId) -> bool {
        match self.flows.get(usize::from(session.0)) {
            Some(flow) if flow.place == Place::Away => self.enter(session),
            _ => false,
        }
    }

    /// The session has no command to submit any more.
    #[inline]
    pub(crate) fn idle(&mut self, session: SessionId) {
        if self.waits(session) {
            self.leave(session);
        }
    }

    /// Moves parked sessions whose limits allow a command by `now` back into their lines.
    #[inline]
    pub(crate) fn unpark(&mut self, now: u64) {
        while let Some((session, at)) = self.parked.first() {
            if at > now {
                return;
            }
            self.leave(SessionId(session));
            self.enter(SessionId(session));
        }
    }

    /// When the limit of the next parked session allows a command again.
    #[inline]
    pub(crate) fn next_unpark(&self) -> Option<u64> {
        self.parked.first().map(|(_, at)| at)
    }

    /// Returns the first session in the line of `class` that is within its limits. Parks those before it that are not.
    #[inline]
    pub(crate) fn head(&mut self, class: Class, now: u64) -> Option<SessionId> {
        let line = self.line_of(class);
        while self.lines.get(line)?.waiting > 0 {
            let (session, _) = self.lines.get(line)?.order.first()?;
            let allowed_at = self.flows.get(usize::from(session))?.allowed_at();
            if allowed_at <= now {
                return Some(SessionId(session));
            }
            self.leave(SessionId(session));
            self.flows.get_mut(usize::from(session))?.place = Place::Parked;
            self.parked.put(session, allowed_at);
        }
        None
    }

    /// Whether `session` stands in line, and no other does.
    #[inline]
    pub(crate) fn is_alone(&self, session: SessionId) -> bool {
        let waits = self.flows.get(usize::from(session.0)).is_some_and(|flow| flow.place == Place::InLine);
        waits && self.waiting == 1
    }

    /// Whether exactly one session of `class` waits in line.
    #[inline]
    pub(crate) fn is_alone_in(&self, class: Class) -> bool {
        self.lines.get(self.line_of(class)).is_some_and(|line| line.waiting == 1)
    }

    /// Whether a session of a more urgent class than `class` exists.
    #[inline]
    pub(crate) fn has_above(&self, class: Class) -> bool {
        self.present.trailing_zeros() < class.index() as u32
    }

    /// Whether a session of another class than `class` exists.
    #[inline]
    pub(crate) fn has_other(&self, class: Class) -> bool {
        self.present & !(1 << class.index()) != 0
    }

    /// Commands of the smallest piece that a session's limits leave it now: at least one, at most [`BATCH`].
    #[inline]
    pub(crate) fn commands_left(&self, session: SessionId, now: u64) -> u16 {
        let Some(flow) = self.flows.get(usize::from(session.0)) else { return 1 };
        let commands = flow.iops.as_ref().map_or(BATCH, |bucket| bucket.left(now));
        let pieces = flow.bandwidth.as_ref().map_or(BATCH, |bucket| bucket.left(now) >> MIN_PIECE.ilog2());
        // No more than 16 bits.
        commands.min(pieces).clamp(1, BATCH) as u16
    }

    /// Bytes that a session's bandwidth limit leaves it now; no less than the smallest piece.
    #[inline]
    pub(crate) fn bytes_left(&self, session: SessionId, now: u64) -> u32 {
        let bandwidth = self.flows.get(usize::from(session.0)).and_then(|flow| flow.bandwidth.as_ref());
        let left = bandwidth.map_or(u64::MAX, |bucket| bucket.left(now));
        u32::try_from(left).unwrap_or(u32::MAX).max(MIN_PIECE)
    }

    /// Cuts `quantum` to what a session's limits leave it now. The turn is short where equals wait too, and one command where
    /// another class may come.
    #[inline]
    pub(crate) fn within_limits(&self, session: SessionId, quantum: Quantum, now: u64) -> Quantum {
        let others = if self.class(session).is_some_and(|class| self.has_other(class)) { 1 } else { TURN };
        let most = if self.is_alone(session) { quantum.commands } else { quantum.commands.min(others) };
        let commands = if most > 1 { most.min(self.commands_left(session, now)) } else { 1 };
        let bytes = self.bytes_left(session, now);
        Quantum { commands, bytes: quantum.bytes.min(bytes), named: quantum.named.min(bytes), ..quantum }
    }

    /// Commands were submitted, and count `cost` in their line. Returns their class.
    #[inline]
    pub(crate) fn submitted(&mut self, commands: &Commands, cost: u64, now: u64) -> Option<Class> {
        let class = self.charge(commands, cost, now)?;
        let load = Load::of(commands);
        let flow = self.flows.get_mut(usize::from(commands.session.0))?;
        flow.load = flow.load.plus(load);
        self.change_load(class, |sum| sum.plus(load));
        Some(class)
    }

    /// Entries were answered without a command: they count against their session's limit, and `cost` in its line.
    pub(crate) fn refused(&mut self, session: SessionId, count: u16, cost: u64, now: u64) {
        self.charge(&Commands { session, kind: Kind::Other, bytes: 0, count }, cost, now);
    }

    /// Takes commands from their session's limits, and moves its next start later by `cost`. Returns its class.
    #[inline]
    fn charge(&mut self, commands: &Commands, cost: u64, now: u64) -> Option<Class> {
        let flow = self.flows.get_mut(usize::from(commands.session.0))?;
        let class = flow.share.class;
        if let Some(bucket) = &mut flow.iops {
            bucket.take(u64::from(commands.count), now);
        }
        if let Some(bucket) = &mut flow.bandwidth {
            bucket.take(named(commands), now);
        }
        let index = match self.kind {
            Lines::One => 0,
            Lines::PerClass => class.index(),
        };
        let line = self.lines.get_mut(index)?;
        let weight = match self.kind {
            Lines::One => 1,
            Lines::PerClass => u64::from(flow.share.weight),
        };
        line.time = line.time.max(flow.begin);
        let length = cost.saturating_mul(PRECISION).checked_div(weight).unwrap_or(cost);
        flow.begin = flow.begin.saturating_add(length.max(1));
        if flow.place == Place::InLine {
            line.order.put(commands.session.0, flow.begin);
        }
        Some(class)
    }

    /// Commands left the device. Returns their class, or `None` if the device holds nothing of this session.
    #[inline]
    pub(crate) fn left_device(&mut self, commands: &Commands) -> Option<Class> {
        let flow = self.flows.get_mut(usize::from(commands.session.0)).filter(|flow| flow.load.commands > 0)?;
        let before = flow.load;
        flow.load = flow.load.minus(Load::of(commands));
        if flow.load.commands == 0 {
            // Without commands there are no bytes, whatever sizes were reported for single commands.
            flow.load = Load::default();
        }
        let (class, gone) = (flow.share.class, before.minus(flow.load));
        self.change_load(class, |sum| sum.minus(gone));
        Some(class)
    }

    /// The device holds nothing any more.
    pub(crate) fn reset(&mut self) {
        self.flows.iter_mut().for_each(|flow| flow.load = Load::default());
        self.loads = [Load::default(); CLASSES];
        self.total = Load::default();
    }

    #[inline]
    fn line_of(&self, class: Class) -> usize {
        match self.kind {
            Lines::One => 0,
            Lines::PerClass => class.index(),
        }
    }

    #[inline]
    fn change_load(&mut self, class: Class, change: impl Fn(Load) -> Load) {
        if let Some(load) = self.loads.get_mut(class.index()) {
            *load = change(*load);
            self.total = change(self.total);
        }
    }

    /// Puts the session into its line. Returns whether that was empty.
    #[inline]
    fn enter(&mut self, session: SessionId) -> bool {
        let Some(class) = self.class(session) else { return false };
        let index = self.line_of(class);
        let (Some(flow), Some(line)) = (self.flows.get_mut(usize::from(session.0)), self.lines.get_mut(index)) else {
            return false;
        };
        flow.place = Place::InLine;
        flow.begin = flow.begin.max(line.time);
        line.order.put(session.0, flow.begin);
        line.waiting = line.waiting.wrapping_add(1);
        self.waiting = self.waiting.wrapping_add(1);
        line.waiting == 1
    }

    /// Takes the session out of its line, or out of the parked ones.
    #[inline]
    fn leave(&mut self, session: SessionId) {
        let Some(class) = self.class(session) else { return };
        let index = self.line_of(class);
        let (Some(flow), Some(line)) = (self.flows.get_mut(usize::from(session.0)), self.lines.get_mut(index)) else {
            return;
        };
        match flow.place {
            Place::Away => {}
            Place::InLine => {
                line.order.remove(session.0);
                line.waiting = line.waiting.wrapping_sub(1);
                self.waiting = self.waiting.wrapping_sub(1);
            }
            Place::Parked => self.parked.remove(session.0),
        }
        flow.place = Place::Away;
    }
}

/// Changes the number of sessions of `class`.
fn count(members: &mut [u16; CLASSES], class: Class, change: i16) {
    if let Some(members) = members.get_mut(class.index()) {
        *members = members.saturating_add_signed(change);
    }
}

/// The classes that have members, a bit each.
fn present(members: &[u16; CLASSES]) -> u8 {
    (0u32..).zip(members).fold(0, |bits, (class, members)| bits | u8::from(*members > 0).wrapping_shl(class))
}

/// The most commands that a session submits at once.
const BATCH: u64 = 64;

/// Parts of a unit of cost that a line's time counts, so that weights divide it finely.
const PRECISION: u64 = 256;
