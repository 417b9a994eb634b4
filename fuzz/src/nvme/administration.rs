//! Calls of the component that administers the controller: any commands, with any rights, beside a tenant at work.
//!
//! The law: every call is answered. The controller gets a command that only an administrator gives if such a command with its right
//! was accepted, and never one of those that nobody may give. Data move between the controller and the ranges of accepted commands, and
//! nowhere else in the asker's window and the tenant's.

use super::support::{Act, Setup, System, WINDOW, entry};
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use blk_api::administration::{
    COLLECT, COUNTS, Command, DONE, EXECUTE, OUTSTANDING, POOL_PAGES, REGISTERS, RESET, Reset, Right, Rights, SUBMIT,
};
use blk_api::request::Opcode;
use nvme_spec::admin::Opcode as Admin;
use platform::{Memory, Message};
use std::collections::BTreeMap;

/// The target.
pub const TARGET: Target = Target { name: "administration", law, seeds };

const STEPS: usize = 48;
/// Bytes where nothing was written.
const UNTOUCHED: u8 = 0xa5;
/// Seconds in which all commands end.
const SECONDS: u64 = 3;

/// The commands accepted so far.
#[derive(Default)]
struct Accepted {
    opcodes: Vec<u32>,
    /// Bytes of the window that commands may move, first and end.
    ranges: Vec<(u64, u64)>,
    /// Calls that are waited for.
    waited: BTreeMap<u64, Command>,
}

fn law(input: &[u8], subject: Subject) {
    let mut rest = Unstructured::new(input);
    let mut setup = Setup { administration: Some(Right::ALL.into_iter().collect()), ..Setup::default() };
    setup.dma_pages += POOL_PAGES as u32;
    setup.shape.subsystem_reset = true;
    let mut system = System::serving(setup, 1);
    system.world.state().controller.forgives_fields = true;
    for window in [&system.asker, &system.clients[0].window] {
        window.write_bytes(0, &vec![UNTOUCHED; WINDOW]).expect("a window");
    }
    let mut accepted = Accepted::default();
    for _ in 0..STEPS {
        if rest.is_empty() || step(&mut system, &mut rest, &mut accepted).is_err() {
            break;
        }
        assert_commands(&system, &accepted, subject);
    }
    system.pass(SECONDS);
    assert_commands(&system, &accepted, subject);
    for call in accepted.waited.keys() {
        assert!(system.answer(*call).is_some(), "a call without an answer");
    }
    for _ in 0..OUTSTANDING {
        call(&mut system, Rights::NONE, Message::new(COLLECT));
    }
    let mut window = vec![0; WINDOW];
    system.asker.read_bytes(0, &mut window).expect("a window");
    let is_allowed = |at: u64| accepted.ranges.iter().any(|(first, end)| (*first..*end).contains(&at));
    assert!(
        (0..).zip(&window).all(|(at, byte)| *byte == UNTOUCHED || is_allowed(at)),
        "bytes beyond the commands' ranges"
    );
    system.clients[0].window.read_bytes(0, &mut window).expect("a window");
    assert!(window.iter().all(|byte| *byte == UNTOUCHED), "bytes in a tenant's window");
}

/// Makes a call that is answered at once; returns whether it was carried out.
fn call(system: &mut System, rights: Rights, message: Message) -> bool {
    let call = system.begin(rights.badge(), message);
    system.answer(call).expect("a call is answered").label == DONE
}

