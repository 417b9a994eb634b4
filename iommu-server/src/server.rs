//! The component: answers the PCI server, which opens and closes domains, and drivers, which map frames in theirs.
//!
//! A caller is known by the badge of its call. Its message is decoded once; a mistake ends in a refusal and does not affect
//! others. A driver names a frame by a number, and the server looks it up in a table that the root task wrote. The server has no
//! cptr to receive a capability at, so no caller can hand it an object, and it invokes nothing that a caller chose. A client's
//! calls are bounded from tick to tick (`budgets`).

use crate::budgets::Budgets;
use crate::{Config, Devices, Direction, Domains, Error, Fault, Pool, Smmu};
use alloc::vec::Vec;
use iommu_api::blocked::{Blocked, HAS_ADDRESS, WRITE, Writer};
use iommu_api::frames::Frames;
use iommu_api::names;
use iommu_api::{BUSY, CLOSE, Close, DONE, MAP, MASTER, Map, OPEN, Open, RESET, ServerConfig, UNMAP, Unmap, refusal};
use platform::log::{error, info, warn};
use platform::{Badge, Cap, Environment, Event, Frame, Iova, Kernel, Message, Paddr, Platform, Region};
use report::{Report, clip};
use zerocopy::FromBytes;

/// Polls of a register that does not change before it counts as stuck: some milliseconds.
const POLLS: u32 = 1_000_000;
/// Functions that are reported between two ticks, at most.
const MOST_FUNCTIONS: usize = 16;
/// Times that the event queue is emptied at a tick: a device may refill it as quickly.
const DRAINS: u32 = 8;

/// Serves as long as the component runs. Returns only when its environment lacks an item, or the SMMU a feature.
pub async fn run<P: Platform>(platform: P, environment: Environment) {
    match Server::new(platform.clone(), &environment) {
        Ok(mut server) => server.serve().await,
        Err(reason) => {
            error!("no IOSpaces: {}", reason);
            platform.report(&Report::Failure { component: clip(&environment.name), reason: clip(reason) }.encode());
        }
    }
}

struct Server<P: Platform> {
    platform: P,
    domains: Domains<P::Mmio, P::Memory>,
    budgets: Budgets,
    blocked: Writer<P::Memory>,
}

impl<P: Platform> Server<P> {
    fn new(platform: P, environment: &Environment) -> Result<Self, &'static str> {
        let config: ServerConfig = environment.config().ok_or("a configuration is missing")?;
        let region = |name| environment.region(name).ok_or("a region is missing");
        let registers = registers(&platform, region(names::SMMU)?)?;
        let memory = platform.memory(region(names::TABLES)?).map_err(|_| "the tables' memory is missing")?;
        let pool = pool(&platform, environment, memory)?;
        // After the death of an earlier one devices go on, until the PCI server has silenced them.
        let smmu = Smmu::start(registers, pool, Config { polls: POLLS, devices: Devices::MaySend });
        let smmu = smmu.map_err(Error::sentence)?;
        info!("an SMMU with {} pages for tables", smmu.free_pages());
        let table = platform.memory(region(names::FRAMES)?).map_err(|_| "the table of frames is missing")?;
        let frames = Frames::read(&table).map_err(|_| "the table of frames is longer than its memory")?;
        let page =
            platform.memory(region(names::BLOCKED)?).map_err(|_| "the page of blocked transactions is missing")?;
        let budgets = Budgets::new(&config.drivers, &frames);
        let domains = Domains::new(smmu, config, frames).map_err(Error::sentence)?;
        Ok(Self { domains, budgets, blocked: Writer::new(page), platform })
    }

    async fn serve(&mut self) {
        loop {
            match self.platform.next_event().await {
                Event::Signal(badge) => {
                    if badge.has(Badge::TICK) {
                        self.budgets.refill();
                    }
                    self.poll_faults();
                }
                Event::Message(badge, message) => {
                    let label = if self.budgets.takes_call(badge.0) {
                        self.answer(badge, &message).map_or_else(refusal, |()| DONE)
                    } else {
                        BUSY
                    };
                    self.platform.kernel().reply(&Message::new(label));
                }
            }
        }
    }

    fn answer(&mut self, badge: Badge, message: &Message) -> platform::Result<()> {
        match (badge.0, message.label) {
            (MASTER, OPEN) => {
                let Open { domain, requester_id, reserved: _ } = payload(message)?;
                self.domains.open(domain.into(), requester_id)?;
                info!("domain {} is of function {:x}", domain, requester_id);
                Ok(())
            }
            (MASTER, CLOSE) => self.domains.close(payload::<Close>(message)?.domain),
            (MASTER, RESET) => self.domains.close_all(),
            (MASTER, _) => Err(platform::Error::IllegalOperation),
            (domain, MAP) => {
                let Map { iova, cptr, writable } = payload(message)?;
                self.domains.map(domain, Iova::new(iova), cptr, writable != 0)
            }
            (domain, UNMAP) => self.domains.unmap(domain, Iova::new(payload::<Unmap>(message)?.iova)),
            _ => Err(platform::Error::IllegalOperation),
        }
    }

    /// Records, by function, the transactions that were blocked since the last tick.
    fn poll_faults(&mut self) {
        let mut found = Vec::new();
        for _ in 0..DRAINS {
            match self.domains.faults(|fault| count(&mut found, &fault)) {
                Ok(drained) if drained.more => {}
                Ok(drained) => {
                    if drained.lost {
                        warn!("of the IOMMU's faults some were lost");
                    }
                    break;
                }
                Err(reason) => {
                    error!("the SMMU says nothing of faults: {}", reason.sentence());
                    break;
                }
            }
        }
        for blocked in found {
            if self.blocked.add(&blocked).is_err() {
                error!("the page of blocked transactions is too small");
            }
        }
    }
}

/// Adds a fault to those of its function. Functions beyond [`MOST_FUNCTIONS`] are left out.
fn count(found: &mut Vec<Blocked>, fault: &Fault) {
    let requester_id = fault.stream.0 as u16;
    if let Some(blocked) = found.iter_mut().find(|blocked| blocked.requester_id == requester_id) {
        blocked.times = blocked.times.saturating_add(1);
        return;
    }
    let direction = if fault.direction == Some(Direction::Write) { WRITE } else { 0 };
    let flags = direction | if fault.iova.is_some() { HAS_ADDRESS } else { 0 };
    let address = fault.iova.map_or(0, Iova::bits);
    if found.len() < MOST_FUNCTIONS {
        found.push(Blocked { requester_id, flags, times: 1, address });
    }
}

fn payload<T: FromBytes>(message: &Message) -> platform::Result<T> {
    message.payload().map_err(|_| platform::Error::TruncatedMessage)
}

fn registers<P: Platform>(platform: &P, region: &Region) -> Result<P::Mmio, &'static str> {
    let len = usize::try_from(region.len).unwrap_or(usize::MAX);
    platform.mmio(region.vaddr, len).map_err(|_| "the SMMU's registers are missing")
}

/// The pages of the run `tables`, which are mapped consecutively.
fn pool<P: Platform>(
    platform: &P,
    environment: &Environment,
    memory: P::Memory,
) -> Result<Pool<P::Memory>, &'static str> {
    let pages = (0..environment.cap_count(names::TABLES)).map(|index| {
        let frame: Cap<Frame> = environment.cap_at(names::TABLES, index)?;
        platform.kernel().frame_get_address(frame).ok()
    });
    let pages: Vec<Paddr> = pages.collect::<Option<_>>().ok_or("the tables have no addresses")?;
    Pool::new(memory, &pages).map_err(|_| "the tables' memory cannot be used")
}
