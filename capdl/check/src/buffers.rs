//! The rule about IPC buffers. The kernel reads a component's long arguments and receive cptrs from its buffer, so nobody else
//! may write it. Messages pass through it, so nobody else may read it.

use super::{Rule, System};
use capdl_spec::{Component, ObjectKind};

impl System<'_> {
    /// Checks that each IPC buffer belongs to its component alone.
    pub(super) fn ipc_buffers(&mut self) {
        for index in self.indices() {
            let (who, component) = (self.who(index), &self.specification.components[index]);
            let Component { ipc_buffer: buffer, ipc_buffer_vaddr: vaddr, .. } = *component;
            let object = self.object(buffer);
            let name = &object.name;
            let mut paths = Vec::new();
            if object.kind != ObjectKind::SmallFrame {
                paths.push(format!("the IPC buffer of {who} is {name}, which is no small frame"));
            } else if object.count != 1 {
                paths.push(format!("the IPC buffer of {who} is {name}, an array of {}", object.count));
            }
            let own: Vec<_> = self.frames[index].iter().filter(|mapping| mapping.object == buffer).collect();
            if !matches!(own.as_slice(), [only] if only.vaddr == vaddr && only.writable) {
                paths.push(format!(
                    "{who} does not map {name} at {vaddr:#x} alone and writable, where its IPC buffer is to be"
                ));
            }
            for other in self.indices() {
                let mapping = self.frames[other].iter().find(|mapping| mapping.object == buffer);
                if let Some(mapping) = mapping.filter(|_| other != index) {
                    let other = self.who(other);
                    paths.push(format!("{other} maps {name} at {:#x}, the IPC buffer of {who}", mapping.vaddr));
                }
                if let Some(held) = self.holdings[other].iter().find(|held| held.object == buffer) {
                    let other = self.who(other);
                    paths.push(format!("{other} holds {name}, the IPC buffer of {who}, by {}", held.path));
                }
            }
            for path in paths {
                self.refuse(Rule::IpcBufferAlone, path);
            }
        }
    }
}
