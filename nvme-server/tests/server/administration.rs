//! Administration by another component: what passes and what not, what becomes of tenants, and resets.

use crate::support::{ADMINISTRATOR, Act, Setup, System, WINDOW, entry, reads, session};
use blk_api::Status as Outcome;
use blk_api::administration::{
    COLLECT, COUNTS, Command, Completion, Counts, DONE, EXECUTE, Ended, OUTSTANDING, Queue, REGISTERS, RESET, Refusal,
    Registers, Reset, ResetKind, Right, Rights, SUBMIT,
};
use blk_api::request::Opcode;
use nvme_spec::admin::{
    Attachment, CommitAction, CommitDw10, FormatDw10, Management, Opcode as Admin, SanitizeAction, SanitizeDw10,
};
use nvme_spec::feature::Feature;
use nvme_spec::identify::{self, CommandSetId};
use nvme_spec::registers::Cap;
use nvme_spec::{Status, StatusCode, nvm};
use platform::{Memory, Message};
use report::Report;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

const TOKEN: u64 = 0x70_6b_65_6e;
/// Bytes that a test finds where nothing was written.
pub(crate) const UNTOUCHED: u8 = 0xa5;

pub(crate) fn administered() -> Setup {
    let mut setup = Setup { administration: Some(Right::ALL.into_iter().collect()), ..Setup::default() };
    setup.dma_pages += blk_api::administration::POOL_PAGES as u32;
    setup
}

/// A system with two namespaces, of which each of two tenants has one, open.
fn of_two_namespaces() -> System {
    let mut setup = administered();
    setup.shape.command_sets = vec![CommandSetId::Nvm];
    setup.shape.blocks = 1024;
    let mut second = session("second", 0);
    second.config.nsid = 2;
    setup.sessions = vec![session("first", 0), second];
    System::serving(setup, 2)
}

fn admin(opcode: Admin, nsid: u32, cdw10: u32, bytes: u32) -> Command {
    let opcode = opcode as u32;
    Command { token: TOKEN, bytes, opcode, nsid, cdw10: [cdw10, 0, 0, 0, 0, 0], ..Command::default() }
}

fn io(opcode: nvm::Opcode, lba: u32, blocks: u32, offset: u64) -> Command {
    let (queue, opcode, bytes) = (Queue::Io as u32, opcode as u32, blocks * 512);
    let cdw10 = [lba, 0, blocks - 1, 0, 0, 0];
    Command { token: TOKEN, offset, bytes, queue, opcode, nsid: 1, cdw10, ..Command::default() }
}

/// Makes a call, with these rights, that is answered at once.
fn administer(
    system: &mut System,
    rights: impl IntoIterator<Item = Right>,
    message: Message,
) -> Result<Message, Refusal> {
    let call = system.begin(rights.into_iter().collect::<Rights>().badge(), message);
    let answer = system.answer(call).expect("an answer");
    if answer.label == DONE { Ok(answer) } else { Err(Refusal::of(&answer)) }
}

pub(crate) fn submit(system: &mut System, command: &Command) -> Result<(), Refusal> {
    administer(system, Right::ALL, Message::with(SUBMIT, command)).map(drop)
}

pub(crate) fn collect(system: &mut System) -> Result<Completion, Refusal> {
    let answer = administer(system, Right::ALL, Message::new(COLLECT))?;
    Ok(answer.payload().unwrap())
}

/// Submits a command, and collects its completion within a second.
fn execute(system: &mut System, command: &Command) -> Completion {
    submit(system, command).unwrap();
    system.pass(1);
    collect(system).unwrap()
}

fn succeed(system: &mut System, command: &Command) -> u64 {
    let completion = execute(system, command);
    assert_eq!((completion.ended(), completion.status), (Ended::Completed, 0), "{command:?}");
    completion.result
}

fn counts(system: &mut System) -> Counts {
    administer(system, [], Message::new(COUNTS)).unwrap().payload().unwrap()
}

fn signals(system: &System) -> u64 {
    system.world.state().client_signals.get(&ADMINISTRATOR).copied().unwrap_or(0)
}

