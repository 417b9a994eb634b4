//! Requests of an operator outside of the machine to the control component, in its mailbox.
//!
//! The checker of rights learns of an order about rights when it is written, and forgets it if the answer is a refusal. It reads both
//! letters by itself, so it does not depend on the components' account of what they did.

use crate::simulation::Simulation;
use crate::world::State;
use control_api::mailbox::{HEADER_BYTES, Letter};
use control_api::{Answer, Request};
use platform::{PAGE_SIZE, Paddr};
use sim_kernel::Kernel;
use zerocopy::IntoBytes;

/// Physical addresses of a mailbox's pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mailbox {
    /// The page of answers.
    pub answers: u64,
    /// The page of requests.
    pub requests: u64,
}

/// An order whose answer is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordered {
    answers: u64,
    number: u32,
}

impl Simulation {
    /// Writes the page of requests. `None` if there is no memory at these addresses.
    pub fn write_requests(&mut self, mailbox: Mailbox, page: &[u8; PAGE_SIZE]) -> Option<()> {
        let mut state = self.world.outside();
        let State { observer, kernel, now_ns, .. } = &mut *state;
        kernel.memory_mut().write(Paddr::new(mailbox.requests), page).ok()?;
        let letter = Letter::on(page)?;
        if let Some((tenant, first, blocks, gives)) = order(&letter) {
            observer.ordered(tenant, (first, blocks, gives), *now_ns);
            self.ordered = Some(Ordered { answers: mailbox.answers, number: letter.header.number });
        }
        Some(())
    }

    /// Writes into a page that the build machine shares with components, from `paddr` on. `None` if there is no memory.
    pub fn write_shared(&mut self, paddr: u64, bytes: &[u8]) -> Option<()> {
        self.world.outside().kernel.memory_mut().write(Paddr::new(paddr), bytes).ok()
    }

    /// Writes a request with the number that follows the last one, and returns it.
    pub fn request(&mut self, mailbox: Mailbox, request: &Request) -> Option<u32> {
        let mut number = [0; 4];
        self.copy_memory(mailbox.requests, &mut number)?;
        let number = u32::from_le_bytes(number).checked_add(1)?;
        let Letter { header, bytes } = Letter::new(number, request)?;
        let mut page = [0; PAGE_SIZE];
        page.get_mut(..HEADER_BYTES)?.copy_from_slice(header.as_bytes());
        page.get_mut(HEADER_BYTES..HEADER_BYTES + bytes.len())?.copy_from_slice(&bytes);
        self.write_requests(mailbox, &page)?;
        Some(number)
    }

    /// The answer with this number, once it is there.
    #[must_use]
    pub fn answer(&self, mailbox: Mailbox, number: u32) -> Option<Answer> {
        read(&self.world.view().kernel, mailbox.answers, number)
    }

    /// Forgets an order that was refused.
    pub(crate) fn follow_order(&mut self) {
        let Some(Ordered { answers, number }) = self.ordered else { return };
        let State { observer, kernel, .. } = &mut *self.world.outside();
        match read(kernel, answers, number) {
            None => return,
            Some(Answer::Refused(_)) => observer.refused(),
            Some(Answer::Done { .. } | Answer::Administration { .. }) => {}
        }
        self.ordered = None;
    }
}

fn read(kernel: &Kernel, answers: u64, number: u32) -> Option<Answer> {
    let mut page = [0; PAGE_SIZE];
    kernel.memory().read(Paddr::new(answers), &mut page).ok()?;
    Letter::on(&page).filter(|letter| letter.header.number == number)?.open()
}

/// The number of the tenant's component, the blocks, and whether rights are given: for an order about rights.
fn order(letter: &Letter) -> Option<(u16, u64, u64, bool)> {
    match letter.open()? {
        Request::Revoke { tenant, blocks } => Some((tenant, blocks.first, blocks.blocks, false)),
        Request::Grant { tenant, extent } => Some((tenant, extent.first, extent.blocks, true)),
        _ => None,
    }
}
