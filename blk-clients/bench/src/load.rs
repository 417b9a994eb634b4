//! The load: one worker for each request in flight, each with one request at a time.
//!
//! Phases: one block written and read back (the first verified transfer), then the area is written once in order, then
//! one read of the largest size where sizes vary; then, from the moment on at which the scenario has it begin, the configured
//! mix; then verify, compare, write zeroes and discard if configured. Only the mix is counted and timed. A load that leaves time to others sleeps
//! from tick to tick, outside of the device's turns, whenever its requests took more than their part of the time so far.

use crate::area::{Access, Area, Units};
use crate::buffer::{Buffer, Layout};
use crate::choice::Choice;
use crate::compares;
use crate::delay::after;
use crate::outcome::Outcome;
use crate::progress::Progress;
use crate::shape::{self, Impossible};
use crate::stamp::{Generator, Stamp, tenant_number};
use crate::workers::all;
use crate::{certain, zeroes};
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use blk_client::{Device, Error, Program, Reporter, Status};
use core::cell::{Cell, RefCell};
use core::fmt;
use platform::{Platform, ticks_to_ns};
use report::milestones::Milestone;
use workload::{Bench, Forbidden};

/// Failures reported one by one; the rest are counted.
const MAX_REPORTED: u64 = 8;

/// The workers' shared state.
pub(crate) struct Load<'a, P: Platform> {
    platform: &'a P,
    pub(crate) device: &'a Device<P>,
    program: &'a Program<P, Bench>,
    reporter: &'a Reporter<P>,
    pub(crate) bench: &'a Bench,
    tenant: u64,
    first_block: u64,
    pub(crate) unit_blocks: u32,
    pub(crate) max_units: u32,
    pub(crate) area: RefCell<Area>,
    generator: RefCell<Generator>,
    pub(crate) outcome: RefCell<Outcome>,
    progress: RefCell<Progress>,
    /// Requests begun in the mix.
    begun: Cell<u64>,
    /// When the mix began, and when it ends by time, in ticks.
    began: Cell<u64>,
    deadline: Cell<u64>,
    /// Time in which the mix's requests were in flight, in ticks, summed over all of them.
    busy: Cell<u64>,
    /// A request failed with the session, which has ended: no further one can be done.
    over: Cell<bool>,
    unflushed: Cell<u64>,
    seen_io: Cell<bool>,
    /// The mix is running: finished requests count as the load.
    counts: Cell<bool>,
}

/// A request of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub(crate) access: Access,
    pub(crate) units: Units,
}

/// Runs the load of `program`.
pub(crate) async fn run<P: Platform>(
    platform: &P,
    device: &Device<P>,
    program: &Program<P, Bench>,
) -> Result<Outcome, Impossible> {
    let (bench, reporter) = (&program.config, &program.reporter);
    if bench.operations == 0 && bench.milliseconds == 0 && program.client.ends.is_none() {
        return Err(Impossible::Endless);
    }
    let layout = shape::layout(device.geometry(), bench)?;
    let load = Load::new(platform, device, program, &layout)?;
    let buffers = load.buffers(layout)?;
    if bench.verify {
        device.run(load.prepare(&buffers)).await?;
    }
    program.begin(platform).await;
    load.mix(&buffers).await?;
    device.run(load.conclude(&buffers)).await?;
    load.progress.borrow_mut().report(platform.ticks(), reporter);
    Ok(load.outcome.into_inner())
}

impl<'a, P: Platform> Load<'a, P> {
    fn new(
        platform: &'a P,
        device: &'a Device<P>,
        program: &'a Program<P, Bench>,
        layout: &Layout,
    ) -> Result<Self, Impossible> {
        let Program { client, config: bench, reporter } = program;
        let geometry = device.geometry();
        let unit_blocks = bench.block_bytes.checked_div(geometry.block_bytes).unwrap_or(1);
        // The largest request has at most as many blocks as fit a u32.
        let max_units = (layout.max_blocks as u32).checked_div(unit_blocks).unwrap_or(1);
        let tenant = tenant_number(&client.tenant);
        Ok(Self {
            platform,
            device,
            program,
            reporter,
            bench,
            tenant,
            first_block: client.first_block,
            unit_blocks,
            max_units,
            area: RefCell::new(Area::new(shape::area_units(geometry.blocks, unit_blocks, max_units, bench))),
            generator: RefCell::new(Generator::new(bench.seed ^ tenant)),
            outcome: RefCell::new(Outcome { verify: bench.verify, ..Outcome::default() }),
            progress: RefCell::new(Progress::new(platform, bench.progress_milliseconds)),
            begun: Cell::new(0),
            began: Cell::new(0),
            deadline: Cell::new(u64::MAX),
            busy: Cell::new(0),
            over: Cell::new(false),
            unflushed: Cell::new(0),
            seen_io: Cell::new(false),
            counts: Cell::new(false),
        })
    }

