//! Tests of nvme-cli on our controllers: every subcommand by the table, the bytes of structures, and what may go wrong.

use super::subcommands::{CONTROLLER, GROUPS, Group, Outcome, Subcommand};
use crate::commands::counted::Counted;
use crate::nvme_cli::model::Model;
use crate::nvme_cli::program::NvmeCli;
use crate::nvme_cli::server::Server;
use crate::nvme_cli::{Completion, FarEnd, Refused};
use anyhow::{Context, Result, anyhow, ensure};
use capdl::Scenario;
use capdl::scenario::Setting;
use nvme_passthrough::{Command, Data, Hello, Reply, Request, SOCKET, receive, send};
use nvme_spec::identify::NamespaceList;
use nvme_spec::{Nsid, admin};
use std::fmt;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use tempfile::TempDir;
use xtask::project::Project;
use zerocopy::IntoBytes as _;

/// A test.
#[derive(Clone, Copy)]
pub(crate) enum Row {
    /// The table has all that `nvme help` lists, and nothing else.
    Complete,
    /// Subcommands with one subject.
    Group(&'static Group),
    /// `-o binary` prints the bytes that the controller gave.
    Bytes,
    /// Broken connections, absent nodes, several commands at a time.
    Trouble,
}

/// Every test.
pub(crate) fn all() -> impl Iterator<Item = Row> {
    let groups = GROUPS.iter().map(Row::Group);
    std::iter::once(Row::Complete).chain(groups).chain([Row::Bytes, Row::Trouble])
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("nvme-cli: all subcommands"),
            Self::Group(group) => write!(f, "nvme-cli: {}", group.name),
            Self::Bytes => f.write_str("nvme-cli: bytes of structures"),
            Self::Trouble => f.write_str("nvme-cli: trouble"),
        }
    }
}

/// Output of subcommands that print a structure as the controller gave it.
const BINARY: [&str; 9] = [
    "id-ctrl /dev/nvme0 -o binary",
    "id-ns /dev/nvme0n1 -o binary",
    "ns-descs /dev/nvme0n1 -o binary",
    "nvm-id-ctrl /dev/nvme0 -o binary",
    "smart-log /dev/nvme0 -o binary",
    "fw-log /dev/nvme0 -o binary",
    "changed-ns-list-log /dev/nvme0 -o binary",
    "get-log /dev/nvme0 -i 5 -l 4096 -b",
    "admin-passthru /dev/nvme0 --opcode=6 --cdw10=1 --data-len=4096 --read --raw-binary",
];
/// Times that each of them is answered with drawn bytes.
const DRAWS: u64 = 5;
/// Lines of an output that a reason of a failure shows.
const SHOWN_LINES: usize = 4;
/// Commands that run at a time.
const AT_A_TIME: usize = 4;

impl Row {
    /// Runs the test.
    pub(crate) fn check(self, project: &Project) -> Result<Counted> {
        let nvme = NvmeCli::prepare(project)?;
        match self {
            Self::Complete => complete(&nvme),
            Self::Group(group) => {
                let bench = Bench::new(&nvme, Box::new(model(project)?))?;
                let judged = group.subcommands.iter().map(|subcommand| bench.judge(subcommand));
                Ok(counted(judged))
            }
            Self::Bytes => bytes(project, &nvme),
            Self::Trouble => {
                Ok(counted([unanswered(&nvme), absent(project, &nvme), together(project, &nvme)].into_iter()))
            }
        }
    }
}

fn counted(results: impl Iterator<Item = Result<()>>) -> Counted {
    let mut counted = Counted::default();
    for result in results {
        match result {
            Ok(()) => counted.passed += 1,
            Err(error) => counted.failed.push(format!("{error:#}")),
        }
    }
    counted
}

/// The controller of the table.
fn model(project: &Project) -> Result<Model> {
    let setting = CONTROLLER.parse::<Setting>().map_err(|error| anyhow!(error.to_string()))?;
    let scenario = Scenario::load_with(project.scenario("demo")?, None, &[setting])?;
    super::controller(&scenario, None)
}

/// nvme-cli at a served controller, with a folder for files.
struct Bench<'a> {
    nvme: &'a NvmeCli,
    /// Ends before its folder goes.
    _server: Server,
    folder: TempDir,
}

