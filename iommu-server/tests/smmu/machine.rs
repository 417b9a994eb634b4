//! Registers, memory and devices of a machine with the model of an SMMU in it.
//!
//! After every write of the driver that changes something, each device tries each address: an access that gets through must
//! be allowed at that moment. This also fills the model's caches with the worst possible contents. A fuse ends the driver at
//! any access.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use iommu_server::{Config, Devices, Error, Pool, Smmu, StreamId};
use platform::fake::Ram;
use platform::{Iova, Memory, Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use sim_smmu::{Abort, Direction, Faults, PhysicalMemory, Profile, Refusal};
use smmu_spec::registers::REGISTER_BYTES;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Devices: three in one level 2 table, one in another, the last there can be; one that is never attached, one beyond.
pub(crate) const STREAMS: [u32; 7] = [0x0008, 0x0009, 0x000a, 0x0108, 0x7fff, 0x0010, 0x8000];
/// Number of them that may be attached.
pub(crate) const ATTACHABLE: usize = 5;
/// Addresses that share tables of every level, and the last one.
pub(crate) const IOVAS: [u64; 6] = [0, 0x1000, 0x20_0000, 0x20_1000, 0x4000_0000, 0x7f_ffff_f000];
/// Pages to map: of 44-bit memory.
pub(crate) const PADDRS: [u64; 3] = [0x8000_0000, 0x8000_1000, 0x0fff_ffff_f000];
/// Pages of the pool.
pub(crate) const POOL_PAGES: usize = 48;
/// Register reads after which the driver gives up.
pub(crate) const POLLS: u32 = 200;

/// A page that a device reaches: stream, address, page, and whether by writes.
pub(crate) type Reach = (u32, u64, u64, bool);

/// The machine. Handles are clones.
#[derive(Clone)]
pub(crate) struct Machine {
    inner: Rc<Inner>,
}

struct Inner {
    smmu: RefCell<sim_smmu::Smmu>,
    tables: RefCell<Tables>,
    /// Accesses of the driver until it dies.
    fuse: Cell<Option<u64>>,
    /// All pages that devices may reach while the driver works, if that is checked.
    allowed: RefCell<Option<BTreeSet<Reach>>>,
    finding: RefCell<Option<String>>,
    probes: Cell<u64>,
}

/// The pool's memory as the SMMU sees it: its pages are not in order.
struct Tables(Ram);

fn pool_paddr(page: usize) -> u64 {
    0x4010_0000 + ((page * 29) % POOL_PAGES * 2 * PAGE_SIZE) as u64
}

impl Tables {
    fn offset(&self, paddr: Paddr) -> Result<usize, Abort> {
        let page = (0..POOL_PAGES).find(|page| pool_paddr(*page) == paddr.bits() & !0xfff).ok_or(Abort)?;
        Ok(page * PAGE_SIZE + paddr.page_offset())
    }
}

impl PhysicalMemory for Tables {
    fn read(&mut self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), Abort> {
        self.0.read_bytes(self.offset(paddr)?, bytes).map_err(|_| Abort)
    }

    fn write(&mut self, paddr: Paddr, bytes: &[u8]) -> Result<(), Abort> {
        self.0.write_bytes(self.offset(paddr)?, bytes).map_err(|_| Abort)
    }
}

impl Machine {
    pub(crate) fn new(profile: Profile, seed: u64) -> Self {
        let inner = Inner {
            smmu: RefCell::new(sim_smmu::Smmu::new(sim_smmu::Config { profile, seed })),
            tables: RefCell::new(Tables(Ram::new(POOL_PAGES * PAGE_SIZE))),
            fuse: Cell::new(None),
            allowed: RefCell::new(None),
            finding: RefCell::new(None),
            probes: Cell::new(0),
        };
        Self { inner: Rc::new(inner) }
    }

    pub(crate) fn pool(&self) -> Pool<Self> {
        let pages: Vec<Paddr> = (0..POOL_PAGES).map(|page| Paddr::new(pool_paddr(page))).collect();
        Pool::new(self.clone(), &pages).unwrap()
    }

    /// Starts a new incarnation of the driver.
    pub(crate) fn start(&self, devices: Devices) -> Result<Smmu<Self, Self>, Error> {
        Smmu::start(self.clone(), self.pool(), Config { polls: POLLS, devices })
    }

    pub(crate) fn set_faults(&self, faults: Faults) {
        self.inner.smmu.borrow_mut().set_faults(faults);
    }

    pub(crate) fn set_fuse(&self, accesses: Option<u64>) {
        self.inner.fuse.set(accesses);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.inner.fuse.get() == Some(0)
    }

    /// Checks from now on that devices reach nothing else.
    pub(crate) fn allow(&self, allowed: Option<BTreeSet<Reach>>) {
        *self.inner.allowed.borrow_mut() = allowed;
    }

    /// The model itself.
    pub(crate) fn model<T>(&self, act: impl FnOnce(&mut sim_smmu::Smmu, &mut dyn PhysicalMemory) -> T) -> T {
        act(&mut self.inner.smmu.borrow_mut(), &mut *self.inner.tables.borrow_mut())
    }

    /// A transaction that is recorded when it fails.
    pub(crate) fn dma(&self, stream: u32, iova: u64, direction: Direction) -> Result<Paddr, Refusal> {
        self.model(|smmu, memory| smmu.translate(memory, StreamId(stream), Iova::new(iova), direction))
    }

    /// All that devices reach now.
    pub(crate) fn reached(&self) -> BTreeSet<Reach> {
        let mut reached = BTreeSet::new();
        for stream in STREAMS {
            for iova in IOVAS {
                for direction in [Direction::Read, Direction::Write] {
                    let outcome =
                        self.model(|smmu, memory| smmu.probe(memory, StreamId(stream), Iova::new(iova), direction));
                    self.inner.probes.set(self.inner.probes.get() + 1);
                    if let Ok(paddr) = outcome {
                        reached.insert((stream, iova, paddr.bits(), direction == Direction::Write));
                    }
                }
            }
        }
        reached
    }

    pub(crate) fn probes(&self) -> u64 {
        self.inner.probes.get()
    }

    /// The first failure: a device got through, or the driver broke a rule.
    pub(crate) fn finding(&self) -> Option<String> {
        let violation = self.model(|smmu, _| smmu.violations().first().map(|violation| format!("{violation:?}")));
        self.inner.finding.borrow().clone().or(violation)
    }

    /// Counts an access of the driver, at which it may die.
    fn live(&self) -> Result<(), OutOfBounds> {
        match self.inner.fuse.get() {
            Some(0) => Err(OutOfBounds),
            Some(left) => {
                self.inner.fuse.set(Some(left - 1));
                if left == 1 { Err(OutOfBounds) } else { Ok(()) }
            }
            None => Ok(()),
        }
    }

    fn watch(&self) {
        let Some(allowed) = self.inner.allowed.borrow().clone() else { return };
        let reached = self.reached();
        if let Some((stream, iova, paddr, is_write)) = reached.difference(&allowed).next() {
            let found = format!("stream {stream:#x} reaches {paddr:#x} at {iova:#x}, write {is_write}");
            self.inner.finding.borrow_mut().get_or_insert(found);
        }
    }

    fn ram(&self) -> Ram {
        self.inner.tables.borrow().0.clone()
    }
}

impl Mmio for Machine {
    fn len(&self) -> usize {
        REGISTER_BYTES
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.live()?;
        Ok(self.model(|smmu, memory| smmu.read32(memory, offset)))
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.live()?;
        self.model(|smmu, memory| smmu.write32(memory, offset, value));
        self.watch();
        Ok(())
    }

    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        self.live()?;
        Ok(self.model(|smmu, _| smmu.read64(offset)))
    }

    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.live()?;
        self.model(|smmu, _| smmu.write64(offset, value));
        self.watch();
        Ok(())
    }
}

impl Memory for Machine {
    platform::checked_slots!();

    fn len(&self) -> usize {
        Memory::len(&self.ram())
    }

    fn load_acquire_u32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        self.live()?;
        self.ram().load_acquire_u32(offset)
    }

    fn store_release_u32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.write(offset, &value)
    }

    fn fence(&self) {}

    fn read<T: FromBytes>(&self, offset: usize) -> Result<T, OutOfBounds> {
        self.live()?;
        self.ram().read(offset)
    }

    fn write<T: IntoBytes + Immutable>(&self, offset: usize, value: &T) -> Result<(), OutOfBounds> {
        let mut before = vec![0; size_of::<T>()];
        self.ram().read_bytes(offset, &mut before)?;
        if before == value.as_bytes() {
            return Ok(());
        }
        self.live()?;
        self.ram().write(offset, value)?;
        self.watch();
        Ok(())
    }

    fn read_bytes(&self, offset: usize, bytes: &mut [u8]) -> Result<(), OutOfBounds> {
        self.live()?;
        self.ram().read_bytes(offset, bytes)
    }

    fn write_bytes(&self, _offset: usize, _bytes: &[u8]) -> Result<(), OutOfBounds> {
        Err(OutOfBounds)
    }
}
