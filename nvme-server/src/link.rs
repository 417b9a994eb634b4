//! The link between both planes: the data plane's state, the control plane's jobs, and what both are given.
//!
//! Both planes are futures of one task, so they never run at once. The data plane's state is borrowed by [`Link::with`] alone, whose
//! closure cannot wait, so that no borrow lasts across an await.

use crate::acknowledgements::Acknowledgements;
use crate::control_plane::administration::Administration;
use crate::control_plane::changes::Changes;
use crate::control_plane::virtual_function::VirtualFunction;
use crate::data_plane::DataPlane;
use crate::jobs::{Job, Jobs};
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::config::ServerConfig;
use blk_api::session::Refusal;
use core::cell::RefCell;
use nvme_driver::fault::DeviceFault;
use nvme_driver::{Controller, Health};
use platform::log::error;
use platform::{Cap, Environment, Kernel, Notification, Platform};
use report::{Report, ResetScope, clip};

/// The link between both planes.
pub(crate) struct Link<P: Platform> {
    pub platform: P,
    pub environment: Environment,
    pub config: Rc<ServerConfig>,
    pub controller: Rc<Controller<P>>,
    pub jobs: Rc<Jobs>,
    /// Changes that the policy component has asked for.
    pub changes: Changes,
    /// The virtual functions of clients, by number.
    pub functions: RefCell<Vec<VirtualFunction<P::Memory>>>,
    /// Teardown acknowledgements to the supervisor, if it restarts any client.
    pub acknowledgements: Option<Acknowledgements<P::Memory>>,
    /// The administration of the controller by another component.
    pub administration: Option<Administration<P>>,
    /// Notifications that ask the supervisor to wake the server ([`Badge::ALARM`](platform::Badge::ALARM)) after the times of
    /// [`SERVER_US`](platform::alarm::SERVER_US).
    pub alarms: Vec<Cap<Notification>>,
    /// The policy component's notification.
    pub policy: Cap<Notification>,
    pub data: Lent<DataPlane<P>>,
}

/// A state that is borrowed for one piece of work at a time.
pub(crate) struct Lent<T>(RefCell<T>);

impl<T> Lent<T> {
    /// Lends `state`.
    pub(crate) const fn new(state: T) -> Self {
        Self(RefCell::new(state))
    }
}

impl<P: Platform> Link<P> {
    /// Works on the data plane.
    #[inline(always)]
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut DataPlane<P>) -> T) -> T {
        work(&mut self.data.0.borrow_mut())
    }

    /// Records a fault of the controller. No command is submitted from here on until it was reset.
    pub(crate) fn fail(&self, fault: DeviceFault) {
        if self.controller.health.get() != Health::Up {
            // A reset that is due already fixes this as well.
            return;
        }
        self.controller.health.set(Health::Down);
        self.controller.admin.fail_command(fault);
        self.report_reset(fault);
        self.jobs.pass(Job::Recover);
    }

    /// The refusal of what needs a controller, without one.
    pub(crate) fn refusal(&self) -> Refusal {
        if self.controller.health.get() == Health::Gone { Refusal::DeviceGone } else { Refusal::Device }
    }

    /// Counts, logs and reports a fault for which the controller is reset.
    pub(crate) fn report_reset(&self, fault: DeviceFault) {
        self.count(fault);
        let count = self.controller.faults.get();
        let reason = clip(&alloc::format!("{fault} (fault {count})"));
        self.report(&Report::Reset { server: clip(&self.environment.name), scope: ResetScope::Controller, reason });
    }

    /// Counts and logs a fault of the controller.
    pub(crate) fn count(&self, fault: DeviceFault) {
        self.controller.faults.set(self.controller.faults.get().saturating_add(1));
        error!("controller fault: {}", clip::<96>(&alloc::format!("{fault}")).as_str());
    }

    /// Reports a failure, in one sentence.
    pub(crate) fn report_failure(&self, reason: &str) {
        self.report(&Report::Failure { component: clip(&self.environment.name), reason: clip(reason) });
    }

    /// Sends a record.
    pub(crate) fn report(&self, report: &Report) {
        self.platform.report(&report.encode());
    }

    /// Acknowledges the death of every client of whose session or function nothing is left, if the supervisor restarts any.
    pub(crate) fn acknowledge_deaths(&self) {
        if let Some(acknowledgements) = &self.acknowledgements {
            let mut deaths = self.with(DataPlane::acknowledge_deaths);
            for (number, function) in (0..).zip(self.functions.borrow_mut().iter_mut()) {
                deaths.extend(function.acknowledge_death().map(|death| (self.config.function_word(number), death)));
            }
            acknowledgements.send(self.platform.kernel(), deaths.into_iter());
        }
    }

    /// Notifies the policy component that something it waits for is over.
    pub(crate) fn notify_policy(&self) {
        self.platform.kernel().signal(self.policy);
    }
}
