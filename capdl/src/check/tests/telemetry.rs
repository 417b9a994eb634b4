//! Systems in which servers and clients with functions show statistics to the build machine.

use super::*;

const SERVER: &str = "nvme-server";
const PAGES: &str = "nvme-server.telemetry";

fn shown() -> Image {
    Image::of("telemetry")
}

#[test]
fn a_server_that_shows_statistics_passes() {
    assert_eq!(checked(&shown()), Ok(()));
}

#[test]
fn pages_of_telemetry_that_another_reaches_are_refused() {
    for other in ["alice", "policy", "console"] {
        let mut system = shown();
        map(&mut system, other, PAGES, false, false);
        refused(&system, Rule::PrivateMemory, &[other, "maps nvme-server.telemetry"]);
    }
    let mut system = shown();
    plant(&mut system, "policy", PAGES, 0, READ);
    refused(&system, Rule::PrivateMemory, &["policy holds nvme-server.telemetry"]);
}

#[test]
fn pages_that_the_scenario_does_not_give_are_refused() {
    let mut system = shown();
    Arc::make_mut(&mut system.declaration).has_telemetry = false;
    refused(&system, Rule::NamedExactly, &[SERVER, "pages for the build machine"]);
    // Memory that the build machine would take for statistics.
    let mut system = shown();
    let log = id(&system, "alice.log");
    let alice = system.components.iter_mut().find(|component| component.name == "alice");
    alice.unwrap().shown = vec![log];
    refused(&system, Rule::NamedExactly, &["alice", "pages for the build machine"]);
}

#[test]
fn pages_of_a_client_with_a_function_are_its_own() {
    let shown = || Image::of("trace-functions");
    let pages = "frida.telemetry";
    assert_eq!(checked(&shown()), Ok(()));
    for (other, rule) in [("fritz", Rule::ClientsApart), ("alice", Rule::ClientsApart), (SERVER, Rule::PrivateMemory)] {
        let mut system = shown();
        map(&mut system, other, pages, false, false);
        refused(&system, rule, &[other, pages]);
    }
    // A capability would let the function reach them.
    for other in ["frida", "fritz", SERVER] {
        let mut system = shown();
        plant(&mut system, other, pages, 0, READ_WRITE);
        refused(&system, Rule::NamedExactly, &[other, pages]);
    }
    let mut system = shown();
    Arc::make_mut(&mut system.declaration).has_telemetry = false;
    refused(&system, Rule::NamedExactly, &["frida", "pages for the build machine"]);
}

#[test]
fn pages_for_traces_are_their_components_alone() {
    let traced = || Image::of("trace");
    assert_eq!(checked(&traced()), Ok(()));
    let (own, servers) = ("alice.telemetry", PAGES);
    let readers =
        [("bob", own, Rule::ClientsApart), (SERVER, own, Rule::PrivateMemory), ("alice", servers, Rule::PrivateMemory)];
    for (other, pages, rule) in readers {
        let mut system = traced();
        map(&mut system, other, pages, false, false);
        refused(&system, rule, &[other, pages]);
    }
    let mut system = traced();
    Arc::make_mut(&mut system.declaration).has_traces = false;
    refused(&system, Rule::NamedExactly, &["alice", "pages for the build machine"]);
}
