//! Interrupt lines at which functions of several drivers end.
//!
//! The kernel has one handler for a line, and the line stays masked until the handler is acknowledged. A driver with the
//! handler could withhold the interrupts of all others. So the server keeps it. When the line interrupts, the server reads
//! the status of each function that shares it, disables the pins of those that want an interrupt, signals their drivers, and
//! acknowledges at once. A driver that has finished signals the server, which enables its function's pin again. Each
//! function is masked by itself, so a driver that hangs, or a device that interrupts without end, affects only itself.
//!
//! Neighbours: `claim` joins and leaves, `server` passes on the signals. Left out: a limit on a driver's signals. The driver
//! gets no further signal until it has finished (`docs/decisions`).

use crate::bound::{SharedLine, Sharer, Vector};
use crate::config_space::ConfigSpace;
use crate::resources::{Resources, refused};
use alloc::vec::Vec;
use pci_api::Refusal;
use pci_spec::Bdf;
use platform::log::{error, info, warn};
use platform::{Badge, Cap, Kernel, Mmio, Notification, Platform};
use virtio_drivers::transport::pci::bus::Command;

/// Interrupts of a line that no function wanted, between two ticks.
const IDLE_INTERRUPTS: u32 = 1024;
/// Bits for drivers in badges on the server's notification, from bit 0 on. Drivers share them when there are more.
const DRIVER_BITS: usize = 32;
/// Bits for lines, from [`DRIVER_BITS`] on: this many can be shared at once. No routing has more than 8.
const LINE_BITS: u32 = 30;

/// Binds the function at `bdf`, which driver number `driver` claimed, to `notification`, which is taken out of its
/// cptr. Returns the notification that the driver signals when it has finished with an interrupt. It ends with [`leave`].
///
/// # Errors
///
/// [`Refusal::Exhausted`]; [`Refusal::Kernel`], also when `notification` is none.
pub fn join<P: Platform>(
    resources: &mut Resources<P>,
    line: u8,
    bdf: Bdf,
    driver: usize,
    notification: Cap<Notification>,
) -> Result<Cap<Notification>, Refusal> {
    let mut shared = match take_out(resources, line) {
        Some(shared) => shared,
        None => SharedLine::make(resources, line, bdf)?,
    };
    let joined = shared.bind(resources, bdf, driver, notification);
    shared.put_back(resources);
    joined
}

/// Removes the function at `bdf` from the line's sharers, and with the last sharer the line.
pub fn leave<P: Platform>(resources: &mut Resources<P>, line: u8, bdf: Bdf) {
    let Some(mut shared) = take_out(resources, line) else { return };
    if let Some(place) = shared.sharers.iter().position(|sharer| sharer.bdf == bdf) {
        let Sharer { bdf: _, driver: _, notification, resume, disabled: _ } = shared.sharers.swap_remove(place);
        // Logged where it fails; the cptr is then lost.
        let _ = resources.revoke_and_delete(resume.cptr());
        let _ = resources.delete(notification);
    }
    shared.put_back(resources);
}

/// Handles the bits for lines and drivers of a signal on the server's notification.
pub fn on_signal<P: Platform>(resources: &mut Resources<P>, badge: Badge) {
    let Resources { platform, config, shared_lines, .. } = resources;
    for shared in shared_lines {
        for sharer in shared.sharers.iter_mut().filter(|sharer| badge.has(driver_bit(sharer.driver))) {
            sharer.enable(config);
        }
        if badge.has(line_bit(shared.bit)) {
            shared.on_interrupt(platform.kernel(), config);
        }
        if badge.has(Badge::TICK) {
            shared.on_tick(platform.kernel());
        }
    }
}

fn take_out<P: Platform>(resources: &mut Resources<P>, line: u8) -> Option<SharedLine> {
    let place = resources.shared_lines.iter().position(|shared| shared.line == line)?;
    Some(resources.shared_lines.swap_remove(place))
}

impl SharedLine {
    fn make<P: Platform>(resources: &mut Resources<P>, line: u8, requester_id: Bdf) -> Result<Self, Refusal> {
        let is_free = |bit: &u32| resources.shared_lines.iter().all(|shared| shared.bit != *bit);
        let bit = (0..LINE_BITS).find(is_free).ok_or(Refusal::Exhausted)?;
        let interrupt = Vector::make(resources, 0, Some(line), requester_id)?;
        match resources.own_signal(Badge::SIGNAL | line_bit(bit)) {
            Ok(own) => {
                info!("interrupt line {} is kept for several drivers", line);
                Ok(Self { line, bit, interrupt, own, sharers: Vec::new(), idle: 0, stopped: false })
            }
            Err(refusal) => {
                interrupt.unmake(resources);
                Err(refusal)
            }
        }
    }

