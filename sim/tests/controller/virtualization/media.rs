//! Namespaces: attachment to controllers, data that controllers share, and reports of changes.

use nvme_spec::admin::{self, Attachment, Cns, FormatDw10, SanitizeAction, SanitizeDw10};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{Namespace, NamespaceList};
use nvme_spec::log::{LogPage, LogRead, SanitizeLog, SanitizeState};
use nvme_spec::nvm;
use nvme_spec::{Cid, Nsid, StatusCode};
use sim_nvme::Controller;

use super::support::{CID, Subsystem, config, read, write};
use crate::admin::support::{Driver, PAGE, zeroed};

fn active(driver: &mut Driver) -> Vec<u32> {
    driver.succeed(admin::identify_active_namespaces(CID, Nsid::NONE, PAGE));
    driver.data::<NamespaceList>().iter().map(|nsid| nsid.0).collect()
}

/// Creates a namespace that several controllers can have.
fn create_shared(subsystem: &mut Subsystem) -> u32 {
    let mut namespace: Namespace = zeroed();
    namespace.nsze.set(1024);
    namespace.ncap.set(1024);
    namespace.nmic = 1;
    subsystem.primary.put(&namespace);
    subsystem.primary.succeed(admin::create_namespace(CID, PAGE))
}

/// Asks a controller for a notice of changed namespaces.
fn watch(driver: &mut Driver) -> Cid {
    let notices = AsyncEvents::new().with_namespace_changed(true);
    driver.succeed(set_feature(CID, Feature::AsyncEvents, notices.into_bits()));
    let request = driver.submit(0, admin::async_event_request(CID));
    driver.pass(1_000_000);
    request
}

/// The namespaces that a controller reports as changed, after the notice that has come.
fn changed(driver: &mut Driver, request: Cid) -> Vec<u32> {
    let entry = driver.wait(request);
    assert_eq!(AsyncEvent::from_bits(entry.dw0), AsyncEvent::NAMESPACE_CHANGED);
    driver.log::<NamespaceList>(LogPage::ChangedNamespaces).iter().map(|nsid| nsid.0).collect()
}

#[test]
fn namespace_of_no_controller_at_first_can_be_given_to_a_secondary() {
    let mut config = config();
    config.namespaces.iter_mut().skip(1).for_each(|namespace| namespace.attached = None);
    let (primary, secondaries) = Controller::with_secondaries(config, 1);
    let mut subsystem = Subsystem::of(primary, secondaries);
    subsystem.free();
    assert_eq!(active(&mut subsystem.primary), [1]);
    subsystem.attach(&[1], 2);
    subsystem.set_online(1, 2, 2);
    let secondary = subsystem.secondary(1);
    secondary.enable();
    secondary.make_io_queue();
    assert_eq!(active(secondary), [2]);
    assert!(write(secondary, 2, 7).is_success());
    assert_eq!(read(secondary, 2), Ok(7));
}

#[test]
fn each_controller_has_the_namespaces_attached_to_it() {
    let mut subsystem = Subsystem::online(2);
    subsystem.primary.make_io_queue();
    assert_eq!(active(&mut subsystem.primary), [3, 4]);
    for id in [1, 2] {
        let secondary = subsystem.secondary(id);
        assert_eq!(active(secondary), [u32::from(id)]);
        assert!(write(secondary, id.into(), 0x40 + id as u8).is_success());
    }
    for id in [1, 2] {
        let secondary = subsystem.secondary(id);
        assert_eq!(read(secondary, id.into()), Ok(0x40 + id as u8));
        for other in [3 - u32::from(id), 3, 4] {
            let refused = read(secondary, other).unwrap_err();
            assert_eq!((refused.code(), refused.do_not_retry()), (StatusCode::InvalidField, true));
        }
    }
    assert_eq!(read(&mut subsystem.primary, 1).unwrap_err().code(), StatusCode::InvalidField);
}

#[test]
fn moved_namespace_keeps_its_data() {
    let mut subsystem = Subsystem::online(2);
    assert!(write(subsystem.secondary(1), 1, 0x5a).is_success());
    subsystem.detach(&[1], 1);
    assert_eq!(read(subsystem.secondary(1), 1).unwrap_err().code(), StatusCode::InvalidField);
    subsystem.attach(&[2], 1);
    assert_eq!(read(subsystem.secondary(2), 1), Ok(0x5a));
    assert_eq!(active(subsystem.secondary(2)), [1, 2]);
}

