//! QEMU's command line for a scenario.
//!
//! The machine is a q35 with an Intel IOMMU, or a virt with an SMMUv3; a scenario may leave the IOMMU out. The IOMMU must come
//! before the devices that it stands in front of. The scenario's controllers, or its edu device, have ascending device numbers of
//! the root bus, in the scenario's order. The serial line is QEMU's standard output.
//!
//! A controller that comes and goes has its namespace as a property of its own: QEMU adds no namespace to a running machine.

use crate::machine::disk::{UserDisk, Writing};
use anyhow::{Result, ensure};
use capdl::Scenario;
use capdl::scenario::{Attach, Backend, Controller, Namespace};
use serde_json::json;
use sim_fault::ControllerEffect;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Device number of the first controller, or of the port or bridge in front of it; or of the edu device.
pub(crate) const FIRST_DEVICE: usize = 4;

/// Bytes of a controller's registers, its MSI-X table included.
pub(crate) const REGISTERS_BYTES: usize = 16 << 10;

/// QEMU's model of the processor on which Linux runs.
const LINUX_PROCESSOR: &str = "Nehalem";

/// Bytes that count as one request where a controller's rate is limited.
const UNIT_BYTES: u32 = 4096;

/// Name of the group that limits the rate of all of the controller's namespaces together.
fn throttle_group(index: usize) -> String {
    format!("limit{index}")
}

/// Input of a command line.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    /// The files to boot; they also determine the architecture.
    pub boot: Boot<'a>,
    /// The scenario.
    pub scenario: &'a Scenario,
    /// Folder of the namespaces' images, see [`image_file`].
    pub images: &'a Path,
    /// The user's disk, which replaces the first file.
    pub disk: Option<&'a UserDisk>,
    /// How time passes.
    pub time: Time<'a>,
    /// The sockets of the simulator's controllers, which then stand in the place of QEMU's own.
    pub models: Option<&'a [PathBuf]>,
    /// When the machine starts.
    pub start: Start,
}

/// The files that the machine boots.
#[derive(Clone, Copy, Debug)]
pub enum Boot<'a> {
    /// x86_64: two files.
    Multiboot {
        /// The kernel in a 32-bit container.
        kernel: &'a Path,
        /// QEMU's model of the processor, which the kernel's configuration determines.
        processor: &'a str,
        /// The root task's image.
        image: &'a Path,
    },
    /// AArch64: one file with everything.
    Whole(&'a Path),
    /// x86_64: Linux.
    Linux {
        /// The kernel.
        kernel: &'a Path,
        /// The first file system.
        files: &'a Path,
        /// Arguments of the kernel.
        arguments: &'a str,
        /// Whether the firmware leaves the disks alone.
        only_linux: bool,
    },
}

/// When the machine starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Start {
    /// At once.
    AtOnce,
    /// When gdb lets it, which can attach before the first instruction.
    WaitsForGdb,
}

/// How time passes in the machine.
#[derive(Clone, Copy, Debug)]
pub enum Time<'a> {
    /// Real time.
    Real,
    /// By instructions, which the plugin counts into a file; but real where Linux runs or the controllers are models.
    Counted {
        /// The plugin.
        plugin: &'a Path,
        /// The plugin's argument.
        argument: &'a str,
    },
}

/// QEMU's name of a controller.
pub(crate) fn device_id(index: usize) -> String {
    format!("nvme{index}")
}

/// A controller that is put into a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// The controller of the scenario.
    Own,
    /// Another controller, with a serial number of its own, which stores nothing.
    Other,
}

/// The device of a controller that comes and goes, as QEMU takes it at its start and at its monitor.
pub(crate) fn hot_plugged(index: usize, controller: &Controller, which: Which) -> serde_json::Value {
    let block_bytes = controller.namespaces.first().map_or(0, |namespace| namespace.block_bytes);
    let (serial, drive) = match which {
        Which::Own => (controller.serial.clone(), drive(index, 1)),
        Which::Other => (controller.other_serial(), other_drive(index)),
    };
    json!({"driver": "nvme", "id": device_id(index), "bus": format!("port{index}"), "serial": serial,
           "max_ioqpairs": controller.queue_pairs, "msix_qsize": controller.vector_count(),
           "cmb_size_mb": controller.memory_buffer >> 20,
           "drive": drive, "logical_block_size": block_bytes, "physical_block_size": block_bytes})
}

/// QEMU's name of the storage of another controller.
fn other_drive(index: usize) -> String {
    format!("other{index}")
}

/// QEMU's name of a namespace's storage.
fn drive(index: usize, nsid: usize) -> String {
    format!("d{index}n{nsid}")
}

