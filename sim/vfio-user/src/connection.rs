//! Messages on a UNIX stream socket: framing, file descriptors, time limits.
//!
//! A header is read alone, so that the file descriptors that come with a read belong to the message that it begins. The
//! socket never blocks. A read or write that stands still waits in `poll`, together with the request to stop, and at
//! most for the time of [`Timeouts`]. While a write waits, messages of the client are received: a client of one thread
//! may be in a write itself, and reads nothing before that is done. Left out: the meaning of messages (`request`).

use crate::error::{ClientEnd, ClientError};
use crate::message::{HEADER_BYTES, Header, flag};
use crate::stop::Stop;
use crate::version::{MAX_FDS, MAX_TRANSFER};
use core::mem::MaybeUninit;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, IoSliceMut};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendFlags, recvmsg, send};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use zerocopy::IntoBytes;

/// The largest message: the most data, and what stands before it in any of them.
pub(crate) const MAX_MESSAGE: usize = MAX_TRANSFER as usize + 64;
/// Messages received while a write waits. When these are reached, the client has to read first.
const MAX_WAITING: usize = 1024;
/// Bytes of messages received while a write waits.
const MAX_WAITING_BYTES: usize = 8 << 20;

/// How long a client may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timeouts {
    /// From the first byte of a message to its last; from the connection to the client's first message; and for the
    /// client to take what it is sent.
    pub message: Duration,
    /// For the answer to a DMA message. Longer: a debugger may have stopped the virtual machine.
    pub dma: Duration,
}

impl Default for Timeouts {
    /// 5 and 30 seconds.
    fn default() -> Self {
        Self { message: Duration::from_secs(5), dma: Duration::from_secs(30) }
    }
}

/// A message with what came along.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) header: Header,
    pub(crate) body: Vec<u8>,
    pub(crate) fds: Vec<OwnedFd>,
}

/// A client's connection.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    stop: Stop,
    /// [`Timeouts::message`].
    timeout: Duration,
    /// The message that is arriving: its header and body as far as `received` says, and its file descriptors.
    header: [u8; HEADER_BYTES],
    body: Vec<u8>,
    received: usize,
    fds: Vec<OwnedFd>,
    /// When that message began. From the start until the first message is complete, too.
    since: Option<Instant>,
    /// Messages that arrived while a write waited.
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
    /// Memory for the message that is sent.
    out: Vec<u8>,
}

impl Connection {
    pub(crate) fn new(stream: UnixStream, stop: Stop, timeout: Duration) -> Self {
        Self {
            stream,
            stop,
            timeout,
            header: [0; HEADER_BYTES],
            body: Vec::new(),
            received: 0,
            fds: Vec::new(),
            since: Some(Instant::now()),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            out: Vec::new(),
        }
    }

    /// The next message, if one is complete within `at_most`; `None` waits without end. Zero does not sleep.
    ///
    /// # Errors
    ///
    /// [`ClientEnd`]: the session is over.
    pub(crate) fn next(&mut self, at_most: Option<Duration>) -> Result<Option<Message>, ClientEnd> {
        if let Some(message) = self.waiting.pop_front() {
            self.waiting_bytes = self.waiting_bytes.saturating_sub(message.body.len());
            return Ok(Some(message));
        }
        if at_most != Some(Duration::ZERO) {
            let message_due = self.since.map(|since| self.timeout.saturating_sub(since.elapsed()));
            self.poll(PollFlags::IN, [at_most, message_due].into_iter().flatten().min())?;
        } else {
            self.check_stop()?;
        }
        let message = self.receive()?;
        if message.is_none() && self.since.is_some_and(|since| since.elapsed() >= self.timeout) {
            return Err(ClientError::Silent(self.timeout).into());
        }
        Ok(message)
    }

    /// Whether the server may go on.
    ///
    /// # Errors
    ///
    /// [`ClientEnd::Stopped`].
    pub(crate) fn check_stop(&self) -> Result<(), ClientEnd> {
        if self.stop.is_raised() { Err(ClientEnd::Stopped) } else { Ok(()) }
    }

    /// Sends one message made of `parts`, the header first.
    ///
    /// # Errors
    ///
    /// [`ClientEnd`]: the session is over.
    pub(crate) fn send(&mut self, parts: &[&[u8]]) -> Result<(), ClientEnd> {
        let mut out = core::mem::take(&mut self.out);
        out.clear();
        parts.iter().for_each(|part| out.extend_from_slice(part));
        let sent = self.send_all(&out);
        self.out = out;
        sent
    }

