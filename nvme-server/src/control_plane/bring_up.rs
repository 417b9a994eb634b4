//! Brings the controller up for its sessions: after the steps of `nvme_driver::bring_up`, its identity, weights and namespaces (NVM
//! Express base specification 1.4, section 7.6.1).

use super::ControlPlane;
use crate::control_plane::arbitration::{self, Weighing};
use crate::control_plane::identity::{First, Identity};
use crate::control_plane::{events, functions};
use crate::link::Link;
use nvme_driver::fault::DeviceFault;
use nvme_driver::features;
use nvme_driver::inquiry;
use nvme_spec::identify;
use platform::Platform;
use platform::log::info;
use report::{Report, clip};

impl<P: Platform> ControlPlane<'_, P> {
    /// Brings the controller up after [`Controller::reach`](nvme_driver::Controller::reach) has found it.
    ///
    /// # Errors
    /// Whatever is wrong with the controller.
    pub(super) async fn bring_up(&mut self) -> Result<Identity, DeviceFault> {
        let link = self.link;
        let (controller, weighing) = (&*link.controller, Weighing::of(link));
        if !controller.is_introduced.get() {
            // Nothing was served yet, whatever an attempt that failed has found.
            self.first_seen = First::default();
        }
        controller.start(weighing.arbitration()).await?;
        if functions::enable(link).await? {
            controller.start(weighing.arbitration()).await?;
        }
        self.end_administration();
        let about = inquiry::describe(&mut &*controller).await?;
        self.first_seen.check(&about)?;
        controller.retry_delays.set(inquiry::retry_delays(&mut &*controller, &about).await?);
        if weighing != Weighing::Nothing {
            let weights = arbitration::weights(weighing, link.config.class_weights, about.rab);
            controller.execute(|cid| weights.set(cid)).await?;
            if !controller.is_introduced.get() {
                let by = if weighing == Weighing::Speeds { "speeds of queues" } else { "classes" };
                info!("the controller weighs the {}", by);
                link.with(|data| data.leave_weighing()).map_err(|_| DeviceFault::OwnMemory)?;
            }
        }
        let administered = link.config.administration.map_or(0, |administration| administration.queue_pairs());
        let wanted = link.config.queue_pairs().saturating_add(administered);
        let queue_pairs = controller.number_of_queues(wanted).await?;
        let (version, cap) = (controller.registers.version()?, controller.registers.cap());
        let (max_transfer, abilities) = inquiry::limits(&mut &*controller, version, cap, &about).await?;
        let namespaces = self.find_namespaces(&about).await?;
        features::set(&mut &*controller, namespaces.iter().map(|namespace| namespace.nsid)).await?;
        (self.event_requests, self.events) = (events::watch(controller, &about).await?, 0);
        let identity = Identity { queue_pairs, max_transfer, abilities, namespaces };
        report_identity(link, &about, &identity)?;
        Ok(identity)
    }
}

fn report_identity<P: Platform>(
    link: &Link<P>,
    about: &identify::Controller,
    identity: &Identity,
) -> Result<(), DeviceFault> {
    let version = link.controller.registers.version()?;
    info!("controller {} serial {}", about.model_number(), about.serial_number());
    if link.controller.is_introduced.replace(true) {
        return Ok(());
    }
    link.report(&Report::Controller(report::Controller {
        server: clip(&link.environment.name),
        bdf: link.controller.bdf,
        vendor: about.vid.get(),
        model: clip(about.model_number()),
        serial: clip(about.serial_number()),
        firmware: clip(about.firmware_revision()),
        version: [version.mjr() as u8, version.mnr(), version.ter()],
        queue_pairs: identity.queue_pairs,
        max_queue_entries: link.controller.registers.cap().max_queue_entries(),
        max_transfer_bytes: identity.max_transfer,
        interrupts: clip(link.controller.vectors.borrow().by().name()),
    }));
    for namespace in &identity.namespaces {
        link.report(&Report::Namespace(report::Namespace {
            server: clip(&link.environment.name),
            nsid: namespace.nsid.0,
            blocks: namespace.blocks,
            block_bytes: 1 << namespace.block_shift,
        }));
    }
    Ok(())
}
