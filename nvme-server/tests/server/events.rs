//! Asynchronous events: each is answered by reading its log page and by the request for the next one.

use crate::support::{Act, Setup, System, entry};
use blk_api::request;
use nvme_spec::Cqe;
use nvme_spec::admin::Opcode;
use nvme_spec::log::LogPage;
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
