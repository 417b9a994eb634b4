//! Asynchronous events: requests, reports and masks.

use nvme_spec::admin::{self, Attachment, CommitAction};
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{ControllerList, Namespace, NamespaceList};
use nvme_spec::log::{ErrorEntry, LogEvent, LogPage, LogRead};
use nvme_spec::registers::{NSSR_RESET, Register};
use nvme_spec::{Cid, Nsid, Status, StatusCode};
use sim_nvme::config::Capabilities;
use sim_nvme::{AdminConfig, Config, Health};

use super::support::{Driver, PAGE, config, zeroed};

const CID: Cid = Cid(0);

fn request(driver: &mut Driver) -> Cid {
    driver.submit(0, admin::async_event_request(CID))
}

fn reported(driver: &mut Driver, cid: Cid) -> Option<AsyncEvent> {
    driver.pass(10_000_000);
    driver.completion(cid).map(|entry| {
        assert_eq!(entry.status(), Status::SUCCESS);
        AsyncEvent::from_bits(entry.dw0)
    })
}

fn enable(driver: &mut Driver, events: AsyncEvents) {
    driver.succeed(set_feature(CID, Feature::AsyncEvents, events.into_bits()));
}

fn enable_all(driver: &mut Driver) {
    enable(driver, AsyncEvents::new().with_warnings(0x3f).with_namespace_changed(true));
}

fn heat(driver: &mut Driver, temperature_kelvin: u16) {
    let health = Health { temperature_kelvin, ..Health::default() };
    driver.with_host(|controller, host| controller.set_health(health, host));
}

fn detach(driver: &mut Driver) {
    driver.put(&ControllerList::of([0].into_iter()));
    driver.succeed(admin::namespace_attachment(CID, Attachment::Detach, Nsid(1), PAGE));
}

fn attach(driver: &mut Driver) {
    driver.put(&ControllerList::of([0].into_iter()));
    driver.succeed(admin::namespace_attachment(CID, Attachment::Attach, Nsid(1), PAGE));
}

#[test]
fn a_request_stays_until_something_happens() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let cid = request(&mut driver);
    driver.pass(3_600_000_000_000);
    assert_eq!(driver.completion(cid), None);
    heat(&mut driver, 350);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::TEMPERATURE));
}

#[test]
fn an_event_without_a_request_is_reported_to_the_next_one() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    detach(&mut driver);
    let cid = request(&mut driver);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::NAMESPACE_CHANGED));
}

#[test]
fn events_that_are_not_enabled_are_not_reported() {
    let mut driver = Driver::new(config());
    let cid = request(&mut driver);
    heat(&mut driver, 350);
    detach(&mut driver);
    assert_eq!(reported(&mut driver, cid), None);
    heat(&mut driver, 300);
    enable(&mut driver, AsyncEvents::new().with_warnings(0b10));
    attach(&mut driver);
    assert_eq!(reported(&mut driver, cid), None);
    heat(&mut driver, 350);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::TEMPERATURE));
}

#[test]
fn the_same_kind_is_masked_until_its_log_is_read() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let [first, second] = [request(&mut driver), request(&mut driver)];
    detach(&mut driver);
    assert_eq!(reported(&mut driver, first), Some(AsyncEvent::NAMESPACE_CHANGED));
    attach(&mut driver);
    assert_eq!(reported(&mut driver, second), None);
    let changed: NamespaceList = driver.log(LogPage::ChangedNamespaces);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [Nsid(1)]);
    let changed: NamespaceList = driver.log(LogPage::ChangedNamespaces);
    assert_eq!(changed.iter().count(), 0);
    detach(&mut driver);
    assert_eq!(reported(&mut driver, second), Some(AsyncEvent::NAMESPACE_CHANGED));
}

