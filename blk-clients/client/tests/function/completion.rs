//! Choices how completions are awaited, on a function.

use crate::support::{Machine, Setup, device, turn};
use blk_api::ring::DO_NOT_RETRY;
use blk_client::{Completion, Device, Error, FunctionFault, Status};
use fake_platform::block_on;
use sim_fault::{Blocks, CommandEffect, CommandFault, ControllerEffect, Fault, QueueKind};
use std::future::{Future, poll_fn};
use std::iter::once;
use std::pin::pin;
use std::task::Poll;

/// All choices, none included.
fn choices() -> impl Iterator<Item = Option<Completion>> {
    once(None).chain(Completion::ALL.map(Some))
}

/// The machines on which a choice can be made: sessions that poll, and rights to alarms.
fn machines(faults: &[Fault]) -> impl Iterator<Item = Machine> {
    let faults = faults.to_vec();
    [(false, false), (false, true), (true, false), (true, true)].into_iter().map(move |(polls, alarm)| {
        let machine = Machine::new(Setup { polls, alarm, faults: faults.clone(), ..Setup::default() });
        machine.tick_who_waits();
        machine
    })
}

fn at_block_3(effect: CommandEffect) -> Fault {
    let blocks = Some(Blocks { first: 3, count: 1 });
    Fault::Command(CommandFault { blocks, ..CommandFault::new(QueueKind::Io, effect) })
}

/// Reads the block at `lba`, with the completion awaited as chosen.
async fn read(device: &Device<Machine>, lba: u64, chosen: Option<Completion>) -> Result<(), Error> {
    let range = device.window().lease(512).expect("room");
    let request = device.read(lba, &[range.whole()]);
    match chosen {
        Some(completion) => request.by(completion).await,
        None => request.await,
    }
}

#[test]
fn same_error_reaches_the_client_by_every_choice() {
    let media = at_block_3(CommandEffect::Status { sct: 2, sc: 0x81, dnr: true });
    let silent = at_block_3(CommandEffect::DropCompletion);
    let failed = |status, device_status| Err(Error::Failed { status, device_status });
    let gone = Err(Error::Device(FunctionFault::Absent));
    for (faults, strikes, lba, expected) in [
        (&[][..], false, 3, Ok(())),
        (&[media][..], false, 3, failed(Status::MediaError, DO_NOT_RETRY | 0x281)),
        (&[][..], false, 4096, failed(Status::OutsideExtents, 0)),
        (&[silent][..], true, 3, gone),
    ] {
        for (chosen, machine) in choices().flat_map(|chosen| machines(faults).map(move |machine| (chosen, machine))) {
            let device = device(&machine);
            let outcome = block_on(device.run(async {
                // So that the time of such a request is known.
                assert_eq!(read(&device, 1, chosen).await, Ok(()));
                let mut result = pin!(read(&device, lba, chosen));
                // It is made by its first poll, and submitted when the device has its turn.
                let early = poll_fn(|context| Poll::Ready(result.as_mut().poll(context))).await;
                assert_eq!(early, Poll::Pending);
                turn().await;
                if strikes {
                    machine.strike(ControllerEffect::Removal);
                }
                result.await
            }));
            assert_eq!(outcome, expected, "{chosen:?}, {:?}", machine.options());
        }
    }
}

#[test]
fn requests_with_every_choice_in_flight_together_are_all_done() {
    for machine in machines(&[]) {
        let device = device(&machine);
        block_on(device.run(async {
            for _ in 0..10 {
                let range = device.window().lease(16 * 512).unwrap();
                let requests: Vec<_> = (0..6u64)
                    .flat_map(|lba| choices().map(move |chosen| (lba, chosen)))
                    .map(|(lba, chosen)| {
                        let request = device.read(lba, &[range.whole()]);
                        chosen.into_iter().fold(request, |request, chosen| request.by(chosen))
                    })
                    .collect();
                for request in requests {
                    assert_eq!(request.await, Ok(()));
                }
            }
        }));
        assert_eq!(device.in_flight(), 0);
    }
}

#[test]
fn requests_outlive_a_reset_of_the_controller() {
    for (completion, machine) in
        Completion::ALL.into_iter().flat_map(|completion| machines(&[]).map(move |machine| (completion, machine)))
    {
        let device = device(&machine);
        block_on(device.run(async {
            assert_eq!(read(&device, 1, Some(completion)).await, Ok(()));
            machine.reset(1_000_000);
            assert_eq!(read(&device, 2, Some(completion)).await, Ok(()), "{completion:?}");
        }));
    }
}

#[test]
fn function_without_a_vector_is_awaited_by_alarms() {
    let delay = CommandFault::new(QueueKind::Io, CommandEffect::Delay { ns: 2_000_000 });
    let setup = Setup { polls: true, alarm: true, faults: vec![Fault::Command(delay)], ..Setup::default() };
    let machine = Machine::new(setup);
    let device = device(&machine);
    let before = machine.interrupts();
    block_on(device.run(async {
        // The first is measured by polling.
        assert_eq!((read(&device, 1, Some(Completion::SleepThenPoll)).await, machine.alarms()), (Ok(()), 0));
        for completion in [Completion::SleepThenPoll, Completion::Automatic] {
            let before = machine.alarms();
            assert_eq!(read(&device, 1, Some(completion)).await, Ok(()));
            let alarms = machine.alarms() - before;
            assert!((11..=16).contains(&alarms), "{completion:?}: {alarms}");
        }
    }));
    assert_eq!(machine.interrupts(), before, "there is no vector");
}
