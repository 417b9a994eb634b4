//! What the controller's commands do.

use super::bus::Bus;
use super::controller::Controller;
use nvme_spec::admin::{Cns, CreateIoCq, CreateIoSq, Opcode};
use nvme_spec::feature::{ArbitrationWeights, Feature, NumberOfQueues};
use nvme_spec::identify;
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{IOCQES_16, IOSQES_64};
use nvme_spec::{Sqe, Status, StatusCode};
use std::ops::Range;
use zerocopy::{FromZeros, IntoBytes};

const PAGE: u64 = 4096;
const BLOCK: usize = 512;
/// The burst it recommends, as a power of two.
pub(crate) const RAB: u8 = 2;

/// How a command ends.
pub(super) struct Outcome {
    pub status: Status,
    pub dw0: u32,
}

impl From<StatusCode> for Outcome {
    fn from(code: StatusCode) -> Self {
        Self { status: Status::new(code), dw0: 0 }
    }
}

pub(super) fn administer(controller: &mut Controller, bus: &mut Bus, opcode: Opcode, sqe: &Sqe) -> Outcome {
    match opcode {
        Opcode::Identify => identify(controller, bus, sqe).into(),
        Opcode::SetFeatures if Feature::from_raw(sqe.cdw10 as u8) == Some(Feature::Arbitration) => {
            controller.weights = Some(ArbitrationWeights::from_bits(sqe.cdw11));
            StatusCode::Success.into()
        }
        Opcode::SetFeatures => {
            let pairs = || NumberOfQueues::pairs(controller.shape.queue_pairs).expect("queue pairs").into_bits();
            Outcome { status: Status::SUCCESS, dw0: controller.granted.unwrap_or_else(pairs) }
        }
        Opcode::CreateIoCq => controller.create_cq(bus, &CreateIoCq::from_sqe(sqe)).into(),
        Opcode::CreateIoSq => controller.create_sq(&CreateIoSq::from_sqe(sqe)).into(),
        Opcode::DeleteIoSq | Opcode::DeleteIoCq => controller.delete(bus, opcode, sqe).into(),
        Opcode::Abort => Outcome { status: Status::SUCCESS, dw0: controller.abort(bus, sqe) },
        other => {
            bus.complain(format!("admin command {other:?}"));
            StatusCode::InvalidOpcode.into()
        }
    }
}

fn identify(controller: &mut Controller, bus: &mut Bus, sqe: &Sqe) -> StatusCode {
    let Controller { shape, describe, .. } = controller;
    let mut write = |bytes: &mut [u8]| {
        describe.iter_mut().for_each(|describe| describe(sqe.cdw10 as u8, bytes));
        bus.store(sqe.prp1, bytes)
    };
    let written = match Cns::from_raw(sqe.cdw10 as u8) {
        Some(Cns::Controller) => {
            let mut about = identify::Controller::new_zeroed();
            about.mn = [b'm'; 40];
            about.sn = [b's'; 20];
            about.mdts = shape.mdts;
            about.rab = RAB;
            (about.sqes, about.cqes) = (IOSQES_64 * 17, IOCQES_16 * 17);
            let optional =
                identify::Oncs::new().with_write_zeroes(shape.optional).with_dataset_management(shape.optional);
            about.oncs.set(optional.into_bits());
            write(about.as_mut_bytes())
        }
        Some(Cns::ActiveNamespaces) => {
            let mut list = identify::NamespaceList::new_zeroed();
            list.nsids[0].set(1);
            write(list.as_mut_bytes())
        }
        Some(Cns::Namespace) => {
            let mut about = identify::Namespace::new_zeroed();
            about.nsze.set(shape.blocks);
            about.lbaf[0].set(identify::LbaFormat::new().with_lbads(9).into_bits());
            write(about.as_mut_bytes())
        }
        _ => return StatusCode::InvalidField,
    };
    if written.is_some() { StatusCode::Success } else { StatusCode::DataTransferError }
}

pub(super) fn perform(controller: &mut Controller, bus: &mut Bus, queue: u16, sqe: &Sqe) -> Status {
    Status::new(try_perform(controller, bus, queue, sqe).err().unwrap_or(StatusCode::Success))
}

