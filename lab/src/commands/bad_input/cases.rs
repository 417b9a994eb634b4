//! The wrong inputs of [`super`]: the command, and the phrases of its sentence.

use super::{Case, Output, Place, Rights};

/// A command that runs in the project with all rights of this process, and whose output is read.
pub(super) const PLAIN: Case = Case {
    name: "",
    arguments: &[],
    environment: &[],
    rights: Rights::Ours,
    output: Output::Read,
    place: Place::Project,
    says: &[],
    others: &[],
};

/// The cases.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "a scenario that is not there",
        arguments: &["demo", "dmeo"],
        says: &["'dmeo'", "did you mean 'demo'?"],
        ..PLAIN
    },
    Case {
        name: "a key nobody knows",
        arguments: &["demo", "FOLDER/unknown-key.toml"],
        says: &["unknown-key.toml:3", "colour"],
        ..PLAIN
    },
    Case {
        name: "three wrong keys in three tables",
        arguments: &["demo", "FOLDER/three-wrong.toml"],
        says: &["three-wrong.toml:5: unknown key `queue_piars`: did you mean `queue_pairs`?"],
        others: &[
            "FOLDER/three-wrong.toml:12: unknown key `clas`",
            "FOLDER/three-wrong.toml:15: in the configuration of bench",
        ],
        ..PLAIN
    },
    Case {
        name: "overlapping extents",
        arguments: &["demo", "FOLDER/overlap.toml"],
        says: &["overlap.toml", "overlap"],
        ..PLAIN
    },
    Case {
        name: "an extent without blocks",
        arguments: &["demo", "FOLDER/empty-extent.toml"],
        says: &["empty-extent.toml:8", "`w`", "empty", "0 blocks from block 0 on", "give it 1 block or more"],
        ..PLAIN
    },
    Case {
        name: "a program whose folder is no crate",
        arguments: &["demo", "FOLDER/no-crate.toml"],
        says: &["nowhere/my-program is no crate", "make one with cargo xtask new"],
        ..PLAIN
    },
    Case {
        name: "a program that is not there",
        arguments: &["demo", "FOLDER/no-program.toml"],
        says: &["no-program.toml:", "`bnech`", "name bench, digest, flood, hostile or signal"],
        ..PLAIN
    },
    Case {
        name: "an option that a program has not",
        arguments: &["demo", "FOLDER/no-option.toml"],
        says: &["no-option.toml:15", "configuration of bench, unknown key `dpeth`", "did you mean `depth`?"],
        ..PLAIN
    },
    Case {
        name: "a new program where something is already",
        arguments: &["new", "scenarios"],
        says: &["scenarios is there already", "name another folder"],
        ..PLAIN
    },
    Case {
        name: "an extent beyond the namespace",
        arguments: &["demo", "FOLDER/beyond.toml"],
        says: &["beyond.toml:8", "up to block 32800", "32768 blocks", "shorten it"],
        ..PLAIN
    },
    Case {
        name: "a table of fewer records than its sessions need",
        arguments: &["demo", "FOLDER/few-records.toml"],
        says: &["few-records.toml", "records is 3", "`a`", "4 to 65534"],
        ..PLAIN
    },
    Case {
        name: "a tenant without queue pairs",
        arguments: &["demo", "FOLDER/no-pairs.toml"],
        says: &["no-pairs.toml", "queue pair"],
        ..PLAIN
    },
    Case {
        name: "more queue pairs than the controller has",
        arguments: &["demo", "FOLDER/too-many.toml"],
        says: &["too-many.toml", "queue pairs"],
        ..PLAIN
    },
    Case {
        name: "a function of a controller that has none",
        arguments: &["demo", "FOLDER/no-function.toml"],
        says: &["no-function.toml:11", "tenant `w`", "`a` has 0", "write `virtual_functions = 1` there"],
        ..PLAIN
    },
    Case {
        name: "more functions than a controller can have",
        arguments: &["demo", "FOLDER/eight-functions.toml"],
        says: &["eight-functions.toml:3", "`a` has 8 virtual functions", "give it 7 at most"],
        ..PLAIN
    },
    Case {
        name: "more tenants with functions than functions",
        arguments: &["demo", "FOLDER/one-function.toml"],
        says: &[
            "one-function.toml:12",
            "`a` has 1 for 2 such tenants (`w`, `x`)",
            "write `virtual_functions = 2` there",
        ],
        ..PLAIN
    },
    Case {
        name: "a function of a controller that is not there",
        arguments: &["demo", "FOLDER/function-of-nothing.toml"],
        says: &["function-of-nothing.toml:12", "tenant `w`", "controller `b`, which is not there", "name one of a"],
        ..PLAIN
    },
    Case {
        name: "extents of a tenant with a function",
        arguments: &["demo", "FOLDER/function-extents.toml"],
        says: &["function-extents.toml:12", "tenant `w`", "all blocks of its namespace", "take its extents away"],
        ..PLAIN
    },
    Case {
        name: "a function with the physical function's namespace",
        arguments: &["demo", "FOLDER/function-of-first.toml"],
        says: &["function-of-first.toml:12", "tenant `w`", "namespace 1 belongs to the physical", "name another"],
        ..PLAIN
    },
    Case {
        name: "more queue pairs than a function has",
        arguments: &["demo", "FOLDER/function-queues.toml"],
        says: &["function-queues.toml:12", "tenant `w`", "has 1 queue pair", "write `queue_pairs = 1`"],
        ..PLAIN
    },
    Case {
        name: "hot plug of a controller with functions",
        arguments: &["demo", "FOLDER/pulled-functions.toml"],
        says: &["pulled-functions.toml:3", "`a` has hot_plug and virtual functions", "leave one of them out"],
        ..PLAIN
    },
    Case {
        name: "a namespace larger than any",
        arguments: &["demo", "FOLDER/vast.toml"],
        says: &["vast.toml:3", "namespace 1 of `a`", "give it \"1073741824G\" at most"],
        ..PLAIN
    },
    Case {
        name: "functions of the model in QEMU",
        arguments: &["demo", "functions", "--device", "model"],
        says: &["'functions' has virtual functions", "QEMU hides", "cargo xtask sim functions"],
        ..PLAIN
    },
    Case {
        name: "a device with functions",
        arguments: &["device", "functions", "--socket", "FOLDER/functions.socket"],
        says: &["'disk' has virtual functions", "QEMU hides", "take virtual_functions away"],
        ..PLAIN
    },
    Case {
        name: "hot plug in a place without a slot",
        arguments: &["demo", "FOLDER/no-slot.toml"],
        says: &["no-slot.toml:3", "controller `a` has hot_plug", "attach it to \"root-port\""],
        ..PLAIN
    },
    Case {
        name: "a controller pulled out that cannot go",
        arguments: &["demo", "FOLDER/fixed.toml"],
        says: &["fixed.toml:", "`a`, which cannot come or go", "write hot_plug = true"],
        ..PLAIN
    },
    Case {
        name: "a controller pulled out twice",
        arguments: &["demo", "FOLDER/there-already.toml"],
        says: &["there-already.toml:", "`pull` of `a`, which is not in its slot", "write \"insert\""],
        ..PLAIN
    },
    Case {
        name: "a controller inserted twice",
        arguments: &["demo", "FOLDER/here-already.toml"],
        says: &["here-already.toml:", "`insert` of `a`, which is in its slot", "write \"remove\" or \"pull\""],
        ..PLAIN
    },
    Case {
        name: "another controller that is pulled out",
        arguments: &["demo", "FOLDER/other-pull.toml"],
        says: &["other-pull.toml:", "`pull` of `a` with other", "leave other out"],
        ..PLAIN
    },
    Case {
        name: "hot plug several times at once",
        arguments: &["demo", "FOLDER/at-once.toml"],
        says: &["at-once.toml:", "`pull` of `a` several times", "write every_ms"],
        ..PLAIN
    },
    Case {
        name: "hot plug of several namespaces on QEMU",
        arguments: &["demo", "FOLDER/two-move.toml"],
        says: &["several namespaces, which QEMU cannot", "cargo xtask sim"],
        ..PLAIN
    },
    Case {
        name: "hot plug of a model in QEMU",
        arguments: &["demo", "hotplug", "--device", "model"],
        says: &["controllers that come and go", "leave out --device"],
        ..PLAIN
    },
    Case {
        name: "functions without queue pairs",
        arguments: &["demo", "FOLDER/no-function-queues.toml"],
        says: &["no-function-queues.toml:3", "`a` has 3 queue pairs", "give it 4 or more"],
        ..PLAIN
    },
    Case {
        name: "a disk that is not there",
        arguments: &["demo", "--disk", "FOLDER/none.img"],
        says: &["none.img", "cannot be opened"],
        ..PLAIN
    },
    Case {
        name: "a disk whose path leads through a file",
        arguments: &["demo", "--disk", "FOLDER/small.img/disk"],
        says: &["small.img/disk", "cannot be opened"],
        ..PLAIN
    },
    Case {
        name: "a disk that may not be read",
        arguments: &["demo", "--disk", "FOLDER/locked.img"],
        rights: Rights::WithinPermissions,
        says: &["locked.img", "cannot be read", "change its permissions"],
        ..PLAIN
    },
    Case {
        name: "a disk that may not be written",
        arguments: &["demo", "--disk", "FOLDER/read-only.img", "--write"],
        rights: Rights::WithinPermissions,
        says: &["read-only.img", "leave out --write"],
        ..PLAIN
    },
    Case { name: "a folder as disk", arguments: &["demo", "--disk", "FOLDER"], says: &["is a folder"], ..PLAIN },
    Case {
        name: "a disk that is too small",
        arguments: &["demo", "--disk", "FOLDER/small.img"],
        says: &["small.img", "1000 bytes", "truncate -s"],
        ..PLAIN
    },
    Case {
        name: "no space for the disk image",
        arguments: &["demo", "FOLDER/no-space.toml"],
        says: &["no space for a disk image", "are needed"],
        ..PLAIN
    },
    Case {
        name: "no QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/no-such-qemu")],
        says: &["cannot run QEMU", "apt-get install qemu-system-x86"],
        ..PLAIN
    },
    Case {
        name: "no QEMU for AArch64",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU_AARCH64", "FOLDER/no-such-qemu")],
        says: &["cannot run QEMU", "apt-get install qemu-system-arm"],
        ..PLAIN
    },
    Case {
        name: "an unknown architecture",
        arguments: &["demo", "--arch", "arm"],
        says: &["there is no architecture 'arm'", "write x86_64 or aarch64"],
        ..PLAIN
    },
    Case {
        name: "an IOMMU server on x86_64",
        arguments: &["demo", "iommu-server-killed"],
        says: &["only the AArch64 machine has", "cargo xtask demo iommu-server-killed --arch aarch64"],
        ..PLAIN
    },
    Case {
        name: "a scenario about the IOMMU without one",
        arguments: &["demo", "probe-dma", "--no-iommu"],
        says: &["is about the IOMMU", "leave out --no-iommu"],
        ..PLAIN
    },
    Case {
        name: "a simulated machine without an IOMMU",
        arguments: &["sim", "no-iommu"],
        says: &["which the simulated machine always has", "cargo xtask demo no-iommu"],
        ..PLAIN
    },
    Case {
        name: "a scenario that is x86_64's alone",
        arguments: &["demo", "probe-revoke", "--arch", "aarch64"],
        says: &["memory to revoke or faults", "cargo xtask demo probe-revoke"],
        ..PLAIN
    },
    Case {
        name: "a scenario whose probe the simulated machine cannot have",
        arguments: &["sim", "probe-revoke", "--arch", "aarch64"],
        says: &["memory to revoke", "cargo xtask sim probe-revoke --arch x86_64"],
        ..PLAIN
    },
    Case {
        name: "a scenario whose IOMMU server the simulated machine does not have",
        arguments: &["sim", "iommu-server-killed"],
        says: &["has an IOMMU server", "cargo xtask sim iommu-server-killed --arch aarch64"],
        ..PLAIN
    },
    Case {
        name: "MSI on QEMU, whose controller has none",
        arguments: &["demo", "interrupts-msi"],
        says: &["only the simulator has", "with MSI", "cargo xtask sim interrupts-msi"],
        ..PLAIN
    },
    Case {
        name: "a file with faults that are the simulator's alone",
        arguments: &["demo", "FOLDER/faults.toml"],
        says: &["only the simulator has", "/faults.toml, or cargo xtask demo", "/faults.toml --device model"],
        ..PLAIN
    },
    Case {
        name: "another version of QEMU",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/old-qemu")],
        says: &["QEMU 5.1", "7.2"],
        ..PLAIN
    },
    Case { name: "a log level nobody knows", arguments: &["demo", "--log", "loud"], says: &["'loud'"], ..PLAIN },
    Case {
        name: "a folder for the demo's results",
        arguments: &["demo", "--json", "FOLDER"],
        says: &["cannot write", "name a file"],
        ..PLAIN
    },
    Case {
        name: "results where no folder is",
        arguments: &["demo", "--json", "FOLDER/none/results.json"],
        says: &["none/results.json", "name a file"],
        ..PLAIN
    },
    Case {
        name: "results of the benchmarks where no folder is",
        arguments: &["bench", "--json", "FOLDER/none/results.json"],
        says: &["none/results.json", "name a file"],
        ..PLAIN
    },
    Case {
        name: "results that may not be written",
        arguments: &["demo", "--json", "FOLDER/locked/results.json"],
        rights: Rights::WithinPermissions,
        says: &["locked/results.json", "name a file"],
        ..PLAIN
    },
    Case { name: "a test that is not there", arguments: &["test", "typo"], says: &["'typo'", "unit tests"], ..PLAIN },
    Case {
        name: "a digest over several extents",
        arguments: &["demo", "FOLDER/two-extents.toml"],
        says: &["two-extents.toml", "2 extents", "give it one"],
        ..PLAIN
    },
    Case {
        name: "a tenant of weight zero",
        arguments: &["demo", "FOLDER/no-weight.toml"],
        says: &["no-weight.toml:8", "`w` has weight 0", "give it 1 to 65535"],
        ..PLAIN
    },
    Case {
        name: "a limit below one request",
        arguments: &["demo", "FOLDER/small-limit.toml"],
        says: &["small-limit.toml:8", "`w` has bandwidth of 4095", "at least 4096"],
        ..PLAIN
    },
    Case {
        name: "a class above the highest",
        arguments: &["demo", "FOLDER/class-too-high.toml"],
        says: &["class-too-high.toml:8", "`urgent`", "above its highest_class `high`", "raise the other"],
        ..PLAIN
    },
    Case {
        name: "rights taken that the tenant has not",
        arguments: &["demo", "FOLDER/taken-twice.toml"],
        says: &["taken-twice.toml:15", "5 blocks at block 98", "tenant `w`", "name blocks that it has"],
        ..PLAIN
    },
    Case {
        name: "rights given beyond the numbering",
        arguments: &["demo", "FOLDER/given-beyond.toml"],
        says: &["given-beyond.toml:15", "1 blocks at block 100", "name blocks of its extents"],
        ..PLAIN
    },
    Case {
        name: "a change for nobody",
        arguments: &["demo", "FOLDER/changes-nobody.toml"],
        says: &["changes-nobody.toml:15", "`nobody`", "name one that is"],
        ..PLAIN
    },
    Case {
        name: "a class of weight zero",
        arguments: &["demo", "FOLDER/no-class-weight.toml"],
        says: &["no-class-weight.toml", "[server] class_weights", "medium = 0", "give it 1 to 256"],
        ..PLAIN
    },
    Case {
        name: "a scenario's name that leads out of the folder of runs",
        arguments: &["sim", "FOLDER/far-name.toml"],
        says: &["far-name.toml:1", "`../../x`", "letters, digits and `-`", "rename it"],
        ..PLAIN
    },
    Case {
        name: "a scenario's name with control characters",
        arguments: &["sim", "FOLDER/escaping-name.toml"],
        says: &["escaping-name.toml:1", r"`\u{1b}[31m`", "rename it"],
        ..PLAIN
    },
    Case {
        name: "a scenario without a name",
        arguments: &["demo", "FOLDER/no-name.toml"],
        says: &["no-name.toml:1", "``", "rename it"],
        ..PLAIN
    },
    Case {
        name: "a log level for a component that is not there",
        arguments: &["sim", "boot", "--log", "nosuch=info"],
        says: &["\"nosuch\"", "name one of root-task, console, pci-server, nvme-server"],
        ..PLAIN
    },
    Case {
        name: "a pipe as disk",
        arguments: &["demo", "--disk", "FOLDER/pipe"],
        says: &["/pipe is neither a file nor a block device", "name a raw image"],
        ..PLAIN
    },
    Case {
        name: "a pipe that nobody reads, for results",
        arguments: &["sim", "boot", "--json", "FOLDER/pipe"],
        says: &["nobody reads the pipe", "start its reader first"],
        ..PLAIN
    },
    Case {
        name: "a QEMU that does not answer",
        arguments: &["setup"],
        environment: &[("CAPNVME_QEMU", "FOLDER/silent-qemu")],
        says: &["silent-qemu does not answer --version", "name another program in CAPNVME_QEMU"],
        ..PLAIN
    },
    Case {
        name: "an output that is full",
        arguments: &["sim", "boot", "--seeds", "1..2"],
        output: Output::Full,
        says: &["cannot write to standard output (No space left", "redirect it"],
        ..PLAIN
    },
    Case {
        name: "an output that nobody reads any more",
        arguments: &["sim", "boot", "--seeds", "1..2"],
        output: Output::Closed,
        ..PLAIN
    },
];
