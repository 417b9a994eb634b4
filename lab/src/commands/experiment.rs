//! `cargo xtask experiment`: regenerates the figures, one command for each.
//!
//! An experiment runs combinations of settings of one scenario, as a sweep does, most of them in the simulator, whose virtual time is
//! the same on every machine. It leaves its data as CSV and its picture as SVG in `target/experiments/NAME/`, beside the commands of
//! its runs. The figures of the documentation are in `docs/figures/`. Left out: the meaning of the figures, which
//! `docs/guide/experiments.md` explains.

pub(super) mod chart;
mod completion;
mod data;
mod extents;
mod lab;
mod lookup;
mod matrix;
mod neighbour;
mod one;
mod one_queue;
mod restarts;
mod sizes;
mod submitters;
mod way;
mod wrr;

use anyhow::{Context, Error, Result, bail, ensure};
use clap::Args;
use data::Data;
use kernel::Arch;
use lab::Lab;
pub(crate) use one::One;
use one::{Grid, World};
use std::process::ExitCode;
use xtask::arguments::typed;
use xtask::out;
use xtask::project::{Project, write_whole};
use xtask::reports::sheet::{Sheet, Value};
use xtask::reports::{page, run_page};

/// Arguments of an experiment.
#[derive(Debug, Args)]
pub(crate) struct Experiment {
    /// Name of the experiment, or `list` for all there are
    name: String,
    /// Run it on seL4 in QEMU, if it supports that
    #[arg(long)]
    qemu: bool,
    /// The architecture there: x86_64 or aarch64
    #[arg(long, default_value = "x86_64", requires = "qemu")]
    arch: String,
    /// Measure only a few points, as the tests do
    #[arg(long)]
    small: bool,
    /// Write data and picture to docs/figures/, too
    #[arg(long, conflicts_with = "small")]
    publish: bool,
    /// Install missing packages through sudo without asking
    #[arg(long)]
    yes: bool,
}

/// All experiments.
pub(crate) const ALL: [One; 10] = [
    completion::EXPERIMENT,
    extents::EXPERIMENT,
    lookup::EXPERIMENT,
    one_queue::EXPERIMENT,
    submitters::EXPERIMENT,
    wrr::EXPERIMENT,
    sizes::EXPERIMENT,
    restarts::EXPERIMENT,
    neighbour::EXPERIMENT,
    matrix::EXPERIMENT,
];

/// Runs the experiment that the arguments name, or lists all.
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
    let name = world.name_of(one);
    let lab = Lab::new(project, one.name, &name, world, asked.yes)?;
    let outcome = (one.run)(&lab, grid)?;
    let data = Data::of(&outcome.csv)?;
    let picture = (one.picture)(&data, world)?;
    out::line(format_args!("{}\n{}", one.shows, table(&data).fit(out::columns())))?;
    let folders = asked.publish.then(|| project.path("docs/figures")).into_iter().chain([lab.folder().to_path_buf()]);
    for folder in folders {
        let (csv, svg) = (folder.join(format!("{name}.csv")), folder.join(format!("{name}.svg")));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", project.shown(&folder)))?;
        write_whole(&csv, &outcome.csv)?;
        write_whole(&svg, picture.as_bytes())?;
        out::line(format_args!("data: {}, picture: {}", project.shown(&csv), project.shown(&svg)))?;
    }
    outcome.misses.iter().try_for_each(|miss| out::line(format_args!("falls short: {miss}")))?;
    let page = lab.folder().join(run_page::NAME);
    let commands = std::fs::read_to_string(lab.folder().join("commands")).unwrap_or_default();
    write_whole(&page, html(one, &data, &picture, &outcome.misses, &commands).as_bytes())?;
    out::line(format_args!("{} is a page of all this for a browser", project.shown(&page)))?;
    Ok(if outcome.misses.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs a few points of an experiment: it must finish, meet its conditions, and have the columns of the data in the
/// documentation.
pub(crate) fn check(project: &Project, one: &One) -> Result<()> {
    let lab = Lab::new(project, one.name, &format!("{}-small", one.name), World::Simulator, false)?;
    let outcome = (one.run)(&lab, Grid::Small)?;
    if !outcome.misses.is_empty() {
        bail!("{}", outcome.misses.join("; "));
    }
    let published = project.path(&format!("docs/figures/{}.csv", one.name));
    let shown = project.shown(&published);
    let text = std::fs::read(&published).with_context(|| format!("cannot read {shown}"))?;
    let (data, published) = (Data::of(&outcome.csv)?, Data::of(&text)?);
    (one.picture)(&data, lab.world())?;
    let (own, of_file) = (data.headings(), published.headings());
    ensure!(own == of_file, "{shown} has the columns {of_file:?}, and the experiment makes {own:?}: publish it again");
    Ok(())
}

fn named(name: &str) -> Result<&'static One> {
    let names = || ALL.iter().map(|one| one.name).collect::<Vec<_>>().join(", ");
    ALL.iter()
        .find(|one| one.name == name)
        .with_context(|| format!("there is no experiment '{name}': name one of {}, or list", names()))
}

