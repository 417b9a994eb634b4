//! The server's loop: waits for a request, answers it, waits again.
//!
//! A driver is known by the badge of its call. Its message is decoded into a [`Request`] once; after that, code works on
//! checked values only. A driver's mistakes end in a [`Refusal`] and do not affect others.
//!
//! The server can die at any moment, and its drivers with it. The next incarnation begins with nothing claimed: it silences
//! every function, and only then reports to the supervisor which drivers' devices are silent.
//!
//! A driver's access ends with its claim, so that a function can go from one driver to another. For the IOSpace this rests
//! on the kernel's fix `io-space-revoke` (`docs/decisions`): seL4 5.0.0 by itself leaves the driver's copy alive, and with
//! it the driver reaches into the address space of the function's next driver.

use crate::assign::assign;
use crate::claim::{Claim, Driver};
use crate::enumerate::enumerate;
use crate::function::Function;
use crate::interrupts::{Kind, Source};
use crate::predecessor::tidy;
use crate::resources::{Missing, Resources, pci_windows};
use crate::shared_line;
use crate::sizing::Note;
use crate::virtual_functions::{self, VirtualFunctions};
use alloc::vec::Vec;
use pci_api::{
    BAR_FRAME, CLAIM, Count, DriverConfig, GRANTED, INTERRUPTS, IO_SPACE, Index, LIST, Match, RELEASE, Refusal, START,
    ServerConfig, VECTOR, names,
};
use platform::log::{error, info, warn};
use platform::{Badge, CPtr, Environment, Event, Incarnation, Kernel, Message, Notification, Platform, VSpace};
use report::Report;

const BASE_CLASS_BRIDGE: u8 = 0x06;
/// In a claim: by class code.
const BY_CLASS_CODE: u16 = 0xffff;

/// Serves drivers as long as the component runs. Returns only when its environment lacks what it needs.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    match Server::new(platform.clone(), &environment).await {
        Ok(mut server) => server.serve().await,
        Err(Missing(what)) => {
            error!("cannot serve without {}", what);
            let component = report::clip(&environment.name);
            platform.report(&Report::Failure { component, reason: report::clip(what) }.encode());
        }
    }
}

/// A driver's request.
#[derive(Clone, Copy, Debug)]
enum Request {
    List(Index),
    Claim(pci_api::Claim),
    BarFrame(Index),
    Vector(Index),
    IoSpace,
    Start,
    Release,
    Interrupts(Kind),
}

impl Request {
    fn decode(message: &Message) -> Result<Self, Refusal> {
        let index = || message.payload::<Index>().map_err(|_| Refusal::BadRequest);
        match message.label {
            LIST => Ok(Self::List(index()?)),
            CLAIM => message.payload().map(Self::Claim).map_err(|_| Refusal::BadRequest),
            BAR_FRAME => Ok(Self::BarFrame(index()?)),
            VECTOR if message.cap_received => Ok(Self::Vector(index()?)),
            IO_SPACE => Ok(Self::IoSpace),
            START => Ok(Self::Start),
            RELEASE => Ok(Self::Release),
            INTERRUPTS => {
                let Index(number) = index()?;
                u16::try_from(number).map_err(|_| Refusal::BadRequest).and_then(Kind::from_api).map(Self::Interrupts)
            }
            _ => Err(Refusal::BadRequest),
        }
    }
}

/// The server.
#[derive(Debug)]
pub struct Server<P: Platform> {
    config: ServerConfig,
    resources: Resources<P>,
    functions: Vec<Function>,
    /// Each driver's claim, in the order of `config.drivers`.
    claims: Vec<Option<Claim<P::Mmio>>>,
    vspaces: Vec<platform::Cap<VSpace>>,
    /// Each driver's liveness page, and its state when it was last read.
    watched_drivers: Vec<Watched<P::Memory>>,
    receive_slot: CPtr,
}

/// A driver's liveness page.
#[derive(Debug)]
struct Watched<M> {
    page: M,
    known: Incarnation,
    /// Notifies the supervisor that nothing of the dead driver is in flight.
    silenced: platform::Cap<Notification>,
}

