//! Refusals of controllers and their namespaces: names, properties of the model, sizes and formats.
//!
//! Neighbours: `registers`, `virtual_functions`, `later`, `interrupts` and `hot_plug` check what their names say.

use super::registers::{self, MAX_BARS};
use crate::scenario::file::Lines;
use crate::scenario::refusal::{Checked, refuse};
use crate::scenario::validate::limits::{MAX_NAMESPACE, PAGE};
use crate::scenario::validate::names::{check_name, check_unique};
use crate::scenario::{Attach, CommandSet, Controller, Model, Namespace, NamespaceModel, Purpose, Scenario, Version};
use std::collections::BTreeSet;

/// Longest name of a controller: `nvme-server-` goes before it.
const MAX_CONTROLLER_NAME: usize = 20;
/// The longest time to fetch a command: a thousand commands a second.
const MAX_FETCH_NS: u32 = 1_000_000;
/// Bytes of protection information (NVM command set specification 1.0, section 5.2).
const PROTECTION_BYTES: u16 = 8;
/// Bytes of the largest block.
const MAX_BLOCK: u32 = 1 << 16;

/// Checks a controller and its namespaces. `names` are those of the controllers before it.
pub(super) fn check<'a>(controller: &'a Controller, names: &mut BTreeSet<&'a str>, line: usize) -> Checked {
    let name = &controller.name;
    check_name("controller", name, MAX_CONTROLLER_NAME, line)?;
    check_unique("controller", name, names, line)?;
    if controller.serial.len() > 20 || !controller.serial.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',') {
        return refuse(
            line,
            format!(
                "controller `{name}` has a serial that is not 1 to 20 printable characters without commas: shorten it"
            ),
        );
    }
    check_model(controller, line)?;
    if controller.queue_pairs == 0 || controller.queue_pairs > 2047 {
        return refuse(
            line,
            format!("controller `{name}` has {} queue pairs: give it 1 to 2047", controller.queue_pairs),
        );
    }
    registers::check(controller, line)?;
    registers::check_left(controller, line)?;
    if controller.namespaces.is_empty() || controller.namespaces.len() > 256 {
        return refuse(
            line,
            format!("controller `{name}` has {} namespaces: give it 1 to 256", controller.namespaces.len()),
        );
    }
    for (namespace, nsid) in controller.namespaces.iter().zip(1..) {
        check_namespace(namespace, nsid, name, line)?;
    }
    Ok(())
}

fn check_namespace(namespace: &Namespace, nsid: u32, controller: &str, line: usize) -> Checked {
    let Namespace { size, block_bytes, backend: _, content: _, nguid: _, eui64: _, ref media_errors, model } =
        *namespace;
    if !block_bytes.is_power_of_two() || !(512..=MAX_BLOCK).contains(&block_bytes) {
        return refuse(
            line,
            format!(
                "namespace {nsid} of `{controller}` has blocks of {block_bytes} bytes: write a power of two, \
                 512 to {MAX_BLOCK}"
            ),
        );
    }
    let unit = PAGE.max(block_bytes.into());
    if size == 0 || !size.is_multiple_of(unit) {
        return refuse(
            line,
            format!("namespace {nsid} of `{controller}` has {size} bytes: make it a multiple of {unit}"),
        );
    }
    let NamespaceModel { formats, format_index, metadata, protection, .. } = model;
    if !(1..=64).contains(&formats) {
        return refuse(line, format!("namespace {nsid} of `{controller}` has {formats} formats: give it 1 to 64"));
    }
    if format_index >= formats {
        return refuse(
            line,
            format!(
                "namespace {nsid} of `{controller}` has format {format_index} of {formats} formats: give it \
                 formats = {} or more",
                format_index.saturating_add(1)
            ),
        );
    }
    if protection > 3 || (protection > 0 && metadata < PROTECTION_BYTES) {
        return refuse(
            line,
            format!(
                "namespace {nsid} of `{controller}` has protection of type {protection} in {metadata} bytes of metadata: give \
                 it type 1 to 3, and metadata = {PROTECTION_BYTES} or more"
            ),
        );
    }
    if size > MAX_NAMESPACE {
        return refuse(
            line,
            format!(
                "namespace {nsid} of `{controller}` has {size} bytes: give it \"{}G\" at most",
                MAX_NAMESPACE >> 30
            ),
        );
    }
    let blocks = namespace.blocks();
    match media_errors.iter().find(|block| **block >= blocks) {
        Some(block) => refuse(
            line,
            format!(
                "namespace {nsid} of `{controller}` has a media error on block {block} but only {blocks} blocks: \
                 lower it"
            ),
        ),
        None => Ok(()),
    }
}

