//! Requests of a physical function's driver about its virtual functions: they are enabled, withdrawn from their drivers, and
//! restored.
//!
//! Neighbours: `provision` takes the steps of enabling, `claim` takes back what a withdrawn function could reach with.

use super::Server;
use crate::function::Function;
use crate::provision::Provision;
use alloc::vec::Vec;
use pci_api::{Count, GRANTED, Index, Match, Refusal};
use pci_spec::Bdf;
use platform::log::info;
use platform::{Message, Platform};

impl<P: Platform> Server<P> {
    /// Enables `number` virtual functions of the function that a driver has, or disables them all.
    pub(super) fn virtual_functions(&mut self, driver: usize, number: u16) -> Result<Message, Refusal> {
        let taken: Vec<Bdf> = self.all_functions().map(|function| function.bdf).collect();
        let Self { resources, functions, provisions, note, claims, .. } = self;
        let claim = claims.get(driver).and_then(Option::as_ref).ok_or(Refusal::NotClaimed)?;
        let bdf = claim.bdf();
        // A virtual function is not among them, and has no others.
        let physical = functions.iter().find(|function| function.bdf == bdf).ok_or(Refusal::Unusable)?;
        let place = match provisions.iter().position(|provision| provision.physical() == bdf) {
            Some(place) => place,
            None => {
                provisions.push(Provision::new(bdf, driver));
                provisions.len().saturating_sub(1)
            }
        };
        let provision = provisions.get_mut(place).ok_or(Refusal::Exhausted)?;
        let is_claimed = |function: &Function| claims.iter().flatten().any(|claim| claim.bdf() == function.bdf);
        let count = match number {
            0 if provision.found().iter().any(is_claimed) => return Err(Refusal::Busy),
            0 => {
                provision.end(resources, physical);
                0
            }
            _ if !claim.can_be_reset() => return Err(Refusal::Unusable),
            _ => provision.ask(resources, note, physical, driver, number, |bdf| taken.contains(&bdf))?,
        };
        Ok(Message::with(GRANTED, &Count(count.into())))
    }

    /// Withdraws a virtual function from its driver. To withdraw it again changes nothing.
    pub(super) fn withdraw(&mut self, physical: usize, index: Index) -> Result<Message, Refusal> {
        let driver = self.virtual_driver(physical, index)?;
        *self.withdrawn.get_mut(driver).ok_or(Refusal::NoSuchFunction)? = true;
        let claim = self.claims.get_mut(driver).and_then(Option::as_mut);
        if let Some(claim) = claim.filter(|claim| !claim.is_withdrawn()) {
            claim.withdraw(&mut self.resources);
            let bdf = claim.bdf();
            info!("{:x}:{:x}.{} is withdrawn from driver {}", bdf.bus(), bdf.device(), bdf.function(), driver);
        }
        Ok(Message::new(GRANTED))
    }

    /// Lets the driver of a virtual function claim it again.
    pub(super) fn restore(&mut self, physical: usize, index: Index) -> Result<Message, Refusal> {
        let driver = self.virtual_driver(physical, index)?;
        *self.withdrawn.get_mut(driver).ok_or(Refusal::NoSuchFunction)? = false;
        Ok(Message::new(GRANTED))
    }

    /// The driver of virtual function `index` of those that driver number `physical` enables.
    fn virtual_driver(&self, physical: usize, Index(index): Index) -> Result<usize, Refusal> {
        let is_it = |allowed: &Match| match *allowed {
            Match::Virtual { driver, index: number } => usize::from(driver) == physical && u64::from(number) == index,
            Match::Bdf(_) | Match::ClassCode { .. } | Match::Slot(_) => false,
        };
        let found = self.config.drivers.iter().position(|driver| is_it(&driver.allowed));
        found.ok_or(Refusal::NoSuchFunction)
    }
}