    fn send_all(&mut self, mut rest: &[u8]) -> Result<(), ClientEnd> {
        let deadline = Instant::now().checked_add(self.timeout);
        while !rest.is_empty() {
            match send(&self.stream, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_for_room(deadline)?,
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(ClientEnd::Left),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn wait_for_room(&mut self, deadline: Option<Instant>) -> Result<(), ClientEnd> {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(ClientError::Silent(self.timeout).into());
        }
        let has_room = self.waiting.len() < MAX_WAITING && self.waiting_bytes < MAX_WAITING_BYTES;
        let interest = if has_room { PollFlags::OUT | PollFlags::IN } else { PollFlags::OUT };
        if self.poll(interest, left)?.contains(PollFlags::IN)
            && let Some(message) = self.receive()?
        {
            self.waiting_bytes = self.waiting_bytes.saturating_add(message.body.len());
            self.waiting.push_back(message);
        }
        Ok(())
    }

    /// Sleeps until the socket is ready, `at_most` has passed, or the server is to stop.
    fn poll(&self, interest: PollFlags, at_most: Option<Duration>) -> Result<PollFlags, ClientEnd> {
        let mut fds = [PollFd::new(&self.stream, interest), PollFd::new(&self.stop, PollFlags::IN)];
        let timeout = at_most.and_then(|time| Timespec::try_from(time).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.check_stop()?;
        Ok(fds.first().map_or(PollFlags::empty(), PollFd::revents))
    }

    /// Reads on, as far as the current message and what has arrived go.
    fn receive(&mut self) -> Result<Option<Message>, ClientEnd> {
        loop {
            let place = match self.header.get_mut(self.received..) {
                Some(rest) if !rest.is_empty() => rest,
                _ => self.body.get_mut(self.received.saturating_sub(HEADER_BYTES)..).unwrap_or_default(),
            };
            if place.is_empty() {
                return self.complete().map(Some);
            }
            match receive_some(&self.stream, place, &mut self.fds) {
                Ok(0) if self.received == 0 => return Err(ClientEnd::Left),
                Ok(0) => return Err(ClientError::HungUp { received: self.received }.into()),
                Ok(bytes) => self.advance(bytes)?,
                Err(ReceiveError::Descriptors) => return Err(ClientError::Descriptors.into()),
                Err(ReceiveError::System(Errno::INTR)) => {}
                Err(ReceiveError::System(Errno::AGAIN)) => return Ok(None),
                Err(ReceiveError::System(Errno::CONNRESET)) => return Err(ClientEnd::Left),
                Err(ReceiveError::System(errno)) => return Err(errno.into()),
            }
        }
    }

    /// Counts bytes that arrived. When the header is complete, checks it and makes room for the body.
    fn advance(&mut self, bytes: usize) -> Result<(), ClientError> {
        let before = self.received;
        self.received = before.saturating_add(bytes);
        self.since.get_or_insert_with(Instant::now);
        if before < HEADER_BYTES && self.received >= HEADER_BYTES {
            let header = self.arriving();
            let body_bytes = usize::try_from(header.bytes).ok().and_then(|bytes| bytes.checked_sub(HEADER_BYTES));
            let size_error = ClientError::MessageSize { bytes: header.bytes, limit: MAX_MESSAGE };
            let body_bytes = body_bytes.filter(|bytes| *bytes <= MAX_MESSAGE - HEADER_BYTES).ok_or(size_error)?;
            let kind = header.flags & flag::TYPE;
            if kind != flag::TYPE_COMMAND && kind != flag::TYPE_REPLY {
                return Err(ClientError::MessageType(kind));
            }
            self.body.resize(body_bytes, 0);
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<Message, ClientEnd> {
        let header = self.arriving();
        self.received = 0;
        self.since = None;
        Ok(Message { header, body: core::mem::take(&mut self.body), fds: core::mem::take(&mut self.fds) })
    }

    fn arriving(&self) -> Header {
        let mut header = Header { id: 0, command: 0, bytes: 0, flags: 0, error: 0 };
        header.as_mut_bytes().copy_from_slice(&self.header);
        header
    }
}

enum ReceiveError {
    Descriptors,
    System(Errno),
}

/// Reads the socket once, with the file descriptors that come with it. Those that are not kept are closed.
fn receive_some(stream: &UnixStream, place: &mut [u8], fds: &mut Vec<OwnedFd>) -> Result<usize, ReceiveError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
    let received =
        recvmsg(stream, &mut [IoSliceMut::new(place)], &mut ancillary, flags).map_err(ReceiveError::System)?;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received.flags.contains(ReturnFlags::CTRUNC) || fds.len() > MAX_FDS {
        return Err(ReceiveError::Descriptors);
    }
    Ok(received.bytes)
}
