//! The start of a client program: its environment's description of the client, its own configuration, and the reporter.

use crate::reporter::Reporter;
use crate::session::Options;
use core::fmt;
use platform::{Environment, Platform};
use report::milestones::Milestone;
use serde::de::DeserializeOwned;
use workload::Client;

/// The state of a started client program. `C` is the type of its own configuration, `[tenant.program.config]` of the scenario.
#[derive(Clone)]
pub struct Program<P: Platform, C> {
    /// The description that every client gets.
    pub client: Client,
    /// The program's own configuration.
    pub config: C,
    /// The reporter of its results.
    pub reporter: Reporter<P>,
}

impl<P: Platform, C: DeserializeOwned> Program<P, C> {
    /// Reads the program's description and configuration from `environment`. Reports an unreadable configuration, ends the
    /// client's run as failed, and returns `None`.
    #[must_use]
    pub fn start(platform: &P, environment: &Environment) -> Option<Self> {
        let Some(client) = environment.config::<Client>() else {
            let reporter = Reporter::new(platform.clone(), environment, &environment.name);
            reporter.failure(format_args!("its environment tells it of no session"));
            return None;
        };
        let reporter = Reporter::new(platform.clone(), environment, &client.tenant);
        match client.config() {
            Ok(config) => Some(Self { client, config, reporter }),
            Err(error) => {
                reporter.failure(format_args!("its configuration cannot be read: {error}"));
                reporter.done(false);
                None
            }
        }
    }
}

impl<P: Platform, C> Program<P, C> {
    /// Options to open its session with.
    #[must_use]
    pub const fn options(&self) -> Options {
        Options { ring_entries: self.client.ring_entries, polls: self.client.polls, waits: self.client.waits }
    }

    /// Counts the tenant as ready, and waits for the moment at which the scenario has it begin (`begins`), if it names one. To be
    /// called without a request in flight, since it takes the component's events.
    pub async fn begin(&self, platform: &P) {
        self.reporter.milestones().count(Milestone::Ready);
        self.wait_for(self.client.begins, platform).await;
    }

    /// Waits for the moment at which the scenario has the tenant open its session (`opens`), if it names one.
    pub async fn open(&self, platform: &P) {
        self.wait_for(self.client.opens, platform).await;
    }

    async fn wait_for(&self, moment: Option<u16>, platform: &P) {
        while moment.is_some_and(|moment| !self.reporter.milestones().has_come(moment)) {
            platform.next_event().await;
        }
    }

    /// Whether the moment has come at which the scenario has the tenant's load end (`ends`).
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.client.ends.is_some_and(|moment| self.reporter.milestones().has_come(moment))
    }

    /// Ends the program: reports a failure, if any, and the verdict.
    pub fn finish<E: fmt::Display>(&self, result: Result<(), E>) {
        if let Err(error) = &result {
            self.reporter.failure(format_args!("{error}"));
        }
        self.reporter.done(result.is_ok());
    }
}
