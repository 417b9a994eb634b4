//! The attacker: a bare session, a canary in the window, and the verdicts.

use crate::verdicts::Verdicts;
use blk_api::names;
use blk_client::{Completed, Entry, Error, Opcode, OpenError, Reporter, RingError, Segment, Session, Status};
use core::fmt;
use platform::{Environment, Memory, Platform, Vaddr};

/// The byte of which the canary consists.
const CANARY: u8 = 0xc7;
/// Bytes of the canary behind the block that requests may read into.
const CANARY_BYTES: usize = 8192;
/// The user data of requests whose completion is awaited alone.
const WORD: u64 = 0x000a_77ac;
/// Attempts to open the session while the server dies each time.
const OPENINGS: u32 = 16;

/// The attacker cannot go on: the server, or its session, is broken. The worst verdict.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// The session is unusable, or memory is missing.
    Session(Error),
    /// An honest read failed.
    Honest(u16),
    /// The own block does not have the data just written to it.
    NoMark,
    /// A completion for a request that was never made.
    UnknownCompletion,
    /// The ring was full with nothing in flight.
    Full,
    /// The server died, so the current attack has no result.
    Died,
    /// The session was not opened again at the server's successor.
    NotOpen(OpenError),
    /// The last attack needs a function of its own.
    NoSuchEnd,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session(error) => write!(f, "{error}"),
            Self::Honest(status) => write!(f, "an honest read failed with status {status}"),
            Self::NoMark => f.write_str("its own block does not hold what it wrote"),
            Self::UnknownCompletion => f.write_str("a completion came for a request that was not made"),
            Self::Full => f.write_str("the ring was full with nothing in flight"),
            Self::Died => f.write_str("the server died time and again"),
            Self::NotOpen(error) => write!(f, "open again: {error}"),
            Self::NoSuchEnd => f.write_str("its last attack needs a function of its own"),
        }
    }
}

impl From<Error> for Stuck {
    fn from(error: Error) -> Self {
        Self::Session(error)
    }
}

impl From<platform::OutOfBounds> for Stuck {
    fn from(_: platform::OutOfBounds) -> Self {
        Self::Session(RingError::BadRegion.into())
    }
}

/// The attacker.
pub(crate) struct Attacker<'a, P: Platform> {
    pub(crate) session: Session<P>,
    /// The client's ring, to write into without the session's knowledge.
    pub(crate) ring: P::Memory,
    /// Where the server's ring is mapped, read-only.
    pub(crate) server_ring: Vaddr,
    pub(crate) first_block: u64,
    pub(crate) verdicts: Verdicts<'a, P>,
    /// Entries ever submitted: the ring's producing index.
    submitted: u32,
}

impl<'a, P: Platform> Attacker<'a, P> {
    /// Makes an attacker with an open session. `None` without a ring, or with a window too small for a block and a canary.
    pub(crate) fn new(
        session: Session<P>,
        environment: &Environment,
        first_block: u64,
        reporter: &'a Reporter<P>,
    ) -> Option<Self> {
        let ring = session.platform().memory(environment.region(names::RING_CLIENT)?).ok()?;
        let needed = (session.geometry().block_bytes as usize).checked_add(CANARY_BYTES)?;
        (needed as u64 <= session.geometry().window_bytes).then_some(())?;
        let server_ring = environment.region(names::RING_SERVER)?.vaddr;
        let verdicts = Verdicts::new(reporter);
        Some(Self { session, ring, server_ring, first_block, verdicts, submitted: 0 })
    }

    /// Runs `stage`. If the server died meanwhile, its results are void: opens the session again and repeats the stage.
    pub(crate) async fn outlive(&mut self, stage: impl AsyncFn(&mut Self) -> Result<(), Stuck>) -> Result<(), Stuck> {
        for _ in 0..OPENINGS {
            let outcome = if self.session.server_died() {
                self.open_again().await.and(Err(Stuck::Died))
            } else {
                stage(self).await
            };
            match outcome {
                Err(Stuck::NotOpen(OpenError::Dead)) => return outcome,
                Err(Stuck::Died) => {}
                Err(_) if self.session.server_died() => {}
                outcome => return outcome,
            }
        }
        Err(Stuck::Died)
    }

    async fn open_again(&mut self) -> Result<(), Stuck> {
        self.session.open_again().await.map_err(Stuck::NotOpen)?;
        self.submitted = 0;
        self.ask_for_its_record().await;
        Ok(())
    }

    /// Installs the record of the first block, which honest requests need.
    pub(crate) async fn ask_for_its_record(&self) {
        // An honest request without a record reports that itself.
        let _ = self.session.ask_for_records(0, 1).await;
    }

    /// Fails if the server died: its apparent answer then came from its successor, which has no session yet.
    pub(crate) fn check_alive(&self) -> Result<(), Stuck> {
        if self.session.server_died() { Err(Stuck::Died) } else { Ok(()) }
    }

