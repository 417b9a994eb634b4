//! Scenario files: a machine, its controllers, its tenants, what they do and what a run must show.
//!
//! One TOML file a scenario, in `scenarios/`. [`Scenario::load`] reads and checks one; what it accepts can be built. Keys
//! nobody knows, and numbers that contradict each other, are refused with one sentence that names the place and the
//! mend. Not here: how a controller is put into QEMU (`xtask`), and what a run showed.

mod bytes;
mod validate;

use blk_api::config::{Class, Completion};
use blk_api::extent::Extent;
use serde::Deserialize;
use std::path::Path;
use toml::Spanned;
use workload::Workload;

/// The largest number of copies of a tenant.
pub const MAX_COPIES: u16 = 256;
/// Priority of tenants that name none.
pub const TENANT_PRIORITY: u8 = 100;
/// Priority of NVMe servers unless the scenario names another.
pub const SERVER_PRIORITY: u8 = 120;
/// Priority of the PCI server.
pub const PCI_SERVER_PRIORITY: u8 = 150;
/// Priority of the console unless the scenario names another: it runs when the others sleep.
pub const CONSOLE_PRIORITY: u8 = 1;

/// A checked scenario. Tenants with `copies` are already so many tenants.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// What it shows, one sentence.
    pub description: String,
    /// The machine.
    pub machine: Machine,
    /// The NVMe controllers, in the order of the root bus: see [`Controller`].
    pub controllers: Vec<Controller>,
    /// The tenants.
    pub tenants: Vec<Tenant>,
    /// What holds for every NVMe server.
    pub server: Server,
    /// The console.
    pub console: Console,
    /// What a run must show.
    pub expect: Expect,
}

/// The machine.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Machine {
    /// Bytes of its memory.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub memory: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self { memory: 256 << 20 }
    }
}

/// An NVMe controller. Whoever puts it into a machine gives controllers, or what they are attached to, ascending device
/// numbers on the root bus: the PCI server finds number i in its walk where the scenario has it.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Its name, unique.
    pub name: String,
    /// Its serial number, up to 20 characters; its name when empty.
    #[serde(default)]
    pub serial: String,
    /// Where it sits.
    #[serde(default)]
    pub attach: Attach,
    /// I/O queue pairs it has.
    #[serde(default = "default_controller_queue_pairs")]
    pub queue_pairs: u16,
    /// How its server asks for interrupts.
    #[serde(default)]
    pub interrupts: Interrupts,
    /// Its namespaces; the first has id 1.
    #[serde(rename = "namespace")]
    pub namespaces: Vec<Namespace>,
}

const fn default_controller_queue_pairs() -> u16 {
    64
}

/// Where a controller sits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// On the root bus.
    Root,
    /// Behind a PCI Express root port.
    #[default]
    RootPort,
    /// Behind a PCI Express switch (an upstream and a downstream port) behind a root port.
    Switch,
    /// Behind a conventional PCI bridge: its requests carry the bridge's id.
    Bridge,
}

/// How interrupts are delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interrupts {
    /// One message per queue pair.
    #[default]
    Msix,
    /// The interrupt pin, for all.
    Intx,
}

/// A namespace.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Namespace {
    /// Bytes: a number, or one with `K`, `M` or `G`.
    #[serde(deserialize_with = "bytes::deserialize")]
    pub size: u64,
    /// Bytes a block: 512 or 4096.
    #[serde(default = "default_block_bytes")]
    pub block_bytes: u32,
    /// What stores its blocks.
    #[serde(default)]
    pub backend: Backend,
    /// What its blocks hold at first.
    #[serde(default)]
    pub content: Content,
    /// Blocks whose reads fail with a media error.
    #[serde(default)]
    pub media_errors: Vec<u64>,
}

const fn default_block_bytes() -> u32 {
    512
}

impl Namespace {
    /// Blocks it has.
    #[must_use]
    pub const fn blocks(&self) -> u64 {
        match self.size.checked_div(self.block_bytes as u64) {
            Some(blocks) => blocks,
            None => 0,
        }
    }
}

/// What stores a namespace.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// A raw image file on the build machine.
    #[default]
    File,
    /// Nothing: writes are forgotten, reads give zeroes.
    Null,
}

/// What a file holds before the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Zeroes.
    #[default]
    Zeroes,
    /// Bytes that differ from place to place, the same in every run.
    Pattern,
}

