//! The controller of an NVMe server as a far end: each command is one of the server's administration (`blk_api::administration`).
//!
//! [`Asker`] is the way to the server: its calls, and the window in which data lie. The server decides what passes, by its list and by the
//! rights of the asker's badge. Left out: the component that holds the badge.

use super::{Completion, FarEnd, Refused};
use blk_api::administration::{
    self as api, COLLECT, COUNTS, Counts, DONE, Ended, REGISTERS, RESET, Registers, Reset, ResetKind, Right, SUBMIT,
};
use nvme_passthrough::{Command, Data, Queue, Refusal};
use nvme_spec::registers::DOORBELL_BASE;
use nvme_spec::{Status, StatusCode};
use platform::Message;
use std::time::SystemTime;
use zerocopy::IntoBytes as _;

/// Looks for the end of a command that an earlier asker has left.
const PATIENCE: u32 = 1000;

/// The way to an NVMe server's administration.
pub(crate) trait Asker: Send {
    /// Makes a call, and returns the answer.
    ///
    /// # Errors
    /// Nobody answers.
    fn call(&mut self, message: Message) -> Result<Message, Refused>;

    /// Bytes of the window.
    fn window_bytes(&self) -> usize;

    /// Reads the window from its beginning.
    ///
    /// # Errors
    /// The window is gone.
    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Refused>;

    /// Writes the window from its beginning.
    ///
    /// # Errors
    /// The window is gone.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused>;

    /// Waits until something may have ended.
    ///
    /// # Errors
    /// The answer took too long.
    fn wait(&mut self) -> Result<(), Refused>;
}

/// The controller of a server, by an asker. One command is under way at a time, whose data begin the window.
pub(crate) struct Administered<A> {
    asker: A,
    /// The token of the last command.
    token: u64,
}

impl<A: Asker> Administered<A> {
    /// The far end of this asker.
    pub(crate) fn new(asker: A) -> Self {
        // Completions that an earlier asker has left must have other tokens.
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { asker, token: since.as_nanos() as u64 }
    }

    /// Makes a call that is answered with [`DONE`], or refused.
    fn call(&mut self, message: Message) -> Result<Result<Message, api::Refusal>, Refused> {
        let answer = self.asker.call(message)?;
        Ok(if answer.label == DONE { Ok(answer) } else { Err(api::Refusal::of(&answer)) })
    }

    /// Collects the completion of the last command.
    fn collect(&mut self) -> Result<api::Completion, Refused> {
        let mut is_over = false;
        loop {
            match self.collect_one()? {
                Some(completion) if completion.token == self.token => return Ok(completion),
                Some(_) => {}
                None if is_over => return Err(without_status(Ended::Reset)),
                // A later incarnation of the server knows nothing of the command. Otherwise it may just have ended.
                None => is_over = !self.is_under_way()?,
            }
            if !is_over {
                self.asker.wait()?;
            }
        }
    }

    /// A completion that was not collected.
    fn collect_one(&mut self) -> Result<Option<api::Completion>, Refused> {
        match self.call(Message::new(COLLECT))? {
            Ok(answer) => Ok(answer.payload().ok()),
            Err(api::Refusal::Nothing) => Ok(None),
            Err(refusal) => Err(refused(refusal)),
        }
    }

    /// Whether the server has a command or a reset that is not over.
    fn is_under_way(&mut self) -> Result<bool, Refused> {
        let counts = self.call(Message::new(COUNTS))?.map_err(refused)?;
        Ok(counts.payload::<Counts>().is_ok_and(|Counts { accepted, ended, .. }| accepted > ended))
    }

    /// Waits for a command that an earlier asker has left, whose data begin the window, too, and lets its completion go: the server
    /// keeps a few.
    fn clear(&mut self) -> Result<(), Refused> {
        for _ in 0..PATIENCE {
            if !self.is_under_way()? {
                while self.collect_one()?.is_some() {}
                return Ok(());
            }
            self.asker.wait()?;
        }
        Err(Refused(
            Refusal::Busy,
            "a command that an earlier nvme has left is under way: wait until it has ended".into(),
        ))
    }

    fn reset_part(&mut self, kind: ResetKind) -> Result<(), Refused> {
        self.clear()?;
        self.token += 1;
        let reset = Reset { token: self.token, kind: kind as u64 };
        self.call(Message::with(RESET, &reset))?.map_err(refused)?;
        match self.collect()?.ended() {
            Ended::Completed => Ok(()),
            ended => Err(without_status(ended)),
        }
    }
}

