//! The register file: accesses, and the times at which a driver may write each register (section 6.3).

use platform::PAGE_SIZE;
use smmu_spec::registers::{
    ALLOCATE, CmdqCons, Cr0, EventqIndex, FORMAT_TWO_LEVEL, Gbpa, Gerror, Idr0, Idr1, Idr5, IrqCtrl, QueueBase,
    Register, STRTAB_ADDRESS, StrtabBaseCfg,
};

use crate::faults::Profile;
use crate::smmu::{Handshake, PhysicalMemory, Smmu};
use crate::violation::Violation;

/// IDR5.OAS: 44 bits.
pub(crate) const OAS: u8 = 4;
const STREAM_BITS: u8 = 16;
const QUEUE_LOG2: u8 = 19;

const IDR0: Idr0 = Idr0::new()
    .with_stage1(true)
    .with_table_formats(0b10)
    .with_coherent(true)
    .with_asid16(true)
    .with_endianness(2)
    .with_stall_model(1)
    .with_always_aborts(true)
    .with_stream_table_levels(1);
const IDR1: Idr1 = Idr1::new().with_stream_bits(STREAM_BITS).with_eventq_log2(QUEUE_LOG2).with_cmdq_log2(QUEUE_LOG2);
const IDR5: Idr5 = Idr5::new().with_oas(OAS).with_granule_4k(true).with_granule_16k(true).with_granule_64k(true);

const CR0: Cr0 = Cr0::new().with_smmu(true).with_eventq(true).with_cmdq(true);
const IRQ_CTRL: IrqCtrl = IrqCtrl::new().with_gerror(true).with_eventq(true);
const GBPA: Gbpa = Gbpa::new().with_attributes(0xf_ffff).with_abort(true).with_update(true);
const CR1_MASK: u32 = 0xfff;
const CR2_MASK: u32 = 0x7;

impl Smmu {
    /// Reads a 32-bit register.
    pub fn read32(&mut self, memory: &mut dyn PhysicalMemory, offset: usize) -> u32 {
        let Some(register) = Register::at(offset).filter(|register| !register.is_wide()) else {
            self.violation(Violation::Access { offset });
            return 0;
        };
        match register {
            Register::Idr0 => IDR0.into_bits(),
            Register::Idr1 => IDR1.into_bits(),
            Register::Idr5 => IDR5.into_bits(),
            Register::Cr0 => self.state.cr0.value,
            Register::Cr0Ack => self.state.cr0.acknowledge(),
            Register::Cr1 => self.state.cr1,
            Register::Cr2 => self.state.cr2.into_bits(),
            Register::Gbpa => self.look_at_gbpa(),
            Register::IrqCtrl => self.state.irq_ctrl.value,
            Register::IrqCtrlAck => self.state.irq_ctrl.acknowledge(),
            Register::Gerror => self.state.gerror.into_bits(),
            Register::Gerrorn => self.state.gerrorn.into_bits(),
            Register::StrtabBaseCfg => self.state.strtab_cfg.into_bits(),
            Register::CmdqProd => self.state.cmdq_prod,
            Register::CmdqCons => {
                self.poll_commands(memory);
                self.state.cmdq_cons.into_bits()
            }
            Register::EventqProd => self.state.eventq_prod.into_bits(),
            Register::EventqCons => self.state.eventq_cons.into_bits(),
            _ => 0,
        }
    }

    /// Reads a 64-bit register.
    pub fn read64(&mut self, offset: usize) -> u64 {
        match Register::at(offset) {
            Some(Register::StrtabBase) => self.state.strtab_base,
            Some(Register::CmdqBase) => self.state.cmdq_base.into_bits(),
            Some(Register::EventqBase) => self.state.eventq_base.into_bits(),
            Some(Register::GerrorIrqCfg0 | Register::EventqIrqCfg0) => 0,
            _ => {
                self.violation(Violation::Access { offset });
                0
            }
        }
    }

