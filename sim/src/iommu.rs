//! The path of a device's transfers and messages to memory: through the kernel's IOSpaces on q35; on virt through the
//! SMMU, which a component drives.

use platform::{Iova, PAGE_SIZE, Paddr};
use sim_kernel::{Access, IoFault, Kernel};
use sim_smmu::{Abort, Direction, PhysicalMemory, Profile};
use smmu_spec::StreamId;
use std::ops::Range;

/// Physical addresses of the SMMU's registers: two pages of 64 KiB.
pub(crate) const REGISTERS: Range<u64> = 0x0905_0000..0x0907_0000;

/// The IOMMU between devices and memory.
pub(crate) enum Iommu {
    /// The IOMMU that the kernel drives.
    Kernels,
    /// The SMMU, which a component drives.
    Smmu(Box<sim_smmu::Smmu>),
}

impl Iommu {
    /// Creates an SMMU that is off: like QEMU's for even seeds, as the standard says for odd ones.
    pub(crate) fn smmu(seed: u64) -> Self {
        let profile = if seed.is_multiple_of(2) { Profile::Qemu72 } else { Profile::Standard };
        let config = sim_smmu::Config { profile, seed };
        Self::Smmu(Box::new(sim_smmu::Smmu::new(config)))
    }

    /// Translates the address of a device's access.
    pub(crate) fn translate(
        &mut self,
        kernel: &mut Kernel,
        requester_id: u16,
        iova: u64,
        access: Access,
    ) -> Result<Paddr, IoFault> {
        let smmu = match self {
            Self::Kernels => return kernel.io_translate(requester_id, iova, access),
            Self::Smmu(smmu) => smmu,
        };
        let direction = if access == Access::Write { Direction::Write } else { Direction::Read };
        let translated = smmu.translate(&mut Ram(kernel), StreamId(requester_id.into()), Iova::new(iova), direction);
        translated.map_err(|_| IoFault { requester_id, iova, access })
    }

    /// Returns the pages that a device reaches.
    pub(crate) fn reached(&self, kernel: &Kernel, requester_id: u16) -> Vec<Paddr> {
        match self {
            Self::Kernels => kernel.io_space(requester_id).iter().map(|page| Paddr::new(page.paddr)).collect(),
            Self::Smmu(smmu) => {
                let reached = smmu.reached(&mut Seen(kernel), StreamId(requester_id.into()));
                reached.iter().map(|page| page.paddr).collect()
            }
        }
    }

    /// Translates the address of a device's read without any effect, for the observer.
    fn peek(&self, kernel: &Kernel, requester_id: u16, iova: u64) -> Option<Paddr> {
        let smmu = match self {
            Self::Kernels => return kernel.io_peek(requester_id, iova, Access::Read),
            Self::Smmu(smmu) => smmu,
        };
        let page = smmu.reached_at(&mut Seen(kernel), StreamId(requester_id.into()), Iova::new(iova))?;
        Some(Paddr::new(page.paddr.bits() | iova & (PAGE_SIZE as u64 - 1)))
    }

    /// Breaches of the standard by the SMMU's driver.
    pub(crate) fn violations(&self) -> &[sim_smmu::Violation] {
        match self {
            Self::Kernels => &[],
            Self::Smmu(smmu) => smmu.violations(),
        }
    }

    /// Reads a register of the SMMU.
    pub(crate) fn read(&mut self, kernel: &mut Kernel, offset: u64, bytes: u8) -> u64 {
        match self {
            Self::Smmu(smmu) if bytes == 8 => smmu.read64(offset as usize),
            Self::Smmu(smmu) => smmu.read32(&mut Ram(kernel), offset as usize).into(),
            Self::Kernels => u64::MAX,
        }
    }

    /// Writes a register of the SMMU.
    pub(crate) fn write(&mut self, kernel: &mut Kernel, offset: u64, bytes: u8, value: u64) {
        match self {
            Self::Smmu(smmu) if bytes == 8 => smmu.write64(offset as usize, value),
            Self::Smmu(smmu) => smmu.write32(&mut Ram(kernel), offset as usize, value as u32),
            Self::Kernels => {}
        }
    }
}

/// Memory as a device sees it, for the observer.
#[derive(Clone, Copy)]
pub(crate) struct DeviceMemory<'a> {
    pub(crate) iommu: &'a Iommu,
    pub(crate) kernel: &'a Kernel,
    pub(crate) requester_id: u16,
}

impl DeviceMemory<'_> {
    /// Reads memory at an address of the device's. `None` if the device does not reach all of it.
    pub(crate) fn read(&self, iova: u64, bytes: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = iova.checked_add(done as u64)?;
            let piece = (PAGE_SIZE - at as usize % PAGE_SIZE).min(bytes.len() - done);
            let paddr = self.iommu.peek(self.kernel, self.requester_id, at)?;
            self.kernel.memory().read(paddr, bytes.get_mut(done..done + piece)?).ok()?;
            done += piece;
        }
        Some(())
    }
}

/// Memory that the SMMU reads and writes.
struct Ram<'a>(&'a mut Kernel);

impl PhysicalMemory for Ram<'_> {
    fn read(&mut self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), Abort> {
        self.0.memory().read(paddr, bytes).map_err(|_| Abort)
    }

    fn write(&mut self, paddr: Paddr, bytes: &[u8]) -> Result<(), Abort> {
        self.0.memory_mut().write(paddr, bytes).map_err(|_| Abort)
    }
}

/// Memory that the SMMU only reads.
struct Seen<'a>(&'a Kernel);

impl PhysicalMemory for Seen<'_> {
    fn read(&mut self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), Abort> {
        self.0.memory().read(paddr, bytes).map_err(|_| Abort)
    }

    fn write(&mut self, _: Paddr, _: &[u8]) -> Result<(), Abort> {
        Err(Abort)
    }
}
