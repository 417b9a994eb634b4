//! Virtual functions enabled, found and disabled again, in steps: the standard asks for time in between (PCIe 9.3.3.3.1).
//!
//! [`Switch::enable`] writes all registers that they depend on, since a reset of the physical function clears them.
//! [`Switch::find`] comes later, and returns a record for each virtual function like those of other functions. A physical
//! function whose registers or virtual functions are not as described is used without them: they are disabled. Neighbours:
//! `virtual_functions` decided before whether they have places. Left out: waiting, which the caller does, and the resources
//! that the physical function's driver gives to each of them.

use crate::assign::write_bar;
use crate::config_space::ConfigSpace;
use crate::enumerate::{MAX_FUNCTIONS, find_msix, silence};
use crate::function::{Function, Unusable, VirtualFunctions, VirtualOf};
use crate::sizing::Note;
use crate::virtual_functions::{self, disable};
use crate::{msix, reset};
use alloc::vec::Vec;
use core::fmt;
use pci_spec::header::{HeaderType, Layout, NO_VENDOR};
use pci_spec::sriov::{self, Control, Sriov, offset};
use pci_spec::{Bdf, ClassCode, header};
use platform::{Memory, Mmio};

const NS_PER_MS: u64 = 1_000_000;

/// Reason why virtual functions are not enabled, or not found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// The function describes no possible virtual functions.
    NotPhysical,
    /// The virtual functions, or their physical function, cannot be used.
    Unusable(Unusable),
    /// None were asked for, or more than there are, or than the server records.
    Number {
        /// The number asked for.
        asked: u16,
    },
    /// The step does not follow the one before.
    OutOfOrder,
    /// The time after the step before is not over.
    TooEarly,
    /// A register of the physical function does not keep its value, or describes other virtual functions than before.
    Changed,
    /// A virtual function would have a routing id that it may not have.
    RoutingId,
    /// No virtual function answers there, or something else does.
    Absent(Bdf),
}

impl Refused {
    /// The reason in words, for the log.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::NotPhysical => "has no virtual functions",
            Self::Unusable(reason) => reason.text(),
            Self::Number { .. } => "has not so many virtual functions",
            Self::OutOfOrder => "has its virtual functions enabled, found and disabled in this order",
            Self::TooEarly => "needs time for its virtual functions to appear and disappear",
            Self::Changed => "does not keep what is written to it",
            Self::RoutingId => "has a virtual function with an impossible routing id",
            Self::Absent(_) => "has a virtual function that does not answer",
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Refused {}

/// Where a physical function's virtual functions are between disabled and enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Disabled,
    /// Enabled; not to be accessed before `at_ns`.
    Appearing {
        number: u16,
        at_ns: u64,
    },
    Enabled,
    /// Disabled; the capability is not to be read before `at_ns`.
    Disappearing {
        at_ns: u64,
    },
}

/// The virtual functions of one physical function as they are enabled and disabled. Times are nanoseconds of one clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switch {
    state: State,
}

