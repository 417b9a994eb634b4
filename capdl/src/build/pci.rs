//! The PCI server, the IOMMU server where there is one, and the drivers in the configurations of both.

use super::Builder;
use super::drivers::{Driver, arena_bytes};
use crate::error::BuildError;
use crate::layout::rights;
use crate::machine::{BUSES, Iommu, Machine, Smmu};
use crate::model::{Grant, Who};
use crate::priority::PCI_SERVER_PRIORITY;
use crate::scenario::IOMMU_SERVER;
use capdl_spec::{ObjectId, ObjectKind, Role};
use pci_api::{DriverConfig, names};
use platform::{Badge, Paddr, RegionKind, Vaddr};

/// Pages of the largest MSI-X table, 2048 entries of 16 bytes, if it does not begin with a page.
const TABLE_PAGES: u64 = 9;
/// Cptrs for each page that is mapped: half of all cptrs are for dividing device memory, which takes up to three for a page; of
/// the others a page takes one.
const CPTRS_A_PAGE: u64 = 6;

/// The PCI server, and the objects that drivers get capabilities for.
pub(super) struct Pci {
    pub(super) who: Who,
    pub(super) endpoint: ObjectId,
    /// The supervisor's notification.
    pub(super) supervisor: ObjectId,
    /// The IOMMU server, where there is one.
    iommu: Option<(Who, &'static Smmu)>,
}

impl Builder<'_> {
    pub(super) fn pci_server(&mut self) -> Result<Pci, BuildError> {
        let who = self.component("pci-server", Role::PciServer, PCI_SERVER_PRIORITY)?;
        let endpoint = self.one("pci-server.endpoint", ObjectKind::Endpoint);
        let event = self.one("pci-server.event", ObjectKind::Notification);
        self.serves_with(who, (endpoint, rights::READ | rights::GRANT), event);
        let irq_control = self.one("irq-control", ObjectKind::IrqControl);
        self.model.cap(who, names::IRQ_CONTROL, irq_control, 0, rights::ALL);
        let iommu = self.io_spaces(who)?;
        if let Some((iommu, _)) = iommu {
            self.model.ends_with(who, iommu);
        }
        let mut windows = Vec::new();
        for (paddr, size_bits) in self.machine().pci_windows() {
            let kind = ObjectKind::DeviceUntyped { paddr, size_bits };
            let object = self.one(&format!("pci-window-{paddr:x}"), kind);
            windows.push(Grant { object, badge: 0, rights: rights::ALL });
        }
        self.model.caps(who, names::PCI_WINDOW, &windows);
        let ecam = self.machine().ecam;
        let ecam = self.model.object("ecam", ObjectKind::LargeDeviceFrame { paddr: ecam }, u64::from(BUSES) / 2);
        self.model.region(who, names::ECAM, ecam, RegionKind::Device);
        let drivers = self.drivers().len() as u64;
        self.model.arena(who, names::ARENA, arena_bytes(TABLE_PAGES * drivers));
        let vspace = self.model.vspace(who);
        self.model.cap(who, names::OWN_VSPACE, vspace, 0, rights::ALL);
        self.model.own_cnode(who, 2048 + 1024 * drivers + CPTRS_A_PAGE * self.all_register_pages());
        self.model.keeps(who, names::SIZING);
        self.model.restarts(who, self.scenario.pci_server.restart.to_policy());
        let supervisor = self.one("root-task.event", ObjectKind::Notification);
        Ok(Pci { who, endpoint, supervisor, iommu })
    }

    /// Gives the PCI server the source of IOSpaces: the kernel's master, or the IOMMU server with a badge for the PCI server
    /// and one for each driver's domain. Returns the IOMMU server.
    fn io_spaces(&mut self, pci: Who) -> Result<Option<(Who, &'static Smmu)>, BuildError> {
        let smmu = match self.iommu() {
            Iommu::None => return Ok(None),
            Iommu::Kernels => {
                let io_space = self.one("io-space-master", ObjectKind::IoSpaceMaster);
                self.model.cap(pci, names::IO_SPACE_MASTER, io_space, 0, rights::ALL);
                return Ok(None);
            }
            Iommu::Servers(smmu) => smmu,
        };
        let who = self.component(IOMMU_SERVER, Role::IommuServer, PCI_SERVER_PRIORITY)?;
        let endpoint = self.one("iommu-server.endpoint", ObjectKind::Endpoint);
        let event = self.one("iommu-server.event", ObjectKind::Notification);
        self.serves(who, endpoint, event);
        let registers = ObjectKind::SmallDeviceFrame { paddr: smmu.registers };
        let registers = self.model.object("smmu", registers, Smmu::REGISTER_PAGES);
        self.model.region(who, iommu_api::names::SMMU, registers, RegionKind::Device);
        let own = |badge| Grant { object: endpoint, badge, rights: rights::CALL };
        let domains = (1..).take(self.drivers().len()).map(own);
        let grants: Vec<Grant> = std::iter::once(own(iommu_api::MASTER)).chain(domains).collect();
        self.model.caps(pci, names::IO_SPACE_MASTER, &grants);
        self.model.writes_blocked(who);
        self.model.restarts(who, self.scenario.iommu_server.restart.to_policy());
        Ok(Some((who, smmu)))
    }