#[test]
fn reading_with_retain_changes_nothing() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let [first, second] = [request(&mut driver), request(&mut driver)];
    detach(&mut driver);
    assert!(reported(&mut driver, first).is_some());
    let retain = LogRead { event: LogEvent::Retain, ..LogRead::whole(LogPage::ChangedNamespaces, 4096) };
    for _ in 0..2 {
        driver.succeed(retain.sqe(CID, Nsid::ALL, PAGE));
        assert_eq!(driver.data::<NamespaceList>().iter().count(), 1);
    }
    attach(&mut driver);
    assert_eq!(reported(&mut driver, second), None);
}

#[test]
fn kinds_are_masked_apart_from_each_other() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let [first, second] = [request(&mut driver), request(&mut driver)];
    detach(&mut driver);
    heat(&mut driver, 350);
    assert_eq!(reported(&mut driver, first), Some(AsyncEvent::NAMESPACE_CHANGED));
    assert_eq!(reported(&mut driver, second), Some(AsyncEvent::TEMPERATURE));
}

#[test]
fn invalid_doorbells_are_unmaskable_errors() {
    let mut driver = Driver::new(config());
    let cid = request(&mut driver);
    driver.ring(5, 1);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::INVALID_DOORBELL_REGISTER));
    let [entry]: [ErrorEntry; 1] = driver.log(LogPage::ErrorInformation);
    assert_eq!((entry.count.get(), entry.sqid.get(), entry.cid.get()), (1, u16::MAX, u16::MAX));
    let cid = request(&mut driver);
    driver.ring(0, 1000);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::INVALID_DOORBELL_VALUE));
}

#[test]
fn errors_are_masked_until_the_error_log_is_read() {
    let mut driver = Driver::new(config());
    let requests = [(); 4].map(|()| request(&mut driver));
    for (index, cid) in requests.into_iter().enumerate() {
        // Each of them is the same error, and one is reported.
        for _ in index..4 {
            driver.ring(5, 1);
        }
        assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::INVALID_DOORBELL_REGISTER));
        for later in &requests[index + 1..] {
            assert_eq!(reported(&mut driver, *later), None);
        }
        driver.log::<ErrorEntry>(LogPage::ErrorInformation);
    }
}

#[test]
fn an_error_without_a_request_waits_for_one() {
    let mut driver = Driver::new(config());
    driver.ring(5, 1);
    driver.pass(5_000_000_000);
    let cid = request(&mut driver);
    assert_eq!(reported(&mut driver, cid), Some(AsyncEvent::INVALID_DOORBELL_REGISTER));
    let cid = request(&mut driver);
    assert_eq!(reported(&mut driver, cid), None);
}

#[test]
fn requests_beyond_the_limit_are_refused() {
    let mut driver = Driver::new(Config { admin: AdminConfig { event_requests: 2, ..Default::default() }, ..config() });
    let held = [request(&mut driver), request(&mut driver)];
    let refused = driver.admin(admin::async_event_request(CID));
    assert_eq!(refused.status().code(), StatusCode::AerLimit);
    // The request is valid, only its time is wrong.
    assert!(!refused.status().do_not_retry());
    for cid in held {
        assert_eq!(reported(&mut driver, cid), None);
    }
}

#[test]
fn a_reset_ends_requests_and_forgets_events() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let cid = request(&mut driver);
    driver.reset();
    detach(&mut driver);
    assert_eq!(reported(&mut driver, cid), None);
    // The set of enabled events was not saved.
    let cid = request(&mut driver);
    assert_eq!(reported(&mut driver, cid), None);
}

#[test]
fn many_requests_use_no_room_for_other_commands() {
    let event_requests = 20;
    let mut driver = Driver::new(Config { admin: AdminConfig { event_requests, ..Default::default() }, ..config() });
    for _ in 0..event_requests {
        request(&mut driver);
    }
    driver.succeed(admin::identify_controller(CID, PAGE));
}

#[test]
fn a_warning_that_goes_on_is_reported_once() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let [first, second] = [request(&mut driver), request(&mut driver)];
    heat(&mut driver, 350);
    assert_eq!(reported(&mut driver, first), Some(AsyncEvent::TEMPERATURE));
    driver.log::<[u8; 512]>(LogPage::Smart);
    heat(&mut driver, 351);
    assert_eq!(reported(&mut driver, second), None);
    heat(&mut driver, 300);
    heat(&mut driver, 350);
    assert_eq!(reported(&mut driver, second), Some(AsyncEvent::TEMPERATURE));
}

