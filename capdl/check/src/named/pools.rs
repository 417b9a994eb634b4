//! Pools of servers that requests of others fill: what each may take of them, and that all of it is there at once.
//!
//! The servers enforce the parts; the check is that no pool is smaller than their sum, because then one client could take what
//! another has to have. A pool that is the kernel's or the device's to share is in `docs/limits.md`.

use super::super::{Config, System};
use platform::PAGE_SIZE;

/// Records of a session that a request needs at once.
const RECORDS_A_SESSION: u64 = 4;
/// Cptrs of the PCI server for a driver, beside those of its claim's pages and vectors: the IOSpace, a shared line's four, and two of
/// a call that is kept until a tick.
const CPTRS_A_DRIVER: u64 = 7;

/// A pool, and the most that each of its clients may take.
struct Pool<'a> {
    name: &'static str,
    has: u64,
    parts: Vec<(&'a str, u64)>,
}

impl System<'_> {
    /// Checks that each pool of the component suffices for all of its clients.
    pub(super) fn pools_suffice(&self, index: usize) -> Vec<String> {
        let pools = match &self.configs[index] {
            Config::PciServer(config) => self.pci_pools(index, config),
            Config::IommuServer(config) => self.iommu_pools(index, config),
            Config::NvmeServer(config) => {
                let parts = config.sessions.iter().map(|session| (session.tenant.as_str(), RECORDS_A_SESSION));
                vec![Pool { name: "records", has: config.records.into(), parts: parts.collect() }]
            }
            Config::Console(_)
            | Config::Policy(_)
            | Config::Client(_)
            | Config::Control(_)
            | Config::Probe(_)
            | Config::Nothing
            | Config::Unreadable => Vec::new(),
        };
        let lacks = |Pool { name, has, parts }: Pool<'_>| {
            let sum = parts.iter().map(|(_, part)| *part).fold(0, u64::saturating_add);
            let shown: Vec<_> = parts.iter().map(|(client, part)| format!("{client} {part}")).collect();
            let (who, shown) = (self.who(index), shown.join(", "));
            (sum > has).then(|| format!("{who} has {has} {name}, and its clients may take {sum}: {shown}"))
        };
        pools.into_iter().filter_map(lacks).collect()
    }

    /// Interrupts, and cptrs for claims. Half of its cptrs are for dividing device memory.
    fn pci_pools<'a>(&self, index: usize, config: &'a pci_api::ServerConfig) -> Vec<Pool<'a>> {
        let (_, interrupts) = config.irqs;
        let vectors = config.drivers.iter().map(|driver| (driver.name.as_str(), driver.max_vectors.into()));
        let environment = self.environments[index].as_ref();
        let free = environment.map_or(0..0, |environment| environment.free_cptrs.clone());
        let arena = environment.and_then(|environment| environment.region(pci_api::names::ARENA));
        // Parts of its arena are fixed, and each page of a table takes a cptr.
        let tables = arena.map_or(0, |arena| arena.len / PAGE_SIZE as u64);
        let cptrs = config.drivers.iter().map(|driver| {
            let pages = u64::from(driver.pages);
            (driver.name.as_str(), pages.saturating_add(driver.max_vectors.into()).saturating_add(CPTRS_A_DRIVER))
        });
        vec![
            Pool { name: "interrupts", has: interrupts.into(), parts: vectors.collect() },
            Pool {
                name: "cptrs for claims",
                has: free.end.saturating_sub(free.start) / 2,
                parts: cptrs.chain([("tables of vectors", tables)]).collect(),
            },
        ]
    }

    /// Pages of its tables: each domain's, and a table of streams for each.
    fn iommu_pools<'a>(&self, index: usize, config: &'a iommu_api::ServerConfig) -> Vec<Pool<'a>> {
        let tables = self.id(&format!("{}.tables", self.specification.components[index].name));
        let pages = tables.map_or(0, |tables| u64::from(self.object(tables).count));
        let parts = config.drivers.iter().map(|driver| (driver.name.as_str(), u64::from(driver.tables) + 1));
        vec![Pool { name: "pages for tables", has: pages.saturating_sub(iommu_api::OWN_PAGES), parts: parts.collect() }]
    }
}