/// Checks that no two controllers have one serial number.
pub(super) fn check_serials(scenario: &Scenario, lines: &Lines) -> Checked {
    let mut serials = BTreeSet::new();
    for (controller, line) in scenario.controllers.iter().zip(&lines.controllers) {
        if !serials.insert(&controller.serial) {
            return refuse(*line, format!("serial `{}` is there twice: change one of them", controller.serial));
        }
    }
    Ok(())
}

/// Refuses impossible properties of a controller.
fn check_model(controller: &Controller, line: usize) -> Checked {
    let (name, model) = (&controller.name, &controller.model);
    let bad = |what: &str, value: u64, fix: &str| {
        refuse(line, format!("controller `{name}` has {what} {value}: give it {fix}"))
    };
    match *model {
        Model { doorbell_stride, .. } if doorbell_stride > 10 => {
            bad("a doorbell_stride of", doorbell_stride.into(), "0 to 10")
        }
        Model { queue_entries, .. } if !(2..=65_536).contains(&queue_entries) => {
            bad("queue_entries", queue_entries.into(), "2 to 65536")
        }
        Model { max_transfer, .. } if !(1..=10).contains(&max_transfer) => {
            bad("a max_transfer of", max_transfer.into(), "1 to 10")
        }
        Model { fetch_ns, .. } if fetch_ns > MAX_FETCH_NS => {
            bad("a fetch_ns of", fetch_ns.into(), "1 to 1000000, or 0 for the media's")
        }
        Model { outstanding: 0, .. } => bad("outstanding", 0, "1 to 65535"),
        Model { timeout_ms, version, .. } if !is_timeout(timeout_ms, version) => bad(
            "a timeout_ms of",
            timeout_ms.into(),
            "a multiple of 500, up to 127500, or up to 32767500 with version = \"2.0\"",
        ),
        Model { ready_ms, timeout_ms, .. } if ready_ms > timeout_ms => {
            bad("a ready_ms of", ready_ms.into(), &format!("at most its timeout_ms, {timeout_ms}"))
        }
        Model { register_bytes, .. } if register_bytes > MAX_BARS => {
            bad("register_bytes of", register_bytes, &format!("at most {MAX_BARS}"))
        }
        Model { vsl, .. } if vsl > 10 => bad("a vsl of", vsl.into(), "1 to 10, or 0 for none"),
        Model { wzsl, .. } if wzsl > 10 => bad("a wzsl of", wzsl.into(), "1 to 10, or 0 for none"),
        Model { version, vsl, wzsl, dmrl, dmrsl, dmsl, .. }
            if version < Version::V2_0 && (vsl, wzsl, dmrl, dmrsl, dmsl) != (0, 0, 0, 0, 0) =>
        {
            refuse(
                line,
                format!(
                    "controller `{name}` has limits that it cannot state before version 2.0: give it version = \"2.0\""
                ),
            )
        }
        Model { version, retry_delays, .. } if version < Version::V1_4 && retry_delays != [0; 3] => refuse(
            line,
            format!(
                "controller `{name}` has retry_delays and cannot state them before version 1.4: give it version = \"1.4\""
            ),
        ),
        Model { ghosts: true, .. } if !matches!(controller.attach, Attach::RootPort | Attach::Switch) => refuse(
            line,
            format!(
                "controller `{name}` has ghosts and no port of its own above it: attach it to a root-port or switch"
            ),
        ),
        Model { purpose, version, .. } if purpose != Purpose::Io && version < Version::V1_4 => refuse(
            line,
            format!(
                "controller `{name}` has a purpose and cannot say so before version 1.4: give it version = \"1.4\""
            ),
        ),
        _ if controller.virtual_functions > 0 && controller.namespaces.iter().any(|one| one.model.inactive) => refuse(
            line,
            format!(
                "controller `{name}` has virtual functions and an inactive namespace, which a function may get: leave it out"
            ),
        ),
        _ if model.version < Version::V1_3 && has_other_command_set(controller) => refuse(
            line,
            format!(
                "controller `{name}` has a command_set and cannot say so before version 1.3: give it version = \"2.0\""
            ),
        ),
        _ => Ok(()),
    }
}

fn is_timeout(ms: u32, version: Version) -> bool {
    let most = if version < Version::V2_0 { u32::from(u8::MAX) * 500 } else { u32::from(u16::MAX) * 500 };
    (500..=most).contains(&ms) && ms.is_multiple_of(500)
}

fn has_other_command_set(controller: &Controller) -> bool {
    controller.namespaces.iter().any(|namespace| namespace.model.command_set != CommandSet::Nvm)
}
