//! The program's configuration.

use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};

/// The program's configuration, as a scenario has it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whether to make a new file system, whatever the session's blocks hold. Otherwise it makes one only where the blocks hold
    /// nothing: the first 128 KiB are zeroes.
    pub format: bool,
    /// The label of a new file system, of at most 11 characters.
    pub label: String,
    /// Existing files, with their contents: they are read before any file is written.
    pub expect: Vec<File>,
    /// Files to write. They replace files of the same names. Missing folders are made.
    pub write: Vec<File>,
    /// Bytes of the window through which data are copied.
    pub buffer_bytes: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { format: false, label: "CAPNVME".into(), expect: Vec::new(), write: Vec::new(), buffer_bytes: 65536 }
    }
}

/// A file and its contents.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Path: its folders and its name, separated by slashes.
    pub path: String,
    /// Text of the contents.
    pub text: String,
    /// Repetitions of `text` in the contents.
    #[serde(default = "once")]
    pub times: u32,
}

const fn once() -> u32 {
    1
}

impl File {
    /// Contents of the file.
    #[must_use]
    pub fn contents(&self) -> String {
        self.text.repeat(self.times as usize)
    }
}