impl Switch {
    /// For a physical function whose virtual functions were disabled when it was found.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: State::Disabled }
    }

    /// Enables `number` virtual functions of `physical`. [`Switch::find`] finds them [`sriov::ENABLE_MS`] later. `note` makes
    /// the server's successor disable them before anything else.
    ///
    /// # Errors
    ///
    /// [`Refused`]. Then none are enabled.
    pub fn enable<M: Mmio>(
        &mut self,
        config: &mut ConfigSpace<M>,
        note: &Note<impl Memory>,
        physical: &Function,
        number: u16,
        now_ns: u64,
    ) -> Result<(), Refused> {
        match self.state {
            State::Disabled => {}
            State::Disappearing { at_ns } if now_ns >= at_ns => {}
            State::Disappearing { .. } => return Err(Refused::TooEarly),
            State::Appearing { .. } | State::Enabled => return Err(Refused::OutOfOrder),
        }
        let described = check(physical, number)?;
        note.mark_enabled().map_err(|_| Refused::Changed)?;
        prepare(config, physical, described, number)?;
        let enabled = set_enabled(config, physical.bdf, described.sriov);
        self.state = State::Appearing { number, at_ns: after(now_ns, sriov::ENABLE_MS) };
        if enabled {
            Ok(())
        } else {
            self.disable(config, physical, now_ns);
            Err(Refused::Changed)
        }
    }

    /// The virtual functions that were enabled, in order, none of them bus master. `is_taken` tells whether another function
    /// has a routing id.
    ///
    /// # Errors
    ///
    /// [`Refused::TooEarly`] changes nothing. After any other [`Refused`] they are disabled.
    pub fn find<M: Mmio>(
        &mut self,
        config: &mut ConfigSpace<M>,
        physical: &Function,
        is_taken: impl Fn(Bdf) -> bool,
        now_ns: u64,
    ) -> Result<Vec<Function>, Refused> {
        let number = match self.state {
            State::Appearing { number, at_ns } if now_ns >= at_ns => number,
            State::Appearing { .. } => return Err(Refused::TooEarly),
            State::Disabled | State::Enabled | State::Disappearing { .. } => return Err(Refused::OutOfOrder),
        };
        let found = find_all(config, physical, is_taken, number);
        match found {
            Ok(_) => self.state = State::Enabled,
            Err(_) => self.disable(config, physical, now_ns),
        }
        found
    }

    /// Disables all virtual functions of `physical`: nothing of theirs answers or reaches memory any more. They can be
    /// enabled again [`sriov::DISABLE_MS`] later.
    pub fn disable<M: Mmio>(&mut self, config: &mut ConfigSpace<M>, physical: &Function, now_ns: u64) {
        match self.state {
            State::Appearing { .. } | State::Enabled => {
                disable(config, physical.bdf);
                self.state = State::Disappearing { at_ns: after(now_ns, sriov::DISABLE_MS) };
            }
            State::Disabled | State::Disappearing { .. } => {}
        }
    }
}

impl Default for Switch {
    fn default() -> Self {
        Self::new()
    }
}

fn after(now_ns: u64, ms: u64) -> u64 {
    now_ns.saturating_add(ms.saturating_mul(NS_PER_MS))
}

/// Checks that `number` virtual functions of `physical` can be enabled, by what it described.
///
/// # Errors
///
/// [`Refused::NotPhysical`], [`Refused::Unusable`], [`Refused::Number`].
pub fn check(physical: &Function, number: u16) -> Result<&VirtualFunctions, Refused> {
    let described = usable(physical)?;
    if number == 0 || number > described.sriov.total || usize::from(number) > MAX_FUNCTIONS {
        return Err(Refused::Number { asked: number });
    }
    Ok(described)
}

fn usable(physical: &Function) -> Result<&VirtualFunctions, Refused> {
    let described = physical.virtual_functions.as_ref().ok_or(Refused::NotPhysical)?;
    match physical.unusable.or(described.unusable) {
        Some(reason) => Err(Refused::Unusable(reason)),
        None => Ok(described),
    }
}

/// Writes the page size, the BARs and the number, and checks the routing ids that follow from it.
fn prepare<M: Mmio>(
    config: &mut ConfigSpace<M>,
    physical: &Function,
    described: &VirtualFunctions,
    number: u16,
) -> Result<(), Refused> {
    let VirtualFunctions { sriov: recorded, bars, unusable: _ } = described;
    let bdf = physical.bdf;
    if virtual_functions::find(config, bdf) != Ok(Some(recorded.offset)) {
        return Err(Refused::Changed);
    }
    for (bytes, value) in [(offset::SYSTEM_PAGE_SIZE, sriov::PAGES_OF_4_KIB), (offset::NUMBER, u32::from(number))] {
        config.write_extended(bdf, recorded.register(bytes), value);
    }
    let page_size = config.read_extended(bdf, recorded.register(offset::SYSTEM_PAGE_SIZE));
    let written = config.read_lower_half(bdf, recorded.register(offset::NUMBER));
    if (page_size, written) != (sriov::PAGES_OF_4_KIB, number) {
        return Err(Refused::Changed);
    }
    for bar in bars {
        let first = recorded.register(offset::BAR0);
        write_bar(config, bdf, first, bar, bar.address()).map_err(|_| Refused::Changed)?;
    }
    let Sriov { offset: _, total, routing, device } = reread(config, bdf, recorded.offset)?;
    if (total, device) != (recorded.total, recorded.device) {
        return Err(Refused::Changed);
    }
    // The buses up to there are theirs: `virtual_functions` checked it.
    let last = recorded.routing.last_bus(bdf, total);
    if routing.last_bus(bdf, number) > last { Err(Refused::RoutingId) } else { Ok(()) }
}