#[test]
fn shared_namespace_has_the_same_data_everywhere() {
    let mut subsystem = Subsystem::online(2);
    subsystem.primary.make_io_queue();
    let nsid = create_shared(&mut subsystem);
    subsystem.attach(&[0, 1, 2], nsid);
    assert!(write(subsystem.secondary(1), nsid, 7).is_success());
    assert_eq!(read(subsystem.secondary(2), nsid), Ok(7));
    assert!(write(&mut subsystem.primary, nsid, 8).is_success());
    assert_eq!(read(subsystem.secondary(1), nsid), Ok(8));
    // Each controller can show the contents to a test.
    let mut byte = [0];
    subsystem.secondary(2).controller.read_contents(nsid, 0, &mut byte).unwrap();
    assert_eq!(byte, [8]);
    assert_eq!(subsystem.primary.controller.namespaces().count(), 5);
}

#[test]
fn private_namespace_has_one_controller_at_a_time() {
    let mut subsystem = Subsystem::freed();
    let sqe = subsystem.attachment(Attachment::Attach, &[1], 1);
    subsystem.primary.refuse(sqe, StatusCode::NamespacePrivate);
    subsystem.detach(&[0], 1);
    let sqe = subsystem.attachment(Attachment::Attach, &[1, 2], 1);
    subsystem.primary.refuse(sqe, StatusCode::NamespacePrivate);
    subsystem.attach(&[1], 1);
    let sqe = subsystem.attachment(Attachment::Attach, &[1], 1);
    subsystem.primary.refuse(sqe, StatusCode::NamespaceAttached);
    let sqe = subsystem.attachment(Attachment::Detach, &[2], 1);
    subsystem.primary.refuse(sqe, StatusCode::NamespaceNotAttached);
    let sqe = subsystem.attachment(Attachment::Attach, &[4], 1);
    subsystem.primary.refuse(sqe, StatusCode::ControllerListInvalid);
}

#[test]
fn attachment_is_changed_for_all_listed_controllers_or_none() {
    let mut subsystem = Subsystem::online(2);
    let nsid = create_shared(&mut subsystem);
    subsystem.attach(&[2], nsid);
    let sqe = subsystem.attachment(Attachment::Attach, &[1, 2], nsid);
    subsystem.primary.refuse(sqe, StatusCode::NamespaceAttached);
    assert_eq!(active(subsystem.secondary(1)), [1]);
    let sqe = subsystem.attachment(Attachment::Detach, &[1, 2], nsid);
    subsystem.primary.refuse(sqe, StatusCode::NamespaceNotAttached);
    assert_eq!(active(subsystem.secondary(2)), [2, nsid]);
}

#[test]
fn attachment_is_reported_by_the_controller_concerned() {
    let mut subsystem = Subsystem::online(2);
    let requests = [1, 2].map(|id| watch(subsystem.secondary(id)));
    subsystem.detach(&[0], 4);
    subsystem.attach(&[1], 4);
    assert!(subsystem.secondary(1).controller.next_event_ns().is_some());
    assert_eq!(changed(subsystem.secondary(1), requests[0]), [4]);
    let second = subsystem.secondary(2);
    assert_eq!(second.controller.next_event_ns(), None);
    second.pass(1_000_000);
    assert_eq!(second.completion(requests[1]), None);
}

#[test]
fn format_and_deletion_are_reported_to_every_controller_that_has_the_namespace() {
    let mut subsystem = Subsystem::online(2);
    let nsid = create_shared(&mut subsystem);
    subsystem.attach(&[1, 2], nsid);
    for id in [1, 2] {
        subsystem.secondary(id).pass(1_000_000);
        subsystem.secondary(id).log::<NamespaceList>(LogPage::ChangedNamespaces);
    }
    let requests = [1, 2].map(|id| watch(subsystem.secondary(id)));
    let how = FormatDw10::new().with_lbaf(1);
    subsystem.secondary(1).succeed(admin::format_nvm(CID, Nsid(nsid), how));
    assert_eq!(changed(subsystem.secondary(1), requests[0]), [nsid]);
    assert_eq!(changed(subsystem.secondary(2), requests[1]), [nsid]);
    let requests = [1, 2].map(|id| watch(subsystem.secondary(id)));
    subsystem.primary.pass(1_000_000_000);
    subsystem.primary.succeed(admin::delete_namespace(CID, Nsid(nsid)));
    for id in [1, 2] {
        assert_eq!(changed(subsystem.secondary(id), requests[usize::from(id) - 1]), [nsid]);
        assert_eq!(active(subsystem.secondary(id)), [u32::from(id)]);
    }
}