/// Admin commands that the controller has got.
pub(crate) fn commands(system: &System) -> Vec<Admin> {
    let admin = |act| if let Act::Admin(opcode, _) = act { Some(opcode) } else { None };
    system.take_acts().into_iter().filter_map(admin).collect()
}

/// Creates a namespace of so many blocks and attaches it to the controller.
fn create(system: &mut System, blocks: u64) -> u32 {
    let mut wanted = identify::Namespace::new_zeroed();
    wanted.nsze.set(blocks);
    wanted.ncap.set(blocks);
    system.asker.write_bytes(0, wanted.as_bytes()).unwrap();
    let nsid = succeed(system, &admin(Admin::NamespaceManagement, 0, Management::Create as u32, 4096)) as u32;
    attach(system, nsid);
    nsid
}

fn attach(system: &mut System, nsid: u32) {
    let list = identify::ControllerList::of([0].into_iter());
    system.asker.write_bytes(0, list.as_bytes()).unwrap();
    succeed(system, &admin(Admin::NamespaceAttachment, nsid, Attachment::Attach as u32, 4096));
}

fn delete(nsid: u32) -> Command {
    admin(Admin::NamespaceManagement, nsid, Management::Delete as u32, 0)
}

#[test]
fn a_command_is_submitted_signalled_and_collected() {
    let mut system = System::serving(administered(), 1);
    let identify = Command { offset: 4092, ..admin(Admin::Identify, 0, 1, 4096) };
    assert_eq!(collect(&mut system), Err(Refusal::Nothing));
    let before = signals(&system);
    succeed(&mut system, &identify);
    assert_eq!(signals(&system), before + 1);
    let mut bytes = [0; 4096];
    system.asker.read_bytes(4092, &mut bytes).unwrap();
    let about = identify::Controller::read_from_bytes(&bytes).unwrap();
    assert_eq!(about.mdts, 1);
    assert_eq!(collect(&mut system), Err(Refusal::Nothing), "it is collected once");
    assert_eq!(counts(&mut system), Counts { accepted: 1, ended: 1, refused: 0 });
}

#[test]
fn a_command_is_waited_for_beside_others() {
    let mut system = System::serving(administered(), 1);
    let badge = Right::ALL.into_iter().collect::<Rights>().badge();
    system.controller(|controller, _| controller.deaf_to = Some(Admin::GetFeatures));
    let get = admin(Admin::GetFeatures, 0, Feature::TemperatureThreshold as u32, 0);
    let waited = system.begin(badge, Message::with(EXECUTE, &get));
    assert_eq!(system.answer(waited), None);
    let second = administer(&mut system, Right::ALL, Message::with(EXECUTE, &get));
    assert_eq!(second, Err(Refusal::Busy), "one is waited for at a time");
    succeed(&mut system, &admin(Admin::Identify, 0, 1, 4096));
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status, 0);
    system.controller(|controller, bus| controller.hear(bus));
    let answer = system.answer(waited).expect("the completion");
    let completion: Completion = answer.payload().unwrap();
    assert_eq!((completion.token, completion.status, completion.ended()), (TOKEN, 0, Ended::Completed));
    assert_eq!(signals(&system), 1, "for the other");
}

#[test]
fn as_many_commands_are_outstanding_as_there_are_slots() {
    let mut system = System::serving(administered(), 1);
    system.controller(|controller, _| controller.deaf_to = Some(Admin::GetLogPage));
    let log = |token| Command { token, ..admin(Admin::GetLogPage, u32::MAX, 0x007f_0002, 512) };
    for token in 0..OUTSTANDING as u64 {
        submit(&mut system, &Command { offset: 512 * token, ..log(token) }).unwrap();
    }
    assert_eq!(submit(&mut system, &log(99)), Err(Refusal::Busy));
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status, 0);
    system.open(1).unwrap();
    system.controller(|controller, bus| controller.hear(bus));
    let mut tokens: Vec<u64> = (0..OUTSTANDING).map(|_| collect(&mut system).unwrap().token).collect();
    tokens.sort();
    assert_eq!(tokens, (0..OUTSTANDING as u64).collect::<Vec<_>>());
    submit(&mut system, &log(99)).unwrap();
}

