//! Requests of several commands: each is answered once, when the last of its commands is done, with the first failure.

use alloc::vec::Vec;
use blk_api::Status;
use blk_api::ring::Completed;

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// The place that the request had.
    pub place: u16,
    /// The request's user data.
    pub user_data: u64,
    /// The request's status.
    pub status: Status,
    /// The controller's status of the command that failed, or 0.
    pub device_status: u16,
}

impl From<Answer> for Completed {
    fn from(Answer { place: _, user_data, status, device_status }: Answer) -> Self {
        Self { user_data, status: status as u16, device_status, reserved: 0 }
    }
}

/// A request that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Place {
    user_data: u64,
    /// Commands submitted and not done, plus one while there is more to submit.
    open: u32,
    status: Status,
    device_status: u16,
}

/// The pending requests, by place.
pub struct Pending {
    places: Vec<Option<Place>>,
    free: Vec<u16>,
}

impl Pending {
    /// Bytes of the heap for each request.
    pub const PLACE_BYTES: usize = size_of::<Option<Place>>() + size_of::<u16>();

    /// A table of this number of places.
    #[must_use]
    pub fn new(requests: u16) -> Self {
        Self { places: (0..requests).map(|_| None).collect(), free: (0..requests).rev().collect() }
    }

    /// Number of places.
    #[must_use]
    pub fn most(&self) -> usize {
        self.places.len()
    }

    /// Takes a place for a request, of which there is something to submit; `None` when all are taken.
    #[must_use]
    pub fn begin(&mut self, user_data: u64) -> Option<u16> {
        let place = self.free.pop()?;
        *self.places.get_mut(usize::from(place))? =
            Some(Place { user_data, open: 1, status: Status::Success, device_status: 0 });
        Some(place)
    }

    /// Counts a command more.
    #[inline]
    pub fn add(&mut self, place: u16) {
        if let Some(Some(request)) = self.places.get_mut(usize::from(place)) {
            request.open = request.open.wrapping_add(1);
        }
    }

    /// Counts a command less, which ended with this status, or that everything was submitted. Returns the answer when nothing is open.
    #[inline]
    pub fn end_one(&mut self, place: u16, status: Status, device_status: u16) -> Option<Answer> {
        let slot = self.places.get_mut(usize::from(place))?;
        let request = slot.as_mut()?;
        if status != Status::Success && request.status == Status::Success {
            // The first failure is the one to report.
            (request.status, request.device_status) = (status, device_status);
        }
        request.open = request.open.wrapping_sub(1);
        if request.open > 0 {
            return None;
        }
        let Place { user_data, status, device_status, .. } = *request;
        *slot = None;
        self.free.push(place);
        Some(Answer { place, user_data, status, device_status })
    }

    /// Counts a command less, which will not complete: the request is answered with `status`, whatever became of its other commands.
    pub fn overrule(&mut self, place: u16, status: Status) -> Option<Answer> {
        if let Some(Some(request)) = self.places.get_mut(usize::from(place)) {
            request.status = status;
        }
        self.end_one(place, status, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_with_its_first_failure() {
        let mut pending = Pending::new(2);
        let place = pending.begin(7).unwrap();
        (0..3).for_each(|_| pending.add(place));
        assert_eq!(pending.end_one(place, Status::Success, 0), None);
        assert_eq!(pending.end_one(place, Status::MediaError, 0x281), None);
        assert_eq!(pending.end_one(place, Status::DeviceError, 6), None);
        let answer = pending.end_one(place, Status::Success, 0);
        assert_eq!(answer, Some(Answer { place, user_data: 7, status: Status::MediaError, device_status: 0x281 }));
        assert_eq!(pending.end_one(place, Status::Success, 0), None, "its place is free");
        assert!(pending.begin(8).is_some() && pending.begin(9).is_some());
        assert_eq!(pending.begin(10), None, "no more places");
    }

    #[test]
    fn an_overruled_request_has_that_status_whatever_came_before() {
        let mut pending = Pending::new(1);
        let place = pending.begin(7).unwrap();
        pending.add(place);
        assert_eq!(pending.end_one(place, Status::MediaError, 0x281), None);
        let answer = pending.overrule(place, Status::ControllerReset).unwrap();
        assert_eq!((answer.user_data, answer.status), (7, Status::ControllerReset));
    }
}
