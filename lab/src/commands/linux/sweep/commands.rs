//! The commands of the sweep: valid and invalid fields of every kind of command.
//!
//! Left out: what would take the controller from Linux's driver (its queues, doorbell buffers, a namespace's deletion),
//! Asynchronous Event Request, which does not complete, and I/O commands with another NSID, which Linux does not send.

use std::fmt;

/// NSIDs: none, the namespace, one that is not there, all.
const NSIDS: [u32; 4] = [0, 1, 2, u32::MAX];
/// Features whose fields are swept.
const FEATURES: std::ops::RangeInclusive<u32> = 1..=0xb;
/// Further features that the model knows, with data that the sweep does not send.
const WITH_DATA: [u32; 2] = [0xc, 0x81];
/// Blocks of the namespace.
const BLOCKS: u64 = (128 << 20) / 512;
/// Bytes of a block, and of a range of Copy.
const BLOCK: u32 = 512;
const RANGE: u32 = 32;

/// A command.
pub(super) struct Command {
    /// The command's name for people and for explanations.
    pub(super) label: String,
    device: Device,
    opcode: u32,
    words: Words,
}

/// A device of Linux that takes commands: the number by which `lab/linux/send.c` knows it.
#[derive(Clone, Copy)]
enum Device {
    Controller = 0,
    Namespace = 1,
}

/// Fields of a command.
#[derive(Clone, Copy, Default)]
struct Words {
    nsid: u32,
    cdw2: u32,
    /// Words 10 to 15.
    words: [u32; 6],
    data: Data,
}

/// Data of a command.
#[derive(Clone, Copy, Default)]
enum Data {
    #[default]
    None,
    /// Bytes from the controller.
    In(u32),
    /// Zeros to the controller, so many bytes.
    Out(u32),
    /// To the controller: one range of Dataset Management, behind the namespace's end.
    Far,
}

/// All commands so far.
#[derive(Default)]
struct Commands(Vec<Command>);

impl Commands {
    fn admin(&mut self, label: String, opcode: u32, words: Words) {
        self.0.push(Command { label, device: Device::Controller, opcode, words });
    }

    fn io(&mut self, label: String, opcode: u32, words: Words) {
        self.0.push(Command { label, device: Device::Namespace, opcode, words: Words { nsid: 1, ..words } });
    }
}

/// A line of the file that `lab/linux/send.c` reads.
impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { label: _, device, opcode, words: Words { nsid, cdw2, words, data } } = self;
        write!(f, "{} {opcode:x} {nsid:x} {cdw2:x}", *device as u32)?;
        words.iter().try_for_each(|word| write!(f, " {word:x}"))?;
        let (bytes, first) = data.sent();
        write!(f, " {bytes:x}")?;
        first.iter().try_for_each(|word| write!(f, " {word:x}"))
    }
}

impl Data {
    /// Length in bytes, and the first four words before the transfer.
    const fn sent(self) -> (u32, [u32; 4]) {
        match self {
            Self::None => (0, [0; 4]),
            Self::In(bytes) | Self::Out(bytes) => (bytes, [0; 4]),
            // Eight blocks from block 2 to the power of 32.
            Self::Far => (16, [0, 8, 0, 1]),
        }
    }
}

/// All commands of the sweep.
pub(super) fn all() -> Vec<Command> {
    let mut all = Commands::default();
    unknown_opcodes(&mut all);
    identify(&mut all);
    log_pages(&mut all);
    features(&mut all);
    queues(&mut all);
    other_admin(&mut all);
    blocks(&mut all);
    other_io(&mut all);
    all.0
}

fn unknown_opcodes(all: &mut Commands) {
    // Those that others send below, or that are left out.
    let known = [0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x08, 0x09, 0x0a, 0x0c, 0x0d, 0x15, 0x18, 0x7c, 0x80];
    for opcode in (0..=0xff).filter(|opcode| !known.contains(opcode)) {
        all.admin(format!("admin opcode={opcode:02x}"), opcode, Words::default());
    }
    let known = [0x00, 0x01, 0x02, 0x04, 0x05, 0x08, 0x09, 0x0c, 0x19];
    for opcode in (0..=0xff).filter(|opcode| !known.contains(opcode)) {
        all.io(format!("io opcode={opcode:02x}"), opcode, Words::default());
    }
}

