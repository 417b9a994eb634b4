//! Addresses for a tree of functions: pure computation over sizes and PCI windows.
//!
//! From below, the ranges behind each bridge are put one after the other, the most aligned first, and make its two
//! windows. On the root bus ranges and windows are placed where the platform has room. Where there is too little, the
//! function that needs the largest range there is left out, and everything is laid out again, until the rest fits. The
//! functions that stay lie as if the others had never been there.
//!
//! Neighbours: `scan` finds the tree, `assign` writes the layout. Left out: I/O ports.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::ops::Range;
use pci_spec::bridge::MEMORY_WINDOW_ALIGN;

/// Registers that take 32 bits end below it, and so do bridges' non-prefetchable windows.
const LOW_END: u64 = 1 << 32;

/// Addresses at which a range may lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryType {
    /// Below 4 GiB.
    Low,
    /// Below 4 GiB, and in prefetchable windows too.
    LowPrefetchable,
    /// Anywhere; behind a bridge below 4 GiB.
    Any,
    /// Anywhere, and in prefetchable windows too.
    AnyPrefetchable,
}

impl MemoryType {
    const fn is_low(self) -> bool {
        matches!(self, Self::Low | Self::LowPrefetchable)
    }
}

/// Prefetchable windows a bridge can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prefetchable {
    /// The bridge has none.
    Absent,
    /// A window below 4 GiB.
    Low,
    /// A window anywhere.
    Any,
}

/// Kind of a bridge's window.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// The one for all memory.
    Memory,
    /// The one for memory that may be read ahead of time.
    Prefetchable,
}

impl Prefetchable {
    /// The window by which a bridge forwards a range of this type, and the window's own type. Ranges that could lie
    /// anywhere do not share a window with those that must lie below 4 GiB.
    const fn forwards(self, memory_type: MemoryType) -> (Kind, MemoryType) {
        match (self, memory_type) {
            (Self::Any, MemoryType::AnyPrefetchable) => (Kind::Prefetchable, MemoryType::AnyPrefetchable),
            (Self::Low, MemoryType::AnyPrefetchable | MemoryType::LowPrefetchable) => {
                (Kind::Prefetchable, MemoryType::LowPrefetchable)
            }
            _ => (Kind::Memory, MemoryType::Low),
        }
    }
}

/// A range that registers need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Need {
    /// The part of the function that the registers belong to.
    pub part: Part,
    /// The BAR.
    pub bar: u8,
    /// Addresses at which it may lie.
    pub memory_type: MemoryType,
    /// A power of two of at least a page.
    pub align: u64,
    /// A multiple of `align`, more than 0.
    pub bytes: u64,
}

/// Part of a function that is left out as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// The function's own BARs; with a bridge, everything behind it.
    Own,
    /// The BARs of the function's virtual functions.
    Virtual,
}

/// A function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// The number of the bridge right above it, smaller than its own; none on the root bus.
    pub parent: Option<usize>,
    /// The function's prefetchable window, for a bridge.
    pub bridge: Option<Prefetchable>,
    /// Ranges that it needs.
    pub needs: Vec<Need>,
}

/// A need's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placed {
    /// The need.
    pub need: Need,
    /// The range's first address.
    pub address: u64,
}

/// Ranges and bridge windows of a function.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// The function's ranges. Those of a part that is left out are not among them.
    pub ranges: Vec<Placed>,
    /// As a bridge: its window for all memory, and the prefetchable one. One without need is none.
    pub windows: [Option<Range<u64>>; 2],
}

/// The places of all functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// In the order of the functions.
    pub places: Vec<Place>,
    /// Functions that are left out, and parts of them. What is behind such a bridge is left out and not named.
    pub left_out: BTreeSet<(usize, Part)>,
}

/// Lays out `nodes` in `windows`, without those in `left_out`. The same every time.
#[must_use]
pub fn lay_out(nodes: &[Node], windows: &[Range<u64>], mut left_out: BTreeSet<(usize, Part)>) -> Layout {
    loop {
        let mut attempt = Attempt::new(nodes, &left_out);
        let victim = match attempt.gather().and_then(|()| attempt.place_root(windows)) {
            Ok(()) => {
                let places = attempt.places();
                return Layout { places, left_out };
            }
            Err(ranges) => attempt.victim(ranges),
        };
        // Each round leaves one more out, so this ends.
        if !victim.is_some_and(|victim| left_out.insert(victim)) {
            let all = (0..nodes.len()).map(|node| (node, Part::Own));
            return Layout { places: nodes.iter().map(|_| Place::default()).collect(), left_out: all.collect() };
        }
    }
}

