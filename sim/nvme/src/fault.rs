//! Acting on [`sim_fault`]: selection of the faults that hit a command, and the times of those that hit the controller.

use nvme_spec::{Sqe, Status, StatusCode, admin, nvm};
use sim_fault::{CommandEffect, CommandFault, ControllerEffect, Fault, PassingState, QueueKind};

use crate::generator::Generator;
use std::fmt;

/// Hits on commands that are remembered: the first ones, which a search after the cause of a failure needs.
const REMEMBERED: usize = 1024;

/// A command that a fault hit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultHit {
    /// The number of the fault in the configuration, from 0.
    pub fault: u16,
    /// Virtual time at which the command was fetched, in nanoseconds.
    pub at_ns: u64,
    /// The command's submission queue.
    pub sq: u16,
    /// The command.
    pub sqe: Sqe,
}

impl fmt::Display for FaultHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sq, sqe, .. } = self;
        let opcode = sqe.opcode();
        match (sq, admin::Opcode::from_raw(opcode), nvm::Opcode::from_raw(opcode)) {
            (0, Some(opcode), _) => write!(f, "{opcode:?}")?,
            (1.., _, Some(opcode)) => write!(f, "{opcode:?}")?,
            _ => write!(f, "opcode {opcode:#04x}")?,
        }
        if *sq > 0
            && names_blocks(sqe)
            && let Some(blocks) = nvm::Blocks::from_sqe(sqe)
        {
            write!(f, " of {} blocks from {} of namespace {}", blocks.count(), blocks.start().0, sqe.nsid)?;
        }
        write!(f, " in queue {sq}")
    }
}

/// The number of the fault that has an effect, in the order of the configuration; `None` without the effect.
pub(crate) type By = Option<u16>;

/// Effects of all faults that hit one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Effects {
    /// Set when the command is not executed but completes with this status.
    pub(crate) status: Option<Status>,
    pub(crate) delay_ns: u64,
    pub(crate) corrupt: By,
    pub(crate) misplaced: By,
    pub(crate) posting: Posting,
}

/// Faults of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Posting {
    pub(crate) dropped: By,
    pub(crate) duplicated: By,
    pub(crate) wrong_cid: By,
    pub(crate) wrong_head: By,
    pub(crate) late_head: By,
    pub(crate) stale_phase: By,
    pub(crate) no_interrupt: By,
}

impl Posting {
    /// Number of times that the completion is posted.
    pub(crate) const fn count(self) -> u8 {
        if self.dropped.is_some() { 0 } else { 1 + self.duplicated.is_some() as u8 }
    }
}

/// The effect of a fault on the controller at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Hit {
    /// Something was there, and is changed.
    Now,
    /// The fault changes something only when its driver does what it is about.
    Later,
    /// There was nothing to be hit.
    Nothing,
}

/// A fault, with the number of its opportunities and hits.
#[derive(Debug)]
struct Armed {
    fault: Fault,
    passed: u64,
    hits: u64,
    /// Whether a hit changed something: a command without data, for example, has none that a fault could corrupt.
    shown: bool,
}

