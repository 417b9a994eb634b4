//! The seam's invocations on IOSpaces as calls to the server, for every platform whose kernel has no IOSpaces.
//!
//! The PCI server's master is an endpoint of the server. The slots behind it hold one endpoint for each domain, of which a
//! driver gets a copy. `call` sends a message through the endpoint at a cptr and waits for the answer.

use crate::{BUSY, CLOSE, Close, MAP, Map, OPEN, Open, RESET, UNMAP, Unmap, result};
use platform::{AbsoluteCPtr, CPtr, Cap, Error, Frame, IoSpace, Iova, Kernel, Message, Result, Rights};

/// See [`Kernel::frame_map_io`]. The server knows the frame by its cptr in the specification; a copy at another cptr is unknown.
///
/// # Errors
/// The server's refusal.
pub fn map(
    call: impl Fn(CPtr, &Message) -> Message,
    frame: Cap<Frame>,
    space: Cap<IoSpace>,
    rights: Rights,
    at: Iova,
) -> Result<()> {
    let message = Message::with(MAP, &Map::new(at.bits(), frame.cptr(), rights));
    result(&until_done(call, space, &message))
}

/// See [`Kernel::frame_unmap_io`]; the server unmaps by the address, and needs no frame.
///
/// # Errors
/// The server's refusal.
pub fn unmap(call: impl Fn(CPtr, &Message) -> Message, space: Cap<IoSpace>, at: Iova) -> Result<()> {
    result(&until_done(call, space, &Message::with(UNMAP, &Unmap { iova: at.bits() })))
}

/// Repeats a call while the client's budget is used up: until the next tick. The server and the supervisor run before a client.
fn until_done(call: impl Fn(CPtr, &Message) -> Message, space: Cap<IoSpace>, message: &Message) -> Message {
    loop {
        let answer = call(space.cptr(), message);
        if answer.label != BUSY {
            return answer;
        }
    }
}

/// See [`Kernel::io_space_open`].
///
/// # Errors
/// The server's refusal; the kernel's, when `kernel` cannot copy the domain's endpoint to `dest`.
pub fn open(
    call: impl FnOnce(CPtr, &Message) -> Message,
    kernel: &impl Kernel,
    dest: AbsoluteCPtr,
    master: AbsoluteCPtr,
    domain: u16,
    requester_id: u16,
) -> Result<()> {
    let open = Open { domain, requester_id, reserved: 0 };
    result(&call(CPtr::new(master.index), &Message::with(OPEN, &open)))?;
    let index = master.index.checked_add(domain.into()).ok_or(Error::InvalidArgument(0))?;
    kernel.cnode_copy(dest, AbsoluteCPtr { index, ..master }, Rights::ALL)
}

/// See [`Kernel::io_space_close`].
///
/// # Errors
/// The server's refusal.
pub fn close(call: impl FnOnce(CPtr, &Message) -> Message, master: AbsoluteCPtr, domain: u16) -> Result<()> {
    let message = match domain {
        0 => Message::new(RESET),
        _ => Message::with(CLOSE, &Close { domain: domain.into() }),
    };
    result(&call(CPtr::new(master.index), &message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DONE, MASTER, refusal};
    use core::cell::RefCell;

    const CPTR: u64 = 9;

    #[test]
    fn a_mapping_goes_to_the_domain_with_its_frame_and_rights() {
        let said = RefCell::new(None);
        let call = |to: CPtr, message: &Message| {
            *said.borrow_mut() = Some((to, message.clone()));
            Message::new(DONE)
        };
        let (frame, space) = (CPtr::new(5).cast(), CPtr::new(CPTR).cast());
        assert_eq!(map(call, frame, space, Rights::READ, Iova::new(0x3000)), Ok(()));
        let (to, message) = said.borrow().clone().unwrap();
        assert_eq!((to, message.label, message.cap), (CPtr::new(CPTR), MAP, None));
        assert_eq!(message.payload::<Map>().ok(), Some(Map { iova: 0x3000, cptr: 5, writable: 0 }));
    }

    #[test]
    fn a_call_beyond_the_budget_is_repeated() {
        let left = RefCell::new(3);
        let call = |_: CPtr, _: &Message| {
            *left.borrow_mut() -= 1;
            Message::new(if *left.borrow() > 0 { BUSY } else { refusal(Error::DeleteFirst) })
        };
        assert_eq!(
            map(call, CPtr::new(5).cast(), CPtr::new(CPTR).cast(), Rights::READ, Iova::new(0)),
            Err(Error::DeleteFirst)
        );
        assert_eq!(*left.borrow(), 0);
    }

    #[test]
    fn a_refusal_is_the_kernels_error() {
        let refuse = |_: CPtr, _: &Message| Message::new(refusal(Error::DeleteFirst));
        assert_eq!(unmap(refuse, CPtr::new(CPTR).cast(), Iova::new(0)), Err(Error::DeleteFirst));
    }

    #[test]
    fn domain_0_closes_all() {
        let master = AbsoluteCPtr { root: CPtr::new(1).cast(), index: MASTER, depth: 64 };
        for (domain, label) in [(0, RESET), (3, CLOSE)] {
            let call = |to: CPtr, message: &Message| {
                assert_eq!((to, message.label), (CPtr::new(MASTER), label));
                Message::new(DONE)
            };
            assert_eq!(close(call, master, domain), Ok(()));
        }
    }
}
