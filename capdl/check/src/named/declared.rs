//! Every field of every component's configuration, compared with the declaration and with what follows from it.
//!
//! For each component this module makes the only configuration that it may have: the literals below name all fields, so a new
//! field does not compile before somebody has decided what judges it.
//!
//! | configuration | from the declaration | derived |
//! |---|---|---|
//! | console | | number and name of each component |
//! | PCI server | whether it places registers; which controllers are in slots, their queue pairs, vectors, doorbell stride and interrupt modes | buses, windows, pins and interrupts are the machine's; the IOMMU is the specification's; each driver's arena is in its environment; its function is that of the declared controller, or of the place among the tenants with functions; its domain is its number; its vectors and pages of registers follow from its tenants' queue pairs |
//! | IOMMU server | | the page of messages is the machine's; drivers are the PCI server's; tables follow from the frames that each driver holds, clients from the roles |
//! | NVMe server | interrupt mode, scheduling policy, weights, queue sharing, records, merging, quirks; of each session the share, the highest class, the core, the namespace, the right to write, the way of completions, rings and window, and the kinds of requests that are traced | its sessions and functions are the declared tenants in their order; the blocks are those of the extents; the most queue pairs and their most depth follow from the declared changes; queue pairs of a function are fixed |
//! | policy component | namespaces, extents, the right to write, changes of rights, shares and interrupt modes | the numbers of sessions |
//! | control component | | its tenants are the clients with their sessions or functions |
//! | client | its program's configuration, moments, whether it waits | class, rings, window, queue pairs and way of completions are its session's; its first block is its first extent's |
//! | probe | its last access | |
//! | edu device's driver | | none |
//!
//! Beside this, `sessions` checks that a declaration is sound, and `roles`, that the memory and the capabilities are as configured.

use super::super::declaration::{Change, Controller, Tenant};
use super::super::{Config, Role, Rule, System};
use crate::layout::PAGE;
use crate::machine::{BUSES, EDU_CLASS_CODE, FUNCTION_QUEUES, NVME_CLASS_CODE, slot_number};
use crate::registers::{EDU_PAGES, PROBE_QUEUE_PAIRS};
use blk_api::config::{Completion, FunctionConfig, ServerConfig, SessionConfig};
use blk_api::policy::{self, Holder, PolicyConfig, What};
use blk_api::queue_sharing::QueueSharing;
use control_api::Config as ControlConfig;
use pci_api::{DriverConfig, Match};
use platform::{Paddr, Vaddr};
use workload::{Client, Probe};

