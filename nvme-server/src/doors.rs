//! The doors: messages of clients, of the policy component and of the administration, decoded to calls, and answered.

mod administration;
pub(crate) mod policy;

use crate::link::Link;
use blk_api::administration::{Refusal, Rights};
use blk_api::policy::BADGE;
use blk_api::session::Call;
use platform::log::error;
use platform::{Badge, Environment, Kernel, Message, Platform};

/// Handles a call, or a message that was sent like one.
#[inline(never)]
pub(crate) fn on_message<P: Platform>(link: &Link<P>, badge: Badge, message: &Message) {
    delete_received(&link.platform, &link.environment, message);
    let answer = if badge == Badge(BADGE) {
        Some(policy::answer(link, message))
    } else if let Some(rights) = Rights::of_badge(badge.0) {
        administration::answer(link, rights, message)
    } else {
        let index = usize::try_from(badge.0.wrapping_sub(1)).unwrap_or(usize::MAX);
        link.with(|data| {
            let answer = data.on_call(index, Call::from_label(message.label))?;
            Some(data.message(index, answer))
        })
    };
    if let Some(answer) = answer {
        link.platform.kernel().reply(&answer);
    }
}

/// The answer to the administration without a controller.
pub(crate) fn administration_without_controller() -> Message {
    Refusal::Device.message()
}

/// Deletes a capability that came with a message. No client's call needs one, and it would block the cptr for those from
/// the PCI server.
pub(crate) fn delete_received<P: Platform>(platform: &P, environment: &Environment, message: &Message) {
    let cptr = environment.receive_cptr.filter(|_| message.cap_received).and_then(|cptr| environment.absolute(cptr));
    if let Some(cptr) = cptr
        && let Err(reason) = platform.kernel().cnode_delete(cptr)
    {
        error!("the kernel refused deleting a received capability: {}", reason);
    }
}
