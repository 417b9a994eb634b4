//! From power-on to ready, and back.

use nvme_spec::admin::QueuePriority;
use nvme_spec::feature::{Feature, get_feature, set_feature};
use nvme_spec::registers::{Arbitration, Cap, Cc, NSSR_RESET, Register, ShutdownNotification, ShutdownStatus};
use nvme_spec::{Cid, Status};
use sim_nvme::config::{Capabilities, Contiguous};
use sim_nvme::{AccessSize, Config, ViolationKind};

use crate::driver::{Driver, config};

#[test]
fn capabilities_are_those_of_the_configuration() {
    let capabilities = Capabilities {
        queue_entries: 100,
        contiguous: Contiguous::Optional,
        weighted_arbitration: false,
        timeout_500ms: 3,
        doorbell_stride: 10,
        subsystem_reset: true,
        page_min: 1,
        page_max: 3,
        ..Capabilities::default()
    };
    let mut driver = Driver::new(Config { capabilities, ..config() });
    let cap = Cap::from_bits(driver.controller.read(0, AccessSize::Eight));
    assert_eq!((cap.mqes_z(), cap.cqr(), cap.ams_wrr(), cap.to()), (99, false, false, 3));
    assert_eq!((cap.dstrd(), cap.nssrs(), cap.mpsmin(), cap.mpsmax()), (10, true, 1, 3));
    assert!(cap.css_nvm());
    let halves = u64::from(driver.get(Register::Cap)) | driver.controller.read(4, AccessSize::Four) << 32;
    assert_eq!(halves, cap.into_bits());
}

#[test]
fn ready_follows_enable_after_the_time_it_takes() {
    let mut driver = Driver::new(Config { ready_ns: 5_000, ..config() });
    driver.set_admin_queues();
    driver.now_ns = 100;
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.advance_to(5_099);
    assert!(!driver.csts().rdy());
    driver.advance_to(5_100);
    assert!(driver.csts().rdy());
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).into_bits());
    assert!(driver.csts().rdy(), "not ready only after a while");
    driver.run();
    assert!(!driver.csts().rdy());
    driver.assert_clean();
}

#[test]
fn a_reset_keeps_the_admin_queue_registers_and_forgets_the_rest() {
    let mut driver = Driver::with_queues(config(), 2);
    let aqa = driver.get(Register::Aqa);
    driver.set(Register::Cc, 0);
    driver.run();
    assert_eq!(driver.get(Register::Aqa), aqa);
    driver.enable(Arbitration::RoundRobin);
    driver.write(driver.tail_doorbell(1), AccessSize::Four, 1);
    assert!(matches!(driver.violations()[..], [ViolationKind::DoorbellOfNoQueue { .. }]));
}

#[test]
fn a_function_level_reset_clears_everything_but_the_media() {
    let mut driver = Driver::with_queues(config(), 1);
    driver.controller.function_level_reset();
    assert_eq!((driver.get(Register::Cc), driver.get(Register::Csts), driver.get(Register::Aqa)), (0, 0, 0));
    driver.enable(Arbitration::RoundRobin);
    driver.create_pair(1, 8, nvme_spec::admin::QueuePriority::Urgent);
}

#[test]
fn a_shutdown_is_first_processed_and_then_complete() {
    let mut driver = Driver::up(Config { shutdown_ns: 777, ..config() });
    let asked = driver.now_ns;
    let cc = Driver::cc(Arbitration::RoundRobin).with_en(true).with_shn(ShutdownNotification::Normal);
    driver.set(Register::Cc, cc.into_bits());
    assert_eq!(driver.csts().shst(), ShutdownStatus::Processing);
    driver.run();
    assert_eq!((driver.csts().shst(), driver.now_ns), (ShutdownStatus::Complete, asked + 777));
    driver.write(driver.tail_doorbell(0), AccessSize::Four, 1);
    assert!(matches!(driver.violations()[..], [ViolationKind::DoorbellAfterShutdown { .. }]));
}

