//! A reading of all pages of a system.

use super::physical::Physical;
use blk_api::telemetry::{FUNCTION_PAGE, FUNCTION_TRACE_PAGE};
use blk_api::telemetry::{SERVER_PAGE, Server, Session, pages, session_page, trace_page};
use capdl::Scenario;
use capdl::scenario::CONTROL;
use control_api::mailbox::{self, ANSWERS};
use platform::PAGE_SIZE;
use report::TelemetryPages;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use telemetry::page;
use telemetry::ring::WISH;
use zerocopy::FromBytes;

/// The addresses of all pages, and the component that each belongs to.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    pages: Vec<TelemetryPages>,
    /// By server, the tenants of its sessions, and those with virtual functions of its controller.
    servers: Vec<(String, Vec<String>, Vec<String>)>,
    /// Pages of each ring of events; 0 without traces.
    trace_pages: usize,
    /// Bytes of a tenant's block.
    block_bytes: BTreeMap<String, u32>,
    /// Pages of each window by which a controller is administered; 0 without any.
    window_pages: usize,
}

/// A ring of events.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RingPlace {
    /// The component that writes it.
    pub(super) component: String,
    /// The tenant whose requests the events are of.
    pub(super) tenant: String,
    /// The server of the tenant's controller; `None` in the ring of a client with a session, which submits no commands.
    pub(super) server: Option<String>,
    /// The first page, and how many.
    pub(super) first: usize,
    pub(super) pages: usize,
}

/// The contents of all pages that could be read whole.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// By NVMe server.
    pub servers: BTreeMap<String, Server>,
    /// By tenant, its session or function, and the name of its controller's server.
    pub tenants: BTreeMap<String, (String, Session)>,
}

impl Places {
    /// The pages of a scenario's components, where the root task reported them.
    #[must_use]
    pub fn new(scenario: &Scenario, reported: &[TelemetryPages]) -> Self {
        let servers = scenario.controllers.iter().map(|one| {
            let sessions = scenario.sessions(&one.name).map(|one| one.name.clone());
            let functions = scenario.functions(&one.name).map(|one| one.name.clone());
            (scenario.server_name(&one.name), sessions.collect(), functions.collect())
        });
        let block_bytes = scenario.tenants.iter().filter_map(|tenant| {
            let namespace = scenario.namespace(tenant)?;
            Some((tenant.name.clone(), namespace.block_bytes))
        });
        Self {
            pages: reported.to_vec(),
            servers: servers.collect(),
            trace_pages: scenario.telemetry.as_ref().map_or(0, |telemetry| telemetry.trace_pages.into()),
            block_bytes: block_bytes.collect(),
            window_pages: scenario.administration().map_or(0, |one| one.window_bytes as usize / PAGE_SIZE),
        }
    }

