//! An operator who administers the controller of a running system.

use super::*;
use blk_api::administration::{
    COLLECT, Command, Completion, DONE, EXECUTE, Ended, Queue, RESET, Refusal as Denied, Reset, ResetKind, Right,
    SUBMIT,
};
use control_api::CALL_WORDS;
use nvme_spec::admin::Opcode;
use nvme_spec::identify::Controller;
use zerocopy::{FromZeros, Immutable};

/// The first page of the window.
const WINDOW: usize = control_api::mailbox::PAGES * PAGE_SIZE;

fn administered(milliseconds: u64) -> Scenario {
    let mut scenario = as_written("administration");
    scenario.tenants.iter_mut().for_each(|tenant| tenant.ends = None);
    loads_last(&mut scenario, milliseconds);
    scenario.controllers[0].model.subsystem_reset = true;
    scenario.control.as_mut().unwrap().acts.push(Act::Kill);
    scenario
}

impl System {
    /// The NVMe server's answer to a call.
    fn administers<T: IntoBytes + Immutable>(&mut self, label: u32, payload: &T) -> Message {
        let message = Message::with(label, payload);
        let mut words = [0; CALL_WORDS];
        words[..message.words().len()].copy_from_slice(message.words());
        match self.ask(&Request::Administer { controller: 0, label, words }) {
            Answer::Administration { label, words } => Message::from_words(label, &words),
            answer => fail(&format!("call {label}: {answer:?}")),
        }
    }

    fn denied<T: IntoBytes + Immutable>(&mut self, label: u32, payload: &T) -> Denied {
        let answer = self.administers(label, payload);
        if answer.label == DONE {
            fail(&format!("call {label} is carried out"));
        }
        Denied::of(&answer)
    }

    /// Submits something, and collects its completion.
    fn completes<T: IntoBytes + Immutable>(&mut self, label: u32, payload: &T) -> Completion {
        let accepted = self.administers(label, payload);
        if accepted.label != DONE {
            fail(&format!("call {label}: {:?}", Denied::of(&accepted)));
        }
        loop {
            let answer = self.administers(COLLECT, &0u64);
            if answer.label == DONE {
                return answer.payload().unwrap();
            }
            if Denied::of(&answer) != Denied::Nothing {
                fail(&format!("{:?}", Denied::of(&answer)));
            }
            self.pass_ms(1);
        }
    }
}

fn identify(token: u64) -> Command {
    let opcode = Opcode::Identify as u32;
    Command { token, bytes: 4096, queue: Queue::Admin as u32, opcode, cdw10: [1, 0, 0, 0, 0, 0], ..Command::default() }
}

#[test]
fn data_of_commands_come_into_the_window_also_by_a_later_server() {
    let mut system = System::start(&administered(3_000));
    system.pass_ms(200);
    for token in [7, 8] {
        let done = system.completes(SUBMIT, &identify(token));
        let mut about = Controller::new_zeroed();
        let window = system.page(WINDOW).unwrap();
        system.simulation.copy_memory(window, about.as_mut_bytes()).unwrap();
        println!("{done:?}: {}", about.serial_number());
        assert_eq!((done.token, done.status, about.serial_number()), (token, 0, "disk"));
        system.simulation.write_shared(window, &[0; PAGE_SIZE]).unwrap();
        if token == 7 {
            let server = system.component("nvme-server");
            system.has(&Request::Kill(server));
            system.pass_ms(200);
        }
    }
    let (loads, findings) = system.end();
    assert_eq!((loads.len(), findings.as_str()), (2, ""));
}

#[test]
fn commands_without_a_right_or_off_the_list_are_refused_by_name() {
    let mut system = System::start(&administered(500));
    system.pass_ms(50);
    let read = Command { queue: Queue::Io as u32, opcode: 2, nsid: 1, bytes: 512, ..identify(1) };
    assert_eq!(system.denied(SUBMIT, &read), Denied::NoRight(Right::Io));
    let create = Command { opcode: 5, ..identify(1) };
    assert!(matches!(system.denied(SUBMIT, &create), Denied::NotAllowed { opcode: 5, .. }));
    let beyond = Command { offset: 128 << 10, ..identify(1) };
    assert!(matches!(system.denied(SUBMIT, &beyond), Denied::OutsideWindow { .. }));
    // The call that waits would keep all other requests waiting.
    let execute = Request::Administer { controller: 0, label: EXECUTE, words: [0; CALL_WORDS] };
    assert_eq!(refused(system.ask(&execute)), Refusal::NotAllowed);
    let other = Request::Administer { controller: 1, label: COLLECT, words: [0; CALL_WORDS] };
    assert_eq!(refused(system.ask(&other)), Refusal::NoController(1));
    assert_eq!(system.end().1, "");
    // Without the right in the scenario there is no way to a server.
    let mut system = System::start(&controlled(100));
    let call = Request::Administer { controller: 0, label: COLLECT, words: [0; CALL_WORDS] };
    assert_eq!(refused(system.ask(&call)), Refusal::NotAllowed);
}

#[test]
fn two_thousand_drawn_calls_harm_nobody() {
    let mut system = System::start(&administered(6_000));
    let mut state = 1u64;
    let mut drawn = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 16
    };
    for _ in 0..2_000 {
        // Labels around those of the interface, and words that are small half of the time.
        let label = (SUBMIT + drawn() as u32 % 8) - 1;
        let words = std::array::from_fn(|_| if drawn() % 2 == 0 { drawn() % 16 } else { drawn() });
        system.ask(&Request::Administer { controller: 0, label, words });
    }
    let (loads, findings) = system.end();
    assert_eq!(findings, "");
    assert_eq!(loads.len(), 2);
}

/// Runs the scenario without limits, and resets this part of it twice in one and a half seconds. Returns the loads.
fn beside_resets(kind: Option<ResetKind>) -> Vec<Load> {
    let mut scenario = administered(1_500);
    scenario.tenants.iter_mut().for_each(|tenant| tenant.iops = None);
    let mut system = System::start(&scenario);
    for token in [1, 2] {
        system.pass_ms(500);
        if let Some(kind) = kind {
            let done = system.completes(RESET, &Reset { token, kind: kind as u64 });
            println!("{kind:?}: {done:?}");
            assert_eq!((done.token, done.ended()), (token, Ended::Completed));
        }
    }
    let (loads, findings) = system.end();
    assert_eq!(findings, "", "{kind:?}");
    loads
}

#[test]
fn resets_from_outside_move_no_tail_by_ten_percent() {
    let quiet = beside_resets(None);
    for kind in [ResetKind::Controller, ResetKind::Subsystem] {
        let reset = beside_resets(Some(kind));
        assert_tails(&["alice", "bob"], &quiet, &reset, 1.1, &format!("{kind:?}"));
    }
}
