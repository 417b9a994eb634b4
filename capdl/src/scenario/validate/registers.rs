//! Refusals of controllers' registers: vectors, buffers, the room for all of them, and what software that ran before left in them.

use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::{Attach, Controller, Scenario};

/// Bytes of the BARs of all controllers together: the PCI windows of all machines have as much, with room for the order in which
/// firmware places them.
pub(super) const MAX_BARS: u64 = 512 << 20;

/// Checks its vectors and BARs.
pub(super) fn check(controller: &Controller, line: usize) -> Checked {
    let (name, vectors, buffer) = (&controller.name, controller.vectors, controller.memory_buffer);
    if vectors > 2048 {
        return refuse(line, format!("controller `{name}` has {vectors} vectors: give it 1 to 2048"));
    }
    if vectors > 0 && controller.virtual_functions > 0 {
        return refuse(
            line,
            format!("controller `{name}` has virtual functions, which take vectors of its own: leave out vectors"),
        );
    }
    if buffer > 0 && controller.virtual_functions > 0 {
        return refuse(
            line,
            format!(
                "controller `{name}` has virtual functions and a memory_buffer, of which QEMU's has one at most: leave out memory_buffer"
            ),
        );
    }
    if buffer > 0 && (!buffer.is_power_of_two() || buffer < 1 << 20) {
        return refuse(
            line,
            format!("controller `{name}` has a memory_buffer of {buffer} bytes: make it a power of two from 1M on"),
        );
    }
    Ok(())
}

/// Features that a controller can save, of those that the simulator's has.
const SAVEABLE: [u8; 8] = [0x01, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0b];

/// Checks what software that ran before is said to have left.
pub(super) fn check_left(controller: &Controller, line: usize) -> Checked {
    let (name, model) = (&controller.name, &controller.model);
    if let Some(saved) = controller.saved.iter().find(|saved| !SAVEABLE.contains(&saved.feature)) {
        return refuse(
            line,
            format!(
                "controller `{name}` has a value of feature {} saved, which it does not save: name 1, 4, 5, 6, 8, 9, 10 or 11",
                saved.feature
            ),
        );
    }
    if model.soft_reset && !model.d3hot && !model.bridges_d3hot {
        return refuse(
            line,
            format!("controller `{name}` has a soft_reset and nothing in D3hot: write d3hot = true or leave it out"),
        );
    }
    if model.bridges_d3hot && controller.attach == Attach::Root {
        return refuse(
            line,
            format!("controller `{name}` has bridges_d3hot and no bridge above it: attach it to a root-port"),
        );
    }
    if controller.hot_plug && (model.d3hot || model.bridges_d3hot) {
        return refuse(
            line,
            format!("controller `{name}` comes and goes, which takes its power: leave out d3hot and bridges_d3hot"),
        );
    }
    Ok(())
}

/// Checks that the registers and buffers of all controllers have room in the PCI window.
pub(super) fn check_room(scenario: &Scenario, lines: &Lines) -> Checked {
    let mut sum = 0u64;
    for (controller, line) in scenario.controllers.iter().zip(&lines.controllers) {
        sum = sum.saturating_add(controller.bar_bytes());
        if sum > MAX_BARS {
            return refuse(
                *line,
                format!(
                    "controller `{}` and those before it have registers and buffers of {} MiB, and the PCI window has \
                     room for {}: make them smaller",
                    controller.name,
                    sum >> 20,
                    MAX_BARS >> 20
                ),
            );
        }
    }
    Ok(())
}
