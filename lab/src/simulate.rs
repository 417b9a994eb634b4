//! A run of a scenario in the simulator: the same system, the same parser of its serial line and the same verdict as on QEMU,
//! and the checkers' findings in addition.
//!
//! Time is virtual, in the results too. Disks are in memory; a user's disk is read, and never written. A run with a folder leaves
//! the same files there as a run on QEMU, and the last events if it failed.

mod watched;

use crate::contents;
use anyhow::{Result, ensure};
use capdl::programs::ROOT_TASK;
use capdl::scenario::{Backend, Machine};
use capdl::{Arch, KernelKind, Scenario, System};
use kernel::gaps::Gap;
use kernel::installed::Release;
use sim::{Account, Disk, Progress, Simulation};
use sim_fault::Fault;
use std::io::{BufReader, Read};
use std::iter;
use std::path::Path;
use std::time::Duration;
use watched::{Memory, Watched};
use workload::LastProbe;
use xtask::judges::causes::{self, Injected, Reason};
use xtask::judges::times::{self, NotJudged};
use xtask::judges::{image_check, installed, missing, probe, telemetry, verdict};
use xtask::machine::disk::{self, UserDisk};
use xtask::machine::injection::{hit_words, words};
use xtask::machine::plug;
use xtask::machine::qemu;
use xtask::progress::Step;
use xtask::project::write_whole;
use xtask::records::decode::{Decoder, Filter, Level, Line};
use xtask::records::results::{OtherKernel, Results, hex};
use xtask::reports::count::count;
use xtask::run::Collector;
use xtask::telemetry::events::Events;
use xtask::telemetry::sample::Places;

/// Time between two polls of the serial line, in virtual time.
const STEP_NS: u64 = 1_000_000;
/// Time the system continues after the last expected event, to catch unexpected ones.
const END_NS: u64 = 50_000_000;
/// Time the system continues after a probe's last attack: an IOMMU server records blocked accesses at a tick, and the supervisor
/// reads that at the next.
const PROBE_END_NS: u64 = 110_000_000;

/// Time after the first failure of which the last events are kept, too.
const AROUND_NS: u64 = 20_000;

/// A run.
#[derive(Clone, Copy)]
pub(crate) struct RunInput<'a> {
    /// The scenario.
    pub(crate) scenario: &'a Scenario,
    /// Seed of all random choices.
    pub(crate) seed: u64,
    /// The user's disk.
    pub(crate) disk: Option<&'a UserDisk>,
    /// Log lines that go to the terminal.
    pub(crate) show: Option<&'a Filter>,
    /// Step beside which events are shown.
    pub(crate) step: Option<&'a Step>,
    /// Folder of the logs.
    pub(crate) folder: Option<&'a Path>,
    /// Seconds of virtual time in a second, where others watch the run: its telemetry is then in a file of the folder.
    pub(crate) speed: Option<f64>,
}

impl<'a> RunInput<'a> {
    /// A run with the scenario's own seed, which shows and leaves nothing.
    pub(crate) fn of(scenario: &'a Scenario) -> Self {
        Self { scenario, seed: scenario.seed, disk: None, show: None, step: None, folder: None, speed: None }
    }
}

/// Whether the simulator lacks a program of the scenario.
pub(crate) fn is_missing(scenario: &Scenario) -> bool {
    scenario.own_programs().iter().any(|own| !sim::is_linked(&own.name))
}

/// Result of a simulated run.
pub(crate) struct Simulated {
    /// Results of the system, and the verdict.
    pub(crate) results: Results,
    /// Account of the simulator itself.
    pub(crate) account: Account,
}