/// Path of a namespace's image in the folder of images.
pub fn image_file(images: &Path, controller: &str, nsid: usize) -> PathBuf {
    images.join(format!("{controller}-{nsid}.img"))
}

/// Path of the memory that replaces the registers of a controller that reads as ones.
pub(crate) fn ones_file(images: &Path) -> PathBuf {
    images.join("ones")
}

/// Path of the machine's memory, in a scenario with telemetry or a control component.
pub(crate) fn ram_file(folder: &Path) -> PathBuf {
    folder.join("ram")
}

/// Controller and namespace, by index, that a user's disk replaces: the first namespace that is a file.
pub fn user_place(scenario: &Scenario) -> Option<(usize, usize)> {
    scenario.controllers.iter().enumerate().find_map(|(c, controller)| {
        let is_file = |namespace: &Namespace| namespace.backend == Backend::File;
        Some((c, controller.namespaces.iter().position(is_file)?))
    })
}

/// The arguments of QEMU.
pub fn arguments(parts: &Parts<'_>) -> Result<Vec<OsString>> {
    let mut line = Line(Vec::new());
    // The AArch64 kernel has the amount compiled in.
    let bytes = match parts.boot {
        Boot::Whole(_) => u64::from(kernel::configure::VIRT_MEMORY_BYTES),
        Boot::Multiboot { .. } | Boot::Linux { .. } => parts.scenario.machine.memory,
    };
    let memory = format!("{}M", bytes >> 20);
    // The machine's memory is a file where somebody outside reads it: telemetry by its name, the models by QEMU's descriptor.
    let memory_file = if parts.scenario.is_live() {
        Some(format!("memory-backend-file,mem-path={}", escaped(&ram_file(parts.images))))
    } else {
        parts.models.map(|_| "memory-backend-memfd".to_owned())
    };
    match parts.boot {
        Boot::Multiboot { .. } | Boot::Linux { .. } => {
            let shared = if memory_file.is_some() { ",memory-backend=ram" } else { "" };
            let processor = match parts.boot {
                Boot::Multiboot { processor, .. } => processor,
                Boot::Linux { .. } | Boot::Whole(_) => LINUX_PROCESSOR,
            };
            let processors = match (parts.boot, parts.time) {
                (Boot::Linux { .. }, Time::Real) => "2",
                _ => "1,maxcpus=2",
            };
            line.words(&format!("-M q35{shared} -accel tcg -cpu {processor} -smp {processors}"));
        }
        Boot::Whole(_) => {
            let iommu = if parts.scenario.machine.iommu { ",iommu=smmuv3" } else { "" };
            let shared = if memory_file.is_some() { ",memory-backend=ram" } else { "" };
            line.words(&format!("-M virt,gic-version=2,highmem=off{iommu}{shared} -accel tcg -cpu cortex-a57 -smp 1"));
        }
    }
    if let Some(backend) = memory_file {
        line.pair("-object", format!("{backend},id=ram,size={memory},share=on"));
    }
    line.pair("-m", memory);
    line.words("-nodefaults -display none -no-reboot");
    if !matches!(parts.boot, Boot::Whole(_)) && parts.scenario.machine.iommu {
        // QEMU lets no vfio-user device behind an IOMMU without caching mode.
        let caching = if parts.models.is_some() { ",caching-mode=on" } else { "" };
        line.pair("-device", format!("intel-iommu{caching}"));
    }
    if !matches!(parts.boot, Boot::Whole(_)) && !parts.scenario.hot_plugs.is_empty() {
        // Otherwise ACPI handles the slots, and ports hide that they could.
        line.words("-global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off");
    }
    // Standard output carries the serial line, without a file or a socket in between.
    line.words("-chardev stdio,id=line,signal=off -serial chardev:line");
    for (index, controller) in parts.scenario.controllers.iter().enumerate() {
        let place = place(&mut line, index, controller.attach);
        if let Some(socket) = parts.models.and_then(|sockets| sockets.get(index)) {
            line.pair("-device", model(index, &place, socket).to_string());
            continue;
        }
        let moves = parts.scenario.comes_and_goes(index);
        if !moves {
            attach(&mut line, index, &place, controller, rom(parts, controller));
        }
        if controller.iops_limit > 0 {
            let units = format!("x-iops-total={},x-iops-size={UNIT_BYTES}", controller.iops_limit);
            line.pair("-object", format!("throttle-group,id={},{units}", throttle_group(index)));
        }
        for (number, namespace) in controller.namespaces.iter().enumerate() {
            let place = (index, number);
            let disk = parts.disk.filter(|_| user_place(parts.scenario) == Some(place));
            back_end(&mut line, parts, place, controller, namespace, disk)?;
            if moves {
                continue;
            }
            let id = number + 1;
            let attachment = attachment(controller, id);
            line.pair(
                "-device",
                format!(
                    "nvme-ns,drive={1},nsid={id},bus={2},logical_block_size={0},physical_block_size={0}\
                     {attachment}",
                    namespace.block_bytes,
                    drive(index, id),
                    device_id(index)
                ),
            );
        }
        if moves && parts.scenario.is_there_at_first(index) {
            line.pair("-device", hot_plugged(index, controller, Which::Own).to_string());
        }
        if parts.scenario.hot_plugs.iter().any(|event| event.other && event.controller == controller.name) {
            let size = controller.namespaces.first().map_or(0, |namespace| namespace.size);
            line.pair("-blockdev", nothing(&other_drive(index), size).to_string());
        }
    }
    if parts.scenario.edu.is_some() {
        line.pair("-device", format!("edu,bus=pcie.0,addr={FIRST_DEVICE:#x}"));
    }
    match parts.time {
        Time::Real => {}
        Time::Counted { plugin, argument } => {
            // Timers would run out while the machine waits for another process, and while Linux waits for the device, and be counted.
            if parts.models.is_none() && !matches!(parts.boot, Boot::Linux { .. }) {
                line.words("-icount shift=0,sleep=off");
            }
            line.pair("-plugin", format!("{},{argument}", escaped(plugin)));
        }
    }
    match parts.start {
        Start::AtOnce => {}
        Start::WaitsForGdb => line.words("-s -S"),
    }
    match parts.boot {
        Boot::Multiboot { kernel, image, .. } => {
            line.pair("-kernel", kernel);
            line.pair("-initrd", image);
        }
        Boot::Whole(file) => line.pair("-kernel", file),
        Boot::Linux { kernel, files, arguments, only_linux } => {
            // SeaBIOS drives every disk otherwise. With this option it drives those that the command numbers, and none is.
            if only_linux {
                line.words("-boot strict=on");
            }
            line.pair("-kernel", kernel);
            line.pair("-initrd", files);
            line.pair("-append", arguments);
        }
    }
    Ok(line.0)
}

