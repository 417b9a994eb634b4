//! The results that a run of a scenario must show.

use super::guarantee::Guarantee;
use report::ResetScope;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The results that a run must show. Anything not named here must not happen: a tenant that is in none of the lists opens its
/// session, does its work, and reports that all its checks held; every attack is refused; nothing faults.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct Expect {
    /// Seconds after which a run ends as failed.
    pub timeout_seconds: u64,
    /// Components that fault, each once; they need not finish.
    pub faults: Vec<String>,
    /// How often components, clients among them, fault and are started again each time. Drivers that end with their PCI server,
    /// and are started after it, have no fault of their own. If a session was open then, its report includes what its server
    /// did since.
    pub restarts: BTreeMap<String, u16>,
    /// Milliseconds after a component's death within which it must run again, and its clients must have their sessions. On
    /// QEMU, which runs by the wall clock, five times as long is allowed.
    pub service_within_ms: Option<u64>,
    /// Tenants whose session the server ends because they broke the protocol; they need not finish.
    pub expelled: Vec<String>,
    /// Tenants that are refused a session because no queue pair is left; they need not pass.
    pub refused_sessions: Vec<String>,
    /// Controllers that are lost for good: the failure or the end of their servers, or of their policy components, must be reported.
    /// Their tenants may fail, and must come to an end.
    pub lost: Vec<String>,
    /// Tenants whose requests must end because their controller is gone; they need not pass.
    pub gone: Vec<String>,
    /// Tenants that report that they have finished and then continue without end: the run ends when the others do.
    pub unfinished: Vec<String>,
    /// Tenants that must report attacks.
    pub attackers: Vec<String>,
    /// Tenants whose work must go on until every attacker, and every component that is killed, is at its end: its last attack
    /// reported, its last fault, its expulsion.
    pub outlives: Vec<String>,
    /// By tenant, the milliseconds within which 99 of 100 of its requests must be answered. The limit is against starvation, so
    /// it is generous.
    pub latency_p99_ms: BTreeMap<String, u64>,
    /// By tenant, the same in microseconds, for simulated runs alone: there nothing but the system itself takes time.
    pub latency_p99_us: BTreeMap<String, u64>,
    /// Requirements on loads in parts of the run.
    #[serde(rename = "span")]
    pub spans: Vec<Span>,
    /// Tenants whose requests a second must be in this proportion, within 5 %, while all of them are at work.
    pub proportions: BTreeMap<String, u32>,
    /// By tenant, the queue pairs that its session must have at the end.
    pub queues: BTreeMap<String, ExpectedQueues>,
    /// The least numbers of interrupts, of all sessions and of an edu device together, by interrupt mode.
    pub interrupts: ExpectedInterrupts,
    /// Whether fairness is not judged, where the scenario shows a policy that shares work badly.
    pub unfair: bool,
    /// Whether servers may report resets of their controllers, where faults cause them.
    pub resets: bool,
    /// Parts that servers must have recreated, each at least once; implies `resets`.
    pub must_reset: Vec<ResetScope>,
    /// Whether faults of controllers and commands may change nothing, as those that a soak draws, so that no controller need be lost
    /// or be another one later. Otherwise such a run fails.
    pub faults_may_miss: bool,
    /// Tenants whose digest must equal the build machine's digest of the same bytes of the image.
    pub digests: Vec<String>,
    /// Measurements that must be reported, by name.
    pub measured: Vec<String>,
    /// Whether every block that tenants wrote is compared in the image on the build machine, after the run.
    pub compare_image: bool,
    /// Whether the root task reports every capability it installed; they must be those of the specification.
    pub report_caps: bool,
    /// Guarantees of the kernel without which the scenario shows a defect of the kernel. On a kernel that lacks one, installed or simulated, a
    /// run that does not pass has not failed: the kernel promises no more.
    pub relies_on: Vec<Guarantee>,
}

/// A requirement on a tenant's load in a part of the run. Changes are counted from 1, the earliest first.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// The tenant.
    pub tenant: String,
    /// The part begins when this change is in force; without one, when the load begins.
    #[serde(default)]
    pub after_change: Option<usize>,
    /// The part ends when this change is decided; without one, when the load ends.
    #[serde(default)]
    pub before_change: Option<usize>,
    /// Requests a second, at least.
    #[serde(default)]
    pub at_least_iops: Option<u64>,
    /// Requests a second, at most.
    #[serde(default)]
    pub at_most_iops: Option<u64>,
    /// By other tenant, the least requests a second, in percent of that tenant's.
    #[serde(default)]
    pub at_least_percent_of: BTreeMap<String, u64>,
    /// Most microseconds that a request may take, including requests that were in flight when the part began.
    #[serde(default)]
    pub latency_max_us: Option<u64>,
    /// Whether this applies to simulated runs alone, where nothing but the system itself takes time.
    #[serde(default)]
    pub simulated: bool,
}

/// Queue pairs of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields)]
pub struct ExpectedQueues {
    /// The number of queue pairs.
    pub queue_pairs: u16,
    /// Commands each of them can hold.
    pub depth: u16,
}

/// The least numbers of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema, serde::Serialize))]
#[serde(deny_unknown_fields, default)]
pub struct ExpectedInterrupts {
    /// By messages of the MSI-X table.
    pub msix: u64,
    /// By MSI.
    pub msi: u64,
    /// By the pin.
    pub intx: u64,
}

impl Expect {
    /// Whether a run is judged by wall-clock times, or by numbers that depend on them.
    #[must_use]
    pub fn is_about_time(&self) -> bool {
        let latencies = !self.latency_p99_ms.is_empty() || !self.spans.is_empty();
        let times = latencies || self.service_within_ms.is_some() || !self.proportions.is_empty();
        times || !self.measured.is_empty() || self.interrupts != ExpectedInterrupts::default()
    }

    /// Whether servers may report that they recreated something.
    #[must_use]
    pub const fn allows_resets(&self) -> bool {
        self.resets || !self.must_reset.is_empty()
    }

    /// Whether `name` is expected to attack, to be started again, or to end other than by finishing. The tenants of `outlives`
    /// outlive these.
    #[must_use]
    pub fn is_outlived(&self, name: &str) -> bool {
        let lists = [&self.attackers, &self.faults, &self.expelled, &self.unfinished];
        self.restarts.contains_key(name) || lists.into_iter().flatten().any(|one| one == name)
    }
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            timeout_seconds: 60,
            faults: Vec::new(),
            restarts: BTreeMap::new(),
            service_within_ms: None,
            expelled: Vec::new(),
            refused_sessions: Vec::new(),
            lost: Vec::new(),
            gone: Vec::new(),
            unfinished: Vec::new(),
            attackers: Vec::new(),
            outlives: Vec::new(),
            latency_p99_ms: BTreeMap::new(),
            latency_p99_us: BTreeMap::new(),
            spans: Vec::new(),
            proportions: BTreeMap::new(),
            queues: BTreeMap::new(),
            interrupts: ExpectedInterrupts::default(),
            unfair: false,
            resets: false,
            faults_may_miss: false,
            must_reset: Vec::new(),
            digests: Vec::new(),
            measured: Vec::new(),
            compare_image: false,
            report_caps: false,
            relies_on: Vec::new(),
        }
    }
}
