//! Checks of the servers' configurations: the sessions of NVMe servers and their policy components, and the PCI server's
//! drivers.

use super::super::{Config, Role, System};
use blk_api::config::ServerConfig;
use blk_api::policy::{Holder, PolicyConfig};
use capdl_spec::ObjectKind;
use pci_api::Match;

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
            Config::Policy(config) => self.sessions_are_its_servers(index, config),
            Config::PciServer(config) => self.drivers_are_apart(index, config),
            Config::IommuServer(config) => self.domains_are_drivers(index, config),
            Config::Own => match self.roles[index] {
                Role::PciServer | Role::IommuServer | Role::NvmeServer | Role::Policy => {
                    vec![format!("{who} finds no configuration for its role")]
                }
                Role::Client if self.session(index).is_none() && self.function(index).is_none() => {
                    vec![format!("{who} has a session or a function at no server")]
                }
                Role::Client | Role::Console | Role::Probe | Role::EduDriver => Vec::new(),
            },
        }
    }

    /// Checks that the domains of the IOMMU server are those of the PCI server's drivers; that for each of them tables are kept as
    /// its frames need, and no others; and that the page that every function may write to is the interrupt controller's.
    fn domains_are_drivers(&self, index: usize, config: &iommu_api::ServerConfig) -> Vec<String> {
        let (who, smmu) = (self.who(index), self.machine().smmu.as_ref());
        let mut paths = Vec::new();
        if !self.drivers().eq(config.drivers.iter().map(|driver| &driver.name)) {
            paths.push(format!("{who} has a domain for other drivers than the PCI server has"));
        }
        if smmu.is_none_or(|smmu| config.messages.bits() != smmu.messages) {
            paths.push(format!("{who} is configured for another machine"));
        }
        let mut all = Vec::new();
        for driver in &config.drivers {
            let arrays = self.arrays(&driver.name);
            let (is, wanted) = (u64::from(driver.tables), iommu_api::tables(arrays.iter().copied()));
            if is != wanted {
                let name = &driver.name;
                paths.push(format!("{who} keeps {is} tables for {name}, whose frames need {wanted}"));
            }
            all.push((wanted, arrays.len() as u64));
        }
        let sizes = [
            ("tables", iommu_api::pages(all.iter().map(|(tables, _)| *tables))),
            ("frames", iommu_api::frames::table_pages(all.iter().map(|(_, arrays)| arrays).sum())),
        ];
        for (part, wanted) in sizes {
            let name = format!("{}.{part}", self.named(Role::IommuServer));
            let is = self.id(&name).map_or(0, |id| u64::from(self.object(id).count));
            if is != wanted {
                paths.push(format!("{who} has {is} pages of {name}, and its drivers' frames need {wanted}"));
            }
        }
        paths
    }

    /// The arrays of small frames in a component's CSpace, by their lengths.
    fn arrays(&self, component: &str) -> Vec<u64> {
        let cnode = self.specification.components.iter().find(|one| one.name == component).map(|one| one.cnode);
        let held = self.specification.caps.iter().filter(|run| Some(run.cnode) == cnode);
        let objects = held.map(|run| self.object(run.object));
        objects.filter(|object| object.kind == ObjectKind::SmallFrame).map(|object| object.count.into()).collect()
    }

    /// Checks that each session belongs to one client, which has no other, and that the client's window is as long as
    /// configured.
    fn sessions_are_clients(&self, index: usize, config: &ServerConfig) -> Vec<String> {
        let who = self.who(index);
        let mut paths = Vec::new();
        for (session, number) in config.sessions.iter().zip(0u32..) {
            let tenant = &session.tenant;
            let is_tenants = |client: &usize| self.specification.components[*client].name == *tenant;
            let client = self.clients().into_iter().find(is_tenants);
            if client.and_then(|client| self.session(client)) != Some((index, number)) {
                paths.push(format!("{who} has session {number} for {tenant}, which is no client of its alone"));
                continue;
            }
            let window = self.id(&format!("{tenant}.window")).and_then(|window| self.bytes(window));
            if window != Some(session.window_bytes) {
                let bytes = session.window_bytes;
                paths
                    .push(format!("{who} is configured with a window of {bytes} bytes of {tenant}, which has another"));
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

    fn sessions_are_its_servers(&self, index: usize, config: &PolicyConfig) -> Vec<String> {
        let server = self.indices().find(|server| self.is_policy_of(index, *server));
        let server = server.map(|server| &self.configs[server]);
        let (who, mut paths) = (self.who(index), Vec::new());
        if !server.is_some_and(|server| server.tenants().eq(names(&config.sessions))) {
            paths.push(format!("{who} is configured with other sessions than its server"));
        }
        if !server.is_some_and(|server| server.function_tenants().eq(names(&config.functions))) {
            paths.push(format!("{who} is configured with other virtual functions than its server"));
        }
        if let Some(Config::NvmeServer(server)) = server {
            paths.extend(self.rights_are_apart(index, config, server));
        }
        paths
    }

    /// Checks that each driver has an arena where the PCI server maps its registers, and a function and an IOMMU domain of its
    /// own. In a shared domain a device would reach the windows of the other driver's clients.
    fn drivers_are_apart(&self, index: usize, config: &pci_api::ServerConfig) -> Vec<String> {
        let (who, drivers) = (self.who(index), &config.drivers);
        let mut paths = Vec::new();
        if config.iommu == self.specification.no_iommu {
            paths.push(format!("{who} has a configuration with the wrong value of iommu"));
        }
        if config.irqs != self.machine().irqs {
            paths.push(format!("{who} is configured with other interrupts than the machine has for it"));
        }
        for (number, driver) in drivers.iter().enumerate() {
            let name = &driver.name;
            let drives = |index: &usize| self.driver(*index).is_some_and(|driver| usize::from(driver) == number);
            let environment = self.indices().find(drives).and_then(|index| self.environments[index].as_ref());
            let arena = environment.and_then(|environment| environment.region(pci_api::names::ARENA));
            if !arena.is_some_and(|arena| arena.vaddr == driver.arena && arena.len == driver.arena_len) {
                paths.push(format!("{who} is configured with an arena of driver {name} that this does not have"));
            }
            let client = self.clients().into_iter().find(|client| self.specification.components[*client].name == *name);
            let function = client.and_then(|client| self.function(client));
            let virtual_one = |(server, index): (usize, u32)| Some((self.driver(server)?, index));
            let allowed = match driver.allowed {
                Match::Virtual { driver, index } => Some((driver, u32::from(index))),
                Match::Bdf(_) | Match::ClassCode { .. } | Match::Slot(_) => None,
            };
            if allowed != function.and_then(virtual_one).map(|(server, index)| (u16::from(server), index)) {
                paths.push(format!(
                    "{who} is configured to give {name} another virtual function than its server has for it"
                ));
            }
            // The root task and the IOMMU server number domains so.
            if usize::from(driver.domain) != number.saturating_add(1) {
                let domain = driver.domain;
                paths.push(format!("{who} is configured to put the function of {name} into IOMMU domain {domain}"));
            }
            for other in drivers.iter().take(number).filter(|other| driver.allowed == other.allowed) {
                let other = &other.name;
                paths.push(format!("{who} is configured with one function for {other} and {name}"));
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

/// The tenants of a policy component's sessions or functions.
fn names(holders: &[Holder]) -> impl Iterator<Item = &str> {
    holders.iter().map(|holder| holder.tenant.as_str())
}
