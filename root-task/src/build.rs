//! Builds the running system from the payload: the order of the steps, and their reports.

use crate::allocator::Allocator;
#[cfg(feature = "fault-injection")]
use crate::moments::Moments;
use crate::objects::Objects;
use crate::state::Build;
use crate::supervisor::Supervisor;
use crate::{BootInfo, BuildError, Services};
use alloc::collections::BTreeMap;
use alloc::rc::Rc;
use alloc::vec;
use capdl_spec::{ObjectId, ObjectKind, Specification};
use platform::log::info;
use platform::{Badge, CPtr, CapData, Kernel, Memory, Notification, PAGE_SIZE, Platform, Rights, ticks_to_ns};
use report::{Machine, Report};

/// The array of frames that is the root task's log ring.
const LOG: &str = "root-task.log";
/// The notification the console waits on.
const CONSOLE: &str = "console.event";
/// Reason with which a root task without the feature `fault-injection` refuses a specification with kill orders or moments.
const INJECTION_REFUSED: &str = "it has kill orders or moments, and this root task was built without fault injection";
/// The root task's own number, in logs and in its badge at the console.
pub(crate) const OWN_COMPONENT: u16 = 0;

/// Builds the system in `payload` and starts its components, which run as soon as the caller waits.
///
/// # Errors
/// [`BuildError`]: then no component was started.
pub fn boot<P: Platform, S: Services<P>>(
    platform: P,
    services: S,
    boot: &BootInfo,
    payload: &P::Memory,
) -> Result<Supervisor<P, S>, BuildError> {
    let began = platform.ticks();
    let (specification, data) = read_specification(payload)?;
    let mut allocator = Allocator::new(boot);
    let objects = Objects::make(platform.kernel(), boot, &mut allocator, &specification)?;
    let mut build = Build {
        platform: platform.clone(),
        boot: boot.clone(),
        mapped: vec![false; specification.objects.len()],
        specification: Rc::new(specification),
        payload: payload.clone(),
        data,
        allocator,
        objects,
        pages: BTreeMap::new(),
        installed: BTreeMap::new(),
        scratch_cptr: None,
    };
    build.map_own_tables()?;
    build.start_log(&services)?;
    build.fill_frames()?;
    build.write_frame_tables()?;
    let liveness = build.map_liveness()?;
    #[cfg(feature = "fault-injection")]
    let moments = Moments::new(&mut build, liveness.next_place())?;
    build.map_all()?;
    // The timer's interrupt comes first: the right to make interrupt handlers is given away with the capabilities.
    let timer = build.make_timer(&services)?;
    build.install_all()?;
    let threads = build.configure_threads()?;
    if build.specification.report_caps && build.sweep()? {
        info!("every cptr of every component is as specified");
    }
    build.report_machine();
    build.report_telemetry()?;
    let took = ticks_to_ns(platform.ticks().saturating_sub(began), platform.ticks_per_second());
    info!("{} components built in {} us", threads.len(), took / 1000);
    build.resume(&threads)?;
    let supervisor = Supervisor::new(build, services, timer, liveness, threads);
    #[cfg(feature = "fault-injection")]
    let supervisor = supervisor.injecting(moments);
    Ok(supervisor)
}

/// The specification in `payload`, and where its data begin.
fn read_specification<M: Memory>(payload: &M) -> Result<(Specification, usize), BuildError> {
    let impossible = || BuildError::specification("", "the payload is shorter than its specification");
    let mut header = [0; size_of::<u64>()];
    payload.read_bytes(0, &mut header).map_err(|_| impossible())?;
    let len = usize::try_from(u64::from_le_bytes(header)).ok();
    let end = len.and_then(|len| len.checked_add(header.len())).filter(|end| *end <= payload.len());
    let data = end.and_then(|end| end.checked_next_multiple_of(PAGE_SIZE)).ok_or_else(impossible)?;
    let mut image = vec![0; data];
    let (head, _) = image.split_at_mut_checked(data.min(payload.len())).ok_or_else(impossible)?;
    payload.read_bytes(0, head).map_err(|_| impossible())?;
    let (specification, _) = Specification::parse(&image).map_err(|reason| BuildError::specification("", reason))?;
    let injects = !specification.kills.is_empty() || !specification.moments.is_empty();
    if cfg!(not(feature = "fault-injection")) && injects {
        return Err(BuildError::specification("", INJECTION_REFUSED));
    }
    Ok((specification, data))
}

impl<P: Platform> Build<P> {
    /// Starts the root task's log. Its ring is an object of the specification like any other, so that the console's right to
    /// read it stands there, too. A system without a console has no ring.
    fn start_log<S: Services<P>>(&mut self, services: &S) -> Result<(), BuildError> {
        let (Some(log), Some(console)) = (self.find(LOG), self.find(CONSOLE)) else { return Ok(()) };
        let ring = self.map_own_ring(log)?;
        let badge = Badge(Badge::SIGNAL | 1 << OWN_COMPONENT);
        let console = self.mint_own::<Notification>(console, badge)?;
        let unreachable = BuildError::OutOfBounds { what: "the root task's log ring" };
        services.start_log(&ring, console).map_err(|_| unreachable)?;
        info!("{} objects made, {} bytes of memory left", self.objects.made, self.allocator.left());
        Ok(())
    }

    /// A badged capability of the root task's own to signal the notification `id`.
    pub(crate) fn mint_own<T: platform::CapType>(
        &mut self,
        id: ObjectId,
        badge: Badge,
    ) -> Result<platform::Cap<T>, BuildError> {
        let from = self.objects.cap::<T>(id)?;
        let object = crate::objects::object(&self.specification, id)?;
        let name = &object.name;
        // The kernel stops the machine when it is to derive from a second-level table.
        if !matches!(object.kind, ObjectKind::Endpoint | ObjectKind::Notification) {
            return Err(BuildError::specification(name, "is signalled and is nothing that takes a badge"));
        }
        let to = CPtr::new(self.allocator.cptrs(1)?.start);
        let (dest, src) = (self.boot.absolute(to), self.boot.absolute(from.cptr()));
        let minted = self.kernel().cnode_mint(dest, src, Rights::WRITE, CapData::Badge(badge));
        minted.map_err(BuildError::refused("mint a capability to", name))?;
        Ok(to.cast())
    }

    fn report_machine(&self) {
        let ticks_per_second = self.platform.ticks_per_second();
        let machine = Machine {
            ticks_per_second,
            memory_bytes: self.boot.memory_bytes(),
            memory_left_bytes: self.allocator.left(),
            objects: self.objects.made,
            iommu_levels: self.boot.iommu_levels,
            started_at_ns: ticks_to_ns(self.platform.ticks(), ticks_per_second),
        };
        self.platform.report(&Report::Machine(machine).encode());
    }
}

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "the tests' own numbers")]
mod tests;
