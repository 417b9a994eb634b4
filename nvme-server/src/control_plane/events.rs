//! Asynchronous events: the server keeps requests for them at the controller, and acts on each by its kind (NVM Express base specification
//! 1.4, section 5.2).
//!
//! An event is logged and reported, and its log page read, so that the next one of its kind is reported.
//!
//! | event | what the server does |
//! |---|---|
//! | an error that belongs to no command | reads the newest entry of the error log |
//! | a warning about health | reads the SMART log; while the media is read-only, writes end with a status of their own |
//! | namespaces changed | reads them again, and ends sessions whose namespace is not the one that it was |
//! | firmware is about to be activated | reads the slots |
//! | a sanitize ended | reads its result |
//!
//! Left out: events of virtual functions, for which their clients do not ask.

use super::ControlPlane;
use crate::control_plane::losses::losses;
use alloc::string::String;
use nvme_driver::controller::{Controller, Health};
use nvme_driver::fault::DeviceFault;
use nvme_driver::inquiry;
use nvme_spec::event::{AsyncEvent, EventKind};
use nvme_spec::feature::{AsyncEvents, Feature, set_feature};
use nvme_spec::identify::{self, Oaes};
use nvme_spec::log::{
    ActiveFirmware, ErrorEntry, FirmwareSlots, LockdownLog, LogPage, LogRead, SanitizeLog, SanitizeState, SelfTestLog,
    Smart, SupportedFeatures, SupportedPages, Warnings,
};
use nvme_spec::{DataPointer, Nsid};
use platform::log::warn;
use platform::{Memory, PAGE_SIZE, Platform};
use report::{Report, clip};
use zerocopy::FromBytes;

/// Events that are acted on until the next reset: a controller that reports more must not keep the server busy.
const MOST_EVENTS: u16 = 64;
/// Requests for events that are kept at the controller, if it takes so many.
const REQUESTS: u8 = 4;

/// Warnings that every revision of the standard has.
const WARNINGS: Warnings = Warnings::new()
    .with_spare(true)
    .with_temperature(true)
    .with_reliability(true)
    .with_read_only(true)
    .with_backup(true);

/// Has the controller report its warnings and, if it can, changes of namespaces and activations of firmware. Returns the number of
/// requests for events that it has.
pub(crate) async fn watch<P: Platform>(
    controller: &Controller<P>,
    about: &identify::Controller,
) -> Result<u8, DeviceFault> {
    let notices = Oaes::from_bits(about.oaes.get());
    let wanted = AsyncEvents::new()
        .with_warnings(WARNINGS.into_bits())
        .with_namespace_changed(notices.namespace_changed())
        .with_firmware_activation(notices.firmware_activation())
        .into_bits();
    match controller.execute(|cid| set_feature(cid, Feature::AsyncEvents, wanted)).await {
        Ok(_) => {}
        Err(DeviceFault::Refused(status)) => warn!("events stay as they are chosen: status {:#x}", status.to_raw()),
        Err(fault) => return Err(fault),
    }
    let requests = about.aerl_z.saturating_add(1).min(REQUESTS);
    controller.admin.request_events(requests)?;
    Ok(requests)
}