fn identify(all: &mut Commands) {
    let mut add = |label: String, nsid, words| {
        all.admin(format!("identify {label}"), 6, Words { nsid, words, data: Data::In(4096), ..Words::default() });
    };
    for cns in 0..0x20 {
        for nsid in NSIDS {
            add(format!("cns={cns:02x} nsid={nsid:x}"), nsid, [cns, 0, 0, 0, 0, 0]);
        }
    }
    for cns in 0x20..=0xff {
        add(format!("cns={cns:02x} nsid=0"), 0, [cns, 0, 0, 0, 0, 0]);
    }
    for controller in [0, 1, 0xffff] {
        for cns in [0, 1, 0x12, 0x13, 0x14, 0x15] {
            add(format!("cns={cns:02x} cntid={controller:x}"), 1, [cns | controller << 16, 0, 0, 0, 0, 0]);
        }
    }
    for uuid in [1, 0x7f] {
        add(format!("cns=01 uuid={uuid:x}"), 0, [1, 0, 0, 0, uuid, 0]);
    }
    for bit in [8, 12, 15] {
        add(format!("cns=01 reserved cdw10={bit}"), 0, [1 | 1 << bit, 0, 0, 0, 0, 0]);
    }
}

fn log_pages(all: &mut Commands) {
    let mut add = |label: String, nsid, words: [u32; 6], bytes| {
        all.admin(format!("log {label}"), 2, Words { nsid, words, data: Data::In(bytes), ..Words::default() });
    };
    let dwords = |lid: u32, bytes: u32| lid | (bytes / 4 - 1) << 16;
    for lid in 0..=0xff {
        let known = if (1..=5).contains(&lid) { "known" } else { "unknown" };
        add(format!("lid={lid:02x} {known} nsid=ffffffff"), u32::MAX, [dwords(lid, 512), 0, 0, 0, 0, 0], 512);
    }
    for lid in 1..=7 {
        let known = if lid <= 5 { "known" } else { "unknown" };
        for nsid in [0, 1, 2] {
            add(format!("lid={lid:02x} {known} nsid={nsid:x}"), nsid, [dwords(lid, 512), 0, 0, 0, 0, 0], 512);
        }
        for (name, offset) in [("4", 4), ("2", 2), ("512", 512), ("4096", 4096), ("far", 0x0100_0000)] {
            add(format!("lid={lid:02x} {known} offset={name}"), u32::MAX, [dwords(lid, 64), 0, offset, 0, 0, 0], 64);
        }
        for bytes in [4, 64, 4096, 8192] {
            add(format!("lid={lid:02x} {known} bytes={bytes}"), u32::MAX, [dwords(lid, bytes), 0, 0, 0, 0, 0], bytes);
        }
        add(format!("lid={lid:02x} {known} rae"), u32::MAX, [dwords(lid, 512) | 1 << 15, 0, 0, 0, 0, 0], 512);
        add(format!("lid={lid:02x} {known} lsp=f"), u32::MAX, [dwords(lid, 512) | 0xf << 8, 0, 0, 0, 0, 0], 512);
        add(format!("lid={lid:02x} {known} lsi=1"), u32::MAX, [dwords(lid, 512), 1 << 16, 0, 0, 0, 0], 512);
        add(format!("lid={lid:02x} {known} uuid=1"), u32::MAX, [dwords(lid, 512), 0, 0, 0, 1, 0], 512);
    }
}

fn features(all: &mut Commands) {
    let mut add = |get: bool, label: String, nsid, words: [u32; 6]| {
        let (verb, opcode) = if get { ("get", 0xa) } else { ("set", 9) };
        // Of those that the model knows, one has data: LBA ranges.
        let data = match words {
            [0x03, ..] if get => Data::In(4096),
            [0x03, ..] => Data::Out(4096),
            _ => Data::None,
        };
        all.admin(format!("{verb}-features {label}"), opcode, Words { nsid, words, data, ..Words::default() });
    };
    for feature in (0..=0xff).filter(|feature| !FEATURES.contains(feature) && !WITH_DATA.contains(feature)) {
        add(true, format!("fid={feature:02x} sel=0 nsid=0"), 0, [feature, 0, 0, 0, 0, 0]);
        // A host memory buffer or a keep-alive timer would change how the controller works.
        if feature != 0xd && feature != 0xf {
            add(false, format!("fid={feature:02x} value=0"), 0, [feature, 0, 0, 0, 0, 0]);
        }
    }
    for feature in FEATURES {
        for select in 0..8 {
            for nsid in NSIDS {
                let words = [feature | select << 8, 0, 0, 0, 0, 0];
                add(true, format!("fid={feature:02x} sel={select} nsid={nsid:x}"), nsid, words);
            }
        }
        add(false, format!("fid={feature:02x} save"), 0, [feature | 1 << 31, 0, 0, 0, 0, 0]);
        for nsid in NSIDS {
            add(false, format!("fid={feature:02x} nsid={nsid:x}"), nsid, [feature, 0, 0, 0, 0, 0]);
        }
    }
    for state in [1, 2, 31] {
        add(false, format!("fid=02 state={state}"), 0, [2, state, 0, 0, 0, 0]);
    }
    for sensor in 0..16 {
        for threshold in 0..4 {
            let value = 350 | sensor << 16 | threshold << 20;
            add(false, format!("fid=04 sensor={sensor} threshold={threshold}"), 0, [4, value, 0, 0, 0, 0]);
        }
    }
    for vector in [0, 1, 2, 3, 64, 65, 0xffff] {
        add(false, format!("fid=09 vector={vector}"), 0, [9, vector, 0, 0, 0, 0]);
    }
    for (queues, name) in [(0x0001_0001, "1"), (0xffff_ffff, "all"), (0xffff_0000, "cqs")] {
        add(false, format!("fid=07 queues={name}"), 0, [7, queues, 0, 0, 0, 0]);
    }
}

