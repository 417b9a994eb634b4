//! The far end before the whole NVMe server, in the world of the server's own tests.

use super::*;
use blk_api::administration::{POOL_PAGES, Rights};
use nvme_spec::admin::Opcode;
use nvme_spec::identify;
use nvme_spec::registers::Cap;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use support::{Setup, System, WINDOW};
use zerocopy::{FromBytes as _, FromZeros as _};

#[expect(dead_code, unused_imports, reason = "the server's tests use more of their world than these")]
#[path = "../../../../nvme-server/tests/server/support/mod.rs"]
mod support;

/// Seconds in which every command ends.
const PATIENCE_SECONDS: u32 = 60;

enum Asked {
    Call(Message),
    Read(usize),
    Write(Vec<u8>),
    /// A second passes.
    Wait,
}

enum Answered {
    Call(Message),
    Read(Vec<u8>),
    Done,
}

/// A system on a thread of its own, since it does not leave the one on which it was made.
struct Remote {
    ask: Sender<Asked>,
    answers: Receiver<Answered>,
    patience: u32,
}

impl Remote {
    fn start(rights: Rights) -> Self {
        let (ask, asked) = channel();
        let (answer, answers) = channel();
        thread::spawn(move || {
            let mut setup = Setup { administration: Some(rights), ..Setup::default() };
            setup.dma_pages += POOL_PAGES as u32;
            setup.shape.subsystem_reset = true;
            let mut system = System::serving(setup, 1);
            while let Ok(asked) = asked.recv() {
                use platform::Memory as _;
                let done = match asked {
                    Asked::Call(message) => {
                        let call = system.begin(rights.badge(), message);
                        Answered::Call(system.answer(call).expect("an answer"))
                    }
                    Asked::Read(bytes) => {
                        let mut read = vec![0; bytes];
                        system.asker.read_bytes(0, &mut read).expect("the window");
                        Answered::Read(read)
                    }
                    Asked::Write(bytes) => {
                        system.asker.write_bytes(0, &bytes).expect("the window");
                        Answered::Done
                    }
                    Asked::Wait => {
                        system.pass(1);
                        Answered::Done
                    }
                };
                if answer.send(done).is_err() {
                    break;
                }
            }
        });
        Self { ask, answers, patience: PATIENCE_SECONDS }
    }

    fn ask(&self, asked: Asked) -> Answered {
        self.ask.send(asked).expect("the system");
        self.answers.recv().expect("the system")
    }
}

impl Asker for Remote {
    fn call(&mut self, message: Message) -> Result<Message, Refused> {
        match self.ask(Asked::Call(message)) {
            Answered::Call(answer) => Ok(answer),
            _ => panic!("an answer to a call"),
        }
    }

