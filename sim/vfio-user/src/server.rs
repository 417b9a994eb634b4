//! The socket: binds it and serves one client after the other.

use crate::clock::Clock;
use crate::connection::Timeouts;
use crate::device::{Blocked, Device, Host, Level};
use crate::error::{BindError, ClientEnd, MOST_PATH_BYTES};
use crate::session::Session;
use crate::stop::Stop;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// A server of one function, for one client at a time.
#[derive(Debug)]
pub struct Server {
    listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket's file, to know it again.
    file: (u64, u64),
    stop: Stop,
    clock: Clock,
    timeouts: Timeouts,
}

impl Server {
    /// Binds a UNIX stream socket at `path`. A socket without a listener is replaced; any other file stays.
    ///
    /// The server's time begins now. The permissions of the socket's file say which users may connect; they are those
    /// that the process's umask leaves.
    ///
    /// # Errors
    ///
    /// [`BindError`].
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let failed = |reason| BindError::Io { path: path.to_owned(), reason };
        if path.as_os_str().len() > MOST_PATH_BYTES {
            return Err(BindError::TooLong(path.to_owned()));
        }
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|source| match source.kind() {
            io::ErrorKind::AddrInUse => BindError::InUse(path.to_owned()),
            _ => failed(source),
        })?;
        let metadata = fs::symlink_metadata(path).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Self {
            listener,
            path: path.to_owned(),
            file: (metadata.dev(), metadata.ino()),
            stop: Stop::new().map_err(failed)?,
            clock: Clock::start(),
            timeouts: Timeouts::default(),
        })
    }

    /// Sets how long clients may take, from the next client on.
    pub fn set_timeouts(&mut self, timeouts: Timeouts) {
        self.timeouts = timeouts;
    }

    /// A handle by which another thread ends [`Server::run`] and [`Server::serve`].
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// The server's time in nanoseconds: that of the device's calls.
    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    /// Serves one client after the other, until the server is stopped. `ended` receives the end of each session. The
    /// device is reset after each of them, and is not called while there is no client.
    ///
    /// # Errors
    ///
    /// The listening socket failed. A client's error ends its own session only.
    pub fn run(&self, device: &mut dyn Device, ended: &mut dyn FnMut(&ClientEnd)) -> io::Result<()> {
        while let Some(client) = self.accept()? {
            ended(&self.serve(client, device));
        }
        Ok(())
    }

    /// Serves a client that is connected, for instance by a pair of sockets, until it leaves or the server is stopped.
    /// Then resets the device.
    pub fn serve(&self, client: UnixStream, device: &mut dyn Device) -> ClientEnd {
        let end = Session::run(client, device, &self.stop, self.clock, self.timeouts);
        device.reset(self.clock.now_ns(), &mut NoClient);
        end
    }

    /// Waits for a client; `None` when the server is stopped.
    fn accept(&self) -> io::Result<Option<UnixStream>> {
        loop {
            if self.stop.is_raised() {
                return Ok(None);
            }
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(&self.stop, PollFlags::IN)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            match self.listener.accept() {
                Ok((client, _)) => return Ok(Some(client)),
                // The client may have gone between the two calls.
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Only the own file: another server may have bound the path since.
        if fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes a socket that a server left behind.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |reason| BindError::Io { path: path.to_owned(), reason };
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if !metadata.file_type().is_socket() => return Err(BindError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path).map_err(failed),
        Err(error) => Err(failed(error)),
        Ok(_) => Err(BindError::InUse(path.to_owned())),
    }
}

/// The machine of a device without a client.
struct NoClient;

impl Host for NoClient {
    fn dma_read(&mut self, _iova: u64, _bytes: &mut [u8]) -> Result<(), Blocked> {
        Err(Blocked::Gone)
    }

    fn dma_write(&mut self, _iova: u64, _bytes: &[u8]) -> Result<(), Blocked> {
        Err(Blocked::Gone)
    }

    fn interrupt(&mut self, _vector: u16) {}

    fn pin(&mut self, _level: Level) {}
}
