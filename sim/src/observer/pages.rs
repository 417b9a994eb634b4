//! Rights to pages, worked out from the system's specification: mappings, windows and pools. Only the physical address of
//! an object is taken from the machine. It must be the same for all components, and no two objects may have the
//! same.

use capdl_spec::{Component, Mapping, ObjectId, ObjectKind, Role, Specification};
use platform::{PAGE_BITS, PAGE_SIZE, Paddr, Vaddr};
use report::milestones::bit_of;
use sim_check::{Authority, Checker, Findings, Rights, Subject};
use sim_kernel::{Access, Capability, Held, Kernel, ThreadId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Pages of a large frame.
const LARGE: u64 = 512;
/// The root task is no component of the specification; it builds them all.
const ROOT_TASK: u32 = 0;

/// The physical places of objects, and the rights that follow.
pub(crate) struct Pages {
    specification: Specification,
    pub(crate) authority: Authority,
    /// By thread, the component's number.
    threads: BTreeMap<ThreadId, u32>,
    /// By object and its place in the array, the page.
    places: BTreeMap<(ObjectId, u64), u64>,
    /// By page, the object that lies there, and its place in the array.
    owners: BTreeMap<u64, (ObjectId, u64)>,
}

impl Pages {
    pub(crate) fn new(specification: &Specification, findings: &mut Findings) -> Self {
        let mut authority = Authority::new();
        let everything = Rights { read: true, write: true };
        authority.may(ROOT_TASK, 0..u64::MAX, everything);
        findings.name(Subject::Component(ROOT_TASK), "root-task");
        for component in &specification.components {
            findings.name(Subject::Component(u32::from(component.id)), component.name.clone());
        }
        let specification = specification.clone();
        let (threads, places, owners) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { specification, authority, threads, places, owners }
    }

    /// Records the first start of the component of this name: its mappings must be those of the specification.
    pub(crate) fn started(
        &mut self,
        name: &str,
        thread: ThreadId,
        kernel: &Kernel,
        now_ns: u64,
        findings: &mut Findings,
    ) {
        let Some(component) = self.specification.components.iter().find(|one| one.name == name).cloned() else {
            self.threads.insert(thread, ROOT_TASK);
            return;
        };
        let number = u32::from(component.id);
        self.threads.insert(thread, number);
        let mappings = std::mem::take(&mut self.specification.mappings);
        for mapping in mappings.iter().filter(|mapping| mapping.vspace == component.vspace) {
            self.grant(number, mapping, thread, kernel, now_ns, findings);
        }
        self.specification.mappings = mappings;
        self.grant_own(&component, number);
    }

    /// Grants the page that is mapped without a mapping in the list: the IPC buffer, which the component does not access by itself.
    fn grant_own(&mut self, component: &Component, number: u32) {
        if let Some(page) = self.places.get(&(component.ipc_buffer, 0)) {
            self.authority.may(number, *page..*page + 1, Rights { read: true, write: true });
        }
    }

    fn grant(
        &mut self,
        number: u32,
        mapping: &Mapping,
        thread: ThreadId,
        kernel: &Kernel,
        now_ns: u64,
        findings: &mut Findings,
    ) {
        let Some(object) = self.specification.objects.get(mapping.object as usize) else { return };
        let pages = match object.kind {
            ObjectKind::SmallFrame | ObjectKind::SmallDeviceFrame { .. } => 1,
            ObjectKind::LargeFrame | ObjectKind::LargeDeviceFrame { .. } => LARGE,
            // A paging structure is not memory of a component.
            _ => return,
        };
        let rights = Rights { read: true, write: mapping.writable };
        for index in 0..u64::from(object.count) {
            let vaddr = Vaddr::new(mapping.vaddr + index * pages * PAGE_SIZE as u64);
            let Ok(paddr) = kernel.translate(thread, vaddr, Access::Read) else {
                findings.add(now_ns, Checker::Authority, Subject::Component(number), || {
                    format!("nothing is mapped at {vaddr}, where the specification has {}", object.name)
                });
                continue;
            };
            let page = paddr.bits() >> PAGE_BITS;
            let place = (mapping.object, index);
            let (before, owner) =
                (*self.places.entry(place).or_insert(page), *self.owners.entry(page).or_insert(place));
            if before != page || owner != place {
                findings.add(now_ns, Checker::Authority, Subject::Component(number), || {
                    format!(
                        "{} number {index} lies at page {page:#x} for it, and not where it is for others",
                        object.name
                    )
                });
            }
            self.authority.may(number, page..page + pages, rights);
        }
    }

    /// Allows a component these device pages, which were mapped for it at run time.
    pub(crate) fn registers(&mut self, name: &str, pages: Range<u64>) {
        if let Some(component) = self.specification.components.iter().find(|one| one.name == name) {
            self.authority.may(u32::from(component.id), pages, Rights { read: true, write: true });
        }
    }

    /// Allows a component all pages: a probe makes and maps its memory itself.
    pub(crate) fn everything(&mut self, name: &str) {
        self.registers(name, 0..u64::MAX);
    }

    /// Returns the pages of the memory that the component named `name` has mapped from `vaddr` on, once it has run.
    pub(crate) fn mapped_at(&self, name: &str, vaddr: Vaddr) -> Vec<u64> {
        let component = self.specification.components.iter().find(|one| one.name == name);
        let mapped = component.and_then(|component| {
            let mut own = self.specification.mappings.iter().filter(|mapping| mapping.vspace == component.vspace);
            // A paging structure has the address of the first page under it, and no place.
            own.find(|mapping| mapping.vaddr == vaddr.bits() && self.places.contains_key(&(mapping.object, 0)))
        });
        let Some(id) = mapped.map(|mapping| mapping.object) else { return Vec::new() };
        self.places.range((id, 0)..(id + 1, 0)).map(|(_, page)| *page).collect()
    }

    /// Returns the pages of the frames `NAME.part`, which the component of this name holds and nobody maps.
    pub(crate) fn frames_of(&self, name: &str, part: &str, kernel: &Kernel, thread: ThreadId) -> Vec<u64> {
        let Specification { components, objects, caps, .. } = &self.specification;
        let object = objects.iter().position(|object| object.name == format!("{name}.{part}"));
        let cnode = components.iter().find(|one| one.name == name).map(|one| one.cnode);
        let run = caps.iter().find(|run| Some(run.object as usize) == object && Some(run.cnode) == cnode);
        let cptrs = run.map_or(0..0, |run| run.cptr..run.cptr + u64::from(objects[run.object as usize].count));
        let held = kernel.cspace(thread).into_iter().filter(|held| cptrs.contains(&held.cptr));
        let page = |held: Held| match held.cap {
            Capability::Frame { paddr, .. } => Some(paddr >> PAGE_BITS),
            _ => None,
        };
        held.filter_map(page).collect()
    }

    /// Whether the supervisor has announced the moment of this number. It announces every moment to all components alike.
    pub(crate) fn has_come(&self, moment: u16, kernel: &Kernel) -> bool {
        let is_ring = |name: &str| name.ends_with(".log") && name != "root-task.log";
        let rings = (0..).zip(&self.specification.objects).filter(|(_, object)| is_ring(&object.name));
        let mut pages = rings.filter_map(|(id, _)| self.places.get(&(id, 0)));
        let (Some(page), Ok((offset, bit))) = (pages.next(), bit_of(moment)) else { return false };
        let mut word = [0; 4];
        let read = kernel.memory().read(Paddr::new((page << PAGE_BITS) + offset as u64), &mut word);
        read.is_ok() && u32::from_le_bytes(word) & bit != 0
    }

    /// Returns the role of the component named `name`. The root task has none.
    pub(crate) fn role(&self, name: &str) -> Option<Role> {
        self.specification.components.iter().find(|one| one.name == name).map(|one| one.role)
    }

    /// Returns the name of the component with this number.
    pub(crate) fn name(&self, component: u16) -> Option<String> {
        self.specification.components.iter().find(|one| one.id == component).map(|one| one.name.clone())
    }

    /// Returns the name of the only component with this role.
    pub(crate) fn named(&self, role: Role) -> Option<&str> {
        self.specification.components.iter().find(|one| one.role == role).map(|one| one.name.as_str())
    }

    /// Returns the number of the component named `name`, and its thread, once it has run.
    pub(crate) fn component(&self, name: &str) -> Option<(u32, ThreadId)> {
        let number = self.specification.components.iter().find(|one| one.name == name).map(|one| u32::from(one.id))?;
        self.threads.iter().find(|(_, own)| **own == number).map(|(thread, _)| (number, *thread))
    }

    /// Records an access of a thread to a page.
    pub(crate) fn touched(&self, thread: ThreadId, page: u64, access: Access, now_ns: u64, findings: &mut Findings) {
        let number = self.threads.get(&thread).copied().unwrap_or(u32::MAX);
        let access = if access == Access::Write { sim_check::Access::Write } else { sim_check::Access::Read };
        self.authority.touched(number, page, access, now_ns, findings);
    }
}