    /// Takes a piece of the window for each worker: as many as configured, or as there is room for.
    fn buffers(&self, layout: Layout) -> Result<Vec<Buffer<P::Memory>>, Impossible> {
        // With fewer requests than the area has room for, one unit is always free to work on.
        let apart = self.area.borrow().len().checked_div(self.max_units).unwrap_or(1).max(1);
        let depth = u32::from(self.bench.depth.max(1)).min(apart);
        let scratch = Rc::new(RefCell::new(vec![0; layout.block_bytes]));
        let buffers: Vec<_> = (0..depth).map_while(|_| Buffer::new(self.device.window(), layout, &scratch)).collect();
        if buffers.len() < usize::from(self.bench.depth) {
            platform::log::warn!("depth cut to {}: window or blocks hold no more", buffers.len());
        }
        self.outcome.borrow_mut().depth = u16::try_from(buffers.len()).unwrap_or(u16::MAX);
        if buffers.is_empty() { Err(Impossible::WindowTooSmall) } else { Ok(buffers) }
    }

    /// Writes the blocks that are read later.
    async fn prepare(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        self.first_transfer(buffers).await?;
        self.fill(buffers).await?;
        certain::read_largest(self, buffers).await
    }

    /// Makes the requests that come once, after the mix.
    async fn conclude(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        self.check_forbidden();
        certain::read_bad_block(self, buffers).await?;
        let Some(buffer) = buffers.first() else { return Ok(()) };
        if self.bench.compares {
            compares::run(self, buffer).await?;
        }
        if self.bench.zeroes {
            zeroes::run(self, buffer).await?;
        }
        Ok(())
    }

    /// Writes one request and reads it back, so that the first verified transfer does not wait for the area to be filled.
    async fn first_transfer(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        let Some(buffer) = buffers.first() else { return Ok(()) };
        // The last unit, unless it has the bad block, which must not be read first.
        let last = self.area.borrow().len().saturating_sub(1);
        let units = Units { first: last, count: 1 };
        if self.touches_bad_block(units) {
            return Ok(());
        }
        for access in [Access::Write, Access::Read] {
            self.operate(Operation { access, units }, buffer).await?;
        }
        Ok(())
    }

    /// Writes the whole area once.
    async fn fill(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        let next = &Cell::new(0u32);
        let workers = buffers.iter().map(|buffer| async move {
            while let Some(units) = self.next_to_fill(next) {
                self.operate(Operation { access: Access::Write, units }, buffer).await?;
            }
            Ok(())
        });
        all(workers).await
    }

    fn next_to_fill(&self, next: &Cell<u32>) -> Option<Units> {
        let first = next.get();
        let count = self.max_units.min(self.area.borrow().len().saturating_sub(first));
        next.set(first.saturating_add(count));
        (count > 0 && !self.over.get()).then_some(Units { first, count })
    }

    /// Runs the configured mix, in turns of the device. Between them it sleeps until the next tick, if it is to.
    async fn mix(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        self.counts.set(true);
        // The preparation was busy, too, and the mix rests for its own requests alone.
        self.busy.set(0);
        let begin = self.platform.ticks();
        self.began.set(begin);
        if self.bench.milliseconds > 0 {
            let ticks = u128::from(self.platform.ticks_per_second()).saturating_mul(self.bench.milliseconds.into());
            let ticks = u64::try_from(ticks.checked_div(1000).unwrap_or(0)).unwrap_or(u64::MAX);
            let deadline = begin.saturating_add(ticks);
            self.deadline.set(deadline);
            self.progress.borrow_mut().set_deadline(deadline);
        }
        self.device.run(self.turn(buffers)).await?;
        while !self.is_over() {
            self.platform.next_event().await;
            self.device.run(self.turn(buffers)).await?;
        }
        self.counts.set(false);
        let outcome = &mut *self.outcome.borrow_mut();
        (outcome.began_ns, outcome.elapsed_ns) = (self.reporter.ns_of(begin), self.ns_since(begin));
        Ok(())
    }