impl<P: Platform> Server<P> {
    /// Collects its resources, puts in order what an earlier server left, assigns addresses where firmware has not, walks the
    /// buses, which silences every function, and reports the functions found.
    ///
    /// # Errors
    ///
    /// [`Missing`] when the environment lacks something.
    pub async fn new(platform: P, environment: &Environment) -> Result<Self, Missing> {
        let config: ServerConfig = environment.config().ok_or(Missing("a configuration"))?;
        check_domains(&config.drivers)?;
        let vspaces: Option<Vec<_>> =
            (0u32..).zip(&config.drivers).map(|(index, _)| environment.cap_at(names::DRIVER_VSPACE, index)).collect();
        let watched_drivers =
            (0u32..).zip(&config.drivers).map(|(index, _)| watch(&platform, environment, index)).collect();
        let watched_drivers: Vec<_> = Option::ok_or(watched_drivers, Missing("the drivers' liveness pages"))?;
        let receive_slot = environment.receive_slot.ok_or(Missing("a receive slot"))?;
        let mut resources = Resources::new(platform, environment, &config)?;
        let unfinished = Missing("region sizing");
        let page = environment.region(names::SIZING).and_then(|region| resources.platform.memory(region).ok());
        let note = Note::new(page.ok_or(unfinished)?);
        tidy(&mut resources, &note, receive_slot).await.map_err(|_| unfinished)?;
        let windows = pci_windows(&config);
        let left_out = if config.assign { assign(&mut resources.config, &note, &windows) } else { Vec::new() };
        let mut functions = enumerate(&mut resources.config, &note, &windows, &left_out);
        if !config.assign {
            // Firmware places other functions only.
            virtual_functions::place(&mut functions, &windows, resources.config.buses());
        }
        // All of them are silent now: IOSpaces that an earlier server opened belong to no driver.
        resources.close_io_space(0);
        for function in &functions {
            log(function);
            resources.platform.report(&function.to_report().encode());
        }
        Ok(Self {
            claims: config.drivers.iter().map(|_| None).collect(),
            vspaces: vspaces.ok_or(Missing("run driver-vspace"))?,
            watched_drivers,
            receive_slot,
            config,
            resources,
            functions,
        })
    }

    async fn serve(&mut self) {
        self.notify_of_the_dead();
        loop {
            match self.resources.platform.next_event().await {
                Event::Signal(badge) => {
                    shared_line::on_signal(&mut self.resources, badge);
                    // With the supervisor's tick a driver may have died.
                    if badge.has(Badge::TICK) {
                        self.check_liveness();
                    }
                }
                Event::Message(badge, message) => {
                    self.check_liveness();
                    let answer = self.answer(badge, &message);
                    if message.cap_received {
                        self.drop_received();
                    }
                    self.resources.kernel().reply(&answer);
                }
            }
        }
    }

    /// Notifies the supervisor of drivers that were dead when the server started. They died with its previous incarnation, and
    /// their devices are silent by now.
    fn notify_of_the_dead(&self) {
        for watched in self.watched_drivers.iter().filter(|watched| !watched.known.is_alive()) {
            self.resources.kernel().signal(watched.silenced);
        }
    }

    /// Takes back dead drivers' claims, and notifies the supervisor.
    fn check_liveness(&mut self) {
        for driver in 0..self.watched_drivers.len() {
            let Some(watched) = self.watched_drivers.get_mut(driver) else { continue };
            let Ok(incarnation) = Incarnation::load(&watched.page) else { continue };
            if core::mem::replace(&mut watched.known, incarnation) == incarnation {
                continue;
            }
            let silenced = watched.silenced;
            if let Some(claim) = self.claims.get_mut(driver).and_then(Option::take) {
                let bdf = claim.bdf();
                claim.close(&mut self.resources);
                warn!("{:x}:{:x}.{} is taken back from a dead driver", bdf.bus(), bdf.device(), bdf.function());
            }
            if !incarnation.is_alive() {
                self.resources.kernel().signal(silenced);
            }
        }
    }

    /// Empties the receive slot, without which the next capability would not arrive.
    fn drop_received(&self) {
        let slot = self.resources.slot(self.receive_slot);
        if let Err(reason) = self.resources.kernel().cnode_delete(slot) {
            error!("the kernel refused deleting a received capability: {}", reason);
        }
    }

    fn answer(&mut self, badge: Badge, message: &Message) -> Message {
        let answered = self
            .driver_of(badge)
            .and_then(|driver| Request::decode(message).map(|request| (driver, request)))
            .and_then(|(driver, request)| self.grant(driver, request));
        answered.unwrap_or_else(|refusal| {
            warn!("driver {} was refused request {}: {}", badge.0, message.label, refusal);
            Message::new(refusal as u32)
        })
    }