/// Owner of a range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum What {
    /// A need of a function.
    Need { node: usize, number: usize },
    /// A bridge's window.
    BridgeWindow { node: usize, kind: Kind },
}

/// A range on a bus.
#[derive(Clone, Copy, Debug)]
struct Item {
    memory_type: MemoryType,
    align: u64,
    bytes: u64,
    what: What,
    /// The item's beginning: on the root bus an address, behind a bridge counted from the window's beginning.
    at: u64,
}

struct Attempt<'a> {
    nodes: &'a [Node],
    left_out: &'a BTreeSet<(usize, Part)>,
    gone: Vec<bool>,
    root: Vec<Item>,
    /// Items in each bridge's windows.
    inside: Vec<[Vec<Item>; 2]>,
}

impl<'a> Attempt<'a> {
    fn new(nodes: &'a [Node], left_out: &'a BTreeSet<(usize, Part)>) -> Self {
        let mut gone: Vec<bool> = Vec::with_capacity(nodes.len());
        for (number, node) in nodes.iter().enumerate() {
            // A bridge that does not come before the functions below it counts as none.
            let above = node.parent.is_some_and(|parent| gone.get(parent).copied().unwrap_or(true));
            gone.push(above || left_out.contains(&(number, Part::Own)));
        }
        let inside = nodes.iter().map(|_| [Vec::new(), Vec::new()]).collect();
        Self { nodes, left_out, gone, root: Vec::new(), inside }
    }

    /// Puts every range on the bus it lies on, from below, and packs the bridge windows. Fails with a window that has no size.
    fn gather(&mut self) -> Result<(), Vec<What>> {
        for (node, of) in self.nodes.iter().enumerate().rev() {
            if self.gone.get(node).copied().unwrap_or(true) {
                continue;
            }
            if let Some(prefetchable) = of.bridge {
                let high = if prefetchable == Prefetchable::Any {
                    MemoryType::AnyPrefetchable
                } else {
                    MemoryType::LowPrefetchable
                };
                for (kind, memory_type) in [(Kind::Memory, MemoryType::Low), (Kind::Prefetchable, high)] {
                    let what = What::BridgeWindow { node, kind };
                    let Some(items) = self.inside_mut(node, kind).filter(|items| !items.is_empty()) else { continue };
                    let (align, bytes) = pack(items).ok_or_else(|| Vec::from([what]))?;
                    self.push(of.parent, Item { memory_type, align, bytes, what, at: 0 });
                }
            }
            for (number, need) in of.needs.iter().enumerate() {
                if !self.left_out.contains(&(node, need.part)) {
                    let Need { memory_type, align, bytes, .. } = *need;
                    self.push(of.parent, Item { memory_type, align, bytes, what: What::Need { node, number }, at: 0 });
                }
            }
        }
        Ok(())
    }

    fn push(&mut self, parent: Option<usize>, item: Item) {
        let Some(bridge) = parent else { return self.root.push(item) };
        let forwards = self.nodes.get(bridge).and_then(|node| node.bridge).unwrap_or(Prefetchable::Absent);
        if let Some(items) = self.inside_mut(bridge, forwards.forwards(item.memory_type).0) {
            items.push(item);
        }
    }

    fn inside_mut(&mut self, node: usize, kind: Kind) -> Option<&mut Vec<Item>> {
        let [memory, prefetchable] = self.inside.get_mut(node)?;
        Some(if kind == Kind::Memory { memory } else { prefetchable })
    }

    /// Places the items on the root bus. Fails with the ranges that have or need the missing room.
    fn place_root(&mut self, windows: &[Range<u64>]) -> Result<(), Vec<What>> {
        let mut free = Free::new(windows);
        self.root.sort_by_key(order);
        for (before, item) in (0..).zip(self.root.clone()) {
            let Some(at) = free.take(&item) else {
                let is_low = item.memory_type.is_low();
                let placed = self.root.iter().take(before).filter(|other| !is_low || other.at < LOW_END);
                return Err(placed.chain([&item]).map(|item| item.what).collect());
            };
            if let Some(item) = self.root.get_mut(before) {
                item.at = at;
            }
        }
        Ok(())
    }

