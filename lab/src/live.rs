//! A running system as the commands `top`, `ctl` and `web` see it: the telemetry of a run that goes on, in QEMU or in the simulator.

pub(crate) mod acts;
pub(crate) mod administration;
pub(crate) mod keys;
pub(crate) mod metrics;
pub(crate) mod operator;
pub(crate) mod tenant;

use acts::{Acts, Order};
use anyhow::{Context, Result, bail, ensure};
use blk_api::trace::Kinds;
use capdl::scenario::nearest;
use operator::Operator;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use telemetry::ring::{Head, WISH};
use tenant::Tenant;
use xtask::project::Project;
use xtask::reports::live_log::HAPPENED;
use xtask::telemetry::announcement::{self, Announcement};
use xtask::telemetry::events::Events;
use xtask::telemetry::mailbox::Mailbox;
use xtask::telemetry::physical::Ram;
use xtask::telemetry::sample::Sample;
use zerocopy::FromBytes as _;

/// Time between two tries to read a page.
const TRY: Duration = Duration::from_millis(20);
/// The longest wait for a server to switch a trace: at its next tick, also of a machine that is simulated slowly.
const LONGEST_SWITCH: Duration = Duration::from_secs(10);

/// The folder of all runs' folders.
fn runs(project: &Project) -> PathBuf {
    project.path("target/runs")
}

/// The operator of a run.
fn operator(folder: &Path, announcement: &Announcement) -> Result<Operator> {
    let Announcement { scenario, control, places, arch, .. } = announcement;
    let control = control.clone().with_context(|| {
        format!("the scenario '{scenario}' has no [control], so nobody carries out acts: add [control] with its `acts` to it")
    })?;
    let ram = Ram::writable(folder, *arch)?;
    Ok(Operator::new(control, Mailbox::open(folder, ram, places)?))
}

/// Has an order about a run's system carried out, and notes it for the run's timeline. Returns a sentence.
fn carry_out(folder: &Path, announcement: &Announcement, order: &Order) -> Result<String> {
    let done = operator(folder, announcement).and_then(|operator| order.carry_out(&operator));
    note(folder, order.name(), &order.words(), &done)?;
    done.map(|outcome| format!("{}: {outcome}", order.name()))
}

/// Notes an act on a component, with its outcome.
fn note(folder: &Path, who: &str, words: &str, done: &Result<String>) -> Result<()> {
    let outcome = match done {
        Ok(outcome) => outcome.clone(),
        Err(error) => format!("{error:#}"),
    };
    xtask::telemetry::acts::note(folder, who, &format!("{words}: {outcome}"))
}

/// The way to change a run's system: an operator for each order, so that other commands get their turns.
struct Way {
    folder: PathBuf,
    announcement: Announcement,
}

impl Acts for Way {
    fn offered(&self) -> Vec<&'static str> {
        self.announcement.control.iter().flat_map(|control| control.acts.iter().map(|act| act.name())).collect()
    }

    fn act(&self, order: &Order) -> Result<String> {
        announcement::ensure_going(&self.announcement, &self.folder)?;
        // The mailbox may have become known since.
        let now = Announcement::again(&self.folder);
        carry_out(&self.folder, now.as_ref().unwrap_or(&self.announcement), order)
    }
}

/// A run that is watched.
pub(crate) struct Live {
    folder: PathBuf,
    announcement: Announcement,
    ram: Ram,
    /// The reading before the last one, and the last.
    before: Sample,
    now: Sample,
}

impl Live {
    /// The run that goes on, of the scenario with this name if one is given: the newest.
    ///
    /// # Errors
    /// There is none, or its memory cannot be read.
    pub(crate) fn attach(project: &Project, named: Option<&str>) -> Result<Self> {
        Self::of(announcement::find(&runs(project), named)?)
    }