    fn window_bytes(&self) -> usize {
        WINDOW
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        match self.ask(Asked::Read(bytes.len())) {
            Answered::Read(read) => bytes.copy_from_slice(&read),
            _ => panic!("the bytes"),
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.ask(Asked::Write(bytes.to_vec()));
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Refused> {
        self.patience = self.patience.checked_sub(1).ok_or(Refused(Refusal::Timeout, "no answer".into()))?;
        self.ask(Asked::Wait);
        Ok(())
    }
}

fn far(rights: impl IntoIterator<Item = Right>) -> Administered<Remote> {
    Administered::new(Remote::start(rights.into_iter().collect()))
}

const fn admin(opcode: Opcode, nsid: u32, cdw10: u32) -> Command {
    Command { queue: Queue::Admin, opcode: opcode as u8, nsid, cdw2: [0; 2], cdw10: [cdw10, 0, 0, 0, 0, 0] }
}

const fn io(opcode: u8, nsid: u32, lba: u32, blocks: u32) -> Command {
    Command { queue: Queue::Io, opcode, nsid, cdw2: [0; 2], cdw10: [lba, 0, blocks - 1, 0, 0, 0] }
}

fn refusal(result: Result<Completion, Refused>) -> Refusal {
    result.expect_err("a refusal").0
}

#[test]
fn commands_reach_the_controller_of_a_server_at_work() {
    let mut far = far(Right::ALL);
    let done = far.execute(&admin(Opcode::Identify, 0, 1), &Data::In(4096)).unwrap();
    let about = identify::Controller::read_from_bytes(&done.data).unwrap();
    assert_eq!((done.status, about.mdts), (0, 1));
    let sent: Vec<u8> = (0..8 * 512).map(|n| (n % 251) as u8).collect();
    assert_eq!(far.execute(&io(1, 1, 2000, 8), &Data::Out(sent.clone())).unwrap().status, 0);
    assert_eq!(far.execute(&io(2, 1, 2000, 8), &Data::In(4096)).unwrap().data, sent);
    let failed = far.execute(&io(2, 1, 4096, 8), &Data::In(4096)).unwrap();
    assert_eq!(Status::from_raw(failed.status).code(), StatusCode::LbaOutOfRange);
    let absent = far.execute(&io(2, 9, 0, 8), &Data::In(4096)).unwrap();
    assert_eq!(Status::from_raw(absent.status).code(), StatusCode::InvalidNamespaceOrFormat);
    let registers = far.registers();
    let (cap, _) = u64::read_from_prefix(&registers).unwrap();
    assert_eq!((registers.len(), Cap::from_bits(cap).mqes_z()), (DOORBELL_BASE, 63));
}

#[test]
fn namespaces_are_created_and_deleted_and_the_controller_is_reset() {
    let mut far = far(Right::ALL);
    assert_eq!(far.execute(&admin(Opcode::NamespaceManagement, 1, 1), &Data::None).unwrap().status, 0);
    let mut wanted = identify::Namespace::new_zeroed();
    wanted.nsze.set(1024);
    wanted.ncap.set(1024);
    let created = far.execute(&admin(Opcode::NamespaceManagement, 0, 0), &Data::Out(wanted.as_bytes().to_vec()));
    let created = created.unwrap();
    assert_eq!((created.status, created.result), (0, 1));
    let list = identify::ControllerList::of([0].into_iter());
    let attach = admin(Opcode::NamespaceAttachment, 1, 0);
    assert_eq!(far.execute(&attach, &Data::Out(list.as_bytes().to_vec())).unwrap().status, 0);
    far.reset().unwrap();
    far.reset_subsystem().unwrap();
    assert_eq!(far.execute(&io(2, 1, 0, 8), &Data::In(4096)).unwrap().status, 0);
}

#[test]
fn refusals_of_the_server_are_those_of_a_policy() {
    let mut inspecting = far([Right::Inspect]);
    let set = admin(Opcode::SetFeatures, 0, 4);
    assert_eq!(refusal(inspecting.execute(&set, &Data::None)), Refusal::Forbidden);
    assert_eq!(inspecting.reset().unwrap_err().0, Refusal::Forbidden);
    let sentence = inspecting.execute(&set, &Data::None).unwrap_err().1;
    assert_eq!(sentence, "the scenario does not give the right \"features\": add it to `administration` of [control]");
    let mut far = far(Right::ALL);
    assert_eq!(refusal(far.execute(&admin(Opcode::Lockdown, 0, 0), &Data::None)), Refusal::Forbidden);
    assert_eq!(refusal(far.execute(&admin(Opcode::Identify, 0, 1), &Data::In(512))), Refusal::Invalid);
    assert_eq!(refusal(far.execute(&io(2, 1, 0, 8), &Data::In(WINDOW as u32 + 4))), Refusal::Invalid);
}

#[test]
fn what_earlier_askers_have_left_is_let_go() {
    let mut far = far(Right::ALL);
    // As many as the server keeps, of askers that were killed.
    for token in 1..=api::OUTSTANDING as u64 {
        let left = api::Command { token, bytes: 4096, opcode: 6, cdw10: [1, 0, 0, 0, 0, 0], ..api::Command::default() };
        far.call(Message::with(SUBMIT, &left)).unwrap().unwrap();
    }
    assert_eq!(far.execute(&admin(Opcode::Identify, 0, 1), &Data::In(4096)).unwrap().status, 0);
    far.reset().unwrap();
}

/// A server that is another one after the submission.
struct Successor;

impl Asker for Successor {
    fn call(&mut self, message: Message) -> Result<Message, Refused> {
        Ok(match message.label {
            SUBMIT => Message::new(DONE),
            COUNTS => Message::with(DONE, &Counts::default()),
            _ => api::Refusal::Nothing.message(),
        })
    }

    fn window_bytes(&self) -> usize {
        WINDOW
    }

    fn read(&mut self, _: &mut [u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn write(&mut self, _: &[u8]) -> Result<(), Refused> {
        Ok(())
    }

    fn wait(&mut self) -> Result<(), Refused> {
        Ok(())
    }
}

#[test]
fn a_command_that_its_server_took_to_the_grave_is_not_waited_for() {
    let lost = Administered::new(Successor).execute(&admin(Opcode::Identify, 0, 1), &Data::In(4096)).unwrap_err();
    assert_eq!(lost.0, Refusal::Timeout);
    assert!(lost.1.contains("the command may have been executed"), "{}", lost.1);
}
