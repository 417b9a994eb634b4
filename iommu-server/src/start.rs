//! Brings the SMMU up from any earlier state (section 3.11).
//!
//! While CR0.SMMUEN is 0, GBPA decides about transactions, and lets them pass on many machines. So the SMMU is turned off
//! only where it confirms that it aborts instead. Where it cannot (QEMU before 8.0 has no GBPA) and it is live with the tables
//! of an earlier incarnation in this same pool, it is taken over without being turned off: the stream table becomes empty,
//! then everything cached is invalidated.

use crate::command_queue::{self, CommandQueue};
use crate::error::Error;
use crate::event_queue::{self, EventQueue};
use crate::pool::Pool;
use crate::registers::Registers;
use crate::stream_table::{STREAMS_LOG2, StreamTable};
use platform::{Memory, Mmio};
use smmu_spec::registers::{ALLOCATE, Cr0, Cr1, Cr2, Idr0, Idr1, Idr5, IrqCtrl, REGISTER_BYTES, Register, output_bits};

/// Settings of the caller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Register reads after which the SMMU counts as not answering. At least 1.
    pub polls: u32,
    /// The state of the devices behind the SMMU.
    pub devices: Devices,
}

/// The state of the devices behind the SMMU when it is started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Devices {
    /// No device can send anything: no function is bus master. The SMMU may be turned off for a moment.
    Quiet,
    /// Some may send. Where turning off a live SMMU would let transactions pass, starting is refused.
    MaySend,
}

/// An SMMU whose properties suffice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    /// CD.IPS.
    pub(crate) ips: u8,
    /// Bits of a physical address.
    pub(crate) output_bits: u32,
}

/// Output addresses have 48 bits at most with these tables.
const MAX_OAS: u8 = 5;

/// Cacheability write-back, inner shareable.
const ATTRIBUTES: Cr1 = Cr1::new()
    .with_queue_inner(1)
    .with_queue_outer(1)
    .with_queue_shareability(3)
    .with_table_inner(1)
    .with_table_outer(1)
    .with_table_shareability(3);

/// Checks that the SMMU has all features that the server needs.
pub(crate) fn identify<R: Mmio>(registers: &Registers<R>) -> Result<Identity, Error> {
    let idr0 = Idr0::from_bits(registers.read(Register::Idr0)?);
    let idr1 = Idr1::from_bits(registers.read(Register::Idr1)?);
    let idr5 = Idr5::from_bits(registers.read(Register::Idr5)?);
    let needs = [
        (idr0.stage1(), "stage 1"),
        (idr0.table_formats() & 0b10 != 0, "VMSAv8-64 tables"),
        (idr0.coherent(), "coherent table walks"),
        (idr0.endianness() == 0 || idr0.endianness() == 2, "little-endian tables"),
        (idr0.stall_model() == 0 || idr0.stall_model() == 1, "faults that terminate"),
        (idr0.stream_table_levels() == 1, "two-level stream tables"),
        (idr1.stream_bits() >= STREAMS_LOG2, "StreamIDs for 128 buses"),
        (idr1.cmdq_log2() >= command_queue::ENTRIES_LOG2, "a command queue of a page"),
        (idr1.eventq_log2() >= event_queue::ENTRIES_LOG2, "an event queue of a page"),
        (!idr1.queues_preset() && !idr1.tables_preset(), "tables and queues at addresses of our choice"),
        (idr5.granule_4k(), "the 4 KiB granule"),
    ];
    match needs.iter().find(|(offered, _)| !offered) {
        Some((_, lacking)) => Err(Error::Unsupported(lacking)),
        None => {
            let ips = idr5.oas().min(MAX_OAS);
            Ok(Identity { ips, output_bits: output_bits(ips) })
        }
    }
}

/// The SMMU before its queues are set up, with the bits of CR0 that are enabled already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prepared {
    pub(crate) cr0: Cr0,
}

/// Makes the SMMU ready for its queues: off and aborting, or on with an empty stream table, in both cases with its caches not
/// invalidated yet. Afterwards the SMMU uses nothing of the pool as valid.
pub(crate) fn prepare<R: Mmio, M: Memory>(
    registers: &Registers<R>,
    pool: &Pool<M>,
    devices: Devices,
) -> Result<Prepared, Error> {
    let on = Cr0::from_bits(registers.read(Register::Cr0)? | registers.read(Register::Cr0Ack)?).smmu();
    let guarded = registers.abort_while_off()?;
    let cr0 = if !on || guarded {
        Cr0::new()
    } else if is_ours(registers, pool)? {
        Cr0::new().with_smmu(true)
    } else if devices == Devices::Quiet {
        Cr0::new()
    } else {
        return Err(Error::Unguarded);
    };
    registers.enable_interrupts(IrqCtrl::new())?;
    registers.enable(cr0)?;
    pool.zero_all()?;
    if !cr0.smmu() {
        registers.write(Register::Cr1, ATTRIBUTES.into_bits())?;
        registers
            .write(Register::Cr2, Cr2::new().with_record_invalid_streams(true).with_private_tlb(true).into_bits())?;
        let (base, cfg) = StreamTable::base(pool)?;
        registers.write_wide(Register::StrtabBase, base)?;
        registers.write(Register::StrtabBaseCfg, cfg)?;
    }
    event_queue::acknowledge_all(registers)?;
    Ok(Prepared { cr0 })
}

/// Whether the registers name exactly the tables and queues that this pool would have. Allocation hints do not count.
fn is_ours<R: Mmio, M: Memory>(registers: &Registers<R>, pool: &Pool<M>) -> Result<bool, Error> {
    let (base, cfg) = StreamTable::base(pool)?;
    let same =
        |register, expected: u64| Ok::<bool, Error>((registers.read_wide(register)? ^ expected) & !ALLOCATE == 0);
    Ok(registers.read(Register::StrtabBaseCfg)? == cfg
        && same(Register::StrtabBase, base)?
        && same(Register::CmdqBase, CommandQueue::base(pool)?)?
        && same(Register::EventqBase, EventQueue::base(pool)?)?)
}

/// Enables wired interrupts for events and errors.
pub(crate) fn enable_interrupts<R: Mmio>(registers: &Registers<R>) -> Result<(), Error> {
    if Idr0::from_bits(registers.read(Register::Idr0)?).msi() {
        registers.write_wide(Register::GerrorIrqCfg0, 0)?;
        registers.write_wide(Register::EventqIrqCfg0, 0)?;
    }
    registers.enable_interrupts(IrqCtrl::new().with_gerror(true).with_eventq(true))
}

/// Whether all registers are mapped.
pub(crate) fn is_whole<R: Mmio>(mmio: &R) -> bool {
    mmio.len() >= REGISTER_BYTES
}
