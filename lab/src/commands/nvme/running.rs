//! nvme-cli on running systems: the NVMe server executes what the scenario allows, while a tenant works, and refuses the rest by name.

use super::answers::{Last, Tapped};
use super::rows::{Bench, first, text};
use crate::commands::counted::Counted;
use crate::commands::watched::{LONGEST, User};
use crate::live::administration;
use crate::nvme_cli::program::NvmeCli;
use anyhow::{Context, Result, ensure};
use std::fmt;
use std::fs;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};
use xtask::project::Project;

/// The system's world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    /// The simulator, paced.
    Simulator,
    /// QEMU for this architecture.
    Qemu(&'static str),
}

/// All worlds.
pub(super) const ALL: [World; 3] = [World::Simulator, World::Qemu("x86_64"), World::Qemu("aarch64")];

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator => f.write_str("nvme-cli: a running simulation"),
            Self::Qemu(arch) => write!(f, "nvme-cli: a running system on {arch}"),
        }
    }
}

/// Lines that succeed, with a text of their output. The tenant has namespace 1, and namespace 2 is the operator's.
const DONE: [(&str, &str); 15] = [
    ("list", "/dev/nvme0n2"),
    ("id-ctrl /dev/nvme0", "sn        : administered"),
    ("id-ns /dev/nvme0n1", "nsze    : 0x8000"),
    ("smart-log /dev/nvme0", "temperature"),
    ("error-log /dev/nvme0", "Error Log Entries"),
    ("show-regs /dev/nvme0 -H", "Controller Memory Buffer Supported"),
    ("set-feature /dev/nvme0 -f 4 -v 350", "value:0x0000015e"),
    ("get-feature /dev/nvme0 -f 4", "Current value:0x0000015e"),
    ("write /dev/nvme0n2 -s 8 -c 7 -z 4096 -d FOLDER/data", "write: Success"),
    ("compare /dev/nvme0n2 -s 8 -c 7 -z 4096 -d FOLDER/data", "compare: Success"),
    ("flush /dev/nvme0n2", "success"),
    ("read /dev/nvme0n2 -s 8 -c 7 -z 4096 -d FOLDER/read", "read: Success"),
    ("reset /dev/nvme0", ""),
    ("read /dev/nvme0n2 -s 8 -c 7 -z 4096 -d FOLDER/again", "read: Success"),
    ("format /dev/nvme0n2 -l 0 -f", "Success formatting namespace:2"),
];
/// Lines that are refused, with the reason.
const REFUSED: [(&str, &str); 5] = [
    ("sanitize /dev/nvme0 -a 2", "the scenario does not give the right \"sanitize\""),
    ("fw-commit /dev/nvme0 -s 1 -a 1", "the scenario does not give the right \"firmware\""),
    ("set-feature /dev/nvme0 -f 7 -v 3", "Set Features of Number of Queues is refused by policy"),
    ("set-feature /dev/nvme0 -f 1 -v 3", "of the NVMe server"),
    ("admin-passthru /dev/nvme0 --opcode=5", "Create I/O Completion Queue is refused by policy"),
];

/// A line by which a namespace goes, and one that fails then. QEMU's controller detaches none.
const DETACHES: &str = "detach-ns /dev/nvme0 -n 2 -c 0";
const GONE: (&str, &str) = ("id-ns /dev/nvme0n2", "No such file or directory");

impl World {
    fn scenario(self) -> &'static str {
        match self {
            Self::Simulator => "administered-sim",
            Self::Qemu("x86_64") => "administered",
            Self::Qemu(_) => "administered-arm",
        }
    }

    /// Runs the test.
    pub(super) fn check(self, project: &Project, nvme: &NvmeCli) -> Result<Counted> {
        let name = self.scenario();
        let file = project.target_folder("watched")?.join(format!("{name}.toml"));
        fs::write(&file, scenario(name)).with_context(|| format!("cannot write {}", project.shown(&file)))?;
        let user = User { project };
        let mut run = match self {
            Self::Simulator => user.start(&["sim", "--live"], &file)?,
            Self::Qemu(arch) => user.start(&["demo", "--arch", arch], &file)?,
        };
        let administered = self.administer(project, nvme, &mut run).and_then(|()| {
            let shown = user.asks(&["ctl", "show", "id-ctrl", "--run", name])?;
            ensure!(text(&shown).contains("\"administered\""), "ctl shows another controller: {}", text(&shown));
            let output = user.asks(&["ctl", "kill", "alice", "--run", name])?;
            ensure!(output.status.success(), "the tenant cannot be stopped: {}", text(&output));
            Ok(())
        });
        if administered.is_err() {
            // It is over anyway, or ends by its timeout.
            let _ = run.kill();
        }
        let output = run.wait_with_output().context("cannot wait for the run")?;
        administered?;
        ensure!(output.status.success(), "the run that was administered fails: {}", text(&output));
        Ok(Counted::one())
    }

    fn administer(self, project: &Project, nvme: &NvmeCli, run: &mut Child) -> Result<()> {
        let name = self.scenario();
        let since = Instant::now();
        let far = loop {
            match administration::controller(project, Some(name)) {
                Ok(far) => break far,
                Err(error) => {
                    let ended = run.try_wait().context("cannot wait for the run")?.is_some();
                    ensure!(!ended && since.elapsed() < LONGEST, "it cannot be administered: {error:#}");
                    thread::sleep(Duration::from_millis(200));
                }
            }
        };
        let last = Last::default();
        let bench = Bench::new(nvme, Box::new(Tapped { far: Box::new(far), last: last.clone() }))?;
        let binary = bench.run("id-ctrl /dev/nvme0 -o binary")?;
        ensure!(
            binary.status.success() && binary.stdout == *last.bytes(),
            "nvme prints other bytes than the controller gave"
        );
        let judged = |(line, says): (&str, &str), succeeds: bool| {
            let output = bench.run(line)?;
            let text = text(&output);
            let is_right = output.status.success() == succeeds && text.contains(says);
            ensure!(is_right, "nvme {line} does not say '{says}': {}", first(&text));
            Ok(())
        };
        DONE.into_iter().try_for_each(|line| judged(line, true))?;
        for file in ["read", "again"] {
            ensure!(bench.file(file)? == bench.file("data")?, "nvme reads other blocks than it wrote");
        }
        REFUSED.into_iter().try_for_each(|line| judged(line, false))?;
        if self == World::Simulator {
            judged((DETACHES, "Success"), true)?;
            return judged(GONE, false);
        }
        judged((DETACHES, "Invalid Field in Command"), false)
    }
}

/// The scenario, with this name.
fn scenario(name: &str) -> String {
    format!(
        "name = \"{name}\"\ndescription = \"it is administered\"\n[telemetry]\n[control]\nacts = [\"kill\"]\n\
         administration = [\"inspect\", \"features\", \"namespaces\", \"io\", \"reset\"]\n[expect]\ntimeout_seconds = 240\n\
         [[controller]]\nname = \"disk\"\nserial = \"administered\"\n[[controller.namespace]]\nsize = \"16M\"\n\
         [[controller.namespace]]\nsize = \"16M\"\n\
         [[tenant]]\nname = \"alice\"\nqueue_pairs = 1\ndepth = 8\niops = {{ per_second = 1_000, burst = 8 }}\n\
         extents = [{{ first = 0, blocks = 4096 }}]\nprogram.name = \"bench\"\n\
         [tenant.program.config]\ndepth = 8\noperations = 0\nmilliseconds = 200_000\n"
    )
}