/// All faults of a controller.
#[derive(Debug)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
    /// Indexes of controller faults by time, the next one last.
    ahead: Vec<usize>,
    /// Time at which the next one of them hits.
    next_ns: Option<u64>,
    /// Indexes of controller faults that have happened and have changed nothing so far.
    waiting: Vec<usize>,
    /// The first hits on commands.
    on_commands: Vec<FaultHit>,
}

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        let armed: Vec<Armed> =
            faults.into_iter().map(|fault| Armed { fault, passed: 0, hits: 0, shown: false }).collect();
        let time = |index: &usize| moment(&armed, *index);
        let mut ahead: Vec<usize> = (0..armed.len()).rev().filter(|index| time(index).is_some()).collect();
        ahead.sort_by_key(|index| std::cmp::Reverse(time(index)));
        let next_ns = ahead.last().and_then(time);
        Self { armed, ahead, next_ns, waiting: Vec::new(), on_commands: Vec::new() }
    }

    /// Hits of each fault, in the order of the configuration.
    pub(crate) fn hits(&self) -> impl Iterator<Item = u64> + '_ {
        self.armed.iter().map(|armed| armed.hits)
    }

    /// The first hits on commands, in the order of their times.
    pub(crate) fn on_commands(&self) -> &[FaultHit] {
        &self.on_commands
    }

    /// Time at which the controller is hit next.
    pub(crate) const fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Whether each fault changed nothing, in the order of the configuration. A fault of commands that hits by chance, and never
    /// did, could have when it concerned one.
    pub(crate) fn missed(&self) -> impl Iterator<Item = bool> + '_ {
        self.armed.iter().map(|armed| match &armed.fault {
            Fault::Command(fault) if fault.per_million < CommandFault::ALWAYS && armed.hits == 0 => {
                armed.passed <= fault.skip
            }
            _ => !armed.shown,
        })
    }

    /// Records that a fault changed something.
    pub(crate) fn show(&mut self, by: By) {
        if let Some(armed) = by.and_then(|number| self.armed.get_mut(usize::from(number))) {
            armed.shown = true;
        }
    }

    /// Takes the next fault of the controller, with its number.
    pub(crate) fn take_next(&mut self) -> Option<(usize, ControllerEffect)> {
        let taken = self.ahead.pop()?;
        self.next_ns = self.ahead.last().and_then(|index| moment(&self.armed, *index));
        match &self.armed.get(taken)?.fault {
            Fault::Controller(fault) => Some((taken, fault.effect)),
            _ => None,
        }
    }

    /// Records what a fault of the controller met.
    pub(crate) fn record(&mut self, number: usize, hit: Hit) {
        match hit {
            Hit::Now => self.count(number),
            Hit::Later => self.waiting.push(number),
            Hit::Nothing => {}
        }
    }

    fn count(&mut self, number: usize) {
        if let Some(armed) = self.armed.get_mut(number) {
            armed.hits += 1;
            armed.shown = true;
        }
    }

    /// Counts the faults of a kind that happened before and change something now.
    pub(crate) fn met(&mut self, is: impl Fn(ControllerEffect) -> bool) {
        self.end_waiting(is).into_iter().for_each(|number| self.count(number));
    }

    /// Forgets the faults of a kind that are over and have changed nothing.
    pub(crate) fn over(&mut self, is: impl Fn(ControllerEffect) -> bool) {
        self.end_waiting(is);
    }

    fn end_waiting(&mut self, is: impl Fn(ControllerEffect) -> bool) -> Vec<usize> {
        let Self { armed, waiting, .. } = self;
        let ends = |number: &mut usize| matches!(armed.get(*number).map(|armed| &armed.fault), Some(Fault::Controller(fault)) if is(fault.effect));
        waiting.extract_if(.., ends).collect()
    }

    /// Returns the effects on a command that is fetched now. `sq` is the number of its SQ.
    pub(crate) fn on_command(&mut self, now_ns: u64, sq: u16, sqe: &Sqe, generator: &mut Generator) -> Effects {
        let mut effects = Effects::default();
        for (number, armed) in (0..).zip(&mut self.armed) {
            let Fault::Command(fault) = &armed.fault else { continue };
            // Of two faults with one effect, only one could be said to have changed something.
            let is_free = !effects.have(fault.effect) && fault.times.is_none_or(|times| armed.hits < times);
            if !is_free || !concerns(fault, now_ns, sq, sqe) {
                continue;
            }
            armed.passed += 1;
            if armed.passed > fault.skip && generator.chance(fault.per_million) {
                armed.hits += 1;
                armed.shown |= effects.add(fault.effect, Some(number));
                if self.on_commands.len() < REMEMBERED {
                    self.on_commands.push(FaultHit { fault: number, at_ns: now_ns, sq, sqe: *sqe });
                }
            }
        }
        effects
    }
}

/// Time at which a fault of the controller hits.
fn moment(armed: &[Armed], index: usize) -> Option<u64> {
    match armed.get(index).map(|armed| &armed.fault) {
        Some(Fault::Controller(fault)) => Some(fault.at_ns),
        _ => None,
    }
}

/// Whether the fault hides the registers.
pub(crate) const fn is_absence(effect: ControllerEffect) -> bool {
    matches!(effect, ControllerEffect::AllOnes { .. })
}

