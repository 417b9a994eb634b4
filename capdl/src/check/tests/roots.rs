//! The CNodes above those of clients that hold their own: each has one, and nobody reaches it.

use super::*;
use capdl_spec::{ObjectKind, Role};

fn functions() -> Image {
    Image::of("functions")
}

#[test]
fn a_client_that_holds_its_own_cnode_holds_its_fault_endpoint_nowhere() {
    let system = functions();
    for component in &system.components {
        let holds = system.caps.iter().any(|run| run.object == component.cnode && run.cnode == component.cnode);
        assert_eq!(component.root.is_some(), holds && component.role == Role::Client, "{}", component.name);
        if let Some(root) = component.root {
            assert!(system.caps.iter().all(|run| run.object != root && run.cnode != root), "{}", component.name);
            assert_eq!(component.fault_path(), 1 << 63);
        }
    }
}

#[test]
fn another_cnode_above_a_clients_own_or_none_is_refused() {
    let valid = functions();
    let fritz = component(&mut valid.clone(), "fritz").root;
    for root in [None, fritz, Some(id(&valid, "frida.cnode")), Some(id(&valid, "frida.window")), Some(u32::MAX)] {
        let mut system = valid.clone();
        component(&mut system, "frida").root = root;
        assert!(checked(&system).is_err(), "{root:?}");
    }
    let mut system = valid.clone();
    component(&mut system, "frida").root = None;
    refused(&system, Rule::NamedExactly, &["client frida has as its CNode above its own none", "frida.root"]);
    let mut system = valid.clone();
    let root = id(&system, "frida.root") as usize;
    system.objects[root].kind = ObjectKind::CNode { size_bits: 2 };
    refused(&system, Rule::WellFormed, &["client frida has above its CNode something else than a CNode of 2 slots"]);
    let mut system = valid;
    component(&mut system, "alice").root = fritz;
    component(&mut system, "fritz").root = None;
    refused(&system, Rule::NamedExactly, &["client alice has as its CNode above its own fritz.root"]);
}

#[test]
fn a_capability_to_it_or_in_it_is_refused() {
    let mut system = functions();
    plant(&mut system, "frida", "frida.root", 0, ALL);
    refused(&system, Rule::NamedExactly, &["client frida holds frida.root", "not for it"]);
    let mut system = functions();
    plant(&mut system, "fritz", "frida.root", 0, ALL);
    refused(&system, Rule::ClientsHoldNoDevice, &["client fritz reaches frida."]);
    let mut system = functions();
    let (cnode, object) = (id(&system, "frida.root"), id(&system, "frida.event"));
    system.caps.push(CapRun { cnode, cptr: 1, object, badge: 0, rights: ALL });
    refused(&system, Rule::WellFormed, &["frida.event is put into frida.root, which is no component's CSpace"]);
}
