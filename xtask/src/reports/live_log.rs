//! Live log of a run: describes events of the timeline, a line for each as it happens, in the order of their times. The lines go to the
//! terminal and into the file `happened` of the run's folder.
//!
//! Records of two components wait for the console and arrive in another order, so an event is shown when the machine's time has gone on
//! for a short while. One that arrives still later stands behind those that were shown. Left out: usual events, and those that the tables at the end report.

use crate::out;
use crate::plain::plain;
use crate::progress::Step;
use crate::records::results::Results;
use crate::records::timeline::{Event, Timeline, What};
use crate::reports::count::count;
use crate::reports::wrap::wrapped;
use anyhow::{Context, Result};
use report::Name;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// File name of the log in a run's folder.
pub const HAPPENED: &str = "happened";
/// Machine time for which an event waits for earlier ones.
const WINDOW_NS: u64 = 100_000_000;
/// Columns of a line before its words.
const BEFORE_WORDS: usize = 12;

/// State of the live log.
#[derive(Default)]
pub(crate) struct LiveLog<'a> {
    /// Step beside which events are shown.
    pub(crate) step: Option<&'a Step>,
    file: Option<File>,
    /// Whether the zero of the times was named.
    has_begun: bool,
    /// Events of the timeline that were taken from it.
    taken: usize,
    /// Events that were taken and not shown yet.
    waiting: Vec<Event>,
    /// Attacks, by attacker.
    attacks: BTreeMap<Name, Attacks>,
}

/// Counts of one attacker's attacks.
#[derive(Clone, Copy, Default)]
struct Attacks {
    refused: u64,
    succeeded: u64,
}

impl LiveLog<'_> {
    /// A log without lines yet, which writes them into a file of this folder.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self> {
        let path = folder.join(HAPPENED);
        let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { file: Some(file), ..Self::default() })
    }

    /// Shows the events that have waited long enough.
    pub(crate) fn go_on(&mut self, results: &Results) -> Result<()> {
        self.show(results, results.timeline.end_ns.saturating_sub(WINDOW_NS))
    }

    /// Shows all events: the run is over, or pauses.
    pub(crate) fn finish(&mut self, results: &Results) -> Result<()> {
        self.show(results, u64::MAX)
    }

    fn show(&mut self, results: &Results, until_ns: u64) -> Result<()> {
        let timeline = &results.timeline;
        // Without the system's start, times cannot be shown.
        let Some(begin_ns) = timeline.begin_ns.filter(|_| self.step.is_some() || self.file.is_some()) else {
            return Ok(());
        };
        for event in self.due(timeline, until_ns) {
            let Some(words) = words(&event, &mut self.attacks) else { continue };
            let seconds = seconds(&event, begin_ns);
            if let Some(file) = &mut self.file {
                let line = format!("{seconds:>8.2} s  {words}");
                writeln!(file, "{}", plain(&line)).context("cannot write the run's log: is the disk full?")?;
            }
            let Some(step) = self.step else { continue };
            if !std::mem::replace(&mut self.has_begun, true) {
                let title = format!("Events ({}):", results.zero());
                step.line(&wrapped(&title, out::sentence_columns(io::stderr())));
            }
            let columns = out::sentence_columns(io::stderr()).saturating_sub(BEFORE_WORDS);
            let words = wrapped(&words, columns).replace('\n', &format!("\n{:BEFORE_WORDS$}", ""));
            step.line(&format!("{seconds:>8.2} s  {words}"));
        }
        Ok(())
    }

    /// Takes the events until a time, the earliest first.
    fn due(&mut self, timeline: &Timeline, until_ns: u64) -> Vec<Event> {
        self.waiting.extend(timeline.events.iter().skip(self.taken).cloned());
        self.taken = timeline.events.len();
        self.waiting.sort_by_key(|event| event.at_ns);
        let due = self.waiting.partition_point(|event| event.at_ns <= until_ns);
        self.waiting.drain(..due).collect()
    }
}

