//! A run of a sweep as a line of JSON.

use crate::combinations::Combinations;
use crate::lines::Line;
use ::report::Load;
use capdl::Scenario;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use xtask::records::rates::{bytes_a_second, iops};
use xtask::records::results::Results;
use xtask::run::{options, shell_word};

/// The highest rate that a line may have; figures are drawn of it.
const MOST: f64 = 1e18;

/// A run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Record {
    /// Name of the sweep: a hash of the scenario and of all settings.
    pub(super) sweep: String,
    /// Number of the run, from 0.
    pub(super) run: u64,
    /// Runs of the whole sweep.
    pub(super) of: u64,
    /// Name of the scenario.
    pub(super) scenario: String,
    /// File of the scenario.
    pub(super) file: String,
    /// Seed of the run.
    pub(super) seed: u64,
    /// Settings of all runs, as KEY=VALUE.
    pub(super) set: Vec<String>,
    /// Values of the varied keys in all runs, as KEY=V1,V2.
    pub(super) vary: Vec<String>,
    /// The varied keys, in the order of the command.
    pub(super) varied: Vec<Varied>,
    /// Whether the run passed.
    pub(super) passed: bool,
    /// Guarantees that the kernel lacks, for one of which the run may not have passed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) not_promised: Vec<String>,
    /// Why not.
    pub(super) reasons: Vec<String>,
    /// The tenants, in the order of the scenario.
    pub(super) tenants: Vec<Tenant>,
}

/// A varied key with its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Varied {
    /// The key.
    pub(super) key: String,
    /// Number or truth value, if JSON writes it as the scenario does; else text.
    #[schemars(extend("type" = ["number", "boolean", "string"]))]
    value: Value,
}

impl Varied {
    /// The value without the quotes of JSON.
    pub(super) fn value(&self) -> String {
        self.value.as_str().map_or_else(|| self.value.to_string(), str::to_owned)
    }
}

fn plain(value: &str) -> Value {
    let parsed = serde_json::from_str(value).ok();
    parsed.filter(|value: &Value| value.is_number() || value.is_boolean()).unwrap_or_else(|| value.into())
}

/// Measurements of a tenant.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Tenant {
    /// The tenant.
    pub(super) tenant: String,
    /// Measurements; none of a tenant that measured nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) load: Option<Measured>,
}

/// Measurements of a load; times are virtual.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
pub(super) struct Measured {
    /// Requests a second.
    pub(super) iops: f64,
    /// Bytes a second.
    pub(super) bandwidth: f64,
    /// Median latency, nanoseconds.
    pub(super) p50_ns: u64,
    /// 99th percentile.
    pub(super) p99_ns: u64,
    /// 99.9th percentile.
    pub(super) p999_ns: u64,
    /// The longest.
    pub(super) max_ns: u64,
    /// Requests that failed.
    pub(super) errors: u64,
}

impl Line for Record {
    const FORMAT: &'static str = "capnvme-sweep";
    const VERSION: u32 = 2;
}

impl Record {
    /// A run that has not been made.
    pub(super) fn new(sweep: &str, run: u64, combinations: &Combinations) -> Self {
        let varied = combinations.values(run).into_iter();
        Self {
            sweep: sweep.to_owned(),
            run,
            of: combinations.count(),
            scenario: String::new(),
            file: String::new(),
            seed: 0,
            set: combinations.set().iter().map(ToString::to_string).collect(),
            vary: combinations.vary().iter().map(ToString::to_string).collect(),
            varied: varied.map(|(key, value)| Varied { key: key.to_owned(), value: plain(value) }).collect(),
            passed: false,
            not_promised: Vec::new(),
            reasons: Vec::new(),
            tenants: Vec::new(),
        }
    }

    /// Takes the results of the run.
    pub(super) fn take(&mut self, scenario: &Scenario, results: Results) {
        let tenant = |tenant: &capdl::scenario::Tenant| {
            let load = results.tenants.iter().rfind(|load| load.tenant == tenant.name.as_str());
            let load = load.map(|load| measured(load, &results));
            Tenant { tenant: tenant.name.clone(), load }
        };
        self.tenants = scenario.tenants.iter().map(tenant).collect();
        self.passed = results.passed;
        self.not_promised = results.not_promised.iter().map(ToString::to_string).collect();
        self.reasons = results.reasons;
    }

    /// Whether a sweep may have written it.
    pub(super) fn is_possible(&self) -> bool {
        let rates = self.tenants.iter().filter_map(|tenant| tenant.load.as_ref());
        self.run < self.of
            && rates.flat_map(|load| [load.iops, load.bandwidth]).all(|rate| (0.0..=MOST).contains(&rate))
    }

    /// Whether both are runs of one sweep.
    pub(super) fn is_of_one_sweep(&self, other: &Self) -> bool {
        let keys = |record: &Self| record.varied.iter().map(|one| one.key.clone()).collect::<Vec<_>>();
        self.sweep == other.sweep && self.of == other.of && keys(self) == keys(other)
    }

    /// The varied keys and their values.
    pub(super) fn pairs(&self) -> Vec<(&str, String)> {
        self.varied.iter().map(|one| (one.key.as_str(), one.value())).collect()
    }

    /// The varied keys and values, as in a command.
    pub(super) fn combination(&self) -> String {
        self.pairs().iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    /// The command that makes the run again.
    pub(super) fn command(&self) -> String {
        let varied = self.pairs().into_iter().map(|(key, value)| format!("{key}={value}"));
        let settings = self.set.iter().cloned().chain(varied);
        format!("cargo xtask sim {}{}", shell_word(&self.file), options("--set", settings))
    }

    /// The command of the whole sweep.
    pub(super) fn sweep_command(&self) -> String {
        let [set, vary] = [("--set", &self.set), ("--vary", &self.vary)].map(|(option, all)| options(option, all));
        format!("cargo xtask sweep {}{set}{vary}", shell_word(&self.file))
    }
}

fn measured(load: &Load, results: &Results) -> Measured {
    Measured {
        iops: iops(load),
        bandwidth: bytes_a_second(results, load),
        p50_ns: load.p50_ns,
        p99_ns: load.p99_ns,
        p999_ns: load.p999_ns,
        max_ns: load.max_ns,
        errors: load.errors,
    }
}
