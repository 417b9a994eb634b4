//! Timeline: the events of a run and the progress of its loads, by the clock of the machine.
//!
//! Every record carries the time at which it was made, so the order of arrival does not matter here. Left out: totals, which are
//! in `results`, and the picture, which `reports::timeline` draws.

use crate::reports::count::count;
use report::{Changed, FaultKind, Name, Progress, Reconnected, Report, Stamped, Text, clip};
use serde::Serialize;

/// The times of a run. Nanoseconds of machine time.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timeline {
    /// Zero of the times that a reader sees: the system's start; in the simulator the machine's, as in its log.
    pub begin_ns: Option<u64>,
    /// The latest time of all records.
    pub end_ns: u64,
    /// Events, in the order of arrival.
    pub events: Vec<Event>,
    /// Progress of loads, interval by interval.
    pub progress: Vec<Progress>,
}

/// Something that happened at one time.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Time of the event.
    pub at_ns: u64,
    /// Component of the event, under its tenant's name if it has one.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub who: Name,
    /// Kind of the event.
    pub what: What,
    /// Description; empty if `what` says it all.
    #[cfg_attr(feature = "schema", schemars(with = "&'static str"))]
    pub words: Text,
}

/// Kinds of event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// A component was started.
    Started,
    /// The component's session is open.
    Opened,
    /// The component's session was closed in an orderly way.
    Closed,
    /// The component's session was ended by the server.
    Expelled,
    /// The component was refused a session.
    Refused,
    /// An attack of the component was stopped.
    AttackRefused,
    /// An attack of the component was not stopped.
    AttackDone,
    /// The component faulted.
    Faulted,
    /// The component was killed by the scenario.
    Killed,
    /// The component can run again.
    Restarted,
    /// The component has its session again.
    Reconnected,
    /// The server's controller was made to fail, by the scenario.
    Broken,
    /// The server's controller was inserted or removed, or is to be, by the scenario.
    Moved,
    /// The server's controller, or a part of it, is recreated.
    Reset,
    /// The server's controller reported an asynchronous event.
    Reported,
    /// The component's rights were revoked.
    Revoked,
    /// Rights were granted to it.
    Granted,
    /// The component's share was changed.
    Entitled,
    /// The interrupt mode of its controller changed.
    Interrupts,
    /// An operator acted on the component, or was refused that.
    Ordered,
    /// A check of it failed.
    Failed,
    /// The component's work is over.
    Done,
}

impl Timeline {
    /// Takes a record's event and time. `planned` describes a change, where the scenario's is known.
    pub(crate) fn take(&mut self, Stamped { at_ns, report }: &Stamped, planned: Option<&str>) {
        let at_ns = *at_ns;
        self.end_ns = self.end_ns.max(at_ns);
        match report {
            Report::Machine(machine) => _ = self.begin_ns.get_or_insert(machine.started_at_ns),
            Report::Component(one) => self.event(at_ns, &one.name, What::Started, ""),
            Report::Opened { tenant, .. } => self.event(at_ns, tenant, What::Opened, ""),
            Report::Session(one) if one.ended_by.is_empty() => self.event(at_ns, &one.tenant, What::Closed, ""),
            Report::Session(one) => self.event(at_ns, &one.tenant, What::Expelled, &one.ended_by),
            Report::Refused(one) => self.event(at_ns, &one.tenant, What::Refused, &one.reason),
            Report::Attack(one) if one.refused => self.event(at_ns, &one.tenant, What::AttackRefused, &one.attack),
            Report::Attack(one) => self.event(at_ns, &one.tenant, What::AttackDone, &one.attack),
            Report::Fault(one) => match one.kind {
                FaultKind::Killed => self.event(at_ns, &one.name, What::Killed, ""),
                FaultKind::ServerDied => self.event(at_ns, &one.name, What::Faulted, "its server died"),
                kind => self.event(at_ns, &one.name, What::Faulted, &format!("{kind:?}").to_lowercase()),
            },
            Report::Restart(one) => {
                let words = format!("after {:.1} ms", one.took_ns as f64 / 1e6);
                self.event(one.ended_at_ns.saturating_add(one.took_ns), &one.name, What::Restarted, &words);
            }
            Report::Reconnected(Reconnected { tenant, at_ns, reissued }) => {
                let words = format!("{} resubmitted", count(*reissued, "request"));
                self.event(*at_ns, tenant, What::Reconnected, &words);
            }
            Report::Reset { server, reason, .. } => self.event(at_ns, server, What::Reset, reason),
            Report::Event { server, text, .. } => self.event(at_ns, server, What::Reported, text),
            Report::Change(one) => {
                let (what, words) = match one.what {
                    Changed::Revoked { blocks } => (What::Revoked, count(blocks, "block")),
                    Changed::Granted { blocks } => (What::Granted, count(blocks, "block")),
                    Changed::Entitled => (What::Entitled, String::new()),
                };
                let words = planned.unwrap_or(&words);
                self.event(one.at_ns.saturating_add(one.took_ns), &one.tenant, what, words);
            }
            Report::InterruptsChange(one) => {
                self.event(
                    one.at_ns.saturating_add(one.took_ns),
                    &one.policy,
                    What::Interrupts,
                    &format!("by {}", one.to),
                );
            }
            Report::Failure { component, reason } => self.event(at_ns, component, What::Failed, reason),
            Report::Done { tenant, passed } => {
                self.event(at_ns, tenant, What::Done, if *passed { "" } else { "it failed" });
            }
            Report::Progress(one) => self.progress.push(one.clone()),
            Report::Installed(_)
            | Report::TelemetryPages(_)
            | Report::Blocked(_)
            | Report::PciFunction(_)
            | Report::Claimed { .. }
            | Report::Controller(_)
            | Report::Namespace(_)
            | Report::FirstIo { .. }
            | Report::Load(_)
            | Report::Digest(_)
            | Report::Interrupted { .. }
            | Report::Measured(_)
            | Report::Value(_) => {}
        }
    }

