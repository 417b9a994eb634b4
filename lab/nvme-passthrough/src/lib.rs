//! Messages between the preload library of nvme-cli (`nvme-preload`) and the server of a controller (`lab`), over a UNIX stream socket.
//!
//! Each file that nvme-cli opens below `/dev` is a connection of its own. Its first message is a [`Hello`]; the server answers it and
//! every [`Request`] after it with a [`Reply`], in order. A message is its length (4 bytes, little endian) and its value in postcard's
//! format. Both ends refuse a longer one than [`MOST_MESSAGE`] before they take memory for it. Left out: the sockets, and the meaning of
//! commands.

#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{self, ErrorKind, Read, Write};

/// Version of the messages; each end refuses another one.
pub const VERSION: u16 = 1;
/// Environment variable of the preload library: the folder of [`SOCKET`] and [`SYS`].
pub const FOLDER: &str = "CAPNVME_NVME";
/// The socket's name in the folder.
pub const SOCKET: &str = "socket";
/// The folder that stands for `/sys`, in the folder.
pub const SYS: &str = "sys";
/// Most bytes of a command's data.
pub const MOST_DATA: u32 = 1 << 20;
/// Most bytes of a message: data, the other fields, and a sentence.
pub const MOST_MESSAGE: u32 = MOST_DATA + 1024;

/// A file below `/dev`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Node {
    /// The controller's character device, `nvme0`.
    Controller,
    /// A namespace's block device, `nvme0n1`, by its NSID.
    Block(u32),
    /// A namespace's character device, `ng0n1`, by its NSID.
    Generic(u32),
}

impl Node {
    /// The node of a name below `/dev`, if there may be such a node. There is one controller, number 0.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let nsid = |text: &str| text.parse().ok().filter(|nsid| *nsid != 0 && !text.starts_with(['0', '+']));
        match name.strip_prefix("nvme0") {
            Some("") => Some(Self::Controller),
            Some(rest) => rest.strip_prefix('n').and_then(nsid).map(Self::Block),
            None => name.strip_prefix("ng0n").and_then(nsid).map(Self::Generic),
        }
    }

    /// The namespace of the node.
    #[must_use]
    pub const fn nsid(self) -> Option<u32> {
        match self {
            Self::Controller => None,
            Self::Block(nsid) | Self::Generic(nsid) => Some(nsid),
        }
    }
}

/// First message of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Hello {
    /// The library's [`VERSION`]. This field stays the first one in every version.
    pub version: u16,
    /// The opened file.
    pub node: Node,
}

/// Queue of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Queue {
    /// The admin queue.
    Admin,
    /// An I/O queue.
    Io,
}

/// A command without its data, as the structure `nvme_passthru_cmd` of Linux has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Command {
    /// The queue.
    pub queue: Queue,
    /// The opcode.
    pub opcode: u8,
    /// NSID, whatever the node.
    pub nsid: u32,
    /// CDW2 and CDW3.
    pub cdw2: [u32; 2],
    /// CDW10 to CDW15.
    pub cdw10: [u32; 6],
}

/// Data of a command.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Data {
    /// No data.
    None,
    /// Bytes for the controller.
    Out(Vec<u8>),
    /// Number of bytes that the controller may write.
    In(u32),
}

impl Data {
    /// Number of bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        match self {
            Self::None => 0,
            Self::Out(bytes) => bytes.len(),
            Self::In(bytes) => usize::try_from(*bytes).unwrap_or(usize::MAX),
        }
    }
}

/// A request to the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Executes a command.
    Execute(Command, Data),
    /// Asks for the geometry of the node's namespace.
    Geometry,
    /// Resets the controller.
    Reset,
    /// Resets the NVM subsystem.
    ResetSubsystem,
    /// Looks for new and changed namespaces.
    Rescan,
}

/// Answer of the server.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// The node is open, or the request without a result of its own was executed.
    Done,
    /// The controller completed the command.
    Completed {
        /// Status as Linux returns it: SCT << 8 | SC, 0x2000 More, 0x4000 Do Not Retry; 0 for success.
        status: u16,
        /// Dwords 0 and 1 of the completion queue entry.
        result: u64,
        /// The bytes that [`Data::In`] asked for; empty after a failed command.
        data: Vec<u8>,
    },
    /// Geometry of the namespace.
    Geometry {
        /// Bytes of a block.
        block_bytes: u32,
        /// Number of blocks.
        blocks: u64,
    },
    /// The server refused, and the controller has seen nothing.
    Refused(Refusal, String),
}

/// Reason of a refusal. A sentence for people goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Refusal {
    /// There is no such node.
    NoNode,
    /// The policy forbids the command.
    Forbidden,
    /// A field of the request has an impossible value.
    Invalid,
    /// The node or the controller has no such function.
    Unsupported,
    /// Too many files are open.
    Busy,
    /// The other end has another version.
    Version,
    /// The controller does not answer. The command may have been executed.
    Timeout,
}

/// Writes a message.
///
/// # Errors
/// A value that is too long for a message, or the stream's own error.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let value = postcard::to_allocvec(message).map_err(|error| io::Error::new(ErrorKind::InvalidInput, error))?;
    let length = u32::try_from(value.len()).ok().filter(|length| *length <= MOST_MESSAGE);
    let length = length.ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "the message is too long"))?;
    stream.write_all(&[&length.to_le_bytes(), value.as_slice()].concat())
}

/// Reads a message; `None` where the stream ends before it.
///
/// # Errors
/// A length beyond [`MOST_MESSAGE`], bytes that are no such message or more than one, or the stream's own error. The stream is of no
/// further use then.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    let first = loop {
        match stream.read(&mut length) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => break other?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    stream.read_exact(length.get_mut(first..).unwrap_or_default())?;
    let length = u32::from_le_bytes(length);
    let wrong = |reason| io::Error::new(ErrorKind::InvalidData, reason);
    if length > MOST_MESSAGE {
        return Err(wrong("the message is too long"));
    }
    let mut value = Vec::new();
    stream.take(length.into()).read_to_end(&mut value)?;
    if u32::try_from(value.len()) != Ok(length) {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    match postcard::take_from_bytes(&value) {
        Ok((message, [])) => Ok(Some(message)),
        _ => Err(wrong("the bytes are no message")),
    }
}

#[cfg(test)]
mod tests;