    /// The number of the driver with this badge, from 0.
    fn driver_of(&self, badge: Badge) -> Result<usize, Refusal> {
        let index = badge.0.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        index.filter(|index| *index < self.claims.len()).ok_or(Refusal::NotAllowed)
    }

    fn grant(&mut self, driver: usize, request: Request) -> Result<Message, Refusal> {
        match request {
            Request::List(Index(index)) => {
                let function = usize::try_from(index).ok().and_then(|index| self.functions.get(index));
                Ok(Message::with(GRANTED, &function.ok_or(Refusal::NoSuchFunction)?.to_api()))
            }
            Request::Claim(claim) => self.claim(driver, claim),
            Request::BarFrame(Index(index)) => {
                let claim = self.claims.get(driver).and_then(Option::as_ref);
                Ok(Message::new(GRANTED).and_cap(claim.ok_or(Refusal::NotClaimed)?.frame(index)?))
            }
            Request::Vector(Index(index)) => self.vector(driver, index),
            Request::IoSpace => self.io_space(driver),
            Request::Start => {
                let claim = self.claims.get(driver).and_then(Option::as_ref);
                claim.ok_or(Refusal::NotClaimed)?.start(&mut self.resources);
                Ok(Message::new(GRANTED))
            }
            Request::Release => self.release(driver),
            Request::Interrupts(kind) => self.interrupts(driver, kind),
        }
    }

    fn claim(&mut self, driver: usize, asked: pci_api::Claim) -> Result<Message, Refusal> {
        let kind = Kind::from_api(asked.interrupts)?;
        let function = self.choose(driver, asked)?;
        let function = self.functions.get(function).ok_or(Refusal::NoSuchFunction)?;
        let source = self.source(driver, function, kind)?;
        let (config, vspaces, claims) = (&self.config, &self.vspaces, &mut self.claims);
        let claimant = claimant(config, vspaces, driver).ok_or(Refusal::NotAllowed)?;
        let place = claims.get_mut(driver).ok_or(Refusal::NotAllowed)?;
        let claim = Claim::open(&mut self.resources, function, &claimant, source)?;
        let claimed = claim.claimed();
        *place = Some(claim);
        let bdf = function.bdf;
        info!("{} claimed {:x}:{:x}.{}", claimant.config.name.as_str(), bdf.bus(), bdf.device(), bdf.function());
        Ok(Message::with(GRANTED, &claimed))
    }

    /// Changes the interrupt mode of a claimed function.
    fn interrupts(&mut self, driver: usize, kind: Kind) -> Result<Message, Refusal> {
        let bdf = self.claims.get(driver).and_then(Option::as_ref).ok_or(Refusal::NotClaimed)?.bdf();
        let function = self.functions.iter().find(|function| function.bdf == bdf).ok_or(Refusal::NoSuchFunction)?;
        let source = self.source(driver, function, kind)?;
        let (config, vspaces, claims) = (&self.config, &self.vspaces, &mut self.claims);
        let claimant = claimant(config, vspaces, driver).ok_or(Refusal::NotAllowed)?;
        let claim = claims.get_mut(driver).and_then(Option::as_mut).ok_or(Refusal::NotClaimed)?;
        let count = claim.change_interrupts(&mut self.resources, function, &claimant, source)?;
        info!(
            "{} changed the interrupts of {:x}:{:x}.{}",
            claimant.config.name.as_str(),
            bdf.bus(),
            bdf.device(),
            bdf.function()
        );
        Ok(Message::with(GRANTED, &Count(count.into())))
    }

    /// The number of the function that a driver asks for, if it may have it now.
    fn choose(&self, driver: usize, asked: pci_api::Claim) -> Result<usize, Refusal> {
        if self.claims.get(driver).is_some_and(Option::is_some) {
            return Err(Refusal::Busy);
        }
        // Of several functions of a class code the first free one is taken, and the last one's refusal reported if there is
        // none.
        let mut refusal = Refusal::NoSuchFunction;
        for (index, function) in self.functions.iter().enumerate() {
            let wanted = match asked.bdf {
                BY_CLASS_CODE => function.class_code_bits() == asked.class_code,
                bdf => function.bdf.to_raw() == bdf,
            };
            if wanted {
                match self.may_have(driver, function) {
                    Ok(()) => return Ok(index),
                    // A refusal for a busy function is more useful to the driver than one for a function it may not have.
                    Err(Refusal::NotAllowed) if refusal != Refusal::NoSuchFunction => {}
                    Err(reason) => refusal = reason,
                }
            }
        }
        Err(refusal)
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
        Ok(())
    }