#[test]
fn refusals_have_reasons_and_reach_no_queue() {
    let mut system = System::serving(administered(), 1);
    commands(&system);
    let identify = admin(Admin::Identify, 0, 1, 4096);
    let not_allowed = |opcode: Admin, cdw10| Refusal::NotAllowed { queue: 0, opcode: opcode as u32, cdw10 };
    let outside = |offset, bytes| Refusal::OutsideWindow { offset, bytes, has: WINDOW as u64 };
    let cases = [
        (admin(Admin::CreateIoSq, 0, 1, 0), not_allowed(Admin::CreateIoSq, 1)),
        (admin(Admin::AsyncEventRequest, 0, 0, 0), not_allowed(Admin::AsyncEventRequest, 0)),
        (admin(Admin::SetFeatures, 0, 7, 0), not_allowed(Admin::SetFeatures, 7)),
        (admin(Admin::Lockdown, 0, 0, 0), not_allowed(Admin::Lockdown, 0)),
        (Command { bytes: 4095, ..identify }, Refusal::TooShort { bytes: 4095, needed: 4096 }),
        (Command { offset: 2, ..identify }, outside(2, 4096)),
        (Command { offset: WINDOW as u64 - 4092, ..identify }, outside(WINDOW as u64 - 4092, 4096)),
        (Command { offset: u64::MAX - 3, ..identify }, outside(u64::MAX - 3, 4096)),
        (Command { queue: 2, ..identify }, Refusal::BadRequest),
        (Command { opcode: 0x106, ..identify }, Refusal::BadRequest),
        (Command { nsid: 7, ..io(nvm::Opcode::Read, 0, 1, 0) }, Refusal::NoNamespace(7)),
        (Command { bytes: 511, ..io(nvm::Opcode::Read, 0, 1, 0) }, Refusal::TooShort { bytes: 511, needed: 512 }),
    ];
    for (command, refusal) in &cases {
        assert_eq!(submit(&mut system, command), Err(*refusal));
    }
    system.pass(1);
    assert_eq!(commands(&system), []);
    assert_eq!(counts(&mut system), Counts { refused: cases.len() as u64, ..Counts::default() });
}

#[test]
fn each_right_is_needed_and_suffices() {
    let with = |right: Right| {
        let cdw10 = Feature::VolatileWriteCache as u32;
        match right {
            Right::Inspect => admin(Admin::Identify, 0, 1, 4096),
            Right::Features => admin(Admin::SetFeatures, 0, cdw10, 0),
            Right::Namespaces => admin(Admin::FormatNvm, 1, FormatDw10::of(0).into_bits(), 0),
            Right::Firmware => admin(Admin::FirmwareCommit, 0, 0, 0),
            Right::SelfTest => admin(Admin::DeviceSelfTest, u32::MAX, 1, 0),
            Right::Sanitize => admin(Admin::Sanitize, 0, 2, 0),
            Right::Io => Command { cdw10: [0; 6], bytes: 0, ..io(nvm::Opcode::Flush, 0, 1, 0) },
            Right::Reset => Command::default(),
        }
    };
    for right in Right::ALL {
        let message = match right {
            Right::Reset => Message::with(RESET, &Reset { token: TOKEN, kind: ResetKind::Controller as u64 }),
            _ => Message::with(SUBMIT, &with(right)),
        };
        let mut system = System::start(administered());
        let others = Right::ALL.into_iter().filter(|other| *other != right);
        assert_eq!(administer(&mut system, others, message.clone()), Err(Refusal::NoRight(right)));
        administer(&mut system, [right], message).unwrap();
        system.pass(2);
        assert_eq!(collect(&mut system).unwrap().ended(), Ended::Completed, "{right:?}");
    }
}

#[test]
fn a_system_without_administration_has_no_such_call() {
    let mut system = System::serving(Setup::default(), 1);
    let refused = administer(&mut system, Right::ALL, Message::with(SUBMIT, &admin(Admin::Identify, 0, 1, 4096)));
    assert_eq!(refused, Err(Refusal::BadRequest));
    let mut system = System::serving(administered(), 1);
    assert_eq!(system.call(1, SUBMIT), Err(blk_api::session::Refusal::BadRequest), "a client's badge");
}

