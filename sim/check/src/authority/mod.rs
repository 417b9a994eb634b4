//! The law of access rights. From the specification (and, for pages that are handed out at run time, from the kernel
//! model's work and its beneficiary) the simulator declares: the pages that each component may read and write, the memory that each
//! controller's server has for the device, and the pages of each session's window. Every access is then compared
//! with that.
//!
//! A device may touch its server's pool, and otherwise only pages under a [`Authority::lease`]: a request in flight
//! that covers the page, in the direction in which the request moves data. A transfer after the answer is as wrong
//! as one to another session's page.
//!
//! A page is a physical address divided by 4096. Neighbours: none; this checker judges the IOMMU and the page tables of the
//! kernel model. Left out: executing as a right of its own (seL4 5.0.0 on x86_64 has none), and bytes
//! within a page.

mod rights;

use std::collections::BTreeMap;
use std::collections::hash_map::Entry::Occupied;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use rapidhash::RapidHashMap;

use self::rights::PageRights;
pub use self::rights::{Access, Rights};
use crate::{Checker, Findings, RequestId, Subject};

/// The checker of accesses.
#[derive(Debug, Default)]
pub struct Authority {
    components: BTreeMap<u32, PageRights>,
    pools: BTreeMap<u16, PageRights>,
    windows: BTreeMap<u32, PageRights>,
    leases: RapidHashMap<RequestId, Lease>,
    leased: RapidHashMap<Leased, Holders>,
    /// Page lists of ended leases, kept for the next ones.
    spare: Vec<Vec<u64>>,
}

#[derive(Debug)]
struct Lease {
    requester: u16,
    device: Access,
    pages: Vec<u64>,
}

/// A page as a device reaches it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Leased {
    requester: u16,
    page: u64,
}

/// Both fields in one word: a page's number has at most 52 bits.
impl Hash for Leased {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.page ^ u64::from(self.requester).rotate_right(16));
    }
}

/// The number of leases that a device has on a page.
#[derive(Clone, Copy, Debug, Default)]
struct Holders {
    read: u32,
    write: u32,
}

impl Holders {
    const fn of(&mut self, access: Access) -> &mut u32 {
        match access {
            Access::Read => &mut self.read,
            Access::Write => &mut self.write,
        }
    }
}

impl Authority {
    /// Creates a checker under which no access is allowed.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives a component rights to these pages, besides those that it has.
    pub fn may(&mut self, component: u32, pages: Range<u64>, rights: Rights) {
        self.components.entry(component).or_default().add(pages, rights);
    }

    /// Takes all rights to these pages from a component.
    pub fn may_not(&mut self, component: u32, pages: Range<u64>) {
        self.components.entry(component).or_default().remove(pages);
    }

    /// Checks a component's access to a page. Needed once per component, page and kind of access for as long as the component's
    /// translation of it stays the same.
    pub fn touched(&self, component: u32, page: u64, access: Access, now_ns: u64, findings: &mut Findings) {
        let rights = self.components.get(&component).map_or(Rights::NONE, |pages| pages.of(page));
        if !rights.allow(access) {
            findings.add(now_ns, Checker::Authority, Subject::Component(component), || {
                let address = page << 12;
                format!("it did a {access} of page {address:#x}, and should have been able {}", ability(rights))
            });
        }
    }

    /// Gives a device rights to these pages of its server's own memory (queues, PRP lists) at any time.
    pub fn pool(&mut self, requester: u16, pages: Range<u64>, rights: Rights) {
        self.pools.entry(requester).or_default().add(pages, rights);
    }

    /// Takes pages of its server's memory from a device.
    pub fn pool_gone(&mut self, requester: u16, pages: Range<u64>) {
        self.pools.entry(requester).or_default().remove(pages);
    }

    /// Makes pages part of a session's window. Devices have these rights to them, for the session's requests.
    pub fn window(&mut self, session: u32, pages: Range<u64>, rights: Rights) {
        self.windows.entry(session).or_default().add(pages, rights);
    }

    /// Removes pages from a session's window.
    pub fn window_gone(&mut self, session: u32, pages: Range<u64>) {
        self.windows.entry(session).or_default().remove(pages);
    }

    /// Lets a device access these pages for a request in flight. They must belong to the session's window. `device` is the
    /// device's access: a request to read from the disk is an [`Access::Write`].
    pub fn lease(
        &mut self,
        request: RequestId,
        requester: u16,
        pages: &[u64],
        device: Access,
        now_ns: u64,
        findings: &mut Findings,
    ) {
        let window = self.windows.get(&request.session);
        let foreign = |page: &&u64| !window.is_some_and(|window| window.of(**page).allow(device));
        if let Some(page) = pages.iter().find(foreign) {
            findings.add(now_ns, Checker::Authority, Subject::Session(request.session), || {
                let (number, address) = (request.number, page << 12);
                format!(
                    "request {number} leases page {address:#x} for a device's {device}, which its window should allow"
                )
            });
        }
        for &page in pages {
            *self.leased.entry(Leased { requester, page }).or_default().of(device) += 1;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(pages);
        if let Some(first) = self.leases.insert(request, Lease { requester, device, pages: kept }) {
            findings.add(now_ns, Checker::Authority, Subject::Session(request.session), || {
                format!("request {} takes a second lease, and should have released the first", request.number)
            });
            self.end(first);
        }
    }

    /// Ends the request's lease. A request that has none (a flush) may be released as well.
    pub fn release(&mut self, request: RequestId) {
        if let Some(lease) = self.leases.remove(&request) {
            self.end(lease);
        }
    }

    /// Checks a device's transfer from or to a page.
    pub fn transfer(&mut self, requester: u16, page: u64, access: Access, now_ns: u64, findings: &mut Findings) {
        let pool = self.pools.get(&requester).map_or(Rights::NONE, |pages| pages.of(page));
        if pool.allow(access) {
            return;
        }
        let mut leased = self.leased.get(&Leased { requester, page }).copied().unwrap_or_default();
        if *leased.of(access) == 0 {
            findings.add(now_ns, Checker::Authority, Subject::Requester(requester), || {
                format!("it did a {access} of page {:#x}, {}", page << 12, self.why_not(page, leased, pool))
            });
        }
    }

    /// Returns the number of leases.
    #[must_use]
    pub fn leases(&self) -> usize {
        self.leases.len()
    }

    fn end(&mut self, lease: Lease) {
        let Lease { requester, device, mut pages } = lease;
        for page in pages.drain(..) {
            if let Occupied(mut holders) = self.leased.entry(Leased { requester, page }) {
                *holders.get_mut().of(device) -= 1;
                if holders.get().read == 0 && holders.get().write == 0 {
                    holders.remove();
                }
            }
        }
        self.spare.push(pages);
    }

    fn why_not(&self, page: u64, leased: Holders, pool: Rights) -> String {
        let owner = self.windows.iter().find(|(_, window)| window.of(page) != Rights::NONE);
        match (leased.read + leased.write, owner) {
            (1.., _) => "which a request in flight covers for the other direction only".into(),
            (0, Some((session, _))) => {
                format!("which is in the window of session {session} without a request in flight")
            }
            (0, None) if pool != Rights::NONE => format!("which it should have been able {}", ability(pool)),
            (0, None) => "which is neither in its server's pool nor in any window".into(),
        }
    }
}

const fn ability(rights: Rights) -> &'static str {
    match rights {
        Rights { read: false, write: false } => "to do nothing there",
        Rights { read: true, write: false } => "to read only",
        Rights { read: false, write: true } => "to write only",
        Rights { read: true, write: true } => "to read and write",
    }
}

#[cfg(test)]
mod tests;
