//! The Debian packages that the project needs: their list, a check for missing ones, and their installation.

use crate::progress::Step;
use anyhow::{Context, Result, bail, ensure};
use std::process::{Command, Output, Stdio};

/// Packages beyond the kernel's own list: QEMU's firmware, the C library's headers for the instruction counter, Valgrind for the
/// instructions of a lookup, the compiler of the fuzzers' engine, and a reader of FAT images.
const MORE: &[&str] = &["seabios", "libc6-dev", "valgrind", "g++", "mtools"];

/// Every package once, sorted.
pub(crate) fn all() -> Vec<&'static str> {
    let mut all: Vec<_> = kernel::PACKAGES.iter().chain(MORE).copied().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Consent to the installation of packages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Consent {
    /// The user passed `--yes`.
    Given,
    /// The user was not asked.
    NotAsked,
}

/// Installs the missing packages, if allowed.
///
/// Fails with the command to type if it is not allowed, and with apt's own message if the installation fails.
pub(crate) fn ensure_installed(consent: Consent) -> Result<()> {
    let missing = missing()?;
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

/// Packages that are not installed.
fn missing() -> Result<Vec<&'static str>> {
    let all = all();
    let output = Command::new("dpkg-query")
        .args(["-W", "-f", "${Package} ${db:Status-Status}\n"])
        .args(&all)
        .stderr(Stdio::null())
        .output()
        .context("cannot run dpkg-query: this set-up is for Debian 12 and its relatives")?;
    Ok(not_in(&all, &String::from_utf8_lossy(&output.stdout)))
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
        "Debian packages are missing; install them with: sudo apt-get install {} (or let `cargo xtask setup --yes` \
         do it)",
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
    fn the_list_holds_the_kernels_packages_once_each() {
        let all = all();
        assert!(kernel::PACKAGES.iter().all(|package| all.contains(package)));
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
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
             (or let `cargo xtask setup --yes` do it)"
        );
    }
}
