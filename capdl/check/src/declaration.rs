//! The declaration of a system: the decisions that only its author can make, as the scenario states them.
//!
//! Everything else in a specification follows from them, from the machine, or from the other components, and the checker derives
//! it by itself. So no number is right only because two components are configured with the same one.

use crate::machine::FUNCTION_QUEUES;
use crate::programs::Program;
use crate::registers::register_pages;
use blk_api::administration::Administration;
use blk_api::config::{Class, ClassWeights, Completion, Interrupts, Quirk, SchedulingPolicy};
use blk_api::extent::Extent;
use blk_api::policy::{Entitlement, InterruptsChange, What};
use blk_api::queue_sharing::QueueSharing;
use blk_api::trace::Kinds;
use capdl_spec::{Counted, RestartPolicy};
use control_api::Act;
use workload::LastProbe;

/// A declared system.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Declaration {
    /// The controllers, in the order of the root bus.
    pub controllers: Vec<Controller>,
    /// The tenants. Those of one server have its sessions, or its virtual functions, in this order.
    pub tenants: Vec<Tenant>,
    /// The channels between clients.
    pub channels: Vec<Channel>,
    /// Settings of all NVMe servers.
    pub servers: Servers,
    /// Changes of tenants' rights and shares, in their order.
    pub changes: Vec<Change>,
    /// Whether the PCI server places registers also on a machine with firmware.
    pub assigns_addresses: bool,
    /// The last access of the probe, where there is one.
    pub probe: Option<LastProbe>,
    /// The moments, by their numbers.
    pub moments: Vec<Moment>,
    /// The components that the root task stops, in their order.
    pub kills: Vec<Kill>,
    /// The scheduling priority of the console.
    pub console_priority: u8,
    /// Whether the NVMe servers, and clients with functions, show statistics to the build machine.
    pub has_telemetry: bool,
    /// Whether servers and clients also have memory for traces of requests.
    pub has_traces: bool,
    /// The acts of the control component; without it there is none.
    pub control: Option<Vec<Act>>,
    /// The rights of the control component to administer each NVMe server's controller.
    pub administration: Option<Administration>,
    /// The limit on restarts of the PCI server.
    pub pci_server_restart: Option<RestartPolicy>,
    /// The limit on restarts of the IOMMU server, where there is one.
    pub iommu_server_restart: Option<RestartPolicy>,
    /// The programs that the system is built from, by name.
    pub programs: Vec<(String, Program)>,
}

/// A channel: client `from` may signal the notification on which client `to` waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Channel {
    /// The client that signals.
    pub from: String,
    /// The client that is woken.
    pub to: String,
}

/// A controller and its driver.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Controller {
    /// The component that drives it.
    pub driver: String,
    /// Whether the controller is in a hot-plug slot.
    pub hot_plug: bool,
    /// I/O queue pairs that it has for its driver.
    pub queue_pairs: u16,
    /// The number of the MSI-X vectors.
    pub vectors: u16,
    /// The distance of its doorbells (CAP.DSTRD).
    pub doorbell_stride: u8,
    /// The interrupt mode at the start.
    pub interrupts: Interrupts,
    /// The changes of the interrupt mode, in their order.
    pub changes: Vec<InterruptsChange>,
    /// Deviations from the standard that the server allows for.
    pub quirks: Vec<Quirk>,
}

/// Settings of all NVMe servers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Servers {
    /// The scheduling policy.
    pub policy: SchedulingPolicy,
    /// Weights of the classes below urgent.
    pub class_weights: ClassWeights,
    /// How sessions share queue pairs.
    pub queue_sharing: QueueSharing,
    /// Records of extents.
    pub records: u32,
    /// Whether records that touch become one.
    pub merging: bool,
    /// The scheduling priority of every driver of a controller or another device, and of the policy components.
    pub priority: u8,
    /// The limit on restarts of a server, and of the policy component beside it.
    pub restart: Option<RestartPolicy>,
}

/// A tenant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tenant {
    /// The tenant's name, which its component has, too.
    pub name: String,
    /// The name of its program.
    pub program: String,
    /// The configuration of its program, in JSON.
    pub config: String,
    /// The component that drives its controller.
    pub server: String,
    /// Whether the tenant drives a virtual function of that controller itself.
    pub has_function: bool,
    /// The identifier of the tenant's namespace.
    pub nsid: u32,
    /// The tenant's blocks, in the order of its own numbering.
    pub extents: Vec<Extent>,
    /// Whether the tenant may write.
    pub writable: bool,
    /// The tenant's share at the start. The depth is that of queue pairs of its own.
    pub share: Entitlement,
    /// The most urgent class that it may ever have.
    pub highest: Class,
    /// The core on which its client submits; without one, the number of its session.
    pub core: Option<u16>,
    /// How its server and its client notice completions.
    pub completion: Completion,
    /// Entries of its rings.
    pub ring_entries: u32,
    /// Bytes of its window.
    pub window_bytes: u64,
    /// The kinds of its requests that are traced from the start.
    pub traced: Kinds,
    /// Whether the tenant's requests wait for the return of its controller.
    pub waits: bool,
    /// The moment at which it opens, by its number.
    pub opens: Option<u16>,
    /// The moment that its work waits for.
    pub begins: Option<u16>,
    /// The moment at which its work ends.
    pub ends: Option<u16>,
    /// The scheduling priority of its component.
    pub priority: u8,
    /// The limit on restarts of its component; without one it stays dead.
    pub restart: Option<RestartPolicy>,
    /// The right of the tenant to ask the supervisor for alarms.
    pub alarm: bool,
}