    /// The physical addresses of all pages that components write, but for the rings of events.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let of_run = move |run: &TelemetryPages| {
            let shown = |page: &u32| self.is_written(&run.component, run.first.saturating_add(*page));
            (0..run.count).filter(shown).map(|page| address(run, page)).collect::<Vec<_>>()
        };
        self.pages.iter().flat_map(of_run)
    }

    /// Whether a component writes its page of this number, and it is of no ring of events.
    fn is_written(&self, component: &str, number: u32) -> bool {
        let answers = (ANSWERS / PAGE_SIZE) as u32;
        !self.is_of_ring(component, number) && (component != CONTROL || number == answers)
    }

    /// Whether a component's page is of a ring of events.
    fn is_of_ring(&self, component: &str, number: u32) -> bool {
        let is = |name: &String| name == component;
        let number = number as usize;
        self.servers.iter().any(|(server, sessions, functions)| {
            (is(server) && number >= pages(sessions.len()))
                || sessions.iter().any(is)
                || (number >= FUNCTION_TRACE_PAGE && functions.iter().any(is))
        })
    }

    /// Whether there are traces.
    #[must_use]
    pub const fn has_traces(&self) -> bool {
        self.trace_pages > 0
    }

    /// Bytes of a block of the tenant.
    pub(super) fn block_bytes(&self, tenant: &str) -> u32 {
        self.block_bytes.get(tenant).copied().unwrap_or(512)
    }

    /// The rings of events: those of each server's sessions with those of their clients, then those of clients with functions.
    pub(super) fn rings(&self) -> Vec<RingPlace> {
        let pages = self.trace_pages;
        let mut rings = Vec::new();
        for (server, sessions, functions) in self.servers.iter().filter(|_| pages > 0) {
            let mut ring = |component: &String, tenant: &String, server: Option<&String>, first| {
                let (component, tenant, server) = (component.clone(), tenant.clone(), server.cloned());
                rings.push(RingPlace { component, tenant, server, first, pages });
            };
            for (index, tenant) in sessions.iter().enumerate() {
                ring(server, tenant, Some(server), trace_page(sessions.len(), index, pages));
                ring(tenant, tenant, None, 0);
            }
            functions.iter().for_each(|tenant| ring(tenant, tenant, Some(server), FUNCTION_TRACE_PAGE));
        }
        rings
    }

    /// Copies bytes of a ring that lie in one page.
    pub(super) fn copy(&self, memory: &dyn Physical, ring: &RingPlace, offset: usize, bytes: &mut [u8]) -> Option<()> {
        let page = self.address_of(&ring.component, ring.first.checked_add(offset / PAGE_SIZE)?)?;
        memory.copy(page.checked_add((offset % PAGE_SIZE) as u64)?, bytes)
    }

    /// The physical addresses of the words by which the traces of tenants with sessions are switched, with the tenants.
    pub fn wishes(&self) -> impl Iterator<Item = (String, u64)> {
        let of_session = |ring: RingPlace| {
            ring.server.as_ref().filter(|server| **server == ring.component)?;
            let page = self.address_of(&ring.component, ring.first)?;
            Some((ring.tenant, page.checked_add(WISH as u64)?))
        };
        self.rings().into_iter().filter_map(of_session)
    }

    /// The physical address of the page at this offset in the mailbox of the control component, where there is one.
    #[must_use]
    pub fn mailbox(&self, offset: usize) -> Option<u64> {
        self.address_of(CONTROL, offset / PAGE_SIZE)
    }

    /// The physical addresses of the pages of the window by which the controller of this number is administered, where there is one.
    #[must_use]
    pub fn window(&self, controller: usize) -> Option<Vec<u64>> {
        let first = mailbox::PAGES + controller * self.window_pages;
        let pages = first..first + self.window_pages;
        pages.map(|page| self.address_of(CONTROL, page)).collect::<Option<Vec<_>>>().filter(|pages| !pages.is_empty())
    }

    /// The servers and their tenants: those with sessions, then those with functions of the server's controller.
    pub fn tenants(&self) -> impl Iterator<Item = (&str, &str)> {
        self.servers.iter().flat_map(|(server, sessions, functions)| {
            sessions.iter().chain(functions).map(|tenant| (server.as_str(), tenant.as_str()))
        })
    }

    /// Reads all pages.
    #[must_use]
    pub fn sample(&self, memory: &dyn Physical) -> Sample {
        let mut sample = Sample::default();
        for (server, sessions, functions) in &self.servers {
            if let Some(contents) = self.read(memory, server, SERVER_PAGE) {
                sample.servers.insert(server.clone(), contents);
            }
            let of_sessions = sessions.iter().zip(0..).map(|(tenant, index)| (tenant, server, session_page(index)));
            let of_functions = functions.iter().map(|tenant| (tenant, tenant, FUNCTION_PAGE));
            for (tenant, component, page) in of_sessions.chain(of_functions) {
                if let Some(contents) = self.read(memory, component, page) {
                    sample.tenants.insert(tenant.clone(), (server.clone(), contents));
                }
            }
        }
        sample
    }

    fn read<T: FromBytes>(&self, memory: &dyn Physical, component: &str, number: usize) -> Option<T> {
        let paddr = self.address_of(component, number)?;
        page::read(|offset, bytes| memory.copy(paddr.checked_add(offset as u64)?, bytes))
    }

    /// The physical address of a component's page with this number.
    pub(super) fn address_of(&self, component: &str, number: usize) -> Option<u64> {
        let number = u32::try_from(number).ok()?;
        let of_component = self.pages.iter().filter(|run| run.component.as_str() == component);
        let mut numbered = of_component.filter_map(|run| Some((run, number.checked_sub(run.first)?)));
        numbered.find(|(run, page)| *page < run.count).map(|(run, page)| address(run, page))
    }
}