    /// The part to leave out when there is too little room for all of `ranges`: the one with the largest need, and of equal
    /// ones the last of the walk. So a function that needs too much takes nothing from those that need less.
    fn victim(&self, mut ranges: Vec<What>) -> Option<(usize, Part)> {
        let mut largest = None;
        while let Some(what) = ranges.pop() {
            match what {
                What::Need { node, number } => {
                    let need = self.nodes.get(node).and_then(|node| node.needs.get(number));
                    largest = largest.max(need.map(|need| (need.bytes, node, need.part)));
                }
                What::BridgeWindow { node, kind } => {
                    let [memory, prefetchable] = self.inside.get(node)?;
                    let items = if kind == Kind::Memory { memory } else { prefetchable };
                    ranges.extend(items.iter().map(|item| item.what));
                }
            }
        }
        largest.map(|(_, node, part)| (node, part))
    }

    /// The places of all functions, from above.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.nodes.iter().map(|_| Place::default()).collect();
        self.put(&self.root, 0, &mut places);
        for (node, inside) in self.inside.iter().enumerate() {
            let windows = places.get(node).map(|place| place.windows.clone()).unwrap_or_default();
            for (items, window) in inside.iter().zip(windows) {
                if let Some(window) = window {
                    self.put(items, window.start, &mut places);
                }
            }
        }
        for place in &mut places {
            place.ranges.sort_by_key(|placed| (placed.need.part, placed.need.bar));
        }
        places
    }

    /// Stores the addresses of all ranges on a bus that begins at `base`.
    fn put(&self, items: &[Item], base: u64, places: &mut [Place]) {
        for item in items {
            // The window around it has an end, so it has one.
            let address = base.saturating_add(item.at);
            match item.what {
                What::Need { node, number } => {
                    let need = self.nodes.get(node).and_then(|node| node.needs.get(number)).copied();
                    if let (Some(need), Some(place)) = (need, places.get_mut(node)) {
                        place.ranges.push(Placed { need, address });
                    }
                }
                What::BridgeWindow { node, kind } => {
                    if let Some(Place { windows: [memory, prefetchable], .. }) = places.get_mut(node) {
                        let window = if kind == Kind::Memory { memory } else { prefetchable };
                        *window = Some(address..address.saturating_add(item.bytes));
                    }
                }
            }
        }
    }
}

/// The most aligned first, so that little is lost between; then the largest, then the order of the walk.
fn order(item: &Item) -> (Reverse<u64>, Reverse<u64>, What) {
    (Reverse(item.align), Reverse(item.bytes), item.what)
}

/// Puts ranges one after the other. Returns the alignment and the size of a window around them; `None` when it has no end.
fn pack(items: &mut [Item]) -> Option<(u64, u64)> {
    items.sort_by_key(order);
    let align = items.first()?.align.max(MEMORY_WINDOW_ALIGN);
    let mut end = 0u64;
    for item in items {
        item.at = end.checked_next_multiple_of(item.align)?;
        end = item.at.checked_add(item.bytes)?;
    }
    Some((align, end.checked_next_multiple_of(MEMORY_WINDOW_ALIGN)?))
}

/// Room on the root bus.
struct Free {
    low: Vec<Range<u64>>,
    high: Vec<Range<u64>>,
}

impl Free {
    fn new(windows: &[Range<u64>]) -> Self {
        // Address 0 means a BAR that was not placed.
        let clip = |least: u64, most: u64| {
            let ranges = windows.iter().map(move |window| window.start.max(least)..window.end.min(most));
            ranges.filter(|range| range.start < range.end).collect()
        };
        Self { low: clip(MEMORY_WINDOW_ALIGN, LOW_END), high: clip(LOW_END, u64::MAX) }
    }

    /// Room for `item`: above 4 GiB where it may lie there, so that the rest has room below.
    fn take(&mut self, item: &Item) -> Option<u64> {
        let high = if item.memory_type.is_low() { None } else { take(&mut self.high, item.align, item.bytes) };
        high.or_else(|| take(&mut self.low, item.align, item.bytes))
    }
}

/// Takes the first room that is large enough. The rest on both sides of it stays free.
fn take(free: &mut Vec<Range<u64>>, align: u64, bytes: u64) -> Option<u64> {
    for (index, range) in free.iter().enumerate() {
        let Some(start) = range.start.checked_next_multiple_of(align) else { continue };
        let Some(end) = start.checked_add(bytes).filter(|end| *end <= range.end) else { continue };
        let sides = [range.start..start, end..range.end];
        free.splice(index..=index, sides.into_iter().filter(|side| side.start < side.end));
        return Some(start);
    }
    None
}
