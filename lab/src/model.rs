//! The simulator's controllers as devices of QEMU: each is served over vfio-user, on a thread of its own.
//!
//! A namespace's content comes from its image when it is read; what tenants wrote is in the model's memory until the end, and then
//! goes into the image, where the judges of a run look for it. Left out: QEMU's side of the sockets (`qemu`).

use crate::contents;
use anyhow::{Context, Result, anyhow};
use capdl::Scenario;
use capdl::scenario::{Backend, Controller, Namespace};
use kernel::Kernel;
use sim::{Disk, Exported, FaultHit};
use sim_fault::{ControllerEffect, Fault};
use sim_vfio_user::{ClientEnd, Server, Stop};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::image::programs::Programs;
use xtask::machine::disk::UserDisk;
use xtask::machine::injection::hit_words;
use xtask::machine::model::Models;
use xtask::machine::qemu;
use xtask::machine::waits::MODEL_THREAD;
use xtask::project::Project;
use xtask::run::Runner;

/// Bytes of a namespace that are copied into its image at a time.
const PIECE: usize = 1 << 20;

/// The served controllers of a run.
struct Controllers {
    served: Vec<Served>,
    /// The folder of the sockets, whose paths must be short.
    _folder: TempDir,
}

/// A runner of scenarios on QEMU that has the simulator's controllers, too.
pub(crate) const fn runner<'a>(project: &'a Project, kernel: &'a Kernel, programs: &'a Programs) -> Runner<'a> {
    Runner { project, kernel, programs, serve: Some(serve) }
}

struct Served {
    name: String,
    socket: PathBuf,
    stop: Stop,
    faults: Sender<ControllerEffect>,
    /// The server's time began then.
    began: Instant,
    thread: JoinHandle<Result<Account>>,
}

/// Account of one controller at the end.
struct Account {
    /// Violations of the standard by drivers.
    violations: Vec<String>,
    /// The first commands that faults hit, each with the number of the fault in the scenario.
    hits: Vec<(usize, FaultHit)>,
}

/// Input of the thread of one controller.
struct Work {
    scenario: Scenario,
    index: usize,
    /// The images of its namespaces; `None` for one without a file.
    images: Vec<Option<PathBuf>>,
    /// The namespace, by index, whose image is the user's disk, which is not changed.
    users: Option<usize>,
    faults: Receiver<ControllerEffect>,
}

/// Serves every controller of a scenario, whose images are in this folder; `disk` replaces one of them.
pub(crate) fn serve(scenario: &Scenario, images: &Path, disk: Option<&UserDisk>) -> Result<Box<dyn Models>> {
    let folder = tempfile::tempdir().context("there is no place for sockets")?;
    let users_place = disk.and_then(|_| qemu::user_place(scenario));
    let serve = |(index, controller): (usize, &Controller)| {
        let socket = folder.path().join(format!("{index}"));
        let server = Server::bind(&socket)?;
        let began = Instant::now();
        let (stop, (sender, faults)) = (server.stop(), channel());
        let users = users_place.filter(|place| place.0 == index).map(|place| place.1);
        let file = |(number, namespace): (usize, &Namespace)| match disk {
            Some(disk) if users == Some(number) => Some(disk.path.clone()),
            _ if namespace.backend == Backend::File => Some(qemu::image_file(images, &controller.name, number + 1)),
            _ => None,
        };
        let images = controller.namespaces.iter().enumerate().map(file).collect();
        let work = Work { scenario: scenario.clone(), index, images, users, faults };
        let named = thread::Builder::new().name(MODEL_THREAD.into());
        let thread = named.spawn(move || work.run(&server)).context("a thread cannot be started")?;
        Ok(Served { name: controller.name.clone(), socket, stop, faults: sender, began, thread })
    };
    let served = scenario.controllers.iter().enumerate().map(serve).collect::<Result<_>>()?;
    Ok(Box::new(Controllers { served, _folder: folder }))
}

impl Models for Controllers {
    fn sockets(&self) -> Vec<PathBuf> {
        self.served.iter().map(|one| one.socket.clone()).collect()
    }

    fn faults(&self) -> Vec<Sender<ControllerEffect>> {
        self.served.iter().map(|one| one.faults.clone()).collect()
    }

    fn end(self: Box<Self>) -> (Vec<String>, Vec<(Instant, String)>) {
        let (mut sentences, mut hits) = (Vec::new(), Vec::new());
        for Served { name, stop, began, thread, .. } in self.served {
            stop.raise();
            let ended = thread.join().map_err(|_| anyhow!("the model of the controller panicked: see above")).flatten();
            match ended {
                Ok(account) => {
                    sentences.extend(account.violations.into_iter().map(|sentence| format!("{name}: {sentence}")));
                    let words = |(fault, hit): (usize, FaultHit)| {
                        (began + Duration::from_nanos(hit.at_ns), hit_words(fault, &hit, &name))
                    };
                    hits.extend(account.hits.into_iter().map(words));
                }
                Err(error) => sentences.push(format!("{name}: its model failed: {error:#}")),
            }
        }
        (sentences, hits)
    }
}

impl Work {
    /// Serves until it is stopped, then writes the images.
    fn run(self, server: &Server) -> Result<Account> {
        let Self { scenario, index, images, users, faults } = self;
        let disks = images.iter().map(|image| image.as_deref().map_or_else(|| Ok(Disk::zeroes()), contents::of_file));
        let disks = disks.collect::<Result<Vec<_>>>()?;
        // Faults of the whole controller come when the system works.
        let numbered = || scenario.faults.iter().enumerate().filter(|(_, fault)| matches!(fault, Fault::Command(_)));
        let of_commands: Vec<_> = numbered().map(|(_, fault)| fault.clone()).collect();
        let mut device = Exported::new(&scenario, index, &disks, &of_commands, scenario.seed)?;
        device.take_faults_from(faults);
        let mut failed = None;
        server.run(&mut device, &mut |end| {
            if let ClientEnd::Failed(error) = end {
                failed.get_or_insert_with(|| error.to_string());
            }
        })?;
        for (nsid, image) in (1..).zip(&images).filter(|(nsid, _)| users != Some(*nsid as usize - 1)) {
            image.iter().try_for_each(|image| write_back(&device, nsid, image))?;
        }
        match failed {
            Some(failed) => Err(anyhow!("QEMU's client of it failed: {failed}")),
            None => {
                let numbers: Vec<_> = numbered().map(|(number, _)| number).collect();
                let hits = device.faulty_commands().into_iter();
                let hits = hits.filter_map(|(fault, hit)| Some((*numbers.get(fault)?, hit))).collect();
                Ok(Account { violations: device.violations(), hits })
            }
        }
    }
}

/// Writes the changed parts of a namespace into its image.
fn write_back(device: &Exported, nsid: u32, image: &Path) -> Result<()> {
    let cannot = || format!("cannot write {}", image.display());
    let file = OpenOptions::new().write(true).open(image).with_context(cannot)?;
    let mut bytes = vec![0; PIECE];
    for range in device.written(nsid) {
        for at in range.clone().step_by(PIECE) {
            let left = usize::try_from(range.end - at).unwrap_or(usize::MAX);
            let piece = &mut bytes[..left.min(PIECE)];
            device.read_disk(nsid, at, piece).context("the model has lost a range that it reported")?;
            file.write_all_at(piece, at).with_context(cannot)?;
        }
    }
    Ok(())
}
