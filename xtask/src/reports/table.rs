//! Results as text: tables of a run, and the verdict.

mod paths;
mod restarts;

use crate::judges::times::{self, WHOLE_RUN};
use crate::records::results::Results;
use crate::reports::plain::plain;
use capdl_spec::Role;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, Table};
use report::{Changed, Fault, FaultKind, Interrupts, Load, Name, PciFunction, Refused};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// Classes, the most urgent first.
const CLASSES: [&str; 4] = ["urgent", "high", "medium", "low"];
/// Columns of a list of words, at most.
const WIDTH: usize = 130;

/// The whole report, in the order of a reader's questions.
pub(crate) fn render(results: &Results) -> String {
    let parts = [
        machine(results),
        lost_isolation(results),
        components(results),
        pci(results),
        controllers(results),
        tenants(results),
        paths::paths(results),
        values(results),
        refused(results),
        interrupts(results),
        misses(results),
        changes(results),
        interrupts_changes(results),
        restarts::restarts(results),
        ended(results),
        blocked(results),
        attacks(results),
        digests(results),
        verdict(results),
    ];
    plain(&parts.into_iter().flatten().collect::<Vec<_>>().join("\n")).into_owned()
}

fn machine(results: &Results) -> Option<String> {
    let machine = results.machine.as_ref()?;
    let iommu = match machine.iommu_levels {
        // The kernel does not report an SMMU.
        0 if results.has(Role::IommuServer) => "SMMU".to_owned(),
        0 => "no IOMMU".to_owned(),
        levels => format!("IOMMU with {levels} levels"),
    };
    let world = match (results.seed, results.arch) {
        (Some(_), "aarch64") => "simulated kernel and virt",
        (Some(_), _) => "simulated kernel and q35",
        (None, "aarch64") => "seL4 on QEMU virt",
        (None, _) => "seL4 on QEMU q35",
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

fn components(results: &Results) -> Option<String> {
    let mut table = table(&["component", "name", "priority", "capabilities", "pages"]);
    for one in &results.components {
        row(
            &mut table,
            &[
                Value::Number(one.component.to_string()),
                Value::Word(one.name.to_string()),
                Value::Number(one.priority.to_string()),
                Value::Number(one.capabilities.to_string()),
                Value::Number(one.pages.to_string()),
            ],
        );
    }
    (!results.components.is_empty()).then(|| titled("Components", &table))
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
            "Controller {} ({}): {}, serial {}, firmware {}, NVMe {major}.{minor}.{tertiary}, {} I/O queue pairs of up \
             to {} entries, transfers of up to {}, {}",
            bdf(one.bdf),
            one.server,
            one.model.trim(),
            one.serial.trim(),
            one.firmware.trim(),
            one.queue_pairs,
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

fn tenants(results: &Results) -> Option<String> {
    let mut table = table(&[
        "tenant",
        "class",
        "queue pairs",
        "depth",
        "request",
        "reads",
        "writes",
        "IOPS",
        "p50 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "verified",
        "forbidden",
    ]);
    let mut loads: Vec<&Load> = results.tenants.iter().collect();
    loads.sort_by_key(|load| CLASSES.iter().position(|class| load.class == *class));
    for load in loads {
        row(
            &mut table,
            &[
                Value::Word(load.tenant.to_string()),
                Value::Word(load.class.to_string()),
                Value::Number(load.queue_pairs.to_string()),
                Value::Number(load.depth.to_string()),
                Value::Number(size(u64::from(load.block_bytes))),
                Value::Number(load.reads.to_string()),
                Value::Number(load.writes.to_string()),
                Value::Number(iops(load).to_string()),
                Value::Number(micros(load.p50_ns)),
                Value::Number(micros(load.p99_ns)),
                Value::Number(micros(load.p999_ns)),
                Value::Number(micros(load.max_ns)),
                Value::Number(size(load.verified_bytes)),
                Value::Number(load.forbidden.to_string()),
            ],
        );
    }
    (!results.tenants.is_empty()).then(|| titled("Tenants", &table))
}

/// Sessions that were not opened.
fn refused(results: &Results) -> Option<String> {
    let line = |refused: &Refused| format!("{} was refused its session: {}\n", refused.tenant, refused.reason);
    (!results.refused.is_empty()).then(|| results.refused.iter().map(line).collect())
}

/// Sessions whose requests missed the table of extents: each incarnation of a server reports its own.
fn misses(results: &Results) -> Option<String> {
    let mut table = table(&["tenant", "requests", "record not installed", "forbidden"]);
    let missed = || results.sessions.iter().filter(|session| session.not_installed + session.forbidden > 0);
    for session in missed() {
        row(
            &mut table,
            &[
                Value::Word(session.tenant.to_string()),
                Value::Number(session.requests.to_string()),
                Value::Number(session.not_installed.to_string()),
                Value::Number(session.forbidden.to_string()),
            ],
        );
    }
    missed().next().map(|_| titled("Extents: requests that missed", &table))
}

/// Changes of rights while the system ran.
fn changes(results: &Results) -> Option<String> {
    let mut table = table(&["tenant", "change", "at ms", "in force after µs"]);
    for one in &results.changes {
        let what = match one.what {
            Changed::Revoked { blocks } => format!("{blocks} blocks revoked"),
            Changed::Granted { blocks } => format!("{blocks} blocks granted"),
            Changed::Entitled => "another share".to_owned(),
        };
        row(
            &mut table,
            &[
                Value::Word(one.tenant.to_string()),
                Value::Word(what),
                Value::Number(milliseconds(one.at_ns.saturating_sub(began_ns(results)))),
                Value::Number(micros(one.took_ns)),
            ],
        );
    }
    (!results.changes.is_empty()).then(|| titled("Changes", &table))
}

/// Interrupts of sessions, over all incarnations of their servers, and of other drivers, by mode.
fn interrupts(results: &Results) -> Option<String> {
    let mut table = table(&["of", "INTx", "MSI", "MSI-X"]);
    let mut by_name: BTreeMap<&Name, [u64; 3]> = BTreeMap::new();
    for (name, interrupts) in results.interrupts().filter(|(_, interrupts)| interrupts.total() > 0) {
        let Interrupts { msix, msi, intx } = *interrupts;
        let counts = by_name.entry(name).or_default();
        counts.iter_mut().zip([intx, msi, msix]).for_each(|(count, more)| *count = count.saturating_add(more));
    }
    for (name, counts) in &by_name {
        let name = Value::Word(name.to_string());
        let counts = counts.iter().map(|count| Value::Number(count.to_string()));
        row(&mut table, &std::iter::once(name).chain(counts).collect::<Vec<_>>());
    }
    (!by_name.is_empty()).then(|| titled("Interrupts", &table))
}

/// Numbers that client programs found.
fn values(results: &Results) -> Option<String> {
    let mut table = table(&["tenant", "result", "number", "unit"]);
    for one in &results.values {
        let words = [&one.tenant, &one.name].map(|word| Value::Word(word.to_string()));
        let [number, unit] = [Value::Number(one.number.to_string()), Value::Word(one.unit.to_string())];
        row(&mut table, &words.into_iter().chain([number, unit]).collect::<Vec<_>>());
    }
    (!results.values.is_empty()).then(|| titled("Results of programs", &table))
}

/// Changes of controllers' interrupt modes while the system ran.
fn interrupts_changes(results: &Results) -> Option<String> {
    let mut table = table(&["ordered by", "interrupts by", "at ms", "in force after µs"]);
    for one in &results.interrupts_changes {
        row(
            &mut table,
            &[
                Value::Word(one.policy.to_string()),
                Value::Word(one.to.to_string()),
                Value::Number(milliseconds(one.at_ns.saturating_sub(began_ns(results)))),
                Value::Number(micros(one.took_ns)),
            ],
        );
    }
    (!results.interrupts_changes.is_empty()).then(|| titled("Changes of interrupts", &table))
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
        let transactions = if blocked.times == 1 { "transaction" } else { "transactions" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "the IOMMU blocked {} {transactions} of {} at least, the first a {first}{place}",
            blocked.times,
            bdf(blocked.requester_id)
        );
    }
    (!text.is_empty()).then_some(text)
}

fn ended_faults(results: &Results) -> impl Iterator<Item = &Fault> {
    results.faults.iter().filter(|fault| results.restarts_of(&fault.name) == 0)
}

fn has_attacked(results: &Results, name: &str) -> bool {
    results.attacks.iter().any(|attack| attack.tenant == name)
}

fn what(fault: &Fault) -> String {
    let kind = format!("{:?}", fault.kind).to_lowercase();
    format!("{kind} of {:#x}, instruction {:#x}", fault.address, fault.instruction)
}

/// Attempts of intruders, by the component that stopped them; first those that none stopped.
fn attacks(results: &Results) -> Option<String> {
    let intruders: BTreeSet<&Name> = results.attacks.iter().map(|attack| &attack.tenant).collect();
    let mut text = String::new();
    for intruder in &intruders {
        let own = || results.attacks.iter().filter(|attack| attack.tenant == **intruder);
        let ends = ended_faults(results).filter(|fault| fault.name == **intruder);
        let mut groups: Vec<(&str, Vec<(String, u64)>)> = Vec::new();
        let unstopped = own().filter(|attack| !attack.refused).map(|attack| ("NOTHING", attack.attack.to_string()));
        let stopped =
            own().filter(|attack| attack.refused).map(|attack| (&*attack.stopped_by, attack.attack.to_string()));
        let ends = ends.map(|fault| ("the root task, which ended it for the fault", what(fault)));
        for (end, tried) in unstopped.chain(stopped).chain(ends) {
            count(group(&mut groups, end), tried);
        }
        let (tries, done) = (own().count(), own().filter(|attack| !attack.refused).count());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Intruder {intruder}: {tries} attempts, {done} succeeded. Tried, by what stopped it:");
        for (end, tried) in groups {
            let _ = writeln!(text, "  {end}");
            let tried = tried.into_iter().map(|(tried, times)| match times {
                1 => tried,
                times => format!("{tried} ({times} times)"),
            });
            wrap(tried, &mut text);
        }
    }
    (!intruders.is_empty()).then_some(text)
}

/// The group of attempts with the same end, created if it is missing.
fn group<'a, 'b>(groups: &'b mut Vec<(&'a str, Vec<(String, u64)>)>, end: &'a str) -> &'b mut Vec<(String, u64)> {
    let place = groups.iter().position(|(one, _)| *one == end).unwrap_or_else(|| {
        groups.push((end, Vec::new()));
        groups.len() - 1
    });
    &mut groups[place].1
}

/// Counts the attempt; equal attempts share an entry.
fn count(tried: &mut Vec<(String, u64)>, one: String) {
    match tried.iter_mut().find(|(known, _)| *known == one) {
        Some((_, times)) => *times += 1,
        None => tried.push((one, 1)),
    }
}

/// Joins phrases into lines of limited width.
fn wrap(phrases: impl Iterator<Item = String>, text: &mut String) {
    let mut line = String::new();
    for phrase in phrases {
        if !line.is_empty() && line.chars().count() + phrase.chars().count() > WIDTH {
            let _ = writeln!(text, "    {}", line.trim_end());
            line.clear();
        }
        let _ = write!(line, "{phrase}; ");
    }
    let _ = writeln!(text, "    {}", line.trim_end_matches("; "));
}

/// Start of the system, nanoseconds of machine time.
fn began_ns(results: &Results) -> u64 {
    results.machine.as_ref().map_or(0, |machine| machine.started_at_ns)
}

fn milliseconds(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e6)
}

fn digests(results: &Results) -> Option<String> {
    let mut text = String::new();
    for digest in &results.digests {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "SHA-256 of {} bytes from byte {}", digest.bytes, digest.first_byte);
        let _ = writeln!(text, "  {:<22} {}", format!("through the stack, {}", digest.tenant), digest.sha256);
        if let Some(own) = &digest.build_machine_sha256 {
            let _ = writeln!(text, "  {:<22} {own}", "on the build machine");
        }
    }
    (!text.is_empty()).then_some(text)
}

