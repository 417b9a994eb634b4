//! An apt that only downloads: its lists, cache and sources, and an empty list of installed packages, are in a folder of its own.
//!
//! The machine's settings for proxies and certificates stay in force. Packages and lists are accepted with Debian's signature only.

use anyhow::{Context, Result, ensure};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Debian's release, whose packages are taken where the backports have none.
const RELEASE: &str = "trixie";
/// Suite of the packages.
const BACKPORTS: &str = "trixie-backports";
/// Keys of the archive. Those of Debian 12, which are in it from the start, sign Debian 13's archive too.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Files in the apt's folder.
const CONFIGURATION: &str = "apt.conf";
const SOURCES: &str = "sources.list";
const STATUS: &str = "status";
const ARCHIVES: &str = "archives";
const LISTS: &str = "lists";

/// An apt with a folder of its own.
pub(super) struct PrivateApt {
    folder: PathBuf,
    mirror: String,
    /// Option of `cargo xtask setup` that repeats this.
    option: &'static str,
}

impl PrivateApt {
    /// Makes the folder and the files in it; nothing is fetched.
    pub(super) fn new(folder: PathBuf, mirror: &str, option: &'static str) -> Result<Self> {
        ensure!(
            !folder.to_string_lossy().contains(['"', '\n']),
            "apt cannot use {}: move the project to a folder without a quotation mark in its path",
            folder.display()
        );
        let cannot = || format!("cannot write to {}", folder.display());
        for below in [ARCHIVES, LISTS] {
            fs::create_dir_all(folder.join(below).join("partial")).with_context(cannot)?;
        }
        let files = [(CONFIGURATION, configuration(&folder)), (SOURCES, sources(mirror)), (STATUS, String::new())];
        for (name, text) in files {
            fs::write(folder.join(name), text).with_context(cannot)?;
        }
        Ok(Self { folder, mirror: mirror.to_owned(), option })
    }

    /// Fetches the lists of packages.
    pub(super) fn update(&self) -> Result<()> {
        let output = self.apt_get(&["update"])?;
        ensure!(
            output.status.success(),
            "apt cannot fetch the package lists of {BACKPORTS} from {}: {}",
            self.mirror,
            with_fix(&complaint(&output), self.option)
        );
        Ok(())
    }

    /// What [`PrivateApt::download`] would fetch.
    pub(super) fn plan(&self, packages: &[&str]) -> Result<Plan<'_>> {
        let output = self.install("--print-uris", packages)?;
        let sizes = sizes(&String::from_utf8_lossy(&output.stdout));
        let (packages, download_bytes, unpacked) = sizes.with_context(|| {
            format!("{BACKPORTS} at {} has nothing to install for {}", self.mirror, packages.join(", "))
        })?;
        Ok(Plan { mirror: &self.mirror, packages, download_bytes, unpacked })
    }

    /// Fetches the packages and all that they depend on; returns the packages' files.
    pub(super) fn download(&self, packages: &[&str]) -> Result<Vec<PathBuf>> {
        self.install("--download-only", packages)?;
        let archives = self.folder.join(ARCHIVES);
        let entries = fs::read_dir(&archives).and_then(Iterator::collect::<std::io::Result<Vec<_>>>);
        let entries = entries.with_context(|| format!("cannot read {}", archives.display()))?;
        let mut files: Vec<_> = entries.iter().map(fs::DirEntry::path).collect();
        files.retain(|file| file.extension() == Some(OsStr::new("deb")));
        files.sort();
        Ok(files)
    }

    fn install(&self, mode: &str, packages: &[&str]) -> Result<Output> {
        let options = ["install", "-y", "--no-install-recommends", "-t", BACKPORTS, mode];
        let output = self.apt_get(&[&options, packages].concat())?;
        ensure!(
            output.status.success(),
            "apt cannot fetch {} from {BACKPORTS} at {}: {}",
            packages.join(", "),
            self.mirror,
            with_fix(&complaint(&output), self.option)
        );
        Ok(output)
    }

    fn apt_get(&self, arguments: &[&str]) -> Result<Output> {
        Command::new("apt-get")
            // Read after the machine's files, unlike one named in the environment.
            .arg("-c")
            .arg(self.folder.join(CONFIGURATION))
            .args(arguments)
            .env("LC_ALL", "C")
            .stdin(Stdio::null())
            .output()
            .context("cannot run apt-get: this set-up is for Debian 12 and its relatives")
    }
}

/// Text of the configuration.
///
/// The machine's hooks would delete files of the machine's cache. As root, apt would download as a user who may have no access to
/// the folder.
fn configuration(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        r#"#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear AptCli::Hooks;
#clear DPkg::Pre-Invoke;
#clear DPkg::Pre-Install-Pkgs;
#clear DPkg::Post-Invoke;
#clear APT::Architectures;
APT::Architecture "amd64";
APT::Architectures {{ "amd64"; }};
APT::Sandbox::User "root";
APT::Keep-Downloaded-Packages "true";
APT::Update::Error-Mode "any";
APT::Get::AllowUnauthenticated "false";
Acquire::AllowInsecureRepositories "false";
Acquire::AllowWeakRepositories "false";
Acquire::AllowDowngradeToInsecureRepositories "false";
Dir::State "{folder}";
Dir::State::lists "{folder}/{LISTS}";
Dir::State::status "{folder}/{STATUS}";
Dir::State::extended_states "{folder}/extended_states";
Dir::Cache "{folder}";
Dir::Cache::archives "{folder}/{ARCHIVES}";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{folder}/{SOURCES}";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::Log "{folder}";
"#
    )
}

