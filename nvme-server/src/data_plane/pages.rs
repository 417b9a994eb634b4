//! The pages of the server's telemetry. Layout: [`blk_api::telemetry`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use blk_api::telemetry::{SERVER_PAGE, Server, Session, session_page};
use platform::{Environment, Memory, Platform};
use telemetry::TELEMETRY;
use telemetry::page::Writer;

/// The pages of the server.
pub(crate) struct Pages<M: Memory> {
    server: Writer<M>,
    sessions: Vec<SessionPage<M>>,
    /// Time at which the server started.
    pub started_at: u64,
}

/// A session's page.
struct SessionPage<M: Memory> {
    writer: Writer<M>,
    openings: u32,
}

impl<M: Memory> Pages<M> {
    /// The pages of a server with this number of sessions, if the scenario gives it telemetry.
    pub(crate) fn of<P: Platform<Memory = M>>(
        platform: &P,
        environment: &Environment,
        sessions: usize,
    ) -> Option<Box<Self>> {
        let memory = platform.memory(environment.region(TELEMETRY)?).ok()?;
        let page = |number| Writer::new(memory.clone(), number).ok();
        let session = |number| Some(SessionPage { writer: page(session_page(number))?, openings: 0 });
        Some(Box::new(Self {
            server: page(SERVER_PAGE)?,
            sessions: (0..sessions).map(session).collect::<Option<_>>()?,
            started_at: platform.ticks(),
        }))
    }

    /// Counts an opening of session `index`.
    pub(crate) fn opened(&mut self, index: usize) {
        if let Some(page) = self.sessions.get_mut(index) {
            page.openings = page.openings.wrapping_add(1);
        }
    }

    /// Writes the server's page.
    pub(crate) fn write_server(&mut self, contents: &Server) {
        // The page is as long as its contents.
        let _ = self.server.write(contents);
    }

    /// Writes the page of session `index`; the number of its openings is known here.
    pub(crate) fn write_session(&mut self, index: usize, contents: Session) {
        if let Some(SessionPage { writer, openings }) = self.sessions.get_mut(index) {
            // The page is as long as its contents.
            let _ = writer.write(&Session { openings: *openings, ..contents });
        }
    }
}