/// A change of a tenant's rights or share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Change {
    /// The number of its moment.
    pub moment: u16,
    /// The tenant.
    pub tenant: String,
    /// The change. The depth of a share is that of queue pairs of its own.
    pub what: What,
}

/// A moment of a run ([`capdl_spec::Moment`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The events that must have happened before.
    pub needs: Vec<Need>,
    /// Microseconds from then on.
    pub after_us: u64,
}

/// Something that must have happened to a component ([`capdl_spec::Need`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Need {
    /// The component; one that the system lacks counts nothing.
    pub component: String,
    /// The event that is counted.
    pub counted: Counted,
    /// How often it must have happened.
    pub at_least: u32,
}

/// A component that the root task stops ([`capdl_spec::Kill`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Kill {
    /// The component; one that the system lacks is not stopped.
    pub component: String,
    /// The number of the moment of the first stop.
    pub moment: u16,
    /// Number of stops.
    pub times: u32,
    /// Microseconds from the start of a following incarnation to its stop.
    pub every_us: u64,
    /// Upper bound of a further delay, microseconds.
    pub spread_us: u32,
}

impl Declaration {
    /// The tenant of this name.
    pub(crate) fn tenant(&self, name: &str) -> Option<&Tenant> {
        self.tenants.iter().find(|tenant| tenant.name == name)
    }

    /// The place on the root bus of the controller that the component of this name drives, and the controller.
    pub(crate) fn controller(&self, driver: &str) -> Option<(usize, &Controller)> {
        self.controllers.iter().enumerate().find(|(_, controller)| controller.driver == driver)
    }

    /// The tenants with a session at the server of this name.
    pub(crate) fn sessions<'a>(&'a self, server: &'a str) -> impl Iterator<Item = &'a Tenant> {
        self.tenants.iter().filter(move |tenant| tenant.server == server && !tenant.has_function)
    }

    /// The tenants with a virtual function of that server's controller.
    pub(crate) fn functions<'a>(&'a self, server: &'a str) -> impl Iterator<Item = &'a Tenant> {
        self.tenants.iter().filter(move |tenant| tenant.server == server && tenant.has_function)
    }

    /// The share as it is configured: queue pairs that sessions share have their own depth.
    pub(crate) fn configured(&self, share: &Entitlement) -> Entitlement {
        let depth = self.servers.queue_sharing.common().map_or(share.depth, |(_, depth)| depth);
        Entitlement { depth, ..*share }
    }

    /// The most queue pairs of its own that a tenant ever has, and the most commands that each of them may hold.
    pub(crate) fn most_queues(&self, tenant: &Tenant) -> (u16, u16) {
        let changes = self.changes.iter().filter(|change| change.tenant == tenant.name);
        let shares = changes.filter_map(|change| match &change.what {
            What::Entitle(share) => Some(share),
            What::Revoke(_) | What::Grant(_) => None,
        });
        let all = std::iter::once(&tenant.share).chain(shares).map(|share| self.configured(share));
        all.fold((0, 0), |(queue_pairs, depth), share| (share.queue_pairs.max(queue_pairs), share.depth.max(depth)))
    }

    /// Vectors of the function that the component of this name drives: one for the admin queue and one for each queue pair of its
    /// tenants, as far as its part of the interrupts goes; one for all where it never interrupts by messages.
    pub(crate) fn vectors(&self, driver: &str, interrupts: u8) -> u16 {
        let Some((_, controller)) = self.controller(driver) else { return 1 };
        let changes = controller.changes.iter().map(|change| change.to);
        if std::iter::once(controller.interrupts).chain(changes).all(|mode| mode == Interrupts::Intx) {
            return 1;
        }
        let functions = self.tenants.iter().filter(|tenant| tenant.has_function).count();
        let part = vectors_of_servers(interrupts, functions, self.controllers.len());
        self.queue_pairs(driver, controller).saturating_add(1).min(controller.vectors).min(part)
    }

    /// I/O queue pairs that the driver of `controller` uses.
    fn queue_pairs(&self, driver: &str, controller: &Controller) -> u16 {
        let own = || self.sessions(driver).fold(0u16, |sum, one| sum.saturating_add(self.most_queues(one).0));
        let wanted = self.servers.queue_sharing.common().map_or_else(own, |(queue_pairs, _)| queue_pairs);
        wanted.min(controller.queue_pairs)
    }

    /// Pages of registers that the server of this name uses.
    pub(crate) fn pages(&self, driver: &str) -> u32 {
        let Some((_, controller)) = self.controller(driver) else { return 0 };
        let administered = self.administration.map_or(0, Administration::queue_pairs);
        let queue_pairs = self.queue_pairs(driver, controller).saturating_add(administered).min(controller.queue_pairs);
        register_pages(queue_pairs.into(), controller.doorbell_stride)
    }

    /// Pages of registers of `queue_pairs` I/O queue pairs of the controller that the component of this name drives.
    pub(crate) fn pages_of(&self, driver: &str, queue_pairs: u32) -> u32 {
        self.controller(driver).map_or(0, |(_, one)| register_pages(queue_pairs, one.doorbell_stride))
    }
}

/// The interrupts that each server may have: its part of those that the clients with functions leave.
pub fn vectors_of_servers(interrupts: u8, functions: usize, controllers: usize) -> u16 {
    let of_functions = functions.saturating_mul(FUNCTION_QUEUES.into());
    let part = usize::from(interrupts).saturating_sub(of_functions) / controllers.max(1);
    u16::try_from(part).unwrap_or(u16::MAX)
}
