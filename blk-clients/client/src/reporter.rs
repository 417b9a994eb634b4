//! Reports of client programs to the build machine.

use crate::error::OpenError;
use alloc::string::{String, ToString};
use core::fmt;
use platform::{Environment, Platform, ticks_to_ns};
use report::milestones::{Milestone, Milestones};
use report::{Refused, Report, Value, clip};

/// Sender of reports of one component for one tenant.
#[derive(Clone)]
pub struct Reporter<P: Platform> {
    platform: P,
    component: report::Name,
    tenant: report::Name,
    milestones: Milestones<P::Memory>,
}

impl<P: Platform> Reporter<P> {
    /// Makes a reporter of the component of `environment` for `tenant`.
    #[must_use]
    pub fn new(platform: P, environment: &Environment, tenant: &str) -> Self {
        let milestones = Milestones::of(&platform, environment);
        Self { platform, component: clip(&environment.name), tenant: clip(tenant), milestones }
    }

    /// The tenant's name in records.
    #[must_use]
    pub fn tenant(&self) -> report::Name {
        self.tenant.clone()
    }

    /// The milestones of the work, which moments of the scenario may wait for, and those moments. Attacks, the first verified
    /// transfer and the end of the work are counted when they are reported.
    pub const fn milestones(&self) -> &Milestones<P::Memory> {
        &self.milestones
    }

    /// Sends a record.
    pub fn send(&self, record: &Report) {
        self.platform.report(&record.encode());
        if matches!(record, Report::Attack(_)) {
            self.milestones.count(Milestone::Attacks);
        }
    }

    /// Reports that the first verified transfer is done now.
    pub fn first_io(&self) {
        self.milestones.count(Milestone::Verified);
        self.send(&Report::FirstIo { tenant: self.tenant(), at_ns: self.now_ns() });
    }

    /// Reports a number of the program's own, for the run's page and its JSON. The unit may be empty.
    pub fn value(&self, name: &str, number: f64, unit: &str) {
        self.send(&Report::Value(Value { tenant: self.tenant(), name: clip(name), number, unit: clip(unit) }));
    }

    /// Reports that a check failed.
    pub fn failure(&self, reason: fmt::Arguments<'_>) {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = fmt::write(&mut text, reason);
        platform::log::error!("{}", text.as_str());
        self.send(&Report::Failure { component: self.component.clone(), reason: clip(&text) });
    }

    /// Reports that the session could not be opened.
    pub fn not_open(&self, error: OpenError) {
        self.failure(format_args!("open: {error}"));
        if let OpenError::Refused(refusal) = error {
            let (label, reason) = (refusal as u32, clip(&refusal.to_string()));
            self.send(&Report::Refused(Refused { tenant: self.tenant(), label, reason }));
        }
    }

    /// Reports the end of the work, and whether it passed.
    pub fn done(&self, passed: bool) {
        self.send(&Report::Done { tenant: self.tenant(), passed });
        self.milestones.count(Milestone::Finished);
    }

    /// Nanoseconds of machine time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.ns_of(self.platform.ticks())
    }

    /// Converts `ticks` of the clock to nanoseconds of machine time.
    #[must_use]
    pub fn ns_of(&self, ticks: u64) -> u64 {
        ticks_to_ns(ticks, self.platform.ticks_per_second())
    }
}
