//! Planted leaks by calls of the PCI server and by badges of notifications.

use super::*;
use blk_api::config::badge;
use platform::alarm::SERVER_US;

#[test]
fn a_client_that_calls_the_pci_server_is_refused() {
    let mut system = crowd();
    plant(&mut system, "mallory", "pci-server.endpoint", 77, CALL);
    refused(
        &system,
        Rule::DevicesArePciServers,
        &["client mallory calls the PCI server on pci-server.endpoint", "cptr 200"],
    );
}

#[test]
fn a_console_that_calls_the_pci_server_is_refused() {
    let mut system = good();
    plant(&mut system, "console", "pci-server.endpoint", 77, WRITE);
    refused(&system, Rule::DevicesArePciServers, &["the console calls the PCI server"]);
}

#[test]
fn pci_servers_endpoint_is_known_by_its_receiver() {
    let mut system = good();
    new_object(&mut system, "door", ObjectKind::Endpoint);
    plant(&mut system, "pci-server", "door", 0, READ);
    plant(&mut system, "alice", "door", 7, WRITE);
    refused(&system, Rule::DevicesArePciServers, &["client alice calls the PCI server on door"]);
}

/// Changes the badge with which `component` signals `object`.
fn rebadge(specification: &mut Specification, component: &str, object: &str, badge: u64) {
    let (cnode, object) = (id(specification, &format!("{component}.cnode")), id(specification, object));
    specification.caps.iter_mut().find(|run| run.cnode == cnode && run.object == object).unwrap().badge = badge;
}

#[test]
fn a_signal_that_would_be_taken_for_a_message_is_refused() {
    for badge in [0, 1, badge::client(1) & !Badge::SIGNAL] {
        let mut system = crowd();
        rebadge(&mut system, "mallory", "nvme-server.event", badge);
        refused(
            &system,
            Rule::SignalsMarked,
            &["client mallory signals nvme-server.event", "would be taken for a message"],
        );
    }
    for (who, object) in [("alice", "console.event"), ("nvme-server", "alice.event"), ("pci-server", "console.event")] {
        let mut system = crowd();
        rebadge(&mut system, who, object, 1);
        refused(&system, Rule::SignalsMarked, &[object, "would be taken for a message"]);
    }
}

#[test]
fn a_signal_that_would_be_taken_for_the_clock_is_refused() {
    for (who, object) in
        [("mallory", "nvme-server.event"), ("mallory", "console.event"), ("nvme-server", "alice.event")]
    {
        let mut system = crowd();
        rebadge(&mut system, who, object, Badge::SIGNAL | Badge::TICK | 1);
        refused(&system, Rule::SignalsMarked, &[object, "which says the clock ticked"]);
    }
}

#[test]
fn a_signal_that_would_be_taken_for_an_interrupt_is_refused() {
    for vector in [0, 1, 29, 30, 64] {
        let mut system = crowd();
        rebadge(&mut system, "mallory", "nvme-server.event", badge::client(1) | badge::vector(vector));
        refused(&system, Rule::SignalsMarked, &["client mallory", "which says the controller interrupted"]);
    }
}

#[test]
fn a_signal_that_would_be_taken_for_an_alarm_is_refused() {
    let mut system = crowd();
    rebadge(&mut system, "mallory", "nvme-server.event", badge::client(1) | Badge::ALARM);
    refused(&system, Rule::SignalsMarked, &["client mallory", "which says the alarm went off"]);
}

#[test]
fn server_with_a_foreign_alarm_or_pci_badge_is_refused() {
    for badge in [Badge::alarm(SERVER_US.len() as u8), Badge::silenced(0), Badge::SIGNAL | Badge::TICK] {
        let mut system = crowd();
        rebadge(&mut system, "nvme-server", "root-task.event", badge);
        refused(&system, Rule::SignalsMarked, &["nvme-server could signal the supervisor", "which is not for it"]);
    }
    let mut system = crowd();
    plant(&mut system, "mallory", "root-task.event", Badge::alarm(0), WRITE);
    refused(&system, Rule::SignalsMarked, &["client mallory could signal the supervisor"]);
}

/// The system of scenarios/completion.toml, where clients have alarms.
fn sleepers() -> Image {
    Image::of("completion")
}

#[test]
fn client_asks_for_its_own_alarm_alone() {
    assert_eq!(checked(&sleepers()), Ok(()));
    let others = [Badge::alarm(0), Badge::TORN_DOWN | Badge::SIGNAL, Badge::silenced(0), Badge::SIGNAL | Badge::TICK];
    for badge in others {
        let mut system = sleepers();
        rebadge(&mut system, "sleeper", "root-task.event", badge);
        refused(&system, Rule::SignalsMarked, &["client sleeper could signal the supervisor", "which is not for it"]);
    }
    let mut system = sleepers();
    component(&mut system, "sleeper").alarm = None;
    refused(&system, Rule::SignalsMarked, &["client sleeper could signal the supervisor"]);
}

