//! The budgets of clients: how much work of the policy component each may cause from one tick to the next.
//!
//! The policy component and the server run before the clients. So each call of a client, and each call at the server that
//! follows from it, takes processor time from other clients. All sessions together have [`STEPS`] of them a tick. Half of
//! these are divided among the sessions, so that none has to wait because of another; the other half goes to the sessions
//! that ask first. Calls beyond that are refused without a call at the server.
//!
//! Left out: the refusal itself, which takes time too. A client that keeps asking takes that time whenever its thread runs,
//! and no component can refuse that.

use alloc::vec;
use alloc::vec::Vec;
use platform::Allowance;

/// Steps of all sessions together: calls answered, and records installed.
const STEPS: u32 = 8192;
/// Steps of a call that is answered: the call itself, and the one record that most need.
pub(crate) const CALL: u32 = 2;
/// Steps of each further record.
pub(crate) const RECORD: u32 = 1;

/// The budgets of all sessions.
pub(crate) struct Budgets {
    own: Vec<Allowance>,
    common: Allowance,
}

impl Budgets {
    /// Full budgets for so many sessions.
    pub(crate) fn new(sessions: usize) -> Self {
        const HALF: u32 = STEPS / 2;
        let count = u32::try_from(sessions).unwrap_or(u32::MAX).max(1);
        let own = HALF.checked_div(count).unwrap_or(0).max(CALL);
        Self { own: vec![Allowance::new(own); sessions], common: Allowance::new(HALF) }
    }

    /// Takes `steps` of a session's own, or else of those for all. Returns whether they were left.
    pub(crate) fn takes(&mut self, session: usize, steps: u32) -> bool {
        let own = self.own.get_mut(session).is_some_and(|own| own.takes(steps));
        own || self.common.takes(steps)
    }

    /// A tick has passed.
    pub(crate) fn refill(&mut self) {
        let Self { own, common } = self;
        own.iter_mut().for_each(Allowance::refill);
        common.refill();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of the session that are answered before it is refused.
    fn calls(budgets: &mut Budgets, session: usize) -> u32 {
        (0..).take_while(|_| budgets.takes(session, CALL)).count() as u32
    }

    #[test]
    fn joint_floods_stay_within_the_steps_of_a_tick() {
        for sessions in [1, 2, 7, 8, 63] {
            let mut budgets = Budgets::new(sessions);
            for _ in 0..3 {
                let taken: u32 = (0..sessions).map(|session| calls(&mut budgets, session) * CALL).sum();
                assert!(taken <= STEPS && taken > STEPS - STEPS / 50, "{sessions} sessions take {taken}");
                budgets.refill();
            }
        }
    }

    #[test]
    fn a_session_has_its_own_part_after_all_others_flooded() {
        let mut budgets = Budgets::new(8);
        for session in 0..7 {
            calls(&mut budgets, session);
        }
        assert_eq!(calls(&mut budgets, 7), STEPS / 2 / 8 / CALL);
    }

    #[test]
    fn a_session_that_asks_alone_has_more_than_its_own_part() {
        let mut budgets = Budgets::new(8);
        assert_eq!(calls(&mut budgets, 3), (STEPS / 2 / 8 + STEPS / 2) / CALL);
    }
}
