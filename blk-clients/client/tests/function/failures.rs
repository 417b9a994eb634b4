//! Commands that fail, and a controller that fails or lies.

use crate::support::{Machine, Setup, entry, exchange, session};
use blk_client::{DeviceFault, Error, Opcode, Session, Status};
use sim_fault::{Blocks, CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};

/// A fault of commands that name block 3.
fn at_block_3(effect: CommandEffect) -> Vec<Fault> {
    let blocks = Some(Blocks { first: 3, count: 1 });
    vec![Fault::Command(CommandFault { blocks, ..CommandFault::new(QueueKind::Io, effect) })]
}

/// A session with a read in flight that is not completed.
fn busy(polls: bool) -> (Machine, Session<Machine>) {
    let machine = Machine::new(Setup { polls, faults: at_block_3(CommandEffect::DropCompletion), ..Setup::default() });
    let mut session = session(&machine);
    exchange(&mut session, &[entry(Opcode::Read, 0, 1, 0); 3]).unwrap();
    assert_eq!(session.submit(&entry(Opcode::Read, 3, 1, 0)), Ok(true));
    session.publish().unwrap();
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
    let machine = Machine::new(Setup { faults: at_block_3(status), ..Setup::default() });
    let mut session = session(&machine);
    let entries = [entry(Opcode::Read, 3, 1, 0), entry(Opcode::Read, 4, 1, 0), entry(Opcode::Read, 0, 100, 0)];
    let done = exchange(&mut session, &entries).unwrap();
    let outcomes: Vec<_> = done.iter().map(|one| (one.status().unwrap(), one.device_status)).collect();
    let failed = (Status::MediaError, 0x281);
    assert_eq!(outcomes, [failed, (Status::Success, 0), failed], "the last has seven commands");
    assert_eq!(machine.complaints(), [""; 0]);
}

#[test]
fn failed_controller_ends_the_session() {
    for polls in [false, true] {
        let (machine, mut session) = busy(polls);
        machine.strike(ControllerEffect::FatalStatus);
        assert_eq!(end(&mut session), Error::Device(DeviceFault::Fatal));
        let (machine, mut session) = busy(polls);
        machine.strike(ControllerEffect::Removal);
        assert_eq!(end(&mut session), Error::Device(DeviceFault::Absent));
        let (machine, mut session) = busy(polls);
        machine.strike(ControllerEffect::PowerLoss);
        assert_eq!(end(&mut session), Error::Device(DeviceFault::NotReady));
        assert!(machine.ticks_sent() < 20, "a client that sleeps notices it within a second");
    }
}

#[test]
fn impossible_completions_end_the_session() {
    let forged = |change: fn(&mut nvme_spec::Cqe)| {
        let (machine, mut session) = busy(false);
        machine.forge(change);
        end(&mut session)
    };
    assert_eq!(forged(|_| {}), Error::Device(DeviceFault::UnknownCommand(0xffff)));
    assert_eq!(forged(|cqe| cqe.dw3.set_cid(0)), Error::Device(DeviceFault::UnknownCommand(0)));
    assert_eq!(forged(|cqe| cqe.dw2.set_sqid(9)), Error::Device(DeviceFault::WrongQueue(9)));
    assert_eq!(forged(|cqe| cqe.dw2.set_sqhd(50)), Error::Device(DeviceFault::ImpossibleHead(50)));
}