/// A tenant: one client component with one session.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tenant {
    /// Its name, unique; also its component's.
    pub name: String,
    /// The controller it has its session at; may be left out when there is one.
    #[serde(default)]
    pub controller: String,
    /// The namespace's id.
    #[serde(default = "default_namespace")]
    pub namespace: u32,
    /// Its priority class.
    #[serde(default = "default_class")]
    pub class: Class,
    /// Hardware queue pairs of its own.
    #[serde(default)]
    pub queue_pairs: u16,
    /// Commands each of them may hold.
    #[serde(default = "default_depth")]
    pub depth: u16,
    /// Its blocks, in the order of its own numbering.
    #[serde(default)]
    pub extents: Vec<Extent>,
    /// Whether it may write.
    #[serde(default = "default_writable")]
    pub writable: bool,
    /// Bytes of its window.
    #[serde(default = "default_window", deserialize_with = "bytes::deserialize")]
    pub window: u64,
    /// Entries of its rings, a power of two.
    #[serde(default = "default_ring_entries")]
    pub ring_entries: u32,
    /// How completions are noticed, by the server and by the client.
    #[serde(default = "default_completion")]
    pub completion: Completion,
    /// Scheduling priority of its component.
    #[serde(default = "default_priority")]
    pub priority: u8,
    /// So many tenants like this one, named `name-0`, `name-1`, …, each with the extents after the last one's and a seed
    /// of its own; 0 for this one alone. Always 0 in a loaded scenario.
    #[serde(default)]
    pub copies: u16,
    /// What it does.
    pub workload: Workload,
}

const fn default_namespace() -> u32 {
    1
}
const fn default_class() -> Class {
    Class::Medium
}
const fn default_depth() -> u16 {
    32
}
const fn default_writable() -> bool {
    true
}
const fn default_window() -> u64 {
    1 << 20
}
const fn default_ring_entries() -> u32 {
    64
}
const fn default_completion() -> Completion {
    Completion::Interrupt
}
const fn default_priority() -> u8 {
    TENANT_PRIORITY
}

impl Tenant {
    /// Its blocks, all extents together.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.extents.iter().fold(0, |sum, extent| sum.saturating_add(extent.blocks))
    }
}

/// What holds for every NVMe server.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// Its scheduling priority.
    pub priority: u8,
}

impl Default for Server {
    fn default() -> Self {
        Self { priority: SERVER_PRIORITY }
    }
}

/// The console.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Console {
    /// Its scheduling priority.
    pub priority: u8,
}

impl Default for Console {
    fn default() -> Self {
        Self { priority: CONSOLE_PRIORITY }
    }
}

/// What a run must show. Whatever is not named here must not happen: a tenant that is in none of the lists opens its
/// session, does its work, and reports that all it checked held; every attack is refused; nothing faults.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Seconds until a run is ended as failed.
    pub timeout_seconds: u64,
    /// Components that fault, each once; they need not finish.
    pub faults: Vec<String>,
    /// Tenants whose session the server ends because they broke the protocol; they need not finish.
    pub expelled: Vec<String>,
    /// Tenants that are told there is no queue pair left; they need not pass.
    pub refused_sessions: Vec<String>,
    /// Tenants that never finish: the run is over when the others are.
    pub unfinished: Vec<String>,
    /// Tenants that must report attacks.
    pub attackers: Vec<String>,
    /// Tenants whose digest must be the one the build machine computes over the same bytes of the image.
    pub digests: Vec<String>,
    /// Measurements that must be reported, by name.
    pub measured: Vec<String>,
    /// After the run, every block that tenants wrote is compared in the image on the build machine.
    pub compare_image: bool,
    /// The root task reports every capability it installed, and they are those of the specification.
    pub report_caps: bool,
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            timeout_seconds: 60,
            faults: Vec::new(),
            expelled: Vec::new(),
            refused_sessions: Vec::new(),
            unfinished: Vec::new(),
            attackers: Vec::new(),
            digests: Vec::new(),
            measured: Vec::new(),
            compare_image: false,
            report_caps: false,
        }
    }
}

/// A scenario that is refused: where, and one sentence with the mend.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{file}{}: {message}", .line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct ScenarioError {
    /// The file, or the name it was given.
    pub file: String,
    /// The line, from 1, where one is to blame.
    pub line: Option<usize>,
    /// One sentence.
    pub message: String,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    #[serde(default)]
    machine: Machine,
    #[serde(rename = "controller", default)]
    controllers: Vec<Spanned<Controller>>,
    #[serde(rename = "tenant", default)]
    tenants: Vec<Spanned<Tenant>>,
    #[serde(default)]
    server: Server,
    #[serde(default)]
    console: Console,
    #[serde(default)]
    expect: Expect,
}

/// The lines of controllers and tenants, for errors.
struct Lines {
    controllers: Vec<usize>,
    tenants: Vec<usize>,
}

