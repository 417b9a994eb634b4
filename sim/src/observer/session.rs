//! A session as seen from outside: the requests that its client published on the ring, the server's answers, and the content
//! of the window at these moments. The client's work is judged by this alone, never by reports of either side.

use super::numbers;
use crate::translations::Translations;
use blk_api::Status;
use blk_api::request::{Entry, MAX_SEGMENTS, Opcode};
use blk_api::ring::{Completed, PRODUCED, SLOTS};
use capdl::scenario::{Scenario, Tenant, Workload};
use platform::{PAGE_BITS, PAGE_SIZE, Paddr, Region, Vaddr};
use rapidhash::RapidHashMap;
use sim_check::{BlockRange, Hash, hash_block};
use sim_kernel::{Access, Kernel, ThreadId};
use sim_page::SharedPage;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ops::Range;
use zerocopy::FromBytes;

/// Whether a session's client follows the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// The client follows the protocol: a published request stays as it is, and so does its window until the answer.
    Follows,
    /// The client attacks: its published requests cannot be relied on.
    Attacks,
}

/// A session.
pub(crate) struct Session {
    /// The tenant's name, and its component's.
    pub(crate) tenant: String,
    /// The controller's number in the scenario.
    pub(crate) controller: u32,
    /// The namespace.
    pub(crate) nsid: u32,
    /// The number, as a controller's, of the virtual function that its client drives.
    pub(crate) function: Option<u32>,
    /// The requester id of its controller's or its function's transfers, from its component's start on.
    pub(crate) requester: Option<u16>,
    /// Whether the session's requests can be judged.
    pub(crate) trust: Trust,
    /// The session goes on when its controller is back.
    waits_for_controller: bool,
    block_bytes: usize,
    extents: Vec<Extent>,
    entries: u32,
    /// The addresses of its window and the client's ring in its VSpace, from its component's start on.
    places: Option<Places>,
    asked: u32,
    answered: u32,
    /// By the client's number for a request. Looked up, never iterated: its order means nothing.
    in_flight: RapidHashMap<u64, FlightId>,
    flights: Flights,
    next_number: u64,
}

struct Places {
    thread: ThreadId,
    window: Vaddr,
    translations: Translations,
}

/// First block of the session's own numbering, first block on the namespace, blocks.
type Extent = (u64, u64, u64);

/// The place of a request in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FlightId(usize);

/// The requests in flight. They are large, so they stay in their places.
#[derive(Default)]
struct Flights {
    all: Vec<Flight>,
    free: Vec<FlightId>,
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct Flight {
    /// The request's number for the checkers; its parts have the numbers after it.
    pub(crate) number: u64,
    /// When it was submitted.
    pub(crate) asked_ns: u64,
    /// The request's operation.
    pub(crate) opcode: Opcode,
    /// The request's blocks on the namespace, one part for each extent that it touches.
    pub(crate) ranges: Ranges,
    /// The segments of its data in the window: offset and bytes.
    pub(crate) segments: heapless::Vec<(u32, u32), MAX_SEGMENTS>,
}

impl Flight {
    /// Returns the bytes of data that it moves.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|(_, len)| u64::from(*len)).sum()
    }
}

/// The parts of a request on the namespace. A request that touches more extents than fit here is ignored.
pub(crate) type Ranges = heapless::Vec<BlockRange, 8>;

/// An observation on a session's rings.
pub(crate) enum Sight {
    /// The client published a request.
    Asked(FlightId),
    /// The client published the request once more, since it had no answer.
    AskedAgain(FlightId),
    /// The server answered the request; [`Session::end`] must end it.
    Answered(FlightId, Completed),
    /// The server's answer names no request in flight.
    AnsweredNothing(u64),
}

/// Distance between the numbers of requests; more than the parts that a request can have.
pub(crate) const PARTS: u64 = 1 << 16;

impl Session {
    pub(crate) fn new(scenario: &Scenario, tenant: &Tenant) -> Self {
        let controller = scenario.controller(&tenant.controller).map_or(0, |(index, _)| index as u32);
        let mut own = 0;
        let mut extents = Vec::new();
        for extent in &tenant.extents {
            extents.push((own, extent.first, extent.blocks));
            own += extent.blocks;
        }
        Self {
            tenant: tenant.name.clone(),
            controller,
            nsid: tenant.namespace,
            function: numbers::number_of(scenario, tenant),
            requester: None,
            trust: match tenant.workload {
                Workload::Flood(_) | Workload::Hostile(_) => Trust::Attacks,
                Workload::Own(_) if scenario.expect.attackers.contains(&tenant.name) => Trust::Attacks,
                Workload::Bench(_) | Workload::Digest(_) | Workload::Signal(_) | Workload::Own(_) => Trust::Follows,
            },
            waits_for_controller: tenant.waits,
            block_bytes: scenario.namespace(tenant).map_or(512, |namespace| namespace.block_bytes as usize),
            extents,
            entries: tenant.ring_entries,
            places: None,
            asked: 0,
            answered: 0,
            in_flight: RapidHashMap::default(),
            flights: Flights::default(),
            next_number: 0,
        }
    }