#[test]
fn io_commands_move_data_of_the_asker() {
    let mut system = System::serving(administered(), 1);
    let pattern: Vec<u8> = (0..9 * 512).map(|n| (n / 7) as u8).collect();
    system.asker.write_bytes(4092, &pattern).unwrap();
    succeed(&mut system, &Command { ..io(nvm::Opcode::Write, 100, 9, 4092) });
    succeed(&mut system, &io(nvm::Opcode::Read, 100, 9, 20_000));
    let mut back = vec![0; pattern.len()];
    system.asker.read_bytes(20_000, &mut back).unwrap();
    assert_eq!(back, pattern);
    assert_eq!(system.request(0, entry(Opcode::Read, 100, 9, 0)).status, 0);
    let mut window = vec![0; pattern.len()];
    system.clients[0].window.read_bytes(0, &mut window).unwrap();
    assert_eq!(window, pattern, "a tenant reads what was written");
    let failed = execute(&mut system, &io(nvm::Opcode::Read, 4095, 2, 0));
    assert_eq!(Status::from_raw(failed.status as u16).code(), StatusCode::LbaOutOfRange);
}

#[test]
fn a_controller_with_too_few_queue_pairs_has_none_for_the_asker() {
    let mut setup = administered();
    setup.shape.queue_pairs = 2;
    let mut system = System::serving(setup, 2);
    assert_eq!(submit(&mut system, &io(nvm::Opcode::Read, 0, 1, 0)), Err(Refusal::NoQueuePair));
}

#[test]
fn registers_are_read_without_a_command() {
    let mut system = System::serving(administered(), 1);
    let answer = administer(&mut system, [Right::Inspect], Message::new(REGISTERS)).unwrap();
    let Registers(values) = answer.payload().unwrap();
    let cap = Cap::from_bits(u64::from(values[0]) | u64::from(values[1]) << 32);
    assert_eq!((cap.mqes_z(), values[2]), (63, 1 << 16 | 4 << 8));
    assert_eq!(administer(&mut system, [], Message::new(REGISTERS)), Err(Refusal::NoRight(Right::Inspect)));
}

#[test]
fn tenants_of_a_namespace_end_before_it_is_deleted() {
    let mut system = of_two_namespaces().holding();
    system.submit(0, &reads(3));
    system.submit(1, &reads(2));
    commands(&system);
    submit(&mut system, &delete(1)).unwrap();
    system.pass(1);
    assert!(!commands(&system).contains(&Admin::NamespaceManagement), "commands are in flight there");
    system.submit(0, &[entry(Opcode::Read, 9, 1, 0)]);
    system.finish_held();
    system.pass(1);
    assert_eq!(commands(&system)[..3], [Admin::DeleteIoSq, Admin::DeleteIoCq, Admin::NamespaceManagement]);
    assert_eq!(collect(&mut system).unwrap().status, 0);
    let statuses: Vec<u16> = system.completions(0).iter().map(|completed| completed.status).collect();
    assert_eq!(statuses, [0, 0, 0, Outcome::DeviceGone as u16]);
    assert_eq!(system.mapped_pages(0), 0, "the device does not reach the window");
    assert_eq!(system.completions(1).len(), 2);
    assert_eq!(system.request(1, entry(Opcode::Read, 1, 1, 0)).status, 0, "the neighbour goes on");
    system.close(0).unwrap();
    assert_eq!(system.open(0), Err(blk_api::session::Refusal::NoSuchBlocks));
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn a_namespace_is_resized_by_deletion_and_creation_while_tenants_come_and_go() {
    let mut system = of_two_namespaces();
    for round in 0..5 {
        succeed(&mut system, &delete(1));
        assert_eq!(system.request(0, entry(Opcode::Read, 0, 1, 0)).status, Outcome::DeviceGone as u16);
        system.close(0).unwrap();
        let blocks = 1024 - 4 * round;
        system.world.state().controller.lies.shape.blocks = blocks;
        assert_eq!(create(&mut system, blocks), 1);
        system.open(0).unwrap();
        assert_eq!(system.request(0, entry(Opcode::Write, 0, 8, 0)).status, 0);
        assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    }
}

#[test]
fn a_detached_namespace_is_the_same_when_it_is_attached_again() {
    let mut system = of_two_namespaces();
    assert_eq!(system.request(0, entry(Opcode::Write, 0, 8, 0)).status, 0);
    let list = identify::ControllerList::of([0].into_iter());
    system.asker.write_bytes(0, list.as_bytes()).unwrap();
    succeed(&mut system, &admin(Admin::NamespaceAttachment, 1, Attachment::Detach as u32, 4096));
    system.close(0).unwrap();
    assert_eq!(system.open(0), Err(blk_api::session::Refusal::NoSuchBlocks));
    attach(&mut system, 1);
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 0, 8, 4096)).status, 0);
}

