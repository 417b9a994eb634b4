//! The events of traces, collected from all rings while a system runs.
//!
//! A ring is as long as its pages, so whoever wants all events collects them often. Events that were overwritten before are counted as
//! lost, and a mark stands in their place.

use super::physical::{Mirror, Physical};
use super::sample::{Places, RingPlace};
use anyhow::Result;
use blk_api::trace::Event;
use capdl::Scenario;
use platform::PAGE_SIZE;
use report::TelemetryPages;
use std::collections::VecDeque;
use telemetry::ring::{EVENT_BYTES, EVENTS, Head, Reader};
use zerocopy::IntoBytes as _;

/// Events of a ring that are kept, the newest: a file for Perfetto has some 80 MB of them.
const KEPT: usize = 1 << 17;

/// The events of a system.
#[derive(Clone, Debug, Default)]
pub struct Events {
    places: Places,
    /// Reports that the places are of.
    reported: usize,
    pub(super) rings: Vec<Ring>,
}

/// The events of one ring.
#[derive(Clone, Debug)]
pub(super) struct Ring {
    pub(super) place: RingPlace,
    reader: Reader,
    /// The ring was found written to.
    began: bool,
    pub(super) events: VecDeque<Entry>,
    /// Events that were kept and given up for newer ones.
    given_up: u64,
    pub(super) ticks_per_second: u64,
    /// The component writes some events.
    pub(super) is_on: bool,
}

/// An event, or a mark that some are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Entry {
    /// An event.
    Event(Event),
    /// Events before the next one were lost.
    Lost,
}

impl Events {
    /// No event yet, of a system whose telemetry is at these places.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        let ring = |place| {
            let events = VecDeque::new();
            Ring {
                place,
                reader: Reader::default(),
                began: false,
                events,
                given_up: 0,
                ticks_per_second: 0,
                is_on: false,
            }
        };
        Self { places: places.clone(), reported: 0, rings: places.rings().into_iter().map(ring).collect() }
    }

    /// Takes the places of the telemetry as far as the root task has reported them, and collects the events since the last time.
    pub fn follow(&mut self, scenario: &Scenario, reported: &[TelemetryPages], memory: &dyn Physical) {
        if reported.len() != self.reported {
            let now = Self::new(&Places::new(scenario, reported));
            if self.rings.is_empty() {
                self.rings = now.rings;
            }
            (self.places, self.reported) = (now.places, reported.len());
        }
        self.collect(memory);
    }

    /// Collects the events since the last time, with those that were already there at the first time.
    pub fn collect(&mut self, memory: &dyn Physical) {
        let Self { places, rings, .. } = self;
        for ring in rings {
            ring.collect(|place, offset, bytes| places.copy(memory, place, offset, bytes));
        }
    }

    /// Where the telemetry is.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// Events that were overwritten before they were collected.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.rings.iter().map(|ring| ring.reader.lost).sum()
    }

    /// Events that were collected and given up, because there were too many.
    #[must_use]
    pub fn given_up(&self) -> u64 {
        self.rings.iter().map(|ring| ring.given_up).sum()
    }
}

impl Ring {
    fn collect(&mut self, copy: impl Fn(&RingPlace, usize, &mut [u8]) -> Option<()>) {
        let Self { place, reader, began, events, given_up, ticks_per_second, is_on } = self;
        let copy = |offset: usize, bytes: &mut [u8]| copy(place, offset, bytes);
        if !*began {
            // What was overwritten before the first look is not lost: nobody wanted it.
            let Some(head) = head(copy) else { return };
            if head.ticks_per_second == 0 {
                return;
            }
            (*began, *reader) = (true, Reader::at_oldest(&head, place.pages));
        }
        let lost = reader.lost;
        let first = events.len();
        let read = reader.read(place.pages, copy, |event| events.push_back(Entry::Event(event)));
        if reader.lost > lost && first <= events.len() {
            events.insert(first, Entry::Lost);
        }
        if let Some(head) = read {
            (*ticks_per_second, *is_on) = (head.ticks_per_second, head.switched_on != 0);
        }
        let too_many = events.len().saturating_sub(KEPT);
        events.drain(..too_many);
        *given_up = given_up.saturating_add(too_many as u64);
    }
}

