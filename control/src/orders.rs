//! The orders to the components that enforce the acts.

use alloc::vec::Vec;
use blk_api::orders::{OUTCOME, RIGHTS, RightsOrder, SHARE, ShareOrder};
use blk_api::policy;
use control_api::{Config, Refusal, Request, names, supervisor};
use platform::{Cap, Endpoint, Environment, Kernel, Message, Platform};
use zerocopy::{Immutable, IntoBytes};

/// Signals and ticks for which an order may stay under way: some five seconds. A server that stays dead carries out nothing.
const PATIENCE: u32 = 100;

/// The callees, and the tenants as they know them.
pub(crate) struct Orders<P> {
    platform: P,
    config: Config,
    policies: Vec<Cap<Endpoint>>,
    supervisor: Option<Cap<Endpoint>>,
}

impl<P: Platform> Orders<P> {
    pub(crate) fn new(platform: P, environment: &Environment, config: Config) -> Self {
        let count = environment.cap_count(names::POLICIES);
        let policies = (0..count).filter_map(|index| environment.cap_at(names::POLICIES, index)).collect();
        Self { platform, config, policies, supervisor: environment.cap(names::SUPERVISOR) }
    }

    /// Has the request carried out. Returns when it is in force.
    ///
    /// # Errors
    /// The callee's refusal, or our own for a callee that this component has no capability to.
    pub(crate) async fn carry_out(&self, request: Request) -> Result<(), Refusal> {
        match request {
            Request::Nothing => Ok(()),
            Request::Share { tenant, change } => {
                let (endpoint, session) = self.policy_of(tenant)?;
                self.order(endpoint, SHARE, &ShareOrder::new(session, &change)).await
            }
            Request::Revoke { tenant, blocks } => {
                let (endpoint, session) = self.policy_of(tenant)?;
                self.order(endpoint, RIGHTS, &RightsOrder::revoke(session, blocks)).await
            }
            Request::Grant { tenant, extent } => {
                let (endpoint, session) = self.policy_of(tenant)?;
                self.order(endpoint, RIGHTS, &RightsOrder::grant(session, extent)).await
            }
            Request::Kill(component) => self.supervise(supervisor::KILL, component).await,
            Request::Pause(component) => self.supervise(supervisor::PAUSE, component).await,
            Request::Resume(component) => self.supervise(supervisor::RESUME, component).await,
        }
    }

    /// The policy component that knows the tenant, and the tenant's number there.
    fn policy_of(&self, tenant: u16) -> Result<(Cap<Endpoint>, u32), Refusal> {
        let known = self.config.tenants.iter().find(|known| known.component == tenant);
        let known = known.ok_or(Refusal::NoTenant(tenant))?;
        let endpoint = self.policies.get(usize::from(known.policy)).copied().ok_or(Refusal::NotAllowed)?;
        Ok((endpoint, known.session))
    }

    /// Orders a change, and waits until it is in force, but not without end. The policy component signals when it is over.
    async fn order<T: IntoBytes + Immutable>(
        &self,
        endpoint: Cap<Endpoint>,
        label: u32,
        order: &T,
    ) -> Result<(), Refusal> {
        self.call(endpoint, &Message::with(label, order)).await?;
        for _ in 0..PATIENCE {
            match self.call(endpoint, &Message::new(OUTCOME)).await {
                Err(Refusal::Policy { label, values })
                    if policy::Refusal::of(&Message::from_words(label, &values)) == policy::Refusal::Busy =>
                {
                    // A tick wakes it, too, so a signal that came before costs a tick at most.
                    self.platform.next_event().await;
                }
                outcome => return outcome,
            }
        }
        Err(Refusal::Late)
    }

    async fn call(&self, endpoint: Cap<Endpoint>, message: &Message) -> Result<(), Refusal> {
        let answer = self.platform.kernel().call(endpoint, message).await;
        if answer.label == policy::DONE {
            return Ok(());
        }
        Err(Refusal::Policy { label: answer.label, values: answer.payload().unwrap_or_default() })
    }

    async fn supervise(&self, label: u32, component: u16) -> Result<(), Refusal> {
        let endpoint = self.supervisor.ok_or(Refusal::NotAllowed)?;
        let answer = self.platform.kernel().call(endpoint, &Message::with(label, &u64::from(component))).await;
        match answer.label {
            supervisor::DONE => Ok(()),
            label => Err(Refusal::Supervisor(supervisor::Refusal::of_label(label))),
        }
    }
}
