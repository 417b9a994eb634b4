//! Lockdown where any function may attach and detach namespaces, as with QEMU's controllers: a virtual function cannot undo it.

use nvme_spec::admin::{self, Attachment, FormatDw10, Lock, Opcode, lock_command};
use nvme_spec::identify::{Controller as About, ControllerList};
use nvme_spec::{Nsid, Sqe, StatusCode};
use sim_nvme::{AdminConfig, Config, Controller, SecondaryCommands};

use super::support::{CID, Subsystem, config, read};
use crate::admin::support::{Driver, PAGE};

/// Commands by which a virtual function can reach its neighbours' namespaces.
const REACHING: [Opcode; 2] = [Opcode::NamespaceManagement, Opcode::NamespaceAttachment];

/// Two secondary controllers are up, with a namespace each, and have the primary controller's commands.
fn subsystem() -> Subsystem {
    let admin = AdminConfig { secondary_commands: SecondaryCommands::AsPrimary, ..AdminConfig::default() };
    let (primary, secondaries) = Controller::with_secondaries(Config { admin, ..config() }, 1);
    let mut subsystem = Subsystem::of(primary, secondaries);
    subsystem.free();
    subsystem.bring_up(1);
    subsystem.bring_up(2);
    subsystem
}

fn detach(driver: &mut Driver, id: u16, nsid: u32) -> Sqe {
    driver.put(&ControllerList::of([id].into_iter()));
    admin::namespace_attachment(CID, Attachment::Detach, Nsid(nsid), PAGE)
}

fn lock_down(subsystem: &mut Subsystem, opcodes: &[Opcode]) {
    for &opcode in opcodes {
        subsystem.primary.succeed(lock_command(CID, Lock::Prohibit, opcode));
    }
}

#[test]
fn without_a_lockdown_a_virtual_function_takes_its_neighbours_namespace_away() {
    let mut subsystem = subsystem();
    assert_eq!(read(subsystem.secondary(2), 2), Ok(0));
    let attacker = subsystem.secondary(1);
    let sqe = detach(attacker, 2, 2);
    attacker.succeed(sqe);
    assert!(read(subsystem.secondary(2), 2).is_err());
}

#[test]
fn a_locked_command_reaches_no_neighbour() {
    let mut subsystem = subsystem();
    lock_down(&mut subsystem, &REACHING);
    let attacker = subsystem.secondary(1);
    let sqe = detach(attacker, 2, 2);
    attacker.refuse(sqe, StatusCode::CommandProhibited);
    attacker.refuse(admin::delete_namespace(CID, Nsid(2)), StatusCode::CommandProhibited);
    attacker.refuse(admin::delete_namespace(CID, Nsid::ALL), StatusCode::CommandProhibited);
    assert_eq!(read(subsystem.secondary(2), 2), Ok(0));
    // Nor can the primary controller use it, until it allows it again.
    let sqe = subsystem.attachment(Attachment::Detach, &[0], 3);
    subsystem.primary.refuse(sqe, StatusCode::CommandProhibited);
    subsystem.primary.succeed(lock_command(CID, Lock::Allow, Opcode::NamespaceAttachment));
    subsystem.detach(&[0], 3);
}

#[test]
fn a_virtual_function_cannot_undo_a_lockdown() {
    let mut subsystem = subsystem();
    lock_down(&mut subsystem, &REACHING);
    lock_down(&mut subsystem, &[Opcode::Lockdown]);
    let tries = |subsystem: &mut Subsystem| {
        let attacker = subsystem.secondary(1);
        for opcode in [Opcode::Lockdown, Opcode::NamespaceAttachment, Opcode::NamespaceManagement] {
            attacker.refuse(lock_command(CID, Lock::Allow, opcode), StatusCode::CommandProhibited);
        }
        let sqe = detach(attacker, 2, 2);
        attacker.refuse(sqe, StatusCode::CommandProhibited);
    };
    tries(&mut subsystem);
    // By resets of its own.
    subsystem.secondary(1).reset();
    tries(&mut subsystem);
    subsystem.secondary(1).controller.function_level_reset();
    subsystem.secondary(1).enable();
    tries(&mut subsystem);
    // By a loss of power of its own function, of which it can only pretend one.
    subsystem.secondary(1).lose_power();
    tries(&mut subsystem);
    assert_eq!(read(subsystem.secondary(2), 2), Ok(0));
    // A reset of the primary controller keeps it, and a loss of power ends it.
    subsystem.primary.reset();
    subsystem.primary.refuse(admin::delete_namespace(CID, Nsid(4)), StatusCode::CommandProhibited);
    subsystem.primary.lose_power();
    subsystem.primary.succeed(admin::delete_namespace(CID, Nsid(4)));
}

#[test]
fn a_virtual_function_formats_its_own_namespace_unless_that_is_locked() {
    let mut subsystem = subsystem();
    lock_down(&mut subsystem, &REACHING);
    let format = admin::format_nvm(CID, Nsid(1), FormatDw10::new());
    subsystem.secondary(1).succeed(format);
    lock_down(&mut subsystem, &[Opcode::FormatNvm]);
    subsystem.secondary(1).refuse(format, StatusCode::CommandProhibited);
}

#[test]
fn by_default_virtual_functions_have_no_lockdown_to_undo_it_with() {
    let mut subsystem = Subsystem::online(1);
    let attacker = subsystem.secondary(1);
    attacker.refuse(lock_command(CID, Lock::Allow, Opcode::NamespaceAttachment), StatusCode::InvalidOpcode);
    attacker.succeed(admin::identify_controller(CID, PAGE));
    let about: About = attacker.data();
    assert!(!about.optional_admin().lockdown());
    subsystem.primary.succeed(admin::identify_controller(CID, PAGE));
    assert!(subsystem.primary.data::<About>().optional_admin().lockdown());
}
