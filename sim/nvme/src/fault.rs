//! Acting on [`sim_fault`]: selection of the faults that hit a command, and the times of those that hit the controller.

use nvme_spec::{Sqe, Status, StatusCode, nvm};
use sim_fault::{CommandEffect, CommandFault, ControllerEffect, Fault, PassingState, QueueKind};

use crate::generator::Generator;

/// Effects of all faults that hit one command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Effects {
    /// Set when the command is not executed but completes with this status.
    pub(crate) status: Option<Status>,
    pub(crate) delay_ns: u64,
    pub(crate) corrupt: bool,
    pub(crate) misplaced: bool,
    pub(crate) posting: Posting,
}

/// Faults of a completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Posting {
    pub(crate) dropped: bool,
    pub(crate) duplicated: bool,
    pub(crate) wrong_cid: bool,
    pub(crate) wrong_head: bool,
    pub(crate) late_head: bool,
    pub(crate) stale_phase: bool,
    pub(crate) no_interrupt: bool,
}

impl Posting {
    /// Number of times that the completion is posted.
    pub(crate) const fn count(self) -> u8 {
        if self.dropped { 0 } else { 1 + self.duplicated as u8 }
    }
}

/// A fault, with the number of its opportunities and hits.
#[derive(Debug)]
struct Armed {
    fault: Fault,
    passed: u64,
    hits: u64,
}

/// All faults of a controller.
#[derive(Debug)]
pub(crate) struct Faults {
    armed: Vec<Armed>,
    /// Indexes of controller faults by time, the next one last.
    ahead: Vec<usize>,
    /// Time at which the next one of them hits.
    next_ns: Option<u64>,
}

impl Faults {
    pub(crate) fn new(faults: Vec<Fault>) -> Self {
        let armed: Vec<Armed> = faults.into_iter().map(|fault| Armed { fault, passed: 0, hits: 0 }).collect();
        let time = |index: &usize| moment(&armed, *index);
        let mut ahead: Vec<usize> = (0..armed.len()).rev().filter(|index| time(index).is_some()).collect();
        ahead.sort_by_key(|index| std::cmp::Reverse(time(index)));
        let next_ns = ahead.last().and_then(time);
        Self { armed, ahead, next_ns }
    }

    /// Hits of each fault, in the order of the configuration.
    pub(crate) fn hits(&self) -> impl Iterator<Item = u64> + '_ {
        self.armed.iter().map(|armed| armed.hits)
    }

    /// Time at which the controller is hit next.
    pub(crate) const fn next_ns(&self) -> Option<u64> {
        self.next_ns
    }

    /// Whether each fault could not show itself, in the order of the configuration. A fault of commands that hits by chance could
    /// when it concerned one.
    pub(crate) fn missed(&self) -> impl Iterator<Item = bool> + '_ {
        self.armed.iter().map(|armed| match &armed.fault {
            Fault::Command(fault) if fault.per_million < CommandFault::ALWAYS => armed.passed <= fault.skip,
            _ => armed.hits == 0,
        })
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

    /// Counts a hit of a fault of the controller.
    pub(crate) fn count(&mut self, number: usize) {
        self.armed.get_mut(number).into_iter().for_each(|armed| armed.hits += 1);
    }

    /// Returns the effects on a command that is fetched now. `sq` is the number of its SQ.
    pub(crate) fn on_command(&mut self, now_ns: u64, sq: u16, sqe: &Sqe, generator: &mut Generator) -> Effects {
        let mut effects = Effects::default();
        for armed in &mut self.armed {
            let Fault::Command(fault) = &armed.fault else { continue };
            if !concerns(fault, now_ns, sq, sqe) || fault.times.is_some_and(|times| armed.hits >= times) {
                continue;
            }
            armed.passed += 1;
            if armed.passed > fault.skip && generator.chance(fault.per_million) {
                armed.hits += 1;
                effects.add(fault.effect);
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

/// Whether the command's SLBA and NLB overlap these blocks. Commands that name no blocks there do not.
fn names_block(sqe: &Sqe, wanted: sim_fault::Blocks) -> bool {
    use nvm::Opcode::{Compare, Read, Verify, Write, WriteUncorrectable, WriteZeroes};
    let names = matches!(
        nvm::Opcode::from_raw(sqe.opcode()),
        Some(Read | Write | Compare | Verify | WriteZeroes | WriteUncorrectable)
    );
    let Some(blocks) = nvm::Blocks::from_sqe(sqe).filter(|_| names) else { return false };
    let start = blocks.start().0;
    let end = start.saturating_add(u64::from(blocks.count()));
    start < wanted.first.saturating_add(wanted.count) && wanted.first < end
}

impl Effects {
    const fn add(&mut self, effect: CommandEffect) {
        match effect {
            CommandEffect::Status { sct, sc, dnr } => {
                self.fail(Status::new(StatusCode::Other { sct, sc }), dnr);
            }
            CommandEffect::NotNow { status, crd, dnr } => {
                let code = match status {
                    PassingState::NamespaceNotReady => StatusCode::NamespaceNotReady,
                    PassingState::CommandInterrupted => StatusCode::CommandInterrupted,
                    PassingState::TransientTransportError => StatusCode::TransientTransport,
                };
                self.fail(Status::new(code).with_retry_delay_index(crd), dnr);
            }
            CommandEffect::Delay { ns } => self.delay_ns = self.delay_ns.saturating_add(ns),
            CommandEffect::DropCompletion => self.posting.dropped = true,
            CommandEffect::DuplicateCompletion => self.posting.duplicated = true,
            CommandEffect::WrongCid => self.posting.wrong_cid = true,
            CommandEffect::WrongSqhd => self.posting.wrong_head = true,
            CommandEffect::LateSqhd => self.posting.late_head = true,
            CommandEffect::StalePhase => self.posting.stale_phase = true,
            CommandEffect::LoseInterrupt => self.posting.no_interrupt = true,
            CommandEffect::CorruptData => self.corrupt = true,
            CommandEffect::WrongAddress => self.misplaced = true,
        }
    }

    const fn fail(&mut self, status: Status, dnr: bool) {
        self.status = Some(if dnr { status.with_do_not_retry() } else { status });
    }
}