#[test]
fn a_tenant_cannot_come_back_while_its_namespace_is_formatted() {
    let mut system = of_two_namespaces();
    system.controller(|controller, _| controller.deaf_to = Some(Admin::FormatNvm));
    submit(&mut system, &admin(Admin::FormatNvm, 1, FormatDw10::of(0).into_bits(), 0)).unwrap();
    system.pass(1);
    system.close(0).unwrap();
    assert_eq!(system.open(0), Err(blk_api::session::Refusal::NoSuchBlocks));
    assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    system.controller(|controller, bus| controller.hear(bus));
    system.pass(1);
    assert_eq!(collect(&mut system).unwrap().status, 0);
    system.open(0).unwrap();
}

#[test]
fn a_format_that_a_reset_interrupts_leaves_its_namespace_to_be_served() {
    for is_done in [false, true] {
        let mut system = of_two_namespaces();
        system.controller(|controller, _| controller.deaf_to = Some(Admin::FormatNvm));
        submit(&mut system, &admin(Admin::FormatNvm, 1, FormatDw10::of(0).into_bits(), 0)).unwrap();
        system.pass(1);
        if is_done {
            // The format was executed, and its completion lost.
            describe_eui64(&system, 9);
        }
        system.controller(|controller, bus| controller.strike(bus, sim_fault::ControllerEffect::FatalStatus));
        system.pass(1);
        assert_eq!(collect(&mut system).unwrap().ended(), Ended::Reset);
        system.close(0).unwrap();
        system.open(0).unwrap();
        assert_eq!(system.request(1, entry(Opcode::Read, 0, 1, 0)).status, 0);
    }
}

#[test]
fn a_format_of_all_namespaces_ends_all_tenants() {
    let mut system = of_two_namespaces();
    system.world.state().controller.lies.describe = Some(Box::new(|cns, _, bytes| {
        if cns == 1 {
            identify::Controller::mut_from_prefix(bytes).unwrap().0.fna = 1;
        }
    }));
    system.controller(|controller, _| controller.deaf_to = Some(Admin::FormatNvm));
    submit(&mut system, &admin(Admin::FormatNvm, 1, FormatDw10::of(0).into_bits(), 0)).unwrap();
    system.pass(1);
    for index in [0, 1] {
        assert_eq!(system.request(index, entry(Opcode::Read, 0, 1, 0)).status, Outcome::DeviceGone as u16);
        system.close(index).unwrap();
        assert_eq!(system.open(index), Err(blk_api::session::Refusal::NoSuchBlocks));
    }
    system.controller(|controller, bus| controller.hear(bus));
    system.pass(1);
    assert_eq!(collect(&mut system).unwrap().status, 0);
    for index in [0, 1] {
        system.open(index).unwrap();
    }
}

/// Has the controller say another EUI-64 of namespace 1.
fn describe_eui64(system: &System, number: u8) {
    system.world.state().controller.lies.describe = Some(Box::new(move |cns, _, bytes| {
        let (about, _) = identify::Namespace::mut_from_prefix(bytes).unwrap();
        if cns == 0 && about.nsze.get() == 1024 {
            about.eui64 = [number; 8];
        }
    }));
}

