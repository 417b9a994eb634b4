//! The wrong inputs of [`super`] that are on the command line: numbers, names and paths of options.

use super::cases::PLAIN;
use super::{Case, Place};

/// The cases.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "no job",
        arguments: &["sim", "boot", "--seeds", "0..2", "--jobs", "0"],
        says: &["'0' for '--jobs <JOBS>'", "give a whole number from 1 to 256"],
        ..PLAIN
    },
    Case {
        name: "jobs beyond all threads",
        arguments: &["soak", "--jobs", "99999999999999999999"],
        says: &["'99999999999999999999' for '--jobs <JOBS>'", "give a whole number from 1 to 256"],
        ..PLAIN
    },
    Case {
        name: "a prefix without a kernel",
        arguments: &["demo", "--kernel", "/nowhere"],
        says: &[
            "--kernel: there is no /nowhere/bin/kernel.elf",
            "name the prefix of an installed seL4, 13.0.0 or later",
        ],
        ..PLAIN
    },
    Case {
        name: "an installed kernel that schedules by budgets",
        arguments: &["qemu", "boot"],
        environment: &[("SEL4_PREFIX", "FOLDER/with-budgets")],
        says: &["with-budgets/bin/kernel.elf schedules by budgets (MCS)", "configure it with -DKernelIsMCS=OFF"],
        ..PLAIN
    },
    Case {
        name: "an installed kernel for the other machine",
        arguments: &["demo", "boot", "--arch", "aarch64", "--kernel", "FOLDER/with-budgets"],
        says: &["with-budgets/bin/kernel.elf is for x86_64", "add --arch x86_64"],
        ..PLAIN
    },
    Case {
        name: "an installed kernel without a fix",
        arguments: &["demo", "boot", "--kernel", "FOLDER/with-budgets", "--without", "frame-copy"],
        says: &["an installed kernel is taken as it is", "leave out one of them"],
        ..PLAIN
    },
    Case {
        name: "a controller that nobody serves",
        arguments: &["nvme", "--at", "/nowhere", "--", "list"],
        says: &["no controller is served at /nowhere", "serve one with cargo xtask nvme --serve /nowhere"],
        ..PLAIN
    },
    Case {
        name: "a controller for nvme-cli that the scenario has not",
        arguments: &["nvme", "--controller", "dsik", "--", "list"],
        says: &["the scenario 'demo' does not have the controller 'dsik'", "it has disk"],
        ..PLAIN
    },
    Case {
        name: "a controller for nvme-cli with functions",
        arguments: &["nvme", "--scenario", "functions", "--", "list"],
        says: &["has virtual functions", "take virtual_functions away, or name another controller"],
        ..PLAIN
    },
    Case {
        name: "a page of no run",
        arguments: &["web", "nowhere", "--listen", "127.0.0.1:0"],
        says: &["no run of 'nowhere' goes on"],
        ..PLAIN
    },
    Case {
        name: "a page at no port",
        arguments: &["demo", "--live", "--listen", "localhost"],
        says: &["'localhost' for '--listen <ADDRESS>'", "write an address and a port, as in 127.0.0.1:8017"],
        ..PLAIN
    },
    Case {
        name: "a page at another machine's address",
        arguments: &["demo", "--live", "--listen", "192.0.2.1:8017"],
        says: &["this machine does not have the address 192.0.2.1", "--listen 127.0.0.1:0"],
        ..PLAIN
    },
    Case {
        name: "minutes that are no number",
        arguments: &["soak", "--minutes", "nan"],
        says: &["'nan' for '--minutes <MINUTES>'", "give a whole number from 1 to 100000"],
        ..PLAIN
    },
    Case {
        name: "minutes beyond all time",
        arguments: &["soak", "--minutes", "18446744073709551615"],
        says: &["'18446744073709551615' for '--minutes <MINUTES>'", "from 1 to 100000"],
        ..PLAIN
    },
    Case {
        name: "no minute for a fuzzer",
        arguments: &["fuzz", "--minutes", "0"],
        says: &["'0' for '--minutes <MINUTES>'", "from 1 to 100000"],
        ..PLAIN
    },
    Case {
        name: "a setting without a value",
        arguments: &["sim", "boot", "--set", "seed"],
        says: &["'seed' for '--set <KEY=VALUE>'", "write a key and its value, as in tenant.alice.class=high"],
        ..PLAIN
    },
    Case {
        name: "a setting of a tenant that is not there",
        arguments: &["sim", "boot", "--set", "tenant.alcie.class=high"],
        says: &["boot.toml with --set tenant.alcie.class=high", "there is no tenant `alcie`: did you mean `alice`?"],
        ..PLAIN
    },
    Case {
        name: "a setting that contradicts the scenario",
        arguments: &["qemu", "boot", "--set", "seed=3", "--set", "tenant.alice.depth=5000"],
        says: &["boot.toml with --set tenant.alice.depth=5000: ", "has depth 5000: give it 1 to 1024"],
        ..PLAIN
    },
    Case {
        name: "a negative seed",
        arguments: &["sim", "boot", "--seed", "-1"],
        says: &["'-1' for '--seed <SEED>'", "give a whole number from 0 to 18446744073709551615"],
        ..PLAIN
    },
    Case {
        name: "negative seeds",
        arguments: &["sim", "boot", "--seeds", "-1..4"],
        says: &["'-1..4' for '--seeds <A..B>'", "for '-1' give a whole number from 0 to 18446744073709551615"],
        ..PLAIN
    },
    Case {
        name: "a seed of twenty digits",
        arguments: &["device", "--socket", "FOLDER/socket", "--seed", "99999999999999999999"],
        says: &["'99999999999999999999' for '--seed <SEED>'", "from 0 to 18446744073709551615"],
        ..PLAIN
    },
    Case {
        name: "a soak of no seeds",
        arguments: &["soak", "--count", "0"],
        says: &["'0' for '--count <COUNT>'", "give a whole number from 1 to 18446744073709551615"],
        ..PLAIN
    },
    Case {
        name: "a soak beyond the last seed",
        arguments: &["soak", "--from", "18446744073709551615"],
        says: &["from 18446744073709551615 on", "lower --from"],
        ..PLAIN
    },
    Case {
        name: "a part beyond the last",
        arguments: &["soak", "--count", "8", "--part", "4/4"],
        says: &["'4/4' for '--part <K/N>'", "write the part's number, from 0, and the number of parts: 0/4 to 3/4"],
        ..PLAIN
    },
    Case {
        name: "a part of no number",
        arguments: &["sweep", "boot", "--vary", "seed=1,2", "--part", "-1/4"],
        says: &["'-1/4' for '--part <K/N>'", "0/4 to 3/4"],
        ..PLAIN
    },
    Case {
        name: "a sweep of no seeds",
        arguments: &["sweep", "boot", "--vary", "seed=0..0"],
        says: &[
            "'seed=0..0' for '--vary <KEY=V1,V2>'",
            "none from 0 up to 0",
            "let the second number be the larger one",
        ],
        ..PLAIN
    },
    Case {
        name: "a part of a soak without an end",
        arguments: &["soak", "--part", "0/4"],
        says: &["were not provided: --count <COUNT>"],
        ..PLAIN
    },
    Case {
        name: "a part of a sweep and its runs",
        arguments: &["sweep", "boot", "--vary", "seed=1,2", "--part", "0/2", "--runs", "0..1"],
        says: &["'--part <K/N>' cannot be used with '--runs <A..B>'"],
        ..PLAIN
    },
    Case {
        name: "a folder that is in no checkout",
        arguments: &["soak", "--count", "1"],
        place: Place::Elsewhere,
        says: &["/ is not in a checkout of capnvme", "run cargo xtask there"],
        ..PLAIN
    },
    Case {
        name: "an option that is misspelt",
        arguments: &["soak", "--cuont", "1"],
        says: &["'--cuont'", "a similar argument exists: '--count'"],
        ..PLAIN
    },
    Case {
        name: "a command that is misspelt",
        arguments: &["soka"],
        says: &["'soka'", "a similar subcommand exists: 'soak'"],
        ..PLAIN
    },
    Case {
        name: "completions for a shell that has none",
        arguments: &["completions", "tcsh"],
        says: &["'tcsh' for '<SHELL>'", "possible values: bash, zsh, fish"],
        ..PLAIN
    },
    Case {
        name: "a folder as scenario",
        arguments: &["sim", "FOLDER"],
        says: &["is a folder", "name a TOML file, or one of scenarios/"],
        ..PLAIN
    },
    Case {
        name: "a device as scenario",
        arguments: &["demo", "/dev/zero"],
        says: &["'/dev/zero' is a device or pipe", "name a TOML file, or one of scenarios/"],
        ..PLAIN
    },
    Case {
        name: "a folder as input of a fuzzer",
        arguments: &["fuzz", "scenario", "--input", "FOLDER"],
        says: &["is no file", "name one"],
        ..PLAIN
    },
    Case {
        name: "a folder as socket",
        arguments: &["device", "--socket", "FOLDER"],
        says: &["exists and is no socket", "name another path"],
        ..PLAIN
    },
    Case {
        name: "a socket where no folder is",
        arguments: &["device", "--socket", "FOLDER/none/socket"],
        says: &["none/socket", "name a path in a folder that is there"],
        ..PLAIN
    },
    Case {
        name: "a socket with a long path",
        arguments: &[
            "device",
            "--socket",
            "FOLDER/a-path-of-more-than-a-hundred-bytes/a-path-of-more-than-a-hundred-bytes/a-path-of-more-than-a-hundred-bytes",
        ],
        says: &["bytes, and that of a socket 107 at most", "name a shorter one"],
        ..PLAIN
    },
    Case {
        name: "a digest of less than a block",
        arguments: &["demo", "digest", "--sim", "--disk", "FOLDER/tiny.img"],
        says: &["tiny.img has 100 bytes", "needs 512", "tiny.img"],
        ..PLAIN
    },
    Case {
        name: "a new program that is called as a keyword",
        arguments: &["new", "FOLDER/fn"],
        says: &["ends in `fn`", "a word of Rust", "rename it, for instance to my-fn"],
        ..PLAIN
    },
    Case {
        name: "a new program that is called as a crate of std",
        arguments: &["new", "FOLDER/std"],
        says: &["ends in `std`", "rename it, for instance to my-std"],
        ..PLAIN
    },
    Case {
        name: "a new program that is called as a crate of the project",
        arguments: &["new", "FOLDER/scheduler"],
        says: &["ends in `scheduler`", "a crate of the project", "for instance my-scheduler"],
        ..PLAIN
    },
    Case {
        name: "a scenario's file with an end of a line in its name",
        arguments: &["demo", "FOLDER/a\nready: boot.toml"],
        says: &[r"a\nready: boot.toml", "has a control character", "rename the file"],
        ..PLAIN
    },
];
