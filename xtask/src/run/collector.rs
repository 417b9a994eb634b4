//! Parses the serial line of a run: logs go to the log file and the terminal, reports to the results.
//!
//! Frames are `report::frame`'s; [`Decoder`] finds the words of a log message. Left out: the end of a run, and the verdict.

use crate::judges::missing;
use crate::out;
use crate::plain::plain;
use crate::progress::Step;
use crate::records::decode::{Decoder, Filter, Line};
use crate::records::results::Results;
use crate::reports::live_log::LiveLog;
use anyhow::{Context, Result};
use report::Stamped;
use report::frame::{Kind, Piece, Reader};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::Duration;

/// Parser of the serial line, with the logs and results of the run.
pub struct Collector<'a> {
    /// The results so far.
    pub results: Results,
    decoder: Decoder,
    reader: Reader,
    serial: Box<dyn Write>,
    log: Box<dyn Write>,
    show: Option<&'a Filter>,
    live_log: LiveLog<'a>,
}

impl<'a> Collector<'a> {
    /// A collector that writes its logs into `folder`, and the lines that `show` selects to the terminal.
    pub fn new(decoder: Decoder, folder: &Path, show: Option<&'a Filter>) -> Result<Self> {
        let create = |name: &str| {
            File::create(folder.join(name)).with_context(|| format!("cannot write {}", folder.join(name).display()))
        };
        Ok(Self {
            serial: Box::new(create("serial")?),
            log: Box::new(BufWriter::new(create("log")?)),
            live_log: LiveLog::in_folder(folder)?,
            ..Self::without_files(decoder, show)
        })
    }

    /// A collector that keeps only the results.
    pub fn without_files(decoder: Decoder, show: Option<&'a Filter>) -> Self {
        let (serial, log) = (Box::new(io::sink()), Box::new(io::sink()));
        let results = Results { roles: decoder.roles(), ..Results::default() };
        Self { results, decoder, reader: Reader::new(), serial, log, show, live_log: LiveLog::default() }
    }

    /// This collector, with another destination of its log.
    pub(crate) fn logging_to(self, log: Box<dyn Write>) -> Self {
        Self { log, ..self }
    }

    /// This collector, which also shows events beside `step`.
    pub fn telling(mut self, step: Option<&'a Step>) -> Self {
        self.live_log.step = step;
        self
    }

    /// Takes a log line that did not come over the serial line.
    pub fn take_line(&mut self, line: Line) -> Result<()> {
        self.write(&Written::Log(line))
    }

    /// Records that the controller of the server `who` was made to fail, at `at_ns` of machine time.
    pub fn take_fault(&mut self, at_ns: u64, who: &str, words: &str) -> Result<()> {
        self.results.timeline.broken(at_ns, who, words);
        self.take_outside(at_ns, who, &format!("fault: {words}"))
    }

    /// Records that the controller of the server `who` was inserted or removed, or is to be, at `at_ns` of machine time.
    pub fn take_move(&mut self, at_ns: u64, who: &str, words: &str) -> Result<()> {
        self.results.timeline.moved(at_ns, who, words);
        self.take_outside(at_ns, who, &format!("hot plug: {words}"))
    }

    /// Records an operator's act on the component `who`, which was over at `at_ns` of machine time.
    pub fn take_act(&mut self, at_ns: u64, who: &str, words: &str) -> Result<()> {
        self.results.timeline.ordered(at_ns, who, words);
        self.take_outside(at_ns, who, &format!("operator: {words}"))
    }

    /// Shows and logs something that was done from outside of the machine.
    fn take_outside(&mut self, at_ns: u64, who: &str, words: &str) -> Result<()> {
        self.live_log.go_on(&self.results)?;
        self.write(&Written::Other(format!("{:>12.6} {who:<16} {words}", at_ns as f64 / 1e9)))
    }

    /// Takes bytes of the serial line that came `at` after QEMU's start.
    pub fn take(&mut self, bytes: &[u8], at: Duration) -> Result<()> {
        self.serial.write_all(bytes).context("cannot write the run's log: is the disk full?")?;
        let mut lines = Vec::new();
        let (results, decoder) = (&mut self.results, &self.decoder);
        self.reader.feed(bytes, &mut |piece| lines.push(piece_line(piece, decoder, results, at)));
        self.live_log.go_on(&self.results)?;
        lines.into_iter().try_for_each(|line| self.write(&line))
    }