    /// Writes a 32-bit register. A write that is a violation is lost.
    pub fn write32(&mut self, memory: &mut dyn PhysicalMemory, offset: usize, value: u32) {
        let Some(register) = Register::at(offset).filter(|register| !register.is_wide()) else {
            return self.violation(Violation::Access { offset });
        };
        if let Err(violation) = self.check32(register, value) {
            return self.violation(violation);
        }
        match register {
            Register::Cr0 => self.write_cr0(memory, value),
            Register::Cr1 => self.state.cr1 = value,
            Register::Cr2 => self.state.cr2 = value.into(),
            Register::Gbpa if self.config.profile == Profile::Standard => {
                self.state.gbpa = Gbpa::from_bits(value);
                self.state.gbpa_reads_left = self.delay();
            }
            Register::IrqCtrl => {
                let delay = self.delay();
                self.state.irq_ctrl.write(value, delay);
            }
            Register::Gerrorn => {
                self.state.gerrorn = Gerror::from_bits(value);
                self.consume(memory);
            }
            Register::StrtabBaseCfg => self.state.strtab_cfg = StrtabBaseCfg::from_bits(value),
            Register::CmdqProd => {
                self.state.cmdq_prod = value;
                self.state.cmdq_reads_left = self.delay();
                if self.state.cmdq_reads_left == 0 {
                    self.consume(memory);
                }
            }
            Register::CmdqCons => self.state.cmdq_cons = CmdqCons::from_bits(value),
            Register::EventqProd => self.state.eventq_prod = EventqIndex::from_bits(value),
            Register::EventqCons => self.state.eventq_cons = EventqIndex::from_bits(value),
            _ => {}
        }
    }

    /// Writes a 64-bit register, as [`Smmu::write32`].
    pub fn write64(&mut self, offset: usize, value: u64) {
        let Some(register) = Register::at(offset).filter(|register| register.is_wide()) else {
            return self.violation(Violation::Access { offset });
        };
        if let Err(violation) = self.check64(register, value) {
            return self.violation(violation);
        }
        match register {
            Register::StrtabBase => self.state.strtab_base = value,
            Register::CmdqBase => self.state.cmdq_base = QueueBase::from_bits(value),
            Register::EventqBase => self.state.eventq_base = QueueBase::from_bits(value),
            _ => {}
        }
    }

    fn check32(&self, register: Register, value: u32) -> Result<(), Violation> {
        let on = Cr0::from_bits(self.state.cr0.value | self.state.cr0.acknowledged);
        let while_off = |enabled: bool| if enabled { Err(Violation::WhileEnabled(register)) } else { Ok(()) };
        let only = |mask: u32| {
            if value & !mask == 0 { Ok(()) } else { Err(Violation::Reserved(register, value.into())) }
        };
        match register {
            Register::Cr0 => only(CR0.into_bits()).and_then(|()| self.state.cr0.check(register)),
            Register::IrqCtrl => only(IRQ_CTRL.into_bits()).and_then(|()| self.state.irq_ctrl.check(register)),
            Register::Cr1 => only(CR1_MASK).and_then(|()| while_off(on.into_bits() != 0)),
            Register::Cr2 => only(CR2_MASK).and_then(|()| while_off(on.smmu())),
            Register::Gbpa if !Gbpa::from_bits(value).update() => Err(Violation::Reserved(register, value.into())),
            Register::Gbpa if self.state.gbpa.update() => Err(Violation::HandshakePending(register)),
            Register::Gbpa => only(GBPA.into_bits()),
            Register::Gerrorn => {
                let active = self.state.gerror.into_bits() ^ self.state.gerrorn.into_bits();
                let toggled = value ^ self.state.gerrorn.into_bits();
                if toggled & !active == 0 { Ok(()) } else { Err(Violation::NotActive(toggled & !active)) }
            }
            Register::StrtabBaseCfg => only(0x3_07ff).and_then(|()| while_off(on.smmu())),
            Register::CmdqCons => while_off(on.cmdq()),
            Register::CmdqProd => {
                let entries = 1 << self.state.cmdq_base.entries_log2();
                let new = value.wrapping_sub(self.state.cmdq_prod) & self.cmdq_mask();
                let fits = !on.cmdq() || new + self.outstanding() <= entries;
                if fits && value & !self.cmdq_mask() == 0 {
                    Ok(())
                } else {
                    Err(Violation::QueueIndex(register, value))
                }
            }
            Register::EventqProd => while_off(on.eventq()),
            Register::EventqCons => {
                let (prod, old, new) = (self.state.eventq_prod, self.state.eventq_cons, EventqIndex::from_bits(value));
                let there = prod.index().wrapping_sub(old.index()) & self.eventq_mask();
                let taken = new.index().wrapping_sub(old.index()) & self.eventq_mask();
                let flag = new.overflow() == prod.overflow() || new.overflow() == old.overflow();
                let fits = taken <= there && flag && new.index() & !self.eventq_mask() == 0;
                if fits || !on.eventq() { Ok(()) } else { Err(Violation::QueueIndex(register, value)) }
            }
            _ => Err(Violation::ReadOnly(register)),
        }
    }

