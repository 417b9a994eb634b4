//! The wrong inputs of [`super`] that are in scenario files and that only the reader of files sees: encodings, tables, and ranges of
//! numbers.

use super::Case;
use super::cases::PLAIN;

/// The cases.
pub(super) const CASES: &[Case] = &[
    Case {
        name: "a scenario that is not UTF-8",
        arguments: &["sim", "FOLDER/latin.toml"],
        says: &["latin.toml:2", "the byte 0xe9 is not UTF-8", "save the file in UTF-8"],
        ..PLAIN
    },
    Case {
        name: "an empty fault",
        arguments: &["sim", "FOLDER/empty-fault.toml"],
        says: &["empty-fault.toml:15", "a fault is empty", "write `command`, `controller` or `component`"],
        ..PLAIN
    },
    Case {
        name: "two faults in one",
        arguments: &["sim", "FOLDER/two-faults.toml"],
        says: &["two-faults.toml:15", "a fault has several of", "write a [[fault]] for each"],
        ..PLAIN
    },
    Case {
        name: "a fault that is there twice",
        arguments: &["sim", "FOLDER/doubled-fault.toml"],
        says: &["doubled-fault.toml:17", "the key `command` is there twice", "leave one of them out"],
        ..PLAIN
    },
    Case {
        name: "a fault with a status code type that no completion has",
        arguments: &["sim", "FOLDER/sct.toml"],
        says: &["sct.toml:15", "status code type 9", "write 0 to 7"],
        ..PLAIN
    },
    Case {
        name: "a fault that delays by nothing",
        arguments: &["sim", "FOLDER/no-delay.toml"],
        says: &["no-delay.toml:15", "delays by 0 ns", "write at least 1"],
        ..PLAIN
    },
    Case {
        name: "a fault of a queue pair that nobody has",
        arguments: &["sim", "FOLDER/no-such-pair.toml"],
        says: &["no-such-pair.toml:15", "queue pair 2, which nobody has", "write 0 to 1"],
        ..PLAIN
    },
    Case {
        name: "a negative seed in a scenario",
        arguments: &["sim", "FOLDER/negative-seed.toml"],
        says: &["negative-seed.toml:1", "`seed` is -1", "a whole number from 0 to 18446744073709551615"],
        ..PLAIN
    },
    Case {
        name: "a controller in one bracket",
        arguments: &["sim", "FOLDER/one-bracket.toml"],
        says: &["one-bracket.toml:3", "`[controller]` is one table", "write `[[controller]]`"],
        ..PLAIN
    },
    Case {
        name: "a scenario without a controller",
        arguments: &["sim", "FOLDER/no-controller.toml"],
        says: &["there is no controller", "add a [[controller]]"],
        ..PLAIN
    },
    Case {
        name: "ring entries for which a client has no heap",
        arguments: &["sim", "FOLDER/large-rings.toml"],
        says: &["large-rings.toml:8", "1024 KiB of heap", "write ring_entries = 2048 or less"],
        ..PLAIN
    },
    Case {
        name: "ring entries that are no power of two",
        arguments: &["sim", "FOLDER/odd-rings.toml"],
        says: &["odd-rings.toml:8", "3 ring entries", "make it a power of two up to 2048"],
        ..PLAIN
    },
    Case {
        name: "more memory than an AArch64 machine has",
        arguments: &["demo", "FOLDER/two-gigabytes.toml", "--arch", "aarch64"],
        says: &["two-gigabytes.toml:4: [machine] memory is 2147483648 bytes", "from \"64M\" to \"1G\"", "write one"],
        ..PLAIN
    },
    Case {
        name: "more memory than a simulated AArch64 machine has",
        arguments: &["sim", "FOLDER/two-gigabytes.toml", "--arch", "aarch64"],
        says: &["two-gigabytes.toml:4: [machine] memory is 2147483648 bytes", "from \"64M\" to \"1G\"", "write one"],
        ..PLAIN
    },
    Case {
        name: "windows for which a machine has no memory",
        arguments: &["demo", "FOLDER/large-windows.toml"],
        says: &["large-windows.toml:", "need ", "a machine of 256 MiB has ", "make windows smaller"],
        ..PLAIN
    },
];
