//! Grants clients their virtual functions at the server, and revokes them.
//!
//! A client has its whole function or nothing of it. A restarted server has granted none, so the calls are repeated. Left out: the times of
//! changes (`changes`), and how a function is taken from a client.

use crate::rights_map::RightsMap;
use crate::server::Server;
use alloc::vec;
use alloc::vec::Vec;
use blk_api::policy::{FunctionRight, Refusal};
use platform::{Incarnation, Platform};

/// The clients of virtual functions.
pub(crate) struct Functions {
    /// The first one's number among the accounts of the rights map.
    first: usize,
    /// Whether each one has its function, and the server's incarnation in which that is in force.
    in_force: Vec<Option<(Incarnation, bool)>>,
}

impl Functions {
    /// The clients after the first `sessions` accounts of a rights map, of which nothing is in force.
    pub(crate) fn new(sessions: usize, rights_map: &RightsMap) -> Self {
        Self { first: sessions, in_force: vec![None; rights_map.sessions().saturating_sub(sessions)] }
    }

    /// Asks the server for everything that is not in force.
    ///
    /// # Errors
    /// The server's refusal of one of them, which is not asked for again.
    pub(crate) async fn carry_out<P: Platform>(
        &mut self,
        rights_map: &RightsMap,
        server: &Server<P>,
    ) -> Result<(), Refusal> {
        let Some(incarnation) = server.incarnation().filter(|incarnation| incarnation.is_alive()) else {
            return Ok(());
        };
        for ((function, account), in_force) in (0u32..).zip(self.first..).zip(&mut self.in_force) {
            let granted = rights_map.allows(account);
            if *in_force == Some((incarnation, granted)) {
                continue;
            }
            match server.set_function(&FunctionRight { function, granted: granted.into() }).await {
                Ok(()) => *in_force = Some((incarnation, granted)),
                // It is under way, or the server is not there.
                Err(Refusal::Busy | Refusal::Dead) => {}
                Err(refusal) => {
                    *in_force = Some((incarnation, granted));
                    return Err(refusal);
                }
            }
        }
        Ok(())
    }

    /// Whether an account is that of a function's client.
    pub(crate) fn has(&self, account: u32) -> bool {
        usize::try_from(account).is_ok_and(|account| account >= self.first)
    }

    /// Whether the rights of that client are in force.
    pub(crate) fn is_in_force(&self, account: u32, rights_map: &RightsMap) -> bool {
        let account = usize::try_from(account).unwrap_or(usize::MAX);
        let in_force = account.checked_sub(self.first).and_then(|place| self.in_force.get(place).copied().flatten());
        in_force.is_some_and(|(_, granted)| granted == rights_map.allows(account))
    }
}