fn queues(all: &mut Commands) {
    for (name, opcode) in [("cq", 5), ("sq", 1)] {
        for id in [0, 1, 100, 0xffff] {
            for size in [0, 0xffff] {
                for flags in [0, 1, 7] {
                    let words = [id | size << 16, flags | 1 << 16, 0, 0, 0, 0];
                    let label = format!("create-{name} id={id} size={size} flags={flags}");
                    all.admin(label, opcode, Words { words, data: Data::Out(4096), ..Words::default() });
                }
            }
        }
    }
    for (name, word) in [("vector=ffff", 0xffff_0003_u32), ("vector=66", 66 << 16 | 3)] {
        let words = [60 | 3 << 16, word, 0, 0, 0, 0];
        all.admin(format!("create-cq id=60 {name}"), 5, Words { words, data: Data::Out(4096), ..Words::default() });
    }
    for cq in [0, 50, 0xffff] {
        let words = [60 | 3 << 16, 1 | cq << 16, 0, 0, 0, 0];
        all.admin(format!("create-sq id=60 cq={cq}"), 1, Words { words, data: Data::Out(4096), ..Words::default() });
    }
    // A completion queue that is created, created again, and deleted twice.
    for step in ["create", "create-again", "delete", "delete-again"] {
        let is_creation = step.starts_with("create");
        let words = [60 | if is_creation { 3 << 16 } else { 0 }, u32::from(is_creation), 0, 0, 0, 0];
        let data = if is_creation { Data::Out(4096) } else { Data::None };
        all.admin(format!("cq {step}"), if is_creation { 5 } else { 4 }, Words { words, data, ..Words::default() });
    }
    for (name, opcode) in [("sq", 0), ("cq", 4)] {
        for id in [0, 40, 65, 0xffff] {
            let words = [id, 0, 0, 0, 0, 0];
            all.admin(format!("delete-{name} id={id}"), opcode, Words { words, ..Words::default() });
        }
    }
}

fn other_admin(all: &mut Commands) {
    for (queue, command) in [(0, 0xffff), (1, 0xffff), (40, 0), (0xffff, 0)] {
        let words = [queue | command << 16, 0, 0, 0, 0, 0];
        all.admin(format!("abort sq={queue} cid={command:x}"), 8, Words { words, ..Words::default() });
    }
    for (name, range) in [("format", 0..16), ("protection", 0..8), ("metadata", 0..2), ("erase", 0..8)] {
        // The formats' sizes differ, so only the first one leaves the namespace as it is.
        let shift = match name {
            "format" => 0,
            "protection" => 5,
            "metadata" => 4,
            _ => 9,
        };
        for value in range.filter(|value| name != "format" || *value == 0 || *value > 7) {
            let words = [value << shift, 0, 0, 0, 0, 0];
            all.admin(format!("format-nvm {name}={value}"), 0x80, Words { nsid: 1, words, ..Words::default() });
        }
    }
    for nsid in [0, 2, 3] {
        all.admin(format!("format-nvm nsid={nsid}"), 0x80, Words { nsid, ..Words::default() });
    }
    for select in 0..16 {
        for nsid in [0, 2] {
            let whole = Words { nsid, words: [select, 0, 0, 0, 0, 0], data: Data::Out(4096), ..Words::default() };
            all.admin(format!("namespace-management sel={select} nsid={nsid}"), 0xd, whole);
            all.admin(format!("namespace-attachment sel={select} nsid={nsid}"), 0x15, whole);
        }
    }
    all.admin("keep-alive".to_owned(), 0x18, Words::default());
    let identify = Words { words: [1, 0, 0, 0, 0, 0], data: Data::In(4096), ..Words::default() };
    all.admin("identify reserved cdw2".to_owned(), 6, Words { cdw2: 1, ..identify });
    for at in 1..6 {
        let mut words = identify.words;
        if let Some(word) = words.get_mut(at) {
            *word = 1 << 31;
        }
        all.admin(format!("identify reserved cdw{}", at + 10), 6, Words { words, ..identify });
    }
}

