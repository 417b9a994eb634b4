//! A client, from its first message to its last: the loop, requests that need no device, and the device's calls.
//!
//! The loop advances the device, executes deferred requests, and then waits for a message, the device's next event or
//! the request to stop. Only this module calls the device, which sees the session as its [`Host`](crate::Host)
//! (`host`).

use crate::clock::Clock;
use crate::connection::{Connection, Message, Timeouts};
use crate::deferred::{Deferred, Pending};
use crate::device::{BARS, Device, Host, Shape};
use crate::error::{ClientEnd, ClientError, VersionError};
use crate::interrupts::Interrupts;
use crate::memory::Memory;
use crate::message::{
    DeviceInfo, Header, IrqInfo, RegionInfo, command, device_flag, irq_index, irq_info_flag, region_flag, region_index,
};
use crate::request::{DeviceRequest, Region, Request, Write};
use crate::snapshot::Snapshot;
use crate::stop::Stop;
use crate::version::{Agreed, negotiate};
use core::convert::Infallible;
use rustix::io::Errno;
use std::os::unix::net::UnixStream;
use std::time::Duration;
use zerocopy::IntoBytes;

/// The default slack of Linux's timers, by which a sleep may be too long. A sleep ends so much before the device's next
/// event, and the rest of the time is polled.
const SPIN: Duration = Duration::from_micros(50);
/// Deferred requests that are executed between two checks of the request to stop.
const BATCH: usize = 64;

/// A client and what the server knows of it.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) connection: Connection,
    pub(crate) timeouts: Timeouts,
    pub(crate) agreed: Agreed,
    shape: Shape,
    clock: Clock,
    pub(crate) memory: Memory,
    pub(crate) interrupts: Interrupts,
    /// Requests for the device that arrived while it was in a call.
    pub(crate) deferred: Deferred,
    /// Registers that a client may read during the current call.
    pub(crate) snapshot: Snapshot,
    /// A reset is waiting for the device's call to return, or is being done: no DMA and no interrupts.
    pub(crate) is_resetting: bool,
    /// The session's end, if it came during a call of the device.
    pub(crate) ended: Option<ClientEnd>,
    /// Of the last DMA message.
    pub(crate) last_id: u16,
    /// Ids of DMA messages that nothing waits for any more.
    pub(crate) abandoned: Vec<u16>,
}

