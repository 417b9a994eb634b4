//! The client's machine for the device: DMA by file and by message, interrupts; and the client's requests that arrive
//! while a DMA message waits for its reply.
//!
//! The device is in the middle of a call then and cannot carry out a request. QEMU must have its answers all the same.
//! Its thread "VFIO user" receives our message and leaves it to a bottom half of the main loop, which needs QEMU's big
//! lock. A virtual processor that accesses the device holds that lock until the server has replied: to a read, to a
//! write of configuration space, and to the changes of eventfds, masks and maps that these accesses or those to an
//! IOMMU cause. The main loop holds it while it resets the machine. Without an answer both sides wait until QEMU's
//! timeout (property `x-msg-timeout`, five seconds), and QEMU loses the connection when the answer comes still later.
//! Each request that arrives during a DMA is therefore answered at once:
//!
//! - Requests that need no device are carried out: maps, unmaps, eventfds, masks, information. An unmap may race with
//!   the DMA, as on a machine; the rest of the DMA does not find the region any more.
//! - A read is answered from the [`Snapshot`](crate::Snapshot) that was taken before the call, as if the device had not
//!   begun with the DMA yet. A write that came before shows in those bits that read back as written. The device
//!   executes that write before any newer request, so effects keep their order.
//! - A read outside of the snapshot is refused: `EAGAIN`. QEMU's guest then reads ones.
//! - A write is acknowledged and deferred. QEMU does not wait for writes of BARs anyway (flag *No_reply*).
//! - A reset ends the DMA: [`Blocked::Gone`], also for everything that the device tries before its call returns. Then
//!   the reset is done and answered. The late reply to the DMA message is dropped. QEMU may still carry that message
//!   out, as a write that was posted before the reset.
//!
//! The wait is bounded by [`Timeouts`](crate::Timeouts), and the deferred requests by their number and size.

use crate::connection::Message;
use crate::deferred::Pending;
use crate::device::{Blocked, Host, Level};
use crate::error::{ClientEnd, ClientError};
use crate::memory::Step;
use crate::message::{DmaAccess, HEADER_BYTES, Header, command};
use crate::request::DeviceRequest;
use crate::session::Session;
use rustix::io::Errno;
use std::time::Instant;
use zerocopy::{FromBytes, IntoBytes};

/// Most bytes of one DMA message. A reply must fit into the socket's buffer (208 KiB on Linux): of a longer one, QEMU 11.1 sends
/// the first part, and then other messages before the rest.
const MAX_DMA: usize = 64 << 10;

/// Replies that may still come to DMA messages that a reset ended.
const MAX_ABANDONED: usize = 256;

/// The reason why a DMA message had no result.
enum Failure {
    Blocked(Blocked),
    Ended(ClientEnd),
}

impl<E: Into<ClientEnd>> From<E> for Failure {
    fn from(end: E) -> Self {
        Self::Ended(end.into())
    }
}

impl Host for Session {
    fn dma_read(&mut self, mut iova: u64, mut bytes: &mut [u8]) -> Result<(), Blocked> {
        while !bytes.is_empty() {
            self.may_do_dma()?;
            let moved = match self.memory.read(iova, bytes)? {
                Step::Done(moved) => moved,
                Step::Ask(wanted) => {
                    let moved = wanted.min(self.largest_transfer());
                    let place = bytes.get_mut(..moved).ok_or(Blocked::Refused)?;
                    let data = self.exchange(command::DMA_READ, iova, moved, &[])?;
                    place.copy_from_slice(data.get(..moved).ok_or(Blocked::Refused)?);
                    moved
                }
            };
            bytes = bytes.get_mut(moved..).unwrap_or_default();
            iova = iova.wrapping_add(moved as u64);
        }
        Ok(())
    }

    fn dma_write(&mut self, mut iova: u64, mut bytes: &[u8]) -> Result<(), Blocked> {
        while !bytes.is_empty() {
            self.may_do_dma()?;
            let moved = match self.memory.write(iova, bytes)? {
                Step::Done(moved) => moved,
                Step::Ask(wanted) => {
                    let data = bytes.get(..wanted.min(self.largest_transfer())).ok_or(Blocked::Refused)?;
                    self.exchange(command::DMA_WRITE, iova, data.len(), data)?;
                    data.len()
                }
            };
            bytes = bytes.get(moved..).unwrap_or_default();
            iova = iova.wrapping_add(moved as u64);
        }
        Ok(())
    }

    fn interrupt(&mut self, vector: u16) {
        if !self.is_resetting {
            self.interrupts.signal(vector);
        }
    }

    fn pin(&mut self, level: Level) {
        if !self.is_resetting {
            self.interrupts.set_pin(level);
        }
    }
}