#[test]
fn a_subsystem_reset_wants_its_signature_and_leaves_its_mark() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    driver.set(Register::Nssr, 1);
    assert!(driver.csts().rdy());
    driver.set(Register::Nssr, NSSR_RESET);
    assert_eq!((driver.csts().rdy(), driver.csts().nssro()), (false, true));
    driver.set(Register::Csts, 1 << 4);
    assert!(!driver.csts().nssro());
    assert_eq!(driver.violations(), [ViolationKind::SubsystemReset { value: 1 }]);
}

#[test]
fn doorbell_after_subsystem_reset_counts_once_driver_knows() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    driver.set(Register::Nssr, NSSR_RESET);
    driver.write(driver.tail_doorbell(0), AccessSize::Four, 1);
    driver.assert_clean();
    // One processor reads what happened while another still rings.
    assert!(driver.csts().nssro());
    driver.write(driver.head_doorbell(0), AccessSize::Four, 1);
    driver.assert_clean();
    driver.set(Register::Csts, 1 << 4);
    let offset = driver.tail_doorbell(0);
    driver.write(offset, AccessSize::Four, 1);
    assert_eq!(driver.violations(), [ViolationKind::DoorbellBeforeReady { offset }]);
}

#[test]
fn shutdown_that_meets_a_subsystem_reset_is_no_violation() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    driver.set(Register::Nssr, NSSR_RESET);
    let cc = Driver::cc(Arbitration::RoundRobin).with_en(true).with_shn(ShutdownNotification::Normal);
    driver.set(Register::Cc, cc.into_bits());
    driver.run();
    assert!(driver.csts().cfs(), "enabled without admin queues");
    driver.set(Register::Cc, 0);
    driver.run();
    driver.enable(Arbitration::RoundRobin);
    driver.assert_clean();
}

#[test]
fn enabling_after_a_subsystem_reset_informs_the_driver() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let mut driver = Driver::up(Config { capabilities, ..config() });
    driver.set(Register::Nssr, NSSR_RESET);
    driver.set_admin_queues();
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    let offset = driver.tail_doorbell(0);
    driver.write(offset, AccessSize::Four, 1);
    assert_eq!(driver.violations(), [ViolationKind::DoorbellBeforeReady { offset }]);
}

#[test]
fn a_configuration_that_is_not_supported_is_fatal_until_reset() {
    let unsupported = [
        Driver::cc(Arbitration::Vendor),
        Driver::cc(Arbitration::RoundRobin).with_mps(15),
        Driver::cc(Arbitration::RoundRobin).with_css(nvme_spec::registers::CommandSet::AdminOnly),
    ];
    for cc in unsupported {
        let mut driver = Driver::new(config());
        driver.set_admin_queues();
        let cc = cc.with_en(true);
        driver.set(Register::Cc, cc.into_bits());
        driver.run();
        assert!(driver.csts().cfs() && !driver.csts().rdy(), "{cc:?}");
        assert_eq!(driver.violations(), [ViolationKind::UnsupportedConfiguration { cc: cc.into_bits() }]);
        driver.set(Register::Cc, 0);
        driver.run();
        assert!(!driver.csts().cfs());
    }
}

#[test]
fn admin_queues_of_one_entry_are_refused() {
    let mut driver = Driver::new(config());
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.run();
    assert!(driver.csts().cfs());
    assert_eq!(driver.violations(), [ViolationKind::AdminQueueSize]);
}

#[test]
fn configuration_may_change_only_while_disabled() {
    let mut driver = Driver::up(config());
    let before = driver.get(Register::Cc);
    driver.set(Register::Cc, Cc::from_bits(before).with_mps(1).into_bits());
    driver.set(Register::Aqa, 0);
    driver.write(Register::Asq as u64, AccessSize::Eight, 0x1000);
    assert_eq!(driver.get(Register::Cc), before);
    let at = |register: Register| ViolationKind::ChangedWhileEnabled { offset: register as u64 };
    let high = ViolationKind::ChangedWhileEnabled { offset: Register::Asq as u64 + 4 };
    assert_eq!(driver.violations(), [at(Register::Cc), at(Register::Aqa), at(Register::Asq), high]);
}

