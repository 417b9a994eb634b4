//! A controller of a scenario in its PCI function, for a virtual machine that is not simulated: QEMU has the PCI tree, the
//! BARs and the MSI-X table, and time is real.
//!
//! `sim-vfio-user` serves it. A fault of the whole controller can also come from outside while it is served, because only an
//! observer of the machine knows when its system works ([`Exported::take_faults_from`]).

use crate::disk::Disk;
use crate::inside::{Inside, Up};
use crate::topology::{self, ALONE_ECAM, faults_of};
use capdl::Scenario;
use sim_fault::{ControllerEffect, Fault};
use sim_nvme::{Controller, FaultHit};
use sim_pci::{AttachError, ConfigError, FunctionId, Tree};
use sim_vfio_user::{Blocked, ConfigSpace, Device, Host, Image, Level, Shape, Snapshot};
use std::ops::Range;
use std::sync::mpsc::{Receiver, TryRecvError};

/// Bytes of BAR 0 in a snapshot: the registers. Nobody reads doorbells.
const SNAPSHOT_BYTES: usize = 4096;
/// While faults may come: the time between two looks for one, in nanoseconds.
const FAULT_POLL_NS: u64 = 1_000_000;

/// A controller in its function.
pub struct Exported {
    tree: Tree<Inside>,
    function: FunctionId,
    shape: Shape,
    /// The BAR of the MSI-X table and the pending bits, and the offset in it from which on they are the emulator's.
    messages: Option<(u8, u64)>,
    /// Faults that are to happen; `None` when no more can come.
    faults: Option<Receiver<ControllerEffect>>,
    /// The numbers of its faults in the list of all controllers'.
    numbers: Vec<usize>,
    now_ns: u64,
}

impl Exported {
    /// Creates controller `index` of a scenario as after power on; `disks` are its namespaces' contents. Those of `faults`
    /// that are this controller's happen by the server's time.
    ///
    /// # Errors
    ///
    /// A scenario without this controller, a controller with virtual functions, or [`AttachError`].
    pub fn new(
        scenario: &Scenario,
        index: usize,
        disks: &[Disk],
        faults: &[Fault],
        seed: u64,
    ) -> Result<Self, AttachError> {
        let controller = scenario.controllers.get(index).ok_or(AttachError::NoSuchPlace)?;
        if controller.virtual_functions > 0 {
            return Err(ConfigError::VirtualFunctions.into());
        }
        let numbers = faults_of(scenario, faults).swap_remove(index);
        let (mut tree, function, config) = topology::alone(controller, index, disks, faults, seed)?;
        tree.number_messages(function);
        let bar_bytes = config.bars.map(|bar| bar.map_or(0, |bar| bar.bytes));
        let shape = Shape {
            bar_bytes,
            config: ConfigSpace::Extended,
            msix_vectors: config.msix.map_or(0, |msix| msix.vectors),
            msi_vectors: config.msi.map_or(0, |msi| 1 << msi.vectors_log2),
            pin: config.pin.is_some(),
            reset: true,
        };
        let messages = config.msix.map(|msix| (msix.table.0, msix.table.1.into()));
        Ok(Self { tree, function, shape, messages, faults: None, numbers, now_ns: 0 })
    }

    /// Lets those faults of the whole controller happen that come from `faults` while it is served.
    pub fn take_faults_from(&mut self, faults: Receiver<ControllerEffect>) {
        self.faults = Some(faults);
    }

    /// Reads the current content of a namespace, as [`Controller::read_contents`].
    pub fn read_disk(&self, nsid: u32, offset: u64, bytes: &mut [u8]) -> Option<()> {
        self.controller()?.read_contents(nsid, offset, bytes)
    }

    /// The ranges of a namespace that were written, as [`Controller::written`].
    pub fn written(&self, nsid: u32) -> Vec<Range<u64>> {
        self.controller().map_or(Vec::new(), |controller| controller.written(nsid).collect())
    }

    /// Violations of the NVMe standard by drivers so far, the firmware's too, oldest first, one sentence each.
    #[must_use]
    pub fn violations(&self) -> Vec<String> {
        self.controller()
            .map_or(&[][..], Controller::violations)
            .iter()
            .map(|one| format!("a driver did what the standard forbids, at {} ns: {:?}", one.at_ns, one.kind))
            .collect()
    }

    /// The first commands that faults hit, each with the number of the fault among those that it was created with; times are the server's.
    #[must_use]
    pub fn faulty_commands(&self) -> Vec<(usize, FaultHit)> {
        let hits = self.controller().map_or(&[][..], Controller::faulty_commands);
        hits.iter().filter_map(|hit| Some((*self.numbers.get(usize::from(hit.fault))?, *hit))).collect()
    }

