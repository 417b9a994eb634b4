//! The policy component's calls at the NVMe server, and the server's liveness.

use blk_api::config::Interrupts;
use blk_api::policy::{
    DONE, DRAINED, FunctionRight, INSTALL, REMOVE, Range, Record, Refusal, Removal, SET_FUNCTION, SET_INTERRUPTS,
    SET_SHARE, Share,
};
use platform::{Cap, Endpoint, Incarnation, Kernel, Message, Platform};

/// The NVMe server, as the policy component calls it.
pub(crate) struct Server<P: Platform> {
    platform: P,
    endpoint: Cap<Endpoint>,
    /// The server's liveness page.
    page: P::Memory,
}

impl<P: Platform> Server<P> {
    /// The server behind `endpoint`, whose liveness page is `page`.
    pub(crate) const fn new(platform: P, endpoint: Cap<Endpoint>, page: P::Memory) -> Self {
        Self { platform, endpoint, page }
    }

    /// The server's current incarnation.
    pub(crate) fn incarnation(&self) -> Option<Incarnation> {
        Incarnation::load(&self.page).ok()
    }

    /// Whether the server is alive.
    pub(crate) fn is_alive(&self) -> bool {
        self.incarnation().is_some_and(Incarnation::is_alive)
    }

    /// Puts a record into its table.
    ///
    /// # Errors
    /// The server's refusal, as of all calls.
    pub(crate) async fn install(&self, record: &Record) -> Result<(), Refusal> {
        self.call(&Message::with(INSTALL, record)).await.map(drop)
    }

    /// Has it remove its records of these blocks, so that it submits no command by them any more.
    pub(crate) async fn remove(&self, range: &Range) -> Result<Removal, Refusal> {
        let answer = self.call(&Message::with(REMOVE, range)).await?;
        answer.payload().map_err(|_| Refusal::BadRequest)
    }

    /// Polls whether the commands that were submitted before have ended. If not, returns `Busy`; the server signals when they
    /// have.
    pub(crate) async fn drained(&self, removal: &Removal) -> Result<(), Refusal> {
        self.call(&Message::with(DRAINED, removal)).await.map(drop)
    }

    /// Sets a share, or begins to: then it returns `Busy`, and the server signals when it is over.
    pub(crate) async fn set_share(&self, share: &Share) -> Result<(), Refusal> {
        self.call(&Message::with(SET_SHARE, share)).await.map(drop)
    }

    /// Changes the interrupt mode of its controller, or begins to: then it returns `Busy`, and the server signals when it is
    /// over.
    pub(crate) async fn set_interrupts(&self, to: Interrupts) -> Result<(), Refusal> {
        self.call(&Message::with(SET_INTERRUPTS, &to.number())).await.map(drop)
    }

    /// Grants a client its virtual function or revokes it, or begins to: then it returns `Busy`, and the server signals when it
    /// is over.
    pub(crate) async fn set_function(&self, right: &FunctionRight) -> Result<(), Refusal> {
        self.call(&Message::with(SET_FUNCTION, right)).await.map(drop)
    }

    async fn call(&self, message: &Message) -> Result<Message, Refusal> {
        let answer = self.platform.kernel().call(self.endpoint, message).await;
        if answer.label == DONE { Ok(answer) } else { Err(Refusal::of(&answer)) }
    }
}
