//! Accesses to the registers of BAR0, and their effects on the controller's state (section 3.1).
//!
//! 32-bit registers are accessed as such, 64-bit ones as a whole or in halves; everything else is a violation, reads as
//! zeroes and writes nothing. Doorbells are in [`crate::doorbell`].

use nvme_spec::registers::{
    Aqa, Arbitration, Cc, CommandSet, Crto, Csts, DOORBELL_BASE, NSSR_RESET, Register, ShutdownNotification,
    ShutdownStatus,
};
use sim_fault::ControllerEffect;

use crate::controller::Controller;
use crate::fault::is_absence;
use crate::host::{AccessSize, Host};
use crate::record::Event;
use crate::violation::ViolationKind;

const CAP: u64 = Register::Cap as u64;
const CAP_HIGH: u64 = CAP + 4;
const VS: u64 = Register::Vs as u64;
const INTMS: u64 = Register::Intms as u64;
const INTMC: u64 = Register::Intmc as u64;
const CC: u64 = Register::Cc as u64;
const CSTS: u64 = Register::Csts as u64;
const NSSR: u64 = Register::Nssr as u64;
const AQA: u64 = Register::Aqa as u64;
const ASQ: u64 = Register::Asq as u64;
const ASQ_HIGH: u64 = ASQ + 4;
const ACQ: u64 = Register::Acq as u64;
const ACQ_HIGH: u64 = ACQ + 4;
const CRTO: u64 = Register::Crto as u64;
const DOORBELLS: u64 = DOORBELL_BASE as u64;

/// Bits of CC the standard reserves.
const CC_RESERVED: u32 = 0xff00_000e;

/// Bits of AQA the standard reserves.
const AQA_RESERVED: u32 = 0xf000_f000;

/// Bits of CSTS that can be cleared by writing ones: NSSRO.
const CSTS_CLEARED_BY_ONES: u32 = 1 << 4;

impl Controller {
    /// Reads a register as it was at the last [`advance`](Self::advance). Reserved and misaligned places and doorbells
    /// read as zeroes.
    pub fn read(&mut self, offset: u64, size: AccessSize) -> u64 {
        self.with_shared(|controller| controller.read_now(offset, size))
    }

    fn read_now(&mut self, offset: u64, size: AccessSize) -> u64 {
        if !self.registers.is_present() {
            self.faults.met(is_absence);
            return size.truncate(u64::MAX);
        }
        if offset >= DOORBELLS {
            self.violation(ViolationKind::DoorbellRead { offset });
            return 0;
        }
        match (size, is_wide(offset)) {
            (AccessSize::Eight, true) => self.read_half(offset) | self.read_half(offset + 4) << 32,
            (AccessSize::Four, _) if offset.is_multiple_of(4) => self.read_half(offset),
            _ => {
                self.violation(ViolationKind::AccessSize { offset, bytes: size.bytes() as u8 });
                0
            }
        }
    }

    /// Appends the registers below the doorbells to `bytes`, as reads return them, and without the effects of reads.
    pub fn copy_registers(&self, bytes: &mut Vec<u8>) {
        let is_present = self.registers.is_present();
        for offset in (0..=ACQ_HIGH).step_by(4) {
            let value = if is_present { self.read_half(offset) as u32 } else { u32::MAX };
            bytes.extend(value.to_le_bytes());
        }
    }

    fn read_half(&self, offset: u64) -> u64 {
        let registers = &self.registers;
        if registers.offline {
            return if offset == CSTS { Csts::new().with_cfs(true).into_bits().into() } else { 0 };
        }
        let value = match offset {
            CAP => registers.cap.into_bits() as u32,
            CAP_HIGH => (registers.cap.into_bits() >> 32) as u32,
            VS => registers.capabilities.version.into_bits(),
            INTMS | INTMC => self.interrupts.mask(),
            CC => registers.cc.into_bits(),
            CSTS => registers.csts.into_bits(),
            AQA => registers.aqa.into_bits(),
            ASQ => registers.asq as u32,
            ASQ_HIGH => (registers.asq >> 32) as u32,
            ACQ => registers.acq as u32,
            ACQ_HIGH => (registers.acq >> 32) as u32,
            CRTO => registers.capabilities.ready_500ms.map_or(0, |units| Crto::new().with_crwmt(units).into_bits()),
            _ => 0,
        };
        u64::from(value)
    }

    /// Writes a register or rings a doorbell at `now_ns`, after everything that was due by then.
    pub fn write(&mut self, offset: u64, size: AccessSize, value: u64, now_ns: u64, host: &mut dyn Host) {
        self.with_shared(|controller| {
            controller.advance_now(now_ns, host);
            if !controller.registers.is_present() {
                controller.faults.met(is_absence);
            } else if !controller.registers.offline {
                controller.write_present(offset, size, size.truncate(value), host);
                controller.look_ahead();
            }
        });
    }

