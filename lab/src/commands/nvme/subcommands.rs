//! All base subcommands of nvme-cli 2.3, each with its outcome. The table in `docs/guide/nvme-cli.md` is made from this one, and
//! `rows` runs each line of it.
//!
//! The controller of these runs is the demo's, of revision 2.0 ([`CONTROLLER`]). Each group has a controller of its own, and its lines
//! run in their order.

use Outcome::{NotOffered, Passes, Refused};
use std::fmt;

/// Changes of the scenario `demo` for the runs.
pub(super) const CONTROLLER: &str = "controller.disk.model.version=\"2.0\"";

/// A subcommand.
pub(crate) struct Subcommand {
    /// Name, as `nvme help` lists it.
    pub(crate) name: &'static str,
    /// Outcome of its runs.
    pub(crate) outcome: Outcome,
    /// The function that the controller lacks, or another remark; may be empty.
    pub(crate) note: &'static str,
    /// Runs of it: the arguments behind the name, and a text of its output. `FOLDER` is a folder with the file `data`, 4096 bytes.
    pub(super) runs: &'static [(&'static str, &'static str)],
}

/// Outcome of a subcommand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The controller executes it, or it needs none.
    Passes,
    /// The policy refuses its command.
    Refused,
    /// The controller has no such function.
    NotOffered,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Passes => "passes",
            Refused => "refused by policy",
            NotOffered => "not offered",
        })
    }
}

/// Subcommands with one subject.
pub(crate) struct Group {
    /// The subject; names the test.
    pub(crate) name: &'static str,
    /// The subcommands, in the order of their runs.
    pub(crate) subcommands: &'static [Subcommand],
}

type Runs = &'static [(&'static str, &'static str)];

const fn row(name: &'static str, outcome: Outcome, note: &'static str, runs: Runs) -> Subcommand {
    Subcommand { name, outcome, note, runs }
}

const NO_FIELD: &str = "Invalid Field in Command";
const NO_OPCODE: &str = "Invalid Command Opcode";
const NO_LOG: &str = "Invalid Log Page";
const NO_FABRICS: &str = "Failed to open /dev/nvme-fabrics";

