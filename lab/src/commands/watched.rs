//! Tests that a running system can be watched and steered: `ctl` and `top` beside a run, as a user types them.
//!
//! The scenario's tenant may make a thousand requests a second, which its figures must show. Then an operator lowers its limit, pauses
//! it, and kills its server.

use crate::commands::counted::Counted;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fmt;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use xtask::project::Project;

/// The world in which the system runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    /// QEMU.
    Qemu,
    /// The simulator, paced.
    Simulator,
}

impl fmt::Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Qemu => "a running system is watched",
            Self::Simulator => "a running simulation is watched",
        })
    }
}

impl World {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Qemu, Self::Simulator];

    const fn scenario(self) -> &'static str {
        match self {
            Self::Qemu => "watched",
            Self::Simulator => "watched-sim",
        }
    }

    /// The command that runs the scenario.
    const fn words(self) -> &'static [&'static str] {
        match self {
            Self::Qemu => &["demo"],
            Self::Simulator => &["sim", "--live"],
        }
    }
}

/// The longest wait for the system's start, with the programs to build, and for its end.
pub(crate) const LONGEST: Duration = Duration::from_secs(300);

/// The tenant's limit, and the fewest that count as reaching it on a busy build machine.
const LIMIT: f64 = 1000.0;
pub(crate) const FEWEST: f64 = 300.0;

/// The scenario, with this name and for so long. An operator has these acts.
pub(crate) fn scenario(name: &str, milliseconds: u32, acts: &[&str]) -> String {
    let control = if acts.is_empty() { String::new() } else { format!("[control]\nacts = {acts:?}\n") };
    format!(
        "name = \"{name}\"\ndescription = \"it is watched\"\n[telemetry]\ntrace_pages = 16\n{control}[expect]\ntimeout_seconds = 120\n\
         [[controller]]\nname = \"disk\"\n[[controller.namespace]]\nsize = \"16M\"\nbackend = \"null\"\n\
         [[tenant]]\nname = \"alice\"\nclass = \"high\"\nqueue_pairs = 1\ndepth = 8\n\
         iops = {{ per_second = 1_000, burst = 8 }}\nextents = [{{ first = 0, blocks = 4096 }}]\nprogram.name = \"bench\"\n\
         [tenant.program.config]\ndepth = 8\noperations = 0\nmilliseconds = {milliseconds}\nread_percent = 100\nverify = false\n"
    )
}

/// Runs the test.
pub(crate) fn check(project: &Project, world: World) -> Result<Counted> {
    let name = world.scenario();
    let file = project.target_folder("watched")?.join(format!("{name}.toml"));
    let text_of = scenario(name, 25_000, &["shares", "kill", "pause"]);
    fs::write(&file, text_of).with_context(|| format!("cannot write {}", project.shown(&file)))?;
    let user = User { project };
    let mut run = user.start(world.words(), &file)?;
    let watched = user.watch(name, &mut run).and_then(|()| user.steer(name));
    if watched.is_err() {
        // It is over anyway, or ends by its timeout.
        let _ = run.kill();
    }
    let output = run.wait_with_output().context("cannot wait for the run")?;
    watched?;
    ensure!(output.status.success(), "the run that was watched fails: {}", text(&output.stdout));
    let after = user.asks(&["ctl", "tenants", "--run", name])?;
    ensure!(!after.status.success(), "after the run's end there are tenants: {}", text(&after.stdout));
    Ok(Counted::one())
}

/// Somebody who types commands.
pub(crate) struct User<'a> {
    pub(crate) project: &'a Project,
}

