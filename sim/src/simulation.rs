//! A machine with one system on it, from its boot to the account of its run.

use crate::components::{Components, Panic};
use crate::costs::Costs;
use crate::disk::Disk;
use crate::log::{self, LogLine};
use crate::machine::{Defect, Machine};
use crate::observer::Observer;
use crate::operator::Ordered;
use crate::panics;
use crate::plug::SlotEvent;
use crate::root::Root;
use crate::topology::faults_of;
use crate::trace::Entry;
use crate::world::{Mark, Progress, State, World};
use capdl::scenario::Action;
use capdl::{Arch, KernelKind, Scenario, System};
use platform::Paddr;
use sim_check::Checker;
use sim_fault::{ComponentFault, Fault};
use sim_kernel::{Kernel, MachineConfig, Rules};
use sim_nvme::FaultHit;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Virtual time from one check of the whole kernel model to the next; in long runs, a quarter of the time that has
/// passed. A check takes milliseconds, so that there are few of them in a run of minutes, too.
const INSPECT_NS: u64 = 100_000_000;

/// A machine that runs.
pub struct Simulation {
    pub(crate) world: Rc<World>,
    components: Components,
    /// By controller, the numbers of its faults.
    faults: Vec<Vec<usize>>,
    /// Time of the next check of the kernel's model.
    inspect_ns: u64,
    /// The operator's last order, as long as its answer is not known.
    pub(crate) ordered: Option<Ordered>,
}

/// The account of a run that ended.
#[derive(Clone, Debug)]
pub struct Account {
    /// The hash of all events.
    pub trace_hash: u64,
    /// Virtual time it took.
    pub now_ns: u64,
    /// The checkers' findings, a line each; empty when there are none.
    pub findings: String,
    /// Times of the findings in these lines, in nanoseconds of virtual time. A last line with the number of others has none.
    pub found_ns: Vec<u64>,
    /// The checkers that have findings.
    pub checkers: BTreeSet<Checker>,
    /// Components that panicked.
    pub panics: Vec<Panic>,
    /// Commands that the controllers completed.
    pub commands: u64,
    /// The markers that components passed, in their order.
    pub marks: Vec<Mark>,
}

impl Simulation {
    /// Puts `scenario`'s system, built of [`crate::programs`], onto the machine of its architecture. `disks` has one list for each
    /// controller, with one disk for each of its namespaces. `faults` are the faults that are injected.
    #[must_use]
    pub fn new(scenario: &Scenario, system: &System, disks: Vec<Vec<Disk>>, faults: &[Fault], seed: u64) -> Self {
        log::route();
        panics::keep(true);
        let arch = system.specification.arch;
        let config = match arch {
            Arch::X86_64 => MachineConfig::q35(scenario.machine.memory, system.image()),
            Arch::Aarch64 => MachineConfig::virt(scenario.machine.memory, system.image()),
        };
        let (kernel, root) = Kernel::boot(MachineConfig { rules: rules(scenario.machine.kernel), ..config });
        let machine = Machine::new(arch, scenario, &disks, faults, seed);
        let observer = Observer::new(scenario, &system.specification, &disks);
        let world = World::new(kernel, machine, observer, Costs::default(), scenario.machine.thread_order, seed);
        let components = Components::new(Root::new(root), component_faults(faults));
        Self { world, components, faults: faults_of(scenario, faults), inspect_ns: INSPECT_NS, ordered: None }
    }

    /// Has the machine a defect from now on.
    pub fn plant(&mut self, defect: Defect) {
        self.world.outside().machine.plant(defect);
    }

    /// Lets virtual time pass until `until_ns` after the start.
    pub fn run_until(&mut self, until_ns: u64) -> Progress {
        let progress = self.components.run(&self.world, until_ns);
        self.follow_order();
        let State { observer, kernel, now_ns, .. } = &mut *self.world.outside();
        observer.check(kernel, *now_ns);
        if *now_ns >= self.inspect_ns {
            observer.inspect(kernel, *now_ns);
            self.inspect_ns = now_ns.saturating_add(INSPECT_NS.max(*now_ns / 4));
        }
        progress
    }