    fn check64(&self, register: Register, value: u64) -> Result<(), Violation> {
        let on = Cr0::from_bits(self.state.cr0.value | self.state.cr0.acknowledged);
        let interrupts = self.state.irq_ctrl.value | self.state.irq_ctrl.acknowledged;
        let (enabled, fits) = match register {
            Register::StrtabBase => (on.smmu(), value & !(STRTAB_ADDRESS | ALLOCATE) == 0),
            Register::CmdqBase => (on.cmdq(), fits(value, 4)),
            Register::EventqBase => (on.eventq(), fits(value, 5)),
            // Without message signalled interrupts these registers do not exist.
            _ => (interrupts != 0, value == 0),
        };
        match (enabled, fits) {
            (true, _) => Err(Violation::WhileEnabled(register)),
            (_, false) => Err(Violation::Reserved(register, value)),
            _ => Ok(()),
        }
    }

    fn write_cr0(&mut self, memory: &mut dyn PhysicalMemory, value: u32) {
        let (before, after) = (Cr0::from_bits(self.state.cr0.value), Cr0::from_bits(value));
        if after.smmu() && !before.smmu() {
            if self.caches.is_clean != (true, true) {
                self.violation(Violation::EnabledUninvalidated);
            }
            let cfg = self.state.strtab_cfg;
            let is_two_level = cfg.format() == FORMAT_TWO_LEVEL && matches!(cfg.split(), 6 | 8 | 10);
            let bytes = 8u64 << cfg.streams_log2().saturating_sub(cfg.split());
            let is_aligned = (self.state.strtab_base & STRTAB_ADDRESS).is_multiple_of(bytes.max(64));
            if !is_two_level || cfg.streams_log2() > STREAM_BITS || !is_aligned {
                self.violation(Violation::StreamTable);
            }
        }
        let delay = self.delay();
        self.state.cr0.write(value, delay);
        self.consume(memory);
    }

    fn look_at_gbpa(&mut self) -> u32 {
        if self.state.gbpa_reads_left == 0 {
            self.state.gbpa.set_update(false);
            self.state.aborts_while_off = self.state.gbpa.abort();
        } else {
            self.state.gbpa_reads_left -= 1;
        }
        self.state.gbpa.into_bits()
    }

    fn delay(&mut self) -> u32 {
        self.generator.below(self.faults.max_delay_reads.saturating_add(1))
    }
}

/// Whether a queue of entries of 2^`entry_log2` bytes may lie at this base.
fn fits(value: u64, entry_log2: u32) -> bool {
    let base = QueueBase::from_bits(value);
    let bytes = 1u64 << (u32::from(base.entries_log2()) + entry_log2);
    base == QueueBase::at(base.address(), base.entries_log2()).with_allocate(base.allocate())
        && base.entries_log2() <= QUEUE_LOG2
        && base.address().is_multiple_of(bytes.max(32))
        && bytes >= PAGE_SIZE as u64
}

impl Handshake {
    fn check(&self, register: Register) -> Result<(), Violation> {
        if self.value == self.acknowledged { Ok(()) } else { Err(Violation::HandshakePending(register)) }
    }

    fn write(&mut self, value: u32, delay: u32) {
        self.value = value;
        self.reads_left = delay;
        if delay == 0 {
            self.acknowledged = value;
        }
    }

    fn acknowledge(&mut self) -> u32 {
        if self.reads_left == 0 {
            self.acknowledged = self.value;
        } else {
            self.reads_left -= 1;
        }
        self.acknowledged
    }
}
