//! Controllers and tenants, and the tenants' work: loads that verify, and beside some of them an attacker.

use super::{Controller, Draw, Expect};
use std::fmt::Write as _;

/// Blocks of the first namespace of a drawn controller, which all its tenants with sessions share.
const BLOCKS: u64 = 65_536;
/// Blocks of the namespace of a virtual function.
const FUNCTION_BLOCKS: u64 = 4096;

/// Last attacks after which the server expels the attacker.
const EXPELLED: [&str; 3] = ["tail-beyond-ring", "tail-backwards", "head-beyond-ring"];
/// Last attacks that end in a fault.
const FAULTS: [&str; 3] = ["unmapped-read", "read-only-write", "panic"];
/// The last attack that waits without end.
const SILENCE: &str = "silence";
/// The last attack that runs without end, so it must not be more urgent than any other thread.
const FLOOD: &str = "flood";

/// Priorities on the processor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Priorities {
    /// The defaults of a scenario.
    Usual,
    /// Console and tenants alike, and the server too where a tenant polls: no thread that never sleeps can starve another.
    Alike,
}

impl Priorities {
    /// Returns the ways in which completions may be noticed.
    const fn completions(self) -> &'static [&'static str] {
        match self {
            Self::Usual => &["interrupt"],
            Self::Alike => &["interrupt", "hybrid", "polled"],
        }
    }
}

/// Records of a table that is too small for all: the minimum for as many tenants as a controller can have.
const FEW_RECORDS: u64 = 16;

/// Queue pairs that tenants share, in one of three systems.
const SHARED: [&str; 3] = [
    "{ shared = { queue_pairs = 2, depth = 16 } }",
    "{ per-core = { cores = 2, depth = 32 } }",
    "{ pool-per-core = { cores = 2, queue_pairs = 2, depth = 8 } }",
];

/// Interrupt modes of controllers.
const INTERRUPTS: [&str; 4] = ["msix", "msix", "msi", "intx"];

/// Settings that hold for all tenants.
#[derive(Clone, Copy)]
struct Server {
    priorities: Priorities,
    /// The way in which completions are noticed, where tenants share queue pairs and so must be alike in it.
    sharing: Option<&'static str>,
    /// Each of a tenant's queue pairs has a speed of its own.
    has_speeds: bool,
}

/// Draws the system.
pub(super) fn draw(draw: &mut Draw, expect: &mut Expect, text: &mut String) -> Vec<Controller> {
    let count = if draw.once_in(4) { 2 } else { 1 };
    let mut controllers: Vec<_> = (0..count).map(|number| draw.controller(number, count, text)).collect();
    let server = draw.server(text);
    for controller in &mut controllers {
        draw.tenants(controller, server, expect, text);
    }
    // Tenants are as urgent as their server only if one of them polls.
    if text.contains("completion = \"polled\"") {
        *text = text.replacen("[server]\n", "[server]\npriority = 100\n", 1);
    }
    controllers
}

impl Draw {
    fn server(&mut self, text: &mut String) -> Server {
        let priorities = if self.once_in(3) { Priorities::Alike } else { Priorities::Usual };
        if priorities == Priorities::Alike {
            text.push_str("[console]\npriority = 100\n\n");
        }
        let policy = self.one_of(&["round-robin", "dedicated", "weighted", "device-direct", "paced"]);
        let has_speeds = policy == "device-direct";
        let _ = write!(text, "[server]\npolicy = \"{policy}\"\n");
        if self.once_in(2) {
            let _ = writeln!(text, "records = {FEW_RECORDS}");
        }
        let sharing = (!has_speeds && self.once_in(3)).then(|| {
            let _ = writeln!(text, "queues = {}", self.one_of(&SHARED));
            self.one_of(priorities.completions())
        });
        text.push('\n');
        Server { priorities, sharing, has_speeds }
    }

