//! Tests of the page of a running system, as its users have it: Chromium opens it beside a run, promtool and Prometheus read its metrics.
//!
//! The tenant of the scenario may make a thousand requests a second, which the page must show. A line of HTML in the log of what happened
//! must stay text. The demonstration of the guide is given as a speaker gives it (`speaker`), which makes the guide's pictures, too.

mod chromium;
mod speaker;

use crate::commands::counted::Counted;
use crate::commands::watched::{FEWEST, LONGEST, User, World, scenario, text};
use anyhow::{Context, Result, bail, ensure};
use chromium::Chromium;
use std::fmt;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use xtask::project::Project;

/// A row of the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Row {
    /// The page of a run without a control component of its own.
    Page(World),
    /// The page's reader changes the system, as far as the scenario offers that.
    Buttons,
    /// The demonstration of the guide.
    Speaker,
}

/// All rows.
pub(crate) const ALL: [Row; 4] = [Row::Page(World::Simulator), Row::Page(World::Qemu), Row::Buttons, Row::Speaker];

/// The sentence of a machine without the judges.
pub(crate) const MISSING: &str =
    "Chromium or Prometheus is missing; install them with: cargo xtask setup --with-browser";
/// Words in a line that would change the page, were they HTML.
const HOSTILE: &str = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>";
/// The tenant's rate on the page.
const RATE: &str = "Number(document.querySelector('tr[data-tenant=alice]')?.dataset.rate)";
/// Time for which the tenant works while it is watched.
const MILLISECONDS: u32 = 40_000;
/// Whether the run is over.
const OVER: &str = "document.getElementById('state').textContent.includes('is over')";
/// The longest wait for the system's start, with the programs to build.
const START: Duration = Duration::from_secs(900);
/// The longest wait for something that the page must show.
const SOON: Duration = Duration::from_secs(20);

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Buttons => "buttons of a page in a browser",
            Self::Speaker => "a speaker's demonstration in a browser",
            Self::Page(World::Qemu) => "page of a running system in a browser",
            Self::Page(World::Simulator) => "page of a running simulation in a browser",
        })
    }
}

/// Whether the judges are installed.
pub(crate) fn is_installed() -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |name: &str| std::env::split_paths(&path).any(|folder| folder.join(name).is_file());
    ["chromium", "promtool", "prometheus"].into_iter().all(has)
}

impl Row {
    const fn name(self) -> &'static str {
        match self {
            Self::Buttons => "paged-acts",
            Self::Speaker => speaker::SCENARIO,
            Self::Page(World::Qemu) => "paged",
            Self::Page(World::Simulator) => "paged-sim",
        }
    }

    /// Runs the test.
    pub(crate) fn check(self, project: &Project) -> Result<Counted> {
        let (name, folder) = (self.name(), project.target_folder("watched")?);
        let file = folder.join(format!("{name}.toml"));
        let user = User { project };
        let acts: &[&str] = if self == Self::Buttons { &["shares", "pause"] } else { &[] };
        if self != Self::Speaker {
            fs::write(&file, scenario(name, MILLISECONDS, acts))
                .with_context(|| format!("cannot write {}", project.shown(&file)))?;
        }
        match self {
            Self::Page(World::Qemu) => {
                // The page comes with the run.
                let mut served = user.start(&["demo", "--live", "--listen", "127.0.0.1:0"], &file)?;
                ended(&mut served, |served| self.judge(&user, served))?;
            }
            Self::Page(World::Simulator) | Self::Buttons => {
                let run = user.start(&["sim", "--live"], &file)?;
                user.shows(name, run, |served| self.judge(&user, served))?;
            }
            Self::Speaker => demonstrated(project, &folder)?,
        }
        Ok(Counted::one())
    }

    fn judge(self, user: &User<'_>, served: &mut Child) -> Result<()> {
        let (name, address) = (self.name(), Address::of(served)?);
        let mut page = address.open()?;
        page.wait("the tenant's rate", &format!("{RATE} > {FEWEST}"), START)?;
        page.wait("a curve", "document.querySelectorAll('.curve[data-tenant=alice] path.p99').length > 0", SOON)?;
        let busy =
            "document.querySelectorAll('#graph g.busy[data-from=alice], #graph g.busy[data-to=alice]').length > 0";
        page.wait("traffic on an edge", busy, SOON)?;
        if let Self::Page(world) = self {
            // `demo --live` adds a control component with all acts.
            let wanted = if world == World::Qemu { "> 0" } else { "=== 0" };
            let buttons = format!("document.querySelectorAll('button').length {wanted}");
            page.wait("the buttons of the acts that the run offers", &buttons, SOON)?;
            metrics(&address)?;
            prometheus(&address)?;
            refusals(user, name, world, &address)?;
            hostile(user.project, name, &mut page)?;
        } else {
            clicks(&mut page)?;
        }
        page.wait("the run's end", OVER, LONGEST)
    }
}

