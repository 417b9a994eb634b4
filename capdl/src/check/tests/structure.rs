//! Systems with contradictory accounting: numbers, cptrs and addresses given out twice, and memory that the supervisor and the
//! kernel use for a component but that belongs to another one.

use super::*;
use crate::layout::{FAULT_SLOT, IPC_BUFFER_VADDR};
use capdl_spec::TeardownAck;

/// The mapping of `object` by `component`.
fn mapping<'a>(system: &'a mut Image, component: &str, object: &str) -> &'a mut Mapping {
    let (vspace, object) = (id(system, &format!("{component}.vspace")), id(system, object));
    let mut mappings = system.mappings.iter_mut();
    mappings.find(|mapping| mapping.vspace == vspace && mapping.object == object).unwrap()
}

/// The capabilities of `component` to `object`.
fn run<'a>(system: &'a mut Image, component: &str, object: &str) -> &'a mut CapRun {
    let (cnode, object) = (id(system, &format!("{component}.cnode")), id(system, object));
    system.caps.iter_mut().find(|run| run.cnode == cnode && run.object == object).unwrap()
}

#[test]
fn an_ipc_buffer_that_somebody_else_maps_is_refused() {
    for object in ["bob.window", "bob.stack", "alice.ring-server", "console.log"] {
        let mut system = crowd();
        let buffer = id(&system, object);
        component(&mut system, "alice").ipc_buffer = buffer;
        refused(&system, Rule::IpcBufferAlone, &["client alice", object]);
    }
}

#[test]
fn an_ipc_buffer_that_somebody_else_holds_is_refused() {
    let mut system = crowd();
    let buffer = id(&system, "alice.window");
    component(&mut system, "alice").ipc_buffer = buffer;
    refused(&system, Rule::IpcBufferAlone, &["client alice", "alice.window", "nvme-server holds"]);
}

#[test]
fn ipc_buffer_is_one_frame_mapped_at_its_address() {
    let mut system = crowd();
    mapping(&mut system, "alice", "alice.ipc-buffer").vaddr += 0x1000;
    refused(&system, Rule::IpcBufferAlone, &["client alice", "does not map alice.ipc-buffer at 0x10100000"]);
    let mut system = crowd();
    mapping(&mut system, "alice", "alice.ipc-buffer").writable = false;
    refused(&system, Rule::IpcBufferAlone, &["client alice", "does not map alice.ipc-buffer at 0x10100000"]);
    let mut system = crowd();
    component(&mut system, "alice").ipc_buffer_vaddr = IPC_BUFFER_VADDR + 0x200;
    refused(&system, Rule::IpcBufferAlone, &["client alice", "0x10100200"]);
    for (object, what) in [("alice.stack", "array of 32"), ("alice.event", "no small frame")] {
        let mut system = crowd();
        let object = id(&system, object);
        component(&mut system, "alice").ipc_buffer = object;
        refused(&system, Rule::IpcBufferAlone, &["client alice", what]);
    }
}

#[test]
fn a_component_number_that_is_0_or_given_twice_is_refused() {
    let mut system = crowd();
    component(&mut system, "alice").id = 0;
    refused(&system, Rule::WellFormed, &["client alice has the number 0"]);
    let mut system = crowd();
    let number = component(&mut system, "bob").id;
    component(&mut system, "alice").id = number;
    refused(&system, Rule::WellFormed, &["client alice and client bob have the same number"]);
}

#[test]
fn two_capabilities_in_one_cptr_are_refused() {
    let mut system = crowd();
    let cptr = run(&mut system, "alice", "policy.endpoint").cptr;
    run(&mut system, "alice", "nvme-server.event").cptr = cptr;
    refused(&system, Rule::WellFormed, &["client alice", "nvme-server.event and policy.endpoint", "the same cptr"]);
    let mut system = crowd();
    run(&mut system, "alice", "nvme-server.event").cptr = FAULT_SLOT;
    refused(&system, Rule::WellFormed, &["client alice", "nvme-server.event", "fault endpoint"]);
}

#[test]
fn a_run_of_capabilities_beside_another_ends_before_it() {
    let mut system = crowd();
    run(&mut system, "nvme-server", "alice.window").cptr += 1;
    refused(&system, Rule::WellFormed, &["the server nvme-server", "alice.window", "the same cptr"]);
}

#[test]
fn a_cptr_outside_of_the_cnode_is_refused() {
    for cptr in [0, 16, u64::MAX] {
        let mut system = crowd();
        run(&mut system, "alice", "nvme-server.event").cptr = cptr;
        refused(&system, Rule::WellFormed, &["client alice", "nvme-server.event", "outside of its CNode"]);
    }
}

#[test]
fn overlapping_mappings_are_refused() {
    let mut system = crowd();
    let stack = mapping(&mut system, "alice", "alice.stack").vaddr;
    mapping(&mut system, "alice", "alice.environment").vaddr = stack + 0x3000;
    refused(&system, Rule::WellFormed, &["client alice", "alice.stack and alice.environment", "overlap"]);
    let mut system = crowd();
    let table = mapping(&mut system, "alice", "alice.table-1-0").object;
    system.objects[table as usize].count = 2;
    mapping(&mut system, "alice", "alice.window").vaddr = u64::MAX - 0xfff;
    refused(&system, Rule::WellFormed, &["client alice", "alice.window", "end of its address space"]);
}

