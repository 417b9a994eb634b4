//! The serial line: whole frames with any bytes as log messages, reports, clocks and counts of lost messages, and anything
//! between them.
//!
//! The law: the build machine reads all of it. No frame keeps it from making the page of results, the JSON, the picture and
//! the log. These are the same however the line was cut into pieces, and have no control characters that a terminal would
//! act on.

use crate::target::{Subject, Target};
use arbitrary::Unstructured;
use capdl::Scenario;
use capdl_spec::Role;
use object::write::{Object, Symbol, SymbolSection};
use report::frame::{Kind, MAX_FRAME, Piece, Reader, encode};
use report::ring::MAX_RECORD;
use std::sync::OnceLock;
use xtask::run::reading::{Reading, read};

/// The target.
pub const TARGET: Target = Target { name: "frames", law, seeds };

/// The components of [`SCENARIO`], by their numbers.
const COMPONENTS: [(&str, Option<Role>); 6] = [
    ("root-task", None),
    ("console", Some(Role::Console)),
    ("pci-server", Some(Role::PciServer)),
    ("nvme-server", Some(Role::NvmeServer)),
    ("policy", Some(Role::Policy)),
    ("alice", Some(Role::Client)),
];
const SCENARIO: &str = include_str!("../../scenarios/boot.toml");
/// Kinds that an input names; the fifth is noise.
const KINDS: [Kind; 4] = [Kind::Log, Kind::Report, Kind::Lost, Kind::Clock];
/// Virtual time of the run from which seeds are taken, at most, and its frames.
const SEED_NS: u64 = 10_000_000_000;
const SEED_FRAMES: usize = 200;

fn law(input: &[u8], subject: Subject) {
    let line = line(input);
    let whole = shown(&[&line]);
    let cut = line.len() / 2;
    let (first, second) = line.split_at(cut);
    let second = match subject {
        Subject::Real => second,
        // The planted defect: a byte is lost where the line was cut.
        Subject::Planted => second.get(1..).unwrap_or_default(),
    };
    assert_eq!(whole, shown(&[first, second]), "the pieces of a line say something else than the line");
}

fn shown(pieces: &[&[u8]]) -> Reading {
    static GROUND: OnceLock<(Scenario, Vec<u8>)> = OnceLock::new();
    let (scenario, elf) = GROUND.get_or_init(|| (Scenario::parse(SCENARIO, "boot.toml").expect("boot"), program()));
    let reading = read(scenario, &COMPONENTS, elf, pieces).expect("results that can be shown");
    let acted_on = |c: &char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    for (what, text) in
        [("page", &reading.page), ("JSON", &reading.json), ("picture", &reading.picture), ("log", &reading.log)]
    {
        assert_eq!(text.chars().find(acted_on), None, "a control character in the {what}");
    }
    reading
}

/// The line of an input: component, kind, length (two bytes), bytes, and so on.
fn line(input: &[u8]) -> Vec<u8> {
    let mut rest = Unstructured::new(input);
    let mut line = Vec::new();
    while !rest.is_empty() {
        let Ok([component, kind, low, high]) = rest.arbitrary::<[u8; 4]>() else { break };
        let len = usize::from(u16::from_le_bytes([low, high])) % (MAX_RECORD + 1);
        let bytes = rest.bytes(len.min(rest.len())).unwrap_or_default();
        match KINDS.get(usize::from(kind) % 5) {
            Some(kind) => {
                let mut frame = [0; MAX_FRAME];
                let len = encode(component.into(), *kind, bytes, &mut frame).unwrap_or(0);
                line.extend_from_slice(&frame[..len]);
            }
            None => line.extend_from_slice(bytes),
        }
    }
    line
}

