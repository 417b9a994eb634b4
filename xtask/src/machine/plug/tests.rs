use super::*;
use crate::machine::injection::door::memory::{Memory, door, get, put};
use crate::machine::monitor::script::{Script, deletion, monitor};
use report::{Reconnected, Report, clip};
use std::sync::{Arc, Mutex};

const SCENARIO: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
hot_plug = true
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
"#;

fn scenario(events: &[(u32, &str)]) -> Scenario {
    let event = |(after_ms, action): &(u32, &str)| {
        format!("[[hotplug]]\ncontroller = \"disk\"\nafter_ms = {after_ms}\naction = \"{action}\"\n")
    };
    let events: String = events.iter().map(event).collect();
    Scenario::parse(&format!("{SCENARIO}{events}"), "file").unwrap()
}

/// A port whose slot has power, and a monitor.
fn machine() -> (Memory, Arc<Mutex<Script>>) {
    let memory = Memory::default();
    put(&memory, 0xb002_0018, &[0, 1, 1, 0]);
    put(&memory, 0xb002_0034, &[0x40]);
    put(&memory, 0xb002_0040, &[0x10, 0]);
    (memory, Arc::default())
}

/// Results of a run whose load is known to work.
fn working() -> Results {
    let mut results = Results::default();
    results.timeline.begin_ns = Some(0);
    results.add(Report::FirstIo { tenant: clip("alice"), at_ns: 100_000_000 }, ms(600));
    results
}

fn words(plug: &mut Plug<'_>, results: &Results, at_ms: u64) -> Vec<String> {
    plug.go_on(results, ms(at_ms)).unwrap().into_iter().map(|done| done.words).collect()
}

fn asked(script: &Mutex<Script>) -> Vec<String> {
    let script = script.lock().unwrap();
    script
        .asked
        .iter()
        .map(|(name, _)| name.clone())
        .filter(|name| ["device_add", "device_del", "stop", "cont"].contains(&name.as_str()))
        .collect()
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_pulled_controller_is_inserted_once_it_is_out() {
    let scenario = scenario(&[(100, "pull"), (200, "insert")]);
    let (memory, script) = machine();
    let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
    assert_eq!(words(&mut plug, &Results::default(), 5000), [""; 0], "the load does not work yet");
    assert_eq!(plug.pause(ms(5000)), None);
    let results = working();
    assert_eq!(words(&mut plug, &results, 6000), [""; 0]);
    assert_eq!(plug.pause(ms(6050)), Some(ms(50)));
    assert_eq!(words(&mut plug, &results, 6099), [""; 0]);
    assert_eq!(words(&mut plug, &results, 6100), ["it is pulled out"]);
    assert_eq!(get(&memory, 0xb002_0058, 2), 0x700, "no power, and a dark indicator");
    assert_eq!(words(&mut plug, &results, 6200), [""; 0], "QEMU still has the device");
    assert_eq!(plug.pause(ms(6200)), Some(POLL));
    assert_eq!(plug.left(), ["the run was over before the hot-plug event of disk: insert"]);
    script.lock().unwrap().before.push(deletion("nvme0"));
    assert_eq!(words(&mut plug, &results, 6220), ["it is inserted"]);
    assert_eq!(asked(&script), ["stop", "cont", "stop", "device_add", "cont"]);
    assert!(plug.left().is_empty());
}

#[test]
fn a_late_insertion_delays_the_next_removal() {
    let scenario = scenario(&[(100, "remove"), (200, "insert"), (1000, "pull")]);
    let (memory, script) = machine();
    let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
    let results = working();
    assert_eq!(words(&mut plug, &results, 0), [""; 0]);
    script.lock().unwrap().refuses.push("device_del");
    assert_eq!(words(&mut plug, &results, 100), [""; 0], "the slot is busy");
    script.lock().unwrap().refuses.clear();
    assert_eq!(words(&mut plug, &results, 120), ["its removal is requested"]);
    assert_eq!(words(&mut plug, &results, 5000), [""; 0]);
    script.lock().unwrap().before.push(deletion("nvme0"));
    assert_eq!(words(&mut plug, &results, 7000), ["it is out"]);
    assert_eq!(words(&mut plug, &results, 7499), [""; 0]);
    assert_eq!(words(&mut plug, &results, 7500), ["it is inserted"]);
    assert_eq!(asked(&script), ["device_del", "device_del", "stop", "device_add", "cont"]);
    {
        let script = script.lock().unwrap();
        let (_, device) = script.asked.iter().find(|(name, _)| name == "device_add").unwrap();
        assert_eq!((&device["serial"], &device["drive"]), (&json!("disk"), &json!("d0n1")));
    }
    assert_eq!(words(&mut plug, &results, 8299), [""; 0]);
    assert_eq!(words(&mut plug, &results, 8300), ["it is pulled out"]);
}

#[test]
fn a_controller_that_came_back_stays_until_its_waiting_tenant_has_its_session_again() {
    let mut scenario = scenario(&[(100, "pull"), (200, "insert"), (300, "pull")]);
    scenario.tenants[0].waits = true;
    let (memory, script) = machine();
    let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
    let mut results = working();
    words(&mut plug, &results, 0);
    assert_eq!(words(&mut plug, &results, 100), ["it is pulled out"]);
    script.lock().unwrap().before.push(deletion("nvme0"));
    assert_eq!(words(&mut plug, &results, 200), ["it is inserted"]);
    assert_eq!(words(&mut plug, &results, 5000), [""; 0]);
    let again = Reconnected { tenant: clip("alice"), at_ns: 0, reissued: 0 };
    results.add(Report::Reconnected(again), ms(5100));
    assert_eq!(words(&mut plug, &results, 5100), ["it is pulled out"]);
}

/// The moves of a controller that is absent at first and is inserted after 100 ms.
fn inserted(other: bool, refuses: &[&'static str]) -> (Result<Vec<Done>>, Arc<Mutex<Script>>) {
    let mut scenario = scenario(&[(100, "insert")]);
    scenario.hot_plugs[0].other = other;
    let (memory, script) = machine();
    script.lock().unwrap().refuses.extend(refuses);
    let mut plug = Plug::with(&scenario, door(&memory), monitor(&script));
    let mut results = Results::default();
    assert_eq!(words(&mut plug, &results, 500), [""; 0], "the system does not run yet");
    results.timeline.begin_ns = Some(0);
    assert_eq!(words(&mut plug, &results, 600), [""; 0]);
    (plug.go_on(&results, ms(700)), script)
}

#[test]
fn a_load_at_a_controller_that_is_absent_at_first_is_not_waited_for() {
    let done = inserted(false, &[]).0.unwrap();
    assert_eq!(done.iter().map(|done| done.words.as_str()).collect::<Vec<_>>(), ["it is inserted"]);
}

#[test]
fn another_controller_has_a_serial_number_and_blocks_of_its_own() {
    let (done, script) = inserted(true, &[]);
    assert_eq!(done.unwrap()[0].words, "another one is inserted");
    let script = script.lock().unwrap();
    let (_, device) = script.asked.iter().find(|(name, _)| name == "device_add").unwrap();
    assert_eq!((&device["drive"], &device["serial"]), (&json!("other0"), &json!("disk-2")));
}

#[test]
fn an_insertion_that_qemu_refuses_ends_the_run() {
    let error = inserted(false, &["device_add"]).0.err().unwrap().to_string();
    assert_eq!(error, "QEMU does not insert the controller disk: guest is busy");
}