/// The capability as it is now, with the routing ids for the number that is set.
fn reread<M: Mmio>(config: &ConfigSpace<M>, physical: Bdf, capability: u16) -> Result<Sriov, Refused> {
    Sriov::read(|register| config.read_extended(physical, register), physical, capability).map_err(|_| Refused::Changed)
}

/// Sets VF Enable and VF MSE. Whether both are set afterwards.
fn set_enabled<M: Mmio>(config: &mut ConfigSpace<M>, physical: Bdf, sriov: Sriov) -> bool {
    let register = sriov.register(offset::CONTROL);
    let control = Control::from_bits(config.read_lower_half(physical, register));
    let on = control.with_vf_enable(true).with_vf_memory_space(true);
    config.write_extended(physical, register, on.into_bits().into());
    config.read_lower_half(physical, register) == on.into_bits()
}

fn find_all<M: Mmio>(
    config: &mut ConfigSpace<M>,
    physical: &Function,
    is_taken: impl Fn(Bdf) -> bool,
    number: u16,
) -> Result<Vec<Function>, Refused> {
    let described = usable(physical)?;
    // `prepare` checked it, and the function may report something else by now.
    let routing = reread(config, physical.bdf, described.sriov.offset)?.routing;
    let last = described.sriov.routing.last_bus(physical.bdf, described.sriov.total);
    (0..number)
        .map(|number_z| {
            let bdf = routing.function(physical.bdf, number_z).ok_or(Refused::RoutingId)?;
            if Some(bdf.bus()) > last || is_taken(bdf) {
                return Err(Refused::RoutingId);
            }
            describe(config, physical, described, bdf, number_z)
        })
        .collect()
}

/// The record of virtual function `number_z` at `bdf`. It has no ids, no BARs, and no pin of its own (PCIe 9.3.4.1).
fn describe<M: Mmio>(
    config: &mut ConfigSpace<M>,
    physical: &Function,
    described: &VirtualFunctions,
    bdf: Bdf,
    number_z: u16,
) -> Result<Function, Refused> {
    let vendor = config.read_lower_half(bdf, header::offset::ID.into());
    let class_code = ClassCode::from_dword(config.read(bdf, header::offset::CLASS_REVISION));
    let layout = HeaderType::from_dword(config.read(bdf, header::offset::HEADER_TYPE)).layout();
    if vendor != NO_VENDOR || class_code != physical.class_code || layout != Layout::Endpoint {
        return Err(Refused::Absent(bdf));
    }
    silence(config, bdf);
    let bars: Option<_> = described.bars.iter().map(|bar| bar.following(number_z)).collect();
    let mut function = Function {
        bdf,
        path: physical.path.clone(),
        vendor: physical.vendor,
        device: described.sriov.device,
        class_code,
        bars: bars.ok_or(Refused::Unusable(Unusable::Bar))?,
        msix: None,
        // Drivers of virtual functions use MSI-X.
        msi: None,
        root_pin: None,
        pin_register: 0,
        // Its physical function's requests keep their requester id on the way, and so do those from its own buses.
        requester_id: bdf,
        bridge: None,
        virtual_functions: None,
        virtual_of: Some(VirtualOf { physical: physical.bdf, capability: described.sriov.offset, number_z }),
        unusable: None,
    };
    if !reset::is_possible(config, bdf) {
        function.refuse(Unusable::NoReset);
    }
    match find_msix(config, bdf) {
        Ok(msix) => function.msix = msix,
        Err(reason) => function.refuse(reason),
    }
    if let Some(reason) = msix::misplaced(&function) {
        function.refuse(reason);
    }
    Ok(function)
}
