//! `cargo xtask ctl`: what a script asks of a running system.

mod show;

use crate::live::Live;
use crate::live::acts::Order;
use crate::live::tenant::Tenant;
use crate::live::{metrics, tenant};
use anyhow::Result;
use blk_api::operation::Kind;
use blk_api::trace::Kinds;
use clap::{Args, Subcommand, ValueEnum};
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
    /// Switch and save traces of single requests
    Trace {
        #[command(subcommand)]
        trace: Trace,
    },
    /// Wait until a line about what happened has this text, and print it
    Wait {
        /// The text, as "nvme-server runs again"
        text: String,
        /// Look at lines from now on alone
        #[arg(long)]
        new: bool,
        /// The most seconds to wait
        #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=86_400))]
        seconds: u64,
    },
    /// Print a structure of a controller, field by field; needs the right "inspect" of administration
    Show(show::Show),
    #[command(flatten)]
    Act(Order),
}

#[derive(Debug, Subcommand)]
enum Trace {
    /// Trace a tenant's requests from now on, of these kinds and no others
    Start {
        /// The tenant
        tenant: String,
        /// The kinds; all without any
        #[arg(long = "kind", value_name = "KIND")]
        kinds: Vec<Traced>,
    },
    /// Trace none of a tenant's requests from now on
    Stop {
        /// The tenant
        tenant: String,
    },
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

/// A kind of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Traced {
    /// Reads
    Reads,
    /// Writes
    Writes,
    /// Requests of other kinds
    Others,
}

impl Traced {
    const fn kind(self) -> Kind {
        match self {
            Self::Reads => Kind::Read,
            Self::Writes => Kind::Write,
            Self::Others => Kind::Other,
        }
    }
}

/// The JSON of tenants.
#[derive(Serialize)]
struct Tenants<'a> {
    format: u32,
    scenario: &'a str,
    tenants: &'a [Tenant],
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
        Asked::Trace { trace: Trace::Start { tenant, kinds } } => {
            let all = kinds.iter().fold(0, |all, kind| all | Kinds::of(kind.kind()).0);
            live.switch_trace(tenant, if kinds.is_empty() { Kinds::ALL } else { Kinds(all) })?;
            out::line(format_args!("{tenant}: traced from now on"))?;
        }
        Asked::Trace { trace: Trace::Stop { tenant } } => {
            live.switch_trace(tenant, Kinds::NONE)?;
            out::line(format_args!("{tenant}: not traced any more"))?;
        }
        Asked::Wait { text, new, seconds } => {
            let line = live.wait_for_line(text, *new, Duration::from_secs(*seconds))?;
            out::line(format_args!("{}", line.trim()))?;
        }
        Asked::Show(show) => show::run(project, ctl.run.as_deref(), show)?,
        Asked::Act(order) => out::line(format_args!("{}", live.carry_out(order)?))?,
    }
    Ok(ExitCode::SUCCESS)
}