    /// Keeps the line, unless no function shares it any more.
    fn put_back<P: Platform>(self, resources: &mut Resources<P>) {
        if !self.sharers.is_empty() {
            return resources.shared_lines.push(self);
        }
        self.interrupt.unmake(resources);
        // Logged where it fails; the cptr is then lost.
        let _ = resources.delete(self.own.cptr());
    }

    fn bind<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        bdf: Bdf,
        driver: usize,
        notification: Cap<Notification>,
    ) -> Result<Cap<Notification>, Refusal> {
        let (kernel, handler) = (resources.kernel(), self.interrupt.handler);
        // The kernel binds nothing but notifications that may be signalled. Anything else must not be signalled here:
        // an endpoint would keep the server waiting for ever.
        for bound in [notification, self.own] {
            kernel.irq_handler_set_notification(handler, bound).map_err(refused("binding an interrupt"))?;
        }
        let sharer = self.sharer(resources, bdf, driver)?;
        let (dest, source) = (resources.absolute(sharer.notification), resources.absolute(notification.cptr()));
        let moved = kernel.cnode_delete(dest).and_then(|()| kernel.cnode_move(dest, source));
        moved.map_err(refused("keeping a notification"))?;
        sharer.disabled = false;
        let resume = sharer.resume;
        resources.config.change_command(bdf, Command::empty(), Command::INTERRUPT_DISABLE);
        // The kernel keeps a new line masked until the first acknowledgement; and an interrupt that came while the
        // handler was bound to the driver's notification comes again.
        kernel.irq_handler_ack(handler).map_err(refused("acknowledging an interrupt"))?;
        Ok(resume)
    }

    /// The function as a sharer; a new one has an empty cptr for the notification.
    fn sharer<P: Platform>(
        &mut self,
        resources: &mut Resources<P>,
        bdf: Bdf,
        driver: usize,
    ) -> Result<&mut Sharer, Refusal> {
        let place = match self.sharers.iter().position(|sharer| sharer.bdf == bdf) {
            Some(place) => place,
            None => {
                let resume = resources.own_signal(Badge::SIGNAL | driver_bit(driver))?;
                let notification = match resources.cptrs.take() {
                    Ok(cptr) => cptr,
                    Err(refusal) => {
                        let _ = resources.delete(resume.cptr());
                        return Err(refusal);
                    }
                };
                self.sharers.push(Sharer { bdf, driver, notification, resume, disabled: true });
                self.sharers.len().saturating_sub(1)
            }
        };
        self.sharers.get_mut(place).ok_or(Refusal::Exhausted)
    }

    fn on_interrupt<K: Kernel, M: Mmio>(&mut self, kernel: &K, config: &mut ConfigSpace<M>) {
        let mut wanted = false;
        for sharer in self.sharers.iter_mut().filter(|sharer| !sharer.disabled) {
            if config.wants_interrupt(sharer.bdf) {
                config.change_command(sharer.bdf, Command::INTERRUPT_DISABLE, Command::empty());
                sharer.disabled = true;
                kernel.signal(sharer.notification.cast());
                wanted = true;
            }
        }
        if !wanted {
            self.idle = self.idle.saturating_add(1);
        }
        if self.idle > IDLE_INTERRUPTS {
            warn!("interrupt line {} is stopped until the tick: no function wanted its interrupts", self.line);
            self.stopped = true;
        } else {
            self.acknowledge(kernel);
        }
    }

    fn on_tick<K: Kernel>(&mut self, kernel: &K) {
        self.idle = 0;
        if core::mem::take(&mut self.stopped) {
            self.acknowledge(kernel);
        }
    }

    fn acknowledge<K: Kernel>(&self, kernel: &K) {
        if let Err(reason) = kernel.irq_handler_ack(self.interrupt.handler) {
            error!("the kernel refused acknowledging interrupt line {}: {}", self.line, reason);
        }
    }
}

impl Sharer {
    fn enable<M: Mmio>(&mut self, config: &mut ConfigSpace<M>) {
        if core::mem::take(&mut self.disabled) {
            config.change_command(self.bdf, Command::empty(), Command::INTERRUPT_DISABLE);
        }
    }
}

fn driver_bit(driver: usize) -> u64 {
    1u64.rotate_left((driver % DRIVER_BITS) as u32)
}

fn line_bit(bit: u32) -> u64 {
    1u64.rotate_left(DRIVER_BITS as u32).rotate_left(bit)
}
