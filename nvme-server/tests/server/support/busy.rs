//! Two clients at work, and what they must see when their controller serves nobody any more.

use super::{Setup, System, entry};
use blk_api::Status;
use blk_api::request::{Entry, Opcode};

/// A system whose clients have an open session each, three requests in flight or in part, and sleep.
pub(crate) fn busy(setup: Setup) -> System {
    let mut system = System::start(setup);
    for index in 0..2 {
        system.open(index).unwrap();
        system.controller(|controller, _| controller.hold = true);
        let read = |lba| Entry { user_data: lba, ..entry(Opcode::Read, lba, 1, 0) };
        system.submit(index, &[read(1), read(2), Entry { user_data: 3, ..entry(Opcode::Read, 0, 200, 0) }]);
        assert_eq!(system.clients[index].end.prepare_sleep(), Ok(false));
    }
    system
}

/// Both clients are woken, their three requests ended with `in_flight`, later ones end with `later`, and the controller reaches
/// no window.
pub(crate) fn assert_ended(system: &mut System, in_flight: Status, later: Status) {
    for index in 0..2 {
        assert_eq!(system.mapped_pages(index), 0);
        assert!(system.client_signals(index) > 0, "the client is woken");
        let mut answers: Vec<_> =
            system.completions(index).iter().map(|c| (c.user_data, c.status().unwrap())).collect();
        answers.sort_by_key(|(user_data, _)| *user_data);
        assert_eq!(answers, [1, 2, 3].map(|n| (n, in_flight)));
        assert_eq!(system.request(index, entry(Opcode::Write, 5, 1, 0)).status(), Some(later));
    }
}
