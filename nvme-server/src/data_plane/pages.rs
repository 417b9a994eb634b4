//! The pages of the server's telemetry, and the rings of events behind them. Layout: [`blk_api::telemetry`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use blk_api::config::ServerConfig;
use blk_api::telemetry::{SERVER_PAGE, Server, Session, pages, session_page, trace_page};
use blk_api::trace::{Kinds, Tracer};
use platform::{Environment, Memory, PAGE_SIZE, Platform, Region};
use telemetry::TELEMETRY;
use telemetry::page::Writer;

/// The pages of the server.
pub(crate) struct Pages<M: Memory> {
    server: Writer<M>,
    sessions: Vec<SessionPage<M>>,
    region: Region,
    /// Pages of each session's ring of events; 0 without traces.
    trace_pages: usize,
    /// Time at which the server started.
    pub started_at: u64,
}

/// A session's page.
struct SessionPage<M: Memory> {
    writer: Writer<M>,
    openings: u32,
    /// Time of the last one.
    opened_at: u64,
    /// The kinds of requests that are traced.
    traced: Kinds,
}

impl<M: Memory> Pages<M> {
    /// The pages of a server, if the scenario gives it telemetry.
    pub(crate) fn of<P: Platform<Memory = M>>(
        platform: &P,
        environment: &Environment,
        config: &ServerConfig,
    ) -> Option<Box<Self>> {
        let region = environment.region(TELEMETRY)?.clone();
        let memory = platform.memory(&region).ok()?;
        let page = |number| Writer::new(memory.clone(), number).ok();
        let sessions = config.sessions.iter().zip(0..).map(|(session, number)| {
            Some(SessionPage { writer: page(session_page(number))?, openings: 0, opened_at: 0, traced: session.traced })
        });
        let sessions: Vec<_> = sessions.collect::<Option<_>>()?;
        let rest = (memory.len() / PAGE_SIZE).saturating_sub(pages(sessions.len()));
        let trace_pages = rest.checked_div(sessions.len()).unwrap_or(0);
        Some(Box::new(Self { server: page(SERVER_PAGE)?, sessions, region, trace_pages, started_at: platform.ticks() }))
    }

    /// Whether there is memory for traces.
    pub(crate) const fn has_traces(&self) -> bool {
        self.trace_pages > 0
    }

    /// The tracer of session `index`, if it is traced.
    pub(crate) fn tracer<P: Platform<Memory = M>>(&self, platform: &P, index: usize) -> Option<Box<Tracer<P>>> {
        let first = trace_page(self.sessions.len(), index, self.trace_pages);
        Tracer::new(platform, &self.region, first, self.trace_pages, self.sessions.get(index)?.traced)
    }

    /// Counts an opening of session `index`.
    pub(crate) fn opened(&mut self, index: usize, now: u64) {
        if let Some(page) = self.sessions.get_mut(index) {
            (page.openings, page.opened_at) = (page.openings.wrapping_add(1), now);
        }
    }

    /// Writes the server's page.
    pub(crate) fn write_server(&mut self, contents: &Server) {
        // The page is as long as its contents.
        let _ = self.server.write(contents);
    }

    /// Writes the page of session `index`; the number and the time of its openings are known here.
    pub(crate) fn write_session(&mut self, index: usize, contents: Session) {
        if let Some(SessionPage { writer, openings, opened_at, .. }) = self.sessions.get_mut(index) {
            // The page is as long as its contents.
            let _ = writer.write(&Session { openings: *openings, opened_at: *opened_at, ..contents });
        }
    }
}
