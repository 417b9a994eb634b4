//! The server's loop: waits for a request, answers it, waits again.
//!
//! A driver is known by the badge of its call. Its message is decoded into a [`Request`] once; after that, code works on
//! checked values only. A driver's mistakes end in a [`Refusal`] and do not affect others.
//!
//! A client's calls are bounded from tick to tick (`budget`).
//!
//! A function under reset must not be accessed for 100 ms (`provision`, `reset`). Its driver's requests are refused meanwhile,
//! its driver's death is noticed afterwards, and others are served as usual.
//!
//! Devices in hot-plug slots come and go (`slots`): each slot takes a step at every tick.
//!
//! The server can die at any moment, and its drivers with it. The next incarnation begins with nothing claimed: it silences
//! every function, and only then reports to the supervisor which drivers' devices are silent.
//!
//! A driver's access ends with its claim, so that a function can go from one driver to another. For the IOSpace this rests
//! on the kernel's fix `io-space-revoke` (`docs/decisions`): seL4 5.0.0 by itself leaves the driver's copy alive, and with
//! it the driver reaches into the address space of the function's next driver.

use crate::assign::assign;
use crate::claim::{Claim, Driver};
use crate::enumerate::{MAX_DEPTH, enumerate, find_msix};
use crate::function::{Function, VirtualFunctions};
use crate::interrupts::Kind;
use crate::power::wake_all;
use crate::predecessor::tidy;
use crate::provision::Provision;
use crate::resources::{Missing, Resources, pci_windows};
use crate::sizing::Note;
use crate::virtual_functions;
use crate::{msix, shared_line};
use alloc::vec::Vec;
use pci_api::{
    BAR_FRAME, CLAIM, Count, DriverConfig, GRANTED, INTERRUPTS, IO_SPACE, Index, LIST, RELEASE, RESTORE, Refusal,
    START, ServerConfig, VECTOR, VIRTUAL_FUNCTIONS, WITHDRAW, names,
};
use platform::log::{error, info, warn};
use platform::{Badge, CPtr, Environment, Event, Kernel, Message, Platform, VSpace};
use report::Report;

mod budget;
mod choice;
mod liveness;
mod slots;
mod virtual_requests;

use budget::Budget;
use liveness::Watched;
use slots::Slot;

const BASE_CLASS_BRIDGE: u8 = 0x06;

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
    /// 0 to disable them.
    VirtualFunctions(u16),
    Withdraw(Index),
    Restore(Index),
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
            VIRTUAL_FUNCTIONS => {
                let Index(number) = index()?;
                u16::try_from(number).map_err(|_| Refusal::NoSuchFunction).map(Self::VirtualFunctions)
            }
            WITHDRAW => Ok(Self::Withdraw(index()?)),
            RESTORE => Ok(Self::Restore(index()?)),
            _ => Err(Refusal::BadRequest),
        }
    }
}

/// The server.
#[derive(Debug)]
pub struct Server<P: Platform> {
    config: ServerConfig,
    resources: Resources<P>,
    /// The functions on the buses, without virtual ones.
    functions: Vec<Function>,
    /// The slots whose devices come and go.
    slots: Vec<Slot<P::Memory>>,
    /// The virtual functions of each physical function whose driver ever asked for them.
    provisions: Vec<Provision>,
    note: Note<P::Memory>,
    /// Each driver's claim, in the order of `config.drivers`.
    claims: Vec<Option<Claim<P::Mmio>>>,
    /// Whether each driver's virtual function is withdrawn from it.
    withdrawn: Vec<bool>,
    vspaces: Vec<platform::Cap<VSpace>>,
    /// Each driver's liveness page, and its state when it was last read.
    watched_drivers: Vec<Watched<P::Memory>>,
    receive_cptr: CPtr,
    /// The budget of each driver's calls, for clients.
    budgets: Vec<Option<Budget>>,
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
            (0u32..).zip(&config.drivers).map(|(index, _)| Watched::new(&platform, environment, index)).collect();
        let watched_drivers: Vec<_> = Option::ok_or(watched_drivers, Missing("the drivers' liveness pages"))?;
        let receive_cptr = environment.receive_cptr.ok_or(Missing("a receive cptr"))?;
        let mut resources = Resources::new(platform, environment, &config)?;
        let unfinished = Missing("region sizing");
        let page = environment.region(names::SIZING).and_then(|region| resources.platform.memory(region).ok());
        let note = Note::new(page.ok_or(unfinished)?);
        tidy(&mut resources, &note, receive_cptr).await.map_err(|_| unfinished)?;
        let windows = pci_windows(&config);
        let number = |config_space: &mut _, note: &_| {
            if config.assign { assign(config_space, note, &windows, &config.slots()) } else { Vec::new() }
        };
        let mut left_out = number(&mut resources.config, &note);
        for _ in 0..=MAX_DEPTH {
            if !wake_all(&mut resources, &note).await.map_err(|_| unfinished)? {
                break;
            }
            // Others may be behind those that were woken.
            left_out = number(&mut resources.config, &note);
        }
        let mut functions = enumerate(&mut resources.config, &note, &windows, &left_out);
        if !config.assign {
            // Firmware places other functions only.
            virtual_functions::place(&mut functions, &windows, resources.config.buses());
        }
        let slots = slots::find(&mut resources, environment, &config, &functions, &note)?;
        // All of them are silent now: IOSpaces that an earlier server opened belong to no driver.
        resources.close_io_space(0);
        for function in &functions {
            log(function);
            resources.platform.report(&function.to_report().encode());
        }
        Ok(Self {
            budgets: Budget::all(&mut resources, &config.drivers)?,
            claims: config.drivers.iter().map(|_| None).collect(),
            withdrawn: config.drivers.iter().map(|_| false).collect(),
            vspaces: vspaces.ok_or(Missing("run driver-vspace"))?,
            watched_drivers,
            receive_cptr,
            config,
            resources,
            functions,
            slots,
            provisions: Vec::new(),
            note,
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
                        self.settle();
                        self.check_liveness();
                        self.watch_slots();
                        self.answer_kept();
                    }
                }
                Event::Message(badge, message) if self.keeps(badge, &message) => {}
                Event::Message(badge, message) => {
                    self.settle();
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

    /// Empties the receive cptr, without which the next capability would not arrive.
    fn drop_received(&self) {
        let cptr = self.resources.absolute(self.receive_cptr);
        if let Err(reason) = self.resources.kernel().cnode_delete(cptr) {
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
        if matches!(request, Request::Claim(_)) && self.withdrawn.get(driver) == Some(&true) {
            return Err(Refusal::Withdrawn);
        }
        // The others access the function, or end its claim.
        let is_of_others = matches!(request, Request::List(_) | Request::Withdraw(_) | Request::Restore(_));
        if !is_of_others && !matches!(request, Request::VirtualFunctions(_)) && self.is_function_resetting(driver) {
            return Err(Refusal::NotReady);
        }
        let claim = self.claims.get(driver).and_then(Option::as_ref);
        if claim.is_some_and(Claim::is_withdrawn) && !matches!(request, Request::Claim(_) | Request::Release) {
            return Err(Refusal::Withdrawn);
        }
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
                let claim = self.claims.get_mut(driver).and_then(Option::as_mut);
                claim.ok_or(Refusal::NotClaimed)?.start(&mut self.resources);
                Ok(Message::new(GRANTED))
            }
            Request::Release => self.release(driver),
            Request::Interrupts(kind) => self.interrupts(driver, kind),
            Request::VirtualFunctions(number) => self.virtual_functions(driver, number),
            Request::Withdraw(index) => self.withdraw(driver, index),
            Request::Restore(index) => self.restore(driver, index),
        }
    }

