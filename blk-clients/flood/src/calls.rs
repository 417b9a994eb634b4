//! Calls and signals: to the server and to the policy component.

use crate::counts::count;
use crate::flooder::Flooder;
use blk_api::policy::{ASK, Asked, Covered, DONE, Refusal};
use blk_api::session;
use platform::{Kernel, Message, Platform};

/// Signals in a burst of a flood that waits for ticks: more than the server receives.
const BURST: u32 = 4096;
/// A label of no call of the server.
const UNKNOWN: u32 = 0xffff;

impl<P: Platform> Flooder<'_, P> {
    /// Signals the server with nothing on the ring.
    pub(crate) async fn signal_without_result(&mut self) {
        if !self.flood.waits {
            return self.signal();
        }
        (0..BURST).for_each(|_| self.signal());
        self.platform.next_event().await;
    }

    /// Calls the server, or sends to it, in another way each time.
    pub(crate) async fn call(&mut self) {
        let Some(server) = self.server else { return self.platform.pause() };
        count(&mut self.counts.calls);
        let kernel = self.platform.kernel();
        // It continues after any answer.
        let label = match self.counts.calls.checked_rem(5).unwrap_or(0) {
            0 => session::PING,
            1 => session::STATISTICS,
            2 => UNKNOWN,
            3 => return kernel.send(server.cptr(), &Message::new(session::STATISTICS)),
            _ => return kernel.nb_send(server.cptr(), &Message::new(session::PING)),
        };
        let _ = kernel.call(server, &Message::new(label)).await;
    }

    /// Asks the policy component for the records of these blocks. Returns the number of blocks that have records now, 0 where
    /// it refuses.
    pub(crate) async fn ask(&mut self, first: u64, blocks: u64) -> u64 {
        let Some(policy) = self.policy else {
            self.platform.pause();
            return 0;
        };
        count(&mut self.counts.calls);
        self.asked = true;
        let answer = self.platform.kernel().call(policy, &Message::with(ASK, &Asked { first, blocks })).await;
        if answer.label == DONE {
            return answer.payload::<Covered>().map_or(0, |covered| covered.blocks);
        }
        if self.flood.waits && Refusal::of(&answer) == Refusal::Busy {
            self.platform.next_event().await;
        }
        0
    }

    /// Asks for the records of the next blocks in turn, starting over at the first one after the last.
    pub(crate) async fn ask_for_the_next(&mut self) {
        let blocks = self.session.as_ref().map_or(0, |session| session.geometry().blocks);
        let first = if self.next_record < blocks { self.next_record } else { 0 };
        let covered = self.ask(first, blocks.saturating_sub(first).max(1)).await;
        self.next_record = first.saturating_add(covered.max(1));
    }
}