impl User<'_> {
    fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("this program cannot be found")?);
        command.current_dir(self.project.root()).stdin(Stdio::null());
        Ok(command)
    }

    /// Starts a command with these words and a file or name.
    pub(crate) fn start(&self, words: &[&str], file: &Path) -> Result<Child> {
        let mut command = self.command()?;
        command
            .args(words)
            .arg(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot run the command")
    }

    /// Runs a command.
    pub(crate) fn asks(&self, words: &[&str]) -> Result<Output> {
        self.command()?.args(words).output().context("cannot run the command")
    }

    fn watch(&self, name: &str, run: &mut Child) -> Result<()> {
        let since = Instant::now();
        let tenants = || self.asks(&["ctl", "tenants", "--json", "--seconds", "2", "--run", name]);
        let alice = loop {
            let output = tenants()?;
            let alice = serde_json::from_slice::<Value>(&output.stdout).ok().map(|shown| shown["tenants"][0].clone());
            // The first figures are of the tenant's preparation, or of less than the time that was asked for.
            let rate = |alice: &Value| alice["read"]["requests_per_second"].as_f64().unwrap_or_default();
            if let Some(alice) = alice.filter(|alice| rate(alice) > FEWEST) {
                break alice;
            }
            let ended = run.try_wait().context("cannot wait for the run")?.is_some();
            ensure!(!ended && since.elapsed() < LONGEST, "it shows no rate of alice: {}", text(&output.stderr));
            thread::sleep(Duration::from_millis(200));
        };
        let (rate, held_back) = (&alice["read"]["requests_per_second"], &alice["held_back"]);
        ensure!(rate.as_f64().is_some_and(|rate| rate < 1.2 * LIMIT), "alice has a limit of 1000, and makes {rate}");
        ensure!(held_back.as_f64().is_some_and(|part| part > 0.2), "the limit holds alice back, and not {held_back}");
        ensure!(alice["class"] == "high" && alice["is_open"] == true, "it shows another tenant: {alice}");
        let requests = || -> Result<u64> {
            let output = self.asks(&["ctl", "metrics", "--run", name])?;
            let text = text(&output.stdout);
            ensure!(text.trim_end().ends_with("# EOF"), "the metrics do not end: {text}");
            let line = text.lines().find(|line| line.starts_with("capnvme_requests_total{"));
            let value = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
            value.with_context(|| format!("the metrics have no requests: {text}"))
        };
        let (before, after) = (requests()?, requests()?);
        ensure!(before < after, "{before} requests became {after} in the metrics");
        self.saves_traces(name)?;
        let shown = self.top(name)?;
        ensure!(shown.contains("alice") && shown.contains("high"), "top shows no tenant: {shown}");
        ensure!(shown.contains("suspended") && shown.contains("goes on"), "keys of top do nothing: {shown}");
        Ok(())
    }

    /// Acts on the running system, and looks at what becomes of its tenant.
    fn steer(&self, name: &str) -> Result<()> {
        let act = |words: &[&str]| self.asks(&[&["ctl"], words, &["--run", name]].concat());
        let done = |words: &[&str]| -> Result<()> {
            let output = act(words)?;
            let is_done = output.status.success() && text(&output.stdout).contains(": in force after ");
            ensure!(is_done, "{words:?}: {}{}", text(&output.stdout), text(&output.stderr));
            Ok(())
        };
        let refused = |words: &[&str], says: &str| -> Result<()> {
            let output = act(words)?;
            let is_refused = output.status.code() == Some(1) && text(&output.stderr).contains(says);
            ensure!(is_refused, "{words:?} is not refused by '{says}': {}", text(&output.stderr));
            Ok(())
        };
        let rate = || -> Result<f64> {
            let output = self.asks(&["ctl", "tenants", "--json", "--run", name])?;
            let shown: Value = serde_json::from_slice(&output.stdout).context("ctl prints no JSON")?;
            shown["tenants"][0]["read"]["requests_per_second"].as_f64().context("alice has no rate")
        };
        refused(&["set", "alice", "class=urgent"], "class urgent, of a session that may have high at most")?;
        refused(&["kill", "alcie"], "do you mean 'alice'?")?;
        refused(&["revoke", "alice", "0+8"], "add \"rights\" to `acts` of [control]")?;
        done(&["set", "alice", "iops=100/8"])?;
        let slow = rate()?;
        ensure!(slow < 150.0, "alice makes {slow} requests a second with a limit of 100");
        done(&["pause", "alice"])?;
        // The first second begins before the pause.
        rate()?;
        let paused = rate()?;
        ensure!(paused < 1.0, "alice makes {paused} requests a second while she is paused");
        done(&["resume", "alice"])?;
        done(&["kill", "nvme-server"])?;
        let waited = act(&["wait", "nvme-server runs again"])?;
        ensure!(waited.status.success(), "nobody says that the server runs again: {}", text(&waited.stderr));
        refused(&["wait", "nvme-server sleeps", "--seconds", "0"], "no line had 'nvme-server sleeps' in 0 seconds")?;
        rate()?;
        let after = rate()?;
        ensure!(
            (10.0..150.0).contains(&after),
            "alice makes {after} requests a second at a new server, and may make 100"
        );
        Ok(())
    }

    /// Saves the requests of a second, and then to a full disk.
    fn saves_traces(&self, name: &str) -> Result<()> {
        let file = self.project.target_folder("watched")?.join(format!("{name}.perfetto-trace"));
        let output = self.asks(&["ctl", "trace", "save", &file.to_string_lossy(), "--run", name])?;
        let said = text(&output.stdout);
        let saved = said.strip_prefix("saved ").and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        ensure!(saved.is_some_and(|saved| saved > 100), "no trace is saved: {said}{}", text(&output.stderr));
        ensure!(said.contains("; 0 events lost"), "events of a slow tenant are lost: {said}");
        ensure!(fs::metadata(&file).is_ok_and(|file| file.len() > 10_000), "{} has no trace", file.display());
        self.switches_traces(name, &file.to_string_lossy())?;
        let output = self.asks(&["ctl", "trace", "save", "/dev/full", "--seconds", "0", "--run", name])?;
        let said = text(&output.stderr);
        ensure!(!output.status.success() && said.lines().count() == 1, "a full disk is not one sentence: {said}");
        ensure!(said.contains("No space left"), "a full disk is another failure: {said}");
        Ok(())
    }

    /// Stops and starts the trace of the tenant, who reads.
    fn switches_traces(&self, name: &str, file: &str) -> Result<()> {
        let traced = |words: &[&str]| -> Result<u64> {
            let output = self.asks(&[&["ctl", "trace"], words, &["alice", "--run", name]].concat())?;
            ensure!(output.status.success(), "{words:?}: {}", text(&output.stderr));
            let count = || -> Result<u64> {
                let output = self.asks(&["ctl", "trace", "save", file, "--run", name])?;
                let said = text(&output.stdout);
                said.split(' ').nth(1).and_then(|count| count.parse().ok()).context("no trace is saved")
            };
            let before = count()?;
            // Events of others may replace requests that were there before.
            Ok(count()?.saturating_sub(before))
        };
        for words in [&["stop"][..], &["start", "--kind", "writes"]] {
            let new = traced(words)?;
            ensure!(new == 0, "{new} requests are traced after {words:?}");
        }
        let output = self.asks(&["ctl", "trace", "start", "alcie", "--run", name])?;
        ensure!(text(&output.stderr).contains("do you mean 'alice'?"), "{}", text(&output.stderr));
        let output = self.asks(&["ctl", "trace", "start", "alice", "--kind", "reads", "--run", name])?;
        ensure!(output.status.success(), "{}", text(&output.stderr));
        Ok(())
    }

    /// The bytes that `top` writes to a terminal until its user presses q.
    fn top(&self, name: &str) -> Result<String> {
        let program = std::env::current_exe().context("this program cannot be found")?;
        // It has a terminal by `script`, which is part of every Debian.
        let line = format!("stty cols 80 rows 24; exec '{}' top {name}", program.display());
        let mut script = Command::new("script");
        script.current_dir(self.project.root()).args(["-qec", &line, "/dev/null"]);
        let mut child = script
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run script, of the package bsdutils")?;
        thread::sleep(Duration::from_secs(2));
        if let Some(mut stdin) = child.stdin.take() {
            for keys in ["sp", "o", "q"] {
                stdin.write_all(keys.as_bytes()).context("top takes no keys")?;
                thread::sleep(Duration::from_secs(1));
            }
        }
        let output = child.wait_with_output().context("cannot wait for top")?;
        ensure!(output.status.success(), "top fails: {}", text(&output.stdout));
        Ok(text(&output.stdout))
    }
}

/// Text that a command wrote.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
