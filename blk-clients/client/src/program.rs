//! How a client program begins: what it is told, its own configuration, and the reporter of its results.

use crate::reporter::Reporter;
use crate::session::Options;
use core::fmt;
use platform::{Environment, Platform};
use serde::de::DeserializeOwned;
use workload::Client;

/// What a client program begins with. `C` is the type of its own configuration, `[tenant.program.config]` of the scenario.
#[derive(Clone, Debug)]
pub struct Program<P, C> {
    /// What it is told as every client is.
    pub client: Client,
    /// Its own configuration.
    pub config: C,
    /// Its results go here.
    pub reporter: Reporter<P>,
}

impl<P: Platform, C: DeserializeOwned> Program<P, C> {
    /// The program of `environment`. A configuration that cannot be read is reported, and ends the run of the client as failed: then there
    /// is none.
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
    /// How its session is opened.
    #[must_use]
    pub const fn options(&self) -> Options {
        Options { ring_entries: self.client.ring_entries, polls: self.client.polls }
    }

    /// Ends it: a failure is reported, and whether all was right.
    pub fn finish<E: fmt::Display>(&self, result: Result<(), E>) {
        if let Err(error) = &result {
            self.reporter.failure(format_args!("{error}"));
        }
        self.reporter.done(result.is_ok());
    }
}