    /// Returns the number of the controller that reaches its window: its own function's, or the one that its server drives.
    pub(crate) fn device(&self) -> u32 {
        self.function.unwrap_or(self.controller)
    }

    /// Returns the bytes of a block.
    pub(crate) const fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Returns the address of its window in the VSpace of its client, once that has run.
    pub(crate) fn window(&self) -> Option<Vaddr> {
        self.places.as_ref().map(|places| places.window)
    }

    /// Records the start of its client: its thread, its window, and the requester id of its controller's transfers.
    pub(crate) fn started(&mut self, thread: ThreadId, window: &Region, requester: Option<u16>) {
        let translations = Translations::new(window.vaddr, window.len as usize);
        self.places = Some(Places { thread, window: window.vaddr, translations });
        self.requester = requester;
    }

    /// Records a restart of its client. Returns the requests of the previous incarnation, which get no answer any more.
    pub(crate) fn begin_again(&mut self) -> Vec<Flight> {
        let mut places: Vec<FlightId> = self.in_flight.drain().map(|(_, id)| id).collect();
        places.sort_unstable_by_key(|id| id.0);
        self.flights.free.extend(&places);
        places.into_iter().filter_map(|id| self.flights.all.get(id.0).cloned()).collect()
    }

    /// Whether a request waits for its answer.
    pub(crate) fn waits(&self) -> bool {
        !self.in_flight.is_empty()
    }

    /// Whether the session is over with an answer of this status: its client asks for nothing more and ends its other requests itself.
    pub(crate) const fn is_ended_by(&self, status: Option<Status>) -> bool {
        match status {
            Some(Status::Closed) => true,
            Some(Status::DeviceGone) => !self.waits_for_controller,
            _ => false,
        }
    }

    /// Returns a request in flight.
    pub(crate) fn flight(&self, id: FlightId) -> Option<&Flight> {
        self.flights.all.get(id.0)
    }

    /// Frees the place of a request whose reply was published.
    pub(crate) fn end(&mut self, id: FlightId) {
        self.flights.free.push(id);
    }

    /// Records that the client published its index `value` at `now_ns`. `slot` reads a slot of its ring. Observations go
    /// into `sights`.
    pub(crate) fn client_published(
        &mut self,
        value: u32,
        now_ns: u64,
        mut slot: impl FnMut(usize, &mut [u8]),
        sights: &mut Vec<Sight>,
    ) {
        if value == 0 {
            // A new ring begins; it may repeat requests that are still in flight.
            self.asked = 0;
            return;
        }
        if value.wrapping_sub(self.asked) > self.entries {
            self.trust = Trust::Attacks;
            return;
        }
        while self.asked != value {
            let mut bytes = [0; size_of::<Entry>()];
            slot(self.slot_at(self.asked, size_of::<Entry>()), &mut bytes);
            self.asked = self.asked.wrapping_add(1);
            let Ok(entry) = Entry::read_from_bytes(&bytes) else { continue };
            match self.in_flight.entry(entry.user_data) {
                Occupied(place) => sights.push(Sight::AskedAgain(*place.get())),
                Vacant(place) => {
                    if let Some(id) = self.flights.begin(&entry, &self.extents, self.next_number, now_ns) {
                        self.next_number += PARTS;
                        sights.push(Sight::Asked(*place.insert(id)));
                    }
                }
            }
        }
    }

    /// Records that the server published its index `value`, as [`Session::client_published`] does.
    pub(crate) fn server_published(
        &mut self,
        value: u32,
        mut slot: impl FnMut(usize, &mut [u8]),
        sights: &mut Vec<Sight>,
    ) {
        if value == 0 {
            self.answered = 0;
            return;
        }
        while self.answered != value && sights.len() < self.entries as usize {
            let mut bytes = [0; size_of::<Completed>()];
            slot(self.slot_at(self.answered, size_of::<Completed>()), &mut bytes);
            self.answered = self.answered.wrapping_add(1);
            let Ok(completed) = Completed::read_from_bytes(&bytes) else { continue };
            sights.push(match self.in_flight.remove(&completed.user_data) {
                Some(id) => Sight::Answered(id, completed),
                None => Sight::AnsweredNothing(completed.user_data),
            });
        }
    }

    const fn slot_at(&self, index: u32, bytes: usize) -> usize {
        SLOTS + (index & self.entries.wrapping_sub(1)) as usize * bytes
    }

