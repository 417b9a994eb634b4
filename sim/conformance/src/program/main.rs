//! The interpreter: a root task that makes the calls of sequences on seL4 and reports the answers.
//!
//! The sequences are the payload of its image. Its own thread is the sequences' root thread; the helpers are threads of the
//! same program. Journals are sent over the machine's byte line, in the format of [`sim_conformance::wire`].

#![no_std]
#![no_main]

extern crate alloc;

mod console;
#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod machine;
mod thread;

use alloc::format;
use alloc::string::{String, ToString};
use machine::Line;
use platform::{Memory, OutOfBounds, Platform, UserContext, Vaddr};
use platform_sel4::{RootPlatform, Sel4Memory, Sel4Platform, Worker, initial};
use sim_conformance::stage::{self, Boot, BootUntyped, Failure, MAPPING_AREA, Stage, WORKERS};
use sim_conformance::wire::{Journal, Sequence};
use sim_conformance::{Caller, HELPERS};
use thread::{Part, Thread};

platform_sel4::root_task!(main);

fn main(boot: &platform_sel4::BootInfo, root: RootPlatform) -> ! {
    let stage = build(boot, &root);
    // Without a line nothing can be reported, and the silence fails the run.
    let Some(line) = Line::open(&root) else { panic!("there is no line") };
    if let Err(reason) = stage.and_then(|stage| run(&stage, &root, &line)) {
        console::failure(&line, &reason);
    }
    console::end(&line)
}

fn build(boot: &platform_sel4::BootInfo, root: &RootPlatform) -> Result<Stage, String> {
    if root.mapping_area().vaddr != Vaddr::new(MAPPING_AREA) {
        return Err("the mapping area is not where sequences have it".to_string());
    }
    Stage::build(root.kernel(), boot_of(boot)).map_err(reported)
}

fn run(stage: &Stage, root: &RootPlatform, line: &Line) -> Result<(), String> {
    let workers = Workers::new(root)?;
    let lowest = workers.context(HELPERS, Part { thread: WORKERS as u8, call: 0 });
    stage.start_lowest(root.kernel(), &lowest).map_err(reported)?;
    let payload = root.payload().map_err(outside)?;
    let journal = thread::journal(root.platform()).map_err(outside)?;
    let script = thread::script(root.platform()).map_err(outside)?;
    for place in Sequence::places(&payload).map_err(outside)? {
        let bytes = Sequence::at(payload.clone(), place).bytes().map_err(outside)?;
        script.write_bytes(0, &bytes).map_err(outside)?;
        let sequence = Sequence::at(script.clone(), 0);
        play(root, stage, &workers, &sequence, &journal)?;
        console::journal(line, &journal.bytes().map_err(outside)?);
    }
    Ok(())
}

/// Sets the stage for one sequence, makes its calls, and clears the stage.
fn play(
    root: &RootPlatform,
    stage: &Stage,
    workers: &Workers,
    sequence: &Sequence<Sel4Memory>,
    journal: &Journal<Sel4Memory>,
) -> Result<(), String> {
    stage.begin(root.kernel(), sequence.priorities().map_err(outside)?).map_err(reported)?;
    workers.forget(root).map_err(outside)?;
    root.kernel().set_receive_cptr(None);
    journal.clear().map_err(outside)?;
    let layout = stage.layout();
    let helper =
        |helper: u8, call: u16| workers.context(usize::from(helper).saturating_sub(1), Part { thread: helper, call });
    let caller = Caller { layout: &layout, ground: &stage.ground, helper: &helper };
    let thread = Thread::new(root.platform(), caller, 0, journal.clone(), Some(stage.notification()));
    thread.make(sequence.calls(0, 0).map_err(outside)?, 0);
    stage.end(root.kernel()).map_err(reported)
}

/// The threads beside the root thread.
struct Workers([Worker; WORKERS]);

impl Workers {
    fn new(root: &RootPlatform) -> Result<Self, String> {
        let worker = |number| root.worker(Stage::buffer(number), work).ok_or("a worker's IPC buffer is misplaced");
        let [first, second, third, fourth] = [worker(0)?, worker(1)?, worker(2)?, worker(3)?];
        Ok(Self([first, second, third, fourth]))
    }

    fn context(&self, worker: usize, part: Part) -> UserContext {
        let context = |worker_thread: &Worker| worker_thread.context(Stage::stack_top(worker), part.to_bits());
        self.0.get(worker).map(context).unwrap_or_default()
    }

    /// Empties the IPC buffers, where a sequence's threads may have named receive slots.
    fn forget(&self, root: &RootPlatform) -> Result<(), OutOfBounds> {
        for worker in 0..self.0.len() {
            let offset = Stage::buffer(worker).bits().saturating_sub(MAPPING_AREA);
            let page = root.mapping_area().part(offset, 4096).ok_or(OutOfBounds)?;
            root.memory(&page)?.write(0, &[0u64; 512])?;
        }
        Ok(())
    }
}

/// The work of a worker: a helper does its part of a sequence, the lowest thread signals for ever.
fn work(platform: Sel4Platform, argument: u64) {
    let part = Part::from_bits(argument);
    if usize::from(part.thread) == WORKERS {
        thread::signal_for_ever(&platform);
    }
    // A helper whose part cannot be read makes no calls; its missing answers show that.
    let _ = thread::help(&platform, part);
}

fn boot_of(boot: &platform_sel4::BootInfo) -> Boot {
    let untyped = |untyped: &platform_sel4::BootUntyped| {
        let platform_sel4::BootUntyped { cap, paddr, size_bits, is_device } = *untyped;
        BootUntyped { cap, paddr, size_bits, is_device }
    };
    Boot {
        untypeds: boot.untypeds.iter().map(untyped).collect(),
        free_cptrs: boot.empty_cptrs.clone(),
        cnode: initial::CNODE,
        vspace: initial::VSPACE,
        tcb: initial::TCB,
        asid_pool: initial::ASID_POOL,
        asid_control: initial::ASID_CONTROL,
        irq_control: initial::IRQ_CONTROL,
        io_ports: initial::IO_PORTS,
        io_spaces: initial::IO_SPACE,
    }
}

fn reported(failure: stage::Failure) -> String {
    let Failure(what, error) = failure;
    error.map_or_else(|| what.to_string(), |error| format!("{what}: {error}"))
}

fn outside(_: OutOfBounds) -> String {
    "a sequence or its journal is out of bounds".to_string()
}
