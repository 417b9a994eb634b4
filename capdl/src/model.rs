//! The model of a system under construction: objects, and components with their CSpaces and VSpaces.
//!
//! The bookkeeping here holds for every system: cptrs are given out in order, regions start at 2 MiB boundaries with a gap
//! after each, and paging structures follow from the mappings. [`mod@crate::build`] decides which component gets what.

mod finish;

use crate::error::BuildError;
use crate::layout::{
    CNODE_CPTR, FIRST_NAMED_CPTR, IPC_BUFFER_VADDR, LARGE_PAGE, LOG_BYTES, LOG_VADDR, PAGE, REGIONS_VADDR, STACK_PAGES,
    STACK_TOP, alarms_us, frame_bytes, rights,
};
use crate::programs::Program;
use capdl_spec::{
    Arch, CapRun, Fill, Mapping, Object, ObjectId, ObjectKind, ROOT_BITS, RestartPolicy, Role, Specification,
    TeardownAck,
};
use platform::{Badge, CPtr, Name, NamedCaps, Region, RegionKind, Vaddr};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A capability to install.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) object: ObjectId,
    pub(crate) badge: u64,
    pub(crate) rights: u8,
}

/// Number of a component in the model.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Who(usize);

/// A system under construction.
pub(crate) struct Model {
    specification: Specification,
    data: Vec<u8>,
    drafts: Vec<Draft>,
    /// Programs whose bytes are already in the data: offsets of their segments.
    placed: BTreeMap<String, Vec<u64>>,
}

/// A component under construction.
struct Draft {
    name: String,
    role: Role,
    program: String,
    server: Option<u16>,
    priority: u8,
    entry: u64,
    tcb: ObjectId,
    cnode: ObjectId,
    root: Option<ObjectId>,
    vspace: ObjectId,
    ipc_buffer: ObjectId,
    own_cnode: bool,
    free_cptrs: u64,
    next_cptr: u64,
    next_vaddr: u64,
    wait: Option<CPtr>,
    bound_notification: Option<ObjectId>,
    tick: Option<ObjectId>,
    liveness: Option<ObjectId>,
    keeps: Option<ObjectId>,
    restart: Option<RestartPolicy>,
    driver: Option<u8>,
    alarm: Option<u8>,
    ends_with: Option<u16>,
    blocked: Option<ObjectId>,
    frames: Option<ObjectId>,
    teardown_ack: Option<TeardownAck>,
    presence: Option<ObjectId>,
    shown: Vec<ObjectId>,
    caps: Vec<NamedCaps>,
    cap_runs: Vec<CapRun>,
    regions: Vec<Region>,
    mappings: Vec<Mapping>,
    /// Addresses that need a page table, in units that one page table covers.
    tables: BTreeSet<u64>,
    /// Addresses that need at least a page directory, in the same units.
    directories: BTreeSet<u64>,
    config: Vec<u8>,
}

impl Model {
    pub(crate) fn new(name: &str, report_caps: bool) -> Self {
        let specification = Specification { name: name.into(), report_caps, ..Specification::default() };
        Self { specification, data: Vec::new(), drafts: Vec::new(), placed: BTreeMap::new() }
    }

    /// Records that the machine has no IOMMU.
    pub(crate) fn lacks_iommu(&mut self) {
        self.specification.no_iommu = true;
    }

    /// The architecture of the system's programs.
    pub(crate) const fn arch(&self) -> Arch {
        self.specification.arch
    }

    /// Records that the system's programs are for `arch`, and returns whether the earlier ones were, too.
    pub(crate) fn runs_on(&mut self, arch: Arch) -> bool {
        let is_first = self.drafts.is_empty();
        let before = core::mem::replace(&mut self.specification.arch, arch);
        is_first || before == arch
    }

    /// Makes `count` new objects of a kind.
    pub(crate) fn object(&mut self, name: impl Into<String>, kind: ObjectKind, count: u64) -> ObjectId {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.specification.objects.push(Object { name: name.into(), kind, count, fill: None });
        self.specification.objects.len() as ObjectId - 1
    }