    /// Makes requests of the mix until it is over, or until the load is to sleep.
    async fn turn(&self, buffers: &[Buffer<P::Memory>]) -> Result<(), Impossible> {
        let workers = buffers.iter().map(|buffer| async move {
            while !self.is_to_sleep(buffers.len())
                && let Some(operation) = self.next_of_mix()
            {
                self.operate(operation, buffer).await?;
                self.flush_if_due(operation).await;
                self.think().await;
            }
            Ok(())
        });
        all(workers).await
    }

    /// Whether the requests so far, of so many in flight, took more than their part of the time.
    fn is_to_sleep(&self, depth: usize) -> bool {
        let elapsed = u128::from(self.platform.ticks().saturating_sub(self.began.get()));
        let part = elapsed.saturating_mul(self.bench.busy_percent.into()).saturating_mul(depth as u128);
        self.bench.busy_percent > 0 && u128::from(self.busy.get()).saturating_mul(100) > part
    }

    /// Yields to threads of the same priority during the configured think time.
    async fn think(&self) {
        if self.bench.think_microseconds == 0 {
            return;
        }
        let end = after(self.platform, self.bench.think_microseconds);
        while self.platform.ticks() < end {
            self.platform.yield_now().await;
        }
    }

    /// Whether the mix is over: by its number, its time, the moment that ends it, or the end of the session. A mix of little time, or
    /// whose moment has come already, makes one request at least, however late its thread runs.
    fn is_over(&self) -> bool {
        let begun = self.begun.get();
        let counted_out = self.bench.operations > 0 && begun >= self.bench.operations;
        let is_late = || self.platform.ticks() >= self.deadline.get() || self.program.is_over();
        counted_out || self.over.get() || (begun > 0 && is_late())
    }

    fn next_of_mix(&self) -> Option<Operation> {
        if self.is_over() {
            return None;
        }
        let generator = &mut *self.generator.borrow_mut();
        let is_read = generator.below(100) < u64::from(self.bench.read_percent);
        let access = if is_read { Access::Read } else { Access::Write };
        // Below a u32.
        let varied = (generator.below(u64::from(self.max_units)) as u32).saturating_add(1);
        let count = if self.bench.max_block_bytes > 0 { varied } else { 1 };
        let units = self.area.borrow_mut().take(self.bench.pattern, count, access, generator)?;
        self.area.borrow_mut().give_back(units, access);
        self.begun.set(self.begun.get().saturating_add(1));
        Some(Operation { access, units })
    }

    async fn flush_if_due(&self, operation: Operation) {
        if operation.access == Access::Read || self.bench.flush_every == 0 {
            return;
        }
        self.unflushed.set(self.unflushed.get().saturating_add(1));
        if self.unflushed.get() >= self.bench.flush_every {
            self.unflushed.set(0);
            // A function that is revoked does not flush either.
            if let Err(error) = self.persistently(async || self.device.flush().await).await
                && !self.may_be_forbidden(error)
            {
                self.fail(true, format_args!("flush: {error}"));
            }
        }
    }

    /// Carries out one request, from taking its units to returning them.
    ///
    /// # Errors
    /// [`Impossible::Window`].
    pub(crate) async fn operate(&self, operation: Operation, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
        let Operation { access, units } = operation;
        // Chosen as free in this same turn, or no other worker runs: it cannot fail.
        if !self.area.borrow_mut().try_take(units, access) {
            self.fail(false, format_args!("units {} taken twice", units.first));
            return Ok(());
        }
        let result = self.transfer(operation, buffer).await;
        self.area.borrow_mut().give_back(units, access);
        result
    }