/// Text of the sources: no other index than that of packages.
fn sources(mirror: &str) -> String {
    let line = |suite| format!("deb [arch=amd64 target=Packages signed-by={KEYRING}] {mirror} {suite} main\n");
    [RELEASE, BACKPORTS].map(line).concat()
}

/// Plan of an installation: its source and size.
pub(super) struct Plan<'a> {
    mirror: &'a str,
    packages: usize,
    download_bytes: u64,
    /// Unpacked size, as apt says it.
    unpacked: String,
}

impl fmt::Display for Plan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { mirror, packages, download_bytes, unpacked } = self;
        let tenths = download_bytes / 100_000;
        let (whole, tenths) = (tenths / 10, tenths % 10);
        write!(f, "{BACKPORTS} at {mirror}: {packages} packages, {whole}.{tenths} MB to download, {unpacked} unpacked")
    }
}

/// Number of packages, bytes to download and unpacked size in the output of `apt-get install --print-uris`: a line
/// `'address' file bytes digest` for each package, after a text.
fn sizes(text: &str) -> Option<(usize, u64, String)> {
    let bytes = |line: &str| line.strip_prefix('\'')?.split(' ').nth(2)?.parse::<u64>().ok();
    let sizes: Vec<_> = text.lines().filter_map(bytes).collect();
    let unpacked =
        text.lines().find_map(|line| line.strip_prefix("After this operation, ")?.split_once(" of additional"));
    let (unpacked, _) = unpacked?;
    (!sizes.is_empty()).then(|| (sizes.len(), sizes.iter().sum(), unpacked.to_owned()))
}

/// apt's first error; the later ones follow from it.
fn complaint(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let error = text.lines().find_map(|line| line.strip_prefix("E: "));
    error.unwrap_or("apt-get said nothing").trim().to_owned()
}

fn with_fix(complaint: &str, option: &str) -> String {
    let lacks_key = ["NO_PUBKEY", "Missing key", "not signed"].iter().any(|text| complaint.contains(text));
    let fix = if lacks_key {
        "install the archive's keys with: sudo apt-get install debian-archive-keyring".to_owned()
    } else {
        format!("fix that and run cargo xtask setup {option} again")
    };
    format!("{complaint}; {fix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_folder_of_the_configuration_is_apts_own() {
        let text = configuration(Path::new("/a b"));
        for line in text.lines().filter(|line| line.starts_with("Dir::")) {
            let (_, value) = line.split_once(' ').unwrap();
            let own = ["\"/a b\";", "\"/dev/null\";", "\"\";"].contains(&value) || value.starts_with("\"/a b/");
            assert!(own, "{line}");
        }
        assert!(text.contains("\nAPT::Architectures { \"amd64\"; };\n"), "{text}");
    }

    #[test]
    fn both_suites_come_from_the_mirror_with_debians_key() {
        let text = sources("http://m/debian");
        let expected = "deb [arch=amd64 target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
                        http://m/debian trixie main\n";
        assert!(text.starts_with(expected) && text.ends_with(" http://m/debian trixie-backports main\n"), "{text}");
        assert_eq!(text.lines().count(), 2);
    }

    #[test]
    fn the_folder_holds_what_apt_needs() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("apt");
        PrivateApt::new(folder.clone(), "http://m/debian", "--with-t").unwrap();
        assert!(folder.join("lists/partial").is_dir() && folder.join("archives/partial").is_dir());
        assert_eq!(fs::read(folder.join(STATUS)).unwrap(), b"");
        let error = PrivateApt::new(place.path().join("\""), "http://m/debian", "--with-t").err().unwrap().to_string();
        assert!(error.ends_with("without a quotation mark in its path"), "{error}");
    }

    #[test]
    fn the_packages_sizes_are_added() {
        let text = "Reading package lists...\n\
                    0 upgraded, 2 newly installed, 0 to remove and 0 not upgraded.\n\
                    Need to get 13.3 MB of archives.\n\
                    After this operation, 179 MB of additional disk space will be used.\n\
                    'http://m/pool/libc6_2.41-12_amd64.deb' libc6_2.41-12_amd64.deb 2850108 MD5Sum:3cf6\n\
                    'http://m/pool/qemu-system-x86_11.1.3_amd64.deb' qemu-system-x86_1%3a11.1.3_amd64.deb 10377056 \n";
        assert_eq!(sizes(text), Some((2, 13_227_164, "179 MB".to_owned())));
        assert_eq!(sizes("Reading package lists...\n"), None);
    }

    #[test]
    fn the_plan_is_one_line_with_all_sizes() {
        let unpacked = "179 MB".to_owned();
        let plan = Plan { mirror: "http://m/debian", packages: 90, download_bytes: 37_949_999, unpacked };
        assert_eq!(
            plan.to_string(),
            "trixie-backports at http://m/debian: 90 packages, 37.9 MB to download, 179 MB unpacked"
        );
    }

    #[test]
    fn a_missing_key_gets_its_own_fix() {
        let text = with_fix(
            "Failed to fetch X  The following signatures couldn't be verified: NO_PUBKEY 6ED0E7B82643E131",
            "--with-vfio-user",
        );
        assert!(
            text.ends_with("; install the archive's keys with: sudo apt-get install debian-archive-keyring"),
            "{text}"
        );
        let text = with_fix("Failed to fetch X  Connection refused", "--with-vfio-user");
        assert!(text.ends_with("; fix that and run cargo xtask setup --with-vfio-user again"), "{text}");
    }
}
