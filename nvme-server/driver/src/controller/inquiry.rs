//! Questions to a controller at its bring-up, beside Identify Controller: limits, delays and namespaces. The NVMe server asks them for
//! its controller, and a client for a function of its own.
//!
//! A controller that refuses a question is used as one to which the standard gives no answer, and a namespace of which it refuses
//! to say something is left out ([`unless_refused`]). Left out: what is concluded of the answers.

use crate::command::Abilities;
use crate::fault::DeviceFault;
use crate::queue_pair::Ring;
use crate::retry::RetryDelays;
use alloc::vec::Vec;
use core::future::Future;
use nvme_spec::feature::{Feature, HostBehavior, set_feature_by_data};
use nvme_spec::identify::{self, CommandSetId, IdList, NamespaceList, NvmLimits};
use nvme_spec::registers::{Cap, Vs};
use nvme_spec::{Cid, Cqe, DataPointer, Nsid, Sqe, Status, StatusCode, admin};
use platform::Memory;

/// The most namespaces that are identified.
pub const MAX_NAMESPACES: u32 = 256;
/// Attempts to learn something of a namespace that the controller refuses to say.
const ATTEMPTS: u8 = 3;
/// The first revision with a list of active namespaces.
const WITH_LIST: Vs = Vs::new().with_mjr(1).with_mnr(1);

/// A driver's way to its admin queue.
pub trait Asks {
    /// Memory of the answers.
    type Memory: Memory;

    /// The page that answers are written to.
    fn page(&self) -> &Ring<Self::Memory>;

    /// Executes a command that must succeed.
    ///
    /// # Errors
    /// [`DeviceFault::Refused`] for a completion that is no success, and whatever is wrong with the controller.
    fn must(&mut self, build: impl Fn(Cid) -> Sqe) -> impl Future<Output = Result<Cqe, DeviceFault>>;

    /// Waits for the next tick.
    fn wait(&mut self) -> impl Future<Output = ()>;
}

fn page(asks: &impl Asks) -> DataPointer {
    DataPointer::page(asks.page().iova.bits())
}

/// The description of itself by a controller that a driver can use.
///
/// # Errors
/// [`DeviceFault::Unusable`] for another one; and as [`Asks::must`].
pub async fn describe(asks: &mut impl Asks) -> Result<identify::Controller, DeviceFault> {
    let data = page(asks);
    asks.must(|cid| admin::identify_controller(cid, data)).await?;
    let place = asks.page();
    let about: identify::Controller = place.memory.read(place.offset)?;
    if !about.supports_standard_entries() {
        return Err(DeviceFault::Unusable("the controller's queue entries have other sizes than 64 and 16 bytes"));
    }
    if !about.kind().does_io() {
        return Err(DeviceFault::Unusable("the controller is for discovery or administration alone (CNTRLTYPE)"));
    }
    Ok(about)
}

/// The largest transfer of one command, bytes, whatever the controller allows: bounds the list pages of each command in flight.
const MAX_TRANSFER: u64 = 2 << 20;

/// The largest transfer of one command that is used, bytes, and the optional operations that the controller supports.
///
/// # Errors
/// As [`Asks::must`], but for a refusal.
pub async fn limits(
    asks: &mut impl Asks,
    version: Vs,
    cap: Cap,
    about: &identify::Controller,
) -> Result<(u64, Abilities), DeviceFault> {
    let limits = nvm_limits(asks, version, cap).await?;
    let max_transfer = about.max_transfer_bytes(cap.min_page_bytes()).unwrap_or(MAX_TRANSFER).min(MAX_TRANSFER);
    Ok((max_transfer, Abilities::of(about, &limits, cap.min_page_bytes())))
}

/// The delays before retries that the controller will name. It names them to a host that says that it keeps them (Host Behavior
/// Support, base specification 1.4, section 5.21.1.22).
///
/// # Errors
/// As [`Asks::must`], but for a refusal.
pub async fn retry_delays(asks: &mut impl Asks, about: &identify::Controller) -> Result<RetryDelays, DeviceFault> {
    let delays = RetryDelays::of(about);
    if !delays.are_stated() {
        return Ok(delays);
    }
    let place = asks.page();
    place.memory.write(place.offset, &HostBehavior::RETRIES_LATER)?;
    let data = page(asks);
    match asks.must(|cid| set_feature_by_data(cid, Feature::HostBehavior, data)).await {
        Ok(_) => Ok(delays),
        // It names none then.
        Err(DeviceFault::Refused(_)) => Ok(RetryDelays::default()),
        Err(fault) => Err(fault),
    }
}

