//! The news of a running system for its page: readings of the telemetry, and the log of events. One thread adds news; each reader takes
//! those that it has not seen.

use crate::live::Live;
use crate::live::acts::Acts;
use crate::live::tenant::Tenant;
use anyhow::Result;
use serde::Serialize;
use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use xtask::plain::plain;
use xtask::reports::live_log::HAPPENED;
use xtask::telemetry::sample::Sample;

/// Time between two readings.
pub(super) const EVERY: Duration = Duration::from_millis(500);
/// Time without news after which a reading without figures is taken: a server that writes nothing does nothing.
const SILENCE: Duration = Duration::from_secs(4);
/// Readings and lines of the log that are kept for a page that is opened later.
const MOST_READINGS: usize = 240;
const MOST_LINES: usize = 1000;

/// The contents of the page.
pub(super) struct Feed {
    state: Mutex<State>,
    /// Counts changes.
    news: watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    system: Option<System>,
    readings: Kept<Reading>,
    log: Kept<String>,
    over: Option<String>,
}

/// A system that runs, or ran.
#[derive(Clone)]
pub(super) struct System {
    /// The scenario's name.
    pub(super) scenario: String,
    /// The capability graph as SVG.
    pub(super) graph: String,
    /// The way to change the system.
    pub(super) acts: Option<Arc<dyn Acts>>,
    /// The last reading of all pages.
    pub(super) sample: Sample,
}

/// The newest of numbered things.
struct Kept<T> {
    newest: VecDeque<T>,
    /// Things that were added and are not kept any more.
    dropped: usize,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { newest: VecDeque::new(), dropped: 0 }
    }
}

impl<T: Clone> Kept<T> {
    fn add(&mut self, one: T, most: usize) {
        self.newest.push_back(one);
        if self.newest.len() > most {
            self.newest.pop_front();
            self.dropped += 1;
        }
    }

    /// The kept ones from number `from` on; `from` becomes the number of the next one.
    fn since(&self, from: &mut usize) -> Vec<T> {
        let new = self.newest.iter().skip(from.saturating_sub(self.dropped)).cloned().collect();
        *from = self.dropped + self.newest.len();
        new
    }
}

/// Figures of one moment.
#[derive(Clone, Serialize)]
struct Reading {
    /// Seconds of the machine's clock.
    at: f64,
    tenants: Vec<Tenant>,
    servers: Vec<Server>,
}

/// An NVMe server and its controller.
#[derive(Clone, Serialize)]
struct Server {
    server: String,
    /// Second of the machine's clock at which this incarnation of the server began.
    since: f64,
    controller_is_up: bool,
    open_sessions: u64,
    /// Faults after which a part of the controller was recreated.
    faults: u64,
}

impl Reading {
    fn of(live: &Live) -> Self {
        let server = |(name, page): (&String, &blk_api::telemetry::Server)| Server {
            server: name.clone(),
            since: page.started_at as f64 / page.ticks_per_second.max(1) as f64,
            controller_is_up: page.is_up != 0,
            open_sessions: page.open_sessions.into(),
            faults: page.faults,
        };
        Self { at: live.seconds(), tenants: live.tenants(), servers: live.now().servers.iter().map(server).collect() }
    }
}

/// News for one reader.
#[derive(Serialize)]
struct News {
    readings: Vec<Reading>,
    /// Lines about what happened.
    log: Vec<String>,
    /// The acts that the run offers.
    acts: Vec<&'static str>,
    /// The sentence about the run's end.
    #[serde(skip_serializing_if = "Option::is_none")]
    over: Option<String>,
}

/// The news that a reader has seen.
#[derive(Default)]
pub(super) struct Seen {
    readings: usize,
    log: usize,
    has_begun: bool,
    is_over: bool,
}

