//! The Debian packages that the project needs: their list, a check for missing ones, and their installation.

use crate::progress::Step;
use anyhow::{Context, Result, bail, ensure};
use kernel::Arch;
use std::collections::BTreeSet;
use std::process::{Command, Output, Stdio};

/// The C library's headers, for the instruction counter.
const COUNTER: &str = "libc6-dev";
/// Valgrind for the instructions of a lookup, the compiler of the fuzzers' engine, a reader of FAT images, and readers of traces.
const TESTS: &[&str] = &["valgrind", "g++", "mtools", "blktrace"];
/// A judge of controllers, which starts services of its own where it is installed.
const NVME_CLI: &[&str] = &["nvme-cli"];
/// A browser and Prometheus, the judges of the page of a running system and of its metrics. The latter starts a service where it is
/// installed.
const BROWSER: &[&str] = &["chromium", "prometheus"];
/// Slurm on one node, and GNU parallel.
const SCHEDULERS: &[&str] = &["parallel", "slurm-client", "slurm-wlm-basic-plugins", "slurmctld", "slurmd"];

/// The part of the project that a command uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// Systems on QEMU's machine of one architecture.
    Machine(Arch),
    /// The whole project: the tests.
    Everything,
    /// Parts of a soak on several machines.
    Schedulers,
    /// The command `nvme`, and its tests.
    NvmeCli,
    /// The tests of the page of a running system.
    Browser,
}

impl Use {
    /// The architectures of its machines.
    pub fn architectures(self) -> Vec<Arch> {
        match self {
            Self::Machine(arch) => vec![arch],
            Self::Everything => Arch::ALL.to_vec(),
            Self::Schedulers | Self::NvmeCli | Self::Browser => Vec::new(),
        }
    }

    /// The Debian packages that this part needs, each once, sorted.
    pub fn packages(self) -> Vec<&'static str> {
        let others = match self {
            Self::Machine(_) => &[COUNTER][..],
            Self::Everything => &[&[COUNTER], TESTS].concat(),
            Self::Schedulers => SCHEDULERS,
            Self::NvmeCli => NVME_CLI,
            Self::Browser => BROWSER,
        };
        let machines = self.architectures().into_iter().flat_map(kernel::packages);
        let all: BTreeSet<_> = machines.chain(others.iter().copied()).collect();
        all.into_iter().collect()
    }
}

/// Consent to the installation of packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Consent {
    /// The user passed `--yes`.
    Given,
    /// The user was not asked.
    NotAsked,
}

/// Installs the missing packages of `used`, if allowed.
///
/// Fails with the command to type if it is not allowed, and with apt's own message if the installation fails.
pub(crate) fn ensure_installed(consent: Consent, used: Use) -> Result<()> {
    let missing = missing(&used.packages())?;
    if missing.is_empty() {
        return Ok(());
    }
    let prefix: &[&str] = match (is_root(), consent) {
        (true, _) => &[],
        (false, Consent::Given) => &["sudo"],
        (false, Consent::NotAsked) => bail!(sentence(&missing)),
    };
    let step = Step::new(format!("installing {}", missing.join(", ")));
    let install: Vec<&str> = prefix
        .iter()
        .chain(&["apt-get", "install", "-y", "--no-install-recommends"])
        .chain(&missing)
        .copied()
        .collect();
    if apt(&install)?.status.success() {
        return Ok(());
    }
    // A machine without recent package lists may not know the packages.
    step.say("fetching the package lists");
    let update: Vec<&str> = prefix.iter().chain(&["apt-get", "update"]).copied().collect();
    apt(&update)?;
    let output = apt(&install)?;
    ensure!(
        output.status.success(),
        "installing packages failed: {}; {}",
        last_line(&output.stderr),
        sentence(&missing)
    );
    Ok(())
}

/// Packages of these that are not installed.
fn missing<'a>(wanted: &[&'a str]) -> Result<Vec<&'a str>> {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(wanted)
        .stderr(Stdio::null())
        .output()
        .context("cannot run dpkg-query: this set-up is for Debian 12 and its relatives")?;
    Ok(not_in(wanted, &String::from_utf8_lossy(&output.stdout)))
}

/// Packages of `wanted` that dpkg's answer does not report as installed.
fn not_in<'a>(wanted: &[&'a str], answer: &str) -> Vec<&'a str> {
    let is_there = |package: &str| {
        answer.lines().filter_map(|line| line.split_once(' ')).any(|(name, status)| {
            let name = name.split(':').next().unwrap_or(name);
            name == package && status == "installed"
        })
    };
    wanted.iter().copied().filter(|package| !is_there(package)).collect()
}

fn sentence(missing: &[&str]) -> String {
    format!(
        "Debian packages are missing; install them with: sudo apt-get install {} (or give --yes)",
        missing.join(" ")
    )
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn apt(words: &[&str]) -> Result<Output> {
    let (program, arguments) = words.split_first().context("no command")?;
    Command::new(program)
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .with_context(|| format!("cannot run {program}; as root, run: {}", words.join(" ")))
}

fn last_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text).lines().last().unwrap_or("apt-get said nothing").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_needs_nothing_of_the_other_architecture_and_of_the_tests() {
        let [x86, arm, all] =
            [Use::Machine(Arch::X86_64), Use::Machine(Arch::Aarch64), Use::Everything].map(Use::packages);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(x86.iter().chain(&arm).chain(TESTS).all(|package| all.contains(package)));
        assert!(!x86.iter().any(|package| package.contains("aarch64") || package.contains("arm")), "{x86:?}");
        assert!(!x86.iter().chain(&arm).any(|package| TESTS.contains(package)));
        assert_eq!(Use::Schedulers.packages(), SCHEDULERS);
        assert_eq!(Use::NvmeCli.packages(), NVME_CLI);
        assert_eq!(Use::Browser.packages(), BROWSER);
        let optional = [SCHEDULERS, NVME_CLI, BROWSER].concat();
        assert!(!all.iter().any(|package| optional.contains(package)));
    }

    #[test]
    fn a_package_that_was_removed_or_never_known_is_missing() {
        let answer = "gcc installed\nmake config-files\nlibc6-dev:amd64 installed\n";
        assert_eq!(not_in(&["gcc", "make", "python3", "libc6-dev"], answer), ["make", "python3"]);
    }

    #[test]
    fn the_message_holds_the_exact_command() {
        assert_eq!(
            sentence(&["make", "python3"]),
            "Debian packages are missing; install them with: sudo apt-get install make python3 \
             (or give --yes)"
        );
    }
}
