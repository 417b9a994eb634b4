//! Tests of nvme-cli on our controllers: every subcommand by the table, the bytes of structures, and what may go wrong.

use super::answers::{Drawn, Last, Tapped};
use super::decoding;
use super::running::{self, World};
use super::subcommands::{CONTROLLER, GROUPS, Group, Outcome, Subcommand};
use crate::commands::counted::Counted;
use crate::nvme_cli::FarEnd;
use crate::nvme_cli::model::Model;
use crate::nvme_cli::program::NvmeCli;
use crate::nvme_cli::server::Server;
use anyhow::{Context, Result, anyhow, ensure};
use capdl::Scenario;
use capdl::scenario::Setting;
use nvme_passthrough::{Hello, Reply, Request, SOCKET, receive, send};
use std::fmt;
use std::fs;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{self, Output, Stdio};
use std::thread;
use tempfile::TempDir;
use xtask::project::Project;

/// A test.
#[derive(Clone, Copy)]
pub(crate) enum Row {
    /// The table has all that `nvme help` lists, and nothing else.
    Complete,
    /// Subcommands with one subject.
    Group(&'static Group),
    /// `-o binary` prints the bytes that the controller gave.
    Bytes,
    /// Our decoder agrees with nvme-cli's.
    Decoder,
    /// The ioctls that nvme-cli does not use.
    Ioctls,
    /// Broken connections, absent nodes, several commands at a time.
    Trouble,
    /// The controller of a running system.
    Running(World),
}

/// Every test.
pub(crate) fn all() -> impl Iterator<Item = Row> {
    let groups = GROUPS.iter().map(Row::Group);
    std::iter::once(Row::Complete)
        .chain(groups)
        .chain([Row::Bytes, Row::Decoder, Row::Ioctls, Row::Trouble])
        .chain(running::ALL.map(Row::Running))
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Complete => f.write_str("nvme-cli: all subcommands"),
            Self::Group(group) => write!(f, "nvme-cli: {}", group.name),
            Self::Bytes => f.write_str("nvme-cli: bytes of structures"),
            Self::Decoder => f.write_str("nvme-cli: decoded structures"),
            Self::Ioctls => f.write_str("nvme-cli: ioctls"),
            Self::Trouble => f.write_str("nvme-cli: trouble"),
            Self::Running(world) => world.fmt(f),
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
/// A program for the library, below the project's folder.
const IOCTLS: &str = "lab/nvme-preload/ioctls.c";
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
            Self::Decoder => decoding::check(&nvme),
            Self::Ioctls => ioctls(project, &nvme),
            Self::Running(world) => world.check(project, &nvme),
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
pub(super) struct Bench<'a> {
    nvme: &'a NvmeCli,
    /// Ends before its folder goes.
    _server: Server,
    folder: TempDir,
}

impl<'a> Bench<'a> {
    pub(super) fn new(nvme: &'a NvmeCli, far: Box<dyn FarEnd>) -> Result<Self> {
        let folder = tempfile::tempdir().context("there is no place for a socket")?;
        fs::write(folder.path().join("data"), [0x5a; 4096]).context("there is no place for data")?;
        fs::write(folder.path().join("firmware"), firmware()).context("there is no place for an image")?;
        let server = Server::start(folder.path(), far)?;
        Ok(Self { nvme, _server: server, folder })
    }

    pub(super) fn run(&self, line: &str) -> Result<Output> {
        run(self.nvme, self.folder.path(), line)
    }

    /// The bytes of a file in its folder.
    pub(super) fn file(&self, name: &str) -> Result<Vec<u8>> {
        fs::read(self.folder.path().join(name)).with_context(|| format!("there is no file {name}"))
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
            // Some report a failure by a sentence alone, which is judged above.
            let fails = !output.status.success() || !says.is_empty();
            ensure!(passes || fails, "nvme {line} succeeds, which the table does not say");
        }
        Ok(())
    }
}

/// A firmware image that the model takes: a mark, a revision, and a dword that makes the sum of all dwords 0.
fn firmware() -> Vec<u8> {
    let mut image = b"capnvme\0tested  ".to_vec();
    let dwords = image.chunks_exact(4).map(|dword| u32::from_le_bytes([dword[0], dword[1], dword[2], dword[3]]));
    let sum = dwords.fold(0_u32, u32::wrapping_add);
    image.extend(sum.wrapping_neg().to_le_bytes());
    image.resize(4096, 0);
    image
}

fn run(nvme: &NvmeCli, folder: &Path, line: &str) -> Result<Output> {
    let words = line.split_whitespace().map(|word| word.replace("FOLDER", &folder.display().to_string()).into());
    nvme.command(folder, words).stdin(Stdio::null()).output().context("cannot run nvme")
}

/// The first lines of an output, for a sentence.
pub(super) fn first(text: &str) -> String {
    text.lines().take(SHOWN_LINES).collect::<Vec<_>>().join("; ")
}

pub(super) fn text(output: &Output) -> String {
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

fn bytes(project: &Project, nvme: &NvmeCli) -> Result<Counted> {
    let last = Last::default();
    let tapped = |far: Box<dyn FarEnd>| Bench::new(nvme, Box::new(Tapped { far, last: last.clone() }));
    let (own, drawn) = (tapped(Box::new(model(project)?))?, tapped(Box::new(Drawn(1)))?);
    let compare = |bench: &Bench<'_>, line: &str| {
        let output = bench.run(line)?;
        let given = last.bytes();
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

/// Runs a program of our own with the library.
fn ioctls(project: &Project, nvme: &NvmeCli) -> Result<Counted> {
    let bench = Bench::new(nvme, Box::new(model(project)?))?;
    let program = bench.folder.path().join("ioctls");
    let mut compile = process::Command::new("gcc");
    // Files of 64 bits, as nvme-cli has them on every machine.
    compile.args(["-Wall", "-Werror", "-D_FILE_OFFSET_BITS=64", "-o"]).arg(&program).arg(project.path(IOCTLS));
    let compiled = compile.output().context("cannot run gcc; install it with: cargo xtask setup --yes")?;
    ensure!(compiled.status.success(), "{IOCTLS} cannot be compiled: {}", first(&text(&compiled)));
    let output = nvme.other(&program, bench.folder.path()).output().context("cannot run it")?;
    ensure!(output.status.success(), "{IOCTLS}: {}", first(&text(&output)));
    Ok(Counted::one())
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
