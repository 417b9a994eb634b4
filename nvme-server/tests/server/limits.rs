//! Limits of commands without data, and discards that the controller refuses.

use crate::support::{Setup, System, entry, session};
use blk_api::Status;
use blk_api::request::Opcode;
use nvme_spec::{StatusCode, admin, nvm};
use sim_nvme::config::CommandLimits;

const LIMITS: CommandLimits = CommandLimits { vsl: 1, wzsl: 2, dmrl: 1, dmrsl: 100, dmsl: 90 };

fn setup(version: (u16, u8), limits: CommandLimits) -> Setup {
    let mut setup = Setup { sessions: vec![session("only", 0)], ..Setup::default() };
    (setup.shape.version, setup.shape.limits) = (version, limits);
    setup
}

/// Blocks that each command of a request of 900 blocks named. The controller complains of commands beyond its limits.
fn named(system: &mut System, opcode: Opcode) -> Vec<u64> {
    system.controller(|controller, _| controller.named.clear());
    assert_eq!(system.request(0, entry(opcode, 0, 900, 0)).status(), Some(Status::Success));
    system.controller(|controller, _| controller.named.iter().map(|(_, range)| range.end - range.start).collect())
}

#[test]
fn requests_without_data_are_cut_to_what_the_controller_states() {
    let mut system = System::serving(setup((2, 0), LIMITS), 1);
    assert_eq!(named(&mut system, Opcode::Discard), [90; 10], "the lesser of one range and all");
    let zeroed = named(&mut system, Opcode::WriteZeroes);
    assert_eq!((zeroed[..28].to_vec(), zeroed[28..].to_vec()), (vec![32; 28], vec![4]), "four pages a command");
    assert_eq!(system.controller(|controller, _| controller.disk(0..900 * 512)), vec![0; 900 * 512]);
    let verified = named(&mut system, Opcode::Verify);
    assert_eq!((verified[..56].to_vec(), verified[56..].to_vec()), (vec![16; 56], vec![4]), "two pages a command");
}

#[test]
fn a_verify_has_the_limit_of_a_transfer_too() {
    for (mdts, vsl, expected) in [(3, 0, 64), (3, 1, 16), (1, 5, 16)] {
        let mut setup = setup((2, 0), CommandLimits { vsl, ..CommandLimits::default() });
        setup.shape.mdts = mdts;
        let mut system = System::serving(setup, 1);
        assert_eq!(named(&mut system, Opcode::Verify)[..10], [expected; 10], "MDTS {mdts}, VSL {vsl}");
    }
}

#[test]
fn zeroes_without_a_limit_of_their_own_have_that_of_a_transfer() {
    for version in [(1, 4), (2, 0)] {
        let mut system = System::serving(setup(version, CommandLimits::default()), 1);
        assert_eq!(named(&mut system, Opcode::WriteZeroes)[..56], [16; 56]);
        assert_eq!(named(&mut system, Opcode::Discard), [900]);
    }
}

#[test]
fn limits_are_asked_for_where_they_are_stated_and_may_be_refused() {
    let asked = |setup: Setup, refuses: bool| {
        let asked = std::rc::Rc::new(std::cell::Cell::new(0));
        let count = std::rc::Rc::clone(&asked);
        let mut system = System::start_with(setup, |controller, _| {
            controller.refuses_limits = refuses;
            controller.lies.describe = Some(Box::new(move |cns, _, _| {
                count.set(count.get() + u32::from(cns == admin::Cns::CommandSetController as u8));
            }));
        });
        system.open(0).unwrap();
        (asked.get(), named(&mut system, Opcode::Discard))
    };
    assert_eq!(asked(setup((1, 4), CommandLimits::default()), false), (0, vec![900]));
    assert_eq!(asked(setup((2, 0), LIMITS), false).0, 1);
    assert_eq!(asked(setup((2, 0), CommandLimits::default()), true), (0, vec![900]), "it is used without");
}

#[test]
fn discard_that_the_controller_refuses_is_no_failure() {
    let mut system = System::serving(Setup::default(), 1);
    let refused = StatusCode::InvalidField.into();
    system.controller(|controller, _| controller.fails = Some((refused, 1)));
    assert_eq!(system.request(0, entry(Opcode::Discard, 0, 8, 0)).status(), Some(Status::Success));
    system.controller(|controller, _| controller.fails = Some((refused, 1)));
    assert_eq!(system.request(0, entry(Opcode::WriteZeroes, 0, 8, 0)).status(), Some(Status::DeviceError));
    let opcodes: Vec<_> = system.world.state().controller.submitted.iter().map(|(_, sqe)| sqe.opcode()).collect();
    let expected = [nvm::Opcode::DatasetManagement, nvm::Opcode::WriteZeroes].map(|opcode| opcode as u8);
    assert_eq!(opcodes, expected);
}
