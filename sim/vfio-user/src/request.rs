//! The door: makes checked requests from a client's messages. Past it, each value is inside of what the shape says.
//!
//! A message that is refused here is answered with an error number and changes nothing. File descriptors that no
//! request uses are closed with their message.

use crate::connection::Message;
use crate::device::Shape;
use crate::message::{
    DeviceInfo, DmaMap, DmaUnmap, IrqInfo, IrqSet, RegionAccess, RegionInfo, SmallWrite, UNMAP_ALL, command, irq_index,
    irq_set_flag, map_flag, region_index,
};
use crate::version::MAX_TRANSFER;
use core::mem::size_of;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use zerocopy::FromBytes;

/// A checked request.
#[derive(Debug)]
pub(crate) enum Request {
    DeviceInfo,
    RegionInfo {
        index: u32,
    },
    IrqInfo {
        index: u32,
    },
    Map(Map),
    /// All regions inside of `first..=last`. The reply repeats the entry.
    Unmap {
        first: u64,
        last: u64,
        entry: DmaUnmap,
    },
    SetIrqs(IrqChange),
    /// Anything that only the device can carry out.
    Device(DeviceRequest),
}

/// A request to the device.
#[derive(Debug)]
pub(crate) enum DeviceRequest {
    Read(Access),
    Write(Write),
    WriteMany(Vec<Write>),
    Reset,
}

/// A region that a client may access. All others have no bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    Bar(u8),
    Config,
}

/// A part of a region, inside of it and not empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) region: Region,
    pub(crate) offset: u64,
    pub(crate) count: usize,
    /// As it came, for the reply.
    pub(crate) wire: RegionAccess,
}

/// A write to a part of a region; `bytes` are `access.count`.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) access: Access,
    pub(crate) bytes: Vec<u8>,
}

/// Memory for DMA: `first..=last` are addresses, and with a file the bytes at `file_offset` on, which do not overflow.
#[derive(Debug)]
pub(crate) struct Map {
    pub(crate) first: u64,
    pub(crate) last: u64,
    pub(crate) readable: bool,
    pub(crate) writeable: bool,
    pub(crate) file: Option<(OwnedFd, u64)>,
}

/// A type of interrupts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IrqType {
    Pin,
    Msi,
    Msix,
}

/// A change of interrupts `start..start + count`, which exist.
#[derive(Debug)]
pub(crate) struct IrqChange {
    pub(crate) kind: IrqType,
    pub(crate) start: usize,
    pub(crate) count: usize,
    pub(crate) action: IrqAction,
}

#[derive(Debug)]
pub(crate) enum IrqAction {
    /// Eventfds for all of the range, or none for any.
    SetEvents(Vec<OwnedFd>),
    /// All of the type lose their eventfds.
    Disable,
    /// Chosen members of the range are signalled, as the device does.
    Trigger(Chosen),
    /// Pins only.
    Mask(Chosen),
    /// Pins only.
    Unmask(Chosen),
}

/// Members of a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Chosen {
    All,
    /// A choice for each member.
    These(Vec<bool>),
}

impl Chosen {
    pub(crate) fn has(&self, member: usize) -> bool {
        match self {
            Self::All => true,
            Self::These(members) => members.get(member).copied().unwrap_or(false),
        }
    }
}

