//! Checks of configurations against the components that they name: who has a session, a function, a domain, and who is whose
//! driver. The values of their fields are in `declared`.

use super::super::{Config, Role, System};
use blk_api::config::ServerConfig;
use capdl_spec::ObjectKind;

/// Bytes of one bus in configuration space (PCI Express base specification, section 7.2.2).
const BUS_BYTES: u64 = 1 << 20;

impl System<'_> {
    /// Compares a component's configuration with the other components that it names.
    pub(super) fn configured(&self, index: usize) -> Vec<String> {
        let who = self.who(index);
        match &self.configs[index] {
            Config::NvmeServer(config) => {
                let mut paths = self.sessions_are_clients(index, config);
                paths.extend(self.sessions_are_sound(index, config));
                paths.extend(self.functions_are_clients(index, config));
                paths
            }
            Config::Policy(config) => self.rights_are_apart(index, config),
            Config::PciServer(config) => self.buses_are_mapped(index, config).into_iter().collect(),
            Config::IommuServer(_) => self.tables_suffice(index),
            Config::Client(config) => self.client_is_served(index, config),
            Config::Unreadable => vec![format!("{who} finds no configuration for its role")],
            Config::Console(_) | Config::Control(_) | Config::Probe(_) | Config::Nothing => Vec::new(),
        }
    }

    /// Checks that the PCI server has the configuration space of all its buses, and no more.
    fn buses_are_mapped(&self, index: usize, config: &pci_api::ServerConfig) -> Option<String> {
        let space = self.id("ecam").and_then(|ecam| self.bytes(ecam)).unwrap_or(0);
        let (who, buses) = (self.who(index), config.buses);
        let is_right = space == u64::from(buses) * BUS_BYTES;
        (!is_right).then(|| format!("{who} is configured with {buses} buses, and has {space} bytes of their space"))
    }

    /// Checks that a client has a session or a function, and a window as long as configured.
    fn client_is_served(&self, index: usize, config: &workload::Client) -> Vec<String> {
        let (who, mut paths) = (self.who(index), Vec::new());
        if self.session(index).is_none() && self.function(index).is_none() {
            paths.push(format!("{who} has a session or a function at no server"));
        }
        let window = self.id(&format!("{}.window", self.specification.components[index].name));
        if window.and_then(|window| self.bytes(window)) != Some(config.window_bytes) {
            let bytes = config.window_bytes;
            paths.push(format!("{who} is configured with a window of {bytes} bytes, and has another"));
        }
        paths
    }

    /// Checks that the IOMMU server has the pages that the tables of its drivers' frames need, and no others.
    fn tables_suffice(&self, index: usize) -> Vec<String> {
        let arrays: Vec<_> = self.drivers().map(|driver| self.arrays(driver)).collect();
        let tables = arrays.iter().map(|arrays| iommu_api::tables(arrays.iter().copied()));
        let sizes = [
            ("tables", iommu_api::pages(tables)),
            ("frames", iommu_api::frames::table_pages(arrays.iter().map(|arrays| arrays.len() as u64).sum())),
        ];
        let mut paths = Vec::new();
        for (part, wanted) in sizes {
            let name = format!("{}.{part}", self.specification.components[index].name);
            let is = self.id(&name).map_or(0, |id| u64::from(self.object(id).count));
            if is != wanted {
                let who = self.who(index);
                paths.push(format!("{who} has {is} pages of {name}, and its drivers' frames need {wanted}"));
            }
        }
        paths
    }

    /// The arrays of small frames in a component's CSpace, by their lengths.
    pub(super) fn arrays(&self, component: &str) -> Vec<u64> {
        let cnode = self.specification.components.iter().find(|one| one.name == component).map(|one| one.cnode);
        let held = self.specification.caps.iter().filter(|run| Some(run.cnode) == cnode);
        let objects = held.map(|run| self.object(run.object));
        objects.filter(|object| object.kind == ObjectKind::SmallFrame).map(|object| object.count.into()).collect()
    }

    /// Checks that each session belongs to one client, which has no other.
    fn sessions_are_clients(&self, index: usize, config: &ServerConfig) -> Vec<String> {
        let who = self.who(index);
        let mut paths = Vec::new();
        for (session, number) in config.sessions.iter().zip(0u32..) {
            let tenant = &session.tenant;
            let is_tenants = |client: &usize| self.specification.components[*client].name == *tenant;
            let client = self.clients().into_iter().find(is_tenants);
            if client.and_then(|client| self.session(client)) != Some((index, number)) {
                paths.push(format!("{who} has session {number} for {tenant}, which is no client of its alone"));
            }
        }
        paths
    }

    /// Checks that each virtual function belongs to one client, which has no session and no other function, and a namespace that
    /// no session and no other function has.
    fn functions_are_clients(&self, index: usize, config: &ServerConfig) -> Vec<String> {
        let who = self.who(index);
        let mut paths = Vec::new();
        for (function, number) in config.functions.iter().zip(0u32..) {
            let tenant = &function.tenant;
            let client =
                self.clients().into_iter().find(|client| self.specification.components[*client].name == *tenant);
            let is_its = client
                .is_some_and(|client| self.function(client) == Some((index, number)) && self.session(client).is_none());
            if !is_its {
                paths.push(format!("{who} has function {number} for {tenant}, which is no client of its alone"));
            }
            let others = config.functions.iter().filter(|other| other.tenant != *tenant).map(|other| other.nsid);
            let mut nsids = config.sessions.iter().map(|session| session.nsid).chain(others);
            if nsids.any(|nsid| nsid == function.nsid) {
                let nsid = function.nsid;
                paths.push(format!("{who} has namespace {nsid} for {tenant}, and for another"));
            }
        }
        paths
    }

    /// The session of a client: its server and the number.
    pub(crate) fn session(&self, client: usize) -> Option<(usize, u32)> {
        let name = &self.specification.components[client].name;
        self.indices().find_map(|server| {
            let number = self.configs[server].tenants().position(|tenant| tenant == name)?;
            Some((server, u32::try_from(number).ok()?))
        })
    }

    /// The virtual function that a client drives: the server of the physical one, and the number.
    pub(crate) fn function(&self, client: usize) -> Option<(usize, u32)> {
        if self.roles[client] != Role::Client {
            return None;
        }
        let name = &self.specification.components[client].name;
        self.indices().find_map(|server| {
            let number = self.configs[server].function_tenants().position(|tenant| tenant == name)?;
            Some((server, u32::try_from(number).ok()?))
        })
    }

    /// The client's word among the teardown acknowledgements of its server.
    pub(crate) fn word(&self, client: usize) -> Option<u32> {
        let of_function = |(server, number): (usize, u32)| match &self.configs[server] {
            Config::NvmeServer(config) => Some(config.function_word(number)),
            _ => None,
        };
        self.session(client).map(|(_, number)| number).or_else(|| self.function(client).and_then(of_function))
    }

    /// Whether the component drives a function that the PCI server gives it: a driver, or a client with a function of its own.
    pub(crate) fn drives(&self, index: usize) -> bool {
        self.roles[index].is_driver() || self.function(index).is_some()
    }

    /// The component's number as a driver at the PCI server.
    pub(super) fn driver(&self, index: usize) -> Option<u8> {
        if !self.drives(index) {
            return None;
        }
        let name = &self.specification.components[index].name;
        self.drivers().position(|driver| driver == name).and_then(|number| u8::try_from(number).ok())
    }

    /// The slot whose device the PCI server gives the driver of this name.
    pub(super) fn slot(&self, driver: &str) -> Option<u16> {
        let configured = self.configs.iter().find_map(|config| match config {
            Config::PciServer(config) => config.drivers.iter().find(|configured| configured.name == driver),
            _ => None,
        });
        configured.and_then(|configured| configured.allowed.slot())
    }

    /// The names of the PCI server's drivers, in their order.
    pub(super) fn drivers(&self) -> impl Iterator<Item = &String> {
        let drivers = self.configs.iter().find_map(|config| match config {
            Config::PciServer(config) => Some(config.drivers.as_slice()),
            _ => None,
        });
        drivers.unwrap_or_default().iter().map(|driver| &driver.name)
    }
}