impl Session {
    /// Whether the device may still reach the client's memory.
    fn may_do_dma(&self) -> Result<(), Blocked> {
        if self.is_resetting || self.ended.is_some() { Err(Blocked::Gone) } else { Ok(()) }
    }

    fn largest_transfer(&self) -> usize {
        usize::try_from(self.agreed.transfer).unwrap_or(usize::MAX).min(MAX_DMA)
    }

    /// Has the client do one DMA of `count` bytes, which one message can carry. Returns the data of the reply.
    fn exchange(&mut self, command: u16, iova: u64, count: usize, data: &[u8]) -> Result<Vec<u8>, Blocked> {
        self.try_exchange(command, iova, count, data).map_err(|failure| match failure {
            Failure::Blocked(blocked) => blocked,
            Failure::Ended(end) => {
                // The device's call goes on without memory; the session ends when it returns.
                self.ended = Some(end);
                Blocked::Gone
            }
        })
    }

    fn try_exchange(&mut self, command: u16, iova: u64, count: usize, data: &[u8]) -> Result<Vec<u8>, Failure> {
        let asked = DmaAccess { iova, count: count as u64 };
        let body_bytes = size_of::<DmaAccess>().saturating_add(data.len());
        let id = self.next_id();
        let header = Header::of_command(id, command, u32::try_from(body_bytes).unwrap_or(u32::MAX));
        self.connection.send(&[header.as_bytes(), asked.as_bytes(), data])?;
        let began = Instant::now();
        loop {
            let left = self.timeouts.dma.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(ClientError::NoDmaReply(self.timeouts.dma).into());
            }
            let Some(message) = self.connection.next(Some(left))? else { continue };
            let is_ours = message.header.is_reply() && message.header.id == id;
            if is_ours && message.header.command == command {
                return check_reply(message, asked);
            }
            self.meanwhile(message)?;
            if self.is_resetting {
                self.abandon(id)?;
                return Err(Failure::Blocked(Blocked::Gone));
            }
        }
    }

    /// A message that arrived while the device could not be called.
    fn meanwhile(&mut self, message: Message) -> Result<(), ClientEnd> {
        let Some((header, request)) = self.sort(message)? else { return Ok(()) };
        let mut is_answered = false;
        match &request {
            DeviceRequest::Read(access) => {
                let mut bytes = vec![0; access.count];
                return match self.snapshot.read(access.region, access.offset, &mut bytes) {
                    Some(()) => self.reply(header, &[access.wire.as_bytes(), &bytes]),
                    None => self.refuse(header, Errno::AGAIN),
                };
            }
            DeviceRequest::Write(write) => {
                self.snapshot.write(write.access.region, write.access.offset, &write.bytes);
                self.reply(header, &[write.access.wire.as_bytes()])?;
                is_answered = true;
            }
            DeviceRequest::WriteMany(writes) => {
                for write in writes {
                    self.snapshot.write(write.access.region, write.access.offset, &write.bytes);
                }
                self.reply(header, &[(writes.len() as u64).as_bytes()])?;
                is_answered = true;
            }
            DeviceRequest::Reset => self.is_resetting = true,
        }
        Ok(self.deferred.push(Pending { header, is_answered, request })?)
    }

    /// An id that no reply is still expected for.
    fn next_id(&mut self) -> u16 {
        loop {
            self.last_id = self.last_id.wrapping_add(1);
            if !self.abandoned.contains(&self.last_id) {
                return self.last_id;
            }
        }
    }

    fn abandon(&mut self, id: u16) -> Result<(), ClientError> {
        if self.abandoned.len() >= MAX_ABANDONED {
            return Err(ClientError::Flooded);
        }
        self.abandoned.push(id);
        Ok(())
    }

    /// A reply that the current DMA did not ask for: one that a reset left behind, or an error.
    pub(crate) fn late_reply(&mut self, header: &Header) -> Result<(), ClientError> {
        let place = self.abandoned.iter().position(|id| *id == header.id);
        let place = place.ok_or(ClientError::UnexpectedReply { id: header.id, command: header.command })?;
        self.abandoned.swap_remove(place);
        Ok(())
    }
}

/// The data of a reply to `asked`. A reply to a write may lack address and count: QEMU sends its header alone.
fn check_reply(message: Message, asked: DmaAccess) -> Result<Vec<u8>, Failure> {
    let Message { header, body, .. } = message;
    if header.is_refusal() {
        return Err(Failure::Blocked(Blocked::Refused));
    }
    let wrong = ClientError::DmaReply { body_bytes: body.len() };
    if header.command == command::DMA_WRITE {
        return if body.len() <= HEADER_BYTES { Ok(Vec::new()) } else { Err(wrong.into()) };
    }
    match DmaAccess::read_from_prefix(&body) {
        Ok((done, data)) if done == asked && data.len() as u64 == asked.count => Ok(data.to_vec()),
        _ => Err(wrong.into()),
    }
}
