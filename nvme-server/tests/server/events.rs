//! Asynchronous events: each is answered by reading its log page and by the request for the next one, and acted on by its kind.

use crate::support::{Act, Setup, System, entry, reads, session};
use blk_api::Status;
use blk_api::request::{self, Entry};
use blk_api::session::Refusal;
use nvme_spec::Cqe;
use nvme_spec::admin::Opcode;
use nvme_spec::identify::CommandSetId;
use nvme_spec::log::LogPage;
use report::Report;
use sim_fault::{ControllerEffect, Happening};

/// Log pages that were read.
fn read_pages(system: &System) -> Vec<u8> {
    let page = |act| if let Act::Admin(Opcode::GetLogPage, cdw10) = act { Some(cdw10 as u8) } else { None };
    system.take_acts().into_iter().filter_map(page).collect()
}

fn happen(system: &mut System, happening: Happening) {
    system.controller(|controller, bus| controller.strike(bus, ControllerEffect::Event(happening)));
    system.settle();
    system.tick();
}

#[test]
fn events_are_cleared_and_the_next_ones_requested() {
    let mut system = System::serving(Setup::default(), 1);
    read_pages(&system);
    for (happening, page) in [
        (Happening::Spare, LogPage::Smart),
        (Happening::InternalError, LogPage::ErrorInformation),
        (Happening::Temperature, LogPage::Smart),
        (Happening::NamespaceChanged, LogPage::ChangedNamespaces),
        (Happening::Reliability, LogPage::Smart),
    ] {
        happen(&mut system, happening);
        assert_eq!(read_pages(&system), [page as u8], "{happening:?}");
    }
    assert_eq!(system.take_failures(), [""; 0]);
    assert_eq!(system.request(0, entry(request::Opcode::Read, 3, 60, 0)).status, 0);
}

#[test]
fn a_controller_with_too_many_events_is_asked_for_no_more() {
    let mut system = System::serving(Setup::default(), 1);
    read_pages(&system);
    for _ in 0..100 {
        happen(&mut system, Happening::InternalError);
    }
    assert_eq!(read_pages(&system).len(), 64);
    assert_eq!(system.request(0, entry(request::Opcode::Read, 3, 60, 0)).status, 0);
}

#[test]
fn a_completion_that_answers_nothing_is_noticed_while_no_command_waits() {
    let mut system = System::serving(Setup::default(), 1);
    system.controller(|controller, bus| controller.forge(bus, 0, |cqe: &mut Cqe| cqe.dw3.set_cid(0x7777)));
    system.pass(1);
    let failures = system.take_failures();
    assert!(failures[0].contains("completion of command 0x7777, which was not submitted"), "{failures:?}");
    assert_eq!(system.request(0, entry(request::Opcode::Read, 3, 60, 0)).status, 0);
}

/// Texts of the events that were reported, taken.
fn reported(system: &System) -> Vec<String> {
    let reports = std::mem::take(&mut system.world.state().reports);
    let text = |report| if let Report::Event { text, .. } = report { Some(text.to_string()) } else { None };
    reports.into_iter().filter_map(text).collect()
}

#[test]
fn events_are_reported_with_what_their_log_pages_say() {
    let mut system = System::serving(Setup::default(), 1);
    for (happening, said) in [
        (Happening::Spare, "its spare is below the threshold: 313 K, spare 9 %"),
        (Happening::Temperature, "a temperature is beyond its threshold: 343 K, spare 9 %"),
        (Happening::InternalError, "an internal error, which passed: error 2"),
        (Happening::NamespaceChanged, "namespaces changed"),
        (Happening::ReadOnly, "its subsystem is not reliable any more: 343 K, spare 9 %, and the media is read-only"),
    ] {
        happen(&mut system, happening);
        assert_eq!(reported(&system), [said]);
    }
}

#[test]
fn events_that_come_together_are_all_acted_on() {
    let mut system = System::serving(Setup::default(), 1);
    read_pages(&system);
    system.controller(|controller, bus| {
        controller.strike(bus, ControllerEffect::Event(Happening::NamespaceChanged));
        controller.strike(bus, ControllerEffect::Event(Happening::InternalError));
        controller.strike(bus, ControllerEffect::Event(Happening::Spare));
    });
    system.tick();
    let mut pages = read_pages(&system);
    pages.sort();
    assert_eq!(pages, [LogPage::ErrorInformation, LogPage::Smart, LogPage::ChangedNamespaces].map(|page| page as u8));
}

#[test]
fn read_only_media_refuse_writes_alone_with_a_status_of_their_own() {
    let mut system = System::serving(Setup::default(), 1);
    let write = entry(request::Opcode::Write, 3, 8, 0);
    assert_eq!(system.request(0, write).status, 0);
    system.controller(|controller, _| controller.hold = true);
    system.submit(0, &[write]);
    happen(&mut system, Happening::ReadOnly);
    system.finish_held();
    system.completions(0);
    let submitted = system.world.state().controller.submitted.len();
    for opcode in [request::Opcode::Write, request::Opcode::WriteZeroes, request::Opcode::Discard] {
        assert_eq!(system.request(0, entry(opcode, 3, 8, 0)).status(), Some(Status::ReadOnly));
    }
    assert_eq!(system.world.state().controller.submitted.len(), submitted, "none reaches the controller");
    assert_eq!(system.request(0, entry(request::Opcode::Read, 3, 8, 0)).status, 0);
    assert_eq!(system.open(1).unwrap().writable, 0);
    assert_eq!(system.take_failures(), [""; 0]);
}

#[test]
fn a_namespace_that_shrinks_or_goes_ends_its_tenants_without_a_reset() {
    for blocks in [900, 0] {
        let mut setup = Setup::default();
        setup.shape.command_sets = vec![CommandSetId::Nvm];
        setup.shape.blocks = 2048;
        let mut second = session("second", 0);
        second.config.nsid = 2;
        setup.sessions = vec![session("first", 0), second];
        let mut system = System::serving(setup, 2).holding();
        system.submit(0, &reads(2));
        system.submit(1, &reads(2));
        let resets = system.world.state().controller.resets;
        system.world.state().controller.lies.shape.blocks = blocks;
        happen(&mut system, Happening::NamespaceChanged);
        system.submit(0, &[Entry { user_data: 7, ..entry(request::Opcode::Read, 5, 1, 0) }]);
        assert!(system.mapped_pages(0) > 0, "commands are in flight");
        system.finish_held();
        system.pass(1);
        let ended: Vec<_> = system.completions(0).iter().map(|one| (one.user_data, one.status)).collect();
        assert_eq!(ended, [(0, 0), (1, 0), (7, Status::DeviceGone as u16)]);
        assert_eq!(system.mapped_pages(0), 0);
        assert_eq!(system.completions(1).len(), 2);
        assert_eq!(system.request(1, entry(request::Opcode::Read, 3, 60, 0)).status, 0);
        assert_eq!(system.world.state().controller.resets, resets);
        system.close(0).unwrap();
        assert_eq!(system.open(0), Err(Refusal::NoSuchBlocks));
    }
}
