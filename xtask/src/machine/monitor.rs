//! QEMU's monitor: commands to QEMU itself, as lines of JSON (QMP).
//!
//! Left out: all events but the deletion of a device.

use crate::machine::inherited::{Inside, Port};
use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Time QEMU may take to answer: it answers between two turns of its own work.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Our end of the monitor.
pub(crate) struct Monitor {
    line: BufReader<UnixStream>,
    /// Devices that were deleted and not asked for yet.
    deleted: Vec<String>,
    /// Whether QEMU takes commands.
    is_ready: bool,
}

/// QEMU's refusal of a command, in its words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Refused(pub String);

impl Monitor {
    /// Creates both ends of a monitor.
    pub(crate) fn new() -> Result<(Self, Inside)> {
        let (ours, inside) = Inside::pair(Port::Monitor)?;
        ours.set_read_timeout(Some(TIMEOUT)).context("cannot limit how long a socket is read")?;
        Ok((Self { line: BufReader::new(ours), deleted: Vec::new(), is_ready: false }, inside))
    }

    /// Makes QEMU take commands and report events from now on. It does not report earlier ones.
    pub(crate) fn begin(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_ready, true) {
            return Ok(());
        }
        // The greeting comes by itself, before the first answer.
        if let Err(Refused(why)) = self.execute("qmp_capabilities", &json!({}))? {
            bail!("QEMU's monitor takes no commands: {why}");
        }
        Ok(())
    }

    /// The devices that were deleted since the last call.
    pub(crate) fn deleted(&mut self) -> Result<Vec<String>> {
        // Events stand before the answer to a command that was sent after them.
        if let Err(Refused(why)) = self.execute("query-status", &json!({}))? {
            bail!("QEMU's monitor does not report the machine's state: {why}");
        }
        Ok(std::mem::take(&mut self.deleted))
    }

    /// Has QEMU carry out a command, after [`Self::begin`].
    ///
    /// # Errors
    /// A QEMU that does not answer. A refusal is a result.
    pub(crate) fn execute(&mut self, command: &str, arguments: &Value) -> Result<Result<(), Refused>> {
        let line = json!({"execute": command, "arguments": arguments});
        let asked = writeln!(self.line.get_mut(), "{line}");
        asked.with_context(|| format!("QEMU does not listen at its monitor: {command}"))?;
        loop {
            let mut answer = String::new();
            let read = self.line.read_line(&mut answer);
            let read = read.with_context(|| format!("QEMU does not answer at its monitor: {command}"))?;
            if read == 0 {
                bail!("QEMU's monitor is closed: {command}");
            }
            let answer: Value =
                serde_json::from_str(&answer).with_context(|| format!("QEMU's monitor says '{}'", answer.trim()))?;
            if answer.get("return").is_some() {
                return Ok(Ok(()));
            }
            if let Some(error) = answer.get("error") {
                let why = error.get("desc").and_then(Value::as_str).unwrap_or_default();
                return Ok(Err(Refused(why.to_owned())));
            }
            if answer.get("event").and_then(Value::as_str) == Some("DEVICE_DELETED") {
                let device = answer.pointer("/data/device").and_then(Value::as_str);
                self.deleted.extend(device.map(str::to_owned));
            }
        }
    }
}

/// A monitor with a script in QEMU's place, for tests.
#[cfg(test)]
pub(super) mod script {
    use super::*;
    use std::sync::{Arc, Mutex};
    use std::thread;

    /// Lines that the script received, and lines that it sends before its next answer.
    #[derive(Default, Debug)]
    pub(crate) struct Script {
        /// The commands and their arguments.
        pub asked: Vec<(String, Value)>,
        /// Lines that are to come before the next answer.
        pub before: Vec<String>,
        /// Commands that are to be refused.
        pub refuses: Vec<&'static str>,
    }

    /// The monitor of such a QEMU.
    pub(crate) fn monitor(script: &Arc<Mutex<Script>>) -> Monitor {
        let (monitor, inside) = Monitor::new().unwrap();
        let script = Arc::clone(script);
        thread::spawn(move || {
            let mut line = BufReader::new(inside.into_stream());
            writeln!(line.get_mut(), "{}", json!({"QMP": {"version": {}, "capabilities": []}})).unwrap();
            let mut asked = String::new();
            while line.read_line(&mut asked).is_ok_and(|read| read > 0) {
                let command: Value = serde_json::from_str(&asked).unwrap();
                let name = command["execute"].as_str().unwrap().to_owned();
                let mut script = script.lock().unwrap();
                let answer = match script.refuses.contains(&name.as_str()) {
                    true => json!({"error": {"class": "GenericError", "desc": "guest is busy"}}),
                    false => json!({"return": {}}),
                };
                let lines: Vec<_> = script.before.drain(..).chain([answer.to_string()]).collect();
                script.asked.push((name, command["arguments"].clone()));
                drop(script);
                writeln!(line.get_mut(), "{}", lines.join("\n")).unwrap();
                asked.clear();
            }
        });
        monitor
    }

    /// The line by which QEMU reports that a device was deleted.
    pub(crate) fn deletion(device: &str) -> String {
        json!({"event": "DEVICE_DELETED", "data": {"device": device, "path": "/machine/peripheral"}}).to_string()
    }

    #[test]
    fn answers_are_told_from_the_greeting_and_from_events() {
        let script = Arc::<Mutex<Script>>::default();
        let mut monitor = monitor(&script);
        monitor.begin().unwrap();
        monitor.begin().unwrap();
        assert_eq!(monitor.execute("device_add", &json!({"id": "nvme0"})).unwrap(), Ok(()));
        script.lock().unwrap().before.extend([deletion("nvme0"), json!({"event": "STOP"}).to_string()]);
        assert_eq!(monitor.deleted().unwrap(), ["nvme0"]);
        assert_eq!(monitor.deleted().unwrap(), [""; 0]);
        script.lock().unwrap().refuses.push("device_del");
        let refused = monitor.execute("device_del", &json!({"id": "nvme0"})).unwrap();
        assert_eq!(refused, Err(Refused("guest is busy".into())));
        let asked: Vec<_> = script.lock().unwrap().asked.iter().map(|(name, _)| name.clone()).collect();
        assert_eq!(asked, ["qmp_capabilities", "device_add", "query-status", "query-status", "device_del"]);
    }
}