    /// The run of this process, if one goes on.
    ///
    /// # Errors
    /// The run's memory cannot be read.
    pub(crate) fn ours(project: &Project) -> Result<Option<Self>> {
        announcement::ours(&runs(project)).map(Self::of).transpose()
    }

    fn of((folder, announcement): (PathBuf, Announcement)) -> Result<Self> {
        let ram = Ram::of(&folder, announcement.arch)?;
        let now = announcement.places.sample(&ram);
        Ok(Self { folder, announcement, ram, before: now.clone(), now })
    }

    /// The scenario's name.
    pub(crate) fn scenario(&self) -> &str {
        &self.announcement.scenario
    }

    /// The run's folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The way to change the system, if the run offers one.
    pub(crate) fn acts(&self) -> Option<Arc<dyn Acts>> {
        let Self { folder, announcement, .. } = self;
        announcement.control.as_ref()?;
        Some(Arc::new(Way { folder: folder.clone(), announcement: announcement.clone() }))
    }

    /// Has an order carried out. Returns a sentence about that.
    ///
    /// # Errors
    /// The errors of [`Order::carry_out`], or a system without a control component.
    pub(crate) fn carry_out(&self, order: &Order) -> Result<String> {
        carry_out(&self.folder, &self.announcement, order)
    }

    /// Notes an act on a component for the run's timeline, with its outcome.
    ///
    /// # Errors
    /// The note cannot be written.
    pub(crate) fn note(&self, who: &str, words: &str, done: &Result<String>) -> Result<()> {
        note(&self.folder, who, words, done)
    }

    /// The operator. Other commands wait until the value is dropped.
    ///
    /// # Errors
    /// The system has no control component.
    pub(crate) fn operator(&self) -> Result<Operator> {
        operator(&self.folder, &self.announcement)
    }

    /// Whether an operator can act on the system.
    pub(crate) const fn has_operator(&self) -> bool {
        self.announcement.control.is_some()
    }

    /// The last reading.
    pub(crate) const fn now(&self) -> &Sample {
        &self.now
    }

    /// Reads all pages again.
    ///
    /// # Errors
    /// The run is over.
    pub(crate) fn refresh(&mut self) -> Result<()> {
        announcement::ensure_going(&self.announcement, &self.folder)?;
        // More pages become known while the system starts.
        if let Some(announcement) = Announcement::again(&self.folder) {
            self.announcement = announcement;
        }
        let read = self.announcement.places.sample(&self.ram);
        self.before = std::mem::replace(&mut self.now, read);
        // A page that was being written has what it had before.
        for (name, page) in &self.before.servers {
            self.now.servers.entry(name.clone()).or_insert(*page);
        }
        for (name, page) in &self.before.tenants {
            self.now.tenants.entry(name.clone()).or_insert_with(|| page.clone());
        }
        Ok(())
    }

    /// Reads all pages again; keeps the reading before the last one if no server has written since. Returns whether one has.
    ///
    /// # Errors
    /// The run is over.
    pub(crate) fn refresh_if_written(&mut self) -> Result<bool> {
        let (before, written) = (self.before.clone(), self.written());
        self.refresh()?;
        let has_news = self.written() != written;
        if !has_news {
            self.before = before;
        }
        Ok(has_news)
    }

    /// Seconds of the machine's clock at the last reading.
    pub(crate) fn seconds(&self) -> f64 {
        let seconds =
            self.now.servers.values().map(|page| page.written_at as f64 / page.ticks_per_second.max(1) as f64);
        seconds.fold(0.0, f64::max)
    }

    /// Waits until the machine has written its pages again, at most this long.
    ///
    /// # Errors
    /// The run is over.
    pub(crate) fn wait_for_news(&mut self, most: Duration) -> Result<()> {
        let (since, written) = (Instant::now(), self.written());
        while self.written() == written && since.elapsed() < most {
            thread::sleep(TRY);
            self.refresh()?;
        }
        Ok(())
    }