impl Scenario {
    /// The scenario in the file at `path`.
    ///
    /// # Errors
    /// [`ScenarioError`] for a file that cannot be read, is not a scenario, or contradicts itself.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, ScenarioError> {
        let path = path.as_ref();
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| ScenarioError {
            file: file.clone(),
            line: None,
            message: format!("cannot be read ({error}): name a scenario file that exists"),
        })?;
        Self::parse(&text, &file)
    }

    /// The scenario in `text`, called `file` in errors.
    ///
    /// # Errors
    /// As [`Scenario::load`].
    pub fn parse(text: &str, file: &str) -> Result<Self, ScenarioError> {
        let parsed: File = toml::from_str(text).map_err(|error| ScenarioError {
            file: file.into(),
            line: error.span().map(|span| line_of(text, span.start)),
            message: error.message().replace('\n', ", "),
        })?;
        let (scenario, lines) = from_file(parsed, text);
        validate::validate(&scenario, &lines).map_err(|refusal| ScenarioError {
            file: file.into(),
            line: refusal.line,
            message: refusal.message,
        })?;
        Ok(scenario)
    }

    /// The controller with this name, and its number.
    #[must_use]
    pub fn controller(&self, name: &str) -> Option<(usize, &Controller)> {
        self.controllers.iter().enumerate().find(|(_, controller)| controller.name == name)
    }

    /// The namespace a tenant has its blocks on.
    #[must_use]
    pub fn namespace(&self, tenant: &Tenant) -> Option<&Namespace> {
        let (_, controller) = self.controller(&tenant.controller)?;
        controller.namespaces.get((tenant.namespace as usize).checked_sub(1)?)
    }

    /// The tenants of a controller, in the order of their sessions.
    pub fn sessions<'a>(&'a self, controller: &'a str) -> impl Iterator<Item = &'a Tenant> {
        self.tenants.iter().filter(move |tenant| tenant.controller == controller)
    }

    /// The programs its system is made of, by name.
    #[must_use]
    pub fn programs(&self) -> Vec<&'static str> {
        let mut programs = vec!["console", "pci-server", "nvme-server"];
        for tenant in &self.tenants {
            let program = crate::build::program_of(&tenant.workload);
            if !programs.contains(&program) {
                programs.push(program);
            }
        }
        programs
    }

    /// The component that serves the controller with this name.
    #[must_use]
    pub fn server_name(&self, controller: &str) -> String {
        if self.controllers.len() > 1 { format!("nvme-server-{controller}") } else { "nvme-server".into() }
    }
}

fn from_file(file: File, text: &str) -> (Scenario, Lines) {
    let only_controller = match file.controllers.as_slice() {
        [only] => only.get_ref().name.clone(),
        _ => String::new(),
    };
    let mut lines = Lines { controllers: Vec::new(), tenants: Vec::new() };
    let mut controllers = Vec::new();
    for spanned in file.controllers {
        lines.controllers.push(line_of(text, spanned.span().start));
        let mut controller = spanned.into_inner();
        if controller.serial.is_empty() {
            controller.serial.clone_from(&controller.name);
        }
        controllers.push(controller);
    }
    let mut tenants = Vec::new();
    for spanned in file.tenants {
        let line = line_of(text, spanned.span().start);
        let mut tenant = spanned.into_inner();
        if tenant.controller.is_empty() {
            tenant.controller.clone_from(&only_controller);
        }
        copy(tenant, &mut tenants);
        lines.tenants.resize(tenants.len(), line);
    }
    let File { name, description, machine, server, console, expect, .. } = file;
    (Scenario { name, description, machine, controllers, tenants, server, console, expect }, lines)
}

/// Appends `tenant`, or its copies, to `tenants`.
fn copy(tenant: Tenant, tenants: &mut Vec<Tenant>) {
    if tenant.copies == 0 || tenant.copies > MAX_COPIES {
        tenants.push(tenant);
        return;
    }
    let first = tenant.extents.iter().map(|extent| extent.first).min().unwrap_or(0);
    let end = tenant.extents.iter().filter_map(|extent| extent.end()).max().unwrap_or(0);
    let stride = end.saturating_sub(first);
    for number in 0..u64::from(tenant.copies) {
        let mut one = tenant.clone();
        one.copies = 0;
        one.name = format!("{}-{number}", tenant.name);
        for extent in &mut one.extents {
            extent.first = extent.first.saturating_add(stride.saturating_mul(number));
        }
        if let Workload::Bench(bench) = &mut one.workload {
            bench.seed = bench.seed.wrapping_add(number);
        }
        tenants.push(one);
    }
}

/// The line, from 1, of the byte at `offset`.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count().saturating_add(1)
}

#[cfg(test)]
mod tests;
