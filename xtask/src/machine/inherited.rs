//! Sockets that QEMU inherits: the far ends of its test port and of its monitor.

use anyhow::{Context, Result};
use rustix::io::{FdFlags, fcntl_setfd};
use std::ffi::OsString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// What QEMU does at a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Port {
    /// Answers accesses to the machine's memory (`-qtest`).
    Test,
    /// Takes commands to QEMU itself, in QMP.
    Monitor,
}

/// QEMU's end of a socket.
pub struct Inside {
    end: OwnedFd,
    port: Port,
}

impl Inside {
    /// A socket for this port: our end and QEMU's.
    pub(crate) fn pair(port: Port) -> Result<(UnixStream, Self)> {
        let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
        Ok((ours, Self { end: theirs.into(), port }))
    }

    /// QEMU's arguments, valid for a process that inherits this end.
    pub(crate) fn arguments(&self) -> Result<Vec<OsString>> {
        fcntl_setfd(&self.end, FdFlags::empty()).context("cannot let QEMU inherit a socket")?;
        let fd = self.end.as_raw_fd();
        let words = match self.port {
            // QEMU finds the test port by this name only.
            Port::Test => format!("-chardev socket,id=qtest,fd={fd} -qtest chardev:qtest -qtest-log none"),
            Port::Monitor => format!("-chardev socket,id=monitor,fd={fd} -mon chardev=monitor,mode=control"),
        };
        Ok(words.split(' ').map(OsString::from).collect())
    }

    /// The end itself, for a test that answers in QEMU's place.
    #[cfg(test)]
    pub(crate) fn into_stream(self) -> UnixStream {
        self.end.into()
    }
}
