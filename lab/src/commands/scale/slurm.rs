//! A Slurm of one node on this machine, with its configuration, logs and ports of its own.
//!
//! Slurm runs as the user of this process. Its daemons listen on every address of the machine. So each request needs the test's own
//! key (munge). Left out: accounting, limits of memory, more nodes.

use super::{PARTS, Run, SECONDS, program, succeed};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use xtask::machine::ended_with_us;

/// Programs of Slurm that the test uses.
pub(super) const PROGRAMS: [&str; 7] = ["munged", "slurmctld", "slurmd", "sbatch", "scancel", "sinfo", "squeue"];

/// Name of munge's socket.
const SOCKET: &str = "munge";
/// Time for the node to be ready, and for a line of a task.
const WAIT: Duration = Duration::from_secs(120);
/// Time for the tasks of a failed test to end.
const GRACE: Duration = Duration::from_secs(10);
/// Time between two polls.
const PAUSE: Duration = Duration::from_millis(20);

/// Nothing uses cgroups, but a plugin is loaded: this one starts where no cgroups are mounted, as in some containers, too.
const CGROUPS: &str = "CgroupPlugin=cgroup/v1\n";
/// Bytes of a key, within munge's limits of 32 and 1024.
const KEY_BYTES: usize = 128;

/// The daemons; they end with it.
pub(super) struct Slurm {
    configuration: PathBuf,
    folder: PathBuf,
    daemons: Vec<Child>,
    /// Folder of the key and of sockets, whose paths must be short. Others cannot read it.
    private: TempDir,
}

impl Slurm {
    /// Starts it, and waits until its node is ready.
    pub(super) fn start(folder: &Path) -> Result<Self> {
        let private = tempfile::tempdir().context("there is no place for Slurm's sockets")?;
        let configuration = folder.join("slurm.conf");
        fs::create_dir_all(folder.join("state")).context("cannot make the folder of Slurm's state")?;
        let files =
            [(&configuration, text(folder, private.path())?), (&folder.join("cgroup.conf"), CGROUPS.to_owned())];
        for (file, text) in files {
            fs::write(file, text).context("cannot write Slurm's configuration")?;
        }
        let folder = folder.to_path_buf();
        let mut slurm = Self { configuration, folder, daemons: Vec::new(), private };
        slurm.start_munge()?;
        for name in ["slurmctld", "slurmd"] {
            let mut command = slurm.command(name)?;
            command.args(["-D", "-f"]).arg(&slurm.configuration);
            slurm.start_daemon(name, &command)?;
        }
        let is_idle = || {
            let output = slurm.command("sinfo")?.args(["--noheader", "--format=%t"]).output();
            Ok(output.is_ok_and(|output| output.stdout.starts_with(b"idle\n")))
        };
        wait(WAIT, is_idle).with_context(|| format!("Slurm's node is not ready: see {}", slurm.folder.display()))?;
        Ok(slurm)
    }

