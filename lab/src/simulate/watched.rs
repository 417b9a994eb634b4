//! A simulated run that others watch and steer: its telemetry lies in a file, as QEMU has the machine's memory in one, and an operator's
//! requests come from there. Left out: the simulation's steps.

use anyhow::Result;
use blk_api::administration::SUBMIT;
use capdl::{Arch, Scenario, System};
use control_api::mailbox::{ANSWERS, Letter, REQUESTS};
use control_api::{Answer, Request};
use platform::PAGE_SIZE;
use sim::{Mailbox, Simulation};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use xtask::records::results::Results;
use xtask::telemetry::acts::Acts;
use xtask::telemetry::announcement::Announced;
use xtask::telemetry::events::Copied;
use xtask::telemetry::physical::{Mirror, Physical};
use xtask::telemetry::sample::Places;

/// The memory of the simulated machine.
pub(super) struct Memory<'a>(pub(super) &'a Simulation);

impl Physical for Memory<'_> {
    fn copy(&self, paddr: u64, bytes: &mut [u8]) -> Option<()> {
        self.0.copy_memory(paddr, bytes)
    }
}

/// A run that others watch: paced, and with its telemetry in a file as QEMU has the machine's memory.
pub(super) struct Watched<'a> {
    announced: Announced<'a>,
    mirror: Mirror,
    places: Places,
    copied: Copied,
    arch: Arch,
    speed: f64,
    since: Instant,
    /// The number of the last request to the control component.
    passed_on: [u8; 4],
    /// The last answer of the control component that was looked at.
    answered: [u8; 4],
    /// The operator's acts, as the commands note them.
    pub(super) acts: Acts,
}

impl<'a> Watched<'a> {
    /// A run with this folder, at this speed.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn new(scenario: &'a Scenario, system: &'a System, folder: &'a Path, speed: f64) -> Result<Self> {
        let arch = scenario.machine.arch;
        let announced = Announced::new(scenario, &system.specification, folder);
        let mirror = Mirror::new(folder, arch)?;
        let (places, copied) = (Places::default(), Copied::default());
        Ok(Self {
            announced,
            mirror,
            places,
            copied,
            arch,
            speed,
            since: Instant::now(),
            passed_on: [0; 4],
            answered: [0; 4],
            acts: Acts::of(folder),
        })
    }

    /// Shows the telemetry, passes on a request to the control component, and waits until virtual time may go on.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub(super) fn go_on(&mut self, simulation: &mut Simulation, results: &Results) -> Result<()> {
        if let Some(places) = self.announced.look(&results.telemetry_pages, self.arch)? {
            self.copied = Copied::new(&places);
            self.places = places;
        }
        let memory = Memory(simulation);
        self.copied.go_on(&self.places, &memory, &self.mirror)?;
        self.show_windows(&memory)?;
        self.places.addresses().try_for_each(|paddr| self.mirror.show(&memory, paddr))?;
        self.pass_wishes_on(simulation);
        if let Some((answers, requests)) = self.places.mailbox(ANSWERS).zip(self.places.mailbox(REQUESTS)) {
            self.pass_on(simulation, Mailbox { answers, requests })?;
        }
        let real = Duration::from_secs_f64(simulation.now_ns() as f64 / 1e9 / self.speed);
        thread::sleep(real.saturating_sub(self.since.elapsed()));
        Ok(())
    }

    /// Passes on which traces are switched.
    fn pass_wishes_on(&self, simulation: &mut Simulation) {
        for (_, wish) in self.places.wishes() {
            let (mut wanted, mut known) = ([0; 8], [0; 8]);
            let is_there = self.mirror.copy(wish, &mut wanted).and(Memory(simulation).copy(wish, &mut known));
            if is_there.is_some() && wanted != known {
                simulation.write_shared(wish, &wanted);
            }
        }
    }

    /// Copies the windows of the administration, before a new answer about it is shown. An operator writes into them only between
    /// such an answer and the next command.
    fn show_windows(&mut self, memory: &Memory<'_>) -> Result<()> {
        let mut page = [0; PAGE_SIZE];
        if self.places.mailbox(ANSWERS).and_then(|paddr| memory.copy(paddr, &mut page)).is_none() {
            return Ok(());
        }
        let number = page.first_chunk().copied().unwrap_or_default();
        if number == std::mem::replace(&mut self.answered, number) {
            return Ok(());
        }
        if let Some(Answer::Administration { .. }) = Letter::on(&page).and_then(|letter| letter.open()) {
            for paddr in (0..).map_while(|controller| self.places.window(controller)).flatten() {
                if memory.copy(paddr, &mut page).is_some() {
                    self.mirror.write(paddr, &page)?;
                }
            }
        }
        Ok(())
    }

    /// Passes on a new request. A restarted component finds none, and so does the sender of the last one.
    fn pass_on(&mut self, simulation: &mut Simulation, mailbox: Mailbox) -> Result<()> {
        let requests = mailbox.requests;
        let number = |memory: &dyn Physical| {
            let mut number = [0; 4];
            memory.copy(requests, &mut number).map(|()| number)
        };
        let mut page = [0; PAGE_SIZE];
        // The number of a request is written last and read first.
        let is_new = number(&self.mirror).is_some_and(|number| number != self.passed_on);
        if is_new && self.mirror.copy(requests, &mut page).is_some() {
            if let Some(Request::Administer { controller, label: SUBMIT, .. }) =
                Letter::on(&page).and_then(|letter| letter.open())
            {
                for paddr in self.places.window(controller.into()).into_iter().flatten() {
                    let mut data = [0; PAGE_SIZE];
                    if self.mirror.copy(paddr, &mut data).is_some() {
                        simulation.write_shared(paddr, &data);
                    }
                }
            }
            simulation.write_requests(mailbox, &page);
            self.passed_on = page.first_chunk().copied().unwrap_or_default();
            return Ok(());
        }
        let there = number(&Memory(simulation)).unwrap_or_default();
        if there != self.passed_on || number(&self.mirror).is_none() {
            self.passed_on = there;
            self.mirror.show(&Memory(simulation), requests)?;
        }
        Ok(())
    }
}
