//! Requests of several commands: each is answered once, when the last of its commands is done, with the first failure.

use alloc::vec::Vec;
use blk_api::Status;
use blk_api::request::{Opcode, Request};
use blk_api::ring::Completed;
use nvme_driver::command;

/// A request of several commands.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Commands submitted and not completed, plus one while there is more to submit.
    open: u32,
    opcode: Opcode,
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
        let part = Part { open: 0, opcode: Opcode::Flush, answer: Completed::default() };
        Self { places: (0..count).map(|_| part).collect(), free: (0..count).rev().collect() }
    }

    /// Takes a place for a request, of which there is something to submit.
    pub(super) fn begin(&mut self, &Request { opcode, user_data, .. }: &Request) -> Option<u16> {
        let place = self.free.pop()?;
        let answer = Completed { user_data, ..Completed::default() };
        *self.places.get_mut(usize::from(place))? = Part { open: 1, opcode, answer };
        Some(place)
    }

    /// Counts a command more.
    pub(super) fn add_one(&mut self, place: u16) {
        if let Some(part) = self.places.get_mut(usize::from(place)) {
            part.open = part.open.saturating_add(1);
        }
    }

    /// Counts a command less, of which `outcome` has the result for the request's operation, or that everything was submitted. Returns
    /// the answer when nothing is open.
    pub(super) fn end_one(&mut self, place: u16, outcome: impl FnOnce(Opcode) -> (Status, u16)) -> Option<Completed> {
        let part = self.places.get_mut(usize::from(place))?;
        let (status, device_status) = outcome(part.opcode);
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

/// The status with which a command answers its request, and the controller's. One that the controller asks for again has failed here:
/// the request is made again (`device::retries`).
pub(super) fn outcome(opcode: Opcode, status: nvme_spec::Status) -> (Status, u16) {
    match status.without_more() {
        status if status.is_success() => (Status::Success, 0),
        // A discard is a hint, and done if it is not done at once.
        status if status.asks_for_retry() && opcode != Opcode::Discard => (Status::DeviceError, status.to_raw()),
        status => (command::failure(opcode, status), status.to_raw()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(user_data: u64) -> Request {
        let segments = Default::default();
        Request { opcode: Opcode::Flush, lba: 0, blocks: 0, user_data, segments, segment_count: 0 }
    }

    #[test]
    fn a_request_is_answered_once_with_its_first_failure() {
        let mut parts = Parts::new(2);
        let place = parts.begin(&flush(7)).unwrap();
        parts.add_one(place);
        parts.add_one(place);
        parts.add_one(place);
        assert_eq!(parts.end_one(place, |_| (Status::Success, 0)), None);
        assert_eq!(parts.end_one(place, |_| (Status::MediaError, 0x281)), None);
        assert_eq!(parts.end_one(place, |_| (Status::DeviceError, 6)), None);
        let answer = parts.end_one(place, |_| (Status::Success, 0)).unwrap();
        let expected = Completed { user_data: 7, status: Status::MediaError as u16, device_status: 0x281, reserved: 0 };
        assert_eq!(answer, expected);
        assert!(parts.begin(&flush(8)).is_some() && parts.begin(&flush(9)).is_some());
        assert_eq!(parts.begin(&flush(10)), None, "no more places");
    }
}