fn verdict(results: &Results) -> Option<String> {
    let mut text = String::new();
    if let Some(seconds) = results.first_verified_io_seconds {
        // Writing to a string cannot fail.
        let (start, time) =
            if results.seed.is_some() { ("the", "s of virtual time in all") } else { ("QEMU's", "s in all") };
        let _ = writeln!(text, "First verified I/O {seconds:.2} s after {start} start; {:.1} {time}", results.seconds);
    }
    if results.passed {
        for row in &results.not_judged {
            let _ = writeln!(text, "not judged: {row}");
        }
        let _ = writeln!(text, "PASS {}", results.scenario);
        text.extend(not_judged(results.not_judged.len()).map(|line| line + "\n"));
    } else {
        let _ = writeln!(text, "FAIL {}", results.scenario);
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

/// The line about a run's folder.
fn files(results: &Results) -> Option<String> {
    let pictures = if results.seed.is_some() { "picture timeline.svg" } else { "pictures timeline.svg and system.svg" };
    (!results.folder.is_empty()).then(|| format!("  {} has its log, and the {pictures}\n", results.folder))
}

/// The line about rows that were not judged, if there are any.
pub(crate) fn not_judged(rows: usize) -> Option<String> {
    let (rows, were) = match rows {
        0 => return None,
        1 => ("1 row".to_owned(), "was"),
        rows => (format!("{rows} rows"), "were"),
    };
    Some(format!("{rows} {were} not judged: the machine was too slow"))
}

/// Content of a cell: words are aligned left, numbers right.
enum Value {
    Word(String),
    Number(String),
}

fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(header.iter().copied());
    table
}

fn row(table: &mut Table, values: &[Value]) {
    table.add_row(values.iter().map(|value| match value {
        Value::Word(text) => Cell::new(text),
        Value::Number(text) => Cell::new(text).set_alignment(CellAlignment::Right),
    }));
}

fn titled(title: &str, table: &Table) -> String {
    format!("{title}\n{table}\n")
}

fn bdf(bdf: u16) -> String {
    format!("{:02x}:{:02x}.{}", bdf >> 8, bdf >> 3 & 31, bdf & 7)
}

/// Bytes with the largest unit that leaves no remainder.
pub(crate) fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.iter().find(|(shift, _)| bytes >= 1 << shift && bytes.trailing_zeros() >= *shift) {
        Some((shift, unit)) => format!("{} {unit}", bytes >> shift),
        None => format!("{bytes} B"),
    }
}

fn micros(ns: u64) -> String {
    format!("{:.0}", ns as f64 / 1000.0)
}

fn iops(load: &Load) -> u64 {
    let operations = u128::from(load.reads.saturating_add(load.writes)) * 1_000_000_000;
    u64::try_from(operations.checked_div(u128::from(load.elapsed_ns)).unwrap_or(0)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
