//! A system's accounting completed: CNodes sized, paging structures added, environments written.

use super::{Access, Draft, Model, Who, short};
use crate::error::BuildError;
use crate::layout::{
    CNODE_CPTR, DIRECTORY_BYTES, ENVIRONMENT_VADDR, FAULT_SLOT, IPC_BUFFER_VADDR, LARGE_PAGE, PAGE, STACK_TOP,
};
use crate::system::System;
use capdl_spec::{Component, Fill, Mapping, ObjectKind, RECEIVE_CPTR};
use platform::{CPtr, Environment, Vaddr};
use std::collections::BTreeSet;

impl Model {
    /// Completes the accounting: sizes CNodes, adds paging structures, writes environments into the data.
    pub(crate) fn finish(mut self) -> Result<System, BuildError> {
        let mut environments = Vec::new();
        for who in self.everybody() {
            let environment = self.environment(who);
            self.write_environment(who, &environment)?;
            self.page(who);
            self.close(who, environment.cnode_bits);
            environments.push(environment);
        }
        let Self { specification, data, .. } = self;
        Ok(System { specification, data, environments })
    }

    fn environment(&mut self, who: Who) -> Environment {
        let draft = &self.drafts[who.0];
        let cptrs = (draft.next_cptr + draft.free_cptrs).next_power_of_two();
        let free_cptrs = if draft.own_cnode { draft.next_cptr..cptrs } else { draft.next_cptr..draft.next_cptr };
        Environment {
            component: Self::id(who),
            name: short(&draft.name),
            cnode: draft.own_cnode.then(|| CPtr::new(CNODE_CPTR)),
            cnode_bits: cptrs.trailing_zeros() as u8,
            ipc_buffer: Vaddr::new(IPC_BUFFER_VADDR),
            free_cptrs,
            receive_cptr: draft.own_cnode.then(|| CPtr::new(RECEIVE_CPTR)),
            wait: draft.wait,
            caps: draft.caps.clone(),
            regions: draft.regions.clone(),
            config: draft.config.clone(),
        }
    }

    fn write_environment(&mut self, who: Who, environment: &Environment) -> Result<(), BuildError> {
        let bytes = postcard::to_stdvec(environment).map_err(|_| BuildError::Encoding)?;
        self.data.resize(self.data.len().next_multiple_of(16), 0);
        let fill = Fill { offset: self.data.len() as u64, len: bytes.len() as u64 + 8, skip: 0 };
        if fill.len > IPC_BUFFER_VADDR - ENVIRONMENT_VADDR - PAGE {
            return Err(BuildError::EnvironmentTooLarge { component: self.name(who).into() });
        }
        self.data.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        self.data.extend_from_slice(&bytes);
        let name = format!("{}.environment", self.name(who));
        let frames = self.object(name, ObjectKind::SmallFrame, fill.len.div_ceil(PAGE));
        self.specification.objects[frames as usize].fill = Some(fill);
        self.map(who, frames, ENVIRONMENT_VADDR, Access::Constant);
        Ok(())
    }

    /// Adds the paging structures for what is mapped, level by level, before the mappings themselves.
    fn page(&mut self, who: Who) {
        let Draft { tables, directories, vspace, name, .. } = &self.drafts[who.0];
        let (vspace, name) = (*vspace, name.clone());
        let gigabytes: BTreeSet<u64> = directories.iter().map(|unit| unit * LARGE_PAGE / DIRECTORY_BYTES).collect();
        let levels = [
            (1, DIRECTORY_BYTES * 512, runs(gigabytes.iter().map(|unit| unit / 512).collect())),
            (2, DIRECTORY_BYTES, runs(gigabytes)),
            (3, LARGE_PAGE, runs(tables.clone())),
        ];
        for (level, covers, runs) in levels {
            for (first, count) in runs {
                let vaddr = first * covers;
                let kind = ObjectKind::TranslationTable { level };
                let object = self.object(format!("{name}.table-{level}-{vaddr:x}"), kind, count);
                self.specification.mappings.push(Mapping { vspace, object, vaddr, writable: true, executable: false });
            }
        }
    }

    /// Moves the draft into the specification.
    fn close(&mut self, who: Who, cnode_bits: u8) {
        let draft = &mut self.drafts[who.0];
        self.specification.objects[draft.cnode as usize].kind = ObjectKind::CNode { size_bits: cnode_bits };
        self.specification.mappings.append(&mut draft.mappings);
        self.specification.caps.append(&mut draft.cap_runs);
        self.specification.components.push(Component {
            id: Self::id(who),
            name: draft.name.clone(),
            role: draft.role,
            program: draft.program.clone(),
            server: draft.server,
            priority: draft.priority,
            tcb: draft.tcb,
            cnode: draft.cnode,
            root: draft.root,
            vspace: draft.vspace,
            ipc_buffer: draft.ipc_buffer,
            ipc_buffer_vaddr: IPC_BUFFER_VADDR,
            fault_slot: FAULT_SLOT,
            bound_notification: draft.bound_notification,
            tick: draft.tick,
            liveness: draft.liveness,
            keeps: draft.keeps,
            restart: draft.restart,
            driver: draft.driver,
            alarm: draft.alarm,
            ends_with: draft.ends_with,
            blocked: draft.blocked,
            frames: draft.frames,
            teardown_ack: draft.teardown_ack,
            presence: draft.presence,
            shown: draft.shown.clone(),
            entry: draft.entry,
            // As if the entry had been called: the ABI wants the stack 16-byte aligned before the return address.
            stack_pointer: STACK_TOP - 16,
            environment_vaddr: ENVIRONMENT_VADDR,
        });
    }
}

/// Consecutive numbers of a set as (first, count).
fn runs(set: BTreeSet<u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in set {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}