#[test]
fn enabling_waits_for_the_reset_to_end_and_the_other_way_round() {
    let mut driver = Driver::up(config());
    let enabled = Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits();
    driver.set(Register::Cc, 0);
    driver.set(Register::Cc, enabled);
    driver.run();
    assert!(!driver.csts().rdy(), "enabling too early did nothing");
    driver.set(Register::Cc, enabled);
    driver.set(Register::Cc, 0);
    assert_eq!(driver.violations(), [ViolationKind::EnableNotFollowed; 2]);
}

#[test]
fn registers_are_accessed_whole_and_only_where_they_are() {
    let mut driver = Driver::new(config());
    assert_eq!(driver.controller.read(1, AccessSize::Four), 0);
    assert_eq!(driver.controller.read(0x14, AccessSize::Two), 0);
    assert_eq!(driver.controller.read(0x14, AccessSize::Eight), 0);
    assert_eq!(driver.controller.read(0x40, AccessSize::Four), 0, "reserved reads as zero, and may be read");
    driver.write(0x14, AccessSize::One, 1);
    driver.write(0x40, AccessSize::Four, 1);
    driver.write(0x00, AccessSize::Four, 1);
    driver.write(0x1c, AccessSize::Four, 1);
    driver.set(Register::Cc, 0x0100_0000);
    driver.set(Register::Aqa, 0xf000_0000);
    driver.controller.read(0x1000, AccessSize::Four);
    assert_eq!(
        driver.violations(),
        [
            ViolationKind::AccessSize { offset: 1, bytes: 4 },
            ViolationKind::AccessSize { offset: 0x14, bytes: 2 },
            ViolationKind::AccessSize { offset: 0x14, bytes: 8 },
            ViolationKind::AccessSize { offset: 0x14, bytes: 1 },
            ViolationKind::ReservedRegister { offset: 0x40 },
            ViolationKind::ReadOnlyRegister { offset: 0 },
            ViolationKind::ReadOnlyRegister { offset: 0x1c },
            ViolationKind::ReservedBits { offset: 0x14, value: 0x0100_0000 },
            ViolationKind::ReservedBits { offset: 0x24, value: 0xf000_0000 },
            ViolationKind::DoorbellRead { offset: 0x1000 },
        ]
    );
    assert_eq!(driver.get(Register::Cc), 0);
}

/// A driver may keep AQA, ASQ and ACQ over a reset: the queues begin again, and everything else has its default.
#[test]
fn admin_queues_start_over_after_a_reset_and_the_rest_is_forgotten() {
    let mut driver = Driver::with_queues(config(), 1);
    let threshold = set_feature(Cid(0), Feature::InterruptCoalescing, 0x0101);
    assert_eq!(driver.execute(0, threshold).status(), Status::SUCCESS);
    driver.set(Register::Intms, 0b11);
    let admin = [Register::Aqa, Register::Asq, Register::Acq].map(|register| driver.get(register));
    let mut pair = driver.pairs[0];
    driver.set(Register::Cc, Driver::cc(Arbitration::WeightedUrgent).with_mps(1).into_bits());
    driver.run();
    assert_eq!([Register::Aqa, Register::Asq, Register::Acq].map(|register| driver.get(register)), admin);
    assert_eq!([Register::Cc, Register::Csts, Register::Intms].map(|register| driver.get(register)), [0; 3]);
    driver.bytes_mut(pair.cq, 32 * 16).fill(0);
    (pair.tail, pair.head, pair.phase) = (0, 0, nvme_spec::cqe::Phase::FIRST);
    driver.pairs = vec![pair];
    driver.set(Register::Cc, Driver::cc(Arbitration::RoundRobin).with_en(true).into_bits());
    driver.run();
    let cqe = driver.execute(0, get_feature(Cid(0), Feature::InterruptCoalescing));
    assert_eq!((cqe.status(), cqe.dw0, cqe.sq_head()), (Status::SUCCESS, 0, 1));
    driver.create_pair(1, 64, QueuePriority::Urgent);
    driver.assert_clean();
}
