//! The way of requests and accesses through the tree, from the bridges' registers. Computed again from the root down after
//! each change; the results (`view`) are looked up in between.
//!
//! Left out: decoding of I/O ports. A function's bus number is that of the bus it is on now; hardware remembers the one
//! of the last configuration write that reached it (PCIe 2.2.6.2), which differs while buses are renumbered.

use crate::function::{Function, Kind, Reach, Route};
use crate::ids::{BusId, FunctionId};
use crate::machine::Device;
use crate::port::{self, PortKind};
use crate::record::Violation;
use crate::tree::Tree;
use crate::view::{Claim, Decoded, Overlap, Up, View};
use core::ops::Range;
use pci_spec::Bdf;

/// A range that a function on a bus answers.
#[derive(Clone, Debug)]
struct Answer {
    range: Range<u64>,
    function: FunctionId,
    /// The BAR and its address; `None` for a bridge's window.
    bar: Option<(u8, u64)>,
}

impl<D: Device> Tree<D> {
    /// Computes the whole view again.
    pub(crate) fn rebuild(&mut self) {
        self.claim_buses();
        self.decoded.clear();
        self.last_hit = 0;
        // A bus comes after the bus above it.
        for index in 0..self.buses.len() {
            let bus = BusId(index as u32);
            if let Some(view) = self.view_of(bus) {
                self.set_view(bus, view);
                self.route_functions(bus);
            }
        }
        let mut overlaps = Vec::new();
        for index in 0..self.buses.len() {
            self.decode_bus(BusId(index as u32), &mut overlaps);
        }
        self.decoded.sort_by_key(|decoded| decoded.start);
        self.note_overlaps(overlaps);
    }

    /// Determines the bus that receives an access to each bus number: from the root down, each bridge takes its buses
    /// out of those of the bus above it.
    fn claim_buses(&mut self) {
        self.claims = [Claim { bus: Some(BusId::ROOT), ambiguous: false }; 256];
        for index in 1..self.buses.len() {
            let bus = BusId(index as u32);
            let Some((above, bridge)) = self.bridge_of(bus) else { continue };
            let Kind::Port(port) = &bridge.kind else { continue };
            let numbers = port::bus_numbers(&bridge.core.space);
            if numbers.secondary() == 0 || !port.is_open(&bridge.core.space) {
                continue;
            }
            let taken = self.bridge_of(above).map(|(_, bridge)| port::bus_numbers(&bridge.core.space).secondary());
            for number in numbers.secondary()..=numbers.subordinate() {
                // The bridge above turns accesses to its own lower bus number into accesses there, whatever hangs from
                // it.
                let owner = self.claims.get(usize::from(number)).and_then(|claim| claim.bus);
                let ambiguous = owner.is_some_and(|owner| self.is_below(owner, above));
                if let Some(claim) = self.claims.get_mut(usize::from(number)).filter(|_| taken != Some(number)) {
                    if owner == Some(above) {
                        claim.bus = Some(bus);
                    } else if ambiguous {
                        claim.ambiguous = true;
                    }
                }
            }
        }
    }

    /// Whether a bus lies somewhere below another.
    fn is_below(&self, bus: BusId, other: BusId) -> bool {
        core::iter::successors(self.buses.above(bus), |above| self.buses.above(*above)).any(|above| above == other)
    }

    fn view_of(&self, bus: BusId) -> Option<View> {
        if bus == BusId::ROOT {
            let windows = self.windows.clone();
            return Some(View { number: Some(0), up: Up::Open, rename: None, windows });
        }
        let (above, bridge) = self.bridge_of(bus)?;
        let Kind::Port(port) = &bridge.kind else { return None };
        let (core, above) = (&bridge.core, &self.buses.get(above)?.view);
        let secondary = port::bus_numbers(&core.space).secondary();
        let claimed = self.claims.get(usize::from(secondary)).is_some_and(|claim| claim.bus == Some(bus));
        let open = port.is_open(&core.space) && core.is_on();
        let up = match above.up {
            Up::Closed => Up::Closed,
            _ if !open => Up::Closed,
            Up::Open if core.is_master() => Up::Open,
            _ => Up::NotMaster,
        };
        let own_name = match port.kind {
            PortKind::ExpressToPci => Some(u16::from(secondary) << 8),
            PortKind::Conventional => Some(core.route.bdf.to_raw()),
            PortKind::Root(_) | PortKind::SwitchUpstream | PortKind::SwitchDownstream(_) => None,
        };
        let forwards = open && core.decodes_memory();
        let windows = if forwards { intersections(&above.windows, port::windows(&core.space)) } else { Vec::new() };
        Some(View {
            number: claimed.then_some(secondary),
            up,
            // The last bridge on the way up that renames determines the requester id.
            rename: above.rename.or(own_name),
            windows,
        })
    }

    fn set_view(&mut self, bus: BusId, view: View) {
        if let Some(bus) = self.buses.get_mut(bus) {
            bus.view = view;
        }
    }

    fn route_functions(&mut self, bus: BusId) {
        let Some(bus) = self.buses.get(bus) else { return };
        let number = bus.view.number.unwrap_or(0);
        for id in bus.functions() {
            let enabled = self.is_enabled(id);
            let Some(function) = self.functions.get_mut(id) else { continue };
            let core = &mut function.core;
            let bdf = Bdf::from_raw(u16::from(number) << 8 | u16::from(core.devfn));
            let reach = match bus.view.up {
                Up::Closed => Reach::Gone,
                _ if !enabled => Reach::Gone,
                Up::Open if core.is_master() => Reach::Root,
                _ => Reach::NotMaster,
            };
            core.route = Route { bdf, requester_id: bus.view.rename.unwrap_or(bdf.to_raw()), reach };
        }
    }