    fn write_present(&mut self, offset: u64, size: AccessSize, value: u64, host: &mut dyn Host) {
        match (size, is_wide(offset)) {
            (AccessSize::Four, _) if offset.is_multiple_of(4) && offset >= DOORBELLS => {
                self.ring(offset, value as u32, host);
            }
            (AccessSize::Four, _) if offset.is_multiple_of(4) => self.write_half(offset, value as u32, host),
            (AccessSize::Eight, true) => {
                self.write_half(offset, value as u32, host);
                self.write_half(offset + 4, (value >> 32) as u32, host);
            }
            _ => self.violation(ViolationKind::AccessSize { offset, bytes: size.bytes() as u8 }),
        }
    }

    fn write_half(&mut self, offset: u64, value: u32, host: &mut dyn Host) {
        match offset {
            CAP | CAP_HIGH | VS | CRTO => self.violation(ViolationKind::ReadOnlyRegister { offset }),
            INTMS => self.interrupts.set_mask(value, host),
            INTMC => self.interrupts.clear_mask(value, host),
            CC => self.write_cc(value, host),
            CSTS => self.write_csts(value),
            NSSR => self.write_nssr(value, host),
            AQA | ASQ | ASQ_HIGH | ACQ | ACQ_HIGH => self.write_admin_queue(offset, value),
            _ => self.violation(ViolationKind::ReservedRegister { offset }),
        }
    }

    fn write_csts(&mut self, value: u32) {
        if value & !CSTS_CLEARED_BY_ONES != 0 {
            self.violation(ViolationKind::ReadOnlyRegister { offset: CSTS });
        }
        if value & CSTS_CLEARED_BY_ONES != 0 {
            self.registers.csts.set_nssro(false);
            self.registers.unnoticed = false;
        }
    }

    fn write_nssr(&mut self, value: u32, host: &mut dyn Host) {
        if value != NSSR_RESET || !self.registers.cap.nssrs() {
            return self.violation(ViolationKind::SubsystemReset { value });
        }
        self.activate_resources();
        self.stop();
        self.interrupts.update_pin(host);
        self.registers.reset_unnoticed();
        self.journal.event(Event::Reset);
        self.registers.csts.set_nssro(true);
    }

    fn write_admin_queue(&mut self, offset: u64, value: u32) {
        if self.registers.cc.en() {
            return self.violation(ViolationKind::ChangedWhileEnabled { offset });
        }
        let reserved = match offset {
            AQA => AQA_RESERVED,
            ASQ | ACQ => 0xfff,
            _ => 0,
        };
        if value & reserved != 0 {
            self.violation(ViolationKind::ReservedBits { offset, value: u64::from(value) });
        }
        let value = value & !reserved;
        let registers = &mut self.registers;
        match offset {
            AQA => registers.aqa = Aqa::from_bits(value),
            ASQ => registers.asq = with_low(registers.asq, value),
            ASQ_HIGH => registers.asq = with_high(registers.asq, value),
            ACQ => registers.acq = with_low(registers.acq, value),
            _ => registers.acq = with_high(registers.acq, value),
        }
    }

    fn write_cc(&mut self, value: u32, host: &mut dyn Host) {
        if value & CC_RESERVED != 0 || Cc::from_bits(value).shn() == ShutdownNotification::Reserved {
            self.violation(ViolationKind::ReservedBits { offset: CC, value: u64::from(value) });
        }
        let old = self.registers.cc;
        let new = Cc::from_bits(value & !CC_RESERVED);
        self.registers.unnoticed &= new.en();
        let changeable = |cc: Cc| cc.with_en(false).with_shn(ShutdownNotification::None);
        if old.en() && new.en() && changeable(old) != changeable(new) {
            self.violation(ViolationKind::ChangedWhileEnabled { offset: CC });
            self.registers.cc = changeable(old).with_en(true).with_shn(new.shn());
        } else {
            self.registers.cc = new;
        }
        match (old.en(), new.en()) {
            (false, true) => self.enable(),
            (true, false) => self.disable(host),
            _ => {}
        }
        if new.shn() != old.shn() && new.en() == old.en() {
            self.shut_down(new.shn());
        }
    }

