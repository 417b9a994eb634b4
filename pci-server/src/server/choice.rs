//! The function that a driver may claim, and the source of its interrupts.
//!
//! The specification allows a driver its functions ([`Match`]). Neighbours: `claim` gives what is chosen here.

use super::Server;
use crate::function::Function;
use crate::interrupts::{Kind, Source};
use pci_api::{Match, Refusal};
use platform::Platform;

/// In a claim: by class code.
const BY_CLASS_CODE: u16 = 0xffff;

impl<P: Platform> Server<P> {
    /// The function that a driver asks for, if it may have it now.
    pub(super) fn choose(&self, driver: usize, asked: pci_api::Claim) -> Result<&Function, Refusal> {
        if self.claims.get(driver).is_some_and(Option::is_some) {
            return Err(Refusal::Busy);
        }
        // Of several functions of a class code the first free one is taken, and the last one's refusal reported if there is
        // none.
        let mut refusal = Refusal::NoSuchFunction;
        for function in self.all_functions() {
            let wanted = match asked.bdf {
                BY_CLASS_CODE => function.class_code_bits() == asked.class_code && self.is_sought(driver, function),
                bdf => function.bdf.to_raw() == bdf,
            };
            if wanted {
                match self.may_have(driver, function) {
                    Ok(()) => return Ok(function),
                    // A refusal for a busy function is more useful to the driver than one for a function it may not have.
                    Err(Refusal::NotAllowed) if refusal != Refusal::NoSuchFunction => {}
                    Err(reason) => refusal = reason,
                }
            }
        }
        Err(refusal)
    }

    /// Whether a claim by class code is about a function. That of a virtual function's driver is about this one alone, and that
    /// of a slot's about the device in it: they are not forbidden before they are there.
    fn is_sought(&self, driver: usize, function: &Function) -> bool {
        match self.config.drivers.get(driver).map(|config| &config.allowed) {
            Some(allowed @ (Match::Virtual { .. } | Match::Slot(_))) => self.matches(allowed, function),
            Some(Match::Bdf(_) | Match::ClassCode { .. }) | None => function.virtual_of.is_none(),
        }
    }

    fn may_have(&self, driver: usize, function: &Function) -> Result<(), Refusal> {
        let config = self.config.drivers.get(driver).ok_or(Refusal::NotAllowed)?;
        if !self.matches(&config.allowed, function) {
            return Err(Refusal::NotAllowed);
        }
        // Functions with one requester id cannot be kept apart by the IOMMU: they go to one driver at a time.
        if self.claims.iter().flatten().any(|claim| claim.requester_id() == function.requester_id) {
            return Err(Refusal::Busy);
        }
        if function.unusable.is_some() {
            return Err(Refusal::Unusable);
        }
        if self.slots.iter().any(|slot| slot.holds(function.bdf) && !slot.is_open()) {
            return Err(Refusal::NoSuchFunction);
        }
        if self.resources.is_under_reset(function.bdf) {
            return Err(Refusal::NotReady);
        }
        Ok(())
    }

    fn matches(&self, allowed: &Match, function: &Function) -> bool {
        match allowed {
            Match::Bdf(bdf) => function.virtual_of.is_none() && function.bdf.to_raw() == *bdf,
            Match::ClassCode { class_code, index } => {
                let same = |other: &&Function| {
                    [other.class_code.base, other.class_code.sub, other.class_code.interface] == *class_code
                };
                let fixed = |function: &&Function| self.slots.iter().all(|slot| !slot.holds(function.bdf));
                self.functions
                    .iter()
                    .filter(same)
                    .filter(fixed)
                    .nth(usize::from(*index))
                    .is_some_and(|found| found.bdf == function.bdf)
            }
            Match::Slot(number) => {
                let slot = self.slots.iter().find(|slot| slot.number() == *number);
                function.virtual_of.is_none() && slot.is_some_and(|slot| function.parent() == Some(slot.port()))
            }
            Match::Virtual { driver, index } => {
                let its_own = self.provisions.iter().filter(|provision| provision.driver() == usize::from(*driver));
                let found = its_own.into_iter().find_map(|provision| provision.found().get(usize::from(*index)));
                found.is_some_and(|found| found.bdf == function.bdf)
            }
        }
    }

    /// The source of a driver's interrupts. The server keeps a line that another driver could come to use as well: a driver
    /// with the line's handler could withhold the interrupts from the other.
    pub(super) fn source(&self, driver: usize, function: &Function, kind: Kind) -> Result<Source, Refusal> {
        match kind {
            Kind::Msix => return function.msix.map(Source::Msix).ok_or(Refusal::Unusable),
            Kind::Msi => return function.msi.map(Source::Msi).ok_or(Refusal::Unusable),
            Kind::Intx => {}
        }
        let routing = self.config.intx_pins;
        let line = function.interrupt_line(routing).ok_or(Refusal::Unusable)?;
        let mut others = self.functions.iter().filter(|other| {
            other.bdf != function.bdf && other.unusable.is_none() && other.interrupt_line(routing) == Some(line)
        });
        let is_anothers = |function: &Function| {
            let mut drivers = self.config.drivers.iter().enumerate();
            drivers.any(|(other, config)| other != driver && self.matches(&config.allowed, function))
        };
        Ok(if others.any(is_anothers) { Source::SharedLine(line) } else { Source::Line(line) })
    }
}
