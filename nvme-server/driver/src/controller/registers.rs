//! The controller's registers: reset, enable, health (NVM Express base specification 1.4, sections 3.1 and 7.6.1).

use crate::fault::DeviceFault;
use crate::queue_pair::Ring;
use core::cell::Cell;
use core::time::Duration;
use nvme_spec::registers::{
    Aqa, Arbitration, Cap, Cc, Crto, Csts, IOCQES_16, IOSQES_64, NSSR_RESET, Register, ShutdownNotification,
    ShutdownStatus, Vs,
};
use platform::{Mmio, PAGE_SIZE};

/// The most that CRTO is believed: the register can hold 9 hours, and all sessions wait that long.
pub const MOST_READY: Duration = Duration::from_secs(300);

/// The registers, with the value read from CAP.
#[derive(Clone, Debug)]
pub struct Registers<R> {
    registers: R,
    /// All zeroes until it was read.
    cap: Cell<Cap>,
    /// CRTO, all zeroes where there is none.
    crto: Cell<Crto>,
}

impl<R: Mmio> Registers<R> {
    /// Creates a controller of which nothing is known before [`Registers::identify`].
    pub const fn new(registers: R) -> Self {
        Self { registers, cap: Cell::new(Cap::from_bits(0)), crto: Cell::new(Crto::from_bits(0)) }
    }

    /// Reads CAP, at each bring-up: a controller that is out of reach for a while may be back, and must be the same.
    ///
    /// # Errors
    /// [`DeviceFault::Absent`], [`DeviceFault::Exchanged`], or [`DeviceFault::Unusable`] for a controller this server cannot drive.
    pub fn identify(&self) -> Result<(), DeviceFault> {
        let bits = self.registers.read64(Register::Cap.offset())?;
        if bits == u64::MAX {
            return Err(DeviceFault::Absent);
        }
        let (cap, known) = (Cap::from_bits(bits), self.cap.get().into_bits());
        if known != 0 && known != bits {
            return Err(DeviceFault::Exchanged);
        }
        if !cap.css_nvm() {
            return Err(DeviceFault::Unusable("the controller lacks the NVM command set"));
        }
        if cap.min_page_bytes() as usize > PAGE_SIZE {
            return Err(DeviceFault::Unusable("the controller's smallest page exceeds 4 KiB"));
        }
        if cap.max_queue_entries() < 2 {
            return Err(DeviceFault::Unusable("the controller's queues hold nothing"));
        }
        if cap.crwms() {
            self.crto.set(Crto::from_bits(self.registers.read32(Register::Crto.offset())?));
        }
        self.cap.set(cap);
        Ok(())
    }

    /// The controller's capabilities (CAP).
    pub fn cap(&self) -> Cap {
        self.cap.get()
    }

    /// The longest time for CSTS.RDY to follow CC.EN: CAP.TO, which is 2 minutes at most, or CRTO.CRWMT where that is longer, up to
    /// [`MOST_READY`]. Controllers are known whose CRTO is 0, so CAP.TO holds at least.
    pub fn ready_limit(&self) -> Duration {
        self.cap.get().timeout().max(self.crto.get().with_media().min(MOST_READY))
    }

    /// The registers themselves, for queues' doorbells.
    pub fn registers(&self) -> R {
        self.registers.clone()
    }

    /// The version it follows.
    pub fn version(&self) -> Result<Vs, DeviceFault> {
        Ok(Vs::from_bits(self.registers.read32(Register::Vs.offset())?))
    }

    /// Returns the status of a controller that was ready; a fault when it is gone, reports that it failed, is not ready, or was
    /// shut down, after which it processes no command until a reset (section 3.1.6).
    pub fn check(&self) -> Result<Csts, DeviceFault> {
        let csts = Csts::from_bits(self.registers.read32(Register::Csts.offset())?);
        if csts.is_absent() {
            return Err(DeviceFault::Absent);
        }
        if csts.cfs() {
            return Err(DeviceFault::Fatal);
        }
        if !csts.rdy() || csts.shst() != ShutdownStatus::Normal {
            return Err(DeviceFault::NotReady);
        }
        Ok(csts)
    }

    /// Whether CSTS.RDY is 1. For use after [`Registers::disable`], when CFS does not show the present state.
    pub fn is_ready(&self) -> Result<bool, DeviceFault> {
        let csts = Csts::from_bits(self.registers.read32(Register::Csts.offset())?);
        if csts.is_absent() { Err(DeviceFault::Absent) } else { Ok(csts.rdy()) }
    }

    /// Whether CSTS.RDY is still to follow the last change of CC.EN, as a controller that failed may never let it: CC.EN
    /// must not be changed meanwhile (NVM Express base specification 1.4, section 3.1.5).
    pub fn is_changing(&self) -> Result<bool, DeviceFault> {
        let csts = Csts::from_bits(self.registers.read32(Register::Csts.offset())?);
        let cc = Cc::from_bits(self.registers.read32(Register::Cc.offset())?);
        if csts.is_absent() { Err(DeviceFault::Absent) } else { Ok(!csts.cfs() && csts.rdy() != cc.en()) }
    }

    /// Starts a controller reset: all queues and everything in flight are gone once CSTS.RDY is 0.
    pub fn disable(&self) -> Result<(), DeviceFault> {
        Ok(self.registers.write32(Register::Cc.offset(), Cc::new().into_bits())?)
    }

    /// Resets the NVM subsystem, if [`Cap::nssrs`] (section 7.3.1).
    pub fn reset_subsystem(&self) -> Result<(), DeviceFault> {
        Ok(self.registers.write32(Register::Nssr.offset(), NSSR_RESET)?)
    }

    /// Requests a normal shutdown: no command may be submitted any more, and what it acknowledged is made durable (section
    /// 7.6.2).
    pub fn shut_down(&self) -> Result<(), DeviceFault> {
        let cc = Cc::from_bits(self.registers.read32(Register::Cc.offset())?);
        Ok(self.registers.write32(Register::Cc.offset(), cc.with_shn(ShutdownNotification::Normal).into_bits())?)
    }

    /// Whether the shutdown is complete.
    pub fn is_shut_down(&self) -> Result<bool, DeviceFault> {
        let csts = Csts::from_bits(self.registers.read32(Register::Csts.offset())?);
        if csts.is_absent() { Err(DeviceFault::Absent) } else { Ok(csts.shst() == ShutdownStatus::Complete) }
    }

    /// Configures its admin queues of `entries` entries and its arbitration between the others, and enables it. CSTS.RDY
    /// follows.
    pub fn enable<M>(&self, sq: &Ring<M>, cq: &Ring<M>, entries: u16, by: Arbitration) -> Result<(), DeviceFault> {
        let size_z = entries.saturating_sub(1);
        let aqa = Aqa::new().with_asqs_z(size_z).with_acqs_z(size_z);
        self.registers.write32(Register::Aqa.offset(), aqa.into_bits())?;
        self.registers.write64(Register::Asq.offset(), sq.iova.bits())?;
        self.registers.write64(Register::Acq.offset(), cq.iova.bits())?;
        let cc = Cc::new().with_ams(by).with_iosqes(IOSQES_64).with_iocqes(IOCQES_16).with_en(true);
        Ok(self.registers.write32(Register::Cc.offset(), cc.into_bits())?)
    }
}
