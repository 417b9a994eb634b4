//! The control component: for each act of the scenario, a capability to the component that enforces it.

use super::Builder;
use super::clients::{BuiltClient, Policy};
use super::drivers::Server;
use crate::error::BuildError;
use crate::layout::{PAGE, alarms_us, rights};
use crate::model::{Grant, Model};
use crate::priority::control_priority;
use crate::scenario::{CONTROL, Control, Path, Tenant};
use blk_api::orders;
use capdl_spec::{ObjectId, ObjectKind, Role};
use control_api::{Act, mailbox, names, supervisor};
use platform::Badge;

impl Builder<'_> {
    pub(super) fn control(
        &mut self,
        control: &Control,
        clients: &[BuiltClient<'_>],
        (policies, servers): (&[Policy], &[Server]),
        alarms: ObjectId,
    ) -> Result<(), BuildError> {
        let polls = self.scenario.tenants.iter().any(Tenant::is_polled_for);
        let priority = control_priority(self.scenario.server.priority, polls);
        let who = self.component(CONTROL, Role::Control, priority)?;
        let event = self.one(&format!("{CONTROL}.event"), ObjectKind::Notification);
        let cptr = self.model.cap(who, platform::names::EVENT, event, 0, rights::READ);
        self.model.waits_on(who, cptr);
        self.model.ticks(who, event);
        self.model.restarts(who, self.scenario.server.restart.to_policy());
        self.model.shows(who, names::MAILBOX, mailbox::PAGES as u64);
        for policy in policies {
            self.model.cap(policy.who, blk_api::names::CONTROL, event, Badge::SIGNAL | 1, rights::WRITE);
            self.model.keeps(policy.who, blk_api::names::KEPT);
        }
        let bit = |act: Act, bit: u64| if control.acts.contains(&act) { bit } else { 0 };
        let ordered = bit(Act::Shares, orders::MAY_SHARE) | bit(Act::Rights, orders::MAY_RIGHTS);
        if ordered != 0 {
            let badge = orders::BADGE | ordered;
            let grant = |policy: &Policy| Grant { object: policy.endpoint, badge, rights: rights::CALL };
            self.model.caps(who, names::POLICIES, &policies.iter().map(grant).collect::<Vec<_>>());
        }
        if let Some(administration) = control.administration() {
            let badge = administration.rights.badge();
            let grant = |server: &Server| Grant { object: server.endpoint, badge, rights: rights::CALL };
            self.model.caps(who, names::ADMINISTERED, &servers.iter().map(grant).collect::<Vec<_>>());
            let pages = administration.window_bytes / PAGE;
            for server in servers.iter().map(|server| server.driver.who) {
                self.model.shares_window(who, server, blk_api::names::ADMINISTRATION_WINDOW, pages);
                let badge = Badge::SIGNAL | 1;
                self.model.cap(server, blk_api::names::ADMINISTRATOR, event, badge, rights::WRITE);
            }
        }
        let supervised = bit(Act::Kill, supervisor::MAY_KILL) | bit(Act::Pause, supervisor::MAY_PAUSE);
        if supervised != 0 {
            let endpoint = self.one("root-task.endpoint", ObjectKind::Endpoint);
            self.model.cap(who, names::SUPERVISOR, endpoint, supervisor::BADGE | supervised, rights::CALL);
        }
        let sleepers = self.scenario.tenants.iter().filter(|tenant| tenant.alarm).count();
        let before = self.scenario.controllers.len() * alarms_us(Role::NvmeServer).len()
            + sleepers * alarms_us(Role::Client).len();
        // Numbers share bits anyway, when there are many.
        self.model.asks_for_alarms(who, alarms, before as u8);
        let tenants = clients.iter().map(|client| self.tenant(client)).collect();
        self.model.configure(who, &control_api::Config { tenants })
    }

    /// A tenant as the control component names it. A function's client is numbered after all sessions.
    fn tenant(&self, client: &BuiltClient<'_>) -> control_api::Tenant {
        let Tenant { name, controller, path, .. } = client.tenant;
        let sessions = self.scenario.sessions(controller);
        let (before, place) = match path {
            Path::Function => {
                let mut functions = self.scenario.functions(controller);
                (sessions.count(), functions.position(|tenant| tenant.name == *name))
            }
            Path::Server => (0, self.scenario.sessions(controller).position(|tenant| tenant.name == *name)),
        };
        let policy = self.scenario.controller(controller).map_or(0, |(place, _)| place);
        control_api::Tenant {
            component: Model::id(client.who),
            policy: policy as u16,
            session: (before + place.unwrap_or(0)) as u32,
        }
    }
}