    fn matches(&self, allowed: &Match, function: &Function) -> bool {
        match allowed {
            Match::Bdf(bdf) => function.bdf.to_raw() == *bdf,
            Match::ClassCode { class_code, index } => {
                let same = |other: &&Function| {
                    [other.class_code.base, other.class_code.sub, other.class_code.interface] == *class_code
                };
                self.functions
                    .iter()
                    .filter(same)
                    .nth(usize::from(*index))
                    .is_some_and(|found| found.bdf == function.bdf)
            }
        }
    }

    /// The source of a driver's interrupts. The server keeps a line that another driver could come to use as well: a driver
    /// with the line's handler could withhold the interrupts from the other.
    fn source(&self, driver: usize, function: &Function, kind: Kind) -> Result<Source, Refusal> {
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

    fn vector(&mut self, driver: usize, index: u64) -> Result<Message, Refusal> {
        let claim = self.claims.get_mut(driver).and_then(Option::as_mut).ok_or(Refusal::NotClaimed)?;
        let (bound, cap) = claim.vector(&mut self.resources, index, self.receive_slot.cast())?;
        Ok(Message::with(GRANTED, &bound).and_cap(cap))
    }

    fn io_space(&mut self, driver: usize) -> Result<Message, Refusal> {
        let config = self.config.drivers.get(driver).ok_or(Refusal::NotAllowed)?;
        let claim = self.claims.get_mut(driver).and_then(Option::as_mut).ok_or(Refusal::NotClaimed)?;
        let io_space = claim.io_space(&mut self.resources, config.domain)?;
        Ok(Message::new(GRANTED).and_cap(io_space))
    }

    fn release(&mut self, driver: usize) -> Result<Message, Refusal> {
        let claim = self.claims.get_mut(driver).and_then(Option::take).ok_or(Refusal::NotClaimed)?;
        let bdf = claim.bdf();
        claim.close(&mut self.resources);
        info!("driver {} released {:x}:{:x}.{}", driver, bdf.bus(), bdf.device(), bdf.function());
        Ok(Message::new(GRANTED))
    }
}

/// The driver of this number, for a claim.
fn claimant<'a>(config: &'a ServerConfig, vspaces: &[platform::Cap<VSpace>], driver: usize) -> Option<Driver<'a>> {
    Some(Driver {
        config: config.drivers.get(driver)?,
        index: driver,
        count: config.drivers.len(),
        vspace: *vspaces.get(driver)?,
    })
}

fn watch<P: Platform>(platform: &P, environment: &Environment, driver: u32) -> Option<Watched<P::Memory>> {
    let region = environment.region(&names::liveness(driver))?;
    let page = platform.memory(region).ok()?;
    let known = Incarnation::load(&page).ok()?;
    Some(Watched { page, known, silenced: environment.cap_at(names::SILENCED, driver)? })
}

/// Checks that no two drivers have one domain: their requester ids would share translations, and the kernel does not check.
fn check_domains(drivers: &[DriverConfig]) -> Result<(), Missing> {
    let mut domains: Vec<u16> = drivers.iter().map(|driver| driver.domain).collect();
    domains.sort_unstable();
    let twice = domains.iter().zip(domains.iter().skip(1)).any(|(a, b)| a == b);
    if twice || domains.first() == Some(&0) {
        return Err(Missing("an IOMMU domain of its own for each driver"));
    }
    Ok(())
}

fn log(function: &Function) {
    let bdf = function.bdf;
    info!(
        "{:x}:{:x}.{} depth {} {:x}:{:x} class {:x}, {} MSI-X vectors, {} MSI vectors",
        bdf.bus(),
        bdf.device(),
        bdf.function(),
        function.path.len(),
        function.vendor,
        function.device,
        function.class_code_bits(),
        function.msix_vectors(),
        function.msi_vectors()
    );
    if let Some(bridge) = function.bridge {
        info!("  a bridge to buses {:x} to {:x}", bridge.numbers.secondary(), bridge.numbers.subordinate());
    } else if let Some(reason) = function.unusable.filter(|_| function.class_code.base != BASE_CLASS_BRIDGE) {
        warn!("  {}", reason.text());
    }
    if let Some(VirtualFunctions { sriov, unusable, .. }) = &function.virtual_functions {
        info!("  {} virtual functions", sriov.total);
        if let Some(reason) = unusable {
            warn!("  which cannot be used: each {}", reason.text());
        }
    }
}