impl<'a> Bench<'a> {
    fn new(nvme: &'a NvmeCli, far: Box<dyn FarEnd>) -> Result<Self> {
        let folder = tempfile::tempdir().context("there is no place for a socket")?;
        fs::write(folder.path().join("data"), [0x5a; 4096]).context("there is no place for data")?;
        let server = Server::start(folder.path(), far)?;
        Ok(Self { nvme, _server: server, folder })
    }

    fn run(&self, line: &str) -> Result<Output> {
        run(self.nvme, self.folder.path(), line)
    }

    /// Runs the lines of a subcommand.
    fn judge(&self, subcommand: &Subcommand) -> Result<()> {
        let passes = subcommand.outcome == Outcome::Passes;
        for (arguments, says) in subcommand.runs {
            let line = format!("{} {arguments}", subcommand.name);
            let output = self.run(&line)?;
            let text = text(&output);
            ensure!(!passes || output.status.success(), "nvme {line} fails: {}", first(&text));
            ensure!(text.contains(says), "nvme {line} does not say '{says}', but: {}", first(&text));
            // One that reports its failure by a sentence alone says it above.
            let fails = !output.status.success() || !says.is_empty();
            ensure!(passes || fails, "nvme {line} succeeds, which the table does not say");
        }
        Ok(())
    }
}

fn run(nvme: &NvmeCli, folder: &Path, line: &str) -> Result<Output> {
    let words = line.split_whitespace().map(|word| word.replace("FOLDER", &folder.display().to_string()).into());
    nvme.command(folder, words).stdin(Stdio::null()).output().context("cannot run nvme")
}

/// The first lines of an output, for a sentence.
fn first(text: &str) -> String {
    text.lines().take(SHOWN_LINES).collect::<Vec<_>>().join("; ")
}

fn text(output: &Output) -> String {
    [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes)).concat()
}

fn complete(nvme: &NvmeCli) -> Result<Counted> {
    let help = text(&run(nvme, Path::new("/"), "help")?);
    let listed = help.split("sub-commands:").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap_or_default();
    let mut listed: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let mut ours: Vec<_> = GROUPS.iter().flat_map(|group| group.subcommands).map(|one| one.name).collect();
    listed.sort_unstable();
    ours.sort_unstable();
    let only =
        |a: &[&str], b: &[&str]| a.iter().filter(|name| !b.contains(name)).copied().collect::<Vec<_>>().join(", ");
    ensure!(
        listed == ours,
        "nvme lists without the table: {}; the table has without nvme: {}; is it nvme-cli 2.3?",
        only(&listed, &ours),
        only(&ours, &listed)
    );
    Ok(Counted::one())
}

/// A far end whose last answer with data is kept.
struct Tapped {
    far: Box<dyn FarEnd>,
    last: Arc<Mutex<Vec<u8>>>,
}

impl FarEnd for Tapped {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let done = self.far.execute(command, data)?;
        if matches!(data, Data::In(_)) {
            self.last.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&done.data);
        }
        Ok(done)
    }

    fn reset(&mut self) -> Result<(), Refused> {
        self.far.reset()
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        self.far.reset_subsystem()
    }

    fn registers(&mut self) -> Vec<u8> {
        self.far.registers()
    }
}

/// A far end that answers with drawn bytes, but has one namespace.
struct Drawn(u64);

impl FarEnd for Drawn {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let is_list = command.opcode == admin::Opcode::Identify as u8 && command.cdw10[0] == 2;
        let mut bytes = if is_list {
            NamespaceList::of([Nsid(1)].into_iter()).as_bytes().to_vec()
        } else {
            std::iter::repeat_with(|| self.draw().to_le_bytes()).take(data.bytes().div_ceil(8)).flatten().collect()
        };
        bytes.resize(data.bytes(), 0);
        Ok(Completion { data: bytes, ..Completion::default() })
    }

    fn reset(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        Ok(())
    }

    fn registers(&mut self) -> Vec<u8> {
        Vec::new()
    }
}

