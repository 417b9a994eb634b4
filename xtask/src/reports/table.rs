//! Results as text: tables of a run, and the verdict.

mod attacks;
mod changes;
mod limits;
mod parts;
mod paths;
mod restarts;
mod resting;
mod tenants;

use crate::judges::times::{self, WHOLE_RUN};
use crate::plain::plain;
use crate::records::results::Results;
use crate::reports::count::count;
use crate::reports::sheet::{Sheet, Value};
use capdl_spec::Role;
pub(crate) use parts::Part;
use parts::{bdf, ended_faults, size, what};
use report::{FaultKind, Interrupts, Name, PciFunction, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The whole report, in the order of a reader's questions, for an output of so many columns. Those of `sentences` are for the verdict.
pub fn render(results: &Results, columns: usize, sentences: usize) -> String {
    let parts = parts(results).into_iter().chain(verdict(results).map(Part::Sentences));
    let parts: Vec<_> = parts.map(|part| part.render(columns, sentences)).collect();
    plain(&parts.join("\n")).into_owned()
}

/// The parts of the report before the verdict.
pub(crate) fn parts(results: &Results) -> Vec<Part> {
    let parts = [
        machine(results).map(Part::Text),
        lost_isolation(results).map(Part::Text),
        components(results),
        pci(results).map(Part::Text),
        controllers(results).map(Part::Text),
        tenants::tenants(results),
        limits::limits(results).map(Part::Text),
        resting::resting(results).map(Part::Text),
        paths::paths(results),
        values(results),
        refused(results).map(Part::Text),
        interrupts(results),
        misses(results),
        changes::changes(results),
        changes::of_interrupts(results),
        restarts::restarts(results),
        ended(results).map(Part::Text),
        blocked(results).map(Part::Text),
        attacks::attacks(results).map(Part::Text),
        digests(results).map(Part::Lines),
    ];
    parts.into_iter().flatten().collect()
}

fn machine(results: &Results) -> Option<String> {
    let machine = results.machine.as_ref()?;
    let iommu = match machine.iommu_levels {
        // The kernel does not report an SMMU.
        0 if results.has(Role::IommuServer) => "SMMU".to_owned(),
        0 => "no IOMMU".to_owned(),
        levels => format!("IOMMU with {levels} levels"),
    };
    let kernel = results.kernel.as_ref().map_or("seL4", |kernel| &kernel.release);
    let world = match (results.seed, results.arch) {
        (Some(_), arch) => {
            let machine = if arch == "aarch64" { "virt" } else { "q35" };
            match &results.kernel {
                Some(kernel) => format!("simulated {} and {machine}", kernel.release),
                None => format!("simulated kernel and {machine}"),
            }
        }
        (None, "aarch64") => format!("{kernel} on QEMU virt"),
        (None, _) => format!("{kernel} on QEMU q35"),
    };
    Some(format!(
        "Machine: {world}, {} MiB for the system, {} MiB left, {} kernel objects, {iommu}, clock {} MHz\n",
        machine.memory_bytes >> 20,
        machine.memory_left_bytes >> 20,
        machine.objects,
        machine.ticks_per_second / 1_000_000
    ))
}

/// The isolation that a machine without an IOMMU lacks.
fn lost_isolation(results: &Results) -> Option<String> {
    let has_none = results.machine.as_ref()?.iommu_levels == 0 && !results.has(Role::IommuServer);
    has_none.then(|| {
        "No IOMMU: every controller reaches all memory, the kernel's included, at the addresses it is given.\n\
         Lost: protection from a controller that does wrong, and from an NVMe server that does.\n\
         Kept: no client reaches a device or another's memory, and the NVMe server alone chooses addresses.\n"
            .to_owned()
    })
}

fn components(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["component", "name", "priority", "capabilities", "pages"]);
    for one in &results.components {
        sheet.row([
            Value::Number(one.component.to_string()),
            Value::Word(one.name.to_string()),
            Value::Number(one.priority.to_string()),
            Value::Number(one.capabilities.to_string()),
            Value::Number(one.pages.to_string()),
        ]);
    }
    (!sheet.is_empty()).then_some(Part::Table("Components", sheet))
}

/// The tree of functions, each below its bridge.
fn pci(results: &Results) -> Option<String> {
    (!results.pci.is_empty()).then_some(())?;
    let mut text = String::from("PCI\n");
    branch(&results.pci, None, 1, &mut text);
    Some(text)
}

