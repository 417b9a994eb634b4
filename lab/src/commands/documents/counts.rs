//! Numbers in the documents' sentences that are constants of the code, points of a figure's data, or measurements of another page.
//!
//! Left out: numbers printed by tests, and measurements in their own tables, which stand there as they were found.

use super::parts::document;
use super::texts::Texts;
use anyhow::{Context, Result, bail, ensure};
use xtask::project::Project;

/// A number in a document.
struct Count {
    /// The document, below `docs/`.
    document: &'static str,
    /// Words of the document, with `{}` in the place of the number.
    words: &'static str,
    source: Source,
}

/// Source of a number.
enum Source {
    /// A constant of a source file: `const NAME: u64 = 1_000;`.
    Constant(&'static str, &'static str),
    /// A point of a figure's data: the figure's name, the beginning of the line, the column, a factor, decimals.
    Point(&'static str, &'static str, &'static str, f64, usize),
    /// A measurement in a table of `docs/benchmarks.md`: the first cell of the row, without its number, and the column.
    Measured(&'static str, &'static str),
}

use Source::{Constant, Measured, Point};

const fn count(document: &'static str, words: &'static str, source: Source) -> Count {
    Count { document, words, source }
}

const RUNNING: &str = "lab/src/commands/test/running.rs";
const ENGINE: &str = "lab/src/commands/fuzz/engine.rs";
const LOOKUP: &str = "lab/src/commands/experiment/lookup.rs";
const BENCHMARKS: &str = "docs/benchmarks.md";
const EXPERIMENTS: &str = "docs/guide/experiments.md";

const COUNTS: &[Count] = &[
    count("README.md", "p99.9 is {} ms", Point("neighbour", "4096,paced", "victim_p999_ms", 1.0, 2)),
    count("README.md", "simulator, nothing held back | {} |", Point("neighbour", ",paced", "victim_p50_ms", 1.0, 2)),
    count("README.md", "held back | 0.15 | {} |", Point("neighbour", "4096,round-robin", "victim_p50_ms", 1.0, 0)),
    count(
        "README.md",
        "held back | 0.15 | 32 | {} |",
        Point("neighbour", "131072,round-robin", "victim_p50_ms", 1.0, 0),
    ),
    count("README.md", "simulator, policy `paced` | {} |", Point("neighbour", ",paced", "victim_p50_ms", 1.0, 2)),
    count(
        "README.md",
        "simulator, policy `paced` | 0.15 | {} |",
        Point("neighbour", "4096,paced", "victim_p50_ms", 1.0, 2),
    ),
    count(
        "README.md",
        "simulator, policy `paced` | 0.15 | 0.15 | {} |",
        Point("neighbour", "131072,paced", "victim_p50_ms", 1.0, 2),
    ),
    count("README.md", "QEMU, nothing held back | {} |", Point("neighbour-qemu", ",paced", "victim_p50_ms", 1.0, 2)),
    count("README.md", "held back | 0.21 | {} |", Point("neighbour-qemu", "4096,round-robin", "victim_p50_ms", 1.0, 0)),
    count(
        "README.md",
        "held back | 0.21 | 33 | {} |",
        Point("neighbour-qemu", "131072,round-robin", "victim_p50_ms", 1.0, 0),
    ),
    count("README.md", "QEMU, policy `paced` | {} |", Point("neighbour-qemu", ",paced", "victim_p50_ms", 1.0, 2)),
    count(
        "README.md",
        "QEMU, policy `paced` | 0.21 | {} |",
        Point("neighbour-qemu", "4096,paced", "victim_p50_ms", 1.0, 2),
    ),
    count(
        "README.md",
        "QEMU, policy `paced` | 0.21 | 0.44 | {} |",
        Point("neighbour-qemu", "131072,paced", "victim_p50_ms", 1.0, 2),
    ),
    count("README.md", "lead to {} and", Point("neighbour-qemu", "4096,paced", "ratio", 1.0, 1)),
    count("README.md", "2.1 and {} times", Point("neighbour-qemu", "131072,paced", "ratio", 1.0, 1)),
    count("README.md", "by interrupts | {} |", Measured("`read-4k-qd1-interrupt`", "in all")),
    count("README.md", "| {} by `pread`", Measured("`pread`, depth 1", "kernel")),
    count("README.md", "`pread`, {} by", Measured("io_uring, depth 1", "kernel")),
    count("README.md", "depth 32 | {} |", Measured("`read-4k-qd32-interrupt`", "in all")),
    count("README.md", "| {} by io_uring", Measured("io_uring, depth 32, eight submitted at a time", "kernel")),
    count("README.md", "by io_uring, {} with", Measured("the same with registered buffers and files", "kernel")),
    count("docs/structure.md", "system, {} times:", Constant("capdl/src/check/tests/mutations.rs", "MUTATIONS")),
    count("docs/benchmarks.md", "fails below {} simulated", Constant("lab/src/commands/bench_sim.rs", "REACH")),
    count("docs/benchmarks.md", "at most {} ns and 150", Constant(LOOKUP, "MOST_NS")),
    count("docs/benchmarks.md", "ns and {} instructions among", Constant(LOOKUP, "MOST_INSTRUCTIONS")),
    count("docs/benchmarks.md", "\n{} records of one session", Constant(LOOKUP, "MOST_RECORDS")),
    count("docs/guide/fuzz.md", "takes more than {} seconds", Constant(ENGINE, "INPUT_SECONDS")),
    count(
        "docs/guide/priority.md",
        "together have {} refusals",
        Constant("nvme-server/src/data_plane/budget.rs", "REFUSALS"),
    ),
    count("docs/guide/simulate.md", "the first {} seeds", Constant(RUNNING, "SOAK_SEEDS")),
    count("docs/guide/tests.md", "both), {} drawn systems", Constant(RUNNING, "SOAK_SEEDS")),
    count(
        EXPERIMENTS,
        "controller: {} ms, and a whole",
        Point("neighbour", "4096,round-robin", "victim_p50_ms", 1.0, 0),
    ),
    count(EXPERIMENTS, "alone ({} beside", Point("neighbour", "4096,paced", "victim_p50_ms", 1.0, 3)),
    count(EXPERIMENTS, " beside {} ms), p99", Point("neighbour", ",paced", "victim_p50_ms", 1.0, 3)),
    count(EXPERIMENTS, "p99 at {} ms, p99.9", Point("neighbour", "4096,paced", "victim_p99_ms", 1.0, 2)),
    count(EXPERIMENTS, "p99.9 at {} ms, from", Point("neighbour", "4096,paced", "victim_p999_ms", 1.0, 2)),
    count(EXPERIMENTS, "to give: {} and", Point("neighbour", "4096,paced", "total_4k_iops", 1.0, 0)),
    count(
        EXPERIMENTS,
        "and {}. The run fails where nothing held",
        Point("neighbour", "131072,paced", "total_4k_iops", 1.0, 0),
    ),
    count(EXPERIMENTS, "128 KiB: {} of the victim", Point("neighbour", "131072,paced", "victim_iops", 1.0, 0)),
    count(EXPERIMENTS, "victim's time it has {}.", Point("neighbour", "131072,paced", "neighbour_iops", 1.0, 0)),
    count(EXPERIMENTS, "asked {} times a second", Point("neighbour-qemu", ",paced", "victim_iops", 1.0, 0)),
    count(
        EXPERIMENTS,
        "beside 8 has {} % of the",
        Point("one-queue", "deep beside shallow,one queue", "modest_part", -100.0, 0),
    ),
    count(
        EXPERIMENTS,
        "the other's p99 is {} ms",
        Point("one-queue", "deep beside shallow,one queue", "modest_p99_ms", 1.0, 1),
    ),
    count(
        EXPERIMENTS,
        "who asks for less has {} and",
        Point("one-queue", "deep beside shallow,paced", "modest_part", 1.0, 2),
    ),
    count(
        EXPERIMENTS,
        "beside 128 KiB it is {} and",
        Point("one-queue", "large beside small,paced", "modest_part", 1.0, 2),
    ),
    count(EXPERIMENTS, "queue pair for all has {} million", Point("submitters", "4096,one queue,64", "iops", 1e-6, 2)),
    count(EXPERIMENTS, "the cores {}: 512", Point("submitters", "4096,per core,64", "iops", 1e-6, 2)),
    count(EXPERIMENTS, "in one line: {} with 8", Point("submitters", "131072,paced,8", "evenness", 1.0, 2)),
    count(EXPERIMENTS, "128 KiB ({} in one line)", Point("submitters", "131072,round-robin,8", "evenness", 1.0, 2)),
    count(EXPERIMENTS, "throughput: {}, 400,157", Point("wrr", "the controller,high", "total_iops", 1.0, 0)),
    count(EXPERIMENTS, "high within {}, and of each", Point("wrr", "the controller,high", "p99_us", 1e-3, 2)),
    count(EXPERIMENTS, "of class low within {} ms", Point("wrr", "the controller,low", "p99_us", 1e-3, 1)),
    count(EXPERIMENTS, "large requests get {} % of", Point("sizes", "round-robin,128", "part", 100.0, 0)),
    count(EXPERIMENTS, "Device-direct gives {}, 32.9", Point("sizes", "device-direct,4", "part", 100.0, 1)),
    count(EXPERIMENTS, "32.9 and {} %. The", Point("sizes", "device-direct,128", "part", 100.0, 1)),
    count(EXPERIMENTS, "small requests take up to {} ms", Point("sizes", "device-direct,4", "p99_ms", 1.0, 1)),
    count(EXPERIMENTS, "up to {} under paced", Point("sizes", "paced,4", "p99_ms", 1.0, 1)),
    count(EXPERIMENTS, "table of {} records instead", Constant("lab/src/commands/experiment/extents.rs", "RECORDS")),
    count(EXPERIMENTS, "at most {} instructions among", Point("lookup", "16384", "instructions", 1.0, 0)),
    count(EXPERIMENTS, "fails above {} ns\n", Constant(LOOKUP, "MOST_NS")),
];

/// Writes the numbers into the sentences.
pub(super) fn make(_: &Project, texts: &mut Texts) -> Result<()> {
    for count in COUNTS {
        let number = count.source.number(texts)?;
        let text = document(texts, count.document)?;
        *text = with_number(text, count.words, &number).with_context(|| {
            format!(
                "{} has no sentence with '{}' in it once: change COUNTS in lab/src/commands/documents/counts.rs with it",
                count.document,
                count.words.trim()
            )
        })?;
    }
    Ok(())
}

/// The text with this number in the place that `words` name; `None` unless there is exactly one such place.
fn with_number(text: &str, words: &str, number: &str) -> Option<String> {
    let (before, after) = words.split_once("{}")?;
    let place = |(at, _): (usize, &str)| {
        let begin = at + before.len();
        let rest = text.get(begin..)?;
        let length = rest.find(|sign: char| !sign.is_ascii_digit() && !".,".contains(sign))?;
        // A full stop or comma at the end belongs to the sentence.
        let length = rest.get(..length)?.trim_end_matches(['.', ',']).len();
        let found = length > 0 && rest.get(length..)?.starts_with(after);
        found.then_some(begin..begin + length)
    };
    let mut places = text.match_indices(before).filter_map(place);
    let (place, None) = (places.next()?, places.next()) else { return None };
    let mut text = text.to_owned();
    text.replace_range(place, number);
    Some(text)
}

impl Source {
    /// The number in the documents' form.
    fn number(&self, texts: &Texts) -> Result<String> {
        let (value, decimals) = match *self {
            Constant(file, name) => (constant(texts, file, name)?, 0),
            Point(figure, line, column, times, decimals) => {
                let value = point(texts, &format!("docs/figures/{figure}.csv"), line, column)?;
                // The remaining part of a whole.
                let value = if times < 0.0 { (1.0 - value) * -times } else { value * times };
                (value, decimals)
            }
            Measured(row, column) => (measured(texts, row, column)?, 0),
        };
        Ok(grouped(value, decimals))
    }
}

fn constant(texts: &Texts, file: &str, name: &str) -> Result<f64> {
    let text = texts.get(file).with_context(|| format!("{file} is not there"))?;
    let values = text.lines().filter_map(|line| {
        let (_, after) = line.split_once(&format!("const {name}: "))?;
        let (_, value) = after.split_once(" = ")?;
        value.split(';').next()?.replace('_', "").parse::<f64>().ok()
    });
    let values: Vec<_> = values.collect();
    ensure!(values.len() == 1, "{file} has no constant {name} that is a number");
    Ok(values[0])
}

fn point(texts: &Texts, file: &str, line: &str, column: &str) -> Result<f64> {
    let text = texts.get(file).with_context(|| format!("{file} is not there"))?;
    let mut lines = text.lines();
    let at = lines.next().unwrap_or_default().split(',').position(|heading| heading == column);
    let begin = format!("{line},");
    let value = lines.find(|one| one.starts_with(&begin)).zip(at).and_then(|(line, at)| line.split(',').nth(at));
    value.and_then(|value| value.parse().ok()).with_context(|| format!("{file} has no {column} of {line}"))
}

fn measured(texts: &Texts, row: &str, column: &str) -> Result<f64> {
    let text = texts.get(BENCHMARKS).with_context(|| format!("{BENCHMARKS} is not there"))?;
    let cells = |line: &'_ str| line.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>();
    let (mut headings, mut before) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let cells = cells(line);
        if line.starts_with("|---") {
            headings = before;
        } else if cells.get(1).is_some_and(|name| name == row) {
            let at = headings.iter().position(|heading| heading == column);
            let value = at.and_then(|at| cells.get(at)).and_then(|cell| cell.replace(',', "").parse().ok());
            return value.with_context(|| format!("{BENCHMARKS} has no number of {row} in the column {column}"));
        }
        before = cells;
    }
    bail!("{BENCHMARKS} has no row of {row}")
}

