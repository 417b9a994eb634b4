//! Commands that fail, and a controller that fails or lies.

use crate::support::{Machine, Setup, entry, exchange, session};
use blk_api::ring::DO_NOT_RETRY;
use blk_client::{DeviceFault, Error, FunctionFault, Opcode, OpenError, Session, Status};
use fake_platform::block_on;
use platform::Platform;
use sim_fault::{Blocks, CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};

/// A second in the machine's time.
const SECOND_NS: u64 = 1_000_000_000;

/// A fault of the first `times` commands that name block 3, or of all.
fn at_block_3(effect: CommandEffect, times: Option<u64>) -> Vec<Fault> {
    let blocks = Some(Blocks { first: 3, count: 1 });
    vec![Fault::Command(CommandFault { blocks, times, ..CommandFault::new(QueueKind::Io, effect) })]
}

/// A session with a read in flight that is not completed.
fn busy(polls: bool) -> (Machine, Session<Machine>) {
    let machine =
        Machine::new(Setup { polls, faults: at_block_3(CommandEffect::DropCompletion, Some(1)), ..Setup::default() });
    let mut session = session(&machine);
    exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0); 3]).unwrap();
    assert_eq!(session.submit(&entry(Opcode::Read, 3, 1, 0)), Ok(true));
    session.publish().unwrap();
    block_on(machine.yield_now());
    machine.tick_who_waits();
    (machine, session)
}

/// The error that ends the session.
fn end(session: &mut Session<Machine>) -> Error {
    exchange(session, &[entry(Opcode::Read, 3, 1, 0)]).expect_err("the session ends")
}

#[test]
fn failed_command_fails_its_request_alone() {
    let status = CommandEffect::Status { sct: 2, sc: 0x81, dnr: true };
    let machine = Machine::new(Setup { faults: at_block_3(status, None), ..Setup::default() });
    let mut session = session(&machine);
    let entries = [entry(Opcode::Read, 3, 1, 0), entry(Opcode::Read, 4, 1, 0), entry(Opcode::Read, 0, 100, 0)];
    let done = exchange(&mut session, &entries).unwrap();
    let outcomes: Vec<_> = done.iter().map(|one| (one.status().unwrap(), one.device_status)).collect();
    let failed = (Status::MediaError, DO_NOT_RETRY | 0x281);
    assert_eq!(outcomes, [failed, (Status::Success, 0), failed], "the last has seven commands");
}

#[test]
fn removed_controller_ends_the_session() {
    for polls in [false, true] {
        let (machine, mut session) = busy(polls);
        machine.strike(ControllerEffect::Removal);
        assert_eq!(exchange(&mut session, &[entry(Opcode::Read, 3, 1, 0)]), Ok(vec![]));
        assert!(session.server_died(), "it may have been withdrawn");
        assert_eq!(block_on(session.open_again()), Err(OpenError::Device(DeviceFault::Absent)));
    }
}

/// Waits until the session is to be opened again, and opens it.
fn open_again(session: &mut Session<Machine>) {
    block_on(async {
        while !session.server_died() {
            assert_eq!(session.complete(), Ok(None));
            session.wait().await.unwrap();
        }
        session.open_again().await.unwrap();
    });
}

#[test]
fn withdrawn_function_forbids_requests_until_it_is_restored() {
    let all = [entry(Opcode::Read, 0, 1, 0), entry(Opcode::Flush, 0, 0, 0), entry(Opcode::Read, 0, 100, 0)];
    for polls in [false, true] {
        let (machine, mut session) = busy(polls);
        machine.withdraw();
        assert_eq!(exchange(&mut session, &all), Ok(vec![]));
        for _ in 0..3 {
            let before = machine.now_ns();
            open_again(&mut session);
            assert!(machine.now_ns() - before < SECOND_NS);
            machine.commands();
            let done = exchange(&mut session, &all).unwrap();
            let outcomes: Vec<_> = done.iter().map(|one| (one.user_data, one.status().unwrap())).collect();
            assert_eq!(outcomes, [0, 1, 2].map(|number| (number, Status::Forbidden)));
        }
        machine.restore();
        open_again(&mut session);
        assert_eq!(exchange(&mut session, &all).unwrap().iter().map(|one| one.status).collect::<Vec<_>>(), [0; 3]);
    }
}

#[test]
fn session_with_a_withdrawn_function_is_closed() {
    let (machine, mut session) = busy(false);
    machine.withdraw();
    exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0)]).unwrap();
    open_again(&mut session);
    assert_eq!(block_on(session.close()), Ok(()));
    assert!(!machine.is_claimed());
}

#[test]
fn reset_controller_is_noticed_and_brought_up_again() {
    let resets: [fn(&Machine); 3] = [
        |machine| machine.reset(SECOND_NS),
        |machine| machine.strike(ControllerEffect::FatalStatus),
        |machine| machine.strike(ControllerEffect::PowerLoss),
    ];
    for (reset, polls) in resets.into_iter().flat_map(|reset| [(reset, false), (reset, true)]) {
        let (machine, mut session) = busy(polls);
        reset(&machine);
        assert_eq!(exchange(&mut session, &[entry(Opcode::Read, 3, 1, 0)]), Ok(vec![]));
        assert!(session.server_died());
        assert!(machine.ticks_sent() < 20, "a client that sleeps notices it within a second");
        let before = *session.geometry();
        block_on(session.open_again()).unwrap();
        assert!(!session.server_died());
        assert_eq!(*session.geometry(), before);
        // Nothing is left of the requests before.
        let done = exchange(&mut session, &[entry(Opcode::Read, 3, 1, 0), entry(Opcode::Read, 0, 100, 0)]).unwrap();
        assert_eq!(done.iter().map(|one| (one.user_data, one.status)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
        assert_eq!(session.complete(), Ok(None));
    }
}

#[test]
fn controller_that_stays_offline_is_not_brought_up_again() {
    let (machine, mut session) = busy(false);
    machine.reset(u64::MAX);
    exchange(&mut session, &[entry(Opcode::Read, 3, 1, 0)]).unwrap();
    let before = machine.now_ns();
    assert_eq!(block_on(session.open_again()), Err(OpenError::Device(DeviceFault::Fatal)));
    assert!((300 * SECOND_NS..301 * SECOND_NS).contains(&(machine.now_ns() - before)));
    assert!(session.server_died(), "so that it can be tried again");
    machine.set_online();
    block_on(session.open_again()).unwrap();
    assert_eq!(exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0)]).map(|done| done.len()), Ok(1));
}

#[test]
fn impossible_completions_end_the_session() {
    let forged = |change: fn(&mut nvme_spec::Cqe)| {
        let (machine, mut session) = busy(false);
        machine.forge(change);
        end(&mut session)
    };
    assert_eq!(forged(|_| {}), Error::Device(FunctionFault::Impossible));
    assert_eq!(forged(|cqe| cqe.dw3.set_cid(0)), Error::Device(FunctionFault::Impossible));
    assert_eq!(forged(|cqe| cqe.dw2.set_sqid(9)), Error::Device(FunctionFault::Impossible));
    assert_eq!(forged(|cqe| cqe.dw2.set_sqhd(50)), Error::Device(FunctionFault::Impossible));
}
