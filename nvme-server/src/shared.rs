//! The state of the server, by its parts.
//!
//! Both planes are futures of one task: they never run at once, so shared state is borrowed, not locked, and never
//! across an await.

use crate::control_path::changes::Changes;
use crate::control_path::identity::First;
use crate::control_path::requests::{Control, ControlQueue};
use crate::control_path::virtual_function::VirtualFunction;
use crate::data_path::queues::Queues;
use crate::data_path::ready::ReadySet;
use crate::data_path::schedule::Schedule;
use crate::data_path::session::Session;
use crate::sessions::acknowledgements::Acknowledgements;
use crate::sessions::phase::Awaited;
use crate::sessions::slot::SessionSlot;
use alloc::rc::Rc;
use alloc::vec::Vec;
use blk_api::Status;
use blk_api::config::ServerConfig;
use blk_api::session::Refusal;
use core::cell::{Cell, RefCell};
use extent_table::ExtentTable;
use nvme_driver::controller::{Controller, Health};
use nvme_driver::fault::DeviceFault;
use platform::log::error;
use platform::{Cap, Environment, Kernel, Notification, Platform};
use report::{Report, ResetScope, clip};

/// The state of the server.
pub(crate) struct Shared<P: Platform> {
    pub platform: P,
    pub environment: Environment,
    pub config: ServerConfig,
    pub controller: Controller<P>,
    /// The disk that is served.
    pub first_seen: RefCell<First>,
    /// The controller's I/O queue pairs.
    pub queues: RefCell<Queues<P>>,
    /// Sessions by number (badge - 1).
    pub slots: RefCell<Vec<SessionSlot<P>>>,
    /// The virtual functions of clients, by number.
    pub virtual_functions: RefCell<Vec<VirtualFunction<P::Memory>>>,
    /// The sessions to poll.
    pub ready: Rc<ReadySet>,
    /// The one that is polled first in the next pass.
    pub first: Cell<usize>,
    /// The blocks that sessions may touch, by the same numbers.
    pub extents: RefCell<ExtentTable>,
    /// The schedule, which chooses the session whose turn it is.
    pub schedule: RefCell<Schedule>,
    /// Teardown acknowledgements to the supervisor, if it restarts any client.
    pub acknowledgements: Option<Acknowledgements<P::Memory>>,
    pub changes: Changes,
    pub control: ControlQueue,
    /// Notifications that ask the supervisor to wake the server ([`Badge::ALARM`](platform::Badge::ALARM)) after the times of
    /// [`SERVER_US`](platform::alarm::SERVER_US).
    pub alarms: Vec<Cap<Notification>>,
    /// The server's own notification, by which the control plane wakes the data plane.
    pub nudge: Cap<Notification>,
}

impl<P: Platform> Shared<P> {
    /// Records a fault of the controller. No command is submitted from here on until it was reset.
    pub(crate) fn fail(&self, fault: DeviceFault) {
        if self.controller.health.get() != Health::Up {
            // A reset that is due already fixes this as well.
            return;
        }
        self.controller.health.set(Health::Down);
        self.controller.admin.give_up(fault);
        self.report_reset(fault);
        self.control.pass(Control::Recover);
    }

    /// Whether no session has a command in flight.
    pub(crate) fn is_drained(&self) -> bool {
        !self.slots.borrow().iter().any(|slot| slot.phase.session().is_some_and(Session::has_commands))
    }

    /// The refusal of what needs a controller, without one.
    pub(crate) fn refusal(&self) -> Refusal {
        if self.controller.health.get() == Health::Gone { Refusal::DeviceGone } else { Refusal::Device }
    }

    /// The status of entries that are taken without a controller.
    pub(crate) fn ended(&self) -> Status {
        if self.controller.health.get() == Health::Gone { Status::DeviceGone } else { Status::Closed }
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

    /// Acknowledges the death of every client of whose session or function nothing is left, if the supervisor restarts any.
    pub(crate) fn acknowledge_deaths(&self) {
        if let Some(acknowledgements) = &self.acknowledgements {
            let (mut slots, mut functions) = (self.slots.borrow_mut(), self.virtual_functions.borrow_mut());
            let of_sessions = (0..).zip(slots.iter_mut()).map(|(word, slot)| (word, slot.acknowledge_death()));
            let numbered = (0..).zip(functions.iter_mut());
            let of_functions =
                numbered.map(|(number, function)| (self.config.function_word(number), function.acknowledge_death()));
            let deaths = of_sessions.chain(of_functions).filter_map(|(word, death)| Some((word, death?)));
            acknowledgements.send(self.platform.kernel(), deaths);
        }
    }

    /// Notifies the policy component that something it waits for is over.
    pub(crate) fn notify_policy(&self) {
        self.platform.kernel().signal(self.changes.policy);
    }

    /// Notifies the control plane that its wait for session `index` is over.
    pub(crate) fn drained(&self, index: usize, awaited: Awaited) {
        self.control.pass(match awaited {
            Awaited::Reconfiguration => Control::Reconfigure,
            Awaited::Teardown => Control::TearDown(index),
        });
    }

    /// Wakes the data plane, so that it polls the ready sessions.
    pub(crate) fn wake_data_plane(&self) {
        self.platform.kernel().signal(self.nudge);
    }

    /// Sends a record.
    pub(crate) fn report(&self, report: &Report) {
        self.platform.report(&report.encode());
    }
}
