//! Asynchronous events: the server has a request for them at the controller, and acts on each (NVM Express base specification 1.4,
//! section 5.2).
//!
//! An event is logged, and its log page read, so that the next one of its kind is reported. When namespaces changed, they are read
//! again; if a session's is not the one that it was, the controller is reset, and `recover` ends that session. Left out: events of
//! virtual functions, for which their clients do not ask.

use super::ControlPlane;
use crate::control_plane::recover::losses;
use alloc::string::String;
use nvme_driver::controller::{Controller, Health};
use nvme_driver::fault::DeviceFault;
use nvme_driver::inquiry;
use nvme_spec::event::AsyncEvent;
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{self, Oaes};
use nvme_spec::log::{ErrorEntry, LogPage, LogRead, Smart, Warnings};
use nvme_spec::{DataPointer, Nsid};
use platform::log::warn;
use platform::{PAGE_SIZE, Platform};

/// Events that are acted on until the next reset: a controller that reports more must not keep the server busy.
const MOST_EVENTS: u16 = 64;

/// Warnings that every revision of the standard has.
const WARNINGS: Warnings = Warnings::new()
    .with_spare(true)
    .with_temperature(true)
    .with_reliability(true)
    .with_read_only(true)
    .with_backup(true);

/// Has the controller report its warnings and, if it can, changes of namespaces.
pub(crate) async fn watch<P: Platform>(
    controller: &Controller<P>,
    about: &identify::Controller,
) -> Result<(), DeviceFault> {
    let notices = Oaes::from_bits(about.oaes.get());
    let wanted = AsyncEvents::new()
        .with_warnings(WARNINGS.into_bits())
        .with_namespace_changed(notices.namespace_changed())
        .into_bits();
    match controller.execute(|cid| set_feature(cid, Feature::AsyncEvents, wanted)).await {
        Ok(_) => {}
        Err(DeviceFault::Refused(status)) => warn!("events stay as they are chosen: status {:#x}", status.to_raw()),
        Err(fault) => return Err(fault),
    }
    controller.admin.request_event()
}

impl<P: Platform> ControlPlane<'_, P> {
    /// Acts on the event that was reported, and requests the next one.
    pub(super) async fn act_on_event(&mut self) {
        if self.link.controller.health.get() == Health::Up
            && self.identity.is_some()
            && let Err(fault) = self.try_act().await
        {
            self.link.fail(fault);
        }
    }

    async fn try_act(&mut self) -> Result<(), DeviceFault> {
        let controller = &*self.link.controller;
        let Some((cqe, count)) = controller.admin.take_event() else { return Ok(()) };
        if !cqe.status().is_success() {
            warn!("the controller reports no events: status {:#x}", cqe.status().to_raw());
            return Ok(());
        }
        let event = AsyncEvent::from_bits(cqe.dw0);
        warn!("the controller reports: {}", in_words(event).as_str());
        clear(controller, event).await?;
        if event == AsyncEvent::NAMESPACE_CHANGED {
            self.look_again().await?;
        }
        if count >= MOST_EVENTS {
            warn!("the controller reported {} events, and is not asked for more", count);
            return Ok(());
        }
        controller.next_tick().await;
        controller.admin.request_event()
    }

    /// Reads the namespaces again.
    ///
    /// # Errors
    /// [`DeviceFault::NamespacesChanged`] if an open session's namespace is not as it was.
    async fn look_again(&mut self) -> Result<(), DeviceFault> {
        let about = inquiry::describe(&mut &*self.link.controller).await?;
        let namespaces = self.find_namespaces(&about).await?;
        let Some(known) = &mut self.identity else { return Ok(()) };
        known.namespaces = namespaces;
        if losses(self.link, known).is_empty() { Ok(()) } else { Err(DeviceFault::NamespacesChanged) }
    }
}

/// Reads the log page that the event names: until then, the controller keeps back events of the same type.
async fn clear<P: Platform>(controller: &Controller<P>, event: AsyncEvent) -> Result<(), DeviceFault> {
    let Some(page) = LogPage::from_raw(event.log_page()) else { return Ok(()) };
    let bytes = match page {
        // The newest entry.
        LogPage::ErrorInformation => size_of::<ErrorEntry>(),
        LogPage::Smart | LogPage::FirmwareSlots => size_of::<Smart>(),
        LogPage::ChangedNamespaces
        | LogPage::CommandEffects
        | LogPage::SupportedPages
        | LogPage::SelfTest
        | LogPage::SupportedFeatures
        | LogPage::ManagementEffects
        | LogPage::Lockdown
        | LogPage::Sanitize => PAGE_SIZE,
    };
    let data = DataPointer::page(controller.identify_page.iova.bits());
    let read = LogRead::whole(page, bytes as u32);
    match controller.execute(|cid| read.sqe(cid, Nsid::ALL, data)).await {
        Ok(_) => Ok(()),
        Err(DeviceFault::Refused(status)) => {
            warn!("log page {:#x} is refused: status {:#x}", page as u8, status.to_raw());
            Ok(())
        }
        Err(fault) => Err(fault),
    }
}

/// The event in words. Those that the server cannot act on are named by their numbers.
fn in_words(event: AsyncEvent) -> String {
    match event {
        AsyncEvent::RELIABILITY => "its subsystem is not reliable any more".into(),
        AsyncEvent::TEMPERATURE => "a temperature is beyond its threshold".into(),
        AsyncEvent::SPARE => "its spare is below the threshold".into(),
        AsyncEvent::NAMESPACE_CHANGED => "namespaces changed".into(),
        AsyncEvent::TRANSIENT_INTERNAL_ERROR => "an internal error, which passed".into(),
        AsyncEvent::PERSISTENT_INTERNAL_ERROR => "an internal error, which stays".into(),
        other => alloc::format!("event {:#x} of type {}", other.info(), other.kind()),
    }
}
