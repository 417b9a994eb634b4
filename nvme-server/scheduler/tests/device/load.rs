//! The load of a tenant.

use crate::model::Operation;
use scheduler::{Class, Share, Tenant};

/// The load of one tenant: keeps `depth` requests of `bytes`, each again after `think` nanoseconds, from `from` to `to`.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub share: Share,
    /// The operations of its requests, in turn.
    pub operations: [Operation; 2],
    pub bytes: u32,
    /// The load's requests are refused: they take turns and never reach the device.
    pub is_refused: bool,
    /// All its requests are for one block.
    pub is_hot: bool,
    pub depth: u32,
    pub think: u64,
    /// Asks only in every other part of its time, so many nanoseconds long; 0 for always.
    pub burst: u64,
    pub from: u64,
    pub to: u64,
}

impl Load {
    pub fn new(class: Class, bytes: u32, depth: u32) -> Self {
        let (operations, is_refused, is_hot) = ([Operation::Read; 2], false, false);
        Self {
            share: Share::of(class),
            operations,
            bytes,
            is_refused,
            is_hot,
            depth,
            think: 0,
            burst: 0,
            from: 0,
            to: u64::MAX,
        }
    }

    pub fn of(self, operation: Operation) -> Self {
        Self { operations: [operation; 2], ..self }
    }

    pub fn refused(self) -> Self {
        Self { is_refused: true, ..self }
    }

    pub fn thinking(self, think: u64) -> Self {
        Self { think, ..self }
    }

    pub fn hot(self) -> Self {
        Self { is_hot: true, ..self }
    }

    pub fn in_bursts(self, burst: u64) -> Self {
        Self { burst, ..self }
    }

    pub fn weighing(self, weight: u16) -> Self {
        Self { share: Share { weight, ..self.share }, ..self }
    }

    pub fn between(self, from: u64, to: u64) -> Self {
        Self { from, to, ..self }
    }

    pub fn tenant(&self) -> Tenant {
        Tenant { share: self.share, highest: Class::Urgent }
    }
}

/// The tenants of `loads`, for a policy's constructor.
pub fn tenants(loads: &[Load]) -> Vec<Tenant> {
    loads.iter().map(Load::tenant).collect()
}