/// Runs the scenario. An error means that it could not be run; a run that did not pass returns results.
pub(crate) fn simulate(input: RunInput<'_>) -> Result<Simulated> {
    let RunInput { scenario, seed, disk, show, step, folder, speed } = input;
    let system = capdl::build(&scenario.drawn(seed), &sim::programs(scenario.machine.arch))?;
    let mut decoder = Decoder::default();
    decoder.add_name(0, ROOT_TASK, None);
    for component in &system.specification.components {
        decoder.add_name(component.id, &component.name, Some(component.role));
    }
    let mut collector = match folder {
        Some(folder) => {
            write_whole(&folder.join("system.cdl"), system.cdl().as_bytes())?;
            write_whole(&folder.join("system.svg"), system.svg().as_bytes())?;
            Collector::new(decoder, folder, show)?
        }
        None => Collector::without_files(decoder, show),
    }
    .telling(step);
    collector.results.take_scenario(scenario);
    collector.results.seed = Some(seed);
    collector.results.timeline.begin_ns = Some(0);
    let arch = scenario.machine.arch;
    collector.results.arch = arch.name();
    collector.results.kernel = kernel(scenario);
    let mut simulation = Simulation::new(scenario, &system, disks(scenario, disk)?, &scenario.faults, seed);
    let watched = folder.zip(speed).map(|(folder, speed)| Watched::new(scenario, &system, folder, speed));
    let mut watched = watched.transpose()?;
    let mut events = Events::default();
    let ended = observe(&mut simulation, &mut collector, scenario, watched.as_mut(), &mut events)?;
    drop(watched);
    collector.finish()?;
    let mut results = collector.results;
    results.seconds = simulation.now_ns() as f64 / 1e9;
    results.reasons.extend(ended);
    check_outside(scenario, &system, &simulation, &mut results)?;
    let last = Places::new(scenario, &results.telemetry_pages).sample(&Memory(&simulation));
    results.reasons.extend(telemetry::differences(scenario, &last, &results));
    results.reasons.extend(telemetry::traces(scenario, &last, &results, &events, folder)?);
    results.reasons.extend(missed_faults(scenario, &simulation));
    let named = |(index, action): (usize, _)| Some((scenario.controllers.get(index)?.name.as_str(), action));
    let moves_left = simulation.moves_left();
    results.reasons.extend(moves_left.into_iter().filter_map(named).map(|(name, action)| plug::too_late(name, action)));
    results.reasons.extend(missing::lines(scenario, &system, &results));
    let injected = injected(scenario, &simulation, &results);
    let account = simulation.end();
    let mut reasons = verdict::reasons(scenario, &results);
    reasons.extend(std::mem::take(&mut results.reasons).into_iter().map(Reason::from));
    let times = account.found_ns.iter().copied().map(Some).chain(iter::repeat(None));
    let found = account.findings.lines().zip(times);
    reasons.extend(found.map(|(line, at_ns)| Reason::from(line.trim().to_owned()).at(at_ns)));
    let unexpected = |name: &str| !scenario.expect.faults.iter().any(|expected| expected == name);
    for panic in account.panics.iter().filter(|panic| unexpected(&panic.component)) {
        let (name, at) = (&panic.component, panic.at_ns);
        reasons.push(Reason::cause(name, format!("{name} panicked at {at} ns: {}", panic.message)).at(Some(at)));
    }
    let failed_ns = causes::first_ns(&reasons).unwrap_or(account.now_ns);
    results.reasons = causes::told(reasons, &injected, &results);
    times::judge(scenario, &mut results, NotJudged::default());
    results.passed = results.reasons.is_empty();
    results.take_promises(&scenario.expect.relies_on);
    if let Some(folder) = folder.filter(|_| !results.passed) {
        write_whole(&folder.join("events"), events_around(input, &system, failed_ns)?.as_bytes())?;
    }
    Ok(Simulated { results, account })
}

/// The kernel as results show it, if it is not the project's own.
fn kernel(scenario: &Scenario) -> Option<OtherKernel> {
    let Machine { arch, kernel, .. } = scenario.machine;
    let lacks = |gap: &&Gap| sim::missing_corrections(kernel).any(|name| name == gap.fix.as_str());
    let stock = Release { first: 13, last: Some(16) };
    let leaves = Gap::of(arch, stock).filter(lacks).map(|gap| (gap.fix.as_str(), gap.leaves)).collect();
    let release = format!("stock {stock}");
    (kernel == KernelKind::Stock).then_some(OtherKernel { release, file: None, leaves })
}