impl<A: Asker> FarEnd for Administered<A> {
    fn execute(&mut self, command: &Command, data: &Data) -> Result<Completion, Refused> {
        let (bytes, most) = (data.bytes(), self.asker.window_bytes());
        if bytes > most {
            let sentence = format!("a command has {most} bytes of data at most, the window of the administration");
            return Err(Refused(Refusal::Invalid, sentence));
        }
        self.clear()?;
        match data {
            Data::Out(sent) => self.asker.write(sent)?,
            Data::In(_) | Data::None => self.asker.write(&vec![0; bytes])?,
        }
        self.token += 1;
        let Command { queue, opcode, nsid, cdw2, cdw10 } = *command;
        let queue = match queue {
            Queue::Admin => api::Queue::Admin,
            Queue::Io => api::Queue::Io,
        };
        let (token, opcode, queue) = (self.token, opcode.into(), queue as u32);
        let asked = api::Command { token, offset: 0, bytes: bytes as u32, queue, opcode, nsid, cdw2, cdw10 };
        match self.call(Message::with(SUBMIT, &asked))? {
            Ok(_) => {}
            // As a controller answers.
            Err(api::Refusal::NoNamespace(_)) => {
                let status = Status::new(StatusCode::InvalidNamespaceOrFormat).with_do_not_retry().to_raw();
                return Ok(Completion { status, ..Completion::default() });
            }
            Err(refusal) => return Err(refused(refusal)),
        }
        let completion = self.collect()?;
        if completion.ended() != Ended::Completed {
            return Err(without_status(completion.ended()));
        }
        let mut read = Vec::new();
        if matches!(data, Data::In(_)) && completion.status == 0 {
            read.resize(bytes, 0);
            self.asker.read(&mut read)?;
        }
        Ok(Completion { status: completion.status as u16, result: completion.result, data: read })
    }

    fn reset(&mut self) -> Result<(), Refused> {
        self.reset_part(ResetKind::Controller)
    }

    fn reset_subsystem(&mut self) -> Result<(), Refused> {
        self.reset_part(ResetKind::Subsystem)
    }

    fn registers(&mut self) -> Vec<u8> {
        let answer = self.call(Message::new(REGISTERS));
        let values = answer.ok().and_then(Result::ok).and_then(|answer| answer.payload::<Registers>().ok());
        let mut bytes = values.map_or_else(Vec::new, |Registers(values)| values.as_bytes().to_vec());
        bytes.resize(DOORBELL_BASE, 0);
        bytes
    }
}

/// The server's refusal for nvme-cli, and in words.
fn refused(refusal: api::Refusal) -> Refused {
    let (reason, sentence) = match refusal {
        api::Refusal::NotAllowed { .. } => (Refusal::Forbidden, format!("{refusal} of the NVMe server")),
        api::Refusal::NoRight(right) => (Refusal::Forbidden, missing(right)),
        api::Refusal::OfFunction(_) => (Refusal::Forbidden, refusal.to_string()),
        api::Refusal::BadRequest | api::Refusal::OutsideWindow { .. } | api::Refusal::TooShort { .. } => {
            (Refusal::Invalid, refusal.to_string())
        }
        api::Refusal::NoSubsystemReset => (
            Refusal::Unsupported,
            "the controller has no subsystem reset (CAP.NSSRS is 0): reset it with nvme reset /dev/nvme0".into(),
        ),
        api::Refusal::NoQueuePair | api::Refusal::NoNamespace(_) => (Refusal::Unsupported, refusal.to_string()),
        api::Refusal::Busy => (Refusal::Busy, refusal.to_string()),
        api::Refusal::Nothing | api::Refusal::Device | api::Refusal::Dead => (Refusal::Timeout, refusal.to_string()),
    };
    Refused(reason, sentence)
}

fn missing(right: Right) -> String {
    format!("the scenario does not give the right \"{}\": add it to `administration` of [control]", right.name())
}

fn without_status(ended: Ended) -> Refused {
    let sentence = match ended {
        Ended::NotSubmitted => "the controller has not got the command: it failed before",
        Ended::Reset | Ended::Completed => {
            "the controller was reset, or its server restarted: the command may have been executed"
        }
    };
    Refused(Refusal::Timeout, sentence.into())
}

#[cfg(test)]
mod tests;