/// Place of a device.
struct Place {
    bus: String,
    /// The number on the bus, if that is not QEMU's choice.
    address: Option<String>,
}

/// Adds the devices between a controller and the root bus; returns the controller's place.
fn place(line: &mut Line, index: usize, attach: Attach) -> Place {
    let address = format!("addr={:#x}", FIRST_DEVICE + index);
    // Chassis and slot numbers are unique in the machine.
    let slot = 2 * index + 1;
    let port = format!("pcie-root-port,id=port{index},bus=pcie.0,{address},chassis={slot},slot={slot}");
    let alone = |bus: String| Place { bus, address: None };
    match attach {
        Attach::Root => Place { bus: "pcie.0".into(), address: Some(format!("{:#x}", FIRST_DEVICE + index)) },
        Attach::RootPort => {
            line.pair("-device", port);
            alone(format!("port{index}"))
        }
        Attach::Switch => {
            line.pair("-device", port);
            line.pair("-device", format!("x3130-upstream,id=up{index},bus=port{index}"));
            let slot = slot + 1;
            line.pair("-device", format!("xio3130-downstream,id=down{index},bus=up{index},chassis={slot},slot={slot}"));
            alone(format!("down{index}"))
        }
        Attach::Bridge => {
            line.pair("-device", format!("pci-bridge,id=bridge{index},bus=pcie.0,{address},chassis_nr={slot}"));
            Place { bus: format!("bridge{index}"), address: Some("0x1".into()) }
        }
    }
}

/// The device that connects to a model's socket; QEMU takes it as JSON alone.
fn model(index: usize, place: &Place, socket: &Path) -> serde_json::Value {
    let mut device = json!({"driver": "vfio-user-pci", "id": device_id(index), "bus": place.bus,
                            "socket": {"type": "unix", "path": socket}});
    if let (Some(address), Some(device)) = (&place.address, device.as_object_mut()) {
        device.insert("addr".into(), address.as_str().into());
    }
    device
}

/// Adds QEMU's controller, in a subsystem of its own if it has virtual functions.
fn attach(line: &mut Line, index: usize, place: &Place, controller: &Controller, rom: Option<PathBuf>) {
    let address = place.address.as_ref().map_or_else(String::new, |address| format!(",addr={address}"));
    let place = format!("bus={}{address}", place.bus);
    let (pairs, vectors) = (controller.queue_pairs, controller.vector_count());
    let serial = &controller.serial;
    let rom = rom.map_or_else(String::new, |rom| format!(",romfile={}", escaped(&rom)));
    let buffer = match controller.memory_buffer >> 20 {
        0 => String::new(),
        mib => format!(",cmb_size_mb={mib}"),
    };
    let mut functions = String::new();
    if controller.virtual_functions > 0 {
        line.pair("-device", format!("nvme-subsys,id=subsystem{index}"));
        let (count, flexible) = (controller.virtual_functions, controller.flexible_queues());
        functions = format!(
            ",subsys=subsystem{index},sriov_max_vfs={count},sriov_vq_flexible={flexible},sriov_vi_flexible={flexible}"
        );
    }
    line.pair(
        "-device",
        format!(
            "nvme,id=nvme{index},{place},serial={serial},max_ioqpairs={pairs},msix_qsize={vectors}{buffer}{functions}{rom}"
        ),
    );
}