#[test]
fn namespaces_of_virtual_functions_are_left_alone() {
    let mut setup = administered();
    setup.shape.functions = 1;
    setup.shape.flexible = 2;
    let tenant = "frida".to_string();
    setup.functions = vec![blk_api::config::FunctionConfig { tenant, nsid: 2, queue_pairs: 1 }];
    let mut system = System::start(setup);
    system.pass(2);
    assert_eq!(submit(&mut system, &delete(2)), Err(Refusal::OfFunction(2)));
    assert_eq!(submit(&mut system, &delete(u32::MAX)), Err(Refusal::OfFunction(2)));
    assert_eq!(submit(&mut system, &admin(Admin::Sanitize, 0, 2, 0)), Err(Refusal::OfFunction(2)));
}

#[test]
fn a_reset_from_outside_costs_tenants_time_alone() {
    for kind in [ResetKind::Controller, ResetKind::Subsystem] {
        let mut setup = administered();
        setup.shape.subsystem_reset = true;
        let mut system = System::serving(setup, 2).holding();
        system.submit(0, &reads(4));
        let resets = system.world.state().controller.resets;
        administer(&mut system, [Right::Reset], Message::with(RESET, &Reset { token: TOKEN, kind: kind as u64 }))
            .unwrap();
        system.submit(1, &reads(3));
        assert_eq!(system.world.state().controller.resets, resets, "commands are in flight");
        system.finish_held();
        system.pass(1);
        assert!(system.world.state().controller.resets > resets);
        assert_eq!(collect(&mut system).unwrap().ended(), Ended::Completed, "{kind:?}");
        for (index, count) in [(0, 4), (1, 3)] {
            let completions = system.completions(index);
            assert!(completions.iter().all(|completed| completed.status == 0), "{completions:?}");
            assert_eq!(completions.len(), count);
        }
        succeed(&mut system, &io(nvm::Opcode::Read, 0, 1, 0));
        assert_eq!(system.take_failures(), [""; 0]);
    }
}

#[test]
fn a_subsystem_reset_needs_a_controller_that_has_one() {
    let mut system = System::serving(administered(), 1);
    let message = Message::with(RESET, &Reset { token: TOKEN, kind: ResetKind::Subsystem as u64 });
    assert_eq!(administer(&mut system, Right::ALL, message), Err(Refusal::NoSubsystemReset));
    let message = Message::with(RESET, &Reset { token: TOKEN, kind: 2 });
    assert_eq!(administer(&mut system, Right::ALL, message), Err(Refusal::BadRequest));
}

#[test]
fn commands_that_a_reset_ends_are_said_to_be() {
    let mut system = System::serving(administered(), 1);
    system.controller(|controller, _| controller.deaf_to = Some(Admin::GetLogPage));
    submit(&mut system, &admin(Admin::GetLogPage, u32::MAX, 0x007f_0002, 512)).unwrap();
    system.controller(|controller, bus| controller.strike(bus, sim_fault::ControllerEffect::FatalStatus));
    system.pass(1);
    assert_eq!(collect(&mut system).unwrap().ended(), Ended::Reset);
    system.controller(|controller, _| controller.deaf_to = None);
    succeed(&mut system, &admin(Admin::Identify, 0, 1, 4096));
}

#[test]
fn a_command_without_an_answer_leads_to_a_reset() {
    let mut system = System::serving(administered(), 1);
    system.controller(|controller, _| controller.deaf_to = Some(Admin::GetLogPage));
    submit(&mut system, &admin(Admin::GetLogPage, u32::MAX, 0x007f_0002, 512)).unwrap();
    system.pass(62);
    assert_eq!(collect(&mut system).unwrap().ended(), Ended::Reset);
    assert!(system.take_failures()[0].contains("no answer in time"));
}

#[test]
fn a_dead_controller_refuses_and_reaches_no_window() {
    let mut system = System::serving(administered(), 1);
    system.controller(|controller, _| controller.deaf_to = Some(Admin::GetLogPage));
    submit(&mut system, &admin(Admin::GetLogPage, u32::MAX, 0x007f_0002, 512)).unwrap();
    system.controller(|controller, _| controller.absent = true);
    system.pass(30);
    assert_eq!(collect(&mut system).unwrap().ended(), Ended::Reset);
    assert_eq!(submit(&mut system, &admin(Admin::Identify, 0, 1, 4096)), Err(Refusal::Device));
    let frames = system.world.state().bus.mapped.keys().filter(|slot| (9000..9000 + 64).contains(*slot)).count();
    assert_eq!(frames, 0);
}