#[test]
fn an_arena_over_something_that_is_mapped_is_refused() {
    let mut system = crowd();
    reconfigure(&mut system, "pci-server", |configured| {
        let stack = configured.regions.iter().find(|region| region.name == "sizing").unwrap().vaddr;
        configured.regions.iter_mut().find(|region| region.name == "arena").unwrap().vaddr = stack;
    })
    .unwrap();
    refused(&system, Rule::WellFormed, &["the PCI server", "an arena", "overlap"]);
    for len in [0, 0x1000, 0x1f_ffff] {
        let mut system = crowd();
        reconfigure(&mut system, "pci-server", |configured| {
            configured.regions.iter_mut().find(|region| region.name == "arena").unwrap().len = len;
        })
        .unwrap();
        refused(&system, Rule::WellFormed, &["the PCI server has an arena", "no whole tables of level 3"]);
    }
}

#[test]
fn paging_structures_lie_beside_each_other_and_under_every_page() {
    let mut system = crowd();
    mapping(&mut system, "alice", "alice.table-2-0").vaddr = 1 << 30;
    refused(&system, Rule::WellFormed, &["client alice", "alice.stack", "without a table of level 2"]);
    let table = crowd().specification.objects.into_iter().find(|object| object.name.starts_with("alice.table-3"));
    let mut system = crowd();
    let first = mapping(&mut system, "alice", &table.unwrap().name);
    let (copy, vspace) = (*first, first.vspace);
    new_object(&mut system, "alice.table-3-copy", ObjectKind::TranslationTable { level: 3 });
    let object = id(&system, "alice.table-3-copy");
    system.mappings.push(Mapping { vspace, object, ..copy });
    refused(&system, Rule::WellFormed, &["client alice", "alice.table-3-copy", "overlap"]);
}

#[test]
fn what_is_mapped_or_installed_for_nobody_is_refused() {
    let mut system = crowd();
    mapping(&mut system, "alice", "alice.window").vspace = id(&system.clone(), "alice.tcb");
    refused(&system, Rule::WellFormed, &["alice.window", "alice.tcb", "no component's VSpace"]);
    let mut system = crowd();
    run(&mut system, "alice", "policy.endpoint").cnode = id(&system.clone(), "alice.tcb");
    refused(&system, Rule::WellFormed, &["policy.endpoint", "alice.tcb", "no component's CSpace"]);
    let mut system = crowd();
    mapping(&mut system, "alice", "alice.window").object = id(&system.clone(), "alice.tcb");
    refused(&system, Rule::WellFormed, &["client alice", "alice.tcb", "cannot be mapped"]);
}

#[test]
fn teardown_ack_of_another_session_is_refused() {
    let torn_down = |session: u32| {
        let mut system = Image::of("client-cycles");
        component(&mut system, "victim").teardown_ack.as_mut().unwrap().session = session;
        system
    };
    assert_eq!(checked(&torn_down(1)), Ok(()));
    refused(&torn_down(0), Rule::PrivateMemory, &["client victim", "nvme-server.teardown-acks", "word 0", "word 1"]);
    refused(
        &torn_down(1024),
        Rule::PrivateMemory,
        &["client victim", "word 1024", "outside of nvme-server.teardown-acks"],
    );
}

#[test]
fn a_teardown_ack_of_another_component_is_refused() {
    let mut system = Image::of("client-cycles");
    let page = id(&system, "nvme-server.teardown-acks");
    component(&mut system, "policy").teardown_ack = Some(TeardownAck { page, session: 7 });
    refused(&system, Rule::PrivateMemory, &["the policy component policy", "nvme-server.teardown-acks", "no client"]);
}

#[test]
fn two_components_with_one_liveness_page_are_refused() {
    let mut system = crowd();
    let liveness = component(&mut system, "bob").liveness;
    component(&mut system, "alice").liveness = liveness;
    refused(&system, Rule::PrivateMemory, &["client alice and client bob have one liveness page, bob.liveness"]);
}

#[test]
fn liveness_or_ack_page_with_another_use_is_refused() {
    for object in ["alice.stack", "alice.window", "nvme-server.dma", "mallory.event"] {
        let mut system = crowd();
        let object = Some(id(&system, object));
        component(&mut system, "alice").liveness = object;
        refused(&system, Rule::PrivateMemory, &["client alice", "liveness page"]);
    }
}

#[test]
fn a_component_keeps_a_frame_of_its_own_alone() {
    for (who, title, object) in [
        ("pci-server", "the PCI server", "alice.data"),
        ("mallory", "client mallory", "alice.window"),
        ("mallory", "client mallory", "mallory.ring-client"),
        ("mallory", "client mallory", "mallory.stack"),
        ("nvme-server", "the server nvme-server", "alice.liveness"),
    ] {
        let mut system = crowd();
        let frame = Some(id(&system, object));
        component(&mut system, who).keeps = frame;
        refused(&system, Rule::PrivateMemory, &[title, "keeps", object]);
    }
}

#[test]
fn a_program_starts_in_its_own_code_with_its_own_stack() {
    let mut system = crowd();
    component(&mut system, "alice").entry = 0;
    refused(&system, Rule::WellFormed, &["client alice", "starts at 0x0", "no code"]);
    let mut system = crowd();
    component(&mut system, "alice").stack_pointer = 0x4000_0000;
    refused(&system, Rule::WellFormed, &["client alice", "stack at 0x40000000"]);
}

#[test]
fn fill_outside_data_or_of_another_environment_is_refused() {
    let mut system = crowd();
    let code = id(&system, "alice.code") as usize;
    system.objects[code].fill.as_mut().unwrap().offset = u64::MAX;
    refused(&system, Rule::WellFormed, &["alice.code", "filled"]);
    let mut system = crowd();
    let (alice, bob) = (id(&system, "alice.constants") as usize, id(&system, "bob.environment") as usize);
    system.objects[alice].fill = system.objects[bob].fill;
    refused(&system, Rule::PrivateMemory, &["alice.constants", "environment of client bob"]);
}