/// The faults of controllers that have happened, and the first commands that faults hit.
fn injected(scenario: &Scenario, simulation: &Simulation, results: &Results) -> Vec<Injected> {
    let mut injected = Injected::of(&results.timeline);
    for (controller, fault, hit) in simulation.faulty_commands() {
        let name = scenario.controllers.get(controller).map_or("", |controller| controller.name.as_str());
        injected.push(Injected { at_ns: hit.at_ns, words: hit_words(fault, &hit, name) });
    }
    injected
}

/// The events around a time: the run once more, which is the same up to there, and a little longer.
fn events_around(input: RunInput<'_>, system: &System, at_ns: u64) -> Result<String> {
    let RunInput { scenario, seed, disk, .. } = input;
    let mut simulation = Simulation::new(scenario, system, disks(scenario, disk)?, &scenario.faults, seed);
    let mut events = String::new();
    for (until_ns, title) in [(at_ns, "up to the first failure"), (at_ns.saturating_add(AROUND_NS), "after it")] {
        while simulation.now_ns() < until_ns {
            let next = simulation.now_ns().saturating_add(STEP_NS).min(until_ns);
            if simulation.run_until(next) == Progress::Quiet {
                break;
            }
            simulation.take_log();
            simulation.take_serial();
        }
        events.push_str(&format!("{title}, at {at_ns} ns:\n"));
        simulation.last_events().iter().for_each(|event| events.push_str(&format!("{event}\n")));
    }
    drop(simulation.end());
    Ok(events)
}

/// Whether the machine of the scenario's architecture has all that the scenario names; the error names the machine that has.
/// `named` is the scenario's name or file, as a command takes it.
pub(crate) fn suits(scenario: &Scenario, named: &str) -> Result<()> {
    let arch = scenario.machine.arch;
    ensure!(
        scenario.machine.iommu,
        "the scenario '{named}' is without an IOMMU, which the simulated machine always has: cargo xtask demo {named}"
    );
    ensure!(
        arch == Arch::Aarch64 || !scenario.needs_iommu_server(),
        "the scenario '{named}' has an IOMMU server, which only the AArch64 machine has: cargo xtask sim {named} --arch aarch64"
    );
    let revokes = scenario.probe.as_ref().is_some_and(|probe| probe.last == LastProbe::RevokedPage);
    ensure!(
        arch == Arch::X86_64 || !revokes,
        "the scenario '{named}' has memory to revoke, which only the x86_64 machine has: cargo xtask sim {named} --arch x86_64"
    );
    Ok(())
}

/// Lets the system run until every expected event has happened, or cannot happen any more; returns the reason if it ended
/// otherwise.
fn observe(
    simulation: &mut Simulation,
    collector: &mut Collector<'_>,
    scenario: &Scenario,
    mut watched: Option<&mut Watched<'_>>,
    events: &mut Events,
) -> Result<Option<String>> {
    let limit_ns = scenario.expect.timeout_seconds.saturating_mul(1_000_000_000);
    let rest_ns = if scenario.probe.is_some() { PROBE_END_NS } else { END_NS };
    let mut end_ns = None;
    let has_traces = scenario.telemetry.as_ref().is_some_and(|telemetry| telemetry.trace_pages > 0);
    let of = |controller| scenario.faults_of(controller).map(move |fault| (fault.at_ns, controller, fault));
    let mut faults: Vec<_> = scenario.controllers.iter().flat_map(of).collect();
    faults.sort_by_key(|(at_ns, ..)| std::cmp::Reverse(*at_ns));
    loop {
        let progress = simulation.run_until(simulation.now_ns().saturating_add(STEP_NS));
        let now_ns = simulation.now_ns();
        for line in simulation.take_log() {
            let level = level(line.level);
            collector.take_line(Line::new(line.at_ns as f64 / 1e9, &line.component, level, &line.text))?;
        }
        while let Some((_, controller, fault)) = faults.pop_if(|(at_ns, ..)| *at_ns <= now_ns) {
            collector.take_fault(fault.at_ns, &scenario.server_name(&controller.name), &words(fault.effect))?;
        }
        for done in simulation.take_moves() {
            let server = scenario.controllers.get(done.controller).map(|one| scenario.server_name(&one.name));
            collector.take_move(done.at_ns, &server.unwrap_or_default(), done.moved.words())?;
        }
        let bytes = simulation.take_serial();
        if !bytes.is_empty() {
            collector.take(&bytes, Duration::from_nanos(now_ns))?;
        }
        if has_traces {
            events.follow(scenario, &collector.results.telemetry_pages, &Memory(simulation));
        }
        if let Some(watched) = &mut watched {
            watched.go_on(simulation, &collector.results)?;
            for (who, words) in watched.acts.more() {
                collector.take_act(now_ns, &who, &words)?;
            }
        }
        if end_ns.is_none() && !bytes.is_empty() {
            let results = &collector.results;
            let over = verdict::awaited(scenario, results).is_empty() || verdict::is_lost(scenario, results);
            end_ns = over.then(|| now_ns.saturating_add(rest_ns));
        }
        match end_ns {
            Some(end_ns) if now_ns >= end_ns => return Ok(None),
            _ if progress == Progress::Quiet => return Ok(Some("nothing more would ever have happened".into())),
            None if now_ns >= limit_ns => {
                let seconds = scenario.expect.timeout_seconds;
                return Ok(Some(format!("the run took longer than {seconds} seconds of virtual time")));
            }
            _ => {}
        }
    }
}