/// Sets a feature whose value is CDW11, and returns what the controller says of it afterwards.
fn set_feature(system: &mut System, feature: Feature, value: u32) -> u32 {
    let mut set = admin(Admin::SetFeatures, 0, feature as u32, 0);
    set.cdw10[1] = value;
    succeed(system, &set);
    succeed(system, &admin(Admin::GetFeatures, 0, feature as u32, 0)) as u32
}

#[test]
fn features_are_set_while_a_tenant_works() {
    let mut setup = administered();
    setup.shape.cache = true;
    let mut system = System::serving(setup, 1);
    for (feature, values) in [
        (Feature::VolatileWriteCache, &[0, 1][..]),
        (Feature::PowerManagement, &[1, 0]),
        (Feature::TemperatureThreshold, &[300, 343]),
    ] {
        for value in values {
            assert_eq!(set_feature(&mut system, feature, *value), *value, "{feature:?}");
            assert_eq!(system.request(0, entry(Opcode::Write, 3, 8, 0)).status, 0);
            assert_eq!(system.request(0, entry(Opcode::Flush, 0, 0, 0)).status, 0);
        }
    }
    let texts = texts_of_events(&system);
    assert_eq!(texts.len(), 1, "the threshold below the temperature: {texts:?}");
    for (feature, long, value) in
        [(Feature::Timestamp, 0, &[7, 0, 1, 0, 0, 0, 0, 0][..]), (Feature::HostId, 1, &[9; 16])]
    {
        let command = |opcode| {
            let mut command = admin(opcode, 0, feature as u32, value.len() as u32);
            command.cdw10[1] = long;
            command
        };
        system.asker.write_bytes(0, value).unwrap();
        succeed(&mut system, &command(Admin::SetFeatures));
        system.asker.write_bytes(0, &vec![UNTOUCHED; value.len()]).unwrap();
        succeed(&mut system, &command(Admin::GetFeatures));
        let mut back = vec![0; value.len()];
        system.asker.read_bytes(0, &mut back).unwrap();
        // Milliseconds pass, and the origin of a timestamp is said.
        let is_same = if feature == Feature::Timestamp { back[2..6] == value[2..6] } else { back == value };
        assert!(is_same, "{feature:?}: {back:?}");
    }
    let mut set = admin(Admin::SetFeatures, 0, Feature::InterruptCoalescing as u32, 0);
    set.cdw10[1] = 0xffff;
    assert!(matches!(submit(&mut system, &set), Err(Refusal::NotAllowed { .. })), "the server relies on it");
}

/// Texts of events that were reported, taken.
fn texts_of_events(system: &System) -> Vec<String> {
    let reports = std::mem::take(&mut system.world.state().reports);
    let text = |report| if let Report::Event { text, .. } = report { Some(text.to_string()) } else { None };
    reports.into_iter().filter_map(text).collect()
}

#[test]
fn events_of_firmware_and_sanitize_are_reported() {
    let mut system = System::serving(administered(), 1);
    let image = sim_nvme::firmware_image("2.0", 2);
    system.asker.write_bytes(0, &image).unwrap();
    let piece =
        Command { bytes: image.len() as u32, ..admin(Admin::FirmwareDownload, 0, image.len() as u32 / 4 - 1, 0) };
    succeed(&mut system, &piece);
    let now = CommitDw10::new().with_slot(2).with_action(CommitAction::ActivateNow as u8);
    succeed(&mut system, &admin(Admin::FirmwareCommit, 0, now.into_bits(), 0));
    assert_eq!(texts_of_events(&system), ["firmware is about to be activated: slot 2"]);
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status, 0);
    let erase = SanitizeDw10::new().with_action(SanitizeAction::BlockErase as u8);
    succeed(&mut system, &admin(Admin::Sanitize, 0, erase.into_bits(), 0));
    assert_eq!(texts_of_events(&system), ["a sanitize ended: all data are erased"]);
    system.close(0).unwrap();
    system.open(0).unwrap();
    assert_eq!(system.request(0, entry(Opcode::Read, 3, 60, 0)).status, 0);
}