impl Drawn {
    /// The next number of SplitMix64.
    const fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

fn bytes(project: &Project, nvme: &NvmeCli) -> Result<Counted> {
    let last = Arc::new(Mutex::new(Vec::new()));
    let tapped = |far: Box<dyn FarEnd>| Bench::new(nvme, Box::new(Tapped { far, last: last.clone() }));
    let (own, drawn) = (tapped(Box::new(model(project)?))?, tapped(Box::new(Drawn(1)))?);
    let compare = |bench: &Bench<'_>, line: &str| {
        let output = bench.run(line)?;
        let given = last.lock().unwrap_or_else(PoisonError::into_inner);
        let Output { status, stdout, .. } = &output;
        ensure!(status.success() && !given.is_empty(), "nvme {line} fails: {}", first(&text(&output)));
        let differs = given.iter().zip(stdout).position(|(a, b)| a != b);
        ensure!(
            *stdout == *given,
            "nvme {line} prints {} bytes of {}, and byte {differs:?} differs",
            stdout.len(),
            given.len()
        );
        Ok(())
    };
    let all = BINARY.iter().flat_map(|line| {
        let draws = (0..DRAWS).map(|_| compare(&drawn, line));
        std::iter::once(compare(&own, line)).chain(draws.collect::<Vec<_>>())
    });
    Ok(counted(all))
}

/// A server that ends in the middle of a command.
fn unanswered(nvme: &NvmeCli) -> Result<()> {
    let folder = tempfile::tempdir().context("there is no place for a socket")?;
    let listener = UnixListener::bind(folder.path().join(SOCKET)).context("there is no place for a socket")?;
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        receive::<Hello>(&mut stream)?;
        send(&mut stream, &Reply::Done)?;
        receive::<Request>(&mut stream).map(|_| ())
    });
    let output = run(nvme, folder.path(), "id-ctrl /dev/nvme0")?;
    server.join().map_err(|_| anyhow!("the server panicked"))?.context("the server has not met a command")?;
    let text = text(&output);
    ensure!(!output.status.success(), "nvme succeeds without an answer");
    ensure!(text.contains("capnvme: the controller's server has ended"), "nvme does not say so, but: {}", first(&text));
    let output = run(nvme, folder.path(), "id-ctrl /dev/nvme0")?;
    ensure!(self::text(&output).contains("capnvme: no controller is served at"), "{}", self::text(&output));
    Ok(())
}

/// Nodes that are not there, and files of this machine: no command reaches any.
fn absent(project: &Project, nvme: &NvmeCli) -> Result<()> {
    let bench = Bench::new(nvme, Box::new(model(project)?))?;
    for (line, says) in [
        ("id-ctrl /dev/nvme1", "No such file or directory"),
        ("id-ns /dev/nvme0n2", "No such file or directory"),
        ("id-ctrl /dev/null", "Inappropriate ioctl for device"),
        ("id-ctrl FOLDER/data", ""),
        ("set-feature /dev/nvme0 -f 7 -v 3", "Set Features of Number of Queues is refused by policy"),
        ("read /dev/nvme0n1 -s 0 -c 4095 -z 2097152 -d FOLDER/read", "Invalid argument"),
        ("read /dev/nvme0n1 -s 262144 -c 0 -z 512 -d FOLDER/read", "LBA Out of Range"),
    ] {
        let output = bench.run(line)?;
        let text = text(&output);
        ensure!(!output.status.success(), "nvme {line} succeeds");
        ensure!(text.contains(says), "nvme {line} does not say '{says}', but: {}", first(&text));
    }
    Ok(())
}

/// Commands at a time, each of which is executed.
fn together(project: &Project, nvme: &NvmeCli) -> Result<()> {
    let bench = Bench::new(nvme, Box::new(model(project)?))?;
    let one = |number: usize| {
        for _ in 0..AT_A_TIME {
            let lines = [
                format!("write /dev/nvme0n1 -s {} -c 7 -z 4096 -d FOLDER/data", number * 8),
                format!("compare /dev/nvme0n1 -s {} -c 7 -z 4096 -d FOLDER/data", number * 8),
                "list".to_owned(),
            ];
            for line in lines {
                let output = bench.run(&line)?;
                ensure!(output.status.success(), "nvme {line} fails: {}", first(&text(&output)));
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..AT_A_TIME).map(|number| scope.spawn(move || one(number))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
    })
}
