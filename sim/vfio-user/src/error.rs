//! Why a server could not begin, and why a client's session ended.

use core::fmt;
use rustix::io::Errno;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;

/// Longest path of a UNIX socket: `sun_path` has 108 bytes, of which the last is zero (unix(7)).
pub(crate) const MOST_PATH_BYTES: usize = 107;

/// The socket could not be bound.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum BindError {
    /// A file that is no socket is at the path. It was left alone.
    #[error("{0} exists and is no socket: name another path")]
    NotASocket(PathBuf),
    /// Another server listens at the path.
    #[error("another server listens at {0}: end it, or name another path")]
    InUse(PathBuf),
    /// The path is longer than the address of a socket may be.
    #[error("the path {} has {} bytes, and that of a socket {MOST_PATH_BYTES} at most: name a shorter one", .0.display(), .0.as_os_str().len())]
    TooLong(PathBuf),
    /// A system call failed.
    #[error("cannot bind a socket at {path} ({reason}): name a path in a folder that is there and can be written to")]
    Io {
        /// Where the socket was to be.
        path: PathBuf,
        /// The system's reason.
        reason: io::Error,
    },
}

/// How a client's session ended.
#[derive(Debug)]
pub enum ClientEnd {
    /// The client closed the connection, between two messages.
    Left,
    /// The server was asked to end ([`Stop::raise`](crate::Stop::raise)).
    Stopped,
    /// The client broke the protocol or its connection failed; the server closed the connection.
    Failed(ClientError),
}

impl fmt::Display for ClientEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Left => f.write_str("the client left"),
            Self::Stopped => f.write_str("the server was stopped"),
            Self::Failed(error) => error.fmt(f),
        }
    }
}

impl<E: Into<ClientError>> From<E> for ClientEnd {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Why the server ended a client's session.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The client hung up inside of a message.
    #[error("the client hung up after {received} bytes of a message")]
    HungUp {
        /// Bytes of the message that had arrived.
        received: usize,
    },
    /// A message is shorter than its header, or longer than any message may be.
    #[error("a header claims a message of {bytes} bytes; 16 to {limit} are possible")]
    MessageSize {
        /// Claimed size, header included.
        bytes: u32,
        /// Largest size.
        limit: usize,
    },
    /// A message is neither a command nor a reply.
    #[error("a message has the unknown type {0}")]
    MessageType(u32),
    /// More file descriptors came with a message than was agreed, or than this process may have.
    #[error("more file descriptors came with a message than can be received")]
    Descriptors,
    /// The client stopped inside of a message or did not take what it was sent, for this long.
    #[error("the client was silent for {0:?} inside of a message")]
    Silent(Duration),
    /// The client did not answer a DMA message for this long.
    #[error("the client did not answer a DMA message within {0:?}")]
    NoDmaReply(Duration),
    /// A session begins with `VFIO_USER_VERSION`, once.
    #[error("the first message is command {0}, not VFIO_USER_VERSION")]
    NotVersion(u16),
    /// The client's version or capabilities cannot be agreed with.
    #[error("version negotiation failed: {0}")]
    Version(#[from] VersionError),
    /// A reply came that no command asked for.
    #[error("a reply to command {command} with id {id} was not asked for")]
    UnexpectedReply {
        /// The message's id.
        id: u16,
        /// The message's command.
        command: u16,
    },
    /// The reply to a DMA message has another size, address or count than the specification says.
    #[error(
        "a reply to a DMA message has {body_bytes} bytes or other fields than asked for; 32-bit counts of old clients?"
    )]
    DmaReply {
        /// Size of the reply without its header.
        body_bytes: usize,
    },
    /// More requests arrived during one DMA than the server keeps.
    #[error("too many requests arrived while the client had to do a DMA")]
    Flooded,
    /// A system call on the connection failed.
    #[error("the connection failed: {0}")]
    Socket(#[from] Errno),
}

/// Reason for refusing a client's `VFIO_USER_VERSION`.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum VersionError {
    /// Shorter than the two version numbers, or its text does not end with a NUL.
    #[error("the message is cut off")]
    CutOff,
    /// Another major version than zero.
    #[error("major version {0} is not served")]
    Major(u16),
    /// The version data is not a JSON object.
    #[error("the version data is not a JSON object")]
    NotJson,
    /// A capability has another type or a value that cannot be.
    #[error("the capability {0} has an invalid value")]
    Capability(&'static str),
}
