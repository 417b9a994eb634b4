//! Opens the session again after the server died, at its successor; or after its own function was reset.
//!
//! Answers of the dead server are valid: its ring is read once more. Unanswered requests are submitted again. They may have
//! been done, wholly or in part; the new server has reset the controller before, so none is still in progress. Doing one
//! again leaves the same content: its range of the window is still leased, and no other change of its blocks was let past
//! it (`changes`).
//!
//! A controller that was removed comes back with another incarnation of its server. A session that waits for that goes on in the
//! same way, if the namespace has the same geometry.

use super::{Device, Shared};
use crate::error::{Error, OpenError};
use crate::virtual_function::VirtualFunction;
use alloc::rc::Rc;
use blk_api::Status;
use blk_api::ring::Completed;
use blk_api::session::{Geometry, Refusal};
use platform::{Environment, Platform};

/// Attempts to open the session while the server dies each time.
const OPENINGS: u32 = 16;

impl<P: Platform> Device<P> {
    /// Whether the server in which the session was opened is dead.
    pub(super) fn server_died(&self) -> bool {
        self.shared.server.died() && self.shared.state.borrow().over.is_none()
    }

    /// Opens the session again if the server died, and submits the unanswered requests again. If that fails, the session has
    /// ended.
    pub(super) async fn reconnect(&self) {
        for _ in 0..OPENINGS {
            if !self.server_died() {
                return;
            }
            if let Err(error) = self.open_again().await {
                return self.shared.state.borrow_mut().end(error);
            }
        }
        if self.server_died() {
            self.shared.state.borrow_mut().end(Error::CLOSED);
        }
    }

    async fn open_again(&self) -> Result<(), Error> {
        let environment = self.shared.state.borrow().session.virtual_function_environment();
        if let Some(environment) = environment {
            return self.open_function_again(&environment).await;
        }
        if !self.shared.server.next_incarnation(&self.shared.control).await {
            return Err(Error::CLOSED);
        }
        let rings = {
            let state = &mut *self.shared.state.borrow_mut();
            // Requests whose answers cannot be read there are submitted again.
            let _ = state.take_answers(self.shared.options.ring_entries);
            state.session.begin_again()?
        };
        let geometry = match self.shared.control.reopen().await {
            // This incarnation has no controller. A later one has, and then everything is submitted again; until then the session
            // drops what is submitted.
            Err(Refusal::DeviceGone) if self.shared.options.waits => {
                return self.shared.state.borrow_mut().ask_again().map(drop);
            }
            answer => answer?,
        };
        // The server and the policy component decide about its queue pairs: they may have changed since.
        let Geometry { queue_pairs, depth, .. } = self.shared.geometry;
        if (Geometry { queue_pairs, depth, ..geometry }) != self.shared.geometry {
            // Another controller has come in the place of the one that is gone.
            return Err(if self.shared.options.waits { Error::DEVICE_GONE } else { Error::CLOSED });
        }
        if self.shared.server.died() {
            // A later successor has answered. The rings must be reset for it as well, before anything is on them.
            return Ok(());
        }
        let state = &mut *self.shared.state.borrow_mut();
        state.session.take_rings(rings);
        let reissued = state.ask_again()?;
        self.shared.server.report_reconnected(reissued);
        Ok(())
    }
}

impl<P: Platform> Device<P> {
    /// Brings the session's own function up again. The reset ended all that was in flight, as a server's death does. While the
    /// function is withdrawn, all requests are forbidden.
    async fn open_function_again(&self, environment: &Rc<Environment>) -> Result<(), Error> {
        let Shared { platform, options, server, .. } = &*self.shared;
        let opened = VirtualFunction::open(platform, environment, *options).await;
        let state = &mut *self.shared.state.borrow_mut();
        let (function, geometry) = match opened {
            Ok(opened) => opened,
            Err(OpenError::Device(fault)) => return Err(fault.into()),
            Err(error) => {
                state.session.refuse_withdrawn(error).map_err(|_| Error::CLOSED)?;
                return state.ask_again().map(drop);
            }
        };
        if geometry.media != self.shared.geometry.media {
            // The function has another disk or namespace.
            return Err(Error::DEVICE_GONE);
        }
        let timed_out = state.session.timed_out();
        state.session.take_virtual_function(function, geometry).map_err(|_| Error::CLOSED)?;
        let reissued = if timed_out { state.time_out_all()? } else { state.ask_again()? };
        server.report_reconnected(reissued);
        Ok(())
    }
}

impl<P: Platform> super::State<P> {
    /// Takes the server's answers, and publishes nothing.
    fn take_answers(&mut self, limit: u32) -> Result<(), Error> {
        for _ in 0..limit {
            let Some(completed) = self.session.complete()? else { break };
            self.deliver(&completed)?;
        }
        Ok(())
    }

    /// Answers unanswered requests: they had no answer in time, and nothing of them is in progress any more. They are retried as
    /// after such an answer of the server. Returns their number.
    fn time_out_all(&mut self) -> Result<u32, Error> {
        let unanswered = self.slots.submit_all_again();
        for entry in &unanswered {
            let status = Status::TimedOut as u16;
            self.deliver(&Completed { user_data: entry.user_data, status, ..Completed::default() })?;
        }
        Ok(unanswered.len() as u32)
    }

    /// Submits unanswered requests again. Returns their number.
    fn ask_again(&mut self) -> Result<u32, Error> {
        let unanswered = self.slots.submit_all_again();
        for entry in &unanswered {
            // The ring has room for as many entries as there are slots.
            self.session.submit(entry)?;
        }
        self.session.publish()?;
        Ok(unanswered.len() as u32)
    }
}
