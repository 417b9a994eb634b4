//! Requests of several commands: each is answered once, when the last of its commands is done, with the first failure.

use alloc::vec::Vec;
use blk_api::Status;
use blk_api::ring::Completed;

/// A request of several commands.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Commands submitted and not completed, plus one while there is more to submit.
    open: u32,
    answer: Completed,
}

/// A table of such requests.
pub(super) struct Parts {
    places: Vec<Part>,
    free: Vec<u16>,
}

impl Parts {
    /// Creates a table of `count` places.
    pub(super) fn new(count: u16) -> Self {
        let part = Part { open: 0, answer: Completed::default() };
        Self { places: (0..count).map(|_| part).collect(), free: (0..count).rev().collect() }
    }

    /// Takes a place for the request with `user_data`, of which there is something to submit.
    pub(super) fn begin(&mut self, user_data: u64) -> Option<u16> {
        let place = self.free.pop()?;
        let answer = Completed { user_data, ..Completed::default() };
        *self.places.get_mut(usize::from(place))? = Part { open: 1, answer };
        Some(place)
    }

    /// Counts a command more.
    pub(super) fn add_one(&mut self, place: u16) {
        if let Some(part) = self.places.get_mut(usize::from(place)) {
            part.open = part.open.saturating_add(1);
        }
    }

    /// Counts a command less, which ended so, or that everything was submitted. Returns the answer when nothing is open.
    pub(super) fn end_one(&mut self, place: u16, status: Status, device_status: u16) -> Option<Completed> {
        let part = self.places.get_mut(usize::from(place))?;
        if part.answer.status == Status::Success as u16 {
            (part.answer.status, part.answer.device_status) = (status as u16, device_status);
        }
        part.open = part.open.checked_sub(1)?;
        (part.open == 0).then_some(())?;
        let answer = part.answer;
        self.free.push(place);
        Some(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_answered_once_with_its_first_failure() {
        let mut parts = Parts::new(2);
        let place = parts.begin(7).unwrap();
        parts.add_one(place);
        parts.add_one(place);
        parts.add_one(place);
        assert_eq!(parts.end_one(place, Status::Success, 0), None);
        assert_eq!(parts.end_one(place, Status::MediaError, 0x281), None);
        assert_eq!(parts.end_one(place, Status::DeviceError, 6), None);
        let answer = parts.end_one(place, Status::Success, 0).unwrap();
        let expected = Completed { user_data: 7, status: Status::MediaError as u16, device_status: 0x281, reserved: 0 };
        assert_eq!(answer, expected);
        assert!(parts.begin(8).is_some() && parts.begin(9).is_some());
        assert_eq!(parts.begin(10), None, "no more places");
    }
}