fn try_perform(controller: &mut Controller, bus: &mut Bus, queue: u16, sqe: &Sqe) -> Result<(), StatusCode> {
    if sqe.nsid().0 != 1 {
        bus.complain("a command for another namespace");
        return Err(StatusCode::InvalidNamespaceOrFormat);
    }
    match nvm::Opcode::from_raw(sqe.opcode()) {
        Some(nvm::Opcode::Flush) => {}
        Some(opcode @ (nvm::Opcode::Read | nvm::Opcode::Write)) => transfer(controller, bus, queue, sqe, opcode)?,
        Some(nvm::Opcode::WriteZeroes) => {
            let bytes = blocks(controller, bus, queue, sqe)?;
            controller.disk[bytes].fill(0);
        }
        Some(nvm::Opcode::DatasetManagement) => {
            let range: nvm::Range = bus.read(sqe.prp1).ok_or(StatusCode::DataTransferError)?;
            let bytes = range_of(controller, bus, queue, range.start..range.start + u64::from(range.blocks))?;
            controller.disk[bytes].fill(0xdd);
        }
        _ => {
            bus.complain(format!("I/O command {:#x}", sqe.opcode()));
            return Err(StatusCode::InvalidOpcode);
        }
    }
    Ok(())
}

/// The bytes of the disk a command names.
fn blocks(controller: &mut Controller, bus: &mut Bus, queue: u16, sqe: &Sqe) -> Result<Range<usize>, StatusCode> {
    let named = Blocks::from_sqe(sqe).ok_or(StatusCode::LbaOutOfRange)?;
    range_of(controller, bus, queue, named.start().0..named.start().0 + u64::from(named.count()))
}

fn range_of(
    controller: &mut Controller,
    bus: &mut Bus,
    queue: u16,
    blocks: Range<u64>,
) -> Result<Range<usize>, StatusCode> {
    if blocks.end > controller.shape.blocks {
        bus.complain(format!("blocks {blocks:?} of {}", controller.shape.blocks));
        return Err(StatusCode::LbaOutOfRange);
    }
    controller.named.push((queue, blocks.clone()));
    if controller.bad_block.is_some_and(|bad| blocks.contains(&bad)) {
        return Err(StatusCode::UnrecoveredRead);
    }
    Ok(blocks.start as usize * BLOCK..blocks.end as usize * BLOCK)
}

fn transfer(
    controller: &mut Controller,
    bus: &mut Bus,
    queue: u16,
    sqe: &Sqe,
    opcode: nvm::Opcode,
) -> Result<(), StatusCode> {
    let bytes = blocks(controller, bus, queue, sqe)?;
    if controller.shape.mdts > 0 && bytes.len() > 4096 << controller.shape.mdts {
        bus.complain(format!("a transfer of {} bytes exceeds MDTS", bytes.len()));
        return Err(StatusCode::InvalidField);
    }
    let mut at = bytes.start;
    for (iova, len) in pages(bus, sqe, bytes.len() as u64).ok_or(StatusCode::DataTransferError)? {
        controller.moved.push((queue, iova, len));
        let part = &mut controller.disk[at..at + len];
        let done = if opcode == nvm::Opcode::Read { bus.store(iova, part) } else { bus.fetch(iova, part) };
        done.ok_or(StatusCode::DataTransferError)?;
        at += len;
    }
    Ok(())
}

/// The pieces of memory that PRP1 and PRP2 name for `bytes` (section 4.3).
fn pages(bus: &mut Bus, sqe: &Sqe, bytes: u64) -> Option<Vec<(u64, usize)>> {
    if !sqe.prp1.is_multiple_of(4) {
        bus.complain("PRP1 is not a multiple of 4");
    }
    let first = bytes.min(PAGE - sqe.prp1 % PAGE);
    let mut pieces = vec![(sqe.prp1, first as usize)];
    let mut left = bytes - first;
    let mut list = sqe.prp2;
    let listed = left > PAGE;
    while left > 0 {
        let mut page: u64 = if listed { bus.read(list)? } else { list };
        if listed && list % PAGE == PAGE - 8 && left > PAGE {
            list = page;
            page = bus.read(list)?;
        }
        list += 8;
        if !page.is_multiple_of(PAGE) {
            bus.complain("a PRP entry with an offset");
        }
        let piece = left.min(PAGE);
        pieces.push((page, piece as usize));
        left -= piece;
    }
    Some(pieces)
}
