//! The choice how completions are awaited, from the configuration.

use blk_client::{Completion, Request};
use platform::Platform;
use workload::Bench;

/// The choice for each request; none where the session's options decide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice(Option<Completion>);

impl Choice {
    /// The choice of the load `bench`.
    pub(crate) const fn of(bench: &Bench) -> Self {
        Self(match bench.completion {
            workload::Completion::Session => None,
            workload::Completion::Interrupt => Some(Completion::Interrupt),
            workload::Completion::Polled => Some(Completion::Polled),
            workload::Completion::SleepThenPoll => Some(Completion::SleepThenPoll),
            workload::Completion::Automatic => Some(Completion::Automatic),
        })
    }

    /// Makes the choice for `request`, which was made just now.
    #[inline]
    pub(crate) fn apply<P: Platform>(self, request: Request<P>) -> Request<P> {
        match self.0 {
            None => request,
            Some(completion) => request.by(completion),
        }
    }
}