    /// Takes the rest at the end, or at a pause, and flushes all files.
    pub fn finish(&mut self) -> Result<()> {
        let mut lines = Vec::new();
        let (results, decoder) = (&mut self.results, &self.decoder);
        self.reader.finish(&mut |piece| lines.push(piece_line(piece, decoder, results, Duration::MAX)));
        self.live_log.finish(&self.results)?;
        lines.into_iter().try_for_each(|line| self.write(&line))?;
        self.log.flush().context("cannot write the run's log: is the disk full?")
    }

    fn write(&mut self, line: &Written) -> Result<()> {
        let text = match line {
            Written::Log(line) => {
                if self.show.is_some_and(|filter| filter.shows(&line.component, line.level)) {
                    out::note(format_args!("{}", line.text));
                }
                &line.text
            }
            Written::Other(text) => text,
        };
        writeln!(self.log, "{}", plain(text)).context("cannot write the run's log: is the disk full?")
    }
}

/// A line of the log file.
enum Written {
    Log(Line),
    Other(String),
}

fn piece_line(piece: Piece<'_>, decoder: &Decoder, results: &mut Results, at: Duration) -> Written {
    let Piece::Frame { component, kind, bytes } = piece else {
        let Piece::Noise(bytes) = piece else { return Written::Other(String::new()) };
        return Written::Other(String::from_utf8_lossy(bytes).trim_end().to_owned());
    };
    let name = decoder.name(component);
    match kind {
        Kind::Log => Written::Log(decoder.line(component, bytes)),
        Kind::Report => match Stamped::decode(bytes) {
            Some(record) if missing::may_say(component, &name, decoder.role(component), &record.report) => {
                let text = format!("{:>12.6} {name:<16} {:?}", record.at_ns as f64 / 1e9, record.report);
                results.take(record, at);
                Written::Other(text)
            }
            Some(Stamped { report, .. }) => {
                results.fail(&name, "it reports what is not its own to report");
                Written::Other(format!("{name} reports what is not its own: {report:?}"))
            }
            None => {
                results.fail(&name, "it reports bytes that do not decode");
                Written::Other(format!("{name} reports {} bytes that do not decode", bytes.len()))
            }
        },
        Kind::Clock => {
            let now = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            results.set_clock(now, at);
            Written::Other(format!("{:>12.6} {name:<16} the line's time", now as f64 / 1e9))
        }
        Kind::Lost => {
            let lost = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
            let text = format!("{name}: {lost} bytes of the log are lost so far");
            results.lost_log_bytes.insert(name, lost);
            Written::Other(text)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use report::frame::{MAX_FRAME, encode};
    use report::{Load, Report};

    fn frame(component: u16, kind: Kind, bytes: &[u8]) -> Vec<u8> {
        let mut line = [0; MAX_FRAME];
        let len = encode(component, kind, bytes, &mut line).unwrap();
        line[..len].to_vec()
    }

    #[test]
    fn the_line_becomes_results_and_a_log_whatever_stands_between() {
        let folder = tempfile::tempdir().unwrap();
        let mut collector = Collector::new(Decoder::default(), folder.path(), None).unwrap();
        let mut bytes = b"firmware says hello\n".to_vec();
        let load = Load { tenant: report::clip("component 4"), reads: 7, ..Load::default() };
        let record = Stamped { at_ns: 5_000, report: Report::Load(load) }.encode();
        bytes.extend(frame(4, Kind::Report, &record));
        bytes.extend(frame(4, Kind::Lost, &12u64.to_le_bytes()));
        bytes.extend(frame(4, Kind::Report, &[0xff; 3]));
        bytes.extend(frame(5, Kind::Report, &record));
        for chunk in bytes.chunks(5) {
            collector.take(chunk, Duration::ZERO).unwrap();
        }
        collector.finish().unwrap();
        assert_eq!(collector.results.tenants.len(), 1, "of itself a component may speak, not of others");
        assert_eq!(collector.results.tenants[0].reads, 7);
        assert_eq!(collector.results.failures.len(), 2, "what does not decode, and what is not its own");
        assert_eq!(collector.results.lost_log_bytes["component 4"], 12);
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        let lines: Vec<_> = log.lines().collect();
        assert_eq!(lines[0], "firmware says hello");
        assert!(lines[1].contains("0.000005") && lines[1].contains("reads: 7"), "{log}");
        assert!(lines[2].starts_with("component 4: 12 bytes"), "{log}");
        assert_eq!(lines[3], "component 4 reports 3 bytes that do not decode");
        assert_eq!(std::fs::read(folder.path().join("serial")).unwrap(), bytes);
    }
}
