//! A running QEMU: started, read from, ended. It ends when the value is dropped.

pub mod counts;
pub mod disk;
pub mod inherited;
pub mod injection;
pub mod model;
pub(crate) mod monitor;
pub mod plug;
pub mod qemu;
pub mod waits;

use anyhow::{Context, Result};
use inherited::Inside;
use kernel::Arch;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};
use waits::Waits;

/// Time QEMU may take to write out its images after the signal to end.
const GRACE: Duration = Duration::from_secs(5);

/// A machine.
pub struct Machine {
    child: Child,
    started: Instant,
    line: Receiver<Vec<u8>>,
    said: PathBuf,
}

impl Machine {
    /// Starts QEMU with `arguments`. Its messages go to the file `qemu` in `folder`.
    pub fn start(arch: Arch, arguments: &[OsString], folder: &Path) -> Result<Self> {
        Self::start_with(Command::new(kernel::qemu::program(arch)), arguments, folder, &[])
    }

    /// Starts the machine with this QEMU, which inherits these ends of sockets.
    pub fn start_with(program: Command, arguments: &[OsString], folder: &Path, inside: &[Inside]) -> Result<Self> {
        let said = folder.join("qemu");
        let errors = File::create(&said).with_context(|| format!("cannot write {}", said.display()))?;
        let started = Instant::now();
        let ports: Vec<_> = inside.iter().map(Inside::arguments).collect::<Result<_>>()?;
        let mut child = ended_with_us(&program)
            .args(arguments)
            .args(ports.concat())
            // Folder for QEMU's temporary file of changes to a user's disk.
            .env("TMPDIR", folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .with_context(|| {
                let program = program.get_program().display();
                format!("cannot run QEMU ({program}); install it with: cargo xtask setup --yes")
            })?;
        let mut output = child.stdout.take().context("QEMU has no standard output")?;
        // Bounded: a machine that floods its serial line must wait for us.
        let (sender, line) = sync_channel(64);
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            while let Ok(read @ 1..) = output.read(&mut buffer) {
                let Some(bytes) = buffer.get(..read) else { break };
                if sender.send(bytes.to_vec()).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, started, line, said })
    }

    /// A measurement of its waiting for the build machine, from now on.
    pub fn waits(&self) -> Waits {
        Waits::of(self.child.id())
    }

    /// The start of QEMU.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// Time since the start.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The next bytes of the serial line, unless none come within `timeout`.
    pub fn read(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        match self.line.recv_timeout(timeout) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                // The serial line ends shortly before the program.
                thread::sleep(Duration::from_millis(20));
                Ok(None)
            }
        }
    }

    /// The reason for QEMU's end, if it has ended.
    pub fn gone(&mut self) -> Result<Option<String>> {
        let Some(status) = self.child.try_wait().context("cannot wait for QEMU")? else { return Ok(None) };
        let said = fs::read_to_string(&self.said).unwrap_or_default();
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        Ok(Some(last.map_or_else(|| status.to_string(), |line| format!("{status}, saying: {}", line.trim()))))
    }

    /// Ends QEMU after it has written out its images.
    pub fn end(&mut self) -> Result<()> {
        if self.child.try_wait().context("cannot wait for QEMU")?.is_some() {
            return Ok(());
        }
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).context("QEMU has no process id")?;
        // It may end by itself at this moment.
        let _ = kill_process(pid, Signal::TERM);
        let asked = Instant::now();
        while asked.elapsed() < GRACE {
            if self.child.try_wait().context("cannot wait for QEMU")?.is_some() {
                return Ok(());
            }
            // A full channel would keep it from ending.
            let _ = self.line.recv_timeout(Duration::from_millis(10));
        }
        self.child.kill().context("cannot end QEMU")
    }
}

/// A command of `program`, which the system ends when this process ends, for any reason.
pub fn ended_with_us(program: &Command) -> Command {
    let setter = Path::new("/usr/bin/setpriv");
    let mut command = if setter.exists() {
        let mut command = Command::new(setter);
        command.args(["--pdeathsig", "TERM"]).arg(program.get_program());
        command
    } else {
        Command::new(program.get_program())
    };
    let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.args(program.get_args()).envs(set);
    command
}

impl Drop for Machine {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
