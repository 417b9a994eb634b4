//! Compares the capabilities that the root task reports as installed with those of the specification.

use capdl_spec::Specification;
use report::Installed;
/// Component, cptr, cptrs, object, badge, rights.
type Run = (u16, u64, u32, String, u64, u8);

/// Every difference, one sentence each.
pub fn differences(specification: &Specification, installed: &[Installed]) -> Vec<String> {
    let is_fault = |run: &Installed| {
        // That endpoint is the root task's own and no object of the specification.
        specification.components.iter().any(|one| one.id == run.component && one.fault_slot == run.cptr)
    };
    // Each specified run removes one installed run, so a run that was installed twice is left over.
    let mut more: Vec<Run> = installed
        .iter()
        .filter(|run| !is_fault(run))
        .map(|run| (run.component, run.cptr, run.count, run.object.to_string(), run.badge, run.rights))
        .collect();
    let mut differences = Vec::new();
    for run in wanted(specification) {
        match more.iter().position(|found| *found == run) {
            Some(place) => drop(more.swap_remove(place)),
            None => differences.push(format!("the specification's {} was not installed", shown(&run))),
        }
    }
    more.sort();
    differences.extend(more.iter().map(|run| format!("{} was installed and is not in the specification", shown(run))));
    differences
}

fn wanted(specification: &Specification) -> Vec<Run> {
    let mut wanted = Vec::new();
    for run in &specification.caps {
        let holder = specification.components.iter().find(|component| component.cnode == run.cnode);
        let object = specification.objects.get(run.object as usize);
        if let (Some(holder), Some(object)) = (holder, object) {
            let name = report::clip::<48>(&object.name).to_string();
            wanted.push((holder.id, run.cptr, object.count, name, run.badge, run.rights));
        }
    }
    wanted
}

fn shown((component, cptr, count, object, badge, rights): &Run) -> String {
    format!("{count} x {object} at cptr {cptr} of component {component}, badge {badge:#x}, rights {rights:#x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use capdl_spec::{CapRun, Component, Object, ObjectKind, Role};

    fn specification() -> Specification {
        let object = |name: &str, kind| Object { name: name.into(), kind, count: 1, fill: None };
        Specification {
            no_iommu: false,
            objects: vec![object("cnode", ObjectKind::CNode { size_bits: 4 }), object("ep", ObjectKind::Endpoint)],
            caps: vec![CapRun { cnode: 0, cptr: 8, object: 1, badge: 7, rights: 6 }],
            components: vec![Component {
                liveness: None,
                keeps: None,
                restart: None,
                driver: None,
                alarm: None,
                ends_with: None,
                blocked: None,
                frames: None,
                presence: None,
                shown: Vec::new(),
                teardown_ack: None,
                id: 3,
                name: "a".into(),
                role: Role::Client,
                program: "a".into(),
                server: None,
                priority: 1,
                tcb: 0,
                cnode: 0,
                root: None,
                vspace: 0,
                ipc_buffer: 0,
                ipc_buffer_vaddr: 0,
                fault_slot: 1,
                bound_notification: None,
                tick: None,
                entry: 0,
                stack_pointer: 0,
                environment_vaddr: 0,
            }],
            ..Specification::default()
        }
    }

    fn run(cptr: u64, badge: u64) -> Installed {
        Installed { component: 3, cptr, count: 1, object: report::clip("ep"), badge, rights: 6 }
    }

    #[test]
    fn what_was_asked_for_makes_no_words() {
        assert!(differences(&specification(), &[run(8, 7), run(1, 3)]).is_empty());
    }

    #[test]
    fn what_was_installed_twice_is_named() {
        let differences = differences(&specification(), &[run(8, 7), run(8, 7)]);
        assert_eq!(
            differences,
            ["1 x ep at cptr 8 of component 3, badge 0x7, rights 0x6 was installed and is not in the specification"]
        );
    }

    #[test]
    fn a_missing_and_a_strange_capability_are_both_named() {
        let differences = differences(&specification(), &[run(8, 9)]);
        assert_eq!(
            differences,
            [
                "the specification's 1 x ep at cptr 8 of component 3, badge 0x7, rights 0x6 was not installed",
                "1 x ep at cptr 8 of component 3, badge 0x9, rights 0x6 was installed and is not in the specification"
            ]
        );
    }
}
