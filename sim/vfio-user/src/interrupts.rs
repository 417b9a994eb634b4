//! The client's eventfds, by type and vector, and the pin's mask.
//!
//! The pin is level-triggered and masks itself, as VFIO does: when its eventfd was signalled, it is silent until the
//! client unmasks it; if an interrupt is still wanted then, it is signalled again. A vector of MSI-X that is signalled
//! before it has an eventfd is remembered, as in the pending bits of a masked vector: QEMU hands an eventfd over when
//! its guest unmasks a vector for the first time. Masking by the MSI-X table itself is the client's.

use crate::device::{Level, Shape};
use crate::request::{Chosen, IrqAction, IrqChange, IrqType};
use rustix::io::{Errno, ioctl_fionbio};
use std::os::fd::OwnedFd;

/// A client's interrupts.
#[derive(Debug)]
pub(crate) struct Interrupts {
    pin: Pin,
    msi: Vec<Vector>,
    msix: Vec<Vector>,
}

#[derive(Default, Debug)]
struct Vector {
    event: Option<OwnedFd>,
    is_pending: bool,
}

#[derive(Default, Debug)]
struct Pin {
    exists: bool,
    level: Level,
    is_masked: bool,
    event: Option<OwnedFd>,
}

impl Interrupts {
    pub(crate) fn new(shape: &Shape) -> Self {
        let vectors = |count: u16| (0..count).map(|_| Vector::default()).collect();
        Self {
            pin: Pin { exists: shape.pin, ..Pin::default() },
            msi: vectors(shape.msi_vectors),
            msix: vectors(shape.msix_vectors),
        }
    }

    /// Carries out a client's request.
    ///
    /// # Errors
    ///
    /// `EINVAL`: a descriptor cannot be made not to block.
    pub(crate) fn change(&mut self, change: IrqChange) -> Result<(), Errno> {
        let IrqChange { kind, start, count, action } = change;
        if let IrqAction::SetEvents(events) = &action {
            // No descriptor of a client may make the server sleep. The flag is the client's too, who shares the open
            // file; QEMU's eventfds have it already.
            events.iter().try_for_each(|event| ioctl_fionbio(event, true)).map_err(|_| Errno::INVAL)?;
        }
        match kind {
            IrqType::Pin => self.pin.change(action),
            IrqType::Msi => change_vectors(&mut self.msi, start, count, action, Pending::Forgotten),
            IrqType::Msix => change_vectors(&mut self.msix, start, count, action, Pending::Kept),
        }
        Ok(())
    }

    /// Signals a vector for the device.
    pub(crate) fn signal(&mut self, vector: u16) {
        let vector = usize::from(vector);
        let uses_msi = self.msi.iter().any(|vector| vector.event.is_some());
        if uses_msi {
            if let Some(vector) = self.msi.get_mut(vector) {
                vector.signal(Pending::Forgotten);
            }
        } else if let Some(vector) = self.msix.get_mut(vector) {
            vector.signal(Pending::Kept);
        }
    }

    /// Sets the pin's level for the device.
    pub(crate) fn set_pin(&mut self, level: Level) {
        self.pin.level = level;
        self.pin.update();
    }

    /// The device was reset: it wants no interrupt. Eventfds stay, as over a reset of VFIO.
    pub(crate) fn device_was_reset(&mut self) {
        let Self { pin, msi, msix } = self;
        pin.level = Level::Deasserted;
        for vector in msi.iter_mut().chain(msix) {
            vector.is_pending = false;
        }
    }
}

/// The fate of a signal to a vector without an eventfd.
#[derive(Clone, Copy)]
enum Pending {
    Kept,
    Forgotten,
}

fn change_vectors(vectors: &mut [Vector], start: usize, count: usize, action: IrqAction, pending: Pending) {
    let range = vectors.iter_mut().skip(start).take(count);
    match action {
        IrqAction::SetEvents(events) => {
            let events = events.into_iter().map(Some).chain(core::iter::repeat_with(|| None));
            range.zip(events).for_each(|(vector, event)| vector.set_event(event));
        }
        IrqAction::Disable => vectors.iter_mut().for_each(|vector| *vector = Vector::default()),
        IrqAction::Trigger(chosen) => {
            range.enumerate().filter(|(at, _)| chosen.has(*at)).for_each(|(_, vector)| vector.signal(pending));
        }
        // The door lets these in for pins only.
        IrqAction::Mask(_) | IrqAction::Unmask(_) => {}
    }
}

impl Vector {
    fn signal(&mut self, pending: Pending) {
        match (&self.event, pending) {
            (Some(event), _) => write(event),
            (None, Pending::Kept) => self.is_pending = true,
            (None, Pending::Forgotten) => {}
        }
    }

    fn set_event(&mut self, event: Option<OwnedFd>) {
        self.event = event;
        if let Some(event) = self.event.as_ref().filter(|_| self.is_pending) {
            write(event);
            self.is_pending = false;
        }
    }
}

impl Pin {
    fn change(&mut self, action: IrqAction) {
        match action {
            IrqAction::SetEvents(events) => {
                self.event = events.into_iter().next();
                self.is_masked = false;
                self.update();
            }
            IrqAction::Disable => {
                self.event = None;
                self.is_masked = false;
            }
            IrqAction::Trigger(chosen) => {
                if let Some(event) = self.event.as_ref().filter(|_| chosen.has(0)) {
                    write(event);
                }
            }
            IrqAction::Mask(chosen) => self.set_mask(&chosen, true),
            IrqAction::Unmask(chosen) => self.set_mask(&chosen, false),
        }
    }

    fn set_mask(&mut self, chosen: &Chosen, is_masked: bool) {
        if chosen.has(0) {
            self.is_masked = is_masked;
            self.update();
        }
    }

    fn update(&mut self) {
        if self.exists
            && self.level == Level::Asserted
            && !self.is_masked
            && let Some(event) = &self.event
        {
            write(event);
            self.is_masked = true;
        }
    }
}

/// Signals an eventfd. A full counter is signalled already. A descriptor that takes no bytes loses the interrupt, which
/// harms only its sender.
fn write(event: &OwnedFd) {
    let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
}
