//! The control plane: calls on the server's endpoint. Nothing here is on the path of a request.

use blk_api::session::{self, Geometry, Refusal, Statistics};
use platform::{Cap, Endpoint, Kernel, Message, Platform};

/// The capability to call the server with, and the platform.
#[derive(Clone, Debug)]
pub struct Control<P> {
    platform: P,
    /// `None` for a client that drives a function of its own: it has no server to call.
    endpoint: Option<Cap<Endpoint>>,
}

impl<P: Platform> Control<P> {
    /// Calls on `endpoint`. Without one every call is refused as [`Refusal::NotOpen`].
    #[must_use]
    pub const fn new(platform: P, endpoint: Option<Cap<Endpoint>>) -> Self {
        Self { platform, endpoint }
    }

    /// Opens the session.
    ///
    /// # Errors
    /// The server's [`Refusal`]; [`Refusal::BadRequest`] also for an answer that is too short.
    pub async fn open(&self) -> Result<Geometry, Refusal> {
        self.call(session::OPEN).await?.payload().map_err(|_| Refusal::BadRequest)
    }

    /// Opens the session where this client may have one already. The same call opened it: the call was made twice because a
    /// component died meanwhile. That session's rings began before this client's.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub(crate) async fn reopen(&self) -> Result<Geometry, Refusal> {
        match self.open().await {
            Err(Refusal::AlreadyOpen) => match self.close().await {
                // Without a session, its server died during the call, or had closed it before that was made twice.
                Ok(()) | Err(Refusal::NotOpen) => self.open().await,
                Err(refusal) => Err(refusal),
            },
            answer => answer,
        }
    }

    /// Closes the session. Returns when nothing of it is in flight.
    ///
    /// # Errors
    /// The server's [`Refusal`].
    pub async fn close(&self) -> Result<(), Refusal> {
        self.ask(session::CLOSE).await
    }

    /// The session's counters.
    ///
    /// # Errors
    /// As [`Control::open`].
    pub async fn statistics(&self) -> Result<Statistics, Refusal> {
        self.call(session::STATISTICS).await?.payload().map_err(|_| Refusal::BadRequest)
    }

    /// Makes a round trip without effect.
    ///
    /// # Errors
    /// The server's [`Refusal`].
    pub async fn ping(&self) -> Result<(), Refusal> {
        self.ask(session::PING).await
    }

    /// Makes a call with any label, known or not.
    ///
    /// # Errors
    /// The server's [`Refusal`].
    pub async fn call(&self, label: u32) -> Result<Message, Refusal> {
        let endpoint = self.endpoint.ok_or(Refusal::NotOpen)?;
        let answer = self.platform.kernel().call(endpoint, &Message::new(label)).await;
        granted(&answer)?;
        Ok(answer)
    }

    /// Makes a call whose answer is only a label: nothing else of it is copied.
    async fn ask(&self, label: u32) -> Result<(), Refusal> {
        let endpoint = self.endpoint.ok_or(Refusal::NotOpen)?;
        granted(&self.platform.kernel().call(endpoint, &Message::new(label)).await)
    }
}

fn granted(answer: &Message) -> Result<(), Refusal> {
    match answer.label {
        session::DONE => Ok(()),
        refusal => Err(Refusal::from_label(refusal)),
    }
}