    fn controller(&self) -> Option<&Controller> {
        self.tree.device(self.function).and_then(Inside::controller)
    }

    /// Whether the emulator answers at this place, and not the device.
    fn is_emulators(&self, bar: u8, offset: u64) -> bool {
        self.messages.is_some_and(|(of_messages, from)| bar == of_messages && offset >= from)
    }

    /// Calls `act` with the tree and the machine above it.
    fn with<T>(
        &mut self,
        host: &mut dyn Host,
        act: impl FnOnce(&mut Tree<Inside>, FunctionId, &mut dyn sim_pci::Machine) -> T,
    ) -> T {
        let vector_bits = self.tree.msi_vector_bits(self.function).unwrap_or(u32::MAX);
        act(&mut self.tree, self.function, &mut Above { host, vector_bits })
    }

    /// Lets the faults happen that have come.
    fn take_faults(&mut self, now_ns: u64, host: &mut dyn Host) {
        while let Some(faults) = &self.faults {
            let effect = match faults.try_recv() {
                Ok(effect) => effect,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.faults = None;
                    return;
                }
            };
            self.with(host, |tree, id, machine| {
                tree.with_device(id, now_ns, machine, |inside, upstream| {
                    if let Some(controller) = inside.controller_mut() {
                        controller.advance(now_ns, &mut Up(upstream));
                        controller.inject(effect, &mut Up(upstream));
                    }
                })
            });
        }
    }
}

impl Device for Exported {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn config_read(&mut self, offset: u16, bytes: &mut [u8], now_ns: u64) {
        for (at, byte) in (ALONE_ECAM + u64::from(offset)..).zip(bytes) {
            *byte = self.tree.config_read(at, 1, now_ns).unwrap_or(u64::MAX) as u8;
        }
    }

    fn config_write(&mut self, offset: u16, bytes: &[u8], now_ns: u64, host: &mut dyn Host) {
        self.with(host, |tree, id, machine| {
            for (at, size, value) in pieces(ALONE_ECAM + u64::from(offset), bytes, 4) {
                // Each piece is aligned and of a size that the tree takes.
                let _ = tree.config_write(at, size, value, now_ns, machine);
            }
            // The write may have been a reset.
            tree.number_messages(id);
        });
    }

    // As it was when the server last called `advance` or `bar_write`.
    fn bar_read(&mut self, bar: u8, offset: u64, bytes: &mut [u8], now_ns: u64) {
        if self.is_emulators(bar, offset) {
            // No vector is ever pending: all are sent at once.
            return bytes.fill(0);
        }
        bytes.fill(u8::MAX);
        let Some(size) = u8::try_from(bytes.len()).ok().filter(|size| matches!(size, 1 | 2 | 4 | 8)) else { return };
        let inside = self.tree.device_mut(self.function);
        let value = inside.map_or(u64::MAX, |inside| sim_pci::Device::read(inside, bar, offset, size, now_ns));
        bytes.iter_mut().zip(value.to_le_bytes()).for_each(|(byte, read)| *byte = read);
    }

    fn bar_write(&mut self, bar: u8, offset: u64, bytes: &[u8], now_ns: u64, host: &mut dyn Host) {
        let whole = pieces(offset, bytes, 8).next().filter(|piece| usize::from(piece.1) == bytes.len());
        let Some((_, size, value)) = whole.filter(|_| !self.is_emulators(bar, offset)) else { return };
        self.with(host, |tree, id, machine| {
            tree.with_device(id, now_ns, machine, |inside, upstream| {
                sim_pci::Device::write(inside, bar, offset, size, value, now_ns, upstream);
            })
        });
    }

    fn reset(&mut self, now_ns: u64, host: &mut dyn Host) {
        self.with(host, |tree, id, machine| {
            tree.reset_function(id, now_ns, machine);
            tree.number_messages(id);
        });
    }

    fn advance(&mut self, now_ns: u64, host: &mut dyn Host) {
        self.now_ns = now_ns;
        self.take_faults(now_ns, host);
        self.with(host, |tree, _, machine| tree.advance(now_ns, machine));
    }

    fn next_event_ns(&self) -> Option<u64> {
        let poll = self.faults.as_ref().map(|_| self.now_ns.saturating_add(FAULT_POLL_NS));
        self.tree.next_event_ns().into_iter().chain(poll).min()
    }

