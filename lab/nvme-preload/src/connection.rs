//! The connections: an open node is one, and its socket's number is the file descriptor that nvme-cli gets.

use crate::{Errno, Result, place, say};
use libc::{EACCES, EBUSY, EINVAL, ENODEV, ENOENT, ENOTTY, EPROTO, ETIMEDOUT};
use nvme_passthrough::{Hello, Node, Refusal, Reply, Request, SOCKET, VERSION, receive, send};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time for an answer to all but a command, which has its own.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The open nodes by file descriptor. No connection is dropped under the lock, because that calls `close`.
static OPEN: Mutex<BTreeMap<RawFd, Connection>> = Mutex::new(BTreeMap::new());

struct Connection {
    node: Node,
    stream: UnixStream,
}

fn all() -> MutexGuard<'static, BTreeMap<RawFd, Connection>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a node; returns its file descriptor.
pub(crate) fn open(node: Node) -> Result<RawFd> {
    let connection = Connection::new(node)?;
    let fd = connection.stream.as_raw_fd();
    all().insert(fd, connection);
    Ok(fd)
}

/// Whether there is such a node.
pub(crate) fn find(node: Node) -> Result<()> {
    Connection::new(node).map(drop)
}

/// The node of a file descriptor, if it is one of ours.
pub(crate) fn node(fd: RawFd) -> Option<Node> {
    all().get(&fd).map(|connection| connection.node)
}

/// Closes a file descriptor, if it is one of ours.
pub(crate) fn close(fd: RawFd) -> bool {
    let connection = all().remove(&fd);
    connection.is_some()
}

/// Sends a request on an open node and waits for its answer.
pub(crate) fn ask(fd: RawFd, request: &Request, patience: Duration) -> Result<Reply> {
    let open = all();
    let connection = open.get(&fd).ok_or(Errno(libc::EBADF))?;
    connection.ask(request, patience)
}

impl Connection {
    fn new(node: Node) -> Result<Self> {
        let Some(folder) = place::folder() else {
            say("there is no controller: this library is used by cargo xtask nvme");
            return Err(Errno(ENOENT));
        };
        let stream = UnixStream::connect(folder.join(SOCKET)).map_err(|error| {
            say(&format!("no controller is served at {}: {error}", folder.display()));
            Errno(ENODEV)
        })?;
        let connection = Self { node, stream };
        match connection.ask(&Hello { version: VERSION, node }, PATIENCE)? {
            Reply::Done => Ok(connection),
            _ => Err(Errno(EPROTO)),
        }
    }

    /// Sends a message and receives the answer. After a failure the connection is of no further use, because a late answer would be
    /// taken for that of the next request.
    fn ask(&self, message: &impl Serialize, patience: Duration) -> Result<Reply> {
        let exchange = || {
            self.stream.set_read_timeout(Some(patience))?;
            self.stream.set_write_timeout(Some(patience))?;
            send(&mut Unsignalled(&self.stream), message)?;
            receive(&mut &self.stream)?.ok_or_else(|| ErrorKind::UnexpectedEof.into())
        };
        match exchange() {
            Ok(Reply::Refused(reason, sentence)) => {
                // A node that is not there is no news: programs look for them.
                if reason != Refusal::NoNode {
                    say(&sentence);
                }
                Err(Errno(number(reason)))
            }
            Ok(reply) => Ok(reply),
            Err(error) => {
                let _ = self.stream.shutdown(Shutdown::Both);
                Err(broken(&error))
            }
        }
    }
}

/// Reports a connection that has failed.
fn broken(error: &io::Error) -> Errno {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            say("the controller's server does not answer: end it, and start it again with cargo xtask nvme");
            Errno(ETIMEDOUT)
        }
        ErrorKind::InvalidInput | ErrorKind::InvalidData => {
            say(&format!("the controller's server is of another version ({error}): run it from the same checkout"));
            Errno(EPROTO)
        }
        _ => {
            say("the controller's server has ended, and its controller with it: start it again with cargo xtask nvme");
            Errno(ENODEV)
        }
    }
}

const fn number(reason: Refusal) -> i32 {
    match reason {
        Refusal::NoNode => ENOENT,
        Refusal::Forbidden => EACCES,
        Refusal::Invalid => EINVAL,
        Refusal::Unsupported => ENOTTY,
        Refusal::Busy => EBUSY,
        Refusal::Version => EPROTO,
        Refusal::Timeout => ETIMEDOUT,
    }
}

/// A stream whose writes raise no signal when the other end has gone: nvme-cli does not ignore SIGPIPE.
struct Unsignalled<'a>(&'a UnixStream);

impl Write for Unsignalled<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: the socket is open, and the bytes are readable for the whole call.
        let sent = unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
