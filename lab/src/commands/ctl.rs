//! `cargo xtask ctl`: what a script asks of a running system.

use crate::live::Live;
use crate::live::operator::{blocks, share_change};
use crate::live::tenant::Tenant;
use crate::live::{metrics, tenant};
use anyhow::Result;
use blk_api::extent::{Blocks, Extent};
use clap::{Args, Subcommand};
use control_api::{Act, Request};
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use xtask::out;
use xtask::project::Project;
use xtask::telemetry::requests::Requests;
use xtask::telemetry::saved;

/// The longest wait for the next statistics, for a machine that is slow or simulated slowly.
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// Number of the form of the JSON.
const FORMAT: u32 = 1;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct Ctl {
    /// The run: the newest that goes on of this scenario; of any without it
    #[arg(long, value_name = "SCENARIO", global = true)]
    run: Option<String>,
    #[command(subcommand)]
    asked: Asked,
}

#[derive(Debug, Subcommand)]
enum Asked {
    /// Print the tenants with their rates and latencies
    Tenants {
        /// Print JSON
        #[arg(long)]
        json: bool,
        /// Seconds over which rates and latencies are taken
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
        seconds: u64,
    },
    /// Print all statistics in OpenMetrics
    Metrics,
    /// Save traces of single requests
    Trace {
        #[command(subcommand)]
        trace: Trace,
    },
    /// Change a tenant's share: its class, weight, limits or queue pairs
    Set {
        /// The tenant
        tenant: String,
        /// The values: class=high, weight=2, iops=A/B for A a second and B at once, iops=none, bandwidth=A/B, queue-pairs=2, depth=8
        #[arg(required = true, value_name = "KEY=VALUE")]
        values: Vec<String>,
    },
    /// Take a tenant's rights to blocks of its namespace
    Revoke {
        /// The tenant
        tenant: String,
        /// The blocks, as 131200+128
        #[arg(value_name = "FIRST+COUNT")]
        blocks: String,
    },
    /// Give a tenant rights to blocks of its namespace that it numbers
    Grant {
        /// The tenant
        tenant: String,
        /// The blocks, as 131200+128
        #[arg(value_name = "FIRST+COUNT")]
        blocks: String,
        /// Not to write
        #[arg(long)]
        read_only: bool,
    },
    /// Stop a component as if it had faulted; it is restarted as its scenario says
    Kill {
        /// The component
        component: String,
    },
    /// Suspend a tenant's client
    Pause {
        /// The tenant
        tenant: String,
    },
    /// Let a suspended client go on
    Resume {
        /// The tenant
        tenant: String,
    },
}

#[derive(Debug, Subcommand)]
enum Trace {
    /// Write the requests of the next seconds, and those that the rings still have, to a file for https://ui.perfetto.dev
    Save {
        /// The file
        file: PathBuf,
        /// Write blktrace's records, too; a file NAME.blktrace.0 is read by blkparse -i NAME
        #[arg(long, value_name = "FILE")]
        blktrace: Option<PathBuf>,
        /// Seconds of requests to come
        #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=3600))]
        seconds: u64,
    },
}

/// The JSON of tenants.
#[derive(Serialize)]
struct Tenants<'a> {
    format: u32,
    scenario: &'a str,
    tenants: &'a [Tenant],
}

/// Has an act carried out, and says what happened.
fn carry_out(live: &Live, asked: &Asked) -> Result<()> {
    let operator = live.operator()?;
    let (act, request, name) = match asked {
        Asked::Tenants { .. } | Asked::Metrics | Asked::Trace { .. } => return Ok(()),
        Asked::Set { tenant: name, values } => {
            let change = share_change(values)?;
            (Act::Shares, Request::Share { tenant: operator.component(name)?, change }, name)
        }
        Asked::Revoke { tenant: name, blocks: range } => {
            (Act::Rights, Request::Revoke { tenant: operator.component(name)?, blocks: blocks(range)? }, name)
        }
        Asked::Grant { tenant: name, blocks: range, read_only } => {
            let Blocks { first, blocks } = blocks(range)?;
            let extent = Extent { first, blocks, writable: !read_only };
            (Act::Rights, Request::Grant { tenant: operator.component(name)?, extent }, name)
        }
        Asked::Kill { component } => (Act::Kill, Request::Kill(operator.component(component)?), component),
        Asked::Pause { tenant: name } => (Act::Pause, Request::Pause(operator.component(name)?), name),
        Asked::Resume { tenant: name } => (Act::Pause, Request::Resume(operator.component(name)?), name),
    };
    let took = operator.act(act, &request)?;
    out::line(format_args!("{name}: in force after {:.1} us", took.as_nanos() as f64 / 1e3))
}

/// Asks the running system.
pub(crate) fn run(project: &Project, ctl: &Ctl) -> Result<ExitCode> {
    let mut live = Live::attach(project, ctl.run.as_deref())?;
    match &ctl.asked {
        Asked::Tenants { json, seconds } => {
            let (json, seconds) = (*json, *seconds);
            std::thread::sleep(Duration::from_secs(seconds));
            live.refresh()?;
            let tenants = live.tenants();
            if json {
                let written = Tenants { format: FORMAT, scenario: live.scenario(), tenants: &tenants };
                out::line(format_args!("{}", serde_json::to_string_pretty(&written)?))?;
            } else {
                out::line(format_args!("{}", tenant::table(&tenants, out::columns())))?;
            }
        }
        Asked::Metrics => {
            live.wait_for_news(LONGEST_WAIT)?;
            out::line(format_args!("{}", metrics::text(live.now())?.trim_end()))?;
        }
        Asked::Trace { trace: Trace::Save { file, blktrace, seconds } } => {
            let events = live.trace(Duration::from_secs(*seconds))?;
            let requests = Requests::of(&events);
            saved::save_perfetto(&requests, file)?;
            if let Some(blktrace) = blktrace {
                saved::save_blktrace(&requests, events.places(), blktrace)?;
            }
            let (saved, lost) = (requests.complete.len(), events.lost() + events.given_up());
            let incomplete = requests.incomplete;
            out::line(format_args!("saved {saved} requests; {incomplete} incomplete; {lost} events lost"))?;
        }
        act => carry_out(&live, act)?,
    }
    Ok(ExitCode::SUCCESS)
}
