//! Asynchronous events: outstanding requests, pending events, and events that are masked until their log page is read.
//!
//! Section 5.2 of the base specification 1.4. A reported event masks all events of its type, whatever their log pages. Left
//! out: the choice of events by feature 0Bh, for which the reporter consults [`super::features`], and posting completions,
//! which the core does.

use std::collections::{BTreeMap, VecDeque};

use nvme_spec::event::AsyncEvent;
use nvme_spec::{Cid, StatusCode};

/// The type of event and the log page that clears it.
type Source = (u8, u8);

/// Outstanding Asynchronous Event Requests, and events without a request.
#[derive(Debug)]
pub(crate) struct Events {
    /// AERL + 1.
    limit: usize,
    /// In order of arrival.
    requests: VecDeque<Cid>,
    sources: BTreeMap<Source, State>,
}

/// The state of a source of events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Happened; waits for a request, and for the end of the mask of its type.
    Pending(AsyncEvent),
    /// Reported; further events are masked until the log page is read.
    Masked,
}

impl Events {
    /// `limit` is AERL + 1.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, requests: VecDeque::with_capacity(limit), sources: BTreeMap::new() }
    }

    /// Adds a request.
    ///
    /// # Errors
    /// Asynchronous Event Request Limit Exceeded.
    pub(crate) fn request(&mut self, cid: Cid) -> Result<(), StatusCode> {
        if self.requests.len() >= self.limit {
            return Err(StatusCode::AerLimit);
        }
        self.requests.push_back(cid);
        Ok(())
    }

    /// Reports an event. It is dropped when its source is masked or has one pending, because the log page covers both.
    pub(crate) fn report(&mut self, event: AsyncEvent) {
        self.sources.entry((event.kind(), event.log_page())).or_insert(State::Pending(event));
    }

    /// Takes the next request to complete, with its event.
    pub(crate) fn take_due(&mut self) -> Option<(Cid, AsyncEvent)> {
        let (source, event) = self.sources.iter().find_map(|(source, state)| match *state {
            State::Pending(event) if !self.is_masked(source.0) => Some((*source, event)),
            State::Pending(_) | State::Masked => None,
        })?;
        let cid = self.requests.pop_front()?;
        self.sources.insert(source, State::Masked);
        Some((cid, event))
    }

    /// Whether an event of this type was reported, and its log page was not read since.
    fn is_masked(&self, kind: u8) -> bool {
        self.sources.iter().any(|(source, state)| source.0 == kind && *state == State::Masked)
    }

    /// Clears the events of a log page that was read with Retain Asynchronous Event 0: they may be reported again.
    pub(crate) fn log_read(&mut self, log_page: u8) {
        self.sources.retain(|(_, page), _| *page != log_page);
    }

    /// Removes a request; false when there is none with this identifier.
    pub(crate) fn abort(&mut self, cid: Cid) -> bool {
        match self.requests.iter().position(|&request| request == cid) {
            Some(index) => self.requests.remove(index).is_some(),
            None => false,
        }
    }

    /// Resets with the controller: drops requests, pending events and masks.
    pub(crate) fn reset(&mut self) {
        let Self { limit: _, requests, sources } = self;
        requests.clear();
        sources.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_waits_for_a_request_and_is_reported_once() {
        let mut events = Events::new(2);
        events.report(AsyncEvent::SPARE);
        assert_eq!(events.take_due(), None);
        events.request(Cid(1)).unwrap();
        events.request(Cid(2)).unwrap();
        assert_eq!(events.take_due(), Some((Cid(1), AsyncEvent::SPARE)));
        events.report(AsyncEvent::TEMPERATURE);
        assert_eq!(events.take_due(), None);
    }

    #[test]
    fn reading_the_log_unmasks_its_own_events_alone() {
        let mut events = Events::new(4);
        for cid in 1..=4 {
            events.request(Cid(cid)).unwrap();
        }
        events.report(AsyncEvent::SPARE);
        events.report(AsyncEvent::NAMESPACE_CHANGED);
        assert!(events.take_due().is_some() && events.take_due().is_some());
        events.log_read(AsyncEvent::SPARE.log_page());
        events.report(AsyncEvent::NAMESPACE_CHANGED);
        events.report(AsyncEvent::RELIABILITY);
        assert_eq!(events.take_due(), Some((Cid(3), AsyncEvent::RELIABILITY)));
        assert_eq!(events.take_due(), None);
    }

    #[test]
    fn a_reported_event_masks_its_type_until_its_own_log_is_read() {
        let mut events = Events::new(4);
        for cid in 1..=4 {
            events.request(Cid(cid)).unwrap();
        }
        events.report(AsyncEvent::NAMESPACE_CHANGED);
        assert_eq!(events.take_due(), Some((Cid(1), AsyncEvent::NAMESPACE_CHANGED)));
        events.report(AsyncEvent::FIRMWARE_ACTIVATION);
        events.report(AsyncEvent::SANITIZE_COMPLETED);
        assert_eq!(events.take_due(), Some((Cid(2), AsyncEvent::SANITIZE_COMPLETED)));
        events.log_read(AsyncEvent::SANITIZE_COMPLETED.log_page());
        assert_eq!(events.take_due(), None);
        events.log_read(AsyncEvent::NAMESPACE_CHANGED.log_page());
        assert_eq!(events.take_due(), Some((Cid(3), AsyncEvent::FIRMWARE_ACTIVATION)));
    }

    #[test]
    fn requests_have_a_limit_and_can_be_taken_back() {
        let mut events = Events::new(1);
        events.request(Cid(1)).unwrap();
        assert_eq!(events.request(Cid(2)), Err(StatusCode::AerLimit));
        assert!(!events.abort(Cid(2)));
        assert!(events.abort(Cid(1)));
        events.request(Cid(2)).unwrap();
    }

    #[test]
    fn a_reset_forgets_requests_and_events() {
        let mut events = Events::new(1);
        events.report(AsyncEvent::SPARE);
        events.request(Cid(1)).unwrap();
        events.reset();
        events.request(Cid(2)).unwrap();
        assert_eq!(events.take_due(), None);
    }
}
