//! Servers, and clients with a function, that die at a moment of their work and are started again: one in a system, and possibly
//! a policy component.
//!
//! With a controller that is lost, it is unknown whether its driver ever reached the moment, so there no server dies. A
//! component dies only in its first incarnation. A death of the IOMMU server ends the PCI server's first incarnation, and the
//! PCI server's ends its drivers': so at most one of these dies.

use super::{Controller, Draw, Expect};
use capdl::Arch;
use capdl::scenario::IOMMU_SERVER;
use std::fmt::Write as _;

/// Turns of its executor that every PCI server has: a driver's claim takes them.
const PCI_SERVER_TURNS: u64 = 5;
/// Turns that every IOMMU server has: a driver maps its pool page by page.
const IOMMU_SERVER_TURNS: u64 = 60;
/// Turns that every NVMe server has: it polls its controller until it is ready, serves openings, then requests.
const SERVER_TURNS: u64 = 2_000;
/// Turns that every load with a function has: it waits for the function, and then for its requests.
const FUNCTION_TURNS: u64 = 100;

/// Draws the components that die.
pub(super) fn draw(draw: &mut Draw, arch: Arch, controllers: &[Controller], expect: &mut Expect, text: &mut String) {
    if !expect.lost.is_empty() {
        return;
    }
    let controller = &controllers[draw.below(controllers.len() as u64) as usize];
    match draw.below(4) {
        0 => draw.death("pci-server", PCI_SERVER_TURNS, expect, text),
        1 => draw.death(&controller.server, SERVER_TURNS, expect, text),
        2 if arch == Arch::Aarch64 => draw.death(IOMMU_SERVER, IOMMU_SERVER_TURNS, expect, text),
        3 => {
            if let Some(load) = controller.function_loads.first() {
                draw.death(load, FUNCTION_TURNS, expect, text);
            }
        }
        _ => {}
    }
    if draw.once_in(4) {
        // Each client calls it when it opens its session; an attacker may not get that far.
        let openings = controller.loads.len() as u64;
        draw.death(&controller.policy, openings, expect, text);
    }
}

impl Draw {
    fn death(&mut self, component: &str, turns: u64, expect: &mut Expect, text: &mut String) {
        let at_await = 1 + self.below(turns);
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[[fault]]\ncomponent = {{ component = \"{component}\", effect = {{ crash = {{ at_await = {at_await} }} }} }}\n"
        );
        expect.restarted.push(component.to_owned());
    }
}
