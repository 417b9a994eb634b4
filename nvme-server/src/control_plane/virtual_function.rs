//! The state of a virtual function, which its client drives itself: whether the client may have it, and whether it is online.
//!
//! Neighbour: `functions` sets it online and offline at the controller.

use crate::watched::Watched;
use alloc::vec::Vec;
use blk_api::config::{FunctionConfig, ServerConfig};
use blk_api::names;
use platform::{Environment, Incarnation, Memory, Platform};

/// A client's virtual function.
pub(crate) struct VirtualFunction<M> {
    pub client: Watched<M>,
    pub state: State,
    /// The policy component grants the function; `None` before its word.
    pub granted: Option<bool>,
    /// The grant that the PCI server has been told.
    pub applied: Option<bool>,
}

/// The state of a function's controller for its client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Offline,
    /// The client that is watched may drive the function.
    Online,
    /// The function cannot be set online for this client.
    Refused,
}

impl<M: Memory> VirtualFunction<M> {
    /// The functions of the configuration, all offline. `None` without the page of a client's liveness.
    pub(crate) fn all<P: Platform<Memory = M>>(
        platform: &P,
        environment: &Environment,
        config: &ServerConfig,
    ) -> Option<Vec<Self>> {
        let one = |(number, _): (u32, &FunctionConfig)| {
            let page = platform.memory(environment.region(&names::function_liveness(number))?).ok()?;
            Some(Self { client: Watched::new(page), state: State::Offline, granted: None, applied: None })
        };
        (0..).zip(&config.functions).map(one).collect()
    }

    /// Returns whether the function's state is another than the client needs and may have.
    pub(crate) fn is_due(&self) -> bool {
        let may_have = self.granted == Some(true);
        let is_wrong = match self.state {
            State::Offline => may_have && self.client.death().is_none(),
            State::Online | State::Refused => !may_have || self.client.died(),
        };
        is_wrong || self.granted != self.applied
    }

    /// The death of the function's client, once the function is offline. Each death is returned once.
    pub(crate) fn acknowledge_death(&mut self) -> Option<Incarnation> {
        if self.state == State::Offline { self.client.new_death() } else { None }
    }
}