    pub(super) fn configure_pci(&mut self, pci: &Pci, all: &[Driver]) -> Result<(), BuildError> {
        let mut vspaces = Vec::new();
        let mut drivers = Vec::new();
        let mut silenced = Vec::new();
        for (driver, domain) in all.iter().zip(1u16..) {
            let index = domain - 1;
            let number = index as u8;
            self.model.drives(driver.who, number);
            self.model.ends_with(driver.who, pci.who);
            self.model.watches(pci.who, &names::liveness(index.into()), driver.who);
            if driver.allowed.slot().is_some() {
                self.model.comes_and_goes(driver.who, pci.who, &names::presence(index.into()));
            }
            silenced.push(Grant { object: pci.supervisor, badge: Badge::silenced(number), rights: rights::WRITE });
            vspaces.push(Grant { object: self.model.vspace(driver.who), badge: 0, rights: rights::ALL });
            drivers.push(DriverConfig {
                name: self.model.name(driver.who).into(),
                allowed: driver.allowed.clone(),
                arena: Vaddr::new(driver.arena),
                arena_len: arena_bytes(driver.pages.into()),
                pages: driver.pages,
                max_vectors: driver.max_vectors,
                domain,
            });
        }
        if let Some((iommu, smmu)) = pci.iommu {
            self.configure_iommu(iommu, smmu, all)?;
        }
        self.model.caps(pci.who, names::DRIVER_VSPACE, &vspaces);
        self.model.caps(pci.who, names::SILENCED, &silenced);
        let machine = self.machine();
        let pci_windows = machine.pci_windows().into_iter().map(|(paddr, bits)| (Paddr::new(paddr), bits)).collect();
        let Machine { intx_pins, irqs, is_without_firmware, .. } = *machine;
        let assign = is_without_firmware || self.scenario.assigns_addresses();
        let config = pci_api::ServerConfig {
            buses: BUSES,
            pci_windows,
            assign,
            iommu: self.scenario.machine.iommu,
            intx_pins,
            irqs,
            drivers,
        };
        self.model.configure(pci.who, &config)
    }

    /// Gives the IOMMU server the pages of its tables, enough for every driver's domain at once, and the table of the frames that
    /// each driver may map.
    fn configure_iommu(&mut self, who: Who, smmu: &Smmu, all: &[Driver]) -> Result<(), BuildError> {
        let arrays: Vec<Vec<u64>> = all.iter().map(|driver| self.model.arrays(driver.who)).collect();
        let tables = arrays.iter().map(|arrays| iommu_api::tables(arrays.iter().copied()));
        let tables: Vec<u64> = tables.collect();
        let pages = iommu_api::pages(tables.iter().copied());
        let pool = self.model.object("iommu-server.tables", ObjectKind::SmallFrame, pages);
        self.model.cap(who, iommu_api::names::TABLES, pool, 0, rights::READ_WRITE);
        self.model.region(who, iommu_api::names::TABLES, pool, RegionKind::ReadWrite);
        self.model.reads_frames(who, arrays.iter().map(|arrays| arrays.len() as u64).sum());
        let name = |driver: &Driver| self.model.name(driver.who).into();
        let drivers = all.iter().zip(tables);
        let drivers = drivers.map(|(driver, tables)| iommu_api::Driver {
            name: name(driver),
            tables: tables as u32,
            is_client: driver.allowed.is_virtual(),
        });
        let config = iommu_api::ServerConfig { messages: Paddr::new(smmu.messages), drivers: drivers.collect() };
        self.model.configure(who, &config)
    }
}