/// The options of a namespace in a subsystem: it is one controller's at a time, and at the start perhaps nobody's.
fn attachment(controller: &Controller, nsid: usize) -> &'static str {
    match (controller.virtual_functions, controller.is_attached(nsid as u32)) {
        (0, _) => "",
        (_, true) => ",shared=off",
        (_, false) => ",shared=off,detached=on",
    }
}

/// The read-only memory of ones for a controller whose registers read as ones for a while.
fn rom(parts: &Parts<'_>, controller: &Controller) -> Option<PathBuf> {
    let mut faults = parts.scenario.faults_of(controller);
    let reads_ones = faults.any(|fault| matches!(fault.effect, ControllerEffect::AllOnes { .. }));
    reads_ones.then(|| ones_file(parts.images))
}

/// Adds the storage of a namespace, as drive `d<controller>n<nsid>`.
fn back_end(
    line: &mut Line,
    parts: &Parts<'_>,
    (index, number): (usize, usize),
    controller: &Controller,
    namespace: &Namespace,
    disk: Option<&UserDisk>,
) -> Result<()> {
    let name = drive(index, number + 1);
    if let Some(disk) = disk {
        ensure!(
            !parts.scenario.comes_and_goes(index),
            "the scenario '{}' removes the controller whose disk --disk replaces: leave out --disk",
            parts.scenario.name
        );
        ensure!(
            namespace.media_errors.is_empty(),
            "the scenario '{}' has media errors on the namespace that --disk replaces: leave out --disk",
            parts.scenario.name
        );
        // `snapshot` keeps writes in a temporary file of QEMU's own.
        let snapshot = match disk.writing {
            Writing::Kept => "off",
            Writing::Forgotten => "on",
        };
        ensure!(
            controller.iops_limit == 0,
            "the scenario '{}' limits the rate of the controller whose disk --disk replaces: leave out --disk",
            parts.scenario.name
        );
        let file = escaped(&disk.path);
        line.pair("-drive", format!("if=none,id={name},format=raw,snapshot={snapshot},file={file}"));
        return Ok(());
    }
    let faulty = !namespace.media_errors.is_empty();
    let limited = controller.iops_limit > 0;
    // The device has the uppermost node's name.
    let whole = if limited { format!("{name}-unlimited") } else { name.clone() };
    let below = if faulty { format!("{whole}-whole") } else { whole.clone() };
    let storage = match namespace.backend {
        Backend::File => {
            let file = image_file(parts.images, &controller.name, number + 1);
            json!({"driver": "file", "node-name": below, "filename": file, "discard": "unmap"})
        }
        Backend::Null => nothing(&below, namespace.size),
    };
    line.pair("-blockdev", storage.to_string());
    if faulty {
        line.pair("-blockdev", blkdebug(&whole, &below, namespace).to_string());
    }
    if limited {
        let group = throttle_group(index);
        let throttle = json!({"driver": "throttle", "node-name": name, "throttle-group": group, "file": whole});
        line.pair("-blockdev", throttle.to_string());
    }
    Ok(())
}

/// A node that forgets writes and reads as zeroes.
fn nothing(name: &str, size: u64) -> serde_json::Value {
    json!({"driver": "null-co", "node-name": name, "size": size, "read-zeroes": true})
}

/// A node that fails reads of the namespace's bad blocks with an I/O error. Its sectors have 512 bytes.
fn blkdebug(name: &str, below: &str, namespace: &Namespace) -> serde_json::Value {
    let sectors = u64::from(namespace.block_bytes / 512);
    let error =
        |block: &u64| json!({"event": "none", "iotype": "read", "errno": 5, "sector": block * sectors, "once": false});
    let errors: Vec<_> = namespace.media_errors.iter().map(error).collect();
    json!({"driver": "blkdebug", "node-name": name, "image": below, "inject-error": errors})
}

/// A path inside an option: a comma is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

struct Line(Vec<OsString>);

impl Line {
    fn words(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(OsString::from));
    }

    fn pair(&mut self, option: &str, value: impl Into<OsString>) {
        self.0.push(option.into());
        self.0.push(value.into());
    }
}

#[cfg(test)]
mod tests;
