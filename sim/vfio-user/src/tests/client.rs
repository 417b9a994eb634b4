//! A client of one thread that sends any message, right or wrong.

use crate::message::{
    DmaAccess, DmaMap, DmaUnmap, HEADER_BYTES, Header, IrqSet, RegionAccess, Version, command, flag, irq_set_flag,
};
use core::mem::MaybeUninit;
use rustix::io::{Errno, IoSlice};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use zerocopy::{FromBytes, IntoBytes};

/// Index of configuration space.
pub(super) const CONFIG: u32 = 7;

/// A client.
pub(super) struct Client {
    pub(super) stream: UnixStream,
    last_id: u16,
}

impl Client {
    /// Connects and says nothing.
    pub(super) fn connect(path: &Path) -> Self {
        let stream = UnixStream::connect(path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { stream, last_id: 0x4000 }
    }

    /// Connects and agrees on the version, with transfers of at most `transfer` bytes.
    pub(super) fn begin(path: &Path, transfer: u32) -> Self {
        let mut client = Self::connect(path);
        let mut body = Version { major: 0, minor: 0 }.as_bytes().to_vec();
        body.extend(format!(r#"{{"capabilities":{{"max_data_xfer_size":{transfer},"max_msg_fds":8}}}}"#).bytes());
        body.push(0);
        let reply = client.ask(command::VERSION, &body).expect("the version is agreed");
        let agreed: serde_json::Value = serde_json::from_slice(&reply[4..reply.len() - 1]).unwrap();
        let expected = serde_json::json!({ "max_data_xfer_size": transfer, "max_msg_fds": 16 });
        assert_eq!(agreed, serde_json::json!({ "capabilities": expected }));
        client
    }

    /// Sends a message.
    pub(super) fn send(&mut self, header: Header, body: &[u8], fds: &[BorrowedFd<'_>]) {
        self.try_send(&[header.as_bytes(), body].concat(), fds).unwrap();
    }

    /// Sends bytes with descriptors.
    pub(super) fn try_send(&mut self, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> std::io::Result<()> {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            assert!(ancillary.push(SendAncillaryMessage::ScmRights(fds)));
        }
        let sent = sendmsg(&self.stream, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
        self.stream.write_all(&bytes[sent..])
    }

    /// Sends a command and returns its header.
    pub(super) fn command(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> Header {
        self.last_id = self.last_id.wrapping_add(1);
        let header = Header::of_command(self.last_id, command, body.len() as u32);
        self.send(header, body, fds);
        header
    }

    /// Sends a command that wants no answer.
    pub(super) fn post(&mut self, command: u16, body: &[u8]) {
        self.last_id = self.last_id.wrapping_add(1);
        let header = Header::of_command(self.last_id, command, body.len() as u32);
        self.send(Header { flags: flag::NO_REPLY, ..header }, body, &[]);
    }

    /// The next message of the server.
    pub(super) fn receive(&mut self) -> (Header, Vec<u8>) {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).expect("the server says something");
        let header = Header::read_from_bytes(&header).unwrap();
        let mut body = vec![0; header.bytes as usize - HEADER_BYTES];
        self.stream.read_exact(&mut body).expect("the server says all of it");
        (header, body)
    }

    /// The next message, which must be the reply to this command: its body, or the error number.
    pub(super) fn reply_to(&mut self, asked: Header) -> Result<Vec<u8>, u32> {
        let (header, body) = self.receive();
        assert_eq!((header.id, header.command), (asked.id, asked.command));
        assert!(header.is_reply());
        if header.is_refusal() { Err(header.error) } else { Ok(body) }
    }

    pub(super) fn ask_with(&mut self, command: u16, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<Vec<u8>, u32> {
        let asked = self.command(command, body, fds);
        self.reply_to(asked)
    }

    pub(super) fn ask(&mut self, command: u16, body: &[u8]) -> Result<Vec<u8>, u32> {
        self.ask_with(command, body, &[])
    }

    /// The next message, which must be this DMA message of the server: its header and data.
    pub(super) fn dma_message(&mut self, command: u16, iova: u64, count: u64) -> (Header, Vec<u8>) {
        let (header, body) = self.receive();
        assert_eq!((header.command, header.flags), (command, flag::TYPE_COMMAND));
        let (access, data) = DmaAccess::read_from_prefix(&body).unwrap();
        assert_eq!(access, DmaAccess { iova, count });
        (header, data.to_vec())
    }

    /// Answers a DMA message.
    pub(super) fn answer_dma(&mut self, asked: Header, iova: u64, count: u64, data: &[u8]) {
        let body = [DmaAccess { iova, count }.as_bytes(), data].concat();
        self.send(asked.reply(body.len() as u32), &body, &[]);
    }

    /// Refuses a DMA message.
    pub(super) fn refuse_dma(&mut self, asked: Header) {
        self.send(asked.refusal(Errno::NODEV.raw_os_error()), &[], &[]);
    }

    pub(super) fn read(&mut self, region: u32, offset: u64, count: u32) -> Result<Vec<u8>, u32> {
        let access = RegionAccess { offset, region, count };
        let body = self.ask(command::REGION_READ, access.as_bytes())?;
        assert_eq!(&body[..16], access.as_bytes());
        Ok(body[16..].to_vec())
    }

    pub(super) fn write(&mut self, region: u32, offset: u64, data: &[u8]) -> Result<(), u32> {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        let body = self.ask(command::REGION_WRITE, &[access.as_bytes(), data].concat())?;
        assert_eq!(body, access.as_bytes());
        Ok(())
    }

    pub(super) fn post_write(&mut self, region: u32, offset: u64, data: &[u8]) {
        let access = RegionAccess { offset, region, count: data.len() as u32 };
        self.post(command::REGION_WRITE, &[access.as_bytes(), data].concat());
    }

    /// Reads a register of BAR 0.
    pub(super) fn register(&mut self, offset: u64) -> u32 {
        u32::from_le_bytes(self.read(0, offset, 4).unwrap().try_into().unwrap())
    }

    /// Writes a register of BAR 0.
    pub(super) fn set_register(&mut self, offset: u64, value: u32) {
        self.write(0, offset, &value.to_le_bytes()).unwrap();
    }

    pub(super) fn map(&mut self, map: DmaMap, file: Option<&OwnedFd>) -> Result<(), u32> {
        let fds: Vec<_> = file.into_iter().map(AsFd::as_fd).collect();
        self.ask_with(command::DMA_MAP, map.as_bytes(), &fds).map(|body| assert!(body.is_empty()))
    }

    pub(super) fn unmap(&mut self, flags: u32, iova: u64, bytes: u64) -> Result<(), u32> {
        let entry = DmaUnmap { argsz: 24, flags, iova, bytes };
        self.ask(command::DMA_UNMAP, entry.as_bytes()).map(|body| assert_eq!(body, entry.as_bytes()))
    }

    /// Hands over eventfds for vectors from `start` on; none takes one away.
    pub(super) fn set_events(&mut self, index: u32, start: u32, events: &[&OwnedFd]) -> Result<(), u32> {
        let flags = irq_set_flag::DATA_EVENTFD | irq_set_flag::ACTION_TRIGGER;
        let count = events.len().max(1) as u32;
        let fds: Vec<_> = events.iter().map(|event| event.as_fd()).collect();
        let set = IrqSet { argsz: 20, flags, index, start, count };
        self.ask_with(command::DEVICE_SET_IRQS, set.as_bytes(), &fds).map(|body| assert!(body.is_empty()))
    }

    pub(super) fn set_irqs(&mut self, flags: u32, index: u32, start: u32, count: u32) -> Result<(), u32> {
        let set = IrqSet { argsz: 20, flags, index, start, count };
        self.ask(command::DEVICE_SET_IRQS, set.as_bytes()).map(|body| assert!(body.is_empty()))
    }
}

/// A region that may be read and written.
pub(super) fn region(iova: u64, bytes: u64, file_offset: u64) -> DmaMap {
    DmaMap { argsz: 32, flags: 3, file_offset, iova, bytes }
}