/// All events of a run that are worth a sentence, in the order of their times: seconds from the run's zero, and the sentence.
pub(crate) fn sentences(results: &Results) -> Vec<(f64, String)> {
    let Timeline { begin_ns, events, .. } = &results.timeline;
    let mut events: Vec<_> = events.iter().collect();
    events.sort_by_key(|event| event.at_ns);
    let mut attacks = BTreeMap::new();
    let sentence = |event: &Event| Some((seconds(event, begin_ns.unwrap_or(0)), words(event, &mut attacks)?));
    events.into_iter().filter_map(sentence).collect()
}

/// Seconds from the run's zero to the event.
fn seconds(event: &Event, begin_ns: u64) -> f64 {
    event.at_ns.saturating_sub(begin_ns) as f64 / 1e9
}

/// The event in a sentence, if it is worth one. Refused attacks are counted; the first is reported, and the number at the end.
fn words(event: &Event, attacks: &mut BTreeMap<Name, Attacks>) -> Option<String> {
    let Event { who, what, words, .. } = event;
    Some(match what {
        What::AttackRefused => {
            let attacks = attacks.entry(who.clone()).or_default();
            attacks.refused += 1;
            return (attacks.refused == 1)
                .then(|| format!("{who} begins to attack; its first attempt is refused ({words})"));
        }
        What::Done => match attacks.get(who) {
            Some(Attacks { refused, succeeded }) => {
                let tried = count(refused + succeeded, "attack");
                let outcome = match succeeded {
                    0 => "all were refused".to_owned(),
                    _ => format!("{succeeded} SUCCEEDED"),
                };
                let end = if words.is_empty() { "" } else { "; it has ended with a failure" };
                format!("{who} has tried {tried}, and {outcome}{end}")
            }
            None if words.is_empty() => format!("{who} has finished"),
            None => format!("{who} has ended with a failure"),
        },
        What::AttackDone => {
            attacks.entry(who.clone()).or_default().succeeded += 1;
            format!("{who} has SUCCEEDED with an attack: {words}")
        }
        What::Killed => format!("{who} is killed, in the middle of what it does"),
        What::Faulted => format!("{who} is ended by the root task for a fault ({words})"),
        What::Restarted => format!("{who} runs again, {words}"),
        What::Reconnected => format!("{who} has its session again, {words}"),
        What::Revoked => format!("{who} loses all rights to {words}"),
        What::Granted => format!("{who} is granted {words}"),
        What::Entitled if words.is_empty() => format!("{who} has another share of the controller"),
        What::Entitled => format!("{who} has another share of the controller: {words}"),
        What::Interrupts => format!("the controller beside {who} interrupts {words} from now on"),
        What::Ordered => format!("an operator acts on {who}: {words}"),
        What::Expelled => format!("the session of {who} is ended by the server: {words}"),
        What::Refused => format!("{who} is refused a session: {words}"),
        What::Broken => format!("the controller of {who} fails: {words}"),
        What::Moved => format!("the controller of {who}: {words}"),
        What::Reported => format!("the controller of {who} reports: {words}"),
        What::Reset => format!("{who} recreates something: {words}"),
        What::Failed => format!("{who}: {words}"),
        What::Started | What::Opened | What::Closed => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::clip;

    fn reported(events: &[(&str, What, &str)]) -> Vec<String> {
        let mut attacks = BTreeMap::new();
        let event = |(who, what, text): &(&str, What, &str)| {
            let event = Event { at_ns: 5, who: clip(who), what: *what, words: clip(text) };
            words(&event, &mut attacks)
        };
        events.iter().filter_map(event).collect()
    }

    #[test]
    fn events_are_shown_in_the_order_of_their_times() {
        let step = Step::new("running");
        let mut live_log = LiveLog { step: Some(&step), ..LiveLog::default() };
        let mut timeline = Timeline { begin_ns: Some(0), ..Timeline::default() };
        let mut at = |at_ns, what, until_ns: Option<u64>| {
            timeline.events.push(Event { at_ns, who: clip("server"), what, words: clip("") });
            timeline.end_ns = timeline.end_ns.max(at_ns);
            let until_ns = until_ns.unwrap_or(timeline.end_ns.saturating_sub(WINDOW_NS));
            live_log.due(&timeline, until_ns).iter().map(|event| event.what).collect::<Vec<_>>()
        };
        assert_eq!(at(5_000_000, What::Restarted, None), []);
        assert_eq!(at(3_000_000, What::Killed, None), [], "it arrives later, and came before");
        assert_eq!(at(104_999_999, What::Opened, None), [What::Killed]);
        assert_eq!(at(105_000_000, What::Done, None), [What::Restarted]);
        assert_eq!(at(2_000_000, What::Failed, Some(u64::MAX)), [What::Failed, What::Opened, What::Done]);
    }

    #[test]
    fn lines_of_the_file_do_not_act_on_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let mut results = Results::default();
        results.timeline.begin_ns = Some(1_000_000_000);
        let event = |at_ns, what| Event { at_ns, who: clip("a"), what, words: clip("\u{1b}[2J\rgone") };
        results.timeline.events = vec![event(3_500_000_000, What::Failed), event(2_000_000_000, What::Killed)];
        LiveLog::in_folder(folder.path()).unwrap().finish(&results).unwrap();
        let text = std::fs::read_to_string(folder.path().join(HAPPENED)).unwrap();
        assert_eq!(
            text,
            "    1.00 s  a is killed, in the middle of what it does\n    2.50 s  a: \u{fffd}[2J\u{fffd}gone\n"
        );
        assert_eq!(sentences(&results).len(), 2);
    }

    #[test]
    fn controllers_that_move_and_acts_of_operators_are_reported() {
        let refused = "set class=urgent: refused: class urgent";
        let lines = reported(&[("nvme-server", What::Moved, "it is pulled out"), ("alice", What::Ordered, refused)]);
        let expected = [
            "the controller of nvme-server: it is pulled out",
            "an operator acts on alice: set class=urgent: refused: class urgent",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn attacks_are_reported_first_and_last_and_not_one_by_one() {
        let tries = [
            ("mallory", What::AttackRefused, "read block 1"),
            ("mallory", What::AttackRefused, "read block 2"),
            ("mallory", What::Done, ""),
            ("alice", What::Done, ""),
            ("bob", What::Done, "it failed"),
        ];
        let expected = [
            "mallory begins to attack; its first attempt is refused (read block 1)",
            "mallory has tried 2 attacks, and all were refused",
            "alice has finished",
            "bob has ended with a failure",
        ];
        assert_eq!(reported(&tries), expected);
        let done = [
            ("mallory", What::AttackRefused, "read block 1"),
            ("mallory", What::AttackDone, "read block 2"),
            ("mallory", What::Done, ""),
        ];
        let [_, succeeded, all] = reported(&done).try_into().unwrap();
        assert_eq!(succeeded, "mallory has SUCCEEDED with an attack: read block 2");
        assert_eq!(all, "mallory has tried 2 attacks, and 1 SUCCEEDED");
        let failed = [("mallory", What::AttackRefused, "read block 1"), ("mallory", What::Done, "it failed")];
        assert_eq!(
            reported(&failed)[1],
            "mallory has tried 1 attack, and all were refused; it has ended with a failure"
        );
    }

    #[test]
    fn deaths_are_reported_and_usual_events_are_not() {
        let events = [
            ("server", What::Started, ""),
            ("alice", What::Opened, ""),
            ("server", What::Killed, ""),
            ("server", What::Restarted, "after 1.7 ms"),
            ("alice", What::Reconnected, "4 requests resubmitted"),
            ("frank", What::Revoked, "256 blocks from 512"),
            // Fewer rights than before are granted, too.
            ("frank", What::Granted, "256 blocks from 512 (read-only)"),
        ];
        let expected = [
            "server is killed, in the middle of what it does",
            "server runs again, after 1.7 ms",
            "alice has its session again, 4 requests resubmitted",
            "frank loses all rights to 256 blocks from 512",
            "frank is granted 256 blocks from 512 (read-only)",
        ];
        assert_eq!(reported(&events), expected);
    }
}