    fn enable(&mut self) {
        if self.registers.csts.rdy() || self.registers.ready_ns.is_some() {
            // Refused: the driver could not tell which of the two resets ended.
            self.registers.cc.set_en(false);
            return self.violation(ViolationKind::EnableNotFollowed);
        }
        let cc = self.registers.cc;
        let aqa = self.registers.aqa;
        if !self.supports(cc) {
            self.violation(ViolationKind::UnsupportedConfiguration { cc: cc.into_bits() });
            self.registers.csts.set_cfs(true);
        } else if aqa.asqs_z() == 0 || aqa.acqs_z() == 0 {
            if !self.registers.unnoticed {
                self.violation(ViolationKind::AdminQueueSize);
            }
            self.registers.csts.set_cfs(true);
        } else {
            self.enabled_again();
            let never = self.registers.never_ready;
            self.faults.met(|effect| never && effect == ControllerEffect::NeverReady);
            self.registers.csts.set_shst(ShutdownStatus::Normal);
            self.registers.unnoticed = false;
            self.registers.ready_ns = (!never).then(|| self.clock_ns.saturating_add(self.config.ready_ns));
        }
    }

    fn supports(&self, cc: Cc) -> bool {
        let cap = self.registers.cap;
        let arbitration = match cc.ams() {
            Arbitration::RoundRobin => true,
            Arbitration::WeightedUrgent => cap.ams_wrr(),
            Arbitration::Vendor | Arbitration::Reserved => false,
        };
        arbitration && cc.css() == CommandSet::Nvm && (cap.mpsmin()..=cap.mpsmax()).contains(&cc.mps())
    }

    /// Handles CC.EN from 1 to 0: a controller reset (sections 3.1.5 and 7.3.2). AQA, ASQ and ACQ stay; the other fields
    /// of CC get their defaults like everything else.
    fn disable(&mut self, host: &mut dyn Host) {
        // A controller that never gets ready leaves nothing to wait for.
        if !self.registers.csts.rdy() && !self.registers.csts.cfs() && !self.registers.never_ready {
            self.violation(ViolationKind::EnableNotFollowed);
        }
        self.stop();
        self.interrupts.update_pin(host);
        self.registers.cc = Cc::new();
        self.registers.csts.set_cfs(false);
        self.registers.csts.set_shst(ShutdownStatus::Normal);
        self.registers.shutdown_ns = None;
        self.registers.ready_ns = Some(self.clock_ns.saturating_add(self.config.ready_ns));
    }

    /// Handles CC.SHN (section 7.6.2): a normal shutdown makes the write cache durable, an abrupt one need not.
    fn shut_down(&mut self, how: ShutdownNotification) {
        let clock_ns = self.clock_ns;
        let done_ns = match how {
            ShutdownNotification::Normal => self.flush_all(),
            ShutdownNotification::Abrupt => clock_ns,
            ShutdownNotification::None | ShutdownNotification::Reserved => return,
        };
        self.registers.csts.set_shst(ShutdownStatus::Processing);
        self.registers.shutdown_ns = Some(done_ns.max(clock_ns).saturating_add(self.config.shutdown_ns));
    }

    /// Executes the changes of state that are due.
    pub(crate) fn change_state(&mut self) {
        let now_ns = self.clock_ns;
        let due = |moment: Option<u64>| moment.is_some_and(|at_ns| at_ns <= now_ns);
        if due(self.registers.hidden_until_ns) {
            self.registers.hidden_until_ns = None;
            self.faults.over(is_absence);
        }
        if due(self.registers.shutdown_ns) {
            self.registers.shutdown_ns = None;
            self.registers.csts.set_shst(ShutdownStatus::Complete);
        }
        if due(self.registers.paused_ns) {
            self.registers.resume();
            self.wake_fetch();
        }
        if due(self.registers.ready_ns) {
            self.registers.ready_ns = None;
            let enabled = self.registers.cc.en();
            if enabled {
                self.start_admin_queues();
            } else {
                self.journal.event(Event::Reset);
            }
            self.registers.csts.set_rdy(enabled);
        }
    }

    /// Function level reset: everything as after power-on, except the contents of the media and of the write cache. The
    /// pin is low afterwards without a call of [`Host::pin`].
    pub fn function_level_reset(&mut self) {
        self.with_shared(Self::reset_function);
    }

    pub(crate) fn reset_function(&mut self) {
        self.activate_resources();
        self.stop();
        self.interrupts.pin_was_reset();
        self.registers.reset();
        self.journal.event(Event::Reset);
        self.look_ahead();
    }

    /// Whether a fault has pulled the controller out.
    #[must_use]
    pub const fn is_removed(&self) -> bool {
        self.registers.removed
    }
}

const fn is_wide(offset: u64) -> bool {
    matches!(offset, CAP | ASQ | ACQ)
}

const fn with_low(value: u64, low: u32) -> u64 {
    (value & !0xffff_ffff) | low as u64
}

const fn with_high(value: u64, high: u32) -> u64 {
    (value & 0xffff_ffff) | (high as u64) << 32
}
