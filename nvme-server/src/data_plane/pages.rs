//! The pages of the server's telemetry, and the rings of events behind them. Layout: [`blk_api::telemetry`].

use alloc::boxed::Box;
use alloc::vec::Vec;
use blk_api::config::ServerConfig;
use blk_api::telemetry::{SERVER_PAGE, Server, Session, pages, session_page, trace_page};
use blk_api::trace::{Kinds, Tracer};
use platform::{Environment, Memory, PAGE_SIZE, Platform, Region};
use telemetry::TELEMETRY;
use telemetry::page::Writer;
use telemetry::ring::WISH;

/// The pages of the server.
pub(crate) struct Pages<M: Memory> {
    server: Writer<M>,
    sessions: Vec<SessionPage<M>>,
    region: Region,
    memory: M,
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
    /// The kinds of requests that the scenario traces, and those that are traced now.
    configured: Kinds,
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
            let (writer, traced) = (page(session_page(number))?, session.traced);
            Some(SessionPage { writer, openings: 0, opened_at: 0, configured: traced, traced })
        });
        let sessions: Vec<_> = sessions.collect::<Option<_>>()?;
        let rest = (memory.len() / PAGE_SIZE).saturating_sub(pages(sessions.len()));
        let trace_pages = rest.checked_div(sessions.len()).unwrap_or(0);
        let (server, started_at) = (page(SERVER_PAGE)?, platform.ticks());
        Some(Box::new(Self { server, sessions, region, memory, trace_pages, started_at }))
    }

    /// Whether there is memory for traces.
    pub(crate) const fn has_traces(&self) -> bool {
        self.trace_pages > 0
    }

    /// The tracer of session `index`, if the scenario or the ring's reader wants it traced.
    pub(crate) fn tracer<P: Platform<Memory = M>>(&mut self, platform: &P, index: usize) -> Option<Box<Tracer<P>>> {
        let (first, wanted) = (self.trace_page(index), self.wanted(index)?);
        self.sessions.get_mut(index)?.traced = wanted;
        Tracer::new(platform, &self.region, first, self.trace_pages, wanted)
    }

    /// Whether the reader of session `index`'s ring wants other kinds of requests traced than are now.
    pub(crate) fn wants_others(&self, index: usize) -> bool {
        self.has_traces() && self.wanted(index) != self.sessions.get(index).map(|session| session.traced)
    }

    /// The kinds that are wanted. The word of the ring's reader is the build machine's, which may write anything.
    fn wanted(&self, index: usize) -> Option<Kinds> {
        let configured = self.sessions.get(index)?.configured;
        let word = self.memory.load_acquire_u64(self.trace_page(index).saturating_mul(PAGE_SIZE).saturating_add(WISH));
        Some(word.ok().and_then(Kinds::of_wish).unwrap_or(configured))
    }

    fn trace_page(&self, index: usize) -> usize {
        trace_page(self.sessions.len(), index, self.trace_pages)
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