fn step(system: &mut System, input: &mut Unstructured<'_>, accepted: &mut Accepted) -> Result<()> {
    let bits: u8 = input.arbitrary()?;
    let rights = Right::ALL.into_iter().filter(|right| bits & 1 << *right as u8 != 0).collect::<Rights>();
    match input.int_in_range(0..=6u8)? {
        0 => {
            let command = command(input)?;
            if call(system, rights, Message::with(SUBMIT, &command)) {
                note(&command, accepted);
            }
        }
        1 => {
            let command = command(input)?;
            let call = system.begin(rights.badge(), Message::with(EXECUTE, &command));
            match system.answer(call) {
                Some(answer) if answer.label != DONE => {}
                answer => {
                    note(&command, accepted);
                    if answer.is_none() {
                        accepted.waited.insert(call, command);
                    }
                }
            }
        }
        2 => {
            let reset = Reset { token: 0, kind: u64::from(input.int_in_range(0..=3u8)?) };
            call(system, rights, Message::with(RESET, &reset));
        }
        3 => {
            let label = [COLLECT, COUNTS, REGISTERS, 1, 16, u32::MAX][usize::from(input.int_in_range(0..=5u8)?)];
            call(system, rights, Message::new(label));
        }
        4 => {
            let words = [input.arbitrary()?, input.arbitrary()?];
            call(system, rights, Message::from_words(SUBMIT, &words));
        }
        5 => {
            // Blocks are not read, so that the tenant's window stays as it is.
            system.submit(0, &[entry(Opcode::Flush, 0, 0, 0)]);
            system.completions(0);
        }
        _ => system.tick(),
    }
    Ok(())
}

/// A command of any fields, often one whose data lie in the window.
fn command(input: &mut Unstructured<'_>) -> Result<Command> {
    let mut command = Command {
        queue: u32::from(input.int_in_range(0..=1u8)?),
        opcode: u32::from(input.arbitrary::<u8>()?),
        nsid: [0, 1, 2, u32::MAX][usize::from(input.int_in_range(0..=3u8)?)],
        offset: u64::from(input.arbitrary::<u8>()?) * 1020,
        bytes: 4096,
        ..Command::default()
    };
    command.cdw10[0] = input.arbitrary()?;
    match input.int_in_range(0..=3u8)? {
        0 => {
            (command.offset, command.bytes) = (input.arbitrary()?, input.arbitrary()?);
            (command.queue, command.nsid) = (input.arbitrary()?, input.arbitrary()?);
        }
        1 => command.cdw10 = input.arbitrary()?,
        2 => (command.cdw2, command.cdw10) = (input.arbitrary()?, input.arbitrary()?),
        _ => {}
    }
    Ok(command)
}

fn note(command: &Command, accepted: &mut Accepted) {
    if command.queue == 0 {
        accepted.opcodes.push(command.opcode);
    }
    accepted.ranges.push((command.offset, command.offset + u64::from(command.bytes)));
}

/// Checks the admin commands that the controller has got since the last time.
fn assert_commands(system: &System, accepted: &Accepted, subject: Subject) {
    for act in system.take_acts() {
        let Act::Admin(opcode, cdw10) = act else { continue };
        // The planted defect: as if nobody could read a log page, and the server read none.
        let is_planted = subject == Subject::Planted && opcode == Admin::GetLogPage;
        let may_be = match opcode {
            Admin::NamespaceManagement
            | Admin::NamespaceAttachment
            | Admin::FormatNvm
            | Admin::FirmwareDownload
            | Admin::FirmwareCommit
            | Admin::DeviceSelfTest
            | Admin::Sanitize => accepted.opcodes.contains(&(opcode as u32)),
            Admin::KeepAlive
            | Admin::DirectiveSend
            | Admin::DirectiveReceive
            | Admin::VirtualizationManagement
            | Admin::Lockdown
            | Admin::DoorbellBufferConfig
            | Admin::SecuritySend
            | Admin::SecurityReceive => false,
            _ => !is_planted,
        };
        assert!(may_be, "{opcode:?} with CDW10 {cdw10:#x}, which nobody may give");
    }
}

/// The SMART log; a namespace that is deleted; a reset beside a flush.
fn seeds() -> Vec<Vec<u8>> {
    let submit = |opcode: Admin, nsid: u8, cdw10: u32| {
        [&[0xff, 0, 0, opcode as u8, nsid, 4][..], &cdw10.to_le_bytes(), &[3]].concat()
    };
    let tick = [0, 6];
    let smart = submit(Admin::GetLogPage, 3, 0x007f_0002);
    let delete = submit(Admin::NamespaceManagement, 1, 1);
    vec![
        [&smart[..], &tick].concat(),
        [&delete[..], &tick, &[0, 5], &smart].concat(),
        vec![0xff, 2, 1, 0, 5, 0, 6, 0, 3, 0],
    ]
}
