//! The table and the figures of a sweep, and its page.

use super::page;
use super::record::{Measured, Record, Varied};
use crate::commands::experiment::chart::{self, Axis, Line, Panel, Scale};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use xtask::project::write_whole;
use xtask::reports::figure::{short, time};
use xtask::reports::run_page;

/// Figures have at most so many lines: more have no colours of their own.
const MOST_LINES: usize = 7;
/// Name of the table's file.
const TABLE: &str = "sweep.csv";
/// The key whose values repeat a run.
const SEED: &str = "seed";
/// Panels beside each other.
const COLUMNS: usize = 3;

/// A figure: a measurement over a varied key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Plot {
    x: String,
    y: What,
}

/// A measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum What {
    Iops,
    Bandwidth,
    P50,
    P99,
    P999,
    Max,
    Errors,
}

impl What {
    const ALL: [Self; 7] = [Self::Iops, Self::Bandwidth, Self::P50, Self::P99, Self::P999, Self::Max, Self::Errors];

    const fn name(self) -> &'static str {
        match self {
            Self::Iops => "iops",
            Self::Bandwidth => "bandwidth",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p999",
            Self::Max => "max",
            Self::Errors => "errors",
        }
    }

    /// Title of the axis.
    const fn title(self) -> &'static str {
        match self {
            Self::Iops => "requests a second",
            Self::Bandwidth => "bytes a second",
            Self::P50 => "latency, median",
            Self::P99 => "latency, 99 of 100 requests",
            Self::P999 => "latency, 999 of 1000 requests",
            Self::Max => "latency, the longest",
            Self::Errors => "requests that failed",
        }
    }

    fn of(self, load: &Measured) -> f64 {
        match self {
            Self::Iops => load.iops,
            Self::Bandwidth => load.bandwidth,
            Self::P50 => load.p50_ns as f64,
            Self::P99 => load.p99_ns as f64,
            Self::P999 => load.p999_ns as f64,
            Self::Max => load.max_ns as f64,
            Self::Errors => load.errors as f64,
        }
    }

    fn axis(self) -> Axis {
        let (write, scale): (fn(f64) -> String, _) = match self {
            Self::Iops | Self::Bandwidth | Self::Errors => (short, Scale::Linear),
            Self::P50 | Self::P99 | Self::P999 | Self::Max => (time, Scale::Powers(10.0)),
        };
        Axis { label: self.title().into(), write, scale }
    }
}

impl FromStr for Plot {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts =
            text.split_once(',').and_then(|(x, y)| x.trim().strip_prefix("x=").zip(y.trim().strip_prefix("y=")));
        let (x, y) = parts.context("write a varied key and a measurement: x=depth,y=p99")?;
        let Some(what) = What::ALL.into_iter().find(|what| what.name() == y) else {
            bail!("`{y}` is no measurement: write one of {}", What::ALL.map(What::name).join(", "));
        };
        Ok(Self { x: x.to_owned(), y: what })
    }
}

impl Plot {
    /// Checks that the key of the figure is one of the varied `keys`, and that it shows runs of these keys and values.
    ///
    /// # Errors
    /// None of the keys, or several of them, or too many lines.
    pub(super) fn check<'a>(&self, keys: &[String], runs: impl Iterator<Item = Vec<(&'a str, String)>>) -> Result<()> {
        let x = self.key(keys)?;
        let lines = runs.map(|pairs| rest(&pairs, x)).collect::<BTreeSet<_>>().len();
        ensure!(
            lines <= MOST_LINES,
            "the figure {},y={} has {lines} lines, and {MOST_LINES} can be told apart: vary fewer values of other keys",
            self.x,
            self.y.name()
        );
        Ok(())
    }

    /// The index of the varied key: the key itself, or its end.
    fn key(&self, keys: &[String]) -> Result<usize> {
        let ends = |key: &String| *key == self.x || key.ends_with(&format!(".{}", self.x));
        let found: Vec<_> = keys.iter().enumerate().filter(|(_, key)| ends(key)).collect();
        match found.as_slice() {
            [(index, _)] => Ok(*index),
            [] => bail!("no varied key is `{}`: write x= and one of {}", self.x, keys.join(", ")),
            _ => bail!("several varied keys end with `{}`: write x= and one of {} as a whole", self.x, keys.join(", ")),
        }
    }
}

/// Refuses a folder that has a table, which would be lost.
pub(super) fn refuse_taken(folder: &Path) -> Result<()> {
    let table = folder.join(TABLE);
    ensure!(!table.exists(), "{} is there already: name another folder with --out", table.display());
    Ok(())
}

/// Writes the table, the figures and the page of `of` runs into the folder; returns their paths.
///
/// # Errors
/// A file that cannot be written, or a figure without a measurement.
pub(super) fn write(folder: &Path, records: &[Record], plots: &[Plot], of: u64) -> Result<Vec<PathBuf>> {
    let (table, csv) = (folder.join(TABLE), csv(records)?);
    write_whole(&table, &csv)?;
    let (mut files, mut pictures) = (vec![table], Vec::new());
    for plot in plots {
        let picture = figure(records, plot)?;
        let name = format!("{}-over-{}.svg", plot.y.name(), plot.x.replace('.', "-"));
        let file = folder.join(name);
        write_whole(&file, picture.as_bytes())?;
        files.push(file);
        pictures.push(picture);
    }
    let page = folder.join(run_page::NAME);
    write_whole(&page, page::html(records, of, &pictures, &csv)?.as_bytes())?;
    files.push(page);
    Ok(files)
}