/// A number with groups of three digits.
pub(super) fn grouped(number: f64, decimals: usize) -> String {
    let written = format!("{number:.decimals$}");
    let whole = written.find('.').unwrap_or(written.len());
    let group = |(index, sign): (usize, char)| {
        let comma = index > 0 && index < whole && (whole - index) % 3 == 0;
        comma.then_some(',').into_iter().chain([sign])
    };
    written.chars().enumerate().flat_map(group).collect()
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn a_number_is_put_where_the_words_are() {
        let put = |text, words| with_number(text, words, "1,200");
        assert_eq!(put("it takes 7 or 1,100.\n", "takes {} or").as_deref(), Some("it takes 1,200 or 1,100.\n"));
        assert_eq!(put("it takes 7 or 1,100.\n", "or {}.").as_deref(), Some("it takes 7 or 1,200.\n"));
        assert_eq!(put("it takes long\n", "takes {}"), None, "no number");
        assert_eq!(put("takes 7, takes 8\n", "takes {}"), None, "two places");
    }

    #[test]
    fn numbers_come_from_constants_and_data() {
        let texts = texts(&[
            (
                "a.rs",
                "/// Most.\npub(super) const MOST: u64 = 450_000;\nconst REACH: f64 = 60.5;\nconst NAME: &str = \"a\";",
            ),
            (
                BENCHMARKS,
                "| a read | in all |\n|---|---:|\n| `four` | 1,478 |\n\n| a read | most | in all |\n|---|\n| five | 5 | 6 |",
            ),
            ("docs/figures/f.csv", "policy,part,iops\npaced,0.062,41252.0\npaced-too,1,1\n"),
        ]);
        let number = |source: Source| source.number(&texts).map_err(|error| error.to_string());
        assert_eq!(number(Constant("a.rs", "MOST")).as_deref(), Ok("450,000"));
        assert_eq!(number(Point("f", "paced", "iops", 1e-3, 1)).as_deref(), Ok("41.3"));
        assert_eq!(number(Point("f", "paced", "part", -100.0, 0)).as_deref(), Ok("94"));
        assert_eq!(number(Measured("`four`", "in all")).as_deref(), Ok("1,478"));
        assert_eq!(number(Measured("five", "in all")).as_deref(), Ok("6"));
        assert_eq!(number(Measured("six", "in all")).unwrap_err(), "docs/benchmarks.md has no row of six");
        assert_eq!(number(Constant("a.rs", "NAME")).unwrap_err(), "a.rs has no constant NAME that is a number");
        assert_eq!(number(Point("f", "pace", "part", 1.0, 0)).unwrap_err(), "docs/figures/f.csv has no part of pace");
    }

    #[test]
    fn thousands_are_set_apart() {
        let grouped = |number| (super::grouped(number, 0), super::grouped(number, 1));
        assert_eq!(grouped(999.0), ("999".into(), "999.0".into()));
        assert_eq!(grouped(1_234_567.0), ("1,234,567".into(), "1,234,567.0".into()));
    }
}
