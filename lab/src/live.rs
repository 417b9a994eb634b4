//! A running system as the commands `top` and `ctl` see it: the telemetry of a run that goes on, in QEMU or in the simulator.

pub(crate) mod metrics;
pub(crate) mod operator;
pub(crate) mod tenant;

use anyhow::{Context, Result, ensure};
use operator::Operator;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};
use tenant::Tenant;
use xtask::project::Project;
use xtask::telemetry::announcement::{self, Announcement};
use xtask::telemetry::events::Events;
use xtask::telemetry::mailbox::Mailbox;
use xtask::telemetry::physical::Ram;
use xtask::telemetry::sample::Sample;

/// Time between two tries to read a page.
const TRY: Duration = Duration::from_millis(20);

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
        let (folder, announcement) = announcement::find(&project.path("target/runs"), named)?;
        let ram = Ram::of(&folder, announcement.arch)?;
        let now = announcement.places.sample(&ram);
        Ok(Self { folder, announcement, ram, before: now.clone(), now })
    }

    /// The scenario's name.
    pub(crate) fn scenario(&self) -> &str {
        &self.announcement.scenario
    }

    /// The operator. Other commands wait until the value is dropped.
    ///
    /// # Errors
    /// The system has no control component.
    pub(crate) fn operator(&self) -> Result<Operator> {
        let Announcement { scenario, control, places, arch, .. } = &self.announcement;
        let control = control.clone().with_context(|| {
            format!("the scenario '{scenario}' has no [control], so nobody carries out acts: add [control] with its `acts` to it")
        })?;
        let ram = Ram::writable(&self.folder, *arch)?;
        Ok(Operator::new(control, Mailbox::open(&self.folder, ram, places)?))
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

    /// The tenants, in the order of their servers and sessions.
    pub(crate) fn tenants(&self) -> Vec<Tenant> {
        let all = self.announcement.places.tenants();
        let named = all.flat_map(|(server, tenants)| tenants.iter().map(move |tenant| (server, tenant.as_str())));
        named.map(|(server, tenant)| Tenant::between(&self.before, &self.now, server, tenant)).collect()
    }
}
