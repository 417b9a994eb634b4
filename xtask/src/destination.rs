//! Writes results to a file that the user named, such as that of `--json`.
//!
//! A regular file is replaced as a whole, so that a reader finds the old content or the new one. A link stays, and its target is
//! replaced. A device or a pipe is written to.

use crate::project::{part_of, write_whole};
use anyhow::{Context, Result, bail, ensure};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use serde::Serialize;
use serde_json::{Map, Value};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Links in a row, at most, as the kernel follows them.
const MOST_LINKS: usize = 40;

/// Destination of results.
#[derive(Debug)]
pub struct Destination {
    /// Path that the user named.
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// The regular file at the end of all links; it need not exist.
    File(PathBuf),
    /// A device, a pipe, or the file that is the standard output.
    Open(File),
}

impl Destination {
    /// Opens the destination `path` before the work whose results it receives. A regular file is not changed yet.
    ///
    /// # Errors
    /// A destination that cannot be written, or a pipe without a reader.
    pub fn open(path: &Path) -> Result<Self> {
        ensure!(
            path != Path::new("-"),
            "'-' names no file: name one, or /dev/stdout to have the results behind each other"
        );
        let shown = path.display();
        let sentence = || format!("cannot write {shown}: name a file in a folder that is there and can be written to");
        let metadata = fs::metadata(path);
        let output = metadata.as_ref().ok().and_then(|metadata| same_as(io::stdout().as_fd(), metadata));
        let place = match (metadata, output) {
            (_, Some(output)) => Place::Open(output),
            (Ok(metadata), None) if metadata.is_dir() => bail!(sentence()),
            (Ok(metadata), None) if metadata.is_file() => Place::File(path.canonicalize().with_context(sentence)?),
            (Ok(metadata), None) => Place::Open(open_special(path, metadata.file_type().is_fifo())?),
            (Err(error), None) if error.kind() == ErrorKind::NotFound => {
                Place::File(end_of_links(path).with_context(sentence)?)
            }
            (Err(error), None) => return Err(error).with_context(sentence),
        };
        if let Place::File(file) = &place {
            ensure!(file.file_name().is_some(), sentence());
            let part = part_of(file);
            fs::write(&part, b"").and_then(|()| fs::remove_file(&part)).with_context(sentence)?;
        }
        Ok(Self { path: path.to_path_buf(), place })
    }

    /// Writes the results.
    ///
    /// # Errors
    /// Results that cannot be written.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.place {
            Place::File(file) => write_whole(file, bytes),
            Place::Open(file) => file.write_all(bytes).with_context(|| format!("cannot write {}", self.path.display())),
        }
    }

    /// Writes the results as JSON of this format.
    ///
    /// # Errors
    /// Results that cannot be written.
    pub fn write_json(&mut self, format: Format, results: &impl Serialize) -> Result<()> {
        self.write(format!("{}\n", json(format, results)?).as_bytes())
    }

    /// The path beside this file with another ending; `None` for a device or a pipe.
    pub fn with_extension(&self, extension: &str) -> Option<PathBuf> {
        matches!(self.place, Place::File(_)).then(|| self.path.with_extension(extension))
    }
}

/// A kind of results, as its files name it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Of a run.
    Run,
    /// Of benchmarks.
    Benchmarks,
    /// Of a profile.
    Profile,
    /// Of a search by fuzz targets.
    Fuzz,
}

impl Format {
    /// The name of the format, in its files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Run => "capnvme-run",
            Self::Benchmarks => "capnvme-benchmarks",
            Self::Profile => "capnvme-profile",
            Self::Fuzz => "capnvme-fuzz",
        }
    }

    /// Counts the changes after which a reader of former files would misread a new one: another meaning, or a key that is gone.
    pub const fn version(self) -> u32 {
        1
    }
}

/// The results as JSON that is safe for a terminal: JSON itself escapes only the control characters below the space. First come the
/// format and its version. Keys without a value are left out; a list is the value of `results`.
///
/// # Errors
/// Results that cannot be encoded.
pub fn json(format: Format, results: &impl Serialize) -> Result<String> {
    let mut all = Map::new();
    all.insert("format".into(), format.name().into());
    all.insert("version".into(), format.version().into());
    match serde_json::to_value(results).context("the results do not encode as JSON")? {
        Value::Object(results) => all.extend(results),
        list => drop(all.insert("results".into(), list)),
    }
    let mut all = Value::Object(all);
    leave_out_nulls(&mut all);
    let text = serde_json::to_string_pretty(&all).context("the results do not encode as JSON")?;
    if !text.contains(|c: char| c.is_control() && c > ' ') {
        return Ok(text);
    }
    let escaped = |c: char| if c.is_control() && c > ' ' { format!("\\u{:04x}", u32::from(c)) } else { c.to_string() };
    Ok(text.chars().map(escaped).collect())
}