/// The page of an experiment. `commands` has the commands of its runs, a line each.
fn html(one: &One, data: &Data, picture: &str, misses: &[String], commands: &str) -> String {
    let body = maud::html! {
        h1 { "Experiment " (one.name) }
        p { (one.shows) }
        @if !misses.is_empty() { ul { @for miss in misses { li.bad { "Falls short: " (miss) } } } }
        (page::picture(picture))
        h2 { "Repeat it" }
        pre { (typed()) }
        details { summary { "Its runs" } pre { (commands) } }
        h2 { "Data" }
        (page::table(&table(data)))
    };
    page::file(&format!("experiment {}", one.name), &body)
}

/// The data as a table for readers.
fn table(data: &Data) -> Sheet {
    let mut sheet = Sheet::new(data.headings());
    for record in data.records() {
        sheet.row(record.iter().map(|value| Value::Number(value.to_owned())));
    }
    sheet
}

/// The picture for the data of the figure `name`, such as `neighbour-qemu`.
///
/// # Errors
/// No such experiment, or the data of another one.
pub(crate) fn redrawn(name: &str, csv: &[u8]) -> Result<String> {
    let worlds = || [World::Simulator].into_iter().chain(Arch::ALL.map(World::Qemu));
    let all = ALL.iter().flat_map(|one| worlds().map(move |world| (one, world)));
    let (one, world) = all
        .into_iter()
        .find(|(one, world)| world.name_of(one) == name)
        .with_context(|| format!("no experiment makes the figure {name}"))?;
    (one.picture)(&Data::of(csv)?, world)
}

#[cfg(test)]
mod tests {
    use super::one::Outcome;
    use super::*;
    use serde::Serialize;

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
    fn unknown_experiment_is_answered_with_the_known_ones() {
        let error = named("lokup").map(|one| one.name).unwrap_err().to_string();
        assert!(error.contains("'lokup'") && error.contains("lookup") && error.contains("list"), "{error}");
    }

    #[test]
    fn page_has_the_picture_the_data_and_all_conditions_that_do_not_hold() {
        let data = Data::of(b"depth,policy\n3,<script>\n").unwrap();
        let page = html(&lookup::EXPERIMENT, &data, "<svg/>", &["a < b".into()], "cargo xtask sim a\n");
        for part in ["<figure><svg/></figure>", "&lt;script&gt;", "a &lt; b", "cargo xtask sim a", "Experiment lookup"]
        {
            assert!(page.contains(part), "{part} is not in {page}");
        }
        assert!(!page.contains("<script"));
    }

    #[test]
    fn data_become_a_table_with_their_headings() {
        #[derive(Serialize)]
        struct Row {
            depth: u32,
            policy: &'static str,
        }
        let outcome = Outcome::new(&[Row { depth: 3, policy: "paced" }], Vec::new()).unwrap();
        assert_eq!(String::from_utf8(outcome.csv.clone()).unwrap(), "depth,policy\n3,paced\n");
        let table = table(&Data::of(&outcome.csv).unwrap()).fit(out::COLUMNS);
        assert!(table.contains("depth") && table.contains("paced"), "{table}");
    }
}