const fn level(level: log::Level) -> Level {
    match level {
        log::Level::Error => Level::Error,
        log::Level::Warn => Level::Warn,
        log::Level::Info => Level::Info,
        log::Level::Debug => Level::Debug,
        log::Level::Trace => Level::Trace,
    }
}

/// Makes the comparisons that need a view from outside: the specification, images and digests.
fn check_outside(scenario: &Scenario, system: &System, simulation: &Simulation, results: &mut Results) -> Result<()> {
    results.reasons.extend(probe::violations(scenario, system, results));
    if scenario.expect.report_caps {
        results.reasons.extend(installed::differences(&system.specification, &results.installed));
    }
    for (index, controller) in scenario.controllers.iter().enumerate().filter(|_| scenario.expect.compare_image) {
        for (nsid, namespace) in (1..).zip(&controller.namespaces) {
            if namespace.backend == Backend::File {
                let reader = BufReader::with_capacity(1 << 20, Image { simulation, index, nsid, at: 0 });
                results.reasons.extend(image_check::differences_in(scenario, &controller.name, nsid, reader)?);
            }
        }
    }
    for digest in &mut results.digests {
        let Some(tenant) = scenario.tenants.iter().find(|tenant| digest.tenant == tenant.name.as_str()) else {
            continue;
        };
        let Some((index, _)) = scenario.controller(&tenant.controller) else { continue };
        let image = Image { simulation, index, nsid: tenant.namespace, at: digest.first_byte };
        let own = disk::sha256_of(BufReader::with_capacity(1 << 20, image), digest.bytes)?;
        digest.build_machine_sha256 = Some(hex(&own));
    }
    Ok(())
}

/// Faults that changed nothing, one sentence each, as a run on QEMU has them (`Injection::left`), and changes at enablings that the
/// run did not reach.
fn missed_faults(scenario: &Scenario, simulation: &Simulation) -> Vec<String> {
    if scenario.expect.faults_may_miss {
        return Vec::new();
    }
    let sentence = |number: usize| match scenario.faults.get(number)? {
        Fault::Controller(fault) => {
            let (name, words) = (fault_controller(scenario, &fault.controller), words(fault.effect));
            Some(if fault.at_ns > simulation.now_ns() {
                format!("the run was over before the fault of {name}: {words}")
            } else {
                format!("the fault of {name} found nothing to hit: {words}")
            })
        }
        Fault::Command(fault) => {
            let name = fault_controller(scenario, &fault.controller);
            Some(format!("fault {} changed no command of {name}", number.saturating_add(1)))
        }
        Fault::Component(_) => None,
    };
    let faults = simulation.missed_faults().into_iter().filter_map(sentence);
    let changes = scenario.controllers.iter().zip(simulation.enablings()).flat_map(|(controller, enablings)| {
        let missed = controller.later.iter().filter_map(|later| later.enabling).filter(move |at| *at > enablings);
        missed.map(move |at| {
            let name = &controller.name;
            format!(
                "{name} was to be another one from its enabling {at} on, and was enabled {}",
                count(enablings, "time")
            )
        })
    });
    faults.chain(changes).collect()
}