fn blocks(all: &mut Commands) {
    let commands = [("write", 1, 1), ("read", 2, 2), ("compare", 5, 1), ("write-zeroes", 8, 0), ("verify", 0xc, 0)];
    for (name, opcode, direction) in commands {
        let data = |count: u32| match direction {
            1 => Data::Out(count * BLOCK),
            2 => Data::In(count * BLOCK),
            _ => Data::None,
        };
        let places =
            [("0", 0), ("last", BLOCKS - 1), ("end", BLOCKS), ("2e32", 1 << 32), ("2e63", 1 << 63), ("max", u64::MAX)];
        for (place, first) in places {
            for count in [1, 2, 8, 128] {
                let words = [first as u32, (first >> 32) as u32, count - 1, 0, 0, 0];
                let label = format!("{name} at={place} blocks={count}");
                all.io(label, opcode, Words { words, data: data(count), ..Words::default() });
            }
        }
        for bit in [20, 25, 26, 27, 28, 29, 30, 31] {
            let words = [0, 0, 1 << bit, 0, 0, 0];
            all.io(format!("{name} cdw12-bit={bit}"), opcode, Words { words, data: data(1), ..Words::default() });
        }
        for (at, bit) in [(3, 0), (3, 4), (3, 8), (4, 0), (5, 0), (5, 16)] {
            let mut words = [0; 6];
            if let Some(word) = words.get_mut(at) {
                *word = 1 << bit;
            }
            let label = format!("{name} cdw{}-bit={bit}", at + 10);
            all.io(label, opcode, Words { words, data: data(1), ..Words::default() });
        }
        all.io(format!("{name} cdw2"), opcode, Words { cdw2: 1, data: data(1), ..Words::default() });
    }
    for opcode in [8, 0xc] {
        let words = [0, 0, 0xffff, 0, 0, 0];
        let name = if opcode == 8 { "write-zeroes" } else { "verify" };
        all.io(format!("{name} blocks=65536"), opcode, Words { words, ..Words::default() });
    }
}

fn other_io(all: &mut Commands) {
    all.io("flush".to_owned(), 0, Words::default());
    for at in 0..6 {
        let mut words = [0; 6];
        if let Some(word) = words.get_mut(at) {
            *word = 1;
        }
        all.io(format!("flush reserved cdw{}", at + 10), 0, Words { words, ..Words::default() });
    }
    all.io("write-uncorrectable".to_owned(), 4, Words::default());
    for attributes in 0..8 {
        for ranges in [0, 3, 255] {
            let words = [ranges, attributes, 0, 0, 0, 0];
            // Every range is zeroes: no blocks.
            let label = format!("dataset-management attributes={attributes} ranges={ranges}");
            all.io(label, 9, Words { words, data: Data::Out(4096), ..Words::default() });
        }
    }
    for attributes in [0, 4] {
        let label = format!("dataset-management attributes={attributes} out-of-range");
        all.io(label, 9, Words { words: [0, attributes, 0, 0, 0, 0], data: Data::Far, ..Words::default() });
    }
    for format in 0..16 {
        // One range of zeroes: one block.
        let words = [BLOCKS as u32 / 2, 0, format << 8, 0, 0, 0];
        all.io(format!("copy format={format}"), 0x19, Words { words, data: Data::Out(RANGE), ..Words::default() });
    }
    for (name, to, ranges) in [("to=end", BLOCKS, 1), ("ranges=128", BLOCKS / 2, 128), ("ranges=256", BLOCKS / 2, 256)]
    {
        let words = [to as u32, 0, ranges - 1, 0, 0, 0];
        all.io(format!("copy {name}"), 0x19, Words { words, data: Data::Out(ranges * RANGE), ..Words::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_command_has_a_label_of_its_own() {
        let commands = all();
        let labels: BTreeSet<_> = commands.iter().map(|command| &command.label).collect();
        assert_eq!(labels.len(), commands.len());
    }

    #[test]
    fn a_line_has_all_words_of_its_command() {
        let mut all = Commands::default();
        let words = Words { nsid: 2, cdw2: 9, words: [1, 2, 3, 4, 5, 16], data: Data::In(512) };
        all.admin("a".to_owned(), 6, words);
        all.io("b".to_owned(), 9, Words { data: Data::Far, ..words });
        let lines = ["0 6 2 9 1 2 3 4 5 10 200 0 0 0 0", "1 9 1 9 1 2 3 4 5 10 10 0 8 0 1"];
        assert_eq!(all.0.iter().map(ToString::to_string).collect::<Vec<_>>(), lines);
    }
}