    fn snapshot(&mut self, _now_ns: u64, snapshot: &mut Snapshot) {
        self.tree.copy_config_space(self.function, &mut snapshot.config.bytes);
        let [Image { bytes, .. }, ..] = &mut snapshot.bars;
        if let Some(controller) = self.controller() {
            controller.copy_registers(bytes);
        }
        bytes.resize(SNAPSHOT_BYTES, 0);
    }
}

/// The client's machine, as the tree sees it.
struct Above<'a> {
    host: &'a mut dyn Host,
    /// Bits of a message's data that are the vector's number.
    vector_bits: u32,
}

impl sim_pci::Machine for Above<'_> {
    fn dma_read(&mut self, _: u16, address: u64, bytes: &mut [u8]) -> Result<(), sim_pci::Blocked> {
        self.host.dma_read(address, bytes).map_err(blocked)
    }

    fn dma_write(&mut self, _: u16, address: u64, bytes: &[u8]) -> Result<(), sim_pci::Blocked> {
        self.host.dma_write(address, bytes).map_err(blocked)
    }

    fn message(&mut self, _: u16, _: u64, data: u32) {
        self.host.interrupt((data & self.vector_bits) as u16);
    }

    fn pin(&mut self, _: u8, level: sim_pci::Level) {
        self.host.pin(match level {
            sim_pci::Level::Asserted => Level::Asserted,
            sim_pci::Level::Deasserted => Level::Deasserted,
        });
    }
}

const fn blocked(reason: Blocked) -> sim_pci::Blocked {
    match reason {
        Blocked::Refused => sim_pci::Blocked::Refused,
        Blocked::Gone => sim_pci::Blocked::Gone,
    }
}

