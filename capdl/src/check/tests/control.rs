//! Systems with a control component: it has the declared acts, and nothing that an act does not need.

use super::*;
use blk_api::administration::{Right, Rights};
use blk_api::orders;
use control_api::{Act, supervisor};

const CONTROL: &str = "control";
const WINDOW: &str = "nvme-server.administration-window";

fn controlled() -> Image {
    Image::of("control")
}

/// A control component that also administers the controller.
fn administered() -> Image {
    Image::of("administration")
}

/// The badge of the control component's capability to the object of this name.
fn badge<'a>(system: &'a mut Image, object: &str) -> &'a mut u64 {
    let cnode = component(system, CONTROL).cnode;
    let object = id(system, object);
    let run = system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == object);
    &mut run.unwrap_or_else(|| panic!("control holds no capability to that")).badge
}

#[test]
fn a_control_component_with_the_declared_acts_passes() {
    assert_eq!(checked(&controlled()), Ok(()));
}

#[test]
fn an_act_that_is_not_declared_is_refused() {
    let mut system = controlled();
    let Declaration { control: Some(acts), .. } = Arc::make_mut(&mut system.declaration) else { panic!("it has acts") };
    acts.retain(|act| *act != Act::Rights);
    refused(&system, Rule::NamedExactly, &[CONTROL, "policies"]);
    let mut system = controlled();
    *badge(&mut system, "root-task.endpoint") |= 1 << 5;
    refused(&system, Rule::NamedExactly, &[CONTROL, "supervisor"]);
    let mut system = controlled();
    Arc::make_mut(&mut system.declaration).control = None;
    refused(&system, Rule::ConfiguredAsDeclared, &[CONTROL, "no act of it is declared"]);
}

#[test]
fn a_way_to_a_device_a_server_or_memory_of_others_is_refused() {
    for (object, rule) in [
        ("nvme-server.endpoint", Rule::PolicyAlone),
        ("alice.window", Rule::WindowsUnreadable),
        ("nvme-server.telemetry", Rule::PrivateMemory),
    ] {
        let mut system = controlled();
        plant(&mut system, CONTROL, object, blk_api::policy::BADGE, READ | WRITE);
        let leaks = checked(&system).unwrap_err();
        assert!(leaks.iter().any(|leak| leak.rule == rule), "{object}: {leaks:?}");
    }
}

#[test]
fn an_act_of_another_component_is_refused() {
    for (object, badge) in [
        ("policy.endpoint", orders::BADGE | orders::MAY_RIGHTS),
        ("root-task.endpoint", supervisor::BADGE | supervisor::MAY_KILL),
    ] {
        let mut system = controlled();
        plant(&mut system, "alice", object, badge, WRITE);
        refused(&system, Rule::NamedExactly, &["alice", object]);
    }
}

#[test]
fn a_mailbox_or_kept_orders_that_another_reaches_are_refused() {
    for (object, other) in [("control.mailbox", "alice"), ("control.mailbox", "policy"), ("policy.kept", "alice")] {
        let mut system = controlled();
        map(&mut system, other, object, false, false);
        refused(&system, Rule::PrivateMemory, &[other, object]);
    }
}

#[test]
fn a_policy_component_that_forgets_orders_is_refused() {
    let mut system = controlled();
    component(&mut system, "policy").keeps = None;
    refused(&system, Rule::NamedExactly, &["policy", "page to keep"]);
}

#[test]
fn a_right_to_administer_that_is_not_declared_is_refused() {
    assert_eq!(checked(&administered()), Ok(()));
    let mut system = administered();
    *badge(&mut system, "nvme-server.endpoint") |= Rights::from_iter([Right::Io]).badge();
    refused(&system, Rule::NamedExactly, &[CONTROL, "administered"]);
    let mut system = administered();
    Arc::make_mut(&mut system.declaration).administration = None;
    refused(&system, Rule::NamedExactly, &[CONTROL, "administered"]);
    // Another component with that badge.
    let mut system = administered();
    plant(&mut system, "alice", "nvme-server.endpoint", Rights::from_iter([Right::Inspect]).badge(), WRITE);
    refused(&system, Rule::NamedExactly, &["alice", "nvme-server.endpoint"]);
}

#[test]
fn a_window_of_the_administration_that_another_reaches_is_refused() {
    for other in ["alice", "policy", CONTROL, "nvme-server"] {
        let mut system = administered();
        map(&mut system, other, WINDOW, false, false);
        let leaks = checked(&system).unwrap_err();
        assert!(leaks.iter().any(|leak| leak.path.contains(other) && leak.path.contains(WINDOW)), "{other}: {leaks:?}");
    }
    let mut system = administered();
    plant(&mut system, "alice", WINDOW, 0, READ | WRITE);
    refused(&system, Rule::OneWriter, &["alice", WINDOW]);
    let mut system = administered();
    let (window, alice) = (id(&system, WINDOW), id(&system, "alice.window"));
    component(&mut system, CONTROL).shown.iter_mut().for_each(|shown| {
        if *shown == window {
            *shown = alice;
        }
    });
    refused(&system, Rule::NamedExactly, &[CONTROL, "alice.window"]);
}
