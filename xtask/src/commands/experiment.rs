//! `cargo xtask experiment`: the figures, each made anew by one command.
//!
//! An experiment runs many systems, most of them in the simulator, whose virtual time is the same on every machine. It
//! leaves its data as CSV and its picture as SVG in `target/experiments/NAME/`, beside the scenarios it ran; those of the
//! documentation are in `docs/figures/`. Left out: what the figures mean, which `docs/guide/experiments.md` says.

mod chart;
mod extents;
mod lab;
mod lookup;
mod neighbour;
mod one_queue;
mod restarts;
mod sizes;
mod submitters;
mod variant;
mod way;
mod wrr;

use crate::out;
use crate::project::{Project, write_whole};
use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};
use kernel::Arch;
use lab::Lab;
use serde::Serialize;
use std::process::ExitCode;

/// What an experiment takes.
#[derive(Debug, Args)]
pub(crate) struct Experiment {
    /// Its name, or `list` for all there are
    name: String,
    /// Run it on seL4 in QEMU, where it can be
    #[arg(long)]
    qemu: bool,
    /// The architecture there: x86_64 or aarch64
    #[arg(long, default_value = "x86_64", requires = "qemu")]
    arch: String,
    /// A few points of it alone, as the tests do
    #[arg(long)]
    small: bool,
    /// Write data and picture to docs/figures/, too
    #[arg(long, conflicts_with = "small")]
    publish: bool,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// How many points an experiment measures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grid {
    /// All of the figure.
    Full,
    /// Enough to see that it works and holds what it must.
    Small,
}

/// On what an experiment runs its systems.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum World {
    /// The simulator.
    Simulator,
    /// seL4 in QEMU.
    Qemu(Arch),
}

/// What came of an experiment.
pub(crate) struct Outcome {
    /// The data: a heading, and a line for each point.
    csv: Vec<u8>,
    /// The picture.
    svg: String,
    /// What must hold and does not, one sentence each.
    misses: Vec<String>,
}

impl Outcome {
    /// Of data, a line each, the picture of them, and what does not hold of them.
    fn new<Row: Serialize>(rows: &[Row], svg: String, misses: Vec<String>) -> Result<Self> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        rows.iter().try_for_each(|row| writer.serialize(row)).context("the data do not encode as CSV")?;
        let csv = writer.into_inner().context("the data do not encode as CSV")?;
        Ok(Self { csv, svg, misses })
    }
}