    /// Virtual time since the start, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.world.view().now_ns
    }

    /// Returns the size of a namespace in bytes, 0 where there is none. `controller` counts as in the scenario.
    #[must_use]
    pub fn disk_bytes(&self, controller: usize, nsid: u32) -> u64 {
        let state = self.world.view();
        let sizes = state.machine.controllers().nth(controller).into_iter().flat_map(sim_nvme::Controller::namespaces);
        sizes.into_iter().find(|(id, _)| *id == nsid).map_or(0, |(_, bytes)| bytes)
    }

    /// Reads the current content of a namespace from a byte on. Bytes that do not exist read as zeroes.
    pub fn read_disk(&self, controller: usize, nsid: u32, offset: u64, bytes: &mut [u8]) {
        let state = self.world.view();
        let read = state.machine.controllers().nth(controller).and_then(|one| one.read_contents(nsid, offset, bytes));
        if read.is_none() {
            bytes.fill(0);
        }
    }

    /// Copies the machine's memory from a physical address on; `None` where there is none.
    #[must_use]
    pub fn copy_memory(&self, paddr: u64, bytes: &mut [u8]) -> Option<()> {
        self.world.view().kernel.memory().read(Paddr::new(paddr), bytes).ok()
    }

    /// Takes the bytes sent over the serial line since the last call.
    pub fn take_serial(&mut self) -> Vec<u8> {
        self.world.outside().machine.board.take_serial()
    }

    /// Takes what was done at slots since the last call.
    pub fn take_moves(&mut self) -> Vec<SlotEvent> {
        self.world.outside().machine.plug.take_done()
    }

    /// Takes the components' log lines since the last call.
    pub fn take_log(&mut self) -> Vec<LogLine> {
        log::take()
    }

    /// Returns the hash of all events so far.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.world.view().trace.hash()
    }

    /// The last events so far, oldest first.
    #[must_use]
    pub fn last_events(&self) -> Vec<Entry> {
        self.world.view().trace.last().copied().collect()
    }

    /// The numbers of the injected faults of controllers and commands that have changed nothing so far. A fault of commands that hits
    /// by chance, and never did, counts if it concerned none. Faults of components are left out: their consequences are expected or not.
    #[must_use]
    pub fn missed_faults(&self) -> Vec<usize> {
        let state = self.world.view();
        let of_controllers = state.machine.controllers().zip(&self.faults);
        let missed = of_controllers.flat_map(|(controller, numbers)| controller.faults_missed().zip(numbers));
        let mut missed: Vec<usize> = missed.filter(|(is_missed, _)| *is_missed).map(|(_, number)| *number).collect();
        missed.sort_unstable();
        missed
    }

    /// The first commands that injected faults hit, each with its controller and the number of the fault, both as in the scenario.
    #[must_use]
    pub fn faulty_commands(&self) -> Vec<(usize, usize, FaultHit)> {
        let state = self.world.view();
        let of_controllers = state.machine.controllers().zip(&self.faults).enumerate();
        let hits = of_controllers.flat_map(|(controller, (model, numbers))| {
            let number = |hit: &FaultHit| numbers.get(usize::from(hit.fault)).copied();
            model.faulty_commands().iter().filter_map(move |hit| Some((controller, number(hit)?, *hit)))
        });
        hits.collect()
    }

    /// The events at slots that did not happen so far, or not wholly: each with its controller's number in the scenario.
    #[must_use]
    pub fn moves_left(&self) -> Vec<(usize, Action)> {
        self.world.view().machine.plug.left()
    }

    /// Times that each controller was enabled so far.
    #[must_use]
    pub fn enablings(&self) -> Vec<u32> {
        self.world.view().machine.controllers().map(sim_nvme::Controller::enablings).collect()
    }

    /// Ends the run with a last check by the checkers.
    #[must_use]
    pub fn end(self) -> Account {
        let mut state = self.world.outside();
        state.finish();
        let account = Account {
            trace_hash: state.trace.hash(),
            now_ns: state.now_ns,
            findings: state.observer.findings.to_string(),
            found_ns: state.observer.findings.kept().iter().map(|finding| finding.at_ns).collect(),
            checkers: Checker::ALL.into_iter().filter(|one| state.observer.findings.counted_by(*one) > 0).collect(),
            panics: self.components.panics().to_vec(),
            commands: state.observer.commands(),
            marks: state.marks.clone(),
        };
        drop(state);
        // The components' stacks are unwound; the observer has finished with their world.
        drop(self.components);
        panics::keep(false);
        account
    }
}

/// Names of the corrections that the kernel lacks, as in `docs/limits.md`. Corrections that concern the processor are left out: the
/// simulator has no processor.
pub fn missing_corrections(kernel: KernelKind) -> impl Iterator<Item = &'static str> {
    rules(kernel).missing()
}

const fn rules(kernel: KernelKind) -> Rules {
    match kernel {
        KernelKind::Corrected => Rules::CORRECTED,
        KernelKind::Stock => Rules::STOCK,
    }
}

fn component_faults(faults: &[Fault]) -> Vec<ComponentFault> {
    let of_component = |fault: &Fault| match fault {
        Fault::Component(fault) => Some(fault.clone()),
        Fault::Command(_) | Fault::Controller(_) => None,
    };
    faults.iter().filter_map(of_component).collect()
}