#[test]
fn alarm_that_is_not_declared_is_refused() {
    for name in ["sleeper", "automatic"] {
        let mut system = sleepers();
        let declared = &mut std::sync::Arc::make_mut(&mut system.declaration).tenants;
        declared.iter_mut().filter(|tenant| tenant.name == name).for_each(|tenant| tenant.alarm = false);
        refused(&system, Rule::ConfiguredAsDeclared, &[name, "another `alarm` than is declared"]);
    }
}

#[test]
fn alarm_that_is_anothers_is_refused() {
    let mut system = sleepers();
    let others = component(&mut system, "automatic").alarm;
    component(&mut system, "sleeper").alarm = others;
    refused(&system, Rule::NamedExactly, &["client sleeper asks for alarms as number", "which is not its own"]);
    let mut system = sleepers();
    component(&mut system, "console").alarm = Some(9);
    refused(&system, Rule::NamedExactly, &["the console asks for alarms as number"]);
    component(&mut system, "nvme-server").alarm = None;
    refused(&system, Rule::NamedExactly, &["nvme-server asks for alarms as number None"]);
}

#[test]
fn a_second_capability_to_signal_is_checked_too() {
    let mut system = crowd();
    plant(&mut system, "mallory", "nvme-server.event", badge::vector(0), WRITE);
    refused(&system, Rule::SignalsMarked, &["cptr 200", "which says the controller interrupted"]);
}

#[test]
fn an_unbadged_notification_is_for_the_one_that_waits_there() {
    let mut system = good();
    plant(&mut system, "nvme-server-new", "nvme-server-old.event", 0, READ_WRITE);
    refused(&system, Rule::SignalsMarked, &["both wait on nvme-server-old.event"]);
    refused(&system, Rule::SignalsMarked, &["server nvme-server-new signals nvme-server-old.event with the badge 0x0"]);
    let mut system = good();
    let bound = id(&system, "alice.event");
    system.components.iter_mut().find(|component| component.name == "nvme-server-old").unwrap().bound_notification =
        Some(bound);
    refused(&system, Rule::SignalsMarked, &["nvme-server-old", "client alice", "both wait on alice.event"]);
}

/// Has the supervisor tick `component` by signalling `object`.
fn retick(specification: &mut Specification, component: &str, object: &str) {
    let object = id(specification, object);
    specification.components.iter_mut().find(|found| found.name == component).unwrap().tick = Some(object);
}

#[test]
fn a_tick_that_reaches_another_component_is_refused() {
    for (who, object, whose) in [
        ("mallory", "nvme-server.event", "the server nvme-server"),
        ("mallory", "alice.event", "client alice"),
        ("nvme-server", "console.event", "the console"),
    ] {
        let mut system = crowd();
        retick(&mut system, who, object);
        let elsewhere = format!("signals {object}, where {whose} waits");
        refused(&system, Rule::SignalsMarked, &["the clock that is to tick", &elsewhere]);
    }
}

#[test]
fn a_tick_that_its_component_does_not_wait_for_is_refused() {
    let mut system = crowd();
    new_object(&mut system, "deaf.event", ObjectKind::Notification);
    retick(&mut system, "nvme-server", "deaf.event");
    refused(&system, Rule::SignalsMarked, &["signals deaf.event, where the server nvme-server does not wait"]);
}

#[test]
fn a_tick_of_what_is_no_notification_is_refused() {
    let mut system = crowd();
    retick(&mut system, "alice", "nvme-server.endpoint");
    refused(&system, Rule::SignalsMarked, &["client alice on nvme-server.endpoint, no notification"]);
    let mut system = crowd();
    system.components[0].tick = Some(ObjectId::MAX);
    refused(&system, Rule::WellFormed, &["names a notification that is not there"]);
}

#[test]
fn client_that_signals_pci_server_or_policy_is_refused() {
    for (object, whose) in [("pci-server.event", "the PCI server"), ("policy.event", "the policy component policy")] {
        let mut system = crowd();
        plant(&mut system, "mallory", object, Badge::SIGNAL | 1, WRITE);
        refused(&system, Rule::SignalsDeclared, &["client mallory signals", object, whose, "cptr 200"]);
    }
}

#[test]
fn undeclared_signal_to_a_bound_notification_is_refused() {
    for (who, title, object) in [
        ("console", "the console", "nvme-server-old.event"),
        ("policy-old", "the policy component policy-old", "nvme-server-old.event"),
        ("alice", "client alice", "nvme-server-new.event"),
        ("nvme-server-new", "the server nvme-server-new", "nvme-server-old.event"),
        ("nvme-server-new", "the server nvme-server-new", "policy-old.event"),
        ("nvme-server-new", "the server nvme-server-new", "alice.event"),
        ("console", "the console", "pci-server.event"),
    ] {
        let mut system = good();
        plant(&mut system, who, object, Badge::SIGNAL | 1, WRITE);
        refused(&system, Rule::SignalsDeclared, &[title, object, "cptr 200"]);
    }
}