    /// Makes a new component that runs `program`, with its thread, spaces, stack, IPC buffer and log ring.
    pub(crate) fn component(
        &mut self,
        name: &str,
        role: Role,
        (program_name, program): (&str, &Program),
        priority: u8,
    ) -> Who {
        let tcb = self.object(format!("{name}.tcb"), ObjectKind::Tcb, 1);
        let cnode = self.object(format!("{name}.cnode"), ObjectKind::CNode { size_bits: 1 }, 1);
        let vspace = self.object(format!("{name}.vspace"), ObjectKind::VSpace, 1);
        let ipc_buffer = self.object(format!("{name}.ipc-buffer"), ObjectKind::SmallFrame, 1);
        self.drafts.push(Draft {
            name: name.into(),
            role,
            program: program_name.into(),
            server: None,
            priority,
            entry: program.entry,
            tcb,
            cnode,
            root: None,
            vspace,
            ipc_buffer,
            own_cnode: false,
            free_cptrs: 0,
            next_cptr: FIRST_NAMED_CPTR,
            next_vaddr: REGIONS_VADDR,
            wait: None,
            bound_notification: None,
            tick: None,
            liveness: None,
            keeps: None,
            restart: None,
            driver: None,
            alarm: None,
            ends_with: None,
            blocked: None,
            frames: None,
            teardown_ack: None,
            presence: None,
            shown: Vec::new(),
            caps: Vec::new(),
            cap_runs: Vec::new(),
            regions: Vec::new(),
            mappings: Vec::new(),
            tables: BTreeSet::new(),
            directories: BTreeSet::new(),
            config: Vec::new(),
        });
        let who = Who(self.drafts.len() - 1);
        self.place(who, program_name, program);
        self.map(who, ipc_buffer, IPC_BUFFER_VADDR, Access::Data);
        let stack = self.object(format!("{name}.stack"), ObjectKind::SmallFrame, u64::from(STACK_PAGES));
        self.map(who, stack, STACK_TOP - u64::from(STACK_PAGES) * PAGE, Access::Data);
        let log =
            self.object(format!("{name}.log"), ObjectKind::SmallFrame, report::ring::region_bytes(LOG_BYTES) / PAGE);
        self.map(who, log, LOG_VADDR, Access::Data);
        self.name_region(
            who,
            report::names::LOG,
            LOG_VADDR,
            report::ring::region_bytes(LOG_BYTES),
            RegionKind::ReadWrite,
        );
        who
    }

    /// Maps the program's segments. Its bytes enter the data once, however many components run it.
    fn place(&mut self, who: Who, program_name: &str, program: &Program) {
        if !self.placed.contains_key(program_name) {
            let mut offsets = Vec::new();
            for segment in &program.segments {
                self.data.resize(self.data.len().next_multiple_of(16), 0);
                offsets.push(self.data.len() as u64);
                self.data.extend_from_slice(&segment.bytes);
            }
            self.placed.insert(program_name.into(), offsets);
        }
        let offsets = self.placed.get(program_name).cloned().unwrap_or_default();
        let mut kinds: BTreeMap<&str, u32> = BTreeMap::new();
        for (segment, offset) in program.segments.iter().zip(offsets) {
            let (kind, access) = match (segment.writable, segment.executable) {
                (true, _) => ("data", Access::Data),
                (false, true) => ("code", Access::Code),
                (false, false) => ("constants", Access::Constant),
            };
            let number = kinds.entry(kind).or_default();
            *number += 1;
            let suffix = if *number > 1 { format!("-{number}") } else { String::new() };
            let name = format!("{}.{kind}{suffix}", self.draft(who).name);
            let frames = self.object(name, ObjectKind::SmallFrame, segment.pages());
            if !segment.bytes.is_empty() {
                let fill = Fill { offset, len: segment.bytes.len() as u64, skip: (segment.vaddr % PAGE) as u16 };
                self.specification.objects[frames as usize].fill = Some(fill);
            }
            self.map(who, frames, segment.first_page(), access);
        }
    }