    /// Puts the hashes of the request's blocks, as they lie in the window, into `hashes`.
    pub(crate) fn hash(&self, flight: &Flight, kernel: &Kernel, hashes: &mut Vec<Hash>) {
        hashes.clear();
        let Some(places) = &self.places else { return };
        let mut gathered = Vec::new();
        for (offset, len) in &flight.segments {
            let (mut start, end) = (*offset, offset.saturating_add(*len));
            while start < end {
                let block = places.in_page(kernel, start, self.block_bytes);
                hashes.push(match block {
                    Some((page, within)) if within.len() == PAGE_SIZE => Hash(page.digest(|bytes| hash_block(bytes).0)),
                    Some((page, within)) => hash_block(&page.bytes()[within]),
                    None => {
                        gathered.resize(self.block_bytes, 0);
                        places.read(kernel, start, &mut gathered);
                        hash_block(&gathered)
                    }
                });
                start = start.saturating_add(self.block_bytes as u32);
            }
        }
    }

    /// Puts the pages of the window that the request names into `pages`.
    pub(crate) fn pages(&self, flight: &Flight, kernel: &Kernel, pages: &mut Vec<u64>) {
        pages.clear();
        let Some(places) = &self.places else { return };
        for (offset, len) in &flight.segments {
            let last = offset.saturating_add(len.saturating_sub(1));
            for page in offset >> PAGE_BITS..=last >> PAGE_BITS {
                let at = places.at(kernel, page << PAGE_BITS);
                pages.extend(at.map(|at| at.bits() >> PAGE_BITS));
            }
        }
    }
}

impl Flights {
    /// Puts a request with this number into a free place. Returns `None` if the entry is invalid, or its blocks are not all
    /// the session's.
    fn begin(&mut self, entry: &Entry, extents: &[Extent], number: u64, asked_ns: u64) -> Option<FlightId> {
        let opcode = Opcode::from_raw(entry.opcode)?;
        let ranges = match opcode.right() {
            None => Ranges::new(),
            Some(_) => locate(extents, entry.lba, u64::from(entry.blocks))?,
        };
        let segments = entry.segments.iter().take(usize::from(entry.segment_count));
        let segments = segments.map(|segment| (segment.offset, segment.len)).collect();
        let flight = Flight { number, asked_ns, opcode, ranges, segments };
        let id = self.free.pop().unwrap_or(FlightId(self.all.len()));
        match self.all.get_mut(id.0) {
            Some(place) => *place = flight,
            None => self.all.push(flight),
        }
        Some(id)
    }
}

/// Returns the places on the namespace of blocks in the session's own numbering; `None` if not all of them have one.
fn locate(extents: &[Extent], mut first: u64, mut count: u64) -> Option<Ranges> {
    let mut ranges = Ranges::new();
    for (own, on_namespace, blocks) in extents {
        let Some(inside) = first.checked_sub(*own).filter(|inside| inside < blocks) else { continue };
        let part = count.min(blocks - inside);
        if part > 0 {
            ranges.push(BlockRange { first: on_namespace + inside, count: part }).ok()?;
        }
        (first, count) = (first + part, count - part);
    }
    (count == 0).then_some(ranges)
}

impl Places {
    fn at(&self, kernel: &Kernel, offset: u32) -> Option<Paddr> {
        let vaddr = self.window.checked_add(u64::from(offset))?;
        let page = (self.window.page_offset() + offset as usize) / PAGE_SIZE;
        let frame = self.translations.known(kernel, page, Access::Read).or_else(|| {
            let first = Vaddr::new(vaddr.bits() >> PAGE_BITS << PAGE_BITS);
            let frame = kernel.translate(self.thread, first, Access::Read).ok()?;
            self.translations.learn(kernel, page, Access::Read, frame);
            Some(frame)
        })?;
        Some(Paddr::new(frame.bits() + vaddr.page_offset() as u64))
    }

    /// Returns the page that holds these bytes, and their place in it; `None` if they are not in one page.
    fn in_page<'k>(&self, kernel: &'k Kernel, offset: u32, bytes: usize) -> Option<(&'k SharedPage, Range<usize>)> {
        let inside = offset as usize % PAGE_SIZE;
        let page = kernel.memory().shared(self.at(kernel, offset)?)?;
        Some((page, inside..inside + bytes)).filter(|(_, within)| within.end <= PAGE_SIZE)
    }

    /// Reads the window. Bytes that are not mapped stay as they are in `bytes`.
    fn read(&self, kernel: &Kernel, offset: u32, bytes: &mut [u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let at = offset.wrapping_add(done as u32);
            let piece = (bytes.len() - done).min(PAGE_SIZE - at as usize % PAGE_SIZE);
            if let Some(paddr) = self.at(kernel, at) {
                let _ = kernel.memory().read(paddr, &mut bytes[done..done + piece]);
            }
            done += piece;
        }
    }
}

/// Offset of the index whose write publishes, in either region.
pub(crate) const PUBLISHES: usize = PRODUCED;