/// Writes the functions below `parent`. The depth is limited by the number of functions, so a cyclic list ends too.
fn branch(functions: &[PciFunction], parent: Option<u16>, depth: usize, text: &mut String) {
    for function in functions.iter().filter(|function| function.parent == parent && depth <= functions.len()) {
        let [class, subclass, interface] = function.class_code;
        let (vendor, device) = (function.vendor, function.device);
        // Writing to a string cannot fail.
        let _ = write!(text, "{:1$}", "", 2 * depth);
        let _ = write!(
            text,
            "{} {vendor:04x}:{device:04x} class {class:02x}{subclass:02x}{interface:02x}",
            bdf(function.bdf)
        );
        match function.buses {
            Some((first, last)) if first == last => _ = write!(text, ", bridge to bus {first:02x}"),
            Some((first, last)) => _ = write!(text, ", bridge to buses {first:02x}..{last:02x}"),
            None => {}
        }
        for (index, address, bytes) in &function.bars {
            let _ = write!(text, ", BAR{index} {address:#x} {}", size(*bytes));
        }
        if function.msix_vectors > 0 {
            let _ = write!(text, ", MSI-X {}", function.msix_vectors);
        }
        text.push('\n');
        branch(functions, Some(function.bdf), depth + 1, text);
    }
}

fn controllers(results: &Results) -> Option<String> {
    let mut text = String::new();
    // Each incarnation of a server reports its controller.
    let mut reported = BTreeSet::new();
    for one in results.controllers.iter().filter(|one| reported.insert(&one.server)) {
        let [major, minor, tertiary] = one.version;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "Controller {} ({}): {}, serial {}, firmware {}, NVMe {major}.{minor}.{tertiary}, {} of up to {} entries, \
             transfers of up to {}, {}",
            bdf(one.bdf),
            one.server,
            one.model.trim(),
            one.serial.trim(),
            one.firmware.trim(),
            count(one.queue_pairs, "I/O queue pair"),
            one.max_queue_entries,
            size(one.max_transfer_bytes),
            one.interrupts
        );
        let mut reported = BTreeSet::new();
        let own = results.namespaces.iter().filter(|namespace| namespace.server == one.server);
        for namespace in own.filter(|namespace| reported.insert(namespace.nsid)) {
            let (nsid, blocks, bytes) = (namespace.nsid, namespace.blocks, namespace.block_bytes);
            let _ = writeln!(text, "  namespace {nsid}: {blocks} blocks of {bytes} bytes");
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Sessions that were not opened.
fn refused(results: &Results) -> Option<String> {
    let line = |refused: &Refused| format!("{} was refused its session: {}\n", refused.tenant, refused.reason);
    (!results.refused.is_empty()).then(|| results.refused.iter().map(line).collect())
}

/// Whether a server of sessions was restarted. It reports a session at its end, so what it counted before its death is lost.
fn has_server_restarted(results: &Results) -> bool {
    results.servers.values().any(|server| results.restarts_of(server) > 0)
}

/// Sessions whose requests missed the table of extents.
fn misses(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["tenant", "requests", "record not installed", "forbidden"]);
    for session in results.sessions.iter().filter(|session| session.not_installed + session.forbidden > 0) {
        sheet.row([
            Value::Word(session.tenant.to_string()),
            Value::Number(session.requests.to_string()),
            Value::Number(session.not_installed.to_string()),
            Value::Number(session.forbidden.to_string()),
        ]);
    }
    let title = match has_server_restarted(results) {
        false => "Extents: requests, and how many of them missed a record",
        true => {
            "Extents: requests, and how many of them missed a record\n\
             (of a session that was open when its server died, since the restart)"
        }
    };
    (!sheet.is_empty()).then_some(Part::Table(title, sheet))
}

/// Interrupts of sessions and of other drivers, by mode.
fn interrupts(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["of", "INTx", "MSI", "MSI-X"]);
    let mut by_name: BTreeMap<&Name, [u64; 3]> = BTreeMap::new();
    for (name, interrupts) in results.interrupts().filter(|(_, interrupts)| interrupts.total() > 0) {
        let Interrupts { msix, msi, intx } = *interrupts;
        let counts = by_name.entry(name).or_default();
        counts.iter_mut().zip([intx, msi, msix]).for_each(|(count, more)| *count = count.saturating_add(more));
    }
    for (name, counts) in &by_name {
        let name = Value::Word(name.to_string());
        let counts = counts.iter().map(|count| Value::Number(count.to_string()));
        sheet.row(std::iter::once(name).chain(counts));
    }
    let title = match has_server_restarted(results) {
        false => "Interrupts",
        true => "Interrupts\n(of a session that was open when its server died, since the restart)",
    };
    (!sheet.is_empty()).then_some(Part::Table(title, sheet))
}

