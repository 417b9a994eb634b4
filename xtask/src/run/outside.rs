//! Everything that is done to a running machine from outside: faults of its controllers, and controllers that come and go.

use crate::machine::Machine;
use crate::machine::inherited::Inside;
use crate::machine::injection::{Door, Injection};
use crate::machine::model::Models;
use crate::machine::plug::Plug;
use crate::records::results::Results;
use crate::run::Collector;
use anyhow::Result;
use capdl::Scenario;
use kernel::Arch;
use std::time::Duration;

/// What is still to be done to a machine.
#[derive(Default)]
pub(super) struct Outside<'a> {
    injection: Option<Injection<'a>>,
    plug: Option<Plug<'a>>,
}

impl<'a> Outside<'a> {
    /// The faults and hot-plug events of the scenario, and the ends of sockets that QEMU inherits for them.
    pub(super) fn of(scenario: &'a Scenario, arch: Arch, models: Option<&dyn Models>) -> Result<(Self, Vec<Inside>)> {
        if let Some(models) = models {
            let injection = Injection::of_models(scenario, models.faults());
            return Ok((Self { injection, plug: None }, Vec::new()));
        }
        let mut outside = Self::default();
        if scenario.faults.is_empty() && scenario.hot_plugs.is_empty() {
            return Ok((outside, Vec::new()));
        }
        let (door, inside) = Door::new(arch)?;
        let mut ends = vec![inside];
        if !scenario.hot_plugs.is_empty() {
            let (plug, inside) = Plug::new(scenario, door.shared()?)?;
            outside.plug = Some(plug);
            ends.push(inside);
        }
        if !scenario.faults.is_empty() {
            outside.injection = Some(Injection::new(scenario, door));
        }
        Ok((outside, ends))
    }

    /// Does what is due, and records it.
    pub(super) fn go_on(&mut self, machine: &Machine, collector: &mut Collector<'_>) -> Result<()> {
        if let Some(injection) = &mut self.injection {
            for done in injection.go_on(&collector.results, machine.age())? {
                collector.take_fault(done.at_ns, &done.server, &done.words)?;
            }
        }
        if let Some(plug) = &mut self.plug {
            for done in plug.go_on(&collector.results, machine.age())? {
                collector.take_move(done.at_ns, &done.server, &done.words)?;
            }
        }
        Ok(())
    }

    /// Time until the next action, at `age` after QEMU's start, if it is known.
    pub(super) fn pause(&self, results: &Results, age: Duration) -> Option<Duration> {
        let fault = self.injection.as_ref().and_then(|injection| injection.pause(results, age));
        let plug = self.plug.as_ref().and_then(|plug| plug.pause(age));
        fault.into_iter().chain(plug).min()
    }

    /// Actions that were not done, one sentence each.
    pub(super) fn left(&self) -> Vec<String> {
        let faults = self.injection.iter().flat_map(Injection::left);
        faults.chain(self.plug.iter().flat_map(Plug::left)).collect()
    }
}