    fn draft(&mut self, who: Who) -> &mut Draft {
        &mut self.drafts[who.0]
    }

    fn kind(&self, object: ObjectId) -> &Object {
        &self.specification.objects[object as usize]
    }

    /// Maps all frames of `object` from `vaddr` on.
    fn map(&mut self, who: Who, object: ObjectId, vaddr: u64, access: Access) {
        let Object { kind, count, .. } = *self.kind(object);
        let bytes = frame_bytes(kind).unwrap_or(0) * u64::from(count);
        let small = matches!(kind, ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. });
        let draft = self.draft(who);
        if small {
            draft.tables.extend(units(vaddr, bytes));
        }
        draft.directories.extend(units(vaddr, bytes));
        let (writable, executable) = (access == Access::Data, access == Access::Code);
        draft.mappings.push(Mapping { vspace: draft.vspace, object, vaddr, writable, executable });
    }

    fn name_region(&mut self, who: Who, name: &str, vaddr: u64, len: u64, kind: RegionKind) {
        let region = Region { name: short(name), vaddr: Vaddr::new(vaddr), len, kind };
        self.draft(who).regions.push(region);
    }

    /// Takes `bytes` of address space from a new 2 MiB boundary on, with an unmapped gap after it.
    fn take_vaddr(&mut self, who: Who, bytes: u64) -> u64 {
        let draft = self.draft(who);
        let vaddr = draft.next_vaddr;
        draft.next_vaddr = (vaddr + bytes + PAGE).next_multiple_of(LARGE_PAGE);
        vaddr
    }

    /// Maps `object` as the region `name`.
    pub(crate) fn region(&mut self, who: Who, name: &str, object: ObjectId, kind: RegionKind) {
        let Object { kind: object_kind, count, .. } = *self.kind(object);
        let bytes = frame_bytes(object_kind).unwrap_or(0) * u64::from(count);
        let vaddr = self.take_vaddr(who, bytes);
        let access = if kind == RegionKind::ReadOnly { Access::Constant } else { Access::Data };
        self.map(who, object, vaddr, access);
        self.name_region(who, name, vaddr, bytes, kind);
    }

    /// Prepares the region `name` for pages mapped at run time, and returns its address.
    pub(crate) fn arena(&mut self, who: Who, name: &str, bytes: u64) -> u64 {
        let vaddr = self.take_vaddr(who, bytes);
        let draft = self.draft(who);
        draft.tables.extend(units(vaddr, bytes));
        draft.directories.extend(units(vaddr, bytes));
        self.name_region(who, name, vaddr, bytes, RegionKind::Arena);
        vaddr
    }

    /// Installs the run `name`, and returns its first cptr. All objects of each grant's array get a cptr.
    pub(crate) fn caps(&mut self, who: Who, name: &str, grants: &[Grant]) -> CPtr {
        let counts: Vec<u32> = grants.iter().map(|grant| self.kind(grant.object).count).collect();
        let draft = self.draft(who);
        let first = draft.next_cptr;
        for (grant, count) in grants.iter().zip(counts) {
            let Grant { object, badge, rights } = *grant;
            draft.cap_runs.push(CapRun { cnode: draft.cnode, cptr: draft.next_cptr, object, badge, rights });
            draft.next_cptr += u64::from(count);
        }
        let count = (draft.next_cptr - first) as u32;
        draft.caps.push(NamedCaps { name: short(name), first: CPtr::new(first), count });
        CPtr::new(first)
    }

    /// Installs one capability, or those of one array.
    pub(crate) fn cap(&mut self, who: Who, name: &str, object: ObjectId, badge: u64, rights: u8) -> CPtr {
        self.caps(who, name, &[Grant { object, badge, rights }])
    }

    /// Gives the component its own CNode, `free_cptrs` empty cptrs at least, and a cptr to receive at.
    pub(crate) fn own_cnode(&mut self, who: Who, free_cptrs: u64) {
        let draft = self.draft(who);
        draft.own_cnode = true;
        let cnode = draft.cnode;
        // A client may delete what it finds there. Servers are trusted not to, and their calls do not become longer.
        if draft.role == Role::Client {
            let name = format!("{}.root", draft.name);
            let root = self.object(name, ObjectKind::CNode { size_bits: ROOT_BITS }, 1);
            self.draft(who).root = Some(root);
        }
        let draft = self.draft(who);
        draft.free_cptrs = free_cptrs;
        draft.cap_runs.push(CapRun { cnode, cptr: CNODE_CPTR, object: cnode, badge: 0, rights: rights::ALL });
    }

    pub(crate) fn waits_on(&mut self, who: Who, cptr: CPtr) {
        self.draft(who).wait = Some(cptr);
    }

    pub(crate) fn binds(&mut self, who: Who, notification: ObjectId) {
        self.draft(who).bound_notification = Some(notification);
    }

    pub(crate) fn ticks(&mut self, who: Who, notification: ObjectId) {
        self.draft(who).tick = Some(notification);
    }

    /// Has the component started again after a fault, as `policy` says.
    pub(crate) fn restarts(&mut self, who: Who, policy: RestartPolicy) {
        self.draft(who).restart = Some(policy);
    }

    /// Makes the component driver number `number` at the PCI server.
    pub(crate) fn drives(&mut self, who: Who, number: u8) {
        self.draft(who).driver = Some(number);
    }

    /// Lets the component ask the supervisor for alarms, by `supervisor`, the supervisor's notification, as number `first` and on.
    /// No other component has these numbers.
    pub(crate) fn asks_for_alarms(&mut self, who: Who, supervisor: ObjectId, first: u8) {
        let draft = self.draft(who);
        draft.alarm = Some(first);
        let numbers = alarms_us(draft.role).iter().zip(0u8..).map(|(_, index)| first.wrapping_add(index));
        let grant = |number| Grant { object: supervisor, badge: Badge::alarm(number), rights: rights::WRITE };
        let grants: Vec<_> = numbers.map(grant).collect();
        self.caps(who, blk_api::names::ALARM, &grants);
    }

    /// Records that the component belongs to the NVMe server `server`.
    pub(crate) fn belongs_to(&mut self, who: Who, server: Who) {
        self.draft(who).server = Some(Self::id(server));
    }

    /// Records that the component ends with `other`.
    pub(crate) fn ends_with(&mut self, who: Who, other: Who) {
        self.draft(who).ends_with = Some(Self::id(other));
    }

    /// Adds a page as the region `blocked`, in which the component records blocked transactions for the supervisor.
    pub(crate) fn writes_blocked(&mut self, who: Who) {
        let name = format!("{}.blocked", self.name(who));
        let page = self.object(name, ObjectKind::SmallFrame, 1);
        self.region(who, iommu_api::names::BLOCKED, page, RegionKind::ReadWrite);
        self.draft(who).blocked = Some(page);
    }

    /// Adds the table of drivers' frames, with room for `arrays` arrays of them, as the region `frames`: the component reads it.
    pub(crate) fn reads_frames(&mut self, who: Who, arrays: u64) {
        let name = format!("{}.frames", self.name(who));
        let table = self.object(name, ObjectKind::SmallFrame, iommu_api::frames::table_pages(arrays));
        self.region(who, iommu_api::names::FRAMES, table, RegionKind::ReadOnly);
        self.draft(who).frames = Some(table);
    }

    /// The arrays of small frames that the component holds, by their lengths.
    pub(crate) fn arrays(&self, who: Who) -> Vec<u64> {
        let held = self.drafts[who.0].cap_runs.iter().map(|run| self.kind(run.object));
        held.filter(|object| object.kind == ObjectKind::SmallFrame).map(|object| object.count.into()).collect()
    }

    /// Has the component started again only after `teardown_ack` acknowledges the teardown of its session.
    pub(crate) fn waits_for_teardown(&mut self, who: Who, teardown_ack: TeardownAck) {
        self.draft(who).teardown_ack = Some(teardown_ack);
    }

    /// Adds the page of presence of `driver` as its own region and as the region `name` of the PCI server, which writes it.
    pub(crate) fn comes_and_goes(&mut self, driver: Who, pci: Who, name: &str) {
        let object = format!("{}.presence", self.name(driver));
        let page = self.object(object, ObjectKind::SmallFrame, 1);
        self.draft(driver).presence = Some(page);
        self.region(driver, pci_api::names::PRESENCE, page, RegionKind::ReadOnly);
        self.region(pci, name, page, RegionKind::ReadWrite);
    }

    /// Adds a page as the region `name`, which the component's successor finds unchanged.
    pub(crate) fn keeps(&mut self, who: Who, name: &str) {
        let page = self.object(format!("{}.{name}", self.name(who)), ObjectKind::SmallFrame, 1);
        self.draft(who).keeps = Some(page);
        self.region(who, name, page, RegionKind::ReadWrite);
    }

    /// Adds `pages` pages as the region `name`, which the component shares with the build machine.
    pub(crate) fn shows(&mut self, who: Who, name: &str, pages: u64) {
        let frames = self.object(format!("{}.{name}", self.name(who)), ObjectKind::SmallFrame, pages);
        self.draft(who).shown.push(frames);
        self.region(who, name, frames, RegionKind::ReadWrite);
    }

    /// Adds a window that the component `asker` shares with the build machine, and that a device reaches by the capabilities of
    /// `server`. Neither maps it.
    pub(crate) fn shares_window(&mut self, asker: Who, server: Who, name: &str, pages: u64) {
        let frames = self.object(format!("{}.{name}", self.name(server)), ObjectKind::SmallFrame, pages);
        self.draft(asker).shown.push(frames);
        self.cap(server, name, frames, 0, rights::READ_WRITE);
    }

    /// Adds the component's liveness page as the region `name` of `watcher`.
    pub(crate) fn watches(&mut self, watcher: Who, name: &str, who: Who) {
        let liveness = match self.draft(who).liveness {
            Some(liveness) => liveness,
            None => {
                let object = format!("{}.liveness", self.name(who));
                let liveness = self.object(object, ObjectKind::SmallFrame, 1);
                self.draft(who).liveness = Some(liveness);
                liveness
            }
        };
        self.region(watcher, name, liveness, RegionKind::ReadOnly);
    }

    pub(crate) fn configure<T: Serialize>(&mut self, who: Who, config: &T) -> Result<(), BuildError> {
        self.draft(who).config = postcard::to_stdvec(config).map_err(|_| BuildError::Encoding)?;
        Ok(())
    }

    pub(crate) fn vspace(&self, who: Who) -> ObjectId {
        self.drafts[who.0].vspace
    }

    /// The component's number: its badge at the supervisor and its id in the log.
    pub(crate) fn id(who: Who) -> u16 {
        who.0 as u16 + 1
    }

    pub(crate) fn log_ring(&self, who: Who) -> ObjectId {
        let mapped = self.drafts[who.0].mappings.iter().find(|mapping| mapping.vaddr == LOG_VADDR);
        mapped.map_or(0, |mapping| mapping.object)
    }

    /// All components so far.
    pub(crate) fn everybody(&self) -> impl Iterator<Item = Who> + use<> {
        (0..self.drafts.len()).map(Who)
    }

    pub(crate) fn name(&self, who: Who) -> &str {
        &self.drafts[who.0].name
    }
}

/// How frames are mapped. No value is both writable and executable.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    Constant,
    Data,
    Code,
}

/// The 2 MiB units that `bytes` from `vaddr` on touch.
fn units(vaddr: u64, bytes: u64) -> std::ops::Range<u64> {
    vaddr / LARGE_PAGE..(vaddr + bytes).div_ceil(LARGE_PAGE)
}

/// `name` as environments store it; the scenario's checks keep names short enough.
fn short(name: &str) -> Name {
    report::clip(name)
}
