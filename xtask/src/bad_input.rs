//! What the commands say to input that is wrong: one sentence with the place and the mend, a status that is not zero,
//! and nothing left behind.
//!
//! The commands are run as a user runs them.

use crate::project::Project;
use crate::test::Counted;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One wrong input.
pub(crate) struct Case {
    /// What is wrong with it.
    pub(crate) name: &'static str,
    arguments: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    rights: Rights,
    /// What the sentence must hold.
    says: &'static [&'static str],
}

/// What the command may do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// What we may.
    Ours,
    /// Not even as root, read or write files against their permissions.
    WithinPermissions,
}

/// All of them.
pub(crate) const CASES: &[Case] = &[
    Case {
        name: "a scenario that is not there",
        arguments: &["demo", "dmeo"],
        environment: &[],
        rights: Rights::Ours,
        says: &["'dmeo'", "demo"],
    },
    Case {
        name: "a key nobody knows",
        arguments: &["demo", "FOLDER/unknown-key.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["unknown-key.toml:3", "colour"],
    },
    Case {
        name: "overlapping extents",
        arguments: &["demo", "FOLDER/overlap.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["overlap.toml", "overlap"],
    },
    Case {
        name: "an extent without blocks",
        arguments: &["demo", "FOLDER/empty-extent.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["empty-extent.toml:8", "`w`", "empty", "0 blocks from block 0 on", "give it 1 block or more"],
    },
    Case {
        name: "an extent beyond the namespace",
        arguments: &["demo", "FOLDER/beyond.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["beyond.toml:8", "up to block 32800", "32768 blocks", "shorten it"],
    },
    Case {
        name: "a table of fewer records than its sessions need",
        arguments: &["demo", "FOLDER/few-records.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["few-records.toml", "records is 3", "`a`", "4 to 65534"],
    },
    Case {
        name: "a tenant without queue pairs",
        arguments: &["demo", "FOLDER/no-pairs.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["no-pairs.toml", "queue pair"],
    },
    Case {
        name: "more queue pairs than the controller has",
        arguments: &["demo", "FOLDER/too-many.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["too-many.toml", "queue pairs"],
    },
    Case {
        name: "a disk that is not there",
        arguments: &["demo", "--disk", "FOLDER/none.img"],
        environment: &[],
        rights: Rights::Ours,
        says: &["none.img", "cannot be opened"],
    },
    Case {
        name: "a disk whose path leads through a file",
        arguments: &["demo", "--disk", "FOLDER/small.img/disk"],
        environment: &[],
        rights: Rights::Ours,
        says: &["small.img/disk", "cannot be opened"],
    },
    Case {
        name: "a disk that may not be read",
        arguments: &["demo", "--disk", "FOLDER/locked.img"],
        environment: &[],
        rights: Rights::WithinPermissions,
        says: &["locked.img", "cannot be read", "change its permissions"],
    },
    Case {
        name: "a disk that may not be written",
        arguments: &["demo", "--disk", "FOLDER/read-only.img", "--write"],
        environment: &[],
        rights: Rights::WithinPermissions,
        says: &["read-only.img", "leave out --write"],
    },
    Case {
        name: "a folder as disk",
        arguments: &["demo", "--disk", "FOLDER"],
        environment: &[],
        rights: Rights::Ours,
        says: &["is a folder"],
    },
    Case {
        name: "a disk that is too small",
        arguments: &["demo", "--disk", "FOLDER/small.img"],
        environment: &[],
        rights: Rights::Ours,
        says: &["small.img", "1000 bytes", "truncate -s"],
    },
    Case {
        name: "no space for the disk image",
        arguments: &["demo", "FOLDER/no-space.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["no space for a disk image", "are needed"],
    },
    Case {
        name: "no QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/no-such-qemu")],
        rights: Rights::Ours,
        says: &["cannot run QEMU", "apt-get install qemu-system-x86"],
    },
    Case {
        name: "another version of QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/old-qemu")],
        rights: Rights::Ours,
        says: &["QEMU 5.1", "7.2"],
    },
    Case {
        name: "a log level nobody knows",
        arguments: &["demo", "--log", "loud"],
        environment: &[],
        rights: Rights::Ours,
        says: &["'loud'"],
    },
    Case {
        name: "a folder for the demo's results",
        arguments: &["demo", "--json", "FOLDER"],
        environment: &[],
        rights: Rights::Ours,
        says: &["cannot write", "name a file"],
    },
    Case {
        name: "results where no folder is",
        arguments: &["demo", "--json", "FOLDER/none/results.json"],
        environment: &[],
        rights: Rights::Ours,
        says: &["none/results.json", "name a file"],
    },
    Case {
        name: "results of the benchmarks where no folder is",
        arguments: &["bench", "--json", "FOLDER/none/results.json"],
        environment: &[],
        rights: Rights::Ours,
        says: &["none/results.json", "name a file"],
    },
    Case {
        name: "results that may not be written",
        arguments: &["demo", "--json", "FOLDER/locked/results.json"],
        environment: &[],
        rights: Rights::WithinPermissions,
        says: &["locked/results.json", "name a file"],
    },
    Case {
        name: "a test that is not there",
        arguments: &["test", "typo"],
        environment: &[],
        rights: Rights::Ours,
        says: &["'typo'", "unit tests"],
    },
    Case {
        name: "a digest over several extents",
        arguments: &["demo", "FOLDER/two-extents.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["two-extents.toml", "2 extents", "give it one"],
    },
    Case {
        name: "a tenant of weight zero",
        arguments: &["demo", "FOLDER/no-weight.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["no-weight.toml:8", "`w` has weight 0", "give it 1 to 65535"],
    },
    Case {
        name: "a limit below one request",
        arguments: &["demo", "FOLDER/small-limit.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["small-limit.toml:8", "`w` has bandwidth of 4095", "at least 4096"],
    },
    Case {
        name: "a class above the highest",
        arguments: &["demo", "FOLDER/class-too-high.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["class-too-high.toml:8", "`urgent`", "above its highest_class `high`", "raise the other"],
    },
    Case {
        name: "rights taken that the tenant has not",
        arguments: &["demo", "FOLDER/taken-twice.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["taken-twice.toml:14", "5 blocks at block 98", "tenant `w`", "name blocks that it has"],
    },
    Case {
        name: "rights given beyond the numbering",
        arguments: &["demo", "FOLDER/given-beyond.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["given-beyond.toml:14", "1 blocks at block 100", "name blocks of its extents"],
    },
    Case {
        name: "a change for nobody",
        arguments: &["demo", "FOLDER/changes-nobody.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["changes-nobody.toml:14", "`nobody`", "name one that is"],
    },
    Case {
        name: "a class of weight zero",
        arguments: &["demo", "FOLDER/no-class-weight.toml"],
        environment: &[],
        rights: Rights::Ours,
        says: &["no-class-weight.toml", "[server] class_weights", "medium = 0", "give it 1 to 256"],
    },
];

const HEAD: &str = "name = \"t\"\ndescription = \"t\"\n";
const CONTROLLER: &str = "[[controller]]\nname = \"a\"\nqueue_pairs = 4\n[[controller.namespace]]\nsize = \"16M\"\n";

/// With an image that is written in full, larger than any disk this runs on.
const VAST_CONTROLLER: &str =
    "[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"65536G\"\ncontent = \"pattern\"\n";

const SMALL_LIMIT: &str = "bandwidth = { per_second = 4095, burst = \"64K\" }";
const HIGH_CLASS: &str = "class = \"urgent\"\nhighest_class = \"high\"";
const NO_CLASS_WEIGHT: &str = "[server]\nclass_weights = { high = 6, medium = 0, low = 1 }\n";

const TWO_EXTENTS: &str = "[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
                           extents = [{ first = 0, blocks = 8 }, { first = 8, blocks = 8 }]\n[tenant.workload.digest]\n";

fn tenant(name: &str, queue_pairs: u16, first: u64) -> String {
    tenant_with(name, queue_pairs, first, "")
}

/// With more keys.
fn tenant_with(name: &str, queue_pairs: u16, first: u64, keys: &str) -> String {
    format!(
        "[[tenant]]\nname = \"{name}\"\nqueue_pairs = {queue_pairs}\nextents = [{{ first = {first}, blocks = 100 }}]\n\
         {keys}\n[tenant.workload.bench]\n"
    )
}

/// A system whose one tenant has blocks 0 to 99, and a change.
fn change(name: &str, key: &str, first: u64, blocks: u64) -> String {
    let tenant = tenant("w", 1, 0);
    format!(
        "{HEAD}{CONTROLLER}{tenant}[[change]]\nafter_ms = 5\ntenant = \"{name}\"\n\
         {key} = [{{ first = {first}, blocks = {blocks} }}]\n"
    )
}

/// Writes the wrong inputs, and says into which folder.
pub(crate) fn prepare(project: &Project) -> Result<PathBuf> {
    let folder = project.target_folder("bad-input")?;
    let files = [
        ("unknown-key.toml", format!("{HEAD}colour = \"red\"\n{CONTROLLER}{}", tenant("w", 1, 0))),
        ("overlap.toml", format!("{HEAD}{CONTROLLER}{}{}", tenant("v", 1, 0), tenant("w", 1, 99))),
        ("empty-extent.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 0).replace("blocks = 100", "blocks = 0"))),
        ("beyond.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 32_700))),
        ("few-records.toml", format!("{HEAD}{CONTROLLER}[server]\nrecords = 3\n{}", tenant("w", 1, 0))),
        ("no-pairs.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 0, 0))),
        ("too-many.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 5, 0))),
        ("no-space.toml", format!("{HEAD}{VAST_CONTROLLER}{}", tenant("w", 1, 0))),
        ("two-extents.toml", format!("{HEAD}{CONTROLLER}{TWO_EXTENTS}")),
        ("no-weight.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, "weight = 0"))),
        ("small-limit.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, SMALL_LIMIT))),
        ("class-too-high.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, HIGH_CLASS))),
        ("no-class-weight.toml", format!("{HEAD}{NO_CLASS_WEIGHT}{CONTROLLER}{}", tenant("w", 1, 0))),
        ("taken-twice.toml", change("w", "revoke", 98, 5)),
        ("given-beyond.toml", change("w", "grant", 100, 1)),
        ("changes-nobody.toml", change("nobody", "revoke", 0, 1)),
        ("small.img", "x".repeat(1000)),
        ("locked.img", "x".repeat(1000)),
        ("read-only.img", "x".repeat(1000)),
        ("old-qemu", "#!/bin/sh\necho QEMU emulator version 5.1.0\n".to_owned()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        // An earlier one may be locked.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let locked = folder.join("locked");
    fs::create_dir_all(&locked).with_context(|| format!("cannot make {}", locked.display()))?;
    for (name, mode) in [("old-qemu", 0o755), ("locked.img", 0), ("read-only.img", 0o444), ("locked", 0o555)] {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot change the permissions of {name}"))?;
    }
    Ok(folder)
}

/// Runs the command of `case`, whose files are in `folder`, and judges what it says.
pub(crate) fn check(project: &Project, folder: &Path, case: &Case) -> Result<Counted> {
    let placed = |text: &str| text.replace("FOLDER", &folder.display().to_string());
    let before = runs(project);
    let output = command(case.rights)?
        .current_dir(project.root())
        .args(case.arguments.iter().map(|argument| placed(argument)))
        .envs(case.environment.iter().map(|(name, value)| (*name, placed(value))))
        .output()
        .context("cannot run the command")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let sentence = text.lines().find(|line| line.starts_with("error: ")).context("it says no error")?;
    ensure!(!output.status.success(), "it ends with status 0");
    ensure!(text.lines().skip_while(|line| *line != sentence).count() == 1, "it says more than one sentence: {text}");
    for word in case.says {
        ensure!(sentence.contains(word), "it does not say '{word}', but: {sentence}");
    }
    ensure!(!text.contains("panicked"), "it panics: {text}");
    ensure!(runs(project) == before, "it leaves a run's folder behind");
    Ok(Counted::one())
}

/// This program, with the rights that a case asks for: root's power over permissions is taken from it.
fn command(rights: Rights) -> Result<Command> {
    let program = std::env::current_exe().context("this program cannot be found")?;
    if rights == Rights::Ours || !rustix::process::geteuid().is_root() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    let without = "-dac_override,-dac_read_search";
    command.args(["--inh-caps", without, "--bounding-set", without]).arg(program);
    Ok(command)
}

/// Folders of runs.
fn runs(project: &Project) -> usize {
    fs::read_dir(project.path("target/runs")).map_or(0, Iterator::count)
}