impl<P: Platform> ControlPlane<'_, P> {
    /// Acts on the events that were reported, and requests the next ones.
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
        while let Some(cqe) = controller.admin.take_event() {
            if !cqe.status().is_success() {
                warn!("the controller reports no events: status {:#x}", cqe.status().to_raw());
                self.events = MOST_EVENTS;
            }
            if self.events >= MOST_EVENTS {
                continue;
            }
            self.events = self.events.saturating_add(1);
            self.act(AsyncEvent::from_bits(cqe.dw0)).await?;
            if self.events == MOST_EVENTS {
                warn!("the controller reported {} events, and is not asked for more", self.events);
            }
        }
        if self.events >= MOST_EVENTS {
            return Ok(());
        }
        controller.next_tick().await;
        controller.admin.request_events(self.event_requests)
    }

    async fn act(&mut self, event: AsyncEvent) -> Result<(), DeviceFault> {
        let link = self.link;
        let mut text = in_words(event);
        let page = LogPage::from_raw(event.log_page());
        let is_read = match page {
            Some(page) => read(&link.controller, page).await?,
            None => false,
        };
        match page.filter(|_| is_read) {
            Some(LogPage::Smart) => {
                let smart: Smart = contents(&link.controller)?;
                let is_read_only = smart.warnings().read_only();
                link.with(|data| data.set_media_read_only(is_read_only));
                let media = if is_read_only { ", and the media is read-only" } else { "" };
                let (kelvin, spare) = (smart.temperature.get(), smart.spare);
                text = alloc::format!("{text}: {kelvin} K, spare {spare} %{media}");
            }
            Some(LogPage::ErrorInformation) => {
                let newest: ErrorEntry = contents(&link.controller)?;
                text = alloc::format!("{text}: error {}", newest.count.get());
            }
            Some(LogPage::FirmwareSlots) => {
                let slots: FirmwareSlots = contents(&link.controller)?;
                text = alloc::format!("{text}: slot {}", ActiveFirmware::from_bits(slots.afi).active());
            }
            Some(LogPage::Sanitize) => {
                let log: SanitizeLog = contents(&link.controller)?;
                let outcome = match SanitizeState::from_raw(log.status().state()) {
                    Some(SanitizeState::Succeeded | SanitizeState::Deallocated) => "all data are erased",
                    Some(SanitizeState::Failed) => "failed",
                    Some(SanitizeState::Running) => "another one runs",
                    Some(SanitizeState::Never) | None => "its log does not say how",
                };
                text = alloc::format!("{text}: {outcome}");
            }
            _ => {}
        }
        warn!("the controller reports: {}", text.as_str());
        link.report(&Report::Event {
            server: clip(&link.environment.name),
            event: event.into_bits(),
            text: clip(&text),
        });
        match event.event_kind() {
            Some(EventKind::Notice) if event == AsyncEvent::NAMESPACE_CHANGED => self.look_again().await,
            _ => Ok(()),
        }
    }

    /// Reads the namespaces again, and ends the sessions of which one is not as it was.
    ///
    /// # Errors
    /// Whatever is wrong with the controller.
    pub(super) async fn look_again(&mut self) -> Result<(), DeviceFault> {
        let about = inquiry::describe(&mut &*self.link.controller).await?;
        let namespaces = self.find_namespaces(&about).await?;
        let Some(known) = &mut self.identity else { return Ok(()) };
        known.namespaces = namespaces;
        let lost = losses(self.link, known);
        self.show_namespaces();
        self.end_sessions(lost).await;
        Ok(())
    }
}

/// Reads a log page: until then, the controller keeps back events of the same type. Returns whether the controller gave it.
async fn read<P: Platform>(controller: &Controller<P>, page: LogPage) -> Result<bool, DeviceFault> {
    let bytes = match page {
        // The newest entry.
        LogPage::ErrorInformation => size_of::<ErrorEntry>(),
        LogPage::Smart => size_of::<Smart>(),
        LogPage::FirmwareSlots => size_of::<FirmwareSlots>(),
        LogPage::SelfTest => size_of::<SelfTestLog>(),
        LogPage::Sanitize => size_of::<SanitizeLog>(),
        LogPage::Lockdown => size_of::<LockdownLog>(),
        LogPage::SupportedPages => size_of::<SupportedPages>(),
        LogPage::SupportedFeatures => size_of::<SupportedFeatures>(),
        LogPage::ChangedNamespaces | LogPage::CommandEffects | LogPage::ManagementEffects => PAGE_SIZE,
    };
    let data = DataPointer::page(controller.identify_page.iova.bits());
    let read = LogRead::whole(page, bytes as u32);
    match controller.execute(|cid| read.sqe(cid, Nsid::ALL, data)).await {
        Ok(_) => Ok(true),
        Err(DeviceFault::Refused(status)) => {
            warn!("log page {:#x} is refused: status {:#x}", page as u8, status.to_raw());
            Ok(false)
        }
        Err(fault) => Err(fault),
    }
}

/// The log page that was read last.
fn contents<P: Platform, T: FromBytes>(controller: &Controller<P>) -> Result<T, DeviceFault> {
    let place = &controller.identify_page;
    Ok(place.memory.read(place.offset)?)
}

/// The event in words. Those that the server cannot act on are named by their numbers.
fn in_words(event: AsyncEvent) -> String {
    match event {
        AsyncEvent::RELIABILITY => "its subsystem is not reliable any more".into(),
        AsyncEvent::TEMPERATURE => "a temperature is beyond its threshold".into(),
        AsyncEvent::SPARE => "its spare is below the threshold".into(),
        AsyncEvent::NAMESPACE_CHANGED => "namespaces changed".into(),
        AsyncEvent::FIRMWARE_ACTIVATION => "firmware is about to be activated".into(),
        AsyncEvent::SANITIZE_COMPLETED => "a sanitize ended".into(),
        AsyncEvent::TRANSIENT_INTERNAL_ERROR => "an internal error, which passed".into(),
        AsyncEvent::PERSISTENT_INTERNAL_ERROR => "an internal error, which stays".into(),
        other => alloc::format!("event {:#x} of type {}", other.info(), other.kind()),
    }
}