/// Every base subcommand.
pub(crate) const GROUPS: [Group; 8] = [
    Group {
        name: "identify",
        subcommands: &[
            row("list", Passes, "", &[("", "/dev/nvme0n1"), ("-v", "nvme0n1"), ("-o json", "capnvme-demo")]),
            row("list-subsys", Passes, "", &[("", "nvme0 pcie")]),
            row("show-topology", Passes, "", &[("", "nvme0 pcie")]),
            row(
                "id-ctrl",
                Passes,
                "",
                &[("/dev/nvme0", "capnvme-demo"), ("/dev/nvme0n1 -H", "[3:3] : 0x1\tNS Management")],
            ),
            row(
                "id-ns",
                Passes,
                "",
                &[("/dev/nvme0n1", "nsze    : 0x40000"), ("/dev/nvme0 -n 1", "nsze    : 0x40000")],
            ),
            row("list-ns", Passes, "", &[("/dev/nvme0", "[   0]:0x1"), ("/dev/nvme0 -a", "[   0]:0x1")]),
            row("list-ctrl", Passes, "", &[("/dev/nvme0", "num of ctrls present: 1"), ("/dev/nvme0 -n 1", "[   0]:0")]),
            row("ns-descs", Passes, "`id-ns-descs` in later releases", &[("/dev/nvme0n1", "uuid    : 6f6d6564-")]),
            row("get-ns-id", Passes, "", &[("/dev/nvme0n1", "namespace-id:1")]),
            row("nvm-id-ctrl", Passes, "from revision 2.0 on", &[("/dev/nvme0", "NVMe Identify Controller NVM")]),
            row("id-ns-granularity", NotOffered, "", &[("/dev/nvme0", NO_FIELD)]),
            row("id-ns-lba-format", NotOffered, "", &[("/dev/nvme0 -i 0", NO_FIELD)]),
            row("nvm-id-ns", NotOffered, "", &[("/dev/nvme0n1", NO_FIELD)]),
            row("nvm-id-ns-lba-format", NotOffered, "", &[("/dev/nvme0 -i 0", NO_FIELD)]),
            row("cmdset-ind-id-ns", NotOffered, "", &[("/dev/nvme0n1", NO_FIELD)]),
            row("primary-ctrl-caps", NotOffered, "no virtual functions here", &[("/dev/nvme0", NO_FIELD)]),
            row("list-secondary", NotOffered, "no virtual functions here", &[("/dev/nvme0", NO_FIELD)]),
            row("id-nvmset", NotOffered, "no NVM sets", &[("/dev/nvme0", NO_FIELD)]),
            row("id-uuid", NotOffered, "no UUID list", &[("/dev/nvme0", NO_FIELD)]),
            row("id-iocs", NotOffered, "", &[("/dev/nvme0", NO_FIELD)]),
            row("id-domain", NotOffered, "no domains", &[("/dev/nvme0", NO_FIELD)]),
            row("list-endgrp", NotOffered, "no endurance groups", &[("/dev/nvme0", NO_FIELD)]),
        ],
    },
    Group {
        name: "logs",
        subcommands: &[
            row("smart-log", Passes, "", &[("/dev/nvme0", "power_cycles\t\t\t\t: 1")]),
            row("error-log", Passes, "", &[("/dev/nvme0", "entries:64")]),
            row("fw-log", Passes, "", &[("/dev/nvme0", "afi  : 0x1")]),
            row("changed-ns-list-log", Passes, "", &[("/dev/nvme0", "")]),
            row("effects-log", Passes, "", &[("/dev/nvme0", "ACS6     [Identify")]),
            row("get-log", Passes, "", &[("/dev/nvme0 -i 2 -l 512", "Device:nvme0 log-id:2")]),
            row("telemetry-log", NotOffered, "", &[("/dev/nvme0 -o FOLDER/telemetry", NO_FIELD)]),
            row("ana-log", NotOffered, "one controller, one path", &[("/dev/nvme0", NO_LOG)]),
            row("endurance-log", NotOffered, "no endurance groups", &[("/dev/nvme0", NO_LOG)]),
            row("predictable-lat-log", NotOffered, "no NVM sets", &[("/dev/nvme0", NO_LOG)]),
            row("pred-lat-event-agg-log", NotOffered, "no NVM sets", &[("/dev/nvme0", NO_LOG)]),
            row("persistent-event-log", NotOffered, "", &[("/dev/nvme0", NO_FIELD)]),
            row("endurance-event-agg-log", NotOffered, "no endurance groups", &[("/dev/nvme0", NO_LOG)]),
            row("lba-status-log", NotOffered, "", &[("/dev/nvme0", NO_LOG)]),
            row("resv-notif-log", NotOffered, "no reservations", &[("/dev/nvme0", NO_LOG)]),
            row("boot-part-log", NotOffered, "no boot partition", &[("/dev/nvme0 -f FOLDER/boot", NO_LOG)]),
            row("self-test-log", NotOffered, "", &[("/dev/nvme0", NO_LOG)]),
            row("sanitize-log", NotOffered, "", &[("/dev/nvme0", NO_LOG)]),
            row("supported-log-pages", NotOffered, "", &[("/dev/nvme0", NO_LOG)]),
            row("fid-support-effects-log", NotOffered, "", &[("/dev/nvme0", NO_LOG)]),
            row("mi-cmd-support-effects-log", NotOffered, "no management interface", &[("/dev/nvme0", NO_LOG)]),
            row("media-unit-stat-log", NotOffered, "no endurance groups", &[("/dev/nvme0", NO_LOG)]),
            row("supported-cap-config-log", NotOffered, "no endurance groups", &[("/dev/nvme0", NO_LOG)]),
        ],
    },
    Group {
        name: "features",
        subcommands: &[
            row(
                "get-feature",
                Passes,
                "the features of the model",
                &[("/dev/nvme0 -f 4", "Current value:0x00000157"), ("/dev/nvme0 -f 0xe", "(Timestamp)")],
            ),
            row(
                "set-feature",
                Passes,
                "but Number of Queues and Keep Alive Timer, which belong to the driver",
                &[("/dev/nvme0 -f 4 -v 0x15e", "value:0x0000015e"), ("/dev/nvme0 -f 0xb -v 0x100", "value:0x00000100")],
            ),
            row("get-property", NotOffered, "of fabrics; see `show-regs`", &[("/dev/nvme0 --offset=0x14", NO_OPCODE)]),
            row("set-property", NotOffered, "of fabrics", &[("/dev/nvme0 --offset=0x14 --value=0", NO_OPCODE)]),
            row("dir-receive", NotOffered, "no directives", &[("/dev/nvme0 -D 0 -O 1", NO_OPCODE)]),
            row("dir-send", NotOffered, "no directives", &[("/dev/nvme0 -D 1 -T 1 -O 1 -e 1", NO_OPCODE)]),
        ],
    },
    Group {
        name: "data",
        subcommands: &[
            row("write", Passes, "", &[("/dev/nvme0n1 -s 8 -c 7 -z 4096 -d FOLDER/data", "write: Success")]),
            row("compare", Passes, "", &[("/dev/nvme0n1 -s 8 -c 7 -z 4096 -d FOLDER/data", "compare: Success")]),
            row("copy", Passes, "", &[("/dev/nvme0n1 --sdlba=64 --slbs=8 --blocks=7", "NVMe Copy: success")]),
            row("read", Passes, "", &[("/dev/nvme0n1 -s 64 -c 7 -z 4096 -d FOLDER/read", "read: Success")]),
            row("verify", Passes, "", &[("/dev/nvme0n1 -s 64 -c 7", "NVME Verify Success")]),
            row("write-zeroes", Passes, "", &[("/dev/nvme0n1 -s 8 -c 7", "NVME Write Zeroes Success")]),
            row("dsm", Passes, "", &[("/dev/nvme0n1 -d -s 64 -b 8", "NVMe DSM: success")]),
            row("flush", Passes, "", &[("/dev/nvme0n1", "NVMe Flush: success")]),
            row(
                "io-passthru",
                Passes,
                "commands of the NVM command set",
                &[("/dev/nvme0n1 --opcode=2 --namespace-id=1 --data-len=512 --read", "IO Command Read is Success")],
            ),
            row("write-uncor", NotOffered, "", &[("/dev/nvme0n1 -s 16 -c 7", NO_OPCODE)]),
            row("get-lba-status", NotOffered, "", &[("/dev/nvme0 -n 1 -s 0 -m 4 -a 0x11", NO_OPCODE)]),
            row("resv-acquire", NotOffered, "no reservations", &[("/dev/nvme0n1 -c 1", NO_OPCODE)]),
            row("resv-register", NotOffered, "no reservations", &[("/dev/nvme0n1 -k 1", NO_OPCODE)]),
            row("resv-release", NotOffered, "no reservations", &[("/dev/nvme0n1 -c 1", NO_OPCODE)]),
            row("resv-report", NotOffered, "no reservations", &[("/dev/nvme0n1", NO_OPCODE)]),
            row("io-mgmt-recv", NotOffered, "no placement", &[("/dev/nvme0n1", NO_OPCODE)]),
            row("io-mgmt-send", NotOffered, "no placement", &[("/dev/nvme0n1", NO_OPCODE)]),
        ],
    },
    Group {
        name: "namespaces",
        subcommands: &[
            row("detach-ns", Passes, "", &[("/dev/nvme0 -n 1 -c 0", "detach-ns: Success, nsid:1")]),
            row("delete-ns", Passes, "", &[("/dev/nvme0 -n 1", "delete-ns: Success, deleted nsid:1")]),
            row("create-ns", Passes, "", &[("/dev/nvme0 -s 1000 -c 1000 -f 0", "create-ns: Success, created nsid:1")]),
            row("attach-ns", Passes, "", &[("/dev/nvme0 -n 1 -c 0", "attach-ns: Success, nsid:1")]),
            row("format", Passes, "", &[("/dev/nvme0n1 -f", "Success formatting namespace:1")]),
            row("ns-rescan", Passes, "", &[("/dev/nvme0", "")]),
            row("capacity-mgmt", NotOffered, "no endurance groups", &[("/dev/nvme0 -o 0", NO_OPCODE)]),
        ],
    },
    Group {
        name: "controller",
        subcommands: &[
            row("show-regs", Passes, "", &[("/dev/nvme0", "version : 20000"), ("/dev/nvme0 -H", "(RDY): Yes")]),
            row("reset", Passes, "", &[("/dev/nvme0", "")]),
            row("subsystem-reset", NotOffered, "CAP.NSSRS is 0", &[("/dev/nvme0", "has no subsystem reset")]),
            row(
                "admin-passthru",
                Passes,
                "but commands of the driver, of virtual functions, and of vendors",
                &[("/dev/nvme0 --opcode=6 --cdw10=1 --data-len=4096 --read", "Admin Command Identify is Success")],
            ),
            row(
                "virt-mgmt",
                Refused,
                "resources of virtual functions belong to the server",
                &[("/dev/nvme0 -a 1", "Virtualization Management is refused by policy")],
            ),
            row("rpmb", Passes, "reports that there is none", &[("/dev/nvme0 -c info", "No RPMB targets")]),
            row("device-self-test", NotOffered, "", &[("/dev/nvme0 -s 1", NO_OPCODE)]),
            row("sanitize", NotOffered, "", &[("/dev/nvme0 -a 2", NO_OPCODE)]),
            row("fw-download", NotOffered, "", &[("/dev/nvme0 -f FOLDER/data", NO_OPCODE)]),
            row("fw-commit", NotOffered, "", &[("/dev/nvme0 -s 1 -a 1", NO_OPCODE)]),
            row("lockdown", NotOffered, "", &[("/dev/nvme0 -o 0x84 -f 0 -p 1", NO_OPCODE)]),
            row("security-send", NotOffered, "", &[("/dev/nvme0 -f FOLDER/data -p 1 -t 4096", NO_OPCODE)]),
            row("security-recv", NotOffered, "", &[("/dev/nvme0 -p 1 -x 512", NO_OPCODE)]),
        ],
    },
    Group {
        name: "fabrics",
        subcommands: &[
            row("discover", NotOffered, "no fabrics", &[("-t tcp -a 127.0.0.1", NO_FABRICS)]),
            row("connect-all", NotOffered, "no fabrics", &[("-t tcp -a 127.0.0.1", NO_FABRICS)]),
            row("connect", NotOffered, "no fabrics", &[("-t tcp -n a -a 127.0.0.1", NO_FABRICS)]),
            row("disconnect", NotOffered, "no fabrics", &[("-d nvme0", "Failed to disconnect nvme0")]),
            row("disconnect-all", Passes, "finds nothing that is connected", &[("", "")]),
            row("config", NotOffered, "no fabrics", &[("", "")]),
            row("dim", NotOffered, "no fabrics", &[("-d nvme0 -t 1", "")]),
        ],
    },
    Group {
        name: "without a controller",
        subcommands: &[
            row("gen-hostnqn", Passes, "", &[("", "nqn.2014-08.org.nvmexpress:uuid:")]),
            row("show-hostnqn", Passes, "", &[("", "nqn.2014-08.org.nvmexpress:uuid:")]),
            row("gen-dhchap-key", Passes, "", &[("-n a", "DHHC-1:00:")]),
            row(
                "check-dhchap-key",
                Passes,
                "",
                &[("-k DHHC-1:00:ia6zGodOr4SEG0Zzaw398rpY0wqipUWj4jWjUh4HWUz6aQ2n:", "Key is valid")],
            ),
            row("gen-tls-key", Passes, "", &[("", "NVMeTLSkey-1:01:")]),
            row(
                "check-tls-key",
                Passes,
                "",
                &[("-k NVMeTLSkey-1:01:VRLbtnN9AQb2WXW3c9+wEf/DRLz0QuLdbYvEhwtdWwNf9LrZ:", "Key is valid")],
            ),
            row("version", Passes, "", &[("", "nvme version 2.3")]),
            row("help", Passes, "", &[("", "The following are all implemented sub-commands")]),
        ],
    },
];
