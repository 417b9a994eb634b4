//! The attacks of the hostile client and of the probe, one row a kind: what is tried, and what may stop it.
//!
//! The programs report each attempt under its kind, the judge of a run compares the outcome with the row, and
//! `docs/guide/functions.md` shows the rows.

use crate::LastAttack;

/// The position from which a program attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attacker {
    /// A client with a session at an NVMe server.
    Session,
    /// A client with a virtual function of its own.
    Function,
    /// The test component in an NVMe server's place.
    Probe,
}

/// The runs in which a kind of attacks is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Occasion {
    /// All runs, unless the attacker's end is an attack that comes alone.
    Round,
    /// Runs whose attacker ends this way.
    Last(LastAttack),
    /// Some runs: the machine decides, or an end that may leave nothing to report.
    Some,
}

/// A kind of attacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind {
    /// The abused means; at most 32 characters.
    pub name: &'static str,
    /// The position of the attacker.
    pub attacker: Attacker,
    /// The runs that have such attacks.
    pub occasion: Occasion,
    /// The attempts.
    pub tries: &'static str,
    /// The expected outcome: barriers, one of which must stop each attempt. Reports begin with its name.
    pub barriers: &'static [&'static str],
}

macro_rules! kinds {
    ($($name:ident = $attacker:ident, $title:literal, $occasion:expr, $tries:expr, [$($barrier:expr),+];)*) => {
        use Attacker::{Function, Probe, Session};
        use Occasion::{Last, Round};

        $(
            #[doc = $title]
            pub const $name: Kind = Kind {
                name: $title,
                attacker: $attacker,
                occasion: $occasion,
                tries: $tries,
                barriers: &[$($barrier),+],
            };
        )*

        /// All kinds.
        pub const KINDS: &[Kind] = &[$($name),*];
    };
}

/// The barrier of a forged region.
const SEAM: &str = "the seam in its own program";
/// The barrier of an access to memory: the supervisor reports the fault.
const FAULT: &str = "the kernel: a fault, which ends it";

kinds! {
    REQUESTS = Session, "requests", Round,
        "other tenants' blocks, numbers at the limits of arithmetic, ranges outside of its window", ["the server's check"];
    RACES = Session, "published entries", Round, "to change an entry after it was published", ["the server's private copy"];
    CAPABILITIES = Session, "capabilities", Round,
        "every cptr that it was not given, its own notification, unknown calls, the policy component's calls, records of other \
         blocks, to send capabilities along",
        ["the kernel", "the server", "the policy component", "no right to grant"];
    ADDRESSES = Session, "addresses", Round, "memory and registers through forged regions", [SEAM];
    QUANTITY = Session, "quantity", Round, "full rings, signals without end, unread completions: all of it is permitted",
        ["the ring's own size", "signals that only say: look"];
    CLOSE = Session, "a closed session", Last(LastAttack::Close), "to close it twice and to go on using it",
        ["the session's end", "the server", "nobody who reads the ring"];
    RING = Session, "indices", Occasion::Some, "a tail beyond the ring, a tail taken back, completions that never were",
        ["the server closed the session"];
    PROCESSOR = Session, "the processor", Last(LastAttack::ForbiddenInstructions),
        "every state that could harm others, every instruction that user level must not execute (`last = \"forbidden-instructions\"`)",
        ["the kernel", "the processor", "the platform"];
    MEMORY = Session, "memory", Occasion::Some,
        "to read unmapped memory (`last = \"unmapped-read\"`), to write the completion ring (`last = \"read-only-write\"`)", [FAULT];

    DMA = Function, "DMA", Round,
        "physical addresses of its own and neighbouring memory, addresses of neighbours' windows and of the server's pool, lists \
         and queues at such addresses; judged by the contents of memory and blocks", ["the IOMMU"];
    REGISTERS = Function, "registers", Round,
        "doorbells of queues that it does not have, impossible values, constants, a reset of the subsystem, forged regions",
        ["its function's own page", "the controller", SEAM];
    NAMESPACES = Function, "namespaces", Round,
        "to read, write, compare, zero, flush, discard and describe each other namespace, and blocks behind its own",
        ["the controller"];
    ADMIN = Function, "administrative commands", Round,
        "to set controllers offline or online, to take queues, to attach, delete, create and format namespaces, firmware, more \
         queues, other vectors", ["the controller"];
    INTERRUPTS = Function, "interrupts", Round,
        "to raise every interrupt of the machine by DMA. [Other messages](../limits.md#interrupts) are not harmless",
        ["nobody: harmless, its owner finds nothing to do"];
    RESETS = Function, "resets", Round,
        "to reset its controller and its function again and again, with commands in flight; nothing arrives after the release",
        ["its own controller alone was reset", "the PCI server"];
    PCI_SERVER = Function, "the PCI server", Round,
        "to claim other functions, to get other registers and interrupts, to enable, disable and withdraw functions, to call as \
         another driver", ["the PCI server", "the kernel"];
    IOMMU_SERVER = Function, "the IOMMU server", Occasion::Some,
        "to send it capabilities of every kind, to map cptrs that are not its frames', at impossible addresses and at as many as \
         it can, to make the PCI server's calls, unknown ones and cut ones", ["the IOMMU server"];
    CPTRS = Function, "cptrs", Round, "every cptr that it was not given", ["the kernel"];
    RELEASE = Function, "a release", Last(LastAttack::Close), "to release its function with commands in flight", ["the PCI server"];
    KEPT = Function, "a function that was revoked", Last(LastAttack::KeepFunction),
        "to enable its controller, to submit commands, to claim or start it (`last = \"keep-function\"`); judged by the contents of \
         its memory", ["the PCI server"];
    CALLS = Function, "both servers' time", Occasion::Some,
        "to call them without end (`last = \"flood-servers\"`); judged by a neighbour's IOPS", ["their [budgets](../limits.md#floods)"];
    CNODE = Function, "its own CNode", Occasion::Some,
        "to replace and delete every capability, and then to fault (`last = \"clear-cspace\"`)",
        ["the kernel: the fault endpoint lies in a CNode that it cannot name"];
    OWN_MEMORY = Function, "memory", Occasion::Some,
        "to read unmapped memory, to write registers in its arena that are not its own (`last = \"foreign-registers\"`)", [FAULT];

    MAPPINGS = Probe, "DMA", Round,
        "addresses that were never mapped, rights that a mapping lacks, pages that were unmapped, deleted or revoked, mappings of \
         a released claim", ["the IOMMU", "the kernel", "the PCI server"];
    CLAIM = Probe, "a released claim", Round,
        "to map memory by its IOSpace and registers by its capabilities, and by copies of them", ["the kernel", "the IOMMU server"];
    TAKEN = Probe, "what was taken", Occasion::Some, "to read registers of a released controller, or revoked memory", [FAULT];
}

/// The kind `name` of an attacker.
#[must_use]
pub fn find(attacker: Attacker, name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.attacker == attacker && kind.name == name)
}