impl Request {
    /// Checks a command.
    ///
    /// # Errors
    ///
    /// The error number for the reply.
    pub(crate) fn check(message: Message, shape: &Shape) -> Result<Self, Errno> {
        let Message { header, body, fds } = message;
        match header.command {
            command::DMA_MAP => map(&body, fds).map(Self::Map),
            command::DMA_UNMAP => unmap(&body),
            command::DEVICE_GET_INFO => {
                let (info, _) = begin::<DeviceInfo>(&body)?;
                has_room::<DeviceInfo>(info.argsz)?;
                Ok(Self::DeviceInfo)
            }
            command::DEVICE_GET_REGION_INFO => {
                let (info, _) = begin::<RegionInfo>(&body)?;
                has_room::<RegionInfo>(info.argsz)?;
                if info.index >= region_index::COUNT {
                    Err(Errno::INVAL)
                } else {
                    Ok(Self::RegionInfo { index: info.index })
                }
            }
            command::DEVICE_GET_IRQ_INFO => {
                let (info, _) = begin::<IrqInfo>(&body)?;
                has_room::<IrqInfo>(info.argsz)?;
                if info.index >= irq_index::COUNT { Err(Errno::INVAL) } else { Ok(Self::IrqInfo { index: info.index }) }
            }
            command::DEVICE_SET_IRQS => irq_change(&body, fds, shape).map(Self::SetIrqs),
            command::REGION_READ => {
                let (wire, _) = begin::<RegionAccess>(&body)?;
                Ok(Self::Device(DeviceRequest::Read(access(wire, shape)?)))
            }
            command::REGION_WRITE => {
                let (wire, data) = begin::<RegionAccess>(&body)?;
                Ok(Self::Device(DeviceRequest::Write(write(wire, data, shape)?)))
            }
            command::REGION_WRITE_MULTI => {
                write_many(&body, shape).map(|writes| Self::Device(DeviceRequest::WriteMany(writes)))
            }
            command::DEVICE_RESET if shape.reset => Ok(Self::Device(DeviceRequest::Reset)),
            command::VERSION => Err(Errno::INVAL),
            command::DEVICE_RESET
            | command::DEVICE_GET_REGION_IO_FDS
            | command::DIRTY_PAGES
            | command::DEVICE_FEATURE
            | command::MIG_DATA_READ
            | command::MIG_DATA_WRITE => Err(Errno::NOTSUP),
            _ => Err(Errno::NOSYS),
        }
    }
}

/// The fixed part at the beginning of a body, and the rest.
fn begin<T: FromBytes>(body: &[u8]) -> Result<(T, &[u8]), Errno> {
    T::read_from_prefix(body).map_err(|_| Errno::INVAL)
}

/// Whether the client has room for the reply ("Message sizes").
fn has_room<T>(argsz: u32) -> Result<(), Errno> {
    let room = usize::try_from(argsz).unwrap_or(usize::MAX);
    if room < size_of::<T>() { Err(Errno::INVAL) } else { Ok(()) }
}

/// Whether `data` is exactly the data of `access`.
fn write(wire: RegionAccess, data: &[u8], shape: &Shape) -> Result<Write, Errno> {
    let access = access(wire, shape)?;
    if data.len() == access.count { Ok(Write { access, bytes: data.to_vec() }) } else { Err(Errno::INVAL) }
}

fn access(wire: RegionAccess, shape: &Shape) -> Result<Access, Errno> {
    let (region, bytes) = match wire.region {
        region_index::CONFIG => (Region::Config, u64::from(shape.config.bytes())),
        bar => {
            let bar = u8::try_from(bar).map_err(|_| Errno::INVAL)?;
            (Region::Bar(bar), *shape.bar_bytes.get(usize::from(bar)).ok_or(Errno::INVAL)?)
        }
    };
    let end = wire.offset.checked_add(u64::from(wire.count)).ok_or(Errno::INVAL)?;
    if wire.count == 0 || wire.count > MAX_TRANSFER || end > bytes {
        return Err(Errno::INVAL);
    }
    let count = usize::try_from(wire.count).map_err(|_| Errno::INVAL)?;
    Ok(Access { region, offset: wire.offset, count, wire })
}

/// All writes of the message are valid, or none is carried out.
fn write_many(body: &[u8], shape: &Shape) -> Result<Vec<Write>, Errno> {
    let (number, mut rest) = begin::<u64>(body)?;
    let expected = usize::try_from(number).ok().and_then(|number| number.checked_mul(size_of::<SmallWrite>()));
    if expected != Some(rest.len()) {
        return Err(Errno::INVAL);
    }
    let mut writes = Vec::new();
    while !rest.is_empty() {
        let (small, after) = begin::<SmallWrite>(rest)?;
        rest = after;
        let count = usize::try_from(small.access.count).map_err(|_| Errno::INVAL)?;
        writes.push(write(small.access, small.data.get(..count).ok_or(Errno::INVAL)?, shape)?);
    }
    Ok(writes)
}