    /// Records that the controller of the server `who` was made to fail.
    pub(crate) fn broken(&mut self, at_ns: u64, who: &str, words: &str) {
        self.event(at_ns, who, What::Broken, words);
    }

    /// Records that the controller of the server `who` was inserted or removed, or is to be.
    pub(crate) fn moved(&mut self, at_ns: u64, who: &str, words: &str) {
        self.event(at_ns, who, What::Moved, words);
    }

    /// Records an operator's act on the component `who`.
    pub(crate) fn ordered(&mut self, at_ns: u64, who: &str, words: &str) {
        self.event(at_ns, who, What::Ordered, words);
    }

    fn event(&mut self, at_ns: u64, who: &str, what: What, words: &str) {
        self.end_ns = self.end_ns.max(at_ns);
        self.events.push(Event { at_ns, who: clip(who), what, words: clip(words) });
    }

    /// The events of one component, the earliest first.
    pub(crate) fn events_of<'a>(&'a self, who: &'a str) -> Vec<&'a Event> {
        let mut events: Vec<_> = self.events.iter().filter(|event| event.who == who).collect();
        events.sort_by_key(|event| event.at_ns);
        events
    }

    /// The times in which a component ran: from each start to the fault, the end of its work, or the end of the run.
    pub(crate) fn incarnations_of(&self, who: &str) -> Vec<(u64, u64)> {
        let mut incarnations = Vec::new();
        let mut since = None;
        for event in self.events_of(who) {
            match event.what {
                What::Started | What::Restarted => since = since.or(Some(event.at_ns)),
                What::Faulted | What::Killed | What::Done => {
                    incarnations.extend(since.take().map(|since| (since, event.at_ns)));
                }
                _ => {}
            }
        }
        incarnations.extend(since.map(|since| (since, self.end_ns)));
        incarnations
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use report::{Component, Fault, Restart};

    pub(crate) fn started(name: &str) -> Report {
        Report::Component(Component { component: 3, name: clip(name), priority: 1, capabilities: 1, pages: 1 })
    }

    pub(crate) fn killed(name: &str) -> Report {
        Report::Fault(Fault { component: 3, name: clip(name), kind: FaultKind::Killed, address: 0, instruction: 0 })
    }

    fn timeline(reports: impl IntoIterator<Item = (u64, Report)>) -> Timeline {
        let mut timeline = Timeline::default();
        reports.into_iter().for_each(|(at_ns, report)| timeline.take(&Stamped { at_ns, report }, None));
        timeline
    }

    #[test]
    fn a_restarted_component_has_two_incarnations() {
        let restart = Restart { name: clip("server"), times: 1, ended_at_ns: 49, took_ns: 11, memory_left_bytes: 7 };
        let all = timeline([
            (10, started("server")),
            (20, started("alice")),
            // The restart is reported after the time it happened, and happened before the fault.
            (65, Report::Restart(restart)),
            (50, killed("server")),
            (90, Report::Done { tenant: clip("alice"), passed: true }),
            (100, Report::Opened { tenant: clip("bob"), pages_left: 9, io_tables_left: 9 }),
        ]);
        assert_eq!(all.incarnations_of("server"), [(10, 50), (60, 100)]);
        assert_eq!(all.incarnations_of("alice"), [(20, 90)]);
        assert!(all.incarnations_of("bob").is_empty());
        let whats: Vec<_> = all.events_of("server").iter().map(|event| event.what).collect();
        assert_eq!(whats, [What::Started, What::Killed, What::Restarted]);
    }
}