    fn controller(&mut self, number: u64, count: u64, text: &mut String) -> Controller {
        let functions = if self.once_in(3) { 1 + self.below(3) } else { 0 };
        // Virtual functions need a PCI Express port above, and interrupts that no driver shares.
        let (attach, interrupts, changes) = if functions > 0 {
            (self.one_of(&["root-port", "switch"]), "msix", String::new())
        } else {
            let interrupts = self.one_of(&INTERRUPTS);
            (self.one_of(&["root", "root-port", "switch", "bridge"]), interrupts, self.interrupts_changes(interrupts))
        };
        let block_bytes = self.one_of(&[512, 4096]);
        let size = BLOCKS * block_bytes;
        let media = self.one_of(&["open-express", "dram", "mram", "pram", "flash"]);
        let (stride, queue_entries) = (self.below(5), 64 << self.below(6));
        let (max_transfer, write_cache) = (3 + self.below(5), self.one_of(&[0, 1 << 20]));
        let arbitration = self.one_of(&["round-robin", "weighted-round-robin"]);
        let ((vector, registers), (left, saved)) = (self.registers(functions), self.left(attach));
        let limits = if self.once_in(2) { self.limits() } else { String::new() };
        let name = format!("disk-{number}");
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "[[controller]]\nname = \"{name}\"\nattach = \"{attach}\"\ninterrupts = \"{interrupts}\"\nvirtual_functions = {functions}\n\
             {registers}model = {{ media = \"{media}\", doorbell_stride = {stride}, queue_entries = {queue_entries}, \
             max_transfer = {max_transfer}, write_cache = {write_cache}, arbitration = \"{arbitration}\"{limits}{left} }}\n\n{changes}{saved}\
             [[controller.namespace]]\nsize = {size}\nblock_bytes = {block_bytes}\ncontent = \"pattern\"\n\n"
        );
        if functions == 0 && self.once_in(4) {
            // It cannot be served, and must not disturb the others.
            let odd = self.one_of(&[
                "inactive = true",
                "metadata = 8",
                "metadata = 8, protection = 1",
                "command_set = \"zoned\"",
            ]);
            let _ = write!(
                text,
                "[[controller.namespace]]\nsize = {size}\nblock_bytes = {block_bytes}\nmodel = {{ {odd} }}\n\n"
            );
        }
        for _ in 0..functions {
            let left = if self.once_in(3) { 1 + self.below(functions) } else { 0 };
            let _ = write!(
                text,
                "[[controller.namespace]]\nsize = {}\nblock_bytes = {block_bytes}\ncontent = \"pattern\"\n\
                 model = {{ left_attached_to = {left} }}\n\n",
                FUNCTION_BLOCKS * block_bytes
            );
        }
        let component = |of: &str| if count > 1 { format!("{of}-{name}") } else { of.to_owned() };
        let (server, policy) = (component("nvme-server"), component("policy"));
        let (loads, function_loads) = (Vec::new(), Vec::new());
        Controller { name, server, policy, loads, attacker: None, vector, functions, function_loads }
    }

    /// Draws the number of vectors, and a Controller Memory Buffer. Returns a vector that there is: not 0, if possible.
    fn registers(&mut self, functions: u64) -> (u64, String) {
        // Virtual functions take vectors of their own, and QEMU's controller has no buffer beside them.
        let vectors = if functions == 0 { self.one_of(&[0, 0, 1, 2, 3]) } else { 0 };
        let buffer = self.one_of(&[0, 0, 1 << 20]) * u64::from(functions == 0);
        (u64::from(vectors != 1), format!("vectors = {vectors}\nmemory_buffer = {buffer}\n"))
    }

    /// Draws how large the registers are, and what software left that ran before: keys of the model, and saved features.
    fn left(&mut self, attach: &str) -> (String, String) {
        let (d3hot, bridges_d3hot) = (self.once_in(4), attach != "root" && self.once_in(4));
        let soft_reset = (d3hot || bridges_d3hot) && self.once_in(2);
        let keys = format!(
            ", register_bytes = {}, table_bar = {}, d3hot = {d3hot}, bridges_d3hot = {bridges_d3hot}, \
             soft_reset = {soft_reset}, masks_left = {}",
            self.one_of(&[0, 0, 1 << 20]),
            self.once_in(4),
            self.once_in(4)
        );
        let value = self.below(1 << 16);
        let saved = if self.once_in(4) {
            format!("[[controller.saved]]\nfeature = 8\nvalue = {value}\n\n")
        } else {
            String::new()
        };
        (keys, saved)
    }

    /// Draws limits of commands without data, and delays before retries.
    fn limits(&mut self) -> String {
        let (vsl, wzsl, dmrl) = (self.below(5), self.below(5), self.below(3));
        let (dmrsl, dmsl) = (self.one_of(&[0, 1, 60, 5000]), self.one_of(&[0, 7, 3000]));
        let delays = [self.below(3), self.below(5), 0];
        format!(
            ", version = \"2.0\", vsl = {vsl}, wzsl = {wzsl}, dmrl = {dmrl}, dmrsl = {dmrsl}, dmsl = {dmsl}, retry_delays = {delays:?}"
        )
    }

    /// Draws up to three changes of the interrupt mode in one of three systems, and then one back to the first mode: servers
    /// hold as much as before at the end.
    fn interrupts_changes(&mut self, first: &'static str) -> String {
        let count = if self.once_in(3) { 1 + self.below(3) } else { 0 };
        let mut ways: Vec<&str> = (0..count).map(|_| self.one_of(&INTERRUPTS)).collect();
        ways.extend((count > 0).then_some(first));
        let mut after_ms = 0;
        let mut change = |to: &str| {
            after_ms += 1 + self.below(120);
            format!("[[controller.change]]\nafter_ms = {after_ms}\ninterrupts = \"{to}\"\n\n")
        };
        ways.into_iter().map(&mut change).collect()
    }

    /// Draws tenants that share the blocks. The last is an attacker in one of four systems with more than one tenant.
    fn tenants(&mut self, controller: &mut Controller, server: Server, expect: &mut Expect, text: &mut String) {
        let Server { priorities, sharing, has_speeds } = server;
        let tenants = 1 + self.below(4);
        let part = BLOCKS / tenants;
        let attacks = tenants > 1 && self.once_in(4);
        for number in 0..tenants {
            let name = format!("{}-{number}", controller.name.replace("disk-", "t"));
            let class = self.one_of(&["urgent", "high", "medium", "low"]);
            let completion = sharing.unwrap_or_else(|| self.one_of(priorities.completions()));
            let own = if has_speeds { 3 } else { 1 + self.below(3) };
            let depth = 1 << self.below(6);
            let queue_pairs = if sharing.is_some() { 0 } else { own };
            let extents = self.extents(part * number, part);
            let priority = if priorities == Priorities::Alike { "priority = 100\n" } else { "" };
            let _ = write!(
                text,
                "[[tenant]]\nname = \"{name}\"\ncontroller = \"{}\"\nclass = \"{class}\"\n\
                 queue_pairs = {queue_pairs}\ndepth = {depth}\nwindow = \"4M\"\ncompletion = \"{completion}\"\n{priority}\
                 extents = [{extents}]\n\n",
                controller.name
            );
            if attacks && number + 1 == tenants {
                self.attack(&name, part, priorities, expect, text);
                controller.attacker = Some(name);
            } else {
                self.load(text);
                controller.loads.push(name);
            }
        }
    }

    /// Draws up to eight extents among `part` blocks from `first` on, in any order, with or without blocks between them.
    fn extents(&mut self, first: u64, part: u64) -> String {
        let pieces = 1 + self.below(8);
        let stride = part / pieces;
        let blocks = if self.once_in(2) { stride } else { stride / 8 * 7 };
        let mut left: Vec<u64> = (0..pieces).collect();
        let mut extents = Vec::new();
        while !left.is_empty() {
            let piece = left.swap_remove(self.below(left.len() as u64) as usize);
            extents.push(format!("{{ first = {}, blocks = {blocks} }}", first + stride * piece));
        }
        extents.join(", ")
    }

    pub(super) fn load(&mut self, text: &mut String) {
        let pattern = self.one_of(&["random", "sequential"]);
        let block_bytes = 4096u64 << self.below(3);
        let max_block_bytes = self.one_of(&[0, block_bytes * 4]);
        let (read_percent, depth) = (self.below(101), 1 + self.below(16));
        let (operations, seed) = (100 + self.below(900), self.below(1 << 32));
        let (misalign, segments) = (4 * self.below(2), 1 + self.below(2));
        let flush_every = self.one_of(&[0, 16, 64]);
        let zeroes = self.once_in(3);
        let _ = write!(
            text,
            "program.name = \"bench\"\n[tenant.program.config]\npattern = \"{pattern}\"\nblock_bytes = {block_bytes}\n\
             max_block_bytes = {max_block_bytes}\nread_percent = {read_percent}\ndepth = {depth}\n\
             operations = {operations}\nmisalign_bytes = {misalign}\nsegments = {segments}\n\
             flush_every = {flush_every}\nzeroes = {zeroes}\nretries = 8\nseed = {seed}\n\n"
        );
    }

    /// Draws attacks on the blocks of the first tenant, which has `part` of them, and a last attack.
    fn attack(&mut self, name: &str, part: u64, priorities: Priorities, expect: &mut Expect, text: &mut String) {
        let mut ends = vec!["close", SILENCE];
        ends.extend(EXPELLED.into_iter().chain(FAULTS));
        if priorities == Priorities::Alike {
            ends.push(FLOOD);
        }
        let (last, rounds) = (self.one_of(&ends), 1 + self.below(2));
        let _ = write!(
            text,
            "program.name = \"hostile\"\n[tenant.program.config]\nforeign_first_block = 0\nforeign_blocks = {part}\nrounds = {rounds}\n\
             last = \"{last}\"\n\n"
        );
        expect.attackers.push(name.to_owned());
        let list = match last {
            last if EXPELLED.contains(&last) => &mut expect.expelled,
            last if FAULTS.contains(&last) => &mut expect.faults,
            SILENCE | FLOOD => &mut expect.unfinished,
            _ => return,
        };
        list.push(name.to_owned());
    }
}