    async fn transfer(&self, operation: Operation, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
        let Operation { access, units } = operation;
        let blocks = self.blocks(units);
        if access == Access::Write && self.bench.verify {
            buffer.fill((0..blocks).map(|block| self.stamp_to_write(units, block)))?;
        }
        let was_forbidden = self.area.borrow().is_forbidden(units);
        let begin = self.platform.ticks();
        let choice = Choice::of(self.bench);
        let mut room = buffer.room();
        let parts = buffer.parts(blocks, &mut room);
        let result = self
            .persistently(async || {
                let request = match access {
                    Access::Read => self.device.read(self.lba(units), parts),
                    Access::Write => self.device.write(self.lba(units), parts),
                };
                choice.apply(request).await
            })
            .await;
        let now = self.platform.ticks();
        let took = now.saturating_sub(begin);
        self.busy.set(self.busy.get().saturating_add(took));
        let latency_ns = ticks_to_ns(took, self.platform.ticks_per_second());
        let done = self.judge(operation, result);
        self.judge_rights(units, was_forbidden, result);
        if access == Access::Write {
            if done { self.area.borrow_mut().written(units) } else { self.area.borrow_mut().forget(units) }
        }
        if done {
            let bytes = (blocks as u64).saturating_mul(self.device.geometry().block_bytes.into());
            self.progress.borrow_mut().count(now, bytes, latency_ns, self.reporter);
            if self.counts.get() {
                self.count(access, latency_ns);
            }
            if access == Access::Read && self.bench.verify {
                self.verify(units, buffer)?;
            }
            self.count_milestone(access);
        }
        Ok(())
    }

    /// Counts a transfer that was done; reports the first one that was verified.
    fn count_milestone(&self, access: Access) {
        if access == Access::Write {
            self.reporter.milestones().count(Milestone::Written);
        }
        if access == Access::Write && self.bench.verify {
            return;
        }
        if self.seen_io.replace(true) {
            self.reporter.milestones().count(Milestone::Verified);
        } else {
            self.reporter.first_io();
        }
    }

    /// Makes a request, and repeats it up to the configured retries where the device failed it.
    pub(crate) async fn persistently(&self, request: impl AsyncFn() -> Result<(), Error>) -> Result<(), Error> {
        let mut result = request().await;
        for _ in 0..self.bench.retries {
            if !is_worth_another_try(&result) {
                break;
            }
            result = request().await;
        }
        result
    }

    /// Returns whether the request was done; reports an unexpected failure.
    fn judge(&self, operation: Operation, result: Result<(), Error>) -> bool {
        let bad = operation.access == Access::Read && self.touches_bad_block(operation.units);
        let lba = self.lba(operation.units);
        match result {
            Ok(()) if bad => {
                self.fail(false, format_args!("read at block {lba} did not fail, although it touches the bad block"))
            }
            Err(error) if bad && error.outcome() == Some(Status::MediaError) => {
                let outcome = &mut *self.outcome.borrow_mut();
                outcome.media_errors = outcome.media_errors.saturating_add(1);
            }
            Err(error) if self.may_be_forbidden(error) => {
                self.reporter.milestones().count(Milestone::Forbidden);
                let outcome = &mut *self.outcome.borrow_mut();
                outcome.forbidden = outcome.forbidden.saturating_add(1);
            }
            Err(error) => {
                self.over.set(self.device.has_ended());
                self.fail(true, format_args!("request at block {lba}: {error}"));
            }
            Ok(()) => return true,
        }
        result.is_ok()
    }

    /// Whether this error follows from rights that the load is configured to lose.
    fn may_be_forbidden(&self, error: Error) -> bool {
        self.bench.forbidden != Forbidden::Never && error.outcome() == Some(Status::Forbidden)
    }

    /// Records forbidden requests, and requests done after one. `was_forbidden` holds for the units when the request was made.
    fn judge_rights(&self, units: Units, was_forbidden: bool, result: Result<(), Error>) {
        let is_forbidden = result.is_err_and(|error| self.may_be_forbidden(error));
        if is_forbidden {
            return self.area.borrow_mut().set_forbidden(units, true);
        }
        if !was_forbidden || result.is_err() {
            return;
        }
        if self.bench.forbidden == Forbidden::ForGood {
            let lba = self.lba(units);
            return self.fail(false, format_args!("request at block {lba} was done, although it had been forbidden"));
        }
        self.area.borrow_mut().set_forbidden(units, false);
        self.reporter.milestones().count(Milestone::AllowedAgain);
        let outcome = &mut *self.outcome.borrow_mut();
        outcome.allowed_again = outcome.allowed_again.saturating_add(1);
    }

    /// Checks that a load noticed its rights being taken, or coming back.
    fn check_forbidden(&self) {
        let (forbidden, allowed_again) = {
            let outcome = self.outcome.borrow();
            (outcome.forbidden, outcome.allowed_again)
        };
        let must_be = matches!(self.bench.forbidden, Forbidden::ForGood | Forbidden::ForAWhile);
        if must_be && forbidden == 0 {
            self.fail(false, format_args!("no request was forbidden"));
        }
        if self.bench.forbidden == Forbidden::ForAWhile && allowed_again == 0 {
            self.fail(false, format_args!("what was forbidden was never done again"));
        }
    }

