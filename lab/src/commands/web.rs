//! `cargo xtask web`, and `cargo xtask demo --live`: the page of a running system.

use crate::live::Live;
use crate::model;
use crate::web::{self, Web as Page};
use anyhow::Result;
use clap::Args;
use std::net::SocketAddr;
use std::process::ExitCode;
use xtask::arguments;
use xtask::commands::demo::{self, Demo};
use xtask::out;
use xtask::project::Project;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct Web {
    /// The scenario whose newest run is shown; any that goes on without it
    scenario: Option<String>,
    /// Address of the page: this machine's alone, unless another one is given
    #[arg(long, value_name = "ADDRESS", default_value = arguments::PAGE_ADDRESS, value_parser = arguments::address)]
    listen: SocketAddr,
}

/// Serves the page of a run that goes on, until it is over.
pub(crate) fn run(project: &Project, web: &Web) -> Result<ExitCode> {
    let live = Live::attach(project, web.scenario.as_deref())?;
    let page = Page::open(web::bind(web.listen)?)?;
    announce(&page, web.listen)?;
    let over = page.watch(live);
    page.finish();
    out::note(format_args!("{over}"));
    Ok(ExitCode::SUCCESS)
}

/// Runs a demonstration on QEMU, with its page.
///
/// # Errors
/// The demonstration's errors, or an address at which no page can be served.
pub(crate) fn demo(project: &Project, demo: &Demo) -> Result<ExitCode> {
    // A scenario that is not there is reported first.
    demo.load(project)?;
    let page = Page::open(web::bind(demo.listen)?)?;
    announce(&page, demo.listen)?;
    page.watch_ours(project);
    let ended = demo::run(project, demo, Some(model::serve));
    page.finish();
    ended
}

fn announce(page: &Page, listen: SocketAddr) -> Result<()> {
    out::line(format_args!("Watch at {}", page.url()))?;
    if !listen.ip().is_loopback() {
        out::note(format_args!(
            "everybody who reaches {listen} can watch; only this address with its token lets one change anything"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;
    use capdl::Scenario;

    #[test]
    fn every_scenario_can_be_watched() {
        let project = Project::here().unwrap();
        for name in project.scenarios().unwrap() {
            let file = project.scenario(&name).unwrap();
            let scenario = Scenario::load(&file).unwrap();
            if simulate::is_missing(&scenario) {
                continue;
            }
            let settings = demo::watched(&scenario).unwrap();
            let watched = Scenario::load_with(&file, None, &settings).unwrap_or_else(|error| panic!("{name}: {error}"));
            let built = capdl::build(&watched, &sim::programs(watched.machine.arch));
            assert!(watched.is_live(), "{name}");
            built.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}