/// Cuts an access into aligned pieces of 1, 2, 4 or 8 bytes, `most` at most: offset, bytes, value.
fn pieces(offset: u64, bytes: &[u8], most: usize) -> impl Iterator<Item = (u64, u8, u64)> + '_ {
    let (mut at, mut left) = (offset, bytes);
    std::iter::from_fn(move || {
        let fits = |size: &usize| *size <= most.min(left.len()) && at.is_multiple_of(*size as u64);
        let size = [8, 4, 2, 1].into_iter().find(fits)?;
        let (piece, rest) = left.split_at(size);
        let value = piece.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte));
        let place = at;
        (at, left) = (at + size as u64, rest);
        Some((place, size as u8, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
queue_pairs = 4
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

    /// A machine that remembers its interrupts.
    #[derive(Default)]
    struct Machine(Vec<u16>);

    impl Host for Machine {
        fn dma_read(&mut self, _: u64, bytes: &mut [u8]) -> Result<(), Blocked> {
            bytes.fill(0);
            Ok(())
        }

        fn dma_write(&mut self, _: u64, _: &[u8]) -> Result<(), Blocked> {
            Ok(())
        }

        fn interrupt(&mut self, vector: u16) {
            self.0.push(vector);
        }

        fn pin(&mut self, _: Level) {}
    }

    fn exported() -> Exported {
        let scenario = Scenario::parse(SYSTEM, "a").unwrap();
        Exported::new(&scenario, 0, &[Disk::zeroes()], &[], 1).unwrap()
    }

    fn register(device: &mut Exported, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        device.bar_read(0, offset, &mut bytes, 0);
        u32::from_le_bytes(bytes)
    }

    #[test]
    fn an_access_is_cut_into_aligned_pieces() {
        let bytes: Vec<u8> = (1..=7).collect();
        let cut: Vec<_> = pieces(1, &bytes, 4).collect();
        assert_eq!(cut, [(1, 1, 1), (2, 2, 0x0302), (4, 4, 0x0706_0504)]);
        assert_eq!(pieces(8, &[1; 8], 8).collect::<Vec<_>>(), [(8, 8, 0x0101_0101_0101_0101)]);
        assert_eq!(pieces(0, &[], 4).count(), 0);
    }

    #[test]
    fn a_controller_with_virtual_functions_is_refused() {
        let scenario = Scenario::parse(SYSTEM, "a").unwrap();
        let new = |scenario: &Scenario| Exported::new(scenario, 0, &[Disk::zeroes()], &[], 1).err();
        assert_eq!(new(&scenario), None);
        let mut with_functions = scenario;
        with_functions.controllers[0].virtual_functions = 1;
        assert_eq!(new(&with_functions), Some(ConfigError::VirtualFunctions.into()));
    }

    #[test]
    fn registers_answer_whatever_the_bar_holds() {
        let (mut device, mut host) = (exported(), Machine::default());
        let version = register(&mut device, 8);
        assert_eq!(version, 0x0001_0400);
        // As firmware sizes it; QEMU has the address itself.
        device.config_write(0x10, &[0xff; 4], 0, &mut host);
        assert_eq!(register(&mut device, 8), version);
        let (_, table) = device.messages.unwrap();
        assert_eq!(register(&mut device, table), 0, "the table is QEMU's");
        assert!(device.violations().is_empty());
    }

    #[test]
    fn a_buffer_reads_as_ones_and_pending_bits_as_zeroes() {
        let mut scenario = Scenario::parse(SYSTEM, "a").unwrap();
        scenario.controllers[0].memory_buffer = 1 << 20;
        scenario.controllers[0].model.table_bar = true;
        let mut device = Exported::new(&scenario, 0, &[Disk::zeroes()], &[], 1).unwrap();
        for (bar, expected) in [(2, u8::MAX), (4, 0)] {
            let mut bytes = [1; 12];
            device.bar_read(bar, 0x80, &mut bytes, 0);
            assert_eq!(bytes, [expected; 12], "BAR {bar}");
        }
        device.bar_write(2, 0x14, &0x0046_0001u32.to_le_bytes(), 0, &mut Machine::default());
        assert_eq!(register(&mut device, 0x14), 0, "CC is in BAR 0 alone");
    }

    #[test]
    fn a_snapshot_holds_what_reads_return() {
        let mut device = exported();
        let mut snapshot = Snapshot::default();
        device.snapshot(0, &mut snapshot);
        let mut config = vec![0; 4096];
        device.config_read(0, &mut config, 0);
        assert_eq!(snapshot.config.bytes, config);
        for offset in (0..0x38).step_by(4) {
            let read = register(&mut device, offset as u64);
            assert_eq!(snapshot.bars[0].bytes[offset..offset + 4], read.to_le_bytes(), "{offset:#x}");
        }
    }

    #[test]
    fn command_that_a_fault_hits_is_known_with_the_number_of_the_fault() {
        let faults = "[[fault]]\ncontroller = { at_ns = 99000000000, effect = \"removal\" }\n[[fault]]\ncommand = { effect = \"drop-completion\", queues = \"admin\" }\n";
        let scenario = Scenario::parse(&format!("{SYSTEM}{faults}"), "a").unwrap();
        let (mut device, mut host) =
            (Exported::new(&scenario, 0, &[Disk::zeroes()], &scenario.faults, 1).unwrap(), Machine::default());
        device.config_write(4, &[6, 0], 0, &mut host);
        for (offset, value) in [(0x24, 0x0003_0003), (0x28, 0x1000), (0x30, 0x2000), (0x14, 0x0046_0001)] {
            device.bar_write(0, offset, &u32::to_le_bytes(value), 0, &mut host);
        }
        let ready_ns = 10_000_000;
        device.advance(ready_ns, &mut host);
        assert_eq!(register(&mut device, 0x1c) & 1, 1, "CSTS.RDY");
        device.bar_write(0, 0x1000, &1u32.to_le_bytes(), ready_ns, &mut host);
        device.advance(2 * ready_ns, &mut host);
        let hits = device.faulty_commands();
        assert!(matches!(&hits[..], [(1, hit)] if hit.sq == 0 && hit.at_ns >= ready_ns), "{hits:?}");
    }

    #[test]
    fn a_fault_from_outside_interrupts_with_its_vector() {
        let (mut device, mut host) = (exported(), Machine::default());
        let (faults, receiver) = std::sync::mpsc::channel();
        device.take_faults_from(receiver);
        // Bus master and memory; then MSI-X on.
        device.config_write(4, &[6, 0], 0, &mut host);
        device.config_write(0x42, &0x8000u16.to_le_bytes(), 0, &mut host);
        faults.send(ControllerEffect::SpuriousInterrupt { vector: 3 }).unwrap();
        faults.send(ControllerEffect::FatalStatus).unwrap();
        assert!(device.next_event_ns().is_some());
        device.advance(1, &mut host);
        assert_eq!(host.0, [3]);
        assert_ne!(register(&mut device, 0x1c) & 2, 0, "CSTS.CFS");
        // A function level reset masks no vector for good.
        device.config_write(0x88, &0x8000u16.to_le_bytes(), 2, &mut host);
        assert_eq!(register(&mut device, 0x1c), 0);
        drop(faults);
        device.advance(3, &mut host);
        assert_eq!(device.next_event_ns(), None);
    }
}
