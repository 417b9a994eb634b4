//! The processor: states that a program may enter, and that must not harm the kernel or others; and instructions that it must not
//! execute.
//!
//! The platform has both, and here is their order. Left out: the verdict on the machine, which goes on or does not.

use crate::attacker::{Attacker, Stuck};
use crate::verdicts::sentence;
use blk_client::{Entry, Opcode, Status};
use platform::{Abuse, FORBIDDEN_INSTRUCTIONS, Memory, Platform};
use workload::attacks;

/// Begin of the first own block that counts tried instructions: its number follows.
const MARK: [u8; 8] = *b"tried so";

/// Enters every state.
fn states<P: Abuse>(attacker: &mut Attacker<'_, P>) {
    for index in 0.. {
        let Ok(state) = attacker.session.platform().enter_state(index) else { break };
        let stopped_by =
            if state.is_own { "the kernel: the next thread does not notice" } else { "nothing: others changed it" };
        attacker.report(state.name, state.is_own, format_args!("{stopped_by}"));
    }
}

/// The first incarnation enters every state. Then executes the forbidden instructions that were not executed yet, each of which ends
/// this incarnation. When none is left it says so.
pub(crate) async fn forbidden_instructions<P: Abuse>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::PROCESSOR);
    let tried = tried(attacker).await?;
    if tried == 0 {
        states(attacker);
    }
    for index in tried..FORBIDDEN_INSTRUCTIONS {
        mark(attacker, index.saturating_add(1)).await?;
        let name = sentence(format_args!("execute forbidden instruction {index}"));
        match attacker.session.platform().execute_forbidden(index) {
            Err(_) => attacker.report(&name, true, format_args!("the platform: it has no such instruction")),
            Ok(()) => attacker.report(&name, false, format_args!("nothing: it came back")),
        }
    }
    let stopped_by = format_args!("the processor: none of {FORBIDDEN_INSTRUCTIONS} came back");
    attacker.report("execute every forbidden instruction", attacker.verdicts.all_refused(), stopped_by);
    Ok(())
}

/// The number of instructions that earlier incarnations tried.
async fn tried<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<usize, Stuck> {
    attacker.honest_read().await?;
    let mut bytes = [0; MARK.len() + 1];
    attacker.session.window().read_bytes(0, &mut bytes)?;
    Ok(match bytes {
        [mark @ .., count] if mark == MARK => count.into(),
        _ => 0,
    })
}

/// Keeps the number of tried instructions for the next incarnation.
async fn mark<P: Platform>(attacker: &mut Attacker<'_, P>, count: usize) -> Result<(), Stuck> {
    attacker.session.window().write_bytes(0, &MARK)?;
    attacker.session.window().write_bytes(MARK.len(), &[count as u8])?;
    let write = Entry { opcode: Opcode::Write as u8, ..attacker.honest() };
    let written = attacker.outcome(&write).await?;
    if written.status == Status::Success as u16 { Ok(()) } else { Err(Stuck::Honest(written.status)) }
}
