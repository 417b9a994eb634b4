//! Scenario text: any text, and the project's own scenarios with words and lines changed.
//!
//! The law: a text is refused with sentences that name the file, each on one line that a terminal can show. Otherwise the
//! system of the scenario can be built, its authority proven, and its image, its text in the capDL language and its picture
//! made. The image then decodes to its specification.

use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use capdl::{BuildError, Programs, Scenario, ScenarioError};
use capdl_spec::Specification;
use std::sync::OnceLock;

/// The target.
pub const TARGET: Target = Target { name: "scenario", law, seeds };

const FILE: &str = "scenarios/fuzzed.toml";
/// The first byte of an input that changes one of [`SCENARIOS`]; other inputs are the text itself.
const CHANGED: u8 = 0;
/// The longest sentence, in characters.
const SENTENCE: usize = 600;
/// A scenario of more components is not built: it would take longer than an input may.
const COMPONENTS: usize = 40;

macro_rules! scenarios {
    ($($name:literal),* $(,)?) => { [$(include_str!(concat!("../../scenarios/", $name, ".toml"))),*] };
}

/// A scenario for each kind of thing that a scenario can name.
const SCENARIOS: [&str; 15] = scenarios![
    "boot",
    "demo",
    "revoked",
    "shares-change",
    "queues-change",
    "queues-pool",
    "controller-fails",
    "server-killed",
    "client-cycles",
    "namespaces",
    "wrr",
    "probe-dma",
    "edu",
    "functions",
    "hotplug",
];

fn law(input: &[u8], subject: Subject) {
    match input.split_first() {
        Some((&CHANGED, rest)) => holds(&changed(&mut Unstructured::new(rest)), subject),
        _ => holds(&String::from_utf8_lossy(input), subject),
    }
}

fn holds(text: &str, subject: Subject) {
    let scenario = match Scenario::parse(text, FILE) {
        Ok(scenario) => scenario,
        Err(error) => {
            let others = error.others.clone();
            let refusals = std::iter::once(ScenarioError { others: Vec::new(), ..error }).chain(others);
            refusals.for_each(|refusal| is_sentence(&refusal, text));
            return;
        }
    };
    if scenario.components().len() > COMPONENTS {
        return;
    }
    let system = match capdl::build(&scenario.drawn(1), programs(subject)) {
        Ok(system) => system,
        Err(BuildError::EnvironmentTooLarge { .. }) => return,
        Err(error) => panic!("accepted, and cannot be built: {error}"),
    };
    let image = system.image();
    let (specification, data) = Specification::parse(&image).expect("its own image");
    assert!(specification == system.specification && data == system.data, "the image is not what it was made of");
    assert!(!system.cdl().is_empty() && system.svg().contains("<svg"), "neither text nor picture");
}

/// A refusal is one sentence, on one line that a terminal can show.
fn is_sentence(refusal: &ScenarioError, text: &str) {
    let sentence = refusal.to_string();
    assert!(sentence.starts_with(FILE), "{sentence:?} does not begin with its place");
    assert!(!refusal.message.is_empty() && sentence.chars().count() <= SENTENCE, "{sentence:?} is no sentence");
    assert!(!sentence.chars().any(char::is_control), "{sentence:?} cannot be shown");
    let lines = text.lines().count().max(1);
    assert!(refusal.line.is_none_or(|line| (1..=lines + 1).contains(&line)), "{sentence:?}, of {lines} lines");
}

/// The planted defect: a project that lacks a program.
fn programs(subject: Subject) -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    static NONE: OnceLock<Programs> = OnceLock::new();
    match subject {
        Subject::Real => PROGRAMS.get_or_init(|| sim::programs(capdl::Arch::X86_64)),
        Subject::Planted => NONE.get_or_init(Programs::new),
    }
}

/// A scenario of the project with some words and lines changed.
fn changed(input: &mut Unstructured<'_>) -> String {
    let base = SCENARIOS[input.int_in_range(0..=SCENARIOS.len() - 1).unwrap_or(0)];
    let mut lines: Vec<String> =
        base.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).map(Into::into).collect();
    let changes = input.int_in_range(0..=5).unwrap_or(0);
    let _ = (0..changes).try_for_each(|_| change(&mut lines, input));
    lines.join("\n")
}

/// Values to put in place of a value.
const VALUES: [&str; 24] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "64",
    "255",
    "256",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "1.5",
    "true",
    "false",
    "\"\"",
    "\"alice\"",
    "\"0\"",
    "\"1G\"",
    "\"99999999999999T\"",
    "[]",
    "{}",
];

fn change(lines: &mut Vec<String>, input: &mut Unstructured<'_>) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    let at = usize::from(input.arbitrary::<u8>()?) % lines.len();
    let other = usize::from(input.arbitrary::<u8>()?) % lines.len();
    match input.int_in_range(0..=7u8)? {
        0 => drop(lines.remove(at)),
        1 => lines.swap(at, other),
        2 => lines.insert(at, lines[other].clone()),
        3 => {
            // A line of another scenario.
            let from = SCENARIOS[input.int_in_range(0..=SCENARIOS.len() - 1)?];
            let from: Vec<_> = from.lines().filter(|line| line.contains('=')).collect();
            lines.insert(at, from[other % from.len()].to_owned());
        }
        4 => {
            // Another number of digits in the same place, or another character anywhere.
            let character =
                *input.choose(&['0', '9', '"', '[', ']', '{', '}', ',', '=', ' ', '\u{1b}', '\u{7f}', 'ä', '\\'])?;
            let places: Vec<_> = lines[at].char_indices().map(|(place, _)| place).collect();
            let place = places.get(other % places.len().max(1)).copied().unwrap_or(0);
            lines[at].insert(place, character);
        }
        // The value behind an equals sign.
        _ => {
            let equals: Vec<usize> = lines[at].match_indices('=').map(|(place, _)| place).collect();
            let Some(equals) = equals.get(other % equals.len().max(1)) else { return Ok(()) };
            let value = if input.ratio(1, 4)? { number(input)? } else { (*input.choose(&VALUES)?).to_owned() };
            let rest = &lines[at][equals + 1..];
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            lines[at] = format!("{}= {value}{}", &lines[at][..*equals], &rest[end..]);
        }
    }
    Ok(())
}

/// A number of any size, the small ones as often as the large ones.
fn number(input: &mut Unstructured<'_>) -> Result<String> {
    let number = input.arbitrary::<u64>()? >> input.int_in_range(0..=63u8)?;
    Ok(number.to_string())
}

/// Each scenario as it is written, and each unchanged.
fn seeds() -> Vec<Vec<u8>> {
    let unchanged = (0..SCENARIOS.len() as u8).map(|number| vec![CHANGED, number, 0]);
    SCENARIOS.iter().map(|text| text.as_bytes().to_vec()).chain(unchanged).collect()
}