    fn count(&self, access: Access, latency_ns: u64) {
        let outcome = &mut *self.outcome.borrow_mut();
        let counter = match access {
            Access::Read => &mut outcome.reads,
            Access::Write => &mut outcome.writes,
        };
        *counter = counter.saturating_add(1);
        outcome.latencies.record(latency_ns);
    }

    fn verify(&self, units: Units, buffer: &Buffer<P::Memory>) -> Result<(), Impossible> {
        let blocks = self.blocks(units);
        let compared = buffer.compare((0..blocks).map(|block| self.stamp_to_find(units, block)))?;
        {
            let outcome = &mut *self.outcome.borrow_mut();
            outcome.verified_bytes = outcome.verified_bytes.saturating_add(compared.right_bytes);
            outcome.wrong_bytes = outcome.wrong_bytes.saturating_add(compared.wrong_bytes);
        }
        if let Some((stamp, mismatch)) = compared.first {
            let (lba, wrong, cause) = (stamp.lba, mismatch.wrong_bytes, mismatch.cause);
            let generation = stamp.generation;
            let bytes = if wrong == 1 { "byte" } else { "bytes" };
            self.fail(false, format_args!("block {lba} of generation {generation}: {wrong} wrong {bytes}, it {cause}"));
        }
        Ok(())
    }

    /// Returns whether a request after the mix was done; reports it if not.
    pub(crate) fn holds(&self, name: &str, lba: u64, result: Result<(), Error>) -> bool {
        if let Err(error) = result {
            self.fail(true, format_args!("{name} at block {lba}: {error}"));
        }
        result.is_ok()
    }

    /// Counts and reports a failure.
    pub(crate) fn fail(&self, of_request: bool, reason: fmt::Arguments<'_>) {
        let outcome = &mut *self.outcome.borrow_mut();
        let counter = if of_request { &mut outcome.errors } else { &mut outcome.broken };
        *counter = counter.saturating_add(1);
        if outcome.errors.saturating_add(outcome.broken) <= MAX_REPORTED {
            self.reporter.failure(reason);
        }
    }

    /// Blocks of the namespace that `units` have.
    pub(crate) const fn blocks(&self, units: Units) -> usize {
        units.count.saturating_mul(self.unit_blocks) as usize
    }

    /// The first block of `units`, in the session's numbering.
    pub(crate) fn lba(&self, units: Units) -> u64 {
        u64::from(units.first).saturating_mul(u64::from(self.unit_blocks))
    }

    /// The unit and the absolute LBA of a block of `units`.
    fn locate(&self, units: Units, block: usize) -> (u32, u64) {
        let unit = (block as u32).checked_div(self.unit_blocks).unwrap_or(0).saturating_add(units.first);
        (unit, self.lba(units).saturating_add(block as u64).saturating_add(self.first_block))
    }

    fn stamp_to_write(&self, units: Units, block: usize) -> Stamp {
        let (unit, lba) = self.locate(units, block);
        Stamp { tenant: self.tenant, lba, generation: self.area.borrow().next_generation(unit) }
    }

    fn stamp_to_find(&self, units: Units, block: usize) -> Option<Stamp> {
        let (unit, lba) = self.locate(units, block);
        let generation = self.area.borrow().generation(unit)?;
        Some(Stamp { tenant: self.tenant, lba, generation })
    }

    /// Whether the unreadable block is among these.
    pub(crate) fn touches_bad_block(&self, units: Units) -> bool {
        let first = self.lba(units);
        let end = first.saturating_add(self.blocks(units) as u64);
        self.bench.bad_block.is_some_and(|bad| (first..end).contains(&bad))
    }

    fn ns_since(&self, begin: u64) -> u64 {
        ticks_to_ns(self.platform.ticks().saturating_sub(begin), self.platform.ticks_per_second())
    }
}

/// Whether the device failed the request. False when the request itself was wrong, and when the controller still gave no
/// verdict after the library's retries.
fn is_worth_another_try(result: &Result<(), Error>) -> bool {
    let devices = [Status::MediaError, Status::DeviceError];
    result.as_ref().is_err_and(|error| error.outcome().is_some_and(|status| devices.contains(&status)))
}
