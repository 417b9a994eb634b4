//! The controllers' own reports: commands from the fetch to the completion, resets, losses of power. Faults that the
//! scenario asks for are not counted against a controller.

use super::numbers;
use capdl::Scenario;
use sim_check::{Accounting, Checker, Data, Findings, QueueId, Subject};
use sim_fault::{CommandEffect, Fault};
use sim_nvme::{Event, Record};

/// A controller as the checkers need it.
pub(crate) struct ControllerReports {
    /// Faults of the scenario: completions that are never posted, or posted twice.
    drops: bool,
    doubles: bool,
    /// A loss of power takes writes away: it has a volatile write cache.
    forgets: bool,
    /// Time of the last reset or loss of power that ended all commands from before it.
    reset_ns: Option<u64>,
    /// The power failed, and no I/O command was done since.
    dark: bool,
}

impl ControllerReports {
    /// All controllers of the scenario in its order, then those of the virtual functions.
    pub(crate) fn all(scenario: &Scenario) -> Vec<Self> {
        let of = |number: usize, effect: CommandEffect| {
            scenario.faults.iter().any(|fault| match fault {
                Fault::Command(fault) if fault.effect == effect => {
                    scenario.controller(&fault.controller).map_or(0, |(index, _)| index) == number
                }
                _ => false,
            })
        };
        let forgets = |number: usize| scenario.controllers.get(number).is_some_and(|one| one.model.write_cache > 0);
        let calm =
            |physical| Self { drops: false, doubles: false, forgets: forgets(physical), reset_ns: None, dark: false };
        let reported = |number| Self {
            drops: of(number, CommandEffect::DropCompletion),
            doubles: of(number, CommandEffect::DuplicateCompletion),
            ..calm(number)
        };
        let functions = numbers::all(scenario).map(|(physical, _)| calm(physical));
        (0..scenario.controllers.len()).map(reported).chain(functions).collect()
    }

    /// Whether no request from `asked_ns` can have effect any more.
    pub(crate) fn was_reset_since(&self, asked_ns: u64) -> bool {
        self.reset_ns.is_some_and(|reset_ns| asked_ns <= reset_ns)
    }

    /// Whether a success answered now may belong to a write that a loss of power has undone since. The server may answer
    /// commands that completed before the loss, and none was done after it.
    pub(crate) const fn may_have_forgotten(&self) -> bool {
        self.forgets && self.dark
    }

    /// Reports an event of the controller to the checkers.
    pub(super) fn happened(&mut self, number: u32, event: &Event, now_ns: u64, checkers: Checkers<'_>) {
        let Checkers { data, accounting, findings } = checkers;
        let queue = |sq| QueueId { controller: number, sq };
        match *event {
            Event::Fetched { sq, sqe } => accounting.command_submitted(queue(sq), sqe.cid().0, now_ns, findings),
            Event::Over(record) => {
                self.dark &= record.sq == 0;
                self.over(number, &record, accounting, findings);
            }
            Event::Held { sq, cid } => accounting.command_completed(queue(sq), cid, now_ns, findings),
            Event::Stopped => accounting.controller_reset(number),
            Event::Reset => {
                self.reset_ns = Some(now_ns);
                data.ended(number);
            }
            Event::PowerLost => {
                (self.reset_ns, self.dark) = (Some(now_ns), true);
                data.power_lost(number);
            }
        }
    }

    /// Reports the end of a command: once, even if the scenario's faults change its completion.
    fn over(&self, number: u32, record: &Record, accounting: &mut Accounting, findings: &mut Findings) {
        let Record { sq, cid, completed_ns, postings, .. } = *record;
        if postings == 0 && !self.drops {
            findings.add(completed_ns, Checker::Accounting, Subject::Controller(number), || {
                format!("it had finished with CID {cid:#06x} of SQ {sq}, and should have posted its completion")
            });
        }
        let times = if self.doubles { 1 } else { postings.max(1) };
        for _ in 0..times {
            accounting.command_completed(QueueId { controller: number, sq }, cid, completed_ns, findings);
        }
    }
}

/// The checkers that receive the reports.
pub(super) struct Checkers<'a> {
    pub(super) data: &'a mut Data,
    pub(super) accounting: &'a mut Accounting,
    pub(super) findings: &'a mut Findings,
}