/// An ELF file with a message of every kind of argument, in the form that defmt's decoder expects.
fn program() -> Vec<u8> {
    let messages = [
        ("info", "started"),
        ("debug", "{=u8} {=u16} {=u32} {=u64} {=u128} {=usize}"),
        ("warn", "{=i8} {=i16} {=i32} {=i64} {=i128} {=isize} {=bool} {=char}"),
        ("error", "{=str} {=[u8]} {=[u8;4]:#x} {=f32} {=f64}"),
        ("trace", "{=?} {=[?]} {=?:#04x}"),
        ("println", "{=0..4} {=4..8} {=u8:b} {=istr}"),
        ("info", "{=u64:us} {=u64:ts} {=[u8]:a} {0=u8}"),
    ];
    let mut elf = Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
    let segment = elf.segment_name(object::write::StandardSegment::Data).to_vec();
    let section = elf.add_section(segment, b".defmt".to_vec(), object::SectionKind::ReadOnlyData);
    elf.append_section_data(section, &[0; 64], 1);
    let mut symbol = |name: String, value: u64| {
        elf.add_symbol(Symbol {
            name: name.into_bytes(),
            value,
            size: 1,
            kind: object::SymbolKind::Data,
            scope: object::SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: object::SymbolFlags::None,
        });
    };
    symbol("_defmt_version_ = 4".into(), 0);
    symbol("_defmt_encoding_ = raw".into(), 0);
    let json = |tag: &str, data: &str, number: usize| {
        let named = format!("\"package\":\"p\",\"tag\":\"{tag}\",\"data\":\"{data}\"");
        format!("{{{named},\"disambiguator\":\"{number}\",\"crate_name\":\"c\"}}")
    };
    for (number, (level, text)) in (1..).zip(messages) {
        symbol(json(&format!("defmt_{level}"), text, number), number as u64);
    }
    symbol(json("defmt_timestamp", "{=u64:us}", 40), 40);
    symbol(json("defmt_str", "a word", 41), 41);
    symbol(json("defmt_derived", "Derived {{ a: {=u8}, b: {=?} }}", 42), 42);
    elf.write().expect("an ELF file")
}

/// The frames of a simulated run of the scenario, in the form of inputs; and a log message of each kind.
fn seeds() -> Vec<Vec<u8>> {
    let scenario = Scenario::parse(SCENARIO, "boot.toml").expect("boot");
    let system = capdl::build(&scenario.drawn(1), &sim::programs(scenario.machine.arch)).expect("the system of boot");
    let disks =
        scenario.controllers.iter().map(|one| one.namespaces.iter().map(|_| sim::Disk::zeroes()).collect()).collect();
    let mut simulation = sim::Simulation::new(&scenario, &system, disks, &scenario.faults, 1);
    simulation.run_until(SEED_NS);
    let mut frames = Vec::new();
    let mut reader = Reader::new();
    reader.feed(&simulation.take_serial(), &mut |piece| {
        if let Piece::Frame { component, kind, bytes } = piece {
            frames.push(input(component as u8, kind, bytes));
        }
    });
    frames.truncate(SEED_FRAMES);
    let log = (1..=7u8).map(|index| {
        let mut bytes = vec![index, 0];
        bytes.extend(7u64.to_le_bytes());
        bytes.extend([3; 40]);
        input(3, Kind::Log, &bytes)
    });
    let log: Vec<_> = log.collect();
    let mut seeds = vec![frames.concat(), log.concat(), b"\x00\x04\x05\x00noise".to_vec()];
    // Each kind of report by itself is shorter to change.
    frames.dedup_by_key(|frame| frame.get(12).copied());
    seeds.extend(frames);
    seeds
}

fn input(component: u8, kind: Kind, bytes: &[u8]) -> Vec<u8> {
    let kind = KINDS.iter().position(|one| *one == kind).unwrap_or(4) as u8;
    let mut input = vec![component, kind];
    input.extend((bytes.len() as u16).to_le_bytes());
    input.extend_from_slice(bytes);
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_messages_of_the_program_decode() {
        let log = shown(&[&line(&seeds()[1])]).log;
        assert!(log.contains("INFO  started"), "{log}");
    }

    #[test]
    fn the_simulated_runs_reports_are_read() {
        let page = shown(&[&line(&seeds()[0])]).page;
        assert!(page.contains("alice"), "{page}");
    }
}
