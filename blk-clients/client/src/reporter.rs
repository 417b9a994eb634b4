//! What client programs report to the build machine.

use crate::error::OpenError;
use alloc::string::{String, ToString};
use core::fmt;
use platform::{Environment, Platform, ticks_to_ns};
use report::{Refused, Report, Value, clip};

/// Reports in the name of one component and one tenant.
#[derive(Clone, Debug)]
pub struct Reporter<P> {
    platform: P,
    component: report::Name,
    tenant: report::Name,
}

impl<P: Platform> Reporter<P> {
    /// Reports of the component of `environment` for `tenant`.
    #[must_use]
    pub fn new(platform: P, environment: &Environment, tenant: &str) -> Self {
        Self { platform, component: clip(&environment.name), tenant: clip(tenant) }
    }

    /// The tenant, as records name it.
    #[must_use]
    pub fn tenant(&self) -> report::Name {
        self.tenant.clone()
    }

    /// Sends a record.
    pub fn send(&self, record: &Report) {
        self.platform.report(&record.encode());
    }

    /// The first verified transfer is done, now.
    pub fn first_io(&self) {
        self.send(&Report::FirstIo { tenant: self.tenant(), at_ns: self.now_ns() });
    }

    /// A number of the program's own, for the run's page and its JSON. A unit may be empty.
    pub fn value(&self, name: &str, number: f64, unit: &str) {
        self.send(&Report::Value(Value { tenant: self.tenant(), name: clip(name), number, unit: clip(unit) }));
    }

    /// A check failed.
    pub fn failure(&self, reason: fmt::Arguments<'_>) {
        let mut text = String::new();
        // A String takes what it is given.
        let _ = fmt::write(&mut text, reason);
        platform::log::error!("{}", text.as_str());
        self.send(&Report::Failure { component: self.component.clone(), reason: clip(&text) });
    }

    /// The session could not be opened.
    pub fn not_open(&self, error: OpenError) {
        self.failure(format_args!("open: {error}"));
        if let OpenError::Refused(refusal) = error {
            let (label, reason) = (refusal as u32, clip(&refusal.to_string()));
            self.send(&Report::Refused(Refused { tenant: self.tenant(), label, reason }));
        }
    }

    /// The work is over.
    pub fn done(&self, passed: bool) {
        self.send(&Report::Done { tenant: self.tenant(), passed });
    }

    /// Nanoseconds of machine time.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.ns_of(self.platform.ticks())
    }

    /// Nanoseconds of machine time when the clock showed `ticks`.
    #[must_use]
    pub fn ns_of(&self, ticks: u64) -> u64 {
        ticks_to_ns(ticks, self.platform.ticks_per_second())
    }
}