/// Whether all conditions hold, except chance and count.
fn concerns(fault: &CommandFault, now_ns: u64, sq: u16, sqe: &Sqe) -> bool {
    let queue = match fault.queues {
        QueueKind::Io => sq != 0,
        QueueKind::Admin => sq == 0,
    };
    queue
        && now_ns >= fault.from_ns
        && fault.until_ns.is_none_or(|until| now_ns < until)
        && (fault.opcodes.is_empty() || fault.opcodes.contains(&sqe.opcode()))
        && fault.nsid.is_none_or(|nsid| sqe.nsid == nsid)
        && fault.blocks.is_none_or(|blocks| sq != 0 && names_block(sqe, blocks))
}

/// Whether the command, of an I/O queue, has SLBA and NLB.
fn names_blocks(sqe: &Sqe) -> bool {
    use nvm::Opcode::{Compare, Read, Verify, Write, WriteUncorrectable, WriteZeroes};
    matches!(
        nvm::Opcode::from_raw(sqe.opcode()),
        Some(Read | Write | Compare | Verify | WriteZeroes | WriteUncorrectable)
    )
}

/// Whether the command's SLBA and NLB overlap these blocks. Commands that name no blocks there do not.
fn names_block(sqe: &Sqe, wanted: sim_fault::Blocks) -> bool {
    let Some(blocks) = nvm::Blocks::from_sqe(sqe).filter(|_| names_blocks(sqe)) else { return false };
    let start = blocks.start().0;
    let end = start.saturating_add(u64::from(blocks.count()));
    start < wanted.first.saturating_add(wanted.count) && wanted.first < end
}

impl Effects {
    /// Whether a fault had this effect on the command already. Of statuses there is one, and delays add up.
    const fn have(&mut self, effect: CommandEffect) -> bool {
        match effect {
            CommandEffect::Status { .. } | CommandEffect::NotNow { .. } => self.status.is_some(),
            _ => matches!(self.by(effect), Some(Some(_))),
        }
    }

    /// Adds the effect of a fault. Returns whether it changes every command that it hits; of the others, this is known when the
    /// command's data are moved or its completion is posted.
    const fn add(&mut self, effect: CommandEffect, by: By) -> bool {
        match effect {
            CommandEffect::Status { sct, sc, dnr } => {
                self.fail(Status::new(StatusCode::Other { sct, sc }), dnr);
                true
            }
            CommandEffect::NotNow { status, crd, dnr } => {
                let code = match status {
                    PassingState::NamespaceNotReady => StatusCode::NamespaceNotReady,
                    PassingState::CommandInterrupted => StatusCode::CommandInterrupted,
                    PassingState::TransientTransportError => StatusCode::TransientTransport,
                };
                self.fail(Status::new(code).with_retry_delay_index(crd), dnr);
                true
            }
            CommandEffect::Delay { ns } => {
                self.delay_ns = self.delay_ns.saturating_add(ns);
                ns > 0
            }
            _ => {
                if let Some(place) = self.by(effect) {
                    *place = by;
                }
                false
            }
        }
    }

    /// The number of the fault that has this effect, of effects that are noticed later.
    const fn by(&mut self, effect: CommandEffect) -> Option<&mut By> {
        let posting = &mut self.posting;
        match effect {
            CommandEffect::Status { .. } | CommandEffect::NotNow { .. } | CommandEffect::Delay { .. } => None,
            CommandEffect::DropCompletion => Some(&mut posting.dropped),
            CommandEffect::DuplicateCompletion => Some(&mut posting.duplicated),
            CommandEffect::WrongCid => Some(&mut posting.wrong_cid),
            CommandEffect::WrongSqhd => Some(&mut posting.wrong_head),
            CommandEffect::LateSqhd => Some(&mut posting.late_head),
            CommandEffect::StalePhase => Some(&mut posting.stale_phase),
            CommandEffect::LoseInterrupt => Some(&mut posting.no_interrupt),
            CommandEffect::CorruptData => Some(&mut self.corrupt),
            CommandEffect::WrongAddress => Some(&mut self.misplaced),
        }
    }

    const fn fail(&mut self, status: Status, dnr: bool) {
        self.status = Some(if dnr { status.with_do_not_retry() } else { status });
    }
}