/// Gives the demonstration of the guide in the simulator. Its pictures go into this folder.
pub(crate) fn demonstrated(project: &Project, pictures: &Path) -> Result<()> {
    let user = User { project };
    let run = user.start(&["sim", "--live", "--minutes", speaker::MINUTES], Path::new(speaker::SCENARIO))?;
    user.shows(speaker::SCENARIO, run, |served| {
        let mut page = Address::of(served)?.open()?;
        speaker::give(&mut page, pictures)?;
        page.wait("the run's end", OVER, LONGEST)
    })
}

/// The tenant is paused, goes on, and gets a lower limit, by the buttons that the scenario offers and by no other.
fn clicks(page: &mut Chromium) -> Result<()> {
    let others = "document.querySelectorAll('button[data-act=kill], button[data-act=revoke]').length === 0";
    page.wait("only the acts that the scenario offers", others, SOON)?;
    click(page, "alice", "pause")?;
    page.wait("that a paused tenant does nothing", &format!("{RATE} === 0"), SOON)?;
    click(page, "alice", "resume")?;
    page.wait("that it goes on", &format!("{RATE} > {FEWEST}"), SOON)?;
    page.wait("the new limit", "(document.querySelector('input[name=iops]').value = '50/2') === '50/2'", SOON)?;
    click(page, "alice", "set")?;
    page.wait("the rate within the new limit", &format!("{RATE} > 0 && {RATE} < 100"), SOON)
}

/// Clicks on a component's button, and waits for the answer.
fn click(page: &mut Chromium, component: &str, act: &str) -> Result<()> {
    press(page, component, act)?;
    let is_answered = format!("document.getElementById('answer').textContent.startsWith('{component}: in force')");
    page.wait("that it is in force", &is_answered, SOON)
}

/// Clicks on a component's button.
fn press(page: &mut Chromium, component: &str, act: &str) -> Result<()> {
    let button = format!("document.querySelector('.acts[data-component={component}] button[data-act={act}]')");
    page.wait(act, &format!("{button}.click() === undefined"), SOON)
}

/// Judges what a command serves, and that it ends well. It is killed if it does not please.
fn ended(served: &mut Child, judge: impl FnOnce(&mut Child) -> Result<()>) -> Result<()> {
    let judged = judge(served);
    if judged.is_err() {
        // It may have ended.
        let _ = served.kill();
    }
    let status = served.wait().context("cannot wait for the page's command")?;
    judged?;
    ensure!(status.success(), "the command that serves the page ends with {status}");
    Ok(())
}

impl User<'_> {
    /// Judges the page of a run that starts, and that the run passes.
    fn shows(&self, name: &str, mut run: Child, judge: impl FnOnce(&mut Child) -> Result<()>) -> Result<()> {
        let judged = self.web(name, &mut run).and_then(|mut served| ended(&mut served, judge));
        if judged.is_err() {
            // It is over anyway, or ends by its timeout.
            let _ = run.kill();
        }
        let output = run.wait_with_output().context("cannot wait for the run")?;
        judged?;
        ensure!(output.status.success(), "the run that was shown fails: {}", text(&output.stdout));
        Ok(())
    }

    /// The command `web` of a run that starts.
    fn web(&self, name: &str, run: &mut Child) -> Result<Child> {
        let since = Instant::now();
        while !self.asks(&["ctl", "tenants", "--run", name])?.status.success() {
            let has_ended = run.try_wait().context("cannot wait for the run")?.is_some();
            ensure!(!has_ended && since.elapsed() < LONGEST, "the run of {name} does not start");
        }
        self.start(&["web", "--listen", "127.0.0.1:0"], Path::new(name))
    }
}

/// A page's address and the token in it.
struct Address {
    place: String,
    token: String,
}