impl Feed {
    pub(super) fn new() -> Self {
        Self { state: Mutex::default(), news: watch::Sender::new(0) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Each change of the state is one assignment or addition.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.news.send_modify(|count| *count += 1);
    }

    /// The system, once it runs.
    pub(super) fn system(&self) -> Option<System> {
        self.state().system.clone()
    }

    /// Shows a system.
    pub(super) fn begin(&self, system: System) {
        self.change(|state| state.system = Some(system));
    }

    /// Says that the run is over, unless that was said before.
    pub(super) fn end(&self, sentence: &str) {
        self.change(|state| _ = state.over.get_or_insert_with(|| sentence.to_owned()));
    }

    pub(super) fn is_over(&self) -> bool {
        self.state().over.is_some()
    }

    /// Wakes a reader at each change.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// News as JSON for somebody who has seen this much; `None` without any.
    pub(super) fn news(&self, seen: &mut Seen) -> Option<String> {
        let state = self.state();
        let news = News {
            readings: state.readings.since(&mut seen.readings),
            log: state.log.since(&mut seen.log),
            acts: state
                .system
                .iter()
                .filter_map(|system| system.acts.as_ref())
                .flat_map(|acts| acts.offered())
                .collect(),
            over: state.over.clone().filter(|_| !seen.is_over),
        };
        drop(state);
        let is_first = !std::mem::replace(&mut seen.has_begun, true);
        seen.is_over |= news.over.is_some();
        let has_any = is_first || !news.readings.is_empty() || !news.log.is_empty() || news.over.is_some();
        // Figures and text always encode.
        has_any.then(|| serde_json::to_string(&news).ok()).flatten()
    }

    /// Adds lines of the log.
    fn log(&self, text: &str) {
        self.change(|state| text.lines().for_each(|line| state.log.add(plain(line).into_owned(), MOST_LINES)));
    }

    /// Takes readings of a running system until its run is over, or the feed is. Returns the sentence about the end.
    pub(super) fn watch(&self, mut live: Live) -> String {
        let graph = fs::read_to_string(live.folder().join("system.svg")).unwrap_or_default();
        let (scenario, sample) = (live.scenario().to_owned(), live.now().clone());
        let mut log = Tail::of(&live);
        let mut last = Instant::now();
        self.begin(System { scenario, graph, acts: live.acts(), sample });
        loop {
            let read = self.read(&mut live, &mut last);
            log.more().into_iter().for_each(|text| self.log(&text));
            if let Err(over) = read {
                self.end(&over.to_string());
                return over.to_string();
            }
            if self.is_over() {
                return String::new();
            }
            thread::sleep(EVERY);
        }
    }

    fn read(&self, live: &mut Live, last: &mut Instant) -> Result<()> {
        let has_news = live.refresh_if_written()?;
        if has_news || last.elapsed() > SILENCE {
            if !has_news {
                // The reading before the last one becomes this one: nothing has happened.
                live.refresh()?;
            }
            *last = Instant::now();
            let reading = Reading::of(live);
            self.change(|state| {
                state.readings.add(reading, MOST_READINGS);
                if let Some(system) = &mut state.system {
                    system.sample = live.now().clone();
                }
            });
        }
        Ok(())
    }
}

/// The end of the growing file of what happened.
struct Tail {
    file: Option<File>,
    /// The begin of a line that is being written.
    part: Vec<u8>,
}

impl Tail {
    fn of(live: &Live) -> Self {
        Self { file: File::open(live.folder().join(HAPPENED)).ok(), part: Vec::new() }
    }

    /// The whole lines that were added.
    fn more(&mut self) -> Option<String> {
        self.file.as_mut()?.read_to_end(&mut self.part).ok()?;
        let end = self.part.iter().rposition(|byte| *byte == b'\n')? + 1;
        let lines: Vec<u8> = self.part.drain(..end).collect();
        Some(String::from_utf8_lossy(&lines).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn news(feed: &Feed, seen: &mut Seen) -> Option<Value> {
        feed.news(seen).map(|text| serde_json::from_str(&text).unwrap())
    }

    #[test]
    fn each_reader_gets_all_that_is_new_to_it_once() {
        let (feed, mut first) = (Feed::new(), Seen::default());
        assert_eq!(
            news(&feed, &mut first).unwrap()["readings"],
            Value::Array(Vec::new()),
            "a page learns that it is there"
        );
        assert_eq!(news(&feed, &mut first), None);
        feed.log("one\ntwo \u{1b}[2J\n");
        let reading = Reading { at: 1.5, tenants: Vec::new(), servers: Vec::new() };
        feed.change(|state| state.readings.add(reading, MOST_READINGS));
        let got = news(&feed, &mut first).unwrap();
        assert_eq!((got["log"][1].as_str(), got["readings"][0]["at"].as_f64()), (Some("two \u{fffd}[2J"), Some(1.5)));
        let mut second = Seen::default();
        assert_eq!(news(&feed, &mut second).unwrap(), got);
        feed.end("it is over");
        feed.end("again");
        assert_eq!(news(&feed, &mut first).unwrap()["over"], "it is over");
        assert_eq!(news(&feed, &mut first), None);
    }

    #[test]
    fn a_late_reader_gets_the_newest() {
        let (feed, mut seen) = (Feed::new(), Seen::default());
        (0..MOST_LINES + 5).for_each(|number| feed.log(&format!("line {number}")));
        let got = news(&feed, &mut seen).unwrap();
        assert_eq!((got["log"].as_array().unwrap().len(), &got["log"][0]), (MOST_LINES, &Value::from("line 5")));
        feed.log("last");
        assert_eq!(news(&feed, &mut seen).unwrap()["log"], Value::from(vec!["last"]));
    }
}
