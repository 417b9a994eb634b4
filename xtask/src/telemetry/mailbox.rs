//! The build machine's side of a control component's mailbox: writes a request into the machine's memory, and waits for the answer.

use super::physical::Ram;
use super::sample::Places;
use anyhow::{Context, Result, bail};
use control_api::mailbox::{ANSWERS, HEADER_BYTES, Header, Letter, REQUESTS, len};
use control_api::{Answer, Request};
use std::fs::File;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// The file of the lock by which senders take turns.
const LOCK: &str = "control.lock";
/// The longest wait for an answer. A machine that is simulated slowly takes a tick of its own time to look into the mailbox.
const LONGEST: Duration = Duration::from_secs(20);
/// Time between two looks for the answer.
const LOOK: Duration = Duration::from_micros(500);

/// A mailbox, which its holder alone writes to.
#[derive(Debug)]
pub struct Mailbox {
    ram: Ram,
    answers: u64,
    requests: u64,
    /// Locked until it is closed.
    _lock: File,
}

impl Mailbox {
    /// The mailbox of the run with this folder. Waits until no other command sends a request.
    ///
    /// # Errors
    /// The system has no control component, or the machine's memory cannot be written.
    pub fn open(folder: &Path, ram: Ram, places: &Places) -> Result<Self> {
        let (answers, requests) =
            places.mailbox(ANSWERS).zip(places.mailbox(REQUESTS)).context("the system has no control component")?;
        let file = folder.join(LOCK);
        let lock = File::create(&file).with_context(|| format!("cannot write {}", file.display()))?;
        lock.lock().with_context(|| format!("cannot lock {}", file.display()))?;
        Ok(Self { ram, answers, requests, _lock: lock })
    }

    /// Sends the request and returns its answer.
    ///
    /// # Errors
    /// The component does not answer, or was restarted meanwhile.
    pub fn ask(&self, request: &Request) -> Result<Answer> {
        let last = self.number(self.requests)?.max(self.number(self.answers)?);
        let number = last.checked_add(1).unwrap_or(1);
        let Letter { header, bytes } = Letter::new(number, request).context("the request is too long")?;
        self.ram.store(self.requests + HEADER_BYTES as u64, &bytes)?;
        // All but the number, which is written last.
        self.ram.store(self.requests, Header { number: self.number(self.requests)?, ..header }.as_bytes())?;
        self.ram.store(self.requests, &number.to_le_bytes())?;
        let since = Instant::now();
        while since.elapsed() < LONGEST {
            if let Some(answer) = self.answer(number)? {
                return Ok(answer);
            }
            if self.number(self.requests)? != number {
                bail!(
                    "the control component was restarted meanwhile: look whether the act was carried out, and ask again"
                );
            }
            thread::sleep(LOOK);
        }
        bail!(
            "the control component has not answered for {} seconds: it is dead, or the machine stands still",
            LONGEST.as_secs()
        )
    }

    /// The answer with this number, once it is there.
    fn answer(&self, number: u32) -> Result<Option<Answer>> {
        let mut bytes = [0; HEADER_BYTES];
        self.ram.load(self.answers, &mut bytes)?;
        let Ok(header) = Header::read_from_bytes(&bytes) else { return Ok(None) };
        if header.number != number {
            return Ok(None);
        }
        let mut bytes = vec![0; len(&header).unwrap_or(0)];
        self.ram.load(self.answers + HEADER_BYTES as u64, &mut bytes)?;
        let letter = Letter { header, bytes };
        letter.open().map(Some).context("the control component's answer is damaged: run the scenario again")
    }

    fn number(&self, page: u64) -> Result<u32> {
        let mut bytes = [0; 4];
        self.ram.load(page, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }
}
