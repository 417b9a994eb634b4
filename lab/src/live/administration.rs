//! The administration of a running system's controller: calls by the control component's mailbox, and data in the window that the
//! build machine shares with the controller.

use super::operator::reason;
use crate::nvme_cli::Refused;
use crate::nvme_cli::administered::{Administered, Asker};
use anyhow::{Context, Result, ensure};
use control_api::{Answer, CALL_WORDS, Refusal, Request};
use platform::Message;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;
use xtask::project::Project;
use xtask::telemetry::announcement::{self, Announcement};
use xtask::telemetry::mailbox::Mailbox;
use xtask::telemetry::physical::Ram;
use xtask::telemetry::window::Window;

/// The number of the controller: the only one of a scenario with administration.
const CONTROLLER: u16 = 0;
/// Time between two looks for the end of a command.
const LOOK: Duration = Duration::from_millis(2);

/// A running system as the way to an NVMe server. Other commands that administer wait until the value is dropped.
pub(crate) struct Running {
    folder: PathBuf,
    announcement: Announcement,
    window: Window,
}

/// The controller of the run that goes on, of the scenario with this name if one is given.
///
/// # Errors
/// There is no such run, or the scenario gives no right to administer any.
pub(crate) fn controller(project: &Project, run: Option<&str>) -> Result<Administered<Running>> {
    let (folder, announcement) = announcement::find(&super::runs(project), run)?;
    let scenario = &announcement.scenario;
    let control = announcement.control.as_ref().filter(|control| !control.administration.is_empty());
    control.with_context(|| {
        format!(
            "the scenario '{scenario}' gives nobody a right to administer its controllers: add [control] with `administration = \
             [\"inspect\"]` to it, and run it again"
        )
    })?;
    let window =
        Window::open(&folder, Ram::writable(&folder, announcement.arch)?, &announcement.places, CONTROLLER.into())?;
    Ok(Administered::new(Running { folder, window, announcement }))
}

impl Running {
    fn ask(&self, message: &Message) -> Result<Answer> {
        let Self { folder, announcement, .. } = self;
        announcement::ensure_going(announcement, folder)?;
        let mut words = [0; CALL_WORDS];
        ensure!(message.words().len() <= words.len(), "the call is too long");
        for (word, sent) in words.iter_mut().zip(message.words()) {
            *word = *sent;
        }
        let request = Request::Administer { controller: CONTROLLER, label: message.label, words };
        Mailbox::open(folder, Ram::writable(folder, announcement.arch)?, &announcement.places)?.ask(&request)
    }
}

impl Asker for Running {
    fn call(&mut self, message: Message) -> Result<Message, Refused> {
        match self.ask(&message) {
            Ok(Answer::Administration { label, words }) => Ok(Message::from_words(label, &words)),
            Ok(Answer::Refused(Refusal::NotAllowed)) => {
                Err(Refused(nvme_passthrough::Refusal::Forbidden, "the scenario gives no right to administer".into()))
            }
            Ok(Answer::Refused(refusal)) => Err(lost(reason(refusal))),
            Ok(Answer::Done { .. }) => Err(lost("the control component answers something else".into())),
            Err(error) => Err(lost(format!("{error:#}"))),
        }
    }

    fn window_bytes(&self) -> usize {
        self.window.bytes()
    }

    fn read(&mut self, bytes: &mut [u8]) -> Result<(), Refused> {
        self.window.load(bytes).map_err(|error| lost(format!("{error:#}")))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Refused> {
        self.window.store(bytes).map_err(|error| lost(format!("{error:#}")))
    }

    fn wait(&mut self) -> Result<(), Refused> {
        thread::sleep(LOOK);
        Ok(())
    }
}

/// Nobody knows what became of the command.
fn lost(sentence: String) -> Refused {
    Refused(nvme_passthrough::Refusal::Timeout, sentence)
}