fn leave_out_nulls(value: &mut Value) {
    match value {
        Value::Object(keys) => {
            keys.retain(|_, value| !value.is_null());
            keys.values_mut().for_each(leave_out_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(leave_out_nulls),
        _ => {}
    }
}

/// A duplicate of the open file `output`, if it is the file of `metadata`.
fn same_as(output: BorrowedFd<'_>, metadata: &Metadata) -> Option<File> {
    let output = File::from(output.try_clone_to_owned().ok()?);
    let of_output = output.metadata().ok()?;
    ((of_output.dev(), of_output.ino()) == (metadata.dev(), metadata.ino())).then_some(output)
}

/// Opens a device or a pipe. Opening a pipe without a reader would block.
fn open_special(path: &Path, is_pipe: bool) -> Result<File> {
    let shown = path.display();
    let flags = if is_pipe { OFlags::NONBLOCK } else { OFlags::empty() };
    let file = OpenOptions::new().write(true).custom_flags(flags.bits() as i32).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(code) if code == Errno::NXIO.raw_os_error() => {
            anyhow::anyhow!("nobody reads the pipe {shown}: start its reader first")
        }
        _ => anyhow::Error::new(error).context(format!("cannot write {shown}: name a file that can be written")),
    })?;
    let settled = fcntl_getfl(&file).and_then(|flags| fcntl_setfl(&file, flags - OFlags::NONBLOCK));
    settled.with_context(|| format!("cannot write {shown}"))?;
    Ok(file)
}

/// The target at the end of `path`'s links; it need not exist.
fn end_of_links(path: &Path) -> std::io::Result<PathBuf> {
    let mut end = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&end) {
            Ok(target) => end = end.parent().unwrap_or(Path::new("")).join(target),
            Err(_) => return Ok(end),
        }
    }
    Err(Errno::LOOP.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, Mode, mkfifoat};
    use std::collections::BTreeMap;
    use std::io::{Read, Seek};
    use std::os::unix::fs::symlink;

    #[test]
    fn unwritable_file_is_refused_before_the_work() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("results.json");
        drop(Destination::open(&file).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        fs::write(&file, b"old").unwrap();
        drop(Destination::open(&file).unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"old");
        for wrong in [folder.path().to_path_buf(), folder.path().join("none/a"), file.join("a"), PathBuf::new()] {
            let error = Destination::open(&wrong).unwrap_err().to_string();
            assert!(error.contains("name a file in a folder"), "{error}");
        }
    }

    #[test]
    fn a_dash_is_refused_with_the_name_of_the_output() {
        let error = Destination::open(Path::new("-")).unwrap_err().to_string();
        assert!(error.starts_with("'-' names no file: name one, or /dev/stdout"), "{error}");
    }

    #[test]
    fn results_are_appended_to_the_standard_output() {
        let mut output = tempfile::tempfile().unwrap();
        output.write_all(b"table\n").unwrap();
        let metadata = output.metadata().unwrap();
        same_as(output.as_fd(), &metadata).unwrap().write_all(b"results\n").unwrap();
        output.write_all(b"more\n").unwrap();
        let mut text = String::new();
        output.rewind().unwrap();
        output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "table\nresults\nmore\n");
        assert!(same_as(output.as_fd(), &fs::metadata("/").unwrap()).is_none());
    }

    #[test]
    fn json_has_no_control_characters_and_says_the_same() {
        let text = "a\u{7f}\u{9b}\u{1b}\u{0} é".to_owned();
        let written = json(Format::Run, &[&text]).unwrap();
        assert!(written.chars().all(|c| !c.is_control() || c == '\n'), "{written:?}");
        assert_eq!(serde_json::from_str::<Value>(&written).unwrap()["results"][0], text);
    }

    #[test]
    fn json_begins_with_its_format_and_has_no_null() {
        #[derive(Serialize)]
        struct Results {
            z: Option<u32>,
            a: Vec<Option<u32>>,
            inside: BTreeMap<&'static str, Option<u32>>,
        }
        let results = Results { z: None, a: vec![Some(3)], inside: BTreeMap::from([("x", None), ("y", Some(1))]) };
        let written = json(Format::Run, &results).unwrap().replace(char::is_whitespace, "");
        assert_eq!(written, r#"{"format":"capnvme-run","version":1,"a":[3],"inside":{"y":1}}"#);
    }

    #[test]
    fn a_link_stays_and_what_it_leads_to_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("below")).unwrap();
        for (link, target) in [("there", "below/there.json"), ("not-yet", "below/not-yet.json")] {
            symlink(target, folder.path().join(link)).unwrap();
        }
        fs::write(folder.path().join("below/there.json"), b"old").unwrap();
        for name in ["there", "not-yet"] {
            let link = folder.path().join(name);
            Destination::open(&link).unwrap().write(b"new").unwrap();
            assert!(link.is_symlink());
            assert_eq!(fs::read(folder.path().join(format!("below/{name}.json"))).unwrap(), b"new");
        }
        symlink("round", folder.path().join("round")).unwrap();
        assert!(Destination::open(&folder.path().join("round")).is_err());
    }

    #[test]
    fn a_device_and_a_pipe_are_written_to_and_stay_what_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let mut null = Destination::open(Path::new("/dev/null")).unwrap();
        null.write(b"gone").unwrap();
        assert_eq!(null.with_extension("svg"), None);
        assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let pipe = folder.path().join("pipe");
        mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).unwrap();
        let error = Destination::open(&pipe).unwrap_err().to_string();
        assert!(error.ends_with("start its reader first"), "{error}");
        let mut reader =
            OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(&pipe).unwrap();
        Destination::open(&pipe).unwrap().write(b"through").unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }
}