/// The table: a row for each run and tenant.
fn csv(records: &[Record]) -> Result<Vec<u8>> {
    let keys: Vec<_> =
        records.first().into_iter().flat_map(|record| &record.varied).map(|one| one.key.as_str()).collect();
    let mut writer = csv::Writer::from_writer(Vec::new());
    let measured = ["iops", "bytes_per_second", "p50_ns", "p99_ns", "p999_ns", "max_ns", "errors"];
    // A varied seed has its column already.
    let seed = (!keys.contains(&SEED)).then_some(SEED);
    let heading = ["run"].into_iter().chain(keys).chain(seed).chain(["tenant"]).chain(measured).chain(["passed"]);
    writer.write_record(heading).context("the table does not encode")?;
    for record in records {
        let tenants = record.tenants.iter().map(|one| (one.tenant.clone(), one.load.as_ref()));
        // A run that could not be made has a row, too.
        let tenants: Vec<_> = if record.tenants.is_empty() { vec![(String::new(), None)] } else { tenants.collect() };
        for (tenant, load) in tenants {
            let numbers =
                What::ALL.map(|what| load.map_or_else(String::new, |load| format!("{}", what.of(load).round())));
            let values = record.varied.iter().map(Varied::value);
            let seed = seed.map(|_| record.seed.to_string());
            let row = [record.run.to_string()].into_iter().chain(values).chain(seed).chain([tenant]);
            let row = row.chain(numbers).chain([record.passed.to_string()]);
            writer.write_record(row).context("the table does not encode")?;
        }
    }
    writer.into_inner().context("the table does not encode")
}

/// The figure: a panel for each tenant that measured, and in it a line for each combination of the other keys. Runs that failed are
/// left out.
fn figure(records: &[Record], plot: &Plot) -> Result<String> {
    let keys: Vec<_> =
        records.first().into_iter().flat_map(|record| &record.varied).map(|one| one.key.clone()).collect();
    let x = plot.key(&keys)?;
    let value = |record: &Record| record.varied.get(x).map(Varied::value).unwrap_or_default();
    let (mut values, mut tenants, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for record in records.iter().filter(|record| record.passed) {
        add(&mut values, value(record));
        add(&mut others, rest(&record.pairs(), x));
        let measured = record.tenants.iter().filter(|one| one.load.is_some());
        measured.for_each(|one| add(&mut tenants, one.tenant.clone()));
    }
    ensure!(!tenants.is_empty(), "no run that passed has a measurement: there is nothing to draw");
    let numbers: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    let at = |value: &str| match &numbers {
        Some(_) => value.parse().unwrap_or(0.0),
        None => values.iter().position(|one| one == value).unwrap_or(0) as f64,
    };
    let line = |tenant: &str, other: &String| {
        let own = records.iter().filter(|record| record.passed && rest(&record.pairs(), x) == *other);
        let point = |record: &Record| {
            let load = record.tenants.iter().find(|one| one.tenant == tenant)?.load.as_ref()?;
            Some((at(&value(record)), plot.y.of(load)))
        };
        let mut points: Vec<_> = own.filter_map(point).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1)));
        let same_x = points.chunk_by(|one, other| one.0 == other.0);
        Line { name: other.clone(), points: same_x.filter_map(median).collect() }
    };
    let scale = || match &numbers {
        Some(numbers) if is_wide(numbers) => Scale::Powers(2.0),
        Some(_) => Scale::Linear,
        None => Scale::Names(values.clone()),
    };
    let panel = |tenant: &String| Panel {
        title: tenant.clone(),
        x: Axis { label: keys.get(x).cloned().unwrap_or_default(), write: number, scale: scale() },
        y: plot.y.axis(),
        lines: others.iter().map(|other| line(tenant, other)).collect(),
        bounds: Vec::new(),
    };
    let panels: Vec<_> = tenants.iter().map(panel).collect();
    let scenario = records.first().map(|record| record.scenario.as_str()).unwrap_or_default();
    let title = format!("{scenario}: {}", plot.y.title());
    let repeated = keys.iter().enumerate().any(|(index, key)| key == SEED && index != x);
    let about =
        if repeated { "by tenant, in the simulator; median over the seeds" } else { "by tenant, in the simulator" };
    Ok(chart::svg_in_rows(&title, about, &panels, panels.len().min(COLUMNS)))
}

fn add(all: &mut Vec<String>, one: String) {
    if !all.contains(&one) {
        all.push(one);
    }
}

/// The combination of all keys but number `x`, by the ends of their names. Seeds are repetitions, not lines of their own.
fn rest(pairs: &[(&str, String)], x: usize) -> String {
    let others = pairs.iter().enumerate().filter(|(index, (key, _))| *index != x && *key != SEED);
    let shown = others.map(|(_, (key, value))| format!("{}={value}", key.rsplit('.').next().unwrap_or_default()));
    shown.collect::<Vec<_>>().join(" ")
}

/// The point in the middle of sorted ones, or between the two in the middle.
fn median(sorted: &[(f64, f64)]) -> Option<(f64, f64)> {
    let (low, high) = (sorted.get((sorted.len().checked_sub(1)?) / 2)?, sorted.get(sorted.len() / 2)?);
    Some((low.0, (low.1 + high.1) / 2.0))
}

/// A value of a varied key: a whole number as it was written.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e6 { value.to_string() } else { short(value) }
}

/// Whether numbers are so far apart that a scale by powers shows them better.
fn is_wide(numbers: &[f64]) -> bool {
    let (least, most) =
        numbers.iter().fold((f64::MAX, 0.0_f64), |(least, most), one| (least.min(*one), most.max(*one)));
    least > 0.0 && most / least >= 8.0
}
