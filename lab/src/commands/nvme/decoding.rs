//! Our decoder ([`crate::fields`]) beside nvme-cli's, on drawn structures: each value that nvme-cli prints as JSON must be ours, and each
//! of our fields must be one that it prints.

use super::answers::{Drawn, Last, Tapped};
use super::rows::{Bench, first, text};
use crate::commands::counted::Counted;
use crate::fields::{CONTROLLER, NAMESPACE, SMART, Structure, Value};
use crate::nvme_cli::program::NvmeCli;
use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};

/// Structures that are drawn, of all kinds together.
const DRAWS: u64 = 180;
/// Environment variable with another number.
const DRAWS_VARIABLE: &str = "CAPNVME_DRAWS";

/// A structure that a subcommand prints.
struct Printed {
    line: &'static str,
    structure: &'static Structure,
    /// Names of nvme-cli that differ from ours.
    names: &'static [(&'static str, &'static str)],
    /// Our fields that nvme-cli does not print.
    not_printed: &'static [&'static str],
}

const PRINTED: [Printed; 3] = [
    Printed {
        line: "id-ctrl /dev/nvme0 -o json",
        structure: &CONTROLLER,
        names: &[
            ("psds", "psd"),
            ("max_power", "mp"),
            ("entry_lat", "enlat"),
            ("exit_lat", "exlat"),
            ("read_tput", "rrt"),
            ("read_lat", "rrl"),
            ("write_tput", "rwt"),
            ("write_lat", "rwl"),
            ("idle_power", "idlp"),
            ("idle_scale", "ips.scale"),
            ("active_power", "actp"),
            ("active_power_work", "apws.workload"),
            ("active_scale", "apws.scale"),
        ],
        not_printed: &["vendor"],
    },
    Printed {
        line: "id-ns /dev/nvme0n1 -o json",
        structure: &NAMESPACE,
        names: &[("lbafs", "lbaf"), ("ds", "lbads")],
        not_printed: &["vendor"],
    },
    Printed {
        line: "smart-log /dev/nvme0 -o json",
        structure: &SMART,
        names: &[
            ("temperature", "composite_temperature"),
            ("avail_spare", "available_spare"),
            ("spare_thresh", "available_spare_threshold"),
            ("percent_used", "percentage_used"),
            ("endurance_grp_critical_warning_summary", "endurance_group_warning"),
            ("host_read_commands", "host_reads"),
            ("host_write_commands", "host_writes"),
            ("controller_busy_time", "controller_busy_minutes"),
            ("num_err_log_entries", "error_log_entries"),
            ("warning_temp_time", "warning_temperature_minutes"),
            ("critical_comp_time", "critical_temperature_minutes"),
            ("thm_temp1_trans_count", "thermal_1_transitions"),
            ("thm_temp2_trans_count", "thermal_2_transitions"),
            ("thm_temp1_total_time", "thermal_1_seconds"),
            ("thm_temp2_total_time", "thermal_2_seconds"),
        ],
        not_printed: &[],
    },
];

/// Runs the comparison.
pub(super) fn check(nvme: &NvmeCli) -> Result<Counted> {
    let draws = std::env::var(DRAWS_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(DRAWS);
    let mut counted = Counted::default();
    for (seed, printed) in (1..).zip(&PRINTED) {
        let last = Last::default();
        let far = Tapped { far: Box::new(Drawn(seed)), last: last.clone() };
        let bench = Bench::new(nvme, Box::new(far))?;
        let mut met = BTreeSet::new();
        let mut ours = BTreeSet::new();
        for draw in 0..draws.div_ceil(PRINTED.len() as u64) {
            let output = bench.run(printed.line)?;
            ensure!(output.status.success(), "nvme {} fails: {}", printed.line, first(&text(&output)));
            let json: Json = serde_json::from_slice(&output.stdout)
                .with_context(|| format!("nvme {} prints no JSON, at draw {draw}", printed.line))?;
            let values = printed.structure.decode(&last.bytes());
            let wrong = printed.compare(&json, &values, &mut met);
            ours.extend(values.into_keys().filter(|name| !name.starts_with("unknown-")));
            counted.passed += u64::from(wrong.is_empty());
            counted
                .failed
                .extend(wrong.into_iter().map(|wrong| format!("nvme {}, draw {draw}: {wrong}", printed.line)));
        }
        let unmet: Vec<_> =
            ours.difference(&met).filter(|name| !printed.not_printed.contains(&name.as_str())).collect();
        ensure!(unmet.is_empty(), "nvme {} prints nothing of {unmet:?}", printed.line);
    }
    Ok(counted)
}

impl Printed {
    /// Compares what nvme-cli printed with our values; notes the names of ours that it printed. Returns what differs.
    fn compare(&self, json: &Json, values: &BTreeMap<String, Value>, met: &mut BTreeSet<String>) -> Vec<String> {
        let mut printed = Vec::new();
        flatten(json, "", &mut printed);
        let mut wrong = Vec::new();
        for (path, shown) in printed {
            let name = path.split('.').map(|part| self.ours(part)).collect::<Vec<_>>().join(".");
            let (whole, agrees) = match values.get(&name) {
                Some(value) => (name.as_str(), is_same(value, shown)),
                // Some bits of a value.
                None => {
                    let (whole, bits) = name.rsplit_once('.').unwrap_or((&name, ""));
                    (
                        whole,
                        values
                            .get(whole)
                            .and_then(|value| named(value, bits))
                            .is_some_and(|bits| is_number(bits, shown)),
                    )
                }
            };
            if !agrees {
                wrong.push(format!("{path} is {shown}, and our {name} {:?}", values.get(whole)));
            }
            met.insert(whole.to_owned());
        }
        wrong
    }

    /// Our name of a part of a path: all of it, or what stands before the number of an element.
    fn ours(&self, part: &str) -> String {
        let of = |name: &str| self.names.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
        let stem = part.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = part.strip_prefix(stem).unwrap_or_default();
        of(part).map_or_else(|| format!("{}{number}", of(stem).unwrap_or(stem)), str::to_owned)
    }
}

/// The values of JSON by path, as in `psds3.max_power`.
fn flatten<'a>(json: &'a Json, path: &str, into: &mut Vec<(String, &'a Json)>) {
    match json {
        Json::Object(object) => {
            let dot = if path.is_empty() { "" } else { "." };
            object.iter().for_each(|(key, value)| flatten(value, &format!("{path}{dot}{key}"), into));
        }
        Json::Array(elements) => {
            elements.iter().enumerate().for_each(|(index, value)| flatten(value, &format!("{path}{index}"), into));
        }
        value => into.push((path.to_owned(), value)),
    }
}

fn is_same(value: &Value, shown: &Json) -> bool {
    match (value, shown.as_str()) {
        (Value::Text(text), Some(shown)) => text == shown.trim_end_matches(' '),
        (Value::Hex(digits), Some(shown)) => *digits == shown.replace('-', ""),
        (value, _) => value.number().is_some_and(|number| is_number(number, shown)),
    }
}

/// Whether JSON has this number. nvme-cli writes those of 128 bits as text, and takes most of 32 bits for signed ones.
fn is_number(number: u128, shown: &Json) -> bool {
    let signed = || u32::try_from(number).is_ok_and(|number| shown.as_i64() == Some(number.cast_signed().into()));
    number.to_string() == shown.as_str().map_or_else(|| shown.to_string(), str::to_owned) || signed()
}

fn named(value: &Value, bits: &str) -> Option<u128> {
    match value {
        Value::Bits { named, .. } => named.iter().find(|(name, _)| *name == bits).map(|(_, value)| *value),
        _ => None,
    }
}
