//! The capabilities that each component can come to hold: those in its own CSpace, those behind CNodes and threads that it
//! controls, and those that others could send it.
//!
//! A capability crosses an endpoint when the sender may grant on it and the receiver may receive and has a place to receive
//! into: its own CNode. A reply crosses back under the same condition on the caller. On seL4 5.0.0 whoever may be answered may
//! grant, and the receiver's rights do not limit its answers. The proof holds there too, so it relies on neither. Messages to and from the PCI server are
//! left out: handing out capabilities is its work, and it is trusted to do it by its protocol. Messages to the IOMMU server are
//! left out, too.

use super::Role;
use crate::layout::rights::{GRANT, GRANT_REPLY, READ, WRITE};
use capdl_spec::{ObjectId, ObjectKind, Specification};

/// A capability some component holds or could come to hold.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) object: ObjectId,
    pub(super) rights: u8,
    pub(super) badge: u64,
    /// How it is reached, in words.
    pub(super) path: String,
    /// Whether the capability lies in the component's own CSpace.
    pub(super) own: bool,
}

/// All that each component can come to hold, in the order of the specification's components.
pub(super) fn holdings(specification: &Specification, roles: &[Role]) -> Vec<Vec<Held>> {
    let mut holdings: Vec<Vec<Held>> = specification
        .components
        .iter()
        .map(|component| {
            let own = specification.caps.iter().filter(|run| run.cnode == component.cnode);
            own.map(|run| Held {
                object: run.object,
                rights: run.rights,
                badge: run.badge,
                path: format!("cptr {} of its CSpace", run.cptr),
                own: true,
            })
            .collect()
        })
        .collect();
    // Each round adds what the last one made reachable. There are finitely many objects and rights, so the loop ends.
    loop {
        let mut found = Vec::new();
        for index in 0..holdings.len() {
            behind_controlled_objects(specification, &holdings, index, &mut found);
            sent_by_others(specification, roles, &holdings, index, &mut found);
        }
        let mut grown = false;
        for (index, held) in found {
            let list = &mut holdings[index];
            if !list.iter().any(|known| covers(known, &held)) {
                list.push(held);
                grown = true;
            }
        }
        if !grown {
            return holdings;
        }
    }
}

fn covers(known: &Held, held: &Held) -> bool {
    known.object == held.object && held.rights & !known.rights == 0 && (known.badge == held.badge || known.badge == 0)
}

/// Finds capabilities in other CNodes that the component holds, and in the CSpaces of threads that it controls.
fn behind_controlled_objects(
    specification: &Specification,
    holdings: &[Vec<Held>],
    index: usize,
    found: &mut Vec<(usize, Held)>,
) {
    let own_cnode = specification.components[index].cnode;
    for held in &holdings[index] {
        let name = &specification.objects[held.object as usize].name;
        let cnode = match specification.objects[held.object as usize].kind {
            // Behind one that is above a component's own is that one.
            ObjectKind::CNode { .. } => {
                let above = specification.components.iter().find(|component| component.root == Some(held.object));
                above.map_or(held.object, |component| component.cnode)
            }
            ObjectKind::Tcb => {
                let thread = specification.components.iter().find(|component| component.tcb == held.object);
                thread.map_or(own_cnode, |component| component.cnode)
            }
            _ => continue,
        };
        if cnode == own_cnode {
            continue;
        }
        for run in specification.caps.iter().filter(|run| run.cnode == cnode) {
            let path = format!("{name} ({}), cptr {} of the CSpace behind it", held.path, run.cptr);
            found.push((index, Held { object: run.object, rights: run.rights, badge: run.badge, path, own: false }));
        }
    }
}

/// Finds capabilities that others could send the component along endpoints, as a message or as the reply to one.
fn sent_by_others(
    specification: &Specification,
    roles: &[Role],
    holdings: &[Vec<Held>],
    receiver: usize,
    found: &mut Vec<(usize, Held)>,
) {
    if matches!(roles[receiver], Role::PciServer | Role::IommuServer)
        || !can_receive_caps(specification, holdings, receiver)
    {
        return;
    }
    for sender in (0..holdings.len()).filter(|sender| *sender != receiver && roles[*sender] != Role::PciServer) {
        let Some((endpoint, way)) = channel(specification, holdings, sender, receiver) else { continue };
        let names = (&specification.components[sender].name, &specification.objects[endpoint as usize].name);
        for held in &holdings[sender] {
            let path = format!("{} ({}) can send it {way} along {}", names.0, held.path, names.1);
            found.push((receiver, Held { path, own: false, ..held.clone() }));
        }
    }
}

/// Whether the component has a cptr to receive at: the kernel finds it through a CNode that the receiver holds.
fn can_receive_caps(specification: &Specification, holdings: &[Vec<Held>], index: usize) -> bool {
    let is_cnode = |held: &Held| matches!(specification.objects[held.object as usize].kind, ObjectKind::CNode { .. });
    holdings[index].iter().any(is_cnode)
}

/// The endpoint along which `sender` can give `receiver` a capability.
fn channel(
    specification: &Specification,
    holdings: &[Vec<Held>],
    sender: usize,
    receiver: usize,
) -> Option<(ObjectId, &'static str)> {
    let endpoints = |index: usize, fits: fn(u8) -> bool| {
        let is_endpoint = |held: &&Held| specification.objects[held.object as usize].kind == ObjectKind::Endpoint;
        holdings[index].iter().filter(is_endpoint).filter(move |held| fits(held.rights)).map(|held| held.object)
    };
    let may_call = |rights: u8| rights & WRITE != 0 && rights & (GRANT | GRANT_REPLY) != 0;
    let may_receive = |rights: u8| rights & READ != 0;
    let meet = |calls: usize, receives: usize| {
        endpoints(calls, may_call).find(|endpoint| endpoints(receives, may_receive).any(|other| other == *endpoint))
    };
    let sent = meet(sender, receiver).map(|endpoint| (endpoint, "in a message"));
    sent.or_else(|| meet(receiver, sender).map(|endpoint| (endpoint, "in a reply")))
}