    /// Whether a function exists now: virtual ones must be enabled.
    pub(crate) fn is_enabled(&self, id: FunctionId) -> bool {
        let Some(function) = self.functions.get(id) else { return false };
        let Some((physical, number)) = function.core.virtual_of else { return true };
        let physical = self.functions.get(physical);
        physical.is_some_and(|physical| number < physical.core.enabled_virtual_functions())
    }

    /// Decodes the BARs on a bus, and compares the ranges that are answered there.
    fn decode_bus(&mut self, id: BusId, overlaps: &mut Vec<Overlap>) {
        let Some(bus) = self.buses.get(id) else { return };
        let mut answers = Vec::new();
        for function in bus.functions().filter_map(|id| self.functions.get(id)) {
            self.answers_of(function, &mut answers);
        }
        let mut pieces: Vec<(Range<u64>, Answer)> = Vec::new();
        for answer in answers {
            let parts = intersections(&bus.view.windows, [answer.range.clone()]);
            pieces.extend(parts.into_iter().map(|part| (part, answer.clone())));
        }
        pieces.sort_by_key(|(part, answer)| (part.start, answer.function, answer.bar));
        for (part, answer) in &pieces {
            let Some((bar, base)) = answer.bar else { continue };
            let (start, last) = (part.start, part.end - 1);
            self.decoded.push(Decoded { start, last, base, function: answer.function, bar });
        }
        compare(&pieces, overlaps);
    }

    /// Records the overlaps that were not there before.
    fn note_overlaps(&mut self, overlaps: Vec<Overlap>) {
        for overlap in overlaps.iter().filter(|overlap| !self.overlaps.contains(overlap)) {
            let Overlap { function, other, address } = *overlap;
            let bdf = self.functions.get(function).map_or(Bdf::default(), |function| function.core.route.bdf);
            self.outer.batch.violation(function, bdf, Violation::Overlap { other, address });
        }
        self.overlaps = overlaps;
    }

    fn answers_of(&self, function: &Function<D>, answers: &mut Vec<Answer>) {
        let core = &function.core;
        if !core.is_there() {
            return;
        }
        if core.decodes_memory() {
            for (index, bar) in core.bars.iter().enumerate() {
                if let Some(bar) = bar.filter(|bar| bar.kind != pci_spec::BarKind::Io) {
                    let base = core.bar_address(index);
                    answers.push(Answer {
                        range: base..base.saturating_add(bar.bytes),
                        function: core.id,
                        bar: Some((index as u8, base)),
                    });
                }
            }
            if let Kind::Port(_) = function.kind {
                let windows = port::windows(&core.space);
                answers.extend(windows.map(|range| Answer { range, function: core.id, bar: None }));
            }
        }
        self.virtual_answers(function, answers);
    }

    /// Adds virtual functions' BARs, which are enabled by their physical function.
    fn virtual_answers(&self, function: &Function<D>, answers: &mut Vec<Answer>) {
        const VF_MEMORY_SPACE: u32 = 1 << 3;
        let core = &function.core;
        let Some(sriov) = &core.sriov else { return };
        if core.space.read(crate::layout::SRIOV_CONTROL) & VF_MEMORY_SPACE == 0 {
            return;
        }
        let enabled = sriov.functions.iter().take(usize::from(core.enabled_virtual_functions()));
        for (number, id) in (0..).zip(enabled) {
            let on = self.functions.get(*id).is_some_and(|function| function.core.is_on());
            for (index, bar) in sriov.config.bars.iter().enumerate().filter(|_| on) {
                let Some(bar) = bar else { continue };
                let base = core.virtual_bar_address(index, *bar, number);
                answers.push(Answer {
                    range: base..base.saturating_add(bar.bytes),
                    function: *id,
                    bar: Some((index as u8, base)),
                });
            }
        }
    }
}

/// Finds overlaps in pieces sorted by their start. A bridge's own two windows may overlap.
fn compare(pieces: &[(Range<u64>, Answer)], overlaps: &mut Vec<Overlap>) {
    let mut furthest: Option<&(Range<u64>, Answer)> = None;
    for piece in pieces {
        let (part, answer) = piece;
        if let Some((before, first)) = furthest.filter(|(before, _)| part.start < before.end) {
            let both_windows = first.bar.is_none() && answer.bar.is_none() && first.function == answer.function;
            if !both_windows {
                overlaps.push(Overlap { function: first.function, other: answer.function, address: part.start });
            }
            if part.end > before.end {
                furthest = Some(piece);
            }
        } else {
            furthest = Some(piece);
        }
    }
}

/// Returns the parts of `ranges` that lie in `windows`, each part once.
fn intersections(windows: &[Range<u64>], ranges: impl IntoIterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut parts: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        for window in windows {
            let part = range.start.max(window.start)..range.end.min(window.end);
            if part.start < part.end {
                parts.push(part);
            }
        }
    }
    parts.sort_by_key(|part| part.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for part in parts {
        match merged.last_mut() {
            Some(last) if part.start <= last.end => last.end = last.end.max(part.end),
            _ => merged.push(part),
        }
    }
    merged
}
