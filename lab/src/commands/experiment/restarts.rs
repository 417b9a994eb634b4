//! Time without service when a component dies, over deaths at random moments.
//!
//! Each run has one death, of the NVMe server or of the PCI server, with which the NVMe server ends. The moment is drawn from the
//! run's seed, to the microsecond. The tenants verify all they read, and the image is compared after each run.

use super::chart::{self, Axis, Line, Panel, Scale};
use super::lab::{Lab, Ran};
use super::one::{Grid, One, Outcome};
use crate::combinations::{Combinations, Vary};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use xtask::reports::figure::short;

pub(crate) const EXPERIMENT: One = One {
    name: "restarts",
    shows: "Restart: time from a component's death until its tenants have service again, over drawn moments",
    on_qemu: false,
    run,
    picture: |data, _| Ok(picture(&data.rows()?)),
};

/// Components that die.
const COMPONENTS: [&str; 2] = ["nvme-server", "pci-server"];
/// Milliseconds of virtual time within which every tenant must have its session again.
const MOST_MS: f64 = 50.0;

/// A death.
#[derive(Serialize, Deserialize)]
struct Row<'a> {
    component: &'a str,
    seed: i64,
    /// Time of the death after the system began.
    died_at_ms: f64,
    /// From the death until the component runs again.
    runs_ms: f64,
    /// From the death until the first tenant has its session again.
    first_session_ms: f64,
    /// From the death until both tenants have their sessions again.
    last_session_ms: f64,
    /// Requests that the two tenants retried.
    resubmitted: u32,
}

fn run(lab: &Lab<'_>, grid: Grid) -> Result<Outcome> {
    let seeds = if grid == Grid::Full { "seed=1..51" } else { "seed=1..5" };
    let components = COMPONENTS.map(|component| {
        (component, vec![format!("kill.1.component={component}"), format!("expect.restarts={{ {component} = 1 }}")])
    });
    let combinations = Combinations::of(&[], &[Vary::groups("component", components)?, seeds.parse()?])?;
    let rows = lab.rows(&combinations, row)?;
    let misses = misses(&rows);
    Outcome::new(&rows, misses)
}

fn row<'a>([component, seed]: [&'a str; 2], Ran { results, .. }: &Ran) -> Result<Row<'a>> {
    let restart = results.restarts.iter().find(|one| one.name == component);
    let restart = restart.with_context(|| format!("{component} was not started again"))?;
    let died_ns = restart.ended_at_ns;
    let ms = |ns: u64| (ns as f64 / 1e3).round() / 1e3;
    let sessions = || results.reconnected.iter().map(|one| one.at_ns.saturating_sub(died_ns));
    let (first, last) = sessions().min().zip(sessions().max()).context("nobody had its session again")?;
    Ok(Row {
        component,
        seed: seed.parse()?,
        died_at_ms: ms(died_ns.saturating_sub(results.timeline.begin_ns.unwrap_or(0))),
        runs_ms: ms(restart.took_ns),
        first_session_ms: ms(first),
        last_session_ms: ms(last),
        resubmitted: results.reconnected.iter().map(|one| one.reissued).sum(),
    })
}

/// Reports service that returns too late, and deaths at one moment only, which would show nothing about moments.
fn misses(rows: &[Row]) -> Vec<String> {
    let late = rows.iter().filter(|row| row.last_session_ms > MOST_MS).map(|row| {
        let Row { component, seed, last_session_ms, .. } = row;
        format!("{component}, seed {seed}: service after {last_session_ms} ms, and {MOST_MS} are the most")
    });
    let alike = COMPONENTS.into_iter().filter(|component| {
        let mut own = rows.iter().filter(|row| row.component == *component);
        let first = own.next().map(|row| row.died_at_ms);
        own.all(|row| Some(row.died_at_ms) == first)
    });
    late.chain(alike.map(|component| format!("{component} dies at one moment only"))).collect()
}

fn picture(rows: &[Row]) -> String {
    let panels = COMPONENTS.map(|component| {
        let line = |name: &str, value: fn(&Row) -> f64| {
            let mut times: Vec<_> = rows.iter().filter(|row| row.component == component).map(value).collect();
            times.sort_by(f64::total_cmp);
            let of_all = 100.0 / times.len().max(1) as f64;
            let points = times.into_iter().zip(1..).map(|(ms, number)| (ms, f64::from(number) * of_all)).collect();
            Line { name: name.into(), points }
        };
        Panel {
            title: format!("{component} dies"),
            x: Axis { label: "milliseconds after the death".into(), write: short, scale: Scale::Linear },
            y: Axis { label: "of a hundred deaths".into(), write: short, scale: Scale::Linear },
            lines: vec![
                line("it runs again", |row| row.runs_ms),
                line("one tenant has its session", |row| row.first_session_ms),
                line("both have", |row| row.last_session_ms),
            ],
            bounds: Vec::new(),
        }
    });
    let about = "Two tenants that write, read back and verify; deaths at drawn moments, one a run, in the simulator";
    chart::svg("From a component's death to service", about, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_service_and_deaths_at_one_moment_are_reported() {
        let row = |component, died_at_ms, last_session_ms| Row {
            component,
            seed: 1,
            died_at_ms,
            runs_ms: 1.0,
            first_session_ms: 2.0,
            last_session_ms,
            resubmitted: 0,
        };
        let other = || [row(COMPONENTS[1], 1.0, 3.0), row(COMPONENTS[1], 2.0, 3.0)];
        let all = |rows: [Row; 2]| misses(&rows.into_iter().chain(other()).collect::<Vec<_>>());
        assert!(all([row(COMPONENTS[0], 1.0, 50.0), row(COMPONENTS[0], 2.0, 3.0)]).is_empty());
        let late = all([row(COMPONENTS[0], 1.0, 50.1), row(COMPONENTS[0], 2.0, 3.0)]);
        assert_eq!(late, ["nvme-server, seed 1: service after 50.1 ms, and 50 are the most"]);
        let alike = all([row(COMPONENTS[0], 1.0, 3.0), row(COMPONENTS[0], 1.0, 3.0)]);
        assert_eq!(alike, ["nvme-server dies at one moment only"]);
    }
}