#[test]
fn notices_wait_for_the_log_of_the_one_that_was_reported() {
    let mut driver = Driver::new(config());
    let notices = AsyncEvents::new().with_namespace_changed(true).with_firmware_activation(true);
    enable(&mut driver, notices);
    let [first, second] = [request(&mut driver), request(&mut driver)];
    detach(&mut driver);
    assert_eq!(reported(&mut driver, first), Some(AsyncEvent::NAMESPACE_CHANGED));
    driver.succeed(admin::firmware_commit(CID, CommitAction::ActivateNow, 1));
    assert_eq!(reported(&mut driver, second), None);
    // The log of another event of the type does not unmask it.
    driver.log::<[u8; 512]>(LogPage::FirmwareSlots);
    assert_eq!(reported(&mut driver, second), None);
    driver.succeed(admin::firmware_commit(CID, CommitAction::ActivateNow, 1));
    driver.log::<NamespaceList>(LogPage::ChangedNamespaces);
    assert_eq!(reported(&mut driver, second), Some(AsyncEvent::FIRMWARE_ACTIVATION));
    driver.assert_clean();
}

#[test]
fn requests_end_without_completions_at_any_reset() {
    let capabilities = Capabilities { subsystem_reset: true, ..Capabilities::default() };
    let disable = |driver: &mut Driver| driver.set(Register::Cc, 0);
    let reset_subsystem = |driver: &mut Driver| driver.set(Register::Nssr, NSSR_RESET);
    let reset_function = |driver: &mut Driver| driver.controller.function_level_reset();
    for reset in [disable, reset_subsystem, reset_function] as [fn(&mut Driver); 3] {
        let mut driver = Driver::new(Config { capabilities, ..config() });
        enable_all(&mut driver);
        let held = [request(&mut driver), request(&mut driver)];
        driver.pass(1_000_000);
        let posted = driver.controller.counters().posted;
        reset(&mut driver);
        // Nothing that happens now is reported.
        heat(&mut driver, 350);
        driver.pass(10_000_000);
        assert_eq!(driver.controller.counters().posted, posted);
        driver.enable();
        assert_eq!(held.map(|cid| driver.completion(cid)), [None, None]);
        // As many as before can be held again, and nothing waits for them.
        let held = [(); 4].map(|()| request(&mut driver));
        for cid in held {
            assert_eq!(reported(&mut driver, cid), None);
        }
        let refused = driver.admin(admin::async_event_request(CID));
        assert_eq!(refused.status().to_raw() & 0x7ff, 0x105);
    }
}

#[test]
fn the_list_has_every_namespace_that_changed_once() {
    let mut driver = Driver::new(config());
    enable_all(&mut driver);
    let first = request(&mut driver);
    let mut namespace: Namespace = zeroed();
    namespace.nsze.set(8);
    namespace.ncap.set(8);
    let created: Vec<u32> = (0..3)
        .map(|_| {
            driver.put(&namespace);
            driver.succeed(admin::create_namespace(CID, PAGE))
        })
        .collect();
    assert_eq!(created, [2, 3, 4]);
    // Created ones are not attached, so nothing changed for the controller.
    assert_eq!(reported(&mut driver, first), None);
    for nsid in [4, 2] {
        driver.put(&ControllerList::of([0].into_iter()));
        driver.succeed(admin::namespace_attachment(CID, Attachment::Attach, Nsid(nsid), PAGE));
    }
    driver.succeed(admin::delete_namespace(CID, Nsid(2)));
    assert_eq!(reported(&mut driver, first), Some(AsyncEvent::NAMESPACE_CHANGED));
    let changed: NamespaceList = driver.log(LogPage::ChangedNamespaces);
    assert_eq!(changed.iter().collect::<Vec<_>>(), [Nsid(2), Nsid(4)]);
}