    fn claim(&mut self, driver: usize, asked: pci_api::Claim) -> Result<Message, Refusal> {
        let kind = Kind::from_api(asked.interrupts)?;
        let mut function = self.choose(driver, asked)?.clone();
        // A controller's vectors may have been assigned since it was found (NVMe 8.5).
        function.msix = find_msix(&self.resources.config, function.bdf).map_err(|_| Refusal::Unusable)?;
        if msix::misplaced(&function).is_some() {
            return Err(Refusal::Unusable);
        }
        let source = self.source(driver, &function, kind)?;
        let (config, vspaces, claims) = (&self.config, &self.vspaces, &mut self.claims);
        let claimant = claimant(config, vspaces, driver).ok_or(Refusal::NotAllowed)?;
        let place = claims.get_mut(driver).ok_or(Refusal::NotAllowed)?;
        let claim = Claim::open(&mut self.resources, &function, &claimant, source)?;
        let claimed = claim.claimed();
        *place = Some(claim);
        let (bdf, driver) = (function.bdf, report::clip(&claimant.config.name));
        let cptrs_left = self.resources.cptrs_left();
        let report = Report::Claimed { driver, requester_id: claimed.requester_id, cptrs_left };
        self.resources.platform.report(&report.encode());
        info!("{} claimed {:x}:{:x}.{}", claimant.config.name.as_str(), bdf.bus(), bdf.device(), bdf.function());
        Ok(Message::with(GRANTED, &claimed))
    }

    /// Changes the interrupt mode of a claimed function.
    fn interrupts(&mut self, driver: usize, kind: Kind) -> Result<Message, Refusal> {
        let claim = self.claims.get(driver).and_then(Option::as_ref).ok_or(Refusal::NotClaimed)?;
        let (bdf, msix) = (claim.bdf(), claim.msix());
        let function =
            self.all_functions().find(|function| function.bdf == bdf).ok_or(Refusal::NoSuchFunction)?.clone();
        // The pages that the driver does not have are those of its claim.
        let function = Function { msix, ..function };
        let source = self.source(driver, &function, kind)?;
        let (config, vspaces, claims) = (&self.config, &self.vspaces, &mut self.claims);
        let claimant = claimant(config, vspaces, driver).ok_or(Refusal::NotAllowed)?;
        let claim = claims.get_mut(driver).and_then(Option::as_mut).ok_or(Refusal::NotClaimed)?;
        let count = claim.change_interrupts(&mut self.resources, &function, &claimant, source)?;
        info!(
            "{} changed the interrupts of {:x}:{:x}.{}",
            claimant.config.name.as_str(),
            bdf.bus(),
            bdf.device(),
            bdf.function()
        );
        Ok(Message::with(GRANTED, &Count(count.into())))
    }

    /// The functions on the buses, in the order of the walk, and then virtual ones.
    fn all_functions(&self) -> impl Iterator<Item = &Function> {
        self.functions.iter().chain(self.provisions.iter().flat_map(Provision::found))
    }

    fn vector(&mut self, driver: usize, index: u64) -> Result<Message, Refusal> {
        let claim = self.claims.get_mut(driver).and_then(Option::as_mut).ok_or(Refusal::NotClaimed)?;
        let (bound, cap) = claim.vector(&mut self.resources, index, self.receive_cptr.cast())?;
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