/// The fields that are wrong, and the part of the configuration that they are of.
type Wrong = Vec<(String, Vec<&'static str>)>;

/// The names of the fields in which two values of a type differ. A field that is left out does not compile.
macro_rules! differing {
    ($type:ident { $($field:ident),+ $(,)? }: $is:expr, $wanted:expr) => {{
        let ($type { $($field),+ }, wanted) = ($is, $wanted);
        let all = [$((stringify!($field), $field == &wanted.$field)),+];
        all.into_iter().filter(|(_, is_same)| !is_same).map(|(field, _)| field).collect::<Vec<&'static str>>()
    }};
}

impl System<'_> {
    /// Compares a component's configuration with the only one that it may have.
    pub(crate) fn configured_as_declared(&mut self, index: usize) {
        let who = self.who(index);
        let wrong: Wrong = match &self.configs[index] {
            Config::Console(is) => {
                let wanted = self.names_of_components();
                vec![(String::new(), if *is == wanted { vec![] } else { vec!["names of components"] })]
            }
            Config::PciServer(is) => self.pci_server(is),
            Config::IommuServer(is) => self.iommu_server(is),
            Config::NvmeServer(is) => self.nvme_server(index, is),
            Config::Policy(is) => self.policy_component(index, is),
            Config::Client(is) => self.client(index, is),
            Config::Control(is) => {
                let wanted = control_api::Config { tenants: self.tenants_of_control() };
                vec![(String::new(), differing!(ControlConfig { tenants }: is, &wanted))]
            }
            Config::Probe(is) => vec![(
                String::new(),
                self.declaration.probe.map_or(vec!["probe"], |last| differing!(Probe { last }: is, Probe { last })),
            )],
            Config::Nothing | Config::Unreadable => Vec::new(),
        };
        for (of, fields) in wrong {
            for field in fields {
                let path =
                    format!("{who} is configured with another `{field}`{of} than is declared or follows from it");
                self.refuse(Rule::ConfiguredAsDeclared, path);
            }
        }
    }

    fn names_of_components(&self) -> Vec<(u16, String)> {
        let components = self.specification.components.iter().map(|component| (component.id, component.name.clone()));
        std::iter::once((0, "root-task".to_owned())).chain(components).collect()
    }

    fn pci_server(&self, is: &pci_api::ServerConfig) -> Wrong {
        use pci_api::ServerConfig;
        let machine = self.machine();
        let windows = machine.pci_windows().into_iter().map(|(paddr, bits)| (Paddr::new(paddr), bits));
        let wanted = ServerConfig {
            buses: BUSES,
            pci_windows: windows.collect(),
            assign: machine.is_without_firmware || self.declaration.assigns_addresses,
            iommu: !self.specification.no_iommu,
            intx_pins: machine.intx_pins,
            irqs: machine.irqs,
            drivers: is.drivers.iter().zip(0u16..).map(|(driver, number)| self.driver_config(driver, number)).collect(),
        };
        let all = differing!(
            ServerConfig { buses, pci_windows, assign, iommu, intx_pins, irqs, drivers }: is, &wanted
        );
        let mut wrong = vec![(String::new(), all)];
        for (is, wanted) in is.drivers.iter().zip(&wanted.drivers) {
            let fields = differing!(DriverConfig {
                name, allowed, arena, arena_len, pages, max_vectors, domain,
            }: is, wanted);
            wrong.push((format!(" for {}", is.name), fields));
        }
        wrong
    }

    /// The configuration of driver `number` at the PCI server, a component that this one names.
    fn driver_config(&self, DriverConfig { name, .. }: &DriverConfig, number: u16) -> DriverConfig {
        let index = self.indices().find(|index| self.specification.components[*index].name == *name);
        let arena = index
            .and_then(|index| self.environments[index].as_ref())
            .and_then(|environment| environment.region(pci_api::names::ARENA));
        let role = index.map(|index| self.roles[index]);
        let is_client = role == Some(Role::Client);
        let pages = self.pages_of_registers(name, role);
        let has_room = |len: &u64| *len >= u64::from(pages).saturating_mul(PAGE);
        DriverConfig {
            name: name.clone(),
            allowed: self.function_of(name, role),
            arena: arena.map_or(Vaddr::new(0), |arena| arena.vaddr),
            // An arena without room for the pages may not be used.
            arena_len: arena.map(|arena| arena.len).filter(has_room).unwrap_or(0),
            pages,
            max_vectors: if is_client {
                FUNCTION_QUEUES
            } else {
                self.declaration.vectors(name, self.machine().irqs.1)
            },
            // The root task and the IOMMU server number domains so.
            domain: number.saturating_add(1),
        }
    }

    /// Pages of registers that the component of this name and role uses.
    fn pages_of_registers(&self, name: &str, role: Option<Role>) -> u32 {
        match role {
            Some(Role::EduDriver) => EDU_PAGES,
            Some(Role::Probe) => self.declaration.pages_of(name, PROBE_QUEUE_PAIRS),
            Some(Role::Client) => {
                let server = self.declaration.tenant(name).map_or("", |tenant| tenant.server.as_str());
                self.declaration.pages_of(server, FUNCTION_QUEUES.into())
            }
            _ => self.declaration.pages(name),
        }
    }

    /// The function that the component of this name and role drives.
    fn function_of(&self, name: &str, role: Option<Role>) -> Match {
        let of_class = |class_code, index: usize| Match::ClassCode { class_code, index: narrow(index) };
        match role {
            Some(Role::EduDriver) => of_class(EDU_CLASS_CODE, 0),
            Some(Role::Client) => {
                let server = self.declaration.tenant(name).map_or("", |tenant| tenant.server.as_str());
                let driver = self.drivers().position(|driver| driver == server).unwrap_or(usize::MAX);
                let index = self.declaration.functions(server).position(|tenant| tenant.name == name);
                Match::Virtual { driver: narrow(driver), index: narrow(index.unwrap_or(usize::MAX)) }
            }
            _ => match self.declaration.controller(name) {
                Some((place, Controller { hot_plug: true, .. })) => Match::Slot(slot_number(place)),
                Some((place, _)) => {
                    let before = self.declaration.controllers.iter().take(place);
                    of_class(NVME_CLASS_CODE, before.filter(|controller| !controller.hot_plug).count())
                }
                None => of_class(NVME_CLASS_CODE, usize::MAX),
            },
        }
    }

    fn iommu_server(&self, is: &iommu_api::ServerConfig) -> Wrong {
        use iommu_api::{Driver, ServerConfig};
        let driver = |name: &String| {
            let tables = iommu_api::tables(self.arrays(name));
            let is_client =
                self.clients().into_iter().any(|client| self.specification.components[client].name == *name);
            Driver { name: name.clone(), tables: u32::try_from(tables).unwrap_or(u32::MAX), is_client }
        };
        let wanted = ServerConfig {
            messages: Paddr::new(self.machine().smmu.as_ref().map_or(u64::MAX, |smmu| smmu.messages)),
            drivers: self.drivers().map(driver).collect(),
        };
        let mut wrong = vec![(String::new(), differing!(ServerConfig { messages, drivers }: is, &wanted))];
        for (is, wanted) in is.drivers.iter().zip(&wanted.drivers) {
            wrong.push((format!(" for {}", is.name), differing!(Driver { name, tables, is_client }: is, wanted)));
        }
        wrong
    }

    fn nvme_server(&self, index: usize, is: &ServerConfig) -> Wrong {
        let server = self.specification.components[index].name.as_str();
        let Some((_, controller)) = self.declaration.controller(server) else {
            return vec![(String::new(), vec!["controller"])];
        };
        let servers = &self.declaration.servers;
        let sessions = self.declaration.sessions(server).zip(0u16..);
        let wanted = ServerConfig {
            interrupts: controller.interrupts,
            policy: servers.policy,
            class_weights: servers.class_weights,
            queue_sharing: servers.queue_sharing,
            sessions: sessions.map(|(tenant, number)| self.session_config(tenant, number)).collect(),
            functions: self.declaration.functions(server).map(function_config).collect(),
            records: servers.records,
            merging: servers.merging,
            quirks: controller.quirks.clone(),
            administration: self.declaration.administration,
        };
        let all = differing!(ServerConfig {
            interrupts, policy, class_weights, queue_sharing, sessions, functions, records, merging, quirks,
            administration,
        }: is, &wanted);
        let mut wrong = vec![(String::new(), all)];
        for (is, wanted) in is.sessions.iter().zip(&wanted.sessions) {
            let fields = differing!(SessionConfig {
                tenant, class, highest, weight, iops_limit, bandwidth_limit, queue_pairs, depth, most_queue_pairs, most_depth,
                core, nsid, blocks, writable, completion, ring_entries, window_bytes, traced,
            }: is, wanted);
            wrong.push((format!(" for {}", is.tenant), fields));
        }
        for (is, wanted) in is.functions.iter().zip(&wanted.functions) {
            let fields = differing!(FunctionConfig { tenant, nsid, queue_pairs }: is, wanted);
            wrong.push((format!(" for {}", is.tenant), fields));
        }
        wrong
    }

    fn session_config(&self, tenant: &Tenant, number: u16) -> SessionConfig {
        let share = self.declaration.configured(&tenant.share);
        let (most_queue_pairs, most_depth) = self.declaration.most_queues(tenant);
        SessionConfig {
            tenant: tenant.name.clone(),
            class: share.class,
            highest: tenant.highest,
            weight: share.weight,
            iops_limit: share.iops,
            bandwidth_limit: share.bandwidth,
            queue_pairs: share.queue_pairs,
            depth: share.depth,
            most_queue_pairs,
            most_depth,
            core: tenant.core.unwrap_or(number),
            nsid: tenant.nsid,
            blocks: tenant.extents.iter().fold(0, |sum, extent| extent.blocks.saturating_add(sum)),
            writable: tenant.writable,
            completion: tenant.completion,
            ring_entries: tenant.ring_entries,
            window_bytes: tenant.window_bytes,
            traced: tenant.traced,
        }
    }

    fn policy_component(&self, index: usize, is: &PolicyConfig) -> Wrong {
        let server = self.indices().find(|server| self.is_policy_of(index, *server));
        let server = server.map_or("", |server| self.specification.components[server].name.as_str());
        let Some((_, controller)) = self.declaration.controller(server) else {
            return vec![(String::new(), vec!["controller"])];
        };
        let sessions: Vec<&Tenant> = self.declaration.sessions(server).collect();
        let functions: Vec<&Tenant> = self.declaration.functions(server).collect();
        let change = |change: &Change| {
            let place = sessions.iter().chain(&functions).position(|tenant| tenant.name == change.tenant)?;
            let what = match &change.what {
                What::Entitle(share) => What::Entitle(self.declaration.configured(share)),
                What::Revoke(_) | What::Grant(_) => change.what.clone(),
            };
            Some(policy::Change { moment: change.moment, session: u32::try_from(place).ok()?, what })
        };
        let wanted = PolicyConfig {
            sessions: sessions.iter().map(|tenant| holder(tenant)).collect(),
            functions: functions.iter().map(|tenant| holder(tenant)).collect(),
            changes: self.declaration.changes.iter().filter_map(change).collect(),
            interrupts: controller.changes.clone(),
            shares: sessions.iter().map(|tenant| self.declaration.configured(&tenant.share)).collect(),
        };
        let all = differing!(PolicyConfig { sessions, functions, shares, changes, interrupts }: is, &wanted);
        let mut wrong = vec![(String::new(), all)];
        let pairs = is.sessions.iter().zip(&wanted.sessions).chain(is.functions.iter().zip(&wanted.functions));
        for (is, wanted) in pairs {
            let fields = differing!(Holder { tenant, nsid, extents, writable }: is, wanted);
            wrong.push((format!(" for {}", is.tenant), fields));
        }
        wrong
    }

    /// The tenants as the control component names them: by the place of their controller, and by the number of their session or,
    /// after all sessions, of their function.
    fn tenants_of_control(&self) -> Vec<control_api::Tenant> {
        let tenants = self.clients().into_iter().filter_map(|client| {
            let component = self.specification.components[client].id;
            let (server, session) = match (self.session(client), self.function(client)) {
                (Some(session), _) => session,
                (None, Some((server, number))) => {
                    (server, u32::try_from(self.configs[server].tenants().count()).ok()?.checked_add(number)?)
                }
                (None, None) => return None,
            };
            let (place, _) = self.declaration.controller(&self.specification.components[server].name)?;
            Some(control_api::Tenant { component, policy: narrow(place), session })
        });
        tenants.collect()
    }

    fn client(&self, index: usize, is: &Client) -> Wrong {
        let Some(declared) = self.declaration.tenant(&self.specification.components[index].name) else {
            return vec![(String::new(), vec!["tenant"])];
        };
        let number = self.session(index).map_or(0, |(_, number)| narrow(number as usize));
        let sharing = self.declaration.servers.queue_sharing;
        let queue_pairs = if declared.has_function || sharing == QueueSharing::Dedicated {
            declared.share.queue_pairs
        } else {
            narrow(sharing.of_core(declared.core.unwrap_or(number)).len())
        };
        let wanted = Client {
            tenant: declared.name.clone(),
            class: declared.share.class.name().into(),
            queue_pairs,
            ring_entries: declared.ring_entries,
            window_bytes: declared.window_bytes,
            first_block: declared.extents.first().map_or(0, |extent| extent.first),
            polls: declared.completion == Completion::Polled,
            waits: declared.waits,
            traced: declared.traced.0,
            opens: declared.opens,
            begins: declared.begins,
            ends: declared.ends,
            config: declared.config.clone(),
        };
        let fields = differing!(Client {
            tenant, class, queue_pairs, ring_entries, window_bytes, first_block, polls, waits, traced, opens, begins, ends,
            config,
        }: is, &wanted);
        vec![(String::new(), fields)]
    }
}

fn function_config(tenant: &Tenant) -> FunctionConfig {
    // One vector, and so one queue pair, is for the admin queue.
    FunctionConfig { tenant: tenant.name.clone(), nsid: tenant.nsid, queue_pairs: FUNCTION_QUEUES - 1 }
}

fn holder(Tenant { name, nsid, extents, writable, .. }: &Tenant) -> Holder {
    Holder { tenant: name.clone(), nsid: *nsid, extents: extents.clone(), writable: *writable }
}

/// The number, or the largest that fits.
fn narrow(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