/// An experiment.
pub(crate) struct One {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it shows, with its row of SEEDS.
    shows: &'static str,
    /// Where else than in the simulator it can be run.
    on_qemu: bool,
    /// Runs it.
    run: fn(&Lab<'_>, Grid) -> Result<Outcome>,
}

/// All there are.
pub(crate) const ALL: [One; 8] = [
    extents::EXPERIMENT,
    lookup::EXPERIMENT,
    one_queue::EXPERIMENT,
    submitters::EXPERIMENT,
    wrr::EXPERIMENT,
    sizes::EXPERIMENT,
    restarts::EXPERIMENT,
    neighbour::EXPERIMENT,
];

/// Runs what was asked for.
pub(crate) fn run(project: &Project, asked: &Experiment) -> Result<ExitCode> {
    if asked.name == "list" {
        ALL.iter().try_for_each(|one| out::line(format_args!("{:<12} {}", one.name, one.shows)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let one = named(&asked.name)?;
    ensure!(!asked.qemu || one.on_qemu, "the experiment '{}' is not made for QEMU: leave out --qemu", one.name);
    let grid = if asked.small { Grid::Small } else { Grid::Full };
    let arch: Arch = asked.arch.parse().map_err(Error::msg)?;
    let world = if asked.qemu { World::Qemu(arch) } else { World::Simulator };
    let name = match world {
        World::Simulator => one.name.to_owned(),
        World::Qemu(Arch::X86_64) => format!("{}-qemu", one.name),
        World::Qemu(Arch::Aarch64) => format!("{}-aarch64", one.name),
    };
    let lab = Lab::new(project, &name, world, asked.yes)?;
    let outcome = (one.run)(&lab, grid)?;
    out::line(format_args!("{}\n{}", one.shows, table(&outcome.csv)?))?;
    let folders = asked.publish.then(|| project.path("docs/figures")).into_iter().chain([lab.folder().to_path_buf()]);
    for folder in folders {
        let (csv, svg) = (folder.join(format!("{name}.csv")), folder.join(format!("{name}.svg")));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", project.shown(&folder)))?;
        write_whole(&csv, &outcome.csv)?;
        write_whole(&svg, outcome.svg.as_bytes())?;
        out::line(format_args!("data: {}, picture: {}", project.shown(&csv), project.shown(&svg)))?;
    }
    outcome.misses.iter().try_for_each(|miss| out::line(format_args!("falls short: {miss}")))?;
    Ok(if outcome.misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a few points of an experiment: it must come about, hold what it must, and have the columns of the data that the
/// documentation shows.
pub(crate) fn check(project: &Project, one: &One) -> Result<()> {
    let lab = Lab::new(project, &format!("{}-small", one.name), World::Simulator, false)?;
    let outcome = (one.run)(&lab, Grid::Small)?;
    if !outcome.misses.is_empty() {
        bail!("{}", outcome.misses.join("; "));
    }
    let published = project.path(&format!("docs/figures/{}.csv", one.name));
    let shown = project.shown(&published);
    let text = std::fs::read(&published).with_context(|| format!("cannot read {shown}"))?;
    let (own, of_file) = (headings(&outcome.csv)?, headings(&text)?);
    ensure!(own == of_file, "{shown} has the columns {of_file:?}, and the experiment makes {own:?}: publish it again");
    Ok(())
}

fn named(name: &str) -> Result<&'static One> {
    let names = || ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|one| one.name == name)
        .with_context(|| format!("there is no experiment '{name}': name one of {}, or list", names()))
}

fn headings(csv: &[u8]) -> Result<Vec<String>> {
    Ok(csv::Reader::from_reader(csv).headers()?.iter().map(str::to_owned).collect())
}

/// The data as a table for people.
fn table(csv: &[u8]) -> Result<Table> {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED).set_header(headings(csv)?);
    for record in csv::Reader::from_reader(csv).records() {
        table.add_row(record?.iter());
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_experiment_has_its_figure_in_the_documentation() {
        let project = Project::here().unwrap();
        let guide = std::fs::read_to_string(project.path("docs/guide/experiments.md")).unwrap();
        for one in &ALL {
            for ending in ["csv", "svg"] {
                let file = project.path(&format!("docs/figures/{}.{ending}", one.name));
                assert!(file.is_file(), "{} is missing", project.shown(&file));
            }
            let (picture, command) =
                (format!("figures/{}.svg", one.name), format!("cargo xtask experiment {}", one.name));
            assert!(guide.contains(&picture) && guide.contains(&command), "the guide says nothing of {}", one.name);
        }
    }

    #[test]
    fn an_experiment_that_is_not_there_is_answered_with_those_that_are() {
        let error = named("lokup").map(|one| one.name).unwrap_err().to_string();
        assert!(error.contains("'lokup'") && error.contains("lookup") && error.contains("list"), "{error}");
    }

    #[test]
    fn data_become_a_table_with_their_headings() {
        #[derive(Serialize)]
        struct Row {
            depth: u32,
            policy: &'static str,
        }
        let outcome = Outcome::new(&[Row { depth: 3, policy: "paced" }], String::new(), Vec::new()).unwrap();
        assert_eq!(String::from_utf8(outcome.csv.clone()).unwrap(), "depth,policy\n3,paced\n");
        let table = table(&outcome.csv).unwrap().to_string();
        assert!(table.contains("depth") && table.contains("paced"), "{table}");
    }
}