fn map(body: &[u8], mut fds: Vec<OwnedFd>) -> Result<Map, Errno> {
    let (wire, _) = begin::<DmaMap>(body)?;
    if wire.flags & !(map_flag::READABLE | map_flag::WRITEABLE) != 0 || fds.len() > 1 {
        return Err(Errno::INVAL);
    }
    let length = wire.bytes.checked_sub(1).ok_or(Errno::INVAL)?;
    let last = wire.iova.checked_add(length).ok_or(Errno::INVAL)?;
    // Positions in a file are signed.
    let file_end = wire.file_offset.checked_add(wire.bytes).and_then(|end| i64::try_from(end).ok());
    if !fds.is_empty() && file_end.is_none() {
        return Err(Errno::INVAL);
    }
    Ok(Map {
        first: wire.iova,
        last,
        readable: wire.flags & map_flag::READABLE != 0,
        writeable: wire.flags & map_flag::WRITEABLE != 0,
        file: fds.pop().map(|fd| (fd, wire.file_offset)),
    })
}

fn unmap(body: &[u8]) -> Result<Request, Errno> {
    let (entry, _) = begin::<DmaUnmap>(body)?;
    let first = entry.iova;
    let last = match entry.flags {
        0 => entry.bytes.checked_sub(1).and_then(|length| first.checked_add(length)).ok_or(Errno::INVAL)?,
        UNMAP_ALL if first == 0 && entry.bytes == 0 => u64::MAX,
        _ => return Err(Errno::INVAL),
    };
    Ok(Request::Unmap { first, last, entry })
}

fn irq_change(body: &[u8], fds: Vec<OwnedFd>, shape: &Shape) -> Result<IrqChange, Errno> {
    let (wire, data) = begin::<IrqSet>(body)?;
    let (kind, existing) = match wire.index {
        irq_index::PIN => (IrqType::Pin, u32::from(shape.pin)),
        irq_index::MSI => (IrqType::Msi, u32::from(shape.msi_vectors)),
        irq_index::MSIX => (IrqType::Msix, u32::from(shape.msix_vectors)),
        _ => return Err(Errno::INVAL),
    };
    let end = wire.start.checked_add(wire.count).ok_or(Errno::INVAL)?;
    if end > existing {
        return Err(Errno::INVAL);
    }
    let start = usize::try_from(wire.start).map_err(|_| Errno::INVAL)?;
    let count = usize::try_from(wire.count).map_err(|_| Errno::INVAL)?;
    let action = irq_action(&wire, kind, count, data, fds)?;
    Ok(IrqChange { kind, start, count, action })
}

fn irq_action(wire: &IrqSet, kind: IrqType, count: usize, data: &[u8], fds: Vec<OwnedFd>) -> Result<IrqAction, Errno> {
    use irq_set_flag::{ACTION, ACTION_MASK, ACTION_TRIGGER, ACTION_UNMASK, DATA, DATA_BOOL, DATA_EVENTFD, DATA_NONE};
    if wire.flags & !(ACTION | DATA) != 0 {
        return Err(Errno::INVAL);
    }
    let action = wire.flags & ACTION;
    let chosen = match wire.flags & DATA {
        DATA_NONE if count == 0 => {
            return if action == ACTION_TRIGGER && wire.start == 0 {
                Ok(IrqAction::Disable)
            } else {
                Err(Errno::INVAL)
            };
        }
        _ if count == 0 => return Err(Errno::INVAL),
        DATA_EVENTFD if action == ACTION_TRIGGER => {
            let is_complete = fds.is_empty() || fds.len() == count;
            return if is_complete { Ok(IrqAction::SetEvents(fds)) } else { Err(Errno::INVAL) };
        }
        DATA_EVENTFD => return Err(Errno::NOTSUP),
        DATA_NONE => Chosen::All,
        DATA_BOOL => Chosen::These(data.get(..count).ok_or(Errno::INVAL)?.iter().map(|byte| *byte != 0).collect()),
        _ => return Err(Errno::INVAL),
    };
    match action {
        ACTION_TRIGGER => Ok(IrqAction::Trigger(chosen)),
        ACTION_MASK if kind == IrqType::Pin => Ok(IrqAction::Mask(chosen)),
        ACTION_UNMASK if kind == IrqType::Pin => Ok(IrqAction::Unmask(chosen)),
        _ => Err(Errno::INVAL),
    }
}