fn head(copy: impl Fn(usize, &mut [u8]) -> Option<()>) -> Option<Head> {
    let mut head = Head::default();
    copy(0, head.as_mut_bytes())?;
    Some(head)
}

/// Copies the rings of a system without a file of its memory into one, as the components write theirs.
#[derive(Debug, Default)]
pub struct Copied {
    rings: Vec<(RingPlace, Reader, u64)>,
}

impl Copied {
    /// Rings of which nothing was copied.
    #[must_use]
    pub fn new(places: &Places) -> Self {
        Self { rings: places.rings().into_iter().map(|place| (place, Reader::default(), 0)).collect() }
    }

    /// Copies the events since the last time.
    ///
    /// # Errors
    /// The disk is full.
    pub fn go_on(&mut self, places: &Places, memory: &dyn Physical, mirror: &Mirror) -> Result<()> {
        for (place, reader, written) in &mut self.rings {
            let mut events = Vec::new();
            let copy = |offset: usize, bytes: &mut [u8]| places.copy(memory, place, offset, bytes);
            let lost = reader.lost;
            let Some(head) = reader.read(place.pages, copy, |event: Event| events.push(event)) else { continue };
            *written = written.saturating_add(reader.lost - lost);
            let page = |offset: usize| {
                let page = places.address_of(&place.component, place.first + offset / PAGE_SIZE);
                page.map_or(0, |page| page.saturating_add((offset % PAGE_SIZE) as u64))
            };
            for event in &events {
                let slot = *written % u64::from(telemetry::ring::events(place.pages)).max(1);
                mirror.write(page(EVENTS + slot as usize * EVENT_BYTES), event.as_bytes())?;
                *written = written.saturating_add(1);
                mirror.write(page(0), Head { written: *written, ..head }.as_bytes())?;
            }
            if events.is_empty() {
                // The component may have switched kinds on or off.
                mirror.write(page(0), Head { written: *written, ..head }.as_bytes())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blk_api::trace::What;
    use platform::Memory as _;
    use platform::fake::Ram;
    use telemetry::ring::Writer;

    #[test]
    fn lost_events_leave_a_mark() {
        let ram = Ram::new(PAGE_SIZE);
        let mut writer = Writer::new(&ram, 0, 1, 1_000, 7).unwrap();
        let place = RingPlace { component: "a".into(), tenant: "a".into(), server: None, first: 0, pages: 1 };
        let reader = Reader::default();
        let mut ring = Ring {
            place,
            reader,
            began: false,
            events: VecDeque::new(),
            given_up: 0,
            ticks_per_second: 0,
            is_on: false,
        };
        let collect = |ring: &mut Ring| ring.collect(|_, offset, bytes| ram.read_bytes(offset, bytes).ok());
        let event = |time| Event::numbered(What::Rung, time, 0);
        (0..300).for_each(|time| writer.write(&event(time)));
        writer.publish();
        collect(&mut ring);
        let count = u64::from(telemetry::ring::events(1)) - telemetry::ring::MARGIN;
        let oldest = 300 - count;
        assert_eq!(ring.events.front(), Some(&Entry::Event(event(oldest))), "without a mark: nobody had looked before");
        ring.events.clear();
        (300..600).for_each(|time| writer.write(&event(time)));
        writer.publish();
        collect(&mut ring);
        assert_eq!((ring.reader.lost, ring.ticks_per_second), (300 - count, 1_000));
        assert_eq!(
            ring.events.iter().take(2).copied().collect::<Vec<_>>(),
            [Entry::Lost, Entry::Event(event(600 - count))]
        );
    }
}