/// The controller that a fault names; without a name, the first one.
fn fault_controller<'a>(scenario: &'a Scenario, name: &'a str) -> &'a str {
    let first = || scenario.controllers.first().map_or("", |controller| controller.name.as_str());
    if name.is_empty() { first() } else { name }
}

/// Reader of a namespace's current content.
struct Image<'a> {
    simulation: &'a Simulation,
    index: usize,
    nsid: u32,
    at: u64,
}

impl Read for Image<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let size = self.simulation.disk_bytes(self.index, self.nsid);
        let len = size.saturating_sub(self.at).min(bytes.len() as u64) as usize;
        let part = bytes.get_mut(..len).unwrap_or_default();
        self.simulation.read_disk(self.index, self.nsid, self.at, part);
        self.at = self.at.saturating_add(len as u64);
        Ok(len)
    }
}

/// Initial content of every namespace.
fn disks(scenario: &Scenario, user: Option<&UserDisk>) -> Result<Vec<Vec<Disk>>> {
    let place = user.and_then(|_| qemu::user_place(scenario));
    let mut disks = Vec::new();
    for (index, controller) in scenario.controllers.iter().enumerate() {
        let mut own = Vec::new();
        for (number, namespace) in controller.namespaces.iter().enumerate() {
            own.push(match user.filter(|_| place == Some((index, number))) {
                Some(user) => contents::of_file(&user.path)?,
                None => contents::of(namespace),
            });
        }
        disks.push(own);
    }
    Ok(disks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::tests as schema;
    use xtask::destination::{Format, json};

    const SCENARIO: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
depth = 8
extents = [{ first = 0, blocks = 1024 }]
program.name = "bench"
[tenant.program.config]
operations = 20
[[fault]]
command = { opcodes = [2], times = 1, effect = { delay = { ns = 1000000 } } }
[[fault]]
command = { opcodes = [0x77], times = 1, effect = "corrupt-data" }
[[fault]]
controller = { controller = "disk", at_ns = 900000000000, effect = "fatal-status" }
[[fault]]
controller = { at_ns = 1000000, effect = { spurious-interrupt = { vector = 40 } } }
[expect]
resets = true
"#;

    fn reasons(text: &str) -> Vec<String> {
        let scenario = Scenario::parse(text, "a").unwrap();
        simulate(RunInput::of(&scenario)).unwrap().results.reasons
    }

    #[test]
    fn results_are_valid_by_their_schema() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        // With attacks, kills, changes, faults, functions, hot plug, digests and failures.
        for name in ["demo", "interrupts-change", "functions-revoked", "hotplug-other", "digest", "not-now"] {
            let scenario = Scenario::load(root.join(format!("scenarios/{name}.toml"))).unwrap();
            let input = RunInput { seed: 1, ..RunInput::of(&scenario) };
            let results = json(Format::Run, &simulate(input).unwrap().results).unwrap();
            schema::check("results", [results.as_str()].into_iter());
        }
    }

    #[test]
    fn stock_kernel_is_not_blamed_for_what_it_does_not_promise() {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
        let mut scenario = Scenario::load(root.join("scenarios/probe-dma.toml")).unwrap();
        let mut run = |kernel| {
            scenario.machine.kernel = kernel;
            simulate(RunInput::of(&scenario)).unwrap().results
        };
        let corrected = run(KernelKind::Corrected);
        assert!(corrected.passed && corrected.kernel.is_none(), "{:?}", corrected.reasons);
        let stock = run(KernelKind::Stock);
        assert!(!stock.passed && !stock.failed(), "{:?}", stock.reasons);
        let missing: Vec<_> = sim::missing_corrections(KernelKind::Stock).collect();
        assert!(stock.kernel.unwrap().leaves.into_keys().eq(missing.iter().copied()), "{missing:?}");
        assert!(stock.not_promised.iter().all(|name| missing.contains(name)), "{:?}", stock.not_promised);
        scenario.expect.relies_on.clear();
        assert!(simulate(RunInput::of(&scenario)).unwrap().results.failed());
    }

    #[test]
    fn run_fails_whose_faults_hit_nothing() {
        assert_eq!(
            reasons(SCENARIO),
            [
                "fault 2 changed no command of disk",
                "the run was over before the fault of disk: CSTS.CFS is set",
                "the fault of disk found nothing to hit: vector 40 interrupts for nothing",
            ]
        );
    }

    #[test]
    fn run_fails_whose_faults_find_commands_and_change_nothing() {
        let (system, _) = SCENARIO.split_once("[[fault]]").unwrap();
        let system = system.replace("operations = 20", "operations = 20\nflush_every = 4");
        let of = |fault: &str| reasons(&format!("{system}[[fault]]\n{fault}\n[expect]\nresets = true\n"));
        let command = |rest: &str| of(&format!("command = {{ {rest} }}"));
        let controller = |effect: &str| of(&format!("controller = {{ at_ns = 6000000, effect = {effect} }}"));
        for fault in [
            "opcodes = [0], times = 1, effect = \"corrupt-data\"",
            "opcodes = [0], times = 1, effect = \"wrong-address\"",
            "queues = \"admin\", opcodes = [6], effect = \"corrupt-data\"",
            "queues = \"admin\", opcodes = [12], effect = \"drop-completion\"",
        ] {
            assert_eq!(command(fault), ["fault 1 changed no command of disk"], "{fault}");
        }
        for effect in ["\"never-ready\"", "{ spurious-interrupt = { vector = 40 } }", "{ all-ones = { for_ns = 1 } }"] {
            let reasons = controller(effect);
            assert_eq!(reasons.len(), 1, "{reasons:?}");
            assert!(reasons[0].starts_with("the fault of disk found nothing to hit: "), "{reasons:?}");
        }
    }

    #[test]
    fn run_fails_whose_kills_and_hot_plug_events_do_not_happen() {
        let (system, _) = SCENARIO.split_once("[[fault]]").unwrap();
        let kill = |name: &str, rest: &str| reasons(&format!("{system}[[kill]]\ncomponent = \"{name}\"\n{rest}\n"));
        let missed = |name: &str, seen: u32, times: u32| {
            [format!("{name} was killed {seen} times of {times} before the run was over: let the tenants work longer")]
        };
        assert_eq!(kill("alice", "after_ms = 4294967295"), missed("alice", 0, 1));
        let never = "at = \"never\"\n[[moment]]\nname = \"never\"\nwhen = { nvme-server = { deaths = 1 } }";
        assert_eq!(kill("alice", never), missed("alice", 0, 1));
        let again = "after_ms = 5\ntimes = 5\nevery_ms = 500\n[expect]\nrestarts = { nvme-server = 1 }";
        assert_eq!(kill("nvme-server", again), missed("nvme-server", 1, 5));
        let late = "name = \"disk\"\nhot_plug = true";
        let event = "[[hotplug]]\ncontroller = \"disk\"\naction = \"remove\"\nafter_ms = 100000\n";
        assert_eq!(
            reasons(&(system.replace("name = \"disk\"", late) + event)),
            ["the run was over before the hot-plug event of disk: remove"]
        );
    }

    #[test]
    fn run_fails_in_which_a_disk_is_not_exchanged() {
        let (system, _) = SCENARIO.split_once("[[fault]]").unwrap();
        let later = "name = \"disk\"\nlater = [{ enabling = 99, serial = \"X\" }]";
        assert_eq!(
            reasons(&system.replace("name = \"disk\"", later)),
            ["disk was to be another one from its enabling 99 on, and was enabled 1 time"]
        );
    }

    #[test]
    fn drawn_faults_may_hit_nothing() {
        assert_eq!(reasons(&format!("{SCENARIO}faults_may_miss = true\n")), Vec::<String>::new());
    }
}