    /// Has these kinds of the tenant's requests traced from now on. Returns when its server has seen that, at its next tick.
    ///
    /// # Errors
    /// The scenario has no traces, or none of this tenant that can be switched, or the server is dead.
    pub(crate) fn switch_trace(&self, tenant: &str, kinds: Kinds) -> Result<()> {
        let Announcement { places, arch, .. } = &self.announcement;
        ensure!(
            places.has_traces(),
            "the scenario '{}' has no traces: write trace_pages = 16 below its [telemetry]",
            self.scenario()
        );
        let known: Vec<_> = places.wishes().collect();
        let Some((_, wish)) = known.iter().find(|(name, _)| name == tenant) else {
            let names = known.iter().map(|(name, _)| name.as_str());
            match nearest(tenant, names.clone()) {
                Some(near) => bail!("no trace of '{tenant}' can be switched: do you mean '{near}'?"),
                None => {
                    bail!("no trace of '{tenant}' can be switched, but of {}", names.collect::<Vec<_>>().join(", "))
                }
            }
        };
        Ram::writable(&self.folder, *arch)?.store(*wish, &kinds.wish().to_le_bytes())?;
        let (since, head) = (Instant::now(), wish - WISH as u64);
        loop {
            let mut bytes = [0; size_of::<Head>()];
            self.ram.load(head, &mut bytes)?;
            if Head::read_from_bytes(&bytes).is_ok_and(|head| head.switched_on == u64::from(kinds.0)) {
                return Ok(());
            }
            announcement::ensure_going(&self.announcement, &self.folder)?;
            ensure!(
                since.elapsed() < LONGEST_SWITCH,
                "the server has not switched the trace of '{tenant}': its session is not open"
            );
            thread::sleep(TRY);
        }
    }

    /// Waits for a line about what happened that has this text: any, or one that is `new`.
    ///
    /// # Errors
    /// There is none after `most`, or at the run's end.
    pub(crate) fn wait_for_line(&self, text: &str, new: bool, most: Duration) -> Result<String> {
        let file = self.folder.join(HAPPENED);
        let bytes = || fs::read(&file).unwrap_or_default();
        let seen = if new { bytes().len() } else { 0 };
        let since = Instant::now();
        loop {
            // A run that is over has written all of its lines.
            let is_over = !self.announcement.goes_on(&self.folder);
            let all = bytes();
            let added = String::from_utf8_lossy(all.get(seen..).unwrap_or_default());
            // The last line may be in the middle of being written.
            let mut whole = added.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            if let Some(line) = whole.find(|line| line.contains(text)) {
                return Ok(line.to_owned());
            }
            ensure!(!is_over, "the run of '{}' is over, and no line had '{text}'", self.scenario());
            ensure!(since.elapsed() < most, "no line had '{text}' in {} seconds", most.as_secs());
            thread::sleep(TRY);
        }
    }

    /// The events of the traces that are there, and of those of this time to come. A run that ends meanwhile ends the trace.
    ///
    /// # Errors
    /// The scenario has no traces.
    pub(crate) fn trace(&self, time: Duration) -> Result<Events> {
        let mut events = Events::new(&self.announcement.places);
        ensure!(
            self.announcement.places.has_traces(),
            "the scenario '{}' has no traces: write trace_pages = 16 below its [telemetry]",
            self.scenario()
        );
        let since = Instant::now();
        events.collect(&self.ram);
        while since.elapsed() < time && self.announcement.goes_on(&self.folder) {
            thread::sleep(TRY);
            events.collect(&self.ram);
        }
        Ok(events)
    }

    /// The times at which the servers wrote their pages.
    fn written(&self) -> Vec<u64> {
        self.now.servers.values().map(|page| page.written_at).collect()
    }

    /// The tenants, in the order of their servers, and of their sessions and functions there.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        let all = self.announcement.places.tenants();
        all.map(|(server, tenant)| Tenant::between(&self.before, &self.now, server, tenant)).collect()
    }
}