    /// Waits until it is worth polling for completions again. Fails if the server died.
    pub(crate) async fn wait(&mut self) -> Result<(), Stuck> {
        self.check_alive()?;
        Ok(self.session.wait().await?)
    }

    /// Reports a verdict.
    pub(crate) fn report(&mut self, attack: &str, refused: bool, stopped_by: fmt::Arguments<'_>) {
        self.verdicts.report(attack, refused, stopped_by);
    }

    /// Makes a read of the first block to the start of the window.
    pub(crate) fn honest(&self) -> Entry {
        let mut entry =
            Entry { opcode: Opcode::Read as u8, segment_count: 1, blocks: 1, user_data: WORD, ..Entry::default() };
        if let Some(segment) = entry.segments.first_mut() {
            *segment = Segment { offset: 0, len: self.session.geometry().block_bytes };
        }
        entry
    }

    /// Checks that an honest read succeeds, which shows that the server is alive.
    pub(crate) async fn honest_read(&mut self) -> Result<(), Stuck> {
        let completed = self.outcome(&self.honest()).await?;
        if completed.status == Status::Success as u16 { Ok(()) } else { Err(Stuck::Honest(completed.status)) }
    }

    /// Submits an entry and counts it; `false` when the ring is full.
    pub(crate) fn submit(&mut self, entry: &Entry) -> Result<bool, Stuck> {
        let submitted = self.session.submit(entry)?;
        self.submitted = self.submitted.wrapping_add(u32::from(submitted));
        Ok(submitted)
    }

    /// The ring's producing index, as last published or about to be.
    pub(crate) const fn produced(&self) -> u32 {
        self.submitted
    }

    /// Submits one entry alone and waits for its completion.
    pub(crate) async fn outcome(&mut self, entry: &Entry) -> Result<Completed, Stuck> {
        if !self.submit(entry)? {
            return Err(Stuck::Full);
        }
        self.session.publish()?;
        self.completion(entry.user_data).await
    }

    /// Waits for the completion of the only request in flight.
    pub(crate) async fn completion(&mut self, user_data: u64) -> Result<Completed, Stuck> {
        loop {
            if let Some(completed) = self.session.complete()? {
                self.session.publish_taken()?;
                return if completed.user_data == user_data { Ok(completed) } else { Err(Stuck::UnknownCompletion) };
            }
            self.wait().await?;
        }
    }

    /// Makes a request that must be refused and must not change the window.
    pub(crate) async fn must_be_refused(&mut self, attack: &str, entry: &Entry) -> Result<(), Stuck> {
        self.set_canary()?;
        let completed = self.outcome(entry).await?;
        let intact = self.canary_intact(0)?;
        match completed.status() {
            _ if !intact => self.report(attack, false, format_args!("nothing: the window was written")),
            Some(Status::Success) => self.report(attack, false, format_args!("nothing: it succeeded")),
            Some(status) => self.report(attack, true, format_args!("the server's check: {status}")),
            None => self.report(attack, false, format_args!("an answer that is none: {}", completed.status)),
        }
        Ok(())
    }

    /// Fills the first block and the bytes after it with the canary.
    pub(crate) fn set_canary(&self) -> Result<(), Stuck> {
        let end = self.canary_end();
        for offset in (0..end).step_by(CHUNK) {
            self.session.window().write_bytes(offset, &[CANARY; CHUNK])?;
        }
        Ok(())
    }

    /// Whether the canary is whole from block `first_block` of the window on.
    pub(crate) fn canary_intact(&self, first_block: usize) -> Result<bool, Stuck> {
        let begin = first_block.saturating_mul(self.session.geometry().block_bytes as usize);
        for offset in (begin..self.canary_end()).step_by(CHUNK) {
            let mut chunk = [0; CHUNK];
            self.session.window().read_bytes(offset, &mut chunk)?;
            if chunk != [CANARY; CHUNK] {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Fills the last bytes of the window with the canary. They are never the first block's: a canary lies between.
    pub(crate) fn set_last_canary(&self) -> Result<(), Stuck> {
        Ok(self.session.window().write_bytes(self.last_canary(), &[CANARY; CHUNK])?)
    }

    /// Whether the canary at the end of the window is whole.
    pub(crate) fn last_canary_intact(&self) -> Result<bool, Stuck> {
        let mut chunk = [0; CHUNK];
        self.session.window().read_bytes(self.last_canary(), &mut chunk)?;
        Ok(chunk == [CANARY; CHUNK])
    }

    fn last_canary(&self) -> usize {
        (self.session.geometry().window_bytes as usize).saturating_sub(CHUNK)
    }

    fn canary_end(&self) -> usize {
        (self.session.geometry().block_bytes as usize).saturating_add(CANARY_BYTES)
    }
}

/// Bytes compared at once. Every block size is a multiple.
pub(crate) const CHUNK: usize = 512;