/// Numbers that client programs found.
fn values(results: &Results) -> Option<Part> {
    let mut sheet = Sheet::new(["tenant", "result", "number", "unit"]);
    for one in &results.values {
        let words = [&one.tenant, &one.name].map(|word| Value::Word(word.to_string()));
        let [number, unit] = [Value::Number(one.number.to_string()), Value::Word(one.unit.to_string())];
        sheet.row(words.into_iter().chain([number, unit]));
    }
    (!sheet.is_empty()).then_some(Part::Table("Results of programs", sheet))
}

/// Components that were ended and not restarted, without the attackers.
fn ended(results: &Results) -> Option<String> {
    let mut text = String::new();
    for fault in ended_faults(results).filter(|fault| !has_attacked(results, &fault.name)) {
        // Writing to a string cannot fail.
        let _ = match fault.kind {
            FaultKind::Killed => writeln!(text, "{} was killed by the scenario, and stayed dead", fault.name),
            _ => writeln!(text, "{} was ended by the root task: {}", fault.name, what(fault)),
        };
    }
    (!text.is_empty()).then_some(text)
}

/// Functions whose transactions the IOMMU blocked.
fn blocked(results: &Results) -> Option<String> {
    let mut text = String::new();
    for blocked in results.blocked.values() {
        let (first, place) = (if blocked.is_write { "write" } else { "read" }, blocked.address);
        let place = place.map_or(String::new(), |address| format!(", at {address:#x}"));
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "the IOMMU blocked {} of {} at least, the first a {first}{place}",
            count(blocked.times, "transaction"),
            bdf(blocked.requester_id)
        );
    }
    (!text.is_empty()).then_some(text)
}

fn has_attacked(results: &Results, name: &str) -> bool {
    results.attacks.iter().any(|attack| attack.tenant == name)
}

fn digests(results: &Results) -> Option<String> {
    let mut text = String::new();
    for digest in &results.digests {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "SHA-256 of {} bytes from byte {}", digest.bytes, digest.first_byte);
        let _ = writeln!(text, "  {:<13} {}", digest.tenant, digest.sha256);
        if let Some(own) = &digest.build_machine_sha256 {
            let _ = writeln!(text, "  {:<13} {own}", "build machine");
        }
    }
    (!text.is_empty()).then_some(text)
}

fn verdict(results: &Results) -> Option<String> {
    let mut text = String::new();
    if let Some(seconds) = results.first_verified_io_seconds {
        // Writing to a string cannot fail.
        let (start, time) =
            if results.seed.is_some() { ("the machine's", "s of virtual time in all") } else { ("QEMU's", "s in all") };
        let _ = writeln!(text, "First verified I/O {seconds:.2} s after {start} start; {:.1} {time}", results.seconds);
    }
    if let Some(kernel) = &results.kernel {
        for (name, what) in &kernel.leaves {
            let _ = writeln!(text, "This kernel leaves {what} ({name})");
        }
    }
    if results.passed {
        for row in &results.not_judged {
            let _ = writeln!(text, "not judged: {row}");
        }
        let _ = writeln!(text, "PASS {}", results.scenario);
        text.extend(not_judged(results.not_judged.len()).map(|line| line + "\n"));
    } else {
        let _ = match results.not_promised.as_slice() {
            [] => writeln!(text, "FAIL {}", results.scenario),
            names => {
                let names = names.join(", ");
                writeln!(text, "NOT PROMISED {}: it relies on {names}, and this kernel lacks it", results.scenario)
            }
        };
        for reason in &results.reasons {
            let _ = writeln!(text, "  {reason}");
        }
        for row in &results.not_judged {
            let _ = writeln!(text, "  not judged: {row}");
        }
        if let Some(why) = times::lateness(results, WHOLE_RUN) {
            let _ = writeln!(text, "  {why}");
        }
    }
    text.extend(files(results));
    Some(text)
}

/// The lines about a run's folder, and its page if there is one.
fn files(results: &Results) -> Option<String> {
    let rest = match (results.seed.is_some(), results.passed) {
        (true, false) => {
            "log, the pictures timeline.svg and system.svg, and in events the steps around the first failure"
        }
        _ => "log, and the pictures timeline.svg and system.svg",
    };
    let page = results.files.get("report").map(|page| format!("  {page} is a page of all this for a browser\n"));
    let folder = &results.folder;
    (!folder.is_empty()).then(|| format!("  {folder} has its {rest}\n{}", page.unwrap_or_default()))
}

/// The line about rows that were not judged, if there are any.
pub fn not_judged(rows: usize) -> Option<String> {
    let were = match rows {
        0 => return None,
        1 => "was",
        _ => "were",
    };
    Some(format!("{} {were} not judged: the machine was too slow", count(rows, "row")))
}

#[cfg(test)]
mod tests;