/// The physical address of page number `page` of a run.
fn address(run: &TelemetryPages, page: u32) -> u64 {
    run.paddr.saturating_add(u64::from(page).saturating_mul(PAGE_SIZE as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Ram;
    use platform::{Memory, OutOfBounds};
    use telemetry::page::Writer;

    /// Memory whose first byte has this physical address.
    struct At(u64, Ram);

    impl Physical for At {
        fn copy(&self, paddr: u64, bytes: &mut [u8]) -> Option<()> {
            self.1.read_bytes(usize::try_from(paddr.checked_sub(self.0)?).ok()?, bytes).ok()
        }
    }

    /// Alice with a session, and another tenant; `telemetry` and `controller` have more lines of these tables.
    fn with_alice(telemetry: &str, controller: &str, other: &str) -> Scenario {
        let namespace = "[[controller.namespace]]\nsize = \"8M\"";
        let tenant = "queue_pairs = 1\nprogram.name = \"bench\"";
        let text = format!(
            "name = \"two\"\ndescription = \"Two tenants.\"\n[telemetry]\n{telemetry}\n[[controller]]\nname = \"disk\"\n{controller}\n\
             {namespace}\n{namespace}\n[[tenant]]\nname = \"alice\"\nextents = [{{ first = 0, blocks = 1024 }}]\n{tenant}\n\
             [[tenant]]\n{other}\n{tenant}\n"
        );
        Scenario::parse(&text, "two.toml").unwrap()
    }

    fn scenario() -> Scenario {
        with_alice("", "", "name = \"bob\"\nextents = [{ first = 1024, blocks = 1024 }]")
    }

    fn with_function() -> Scenario {
        let frida = "name = \"frida\"\npath = \"function\"\nnamespace = 2";
        with_alice("trace_pages = 2", "virtual_functions = 1", frida)
    }

    #[test]
    fn pages_are_found_at_the_reported_addresses() -> Result<(), OutOfBounds> {
        let at = |first, count, paddr| TelemetryPages { component: report::clip("nvme-server"), first, count, paddr };
        // The third page lies before the others.
        let memory = Ram::new(3 * PAGE_SIZE);
        let base = 0x4000_0000;
        let places = Places::new(&scenario(), &[at(0, 2, base + 0x1000), at(2, 1, base)]);
        Writer::new(memory.clone(), 1)?.write(&Server { passes: 7, ..Server::default() })?;
        Writer::new(memory.clone(), 0)?.write(&Session { in_ring: 9, ..Session::default() })?;
        let sample = places.sample(&At(base, memory));
        assert_eq!(sample.servers["nvme-server"].passes, 7);
        assert!(!sample.tenants.contains_key("alice"), "it was never written");
        let (server, bob) = &sample.tenants["bob"];
        assert_eq!((server.as_str(), bob.in_ring), ("nvme-server", 9));
        Ok(())
    }

    #[test]
    fn a_client_with_a_function_has_a_page_of_its_own_with_its_ring_behind() -> Result<(), OutOfBounds> {
        let pages = TelemetryPages { component: report::clip("frida"), first: 0, count: 3, paddr: 0x1000 };
        let memory = Ram::new(3 * PAGE_SIZE);
        let places = Places::new(&with_function(), &[pages]);
        Writer::new(memory.clone(), 0)?.write(&Session { in_device: 5, ..Session::default() })?;
        let sample = places.sample(&At(0x1000, memory));
        assert_eq!((sample.tenants["frida"].0.as_str(), sample.tenants["frida"].1.in_device), ("nvme-server", 5));
        assert!(places.addresses().eq([0x1000]), "the others are the ring's");
        assert!(places.tenants().eq([("nvme-server", "alice"), ("nvme-server", "frida")]));
        let ring = places.rings().pop().unwrap();
        assert_eq!((ring.component.as_str(), ring.first, ring.server.as_deref()), ("frida", 1, Some("nvme-server")));
        Ok(())
    }

    #[test]
    fn without_reports_there_is_nothing() {
        let places = Places::new(&scenario(), &[]);
        assert!(places.addresses().next().is_none() && places.sample(&At(0, Ram::new(8))).tenants.is_empty());
    }
}