impl Address {
    /// The address that the command prints.
    fn of(served: &mut Child) -> Result<Self> {
        let stdout = served.stdout.as_mut().context("the command has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("the command says nothing")?;
        let parts = line.trim().strip_prefix("Watch at http://").and_then(|rest| rest.split_once("/#token="));
        let (place, token) = parts.with_context(|| format!("the command prints no address, but: {line}"))?;
        Ok(Self { place: place.into(), token: token.into() })
    }

    /// The page in a browser.
    fn open(&self) -> Result<Chromium> {
        Chromium::open(&format!("http://{}/#token={}", self.place, self.token))
    }

    /// The answer to a request, with its head.
    fn ask(&self, head: &str, body: &str) -> Result<String> {
        let mut connection = TcpStream::connect(&self.place).context("the page is not served")?;
        let (place, length) = (&self.place, body.len());
        write!(connection, "{head}\r\nHost: {place}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).context("the page does not answer")?;
        Ok(answer)
    }
}

/// promtool has no complaint about the metrics, and their form is OpenMetrics.
fn metrics(address: &Address) -> Result<()> {
    let open = address.ask("GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text", "")?;
    ensure!(
        open.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        "another content type: {open}"
    );
    ensure!(open.ends_with("# EOF\n"), "the metrics do not end: {open}");
    let classic = address.ask("GET /metrics HTTP/1.1\r\nAccept: text/plain", "")?;
    let (_, body) = classic.split_once("\r\n\r\n").context("the answer has no head")?;
    let mut promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("cannot run promtool")?;
    promtool.stdin.take().context("promtool has no input")?.write_all(body.as_bytes())?;
    let output = promtool.wait_with_output().context("cannot wait for promtool")?;
    let said = [output.stdout, output.stderr].map(|bytes| text(&bytes)).concat();
    ensure!(output.status.success() && said.trim().is_empty(), "promtool complains: {said}");
    Ok(())
}

/// Prometheus, which asks for OpenMetrics, reads the page's metrics.
fn prometheus(address: &Address) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let config = folder.path().join("prometheus.yml");
    let place = &address.place;
    fs::write(
        &config,
        format!("scrape_configs: [{{job_name: a, scrape_interval: 1s, static_configs: [{{targets: ['{place}']}}]}}]\n"),
    )?;
    // A port that is free now.
    let own = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let mut server = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
        .arg(format!("--web.listen-address={own}"))
        .stdout(Stdio::null())
        .stderr(File::create(folder.path().join("said"))?)
        .spawn()
        .context("cannot run prometheus")?;
    let since = Instant::now();
    let found = loop {
        let query = "capnvme_requests_total{tenant=\"alice\"} > 0";
        let output = Command::new("promtool").args(["query", "instant", &format!("http://{own}"), query]).output();
        match output {
            Ok(output) if text(&output.stdout).contains("alice") => break Ok(()),
            _ if since.elapsed() > SOON => {
                let said = fs::read_to_string(folder.path().join("said")).unwrap_or_default();
                break Err(anyhow::anyhow!("prometheus finds no requests of alice: {said}"));
            }
            _ => thread::sleep(Duration::from_millis(300)),
        }
    };
    // It may have ended.
    let _ = server.kill();
    let _ = server.wait();
    found
}

/// Changes without a token, or of a run that offers none, and a second page at the same place are refused in a sentence.
fn refusals(user: &User<'_>, name: &str, world: World, address: &Address) -> Result<()> {
    let kill = r#"{"act":"kill","component":"nvme-server"}"#;
    let act = |token: &str| address.ask(&format!("POST /act HTTP/1.1\r\nAuthorization: Bearer {token}"), kill);
    let wrong = act("0123")?;
    ensure!(wrong.contains("403") && wrong.contains("the token is missing or wrong"), "a wrong token: {wrong}");
    if world == World::Simulator {
        let without = act(&address.token)?;
        ensure!(without.contains("409") && without.contains("no control component"), "no control component: {without}");
    }
    let second = user.asks(&["web", name, "--listen", &address.place])?;
    let said = text(&second.stderr);
    ensure!(!second.status.success() && said.contains("is taken by another program"), "a port that is taken: {said}");
    Ok(())
}

/// A line of the log that is HTML stays text.
fn hostile(project: &Project, name: &str, page: &mut Chromium) -> Result<()> {
    let runs = project.path("target/runs");
    let entries = fs::read_dir(&runs).context("there are no runs")?.filter_map(Result::ok).map(|entry| entry.path());
    let is_ours = |folder: &std::path::PathBuf| {
        let own = folder.file_name().and_then(|file| file.to_str()?.strip_prefix(name)?.strip_prefix('-'));
        own.is_some_and(|number| number.parse::<u64>().is_ok()) && folder.join("live.json").exists()
    };
    let Some(folder) = entries.into_iter().find(is_ours) else { bail!("the run has no folder") };
    let mut log = File::options().append(true).open(folder.join("happened")).context("there is no log")?;
    writeln!(log, "{HOSTILE}").context("cannot write the log")?;
    let is_text = "[...document.querySelectorAll('#log li')].some((line) => line.textContent.includes('<img src=x'))";
    page.wait("the line as text", is_text, SOON)?;
    page.wait(
        "no element of it",
        "document.querySelectorAll('img').length === 0 && document.querySelectorAll('script').length === 1",
        SOON,
    )?;
    page.wait("its own title", &format!("document.title === '{name}'"), SOON)
}