    /// Starts the daemon that signs and checks requests, with a new key.
    fn start_munge(&mut self) -> Result<()> {
        let [key, socket] = ["key", SOCKET].map(|name| self.private.path().join(name));
        let mut bytes = [0; KEY_BYTES];
        File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).context("there is no key")?;
        let mut file =
            OpenOptions::new().create_new(true).write(true).mode(0o600).open(&key).context("there is no key")?;
        file.write_all(&bytes).context("there is no key")?;
        let mut command = self.command("munged")?;
        command.arg("--foreground").arg("--force");
        for (option, value) in [("key-file", key), ("socket", socket.clone())] {
            command.arg(format!("--{option}={}", value.display()));
        }
        for option in ["log-file", "pid-file", "seed-file"] {
            command.arg(format!("--{option}={}", self.private.path().join(option).display()));
        }
        self.start_daemon("munged", &command)?;
        wait(WAIT, || Ok(socket.exists())).context("munge does not start")
    }

    /// Starts a daemon that ends with this process; its output is kept.
    fn start_daemon(&mut self, name: &str, command: &Command) -> Result<()> {
        let said = File::create(self.folder.join(format!("{name}.said"))).context("cannot write Slurm's logs")?;
        let errors = said.try_clone().context("cannot write Slurm's logs")?;
        let mut command = ended_with_us(command);
        command.stdin(Stdio::null()).stdout(said).stderr(errors);
        self.daemons.push(command.spawn().with_context(|| format!("cannot run {name}"))?);
        Ok(())
    }

    /// Submits an array of all parts, and waits for its end.
    pub(super) fn submit(&self, run: &Run<'_>, command: &[&str], folder: &Path) -> Result<()> {
        succeed(&mut self.array(run, command, folder, &["--wait"])?)
    }

    /// Submits the array, cancels a task once `is_time`, and waits until all other tasks have ended.
    pub(super) fn submit_and_cancel(
        &self,
        run: &Run<'_>,
        command: &[&str],
        folder: &Path,
        task: &str,
        is_time: impl Fn() -> bool,
    ) -> Result<()> {
        let output = self.array(run, command, folder, &["--parsable"])?.output().context("cannot run sbatch")?;
        let job = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(output.status.success(), "sbatch fails: {}", String::from_utf8_lossy(&output.stderr).trim());
        wait(WAIT, || Ok(is_time())).context("a task writes no line")?;
        // The task may have ended just now: the caller finds that in its file.
        self.command("scancel")?.arg(format!("{job}_{task}")).output().context("cannot run scancel")?;
        wait(WAIT, || self.is_empty()).context("the array does not end")
    }

    /// Whether all tasks have ended.
    fn is_empty(&self) -> Result<bool> {
        let output = self.command("squeue")?.arg("--noheader").output().context("cannot run squeue")?;
        Ok(output.status.success() && output.stdout.is_empty())
    }

    /// The command that submits an array.
    fn array(&self, run: &Run<'_>, command: &[&str], folder: &Path, options: &[&str]) -> Result<Command> {
        let sbatch = self.command("sbatch")?;
        let mut limited = Command::new("timeout");
        limited.current_dir(run.project.root()).env("SLURM_CONF", &self.configuration);
        limited.args(["--kill-after=5", SECONDS]).arg(sbatch.get_program()).args(options);
        limited.arg(format!("--array=0-{}", PARTS - 1));
        limited.arg(format!("--output={}", self.folder.join("%A_%a.log").display()));
        limited.args(["lab/scale/slurm.sh", &PARTS.to_string()]).arg(folder).args(command);
        Ok(limited)
    }

    /// A program of Slurm, for this one.
    fn command(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(program(name).with_context(|| format!("there is no {name}"))?);
        command.env("SLURM_CONF", &self.configuration);
        Ok(command)
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // Tasks that a failed test leaves would outlive the daemons.
        let user = rustix::process::geteuid().as_raw().to_string();
        let _ = self.command("scancel").map(|mut command| command.args(["--user", &user]).output());
        let _ = wait(GRACE, || self.is_empty());
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// Waits until `is_so`, for `limit` at most.
///
/// # Errors
/// More time than that, or a failure of `is_so`.
fn wait(limit: Duration, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let deadline = Instant::now() + limit;
    while !is_so()? {
        ensure!(Instant::now() < deadline, "it takes longer than {} seconds", limit.as_secs());
        thread::sleep(PAUSE);
    }
    Ok(())
}

/// The configuration.
fn text(folder: &Path, private: &Path) -> Result<String> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").context("this machine has no name")?;
    let host = host.trim().split('.').next().unwrap_or_default();
    let user = rustix::process::geteuid().as_raw();
    // Held together, they differ. Another program may take one before Slurm does.
    let ports = [(); 2].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let port = |index: usize| -> Result<u16> {
        let listener = ports.get(index).and_then(|one| one.as_ref().ok()).context("there is no free port")?;
        Ok(listener.local_addr().context("there is no free port")?.port())
    };
    let (controller, node) = (port(0)?, port(1)?);
    let (folder, private) = (folder.display(), private.display());
    Ok(format!(
        "ClusterName=capnvme\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser={user}\nSlurmdUser={user}\n\
         SlurmctldPort={controller}\nSlurmdPort={node}\n\
         AuthType=auth/munge\nAuthInfo=socket={private}/{SOCKET}\nCredType=cred/munge\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         SelectType=select/cons_res\nSelectTypeParameters=CR_Core\nSwitchType=switch/none\nMpiDefault=none\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         SlurmctldPidFile={private}/slurmctld.pid\nSlurmdPidFile={private}/slurmd.pid\n\
         StateSaveLocation={folder}/state\nSlurmdSpoolDir={private}\n\
         SlurmctldLogFile={folder}/slurmctld.log\nSlurmdLogFile={folder}/slurmd.log\n\
         ReturnToService=2\nSlurmdParameters=config_overrides\n\
         NodeName={host} NodeAddr=127.0.0.1 CPUs=2\nPartitionName=main Nodes=ALL Default=YES State=UP\n"
    ))
}