/// The limits of commands without data, as far as the controller states them.
///
/// # Errors
/// As [`Asks::must`], but for a refusal.
async fn nvm_limits(asks: &mut impl Asks, version: Vs, cap: Cap) -> Result<NvmLimits, DeviceFault> {
    if !NvmLimits::are_stated(version, cap.css_other()) {
        return Ok(NvmLimits::NONE);
    }
    let data = page(asks);
    match asks.must(|cid| admin::identify_nvm_limits(cid, data)).await {
        Ok(_) => {
            let place = asks.page();
            Ok(place.memory.read(place.offset)?)
        }
        Err(DeviceFault::Refused(_)) => Ok(NvmLimits::NONE),
        Err(fault) => Err(fault),
    }
}

/// Identifiers of the active namespaces, and whether the controller says which are active. One before revision 1.1 has no list of
/// them, and some of revision 1.1 have none either: there all identifiers up to NN are to be tried, and an inactive one has no
/// blocks. [`MAX_NAMESPACES`] at most.
///
/// # Errors
/// As [`Asks::must`], but for a refusal of the list as a field.
pub async fn namespaces(
    asks: &mut impl Asks,
    version: Vs,
    about: &identify::Controller,
) -> Result<(Vec<Nsid>, bool), DeviceFault> {
    if version >= WITH_LIST {
        let data = page(asks);
        match asks.must(|cid| admin::identify_active_namespaces(cid, Nsid::NONE, data)).await {
            Ok(_) => {
                let place = asks.page();
                let list: NamespaceList = place.memory.read(place.offset)?;
                return Ok((list.iter().take(MAX_NAMESPACES as usize).collect(), true));
            }
            Err(DeviceFault::Refused(status)) if status.code() == StatusCode::InvalidField => {}
            Err(fault) => return Err(fault),
        }
    }
    Ok(((1..=about.nn.get().min(MAX_NAMESPACES)).map(Nsid).collect(), false))
}

/// Asks a `question` about one namespace, again where the controller may answer later. The status if it refuses, which says nothing of
/// other namespaces.
///
/// # Errors
/// As [`Asks::must`], but for a refusal.
pub async fn unless_refused<A: Asks, T>(
    asks: &mut A,
    question: impl AsyncFn(&mut A) -> Result<T, DeviceFault>,
) -> Result<Result<T, Status>, DeviceFault> {
    let mut attempt = 1;
    loop {
        match question(asks).await {
            // One that it asks for again was tried again already.
            Err(DeviceFault::Refused(status))
                if status.do_not_retry() || status.asks_for_retry() || attempt == ATTEMPTS =>
            {
                return Ok(Err(status));
            }
            Err(DeviceFault::Refused(_)) => asks.wait().await,
            answer => return answer.map(Ok),
        }
        attempt = attempt.saturating_add(1);
    }
}

/// The I/O command set of a namespace, if the controller says it. One that has no other command sets need not.
///
/// # Errors
/// As [`Asks::must`].
pub async fn command_set(asks: &mut impl Asks, cap: Cap, nsid: Nsid) -> Result<Option<CommandSetId>, DeviceFault> {
    if !cap.css_other() {
        return Ok(Some(CommandSetId::Nvm));
    }
    let data = page(asks);
    asks.must(|cid| admin::identify_descriptors(cid, nsid, data)).await?;
    let place = asks.page();
    let list: IdList = place.memory.read(place.offset)?;
    Ok(list.command_set())
}

/// Identify Namespace: the size and the formats of a namespace.
///
/// # Errors
/// As [`Asks::must`].
pub async fn namespace(asks: &mut impl Asks, nsid: Nsid) -> Result<identify::Namespace, DeviceFault> {
    let data = page(asks);
    asks.must(|cid| admin::identify_namespace(cid, nsid, data)).await?;
    let place = asks.page();
    Ok(place.memory.read(place.offset)?)
}
