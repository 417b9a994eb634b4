//! The files below `/sys` that libnvme looks for, in a folder: a subsystem, its controller, namespaces, and the registers.

use super::{FarEnd, Refused, identify};
use anyhow::{Context, Result};
use nvme_passthrough::Refusal;
use nvme_spec::identify::{Controller, NamespaceList};
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use zerocopy::FromBytes;

/// CNS values of Identify: the controller, and the active namespaces.
const CONTROLLER: u8 = 1;
const ACTIVE: u8 = 2;

/// The controller's folder, and the subsystem's with a link to it.
const OWN: &str = "class/nvme/nvme0";
const SUBSYSTEM: &str = "class/nvme-subsystem/nvme-subsys0";
const LINK: (&str, &str) = ("../../nvme/nvme0", "class/nvme-subsystem/nvme-subsys0/nvme0");

/// Writes the files; returns the NSIDs of the active namespaces.
///
/// # Errors
/// A controller that does not identify itself, or a folder that cannot be written.
pub(super) fn write(folder: &Path, far: &mut dyn FarEnd) -> Result<Vec<u32>> {
    let about: Controller = structure(far, CONTROLLER)?;
    let active: NamespaceList = structure(far, ACTIVE)?;
    let namespaces: Vec<_> = active.iter().map(|nsid| nsid.0).collect();
    let registers = far.registers();
    put(folder, &about, &namespaces, &registers).with_context(|| format!("cannot write {}", folder.display()))?;
    Ok(namespaces)
}

fn structure<T: FromBytes>(far: &mut dyn FarEnd, cns: u8) -> Result<T, Refused> {
    let none = || Refused(Refusal::Unsupported, "the controller does not identify itself".into());
    T::read_from_bytes(&identify(far, cns, 0)?.ok_or_else(none)?).map_err(|_| none())
}

fn put(folder: &Path, about: &Controller, namespaces: &[u32], registers: &[u8]) -> io::Result<()> {
    let names = [
        ("model", about.model_number()),
        ("serial", about.serial_number()),
        ("firmware_rev", about.firmware_revision()),
        ("subsysnqn", about.subsystem_name()),
    ];
    let own = folder.join(OWN);
    // Of namespaces that are gone, nothing stays.
    let _ = fs::remove_dir_all(&own);
    for (base, more) in [
        (SUBSYSTEM, &[("subsystype", "nvm"), ("iopolicy", "numa")][..]),
        (OWN, &[("transport", "pcie"), ("address", "0000:00:04.0"), ("state", "live"), ("numa_node", "-1")]),
    ] {
        let base = folder.join(base);
        fs::create_dir_all(&base)?;
        for (name, text) in names.iter().chain(more) {
            fs::write(base.join(name), format!("{text}\n"))?;
        }
    }
    fs::write(own.join("cntlid"), format!("{}\n", about.cntlid))?;
    fs::create_dir_all(own.join("device"))?;
    fs::write(own.join("device/resource0"), registers)?;
    for nsid in namespaces {
        let node = own.join(format!("nvme0n{nsid}"));
        fs::create_dir_all(&node)?;
        fs::write(node.join("nsid"), format!("{nsid}\n"))?;
    }
    match symlink(LINK.0, folder.join(LINK.1)) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