impl Session {
    /// Serves a client until it leaves or the server is stopped.
    pub(crate) fn run(
        stream: UnixStream,
        device: &mut dyn Device,
        stop: &Stop,
        clock: Clock,
        timeouts: Timeouts,
    ) -> ClientEnd {
        let greeted = greet(Connection::new(stream, stop.clone(), timeouts.message));
        let served = greeted.and_then(|(connection, agreed)| {
            let shape = device.shape();
            let mut session = Self {
                connection,
                timeouts,
                agreed,
                shape,
                clock,
                memory: Memory::default(),
                interrupts: Interrupts::new(&shape),
                deferred: Deferred::default(),
                snapshot: Snapshot::default(),
                is_resetting: false,
                ended: None,
                last_id: 0,
                abandoned: Vec::new(),
            };
            session.serve(device)
        });
        match served {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    fn serve(&mut self, device: &mut dyn Device) -> Result<Infallible, ClientEnd> {
        loop {
            if device.next_event_ns().is_some_and(|at| at <= self.clock.now_ns()) {
                self.call(device, |device, now_ns, host| device.advance(now_ns, host))?;
            }
            for _ in 0..BATCH {
                let Some(pending) = self.deferred.pop() else { break };
                self.execute(device, pending)?;
            }
            if !self.deferred.is_empty() {
                self.connection.check_stop()?;
                continue;
            }
            if let Some(message) = self.connection.next(self.sleep(device))?
                && let Some((header, request)) = self.sort(message)?
            {
                self.execute(device, Pending { header, is_answered: false, request })?;
            }
        }
    }

    /// Time to sleep for a message at most; `None` has no end.
    fn sleep(&self, device: &dyn Device) -> Option<Duration> {
        let at = device.next_event_ns()?;
        Some(Duration::from_nanos(at.saturating_sub(self.clock.now_ns())).saturating_sub(SPIN))
    }

    /// Calls the device. Before, copies its registers, for the client's reads during the call: only the client knows
    /// which addresses it has to be asked for.
    fn call(
        &mut self,
        device: &mut dyn Device,
        action: impl FnOnce(&mut dyn Device, u64, &mut dyn Host),
    ) -> Result<(), ClientEnd> {
        let now_ns = self.clock.now_ns();
        self.snapshot.clear();
        device.snapshot(now_ns, &mut self.snapshot);
        action(device, now_ns, self);
        self.ended.take().map_or(Ok(()), Err)
    }

    /// Carries out a request by the device, and answers it.
    fn execute(&mut self, device: &mut dyn Device, pending: Pending) -> Result<(), ClientEnd> {
        let Pending { header, is_answered, request } = pending;
        match request {
            DeviceRequest::Read(access) => {
                let mut bytes = vec![0; access.count];
                match access.region {
                    Region::Config => {
                        device.config_read(offset_in_config(access.offset), &mut bytes, self.clock.now_ns())
                    }
                    Region::Bar(bar) => device.bar_read(bar, access.offset, &mut bytes, self.clock.now_ns()),
                }
                self.reply(header, &[access.wire.as_bytes(), &bytes])
            }
            DeviceRequest::Write(write) => {
                self.write(device, &write)?;
                if is_answered { Ok(()) } else { self.reply(header, &[write.access.wire.as_bytes()]) }
            }
            DeviceRequest::WriteMany(writes) => {
                writes.iter().try_for_each(|write| self.write(device, write))?;
                if is_answered { Ok(()) } else { self.reply(header, &[(writes.len() as u64).as_bytes()]) }
            }
            DeviceRequest::Reset => {
                self.is_resetting = true;
                self.call(device, |device, now_ns, host| device.reset(now_ns, host))?;
                self.interrupts.device_was_reset();
                self.is_resetting = false;
                self.reply(header, &[])
            }
        }
    }

    fn write(&mut self, device: &mut dyn Device, write: &Write) -> Result<(), ClientEnd> {
        let Write { access, bytes } = write;
        self.call(device, |device, now_ns, host| match access.region {
            Region::Config => device.config_write(offset_in_config(access.offset), bytes, now_ns, host),
            Region::Bar(bar) => device.bar_write(bar, access.offset, bytes, now_ns, host),
        })
    }

    /// Checks a message. Carries out and answers a request that needs no device; returns one that does.
    pub(crate) fn sort(&mut self, message: Message) -> Result<Option<(Header, DeviceRequest)>, ClientEnd> {
        let header = message.header;
        if header.is_reply() {
            self.late_reply(&header)?;
            return Ok(None);
        }
        let request = match Request::check(message, &self.shape) {
            Ok(request) => request,
            Err(errno) => return self.refuse(header, errno).map(|()| None),
        };
        match request {
            Request::Device(request) => return Ok(Some((header, request))),
            Request::DeviceInfo => self.reply(header, &[self.device_info().as_bytes()])?,
            Request::RegionInfo { index } => self.reply(header, &[self.region_info(index).as_bytes()])?,
            Request::IrqInfo { index } => self.reply(header, &[self.irq_info(index).as_bytes()])?,
            Request::Map(map) => {
                let done = self.memory.map(map);
                self.finish(header, done, &[])?;
            }
            Request::Unmap { first, last, entry } => {
                let done = self.memory.unmap(first, last);
                self.finish(header, done, entry.as_bytes())?;
            }
            Request::SetIrqs(change) => {
                let done = self.interrupts.change(change);
                self.finish(header, done, &[])?;
            }
        }
        Ok(None)
    }

    fn device_info(&self) -> DeviceInfo {
        let reset = if self.shape.reset { device_flag::RESET } else { 0 };
        let flags = device_flag::PCI | reset;
        DeviceInfo { argsz: bytes_of::<DeviceInfo>(), flags, regions: region_index::COUNT, irq_types: irq_index::COUNT }
    }

    fn region_info(&self, index: u32) -> RegionInfo {
        let bytes = match index {
            region_index::CONFIG => u64::from(self.shape.config.bytes()),
            region_index::ROM | region_index::VGA => 0,
            bar => usize::try_from(bar).ok().and_then(|bar| self.shape.bar_bytes.get(bar)).copied().unwrap_or(0),
        };
        let flags = if bytes == 0 { 0 } else { region_flag::READ | region_flag::WRITE };
        RegionInfo { argsz: bytes_of::<RegionInfo>(), flags, index, cap_offset: 0, bytes, offset: 0 }
    }

    /// Vectors can be added one by one: without the flag NORESIZE, QEMU does not tear all of them down to add one.
    fn irq_info(&self, index: u32) -> IrqInfo {
        use irq_info_flag::{AUTOMASKED, EVENTFD, MASKABLE};
        let (flags, count) = match index {
            irq_index::PIN => (EVENTFD | MASKABLE | AUTOMASKED, u32::from(self.shape.pin)),
            irq_index::MSI => (EVENTFD, u32::from(self.shape.msi_vectors)),
            irq_index::MSIX => (EVENTFD, u32::from(self.shape.msix_vectors)),
            _ => (0, 0),
        };
        IrqInfo { argsz: bytes_of::<IrqInfo>(), flags, index, count }
    }

    fn finish(&mut self, header: Header, done: Result<(), Errno>, body: &[u8]) -> Result<(), ClientEnd> {
        match done {
            Ok(()) => self.reply(header, &[body]),
            Err(errno) => self.refuse(header, errno),
        }
    }

    /// Answers a command with an error, if its sender wants that.
    pub(crate) fn refuse(&mut self, header: Header, errno: Errno) -> Result<(), ClientEnd> {
        if !header.wants_reply() {
            return Ok(());
        }
        self.connection.send(&[header.refusal(errno.raw_os_error()).as_bytes()])
    }

    /// Answers a command, if its sender wants that. `body` is at most a transfer's size.
    pub(crate) fn reply(&mut self, header: Header, body: &[&[u8]]) -> Result<(), ClientEnd> {
        if !header.wants_reply() {
            return Ok(());
        }
        send_reply(&mut self.connection, header, body)
    }
}

/// Waits for the client's first message, which must be its version, and answers it.
fn greet(mut connection: Connection) -> Result<(Connection, Agreed), ClientEnd> {
    let message = loop {
        if let Some(message) = connection.next(None)? {
            break message;
        }
    };
    let Message { header, body, fds: _ } = message;
    if header.is_reply() || header.command != command::VERSION {
        return Err(ClientError::NotVersion(header.command).into());
    }
    match negotiate(&body) {
        Ok((agreed, answer)) => {
            send_reply(&mut connection, header, &[&answer])?;
            Ok((connection, agreed))
        }
        Err(error) => refuse_version(&mut connection, header, error),
    }
}

fn refuse_version(
    connection: &mut Connection,
    header: Header,
    error: VersionError,
) -> Result<(Connection, Agreed), ClientEnd> {
    connection.send(&[header.refusal(Errno::INVAL.raw_os_error()).as_bytes()])?;
    Err(ClientError::Version(error).into())
}

fn send_reply(connection: &mut Connection, header: Header, body: &[&[u8]]) -> Result<(), ClientEnd> {
    let body_bytes = body.iter().map(|part| part.len()).sum::<usize>();
    let reply = header.reply(u32::try_from(body_bytes).unwrap_or(u32::MAX));
    let mut parts = vec![reply.as_bytes()];
    parts.extend(body);
    connection.send(&parts)
}

/// An offset inside of configuration space, which has at most 4096 bytes.
fn offset_in_config(offset: u64) -> u16 {
    u16::try_from(offset).unwrap_or(u16::MAX)
}

#[expect(clippy::cast_possible_truncation, reason = "the fixed parts of messages have some tens of bytes")]
const fn bytes_of<T>() -> u32 {
    size_of::<T>() as u32
}

const _: () = assert!(BARS == region_index::ROM as usize);