#[test]
fn command_for_a_namespace_that_was_detached_meanwhile_moves_nothing() {
    let mut subsystem = Subsystem::online(1);
    assert!(write(subsystem.secondary(1), 1, 3).is_success());
    let secondary = subsystem.secondary(1);
    secondary.fill(9);
    let blocks = nvm::Blocks::new(nvme_spec::Lba(0), 1).unwrap();
    let cid = secondary.submit(1, nvm::write(CID, Nsid(1), blocks, PAGE));
    secondary.step();
    subsystem.detach(&[1], 1);
    assert!(!subsystem.secondary(1).wait(cid).status().is_success());
    subsystem.attach(&[1], 1);
    assert_eq!(read(subsystem.secondary(1), 1), Ok(3));
}

#[test]
fn identify_of_a_secondary_hides_namespaces_of_others() {
    let mut subsystem = Subsystem::online(2);
    let secondary = subsystem.secondary(1);
    secondary.succeed(admin::identify(CID, Cns::Namespace, Nsid(2), PAGE));
    assert_eq!(secondary.data::<Namespace>().nsze.get(), 0);
    secondary.refuse(admin::identify(CID, Cns::AllocatedNamespaces, Nsid::NONE, PAGE), StatusCode::InvalidField);
    secondary.refuse(admin::format_nvm(CID, Nsid(2), FormatDw10::new()), StatusCode::InvalidField);
}

#[test]
fn format_of_all_namespaces_by_a_secondary_is_of_its_own() {
    let mut subsystem = Subsystem::online(2);
    for id in [1, 2] {
        assert!(write(subsystem.secondary(id), id.into(), 5).is_success());
    }
    subsystem.secondary(1).succeed(admin::format_nvm(CID, Nsid::ALL, FormatDw10::new()));
    assert_eq!(read(subsystem.secondary(1), 1), Ok(0));
    assert_eq!(read(subsystem.secondary(2), 2), Ok(5));
}

#[test]
fn sanitize_concerns_every_controller_and_is_the_primarys() {
    let mut subsystem = Subsystem::online(2);
    assert!(write(subsystem.secondary(1), 1, 0x5a).is_success());
    let erase = SanitizeDw10::new().with_action(SanitizeAction::BlockErase as u8);
    subsystem.secondary(1).refuse(admin::sanitize(CID, erase, 0), StatusCode::InvalidOpcode);
    let events = [1, 2].map(|id| subsystem.secondary(id).submit(0, admin::async_event_request(CID)));
    let own = subsystem.primary.submit(0, admin::async_event_request(CID));
    subsystem.primary.succeed(admin::sanitize(CID, erase, 0));
    let page = LogRead::whole(LogPage::Sanitize, 512).sqe(CID, Nsid::ALL, PAGE);
    for id in [1, 2] {
        let now_ns = subsystem.primary.now_ns;
        let secondary = subsystem.secondary(id);
        secondary.advance_to(now_ns);
        assert_eq!(write(secondary, id.into(), 1).code(), StatusCode::SanitizeInProgress);
        secondary.succeed(page);
        let log: SanitizeLog = secondary.data();
        assert_eq!(log.status().state(), SanitizeState::Running as u8);
    }
    subsystem.primary.pass(3_000_000_000);
    assert!(subsystem.primary.completion(own).is_some());
    for (id, event) in (1..).zip(events) {
        let secondary = subsystem.secondary(id);
        secondary.pass(4_000_000_000);
        // The controller that executed the command reports its end.
        assert_eq!(secondary.completion(event), None);
        assert_eq!(read(secondary, id.into()), Ok(0));
    }
}
