//! A driver that writes anything anywhere: the controller never panics, and works again after a reset.

use nvme_spec::{Cid, Nsid, Sqe, Status, nvm};
use proptest::prelude::*;
use sim_nvme::config::{Cache, Contiguous};
use sim_nvme::{AccessSize, Config};
use zerocopy::{FromBytes, IntoBytes};

use crate::driver::{Driver, PAGE, config};

#[derive(Clone, Debug)]
enum Step {
    Write { offset: u64, size: AccessSize, value: u64 },
    Read { offset: u64, size: AccessSize },
    Command { queue: u16, words: [u32; 16] },
    Wait(u64),
    Block(u64),
}

/// Mostly small numbers, now and then any.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0..8_u64, 2 => (0..64_u64).prop_map(|page| page * PAGE), 1 => 0..70_000_u64, 1 => any::<u64>()]
}

fn words() -> impl Strategy<Value = [u32; 16]> {
    let opcode = prop_oneof![4 => 0..0x1a_u32, 1 => Just(0x7c), 1 => Just(0x80), 1 => 0..256_u32];
    let rest = proptest::array::uniform16(number().prop_map(|value| value as u32));
    (opcode, any::<u16>(), 0..5_u32, rest, any::<bool>()).prop_map(|(opcode, cid, nsid, mut words, is_clean)| {
        words[0] = opcode | u32::from(cid) << 16;
        words[1] = nsid;
        if is_clean {
            // Addresses below 4 GiB and no reserved words, so that more of the commands get further.
            for index in [2, 3, 4, 5, 7, 9, 13, 14, 15] {
                words[index] = 0;
            }
        }
        words
    })
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        1 => Just(AccessSize::One),
        1 => Just(AccessSize::Two),
        6 => Just(AccessSize::Four),
        2 => Just(AccessSize::Eight),
    ];
    let offset = prop_oneof![
        (0..17_u64).prop_map(|index| index * 4),
        (0..8_u64).prop_map(|index| 0x1000 + index * 4),
        0..0x3000_u64
    ];
    prop_oneof![
        4 => (offset.clone(), size.clone(), number())
            .prop_map(|(offset, size, value)| Step::Write { offset, size, value }),
        1 => (offset, size).prop_map(|(offset, size)| Step::Read { offset, size }),
        6 => (0..3_u16, words()).prop_map(|(queue, words)| Step::Command { queue, words }),
        2 => (0..3_000_000_u64).prop_map(Step::Wait),
        1 => (0..4096_u64).prop_map(|page| Step::Block(page * PAGE)),
    ]
}

fn perform(driver: &mut Driver, step: Step) {
    match step {
        Step::Write { offset, size, value } => driver.write(offset, size, value),
        Step::Read { offset, size } => {
            let value = driver.controller.read(offset, size);
            assert_eq!(size.truncate(value), value, "no more than was asked for");
        }
        Step::Command { queue, words } => {
            driver.submit_as(queue, Sqe::read_from_bytes(words.as_bytes()).unwrap());
            driver.ring(queue);
        }
        Step::Wait(ns) => driver.advance_to(driver.now_ns + ns),
        Step::Block(start) => driver.machine.blocked = start..start + PAGE,
    }
}

proptest! {
    #[test]
    fn no_driver_makes_the_controller_panic_or_useless(steps in proptest::collection::vec(step(), 1..120)) {
        let mut config = Config { cache: Some(Cache { bytes: 8192, linger_ns: 1_000_000 }), ..config() };
        config.capabilities.contiguous = Contiguous::Optional;
        config.capabilities.subsystem_reset = true;
        let mut driver = Driver::with_queues(config, 2);
        steps.into_iter().for_each(|step| perform(&mut driver, step));
        driver.advance_to(driver.now_ns + 1_000_000_000);
        driver.machine.blocked = 0..0;
        driver.controller.power_loss(driver.now_ns);
        driver.machine.pin = sim_nvme::Level::Deasserted;
        driver.enable(nvme_spec::registers::Arbitration::RoundRobin);
        driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);

        let status = driver.execute(1, nvm::flush(Cid(0), Nsid::ALL)).status();
        prop_assert_eq!(status, Status::SUCCESS);
    }
}
