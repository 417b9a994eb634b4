//! The orders to the components that enforce the acts.

use alloc::vec::Vec;
use blk_api::administration;
use blk_api::orders::{OUTCOME, RIGHTS, RightsOrder, SHARE, ShareOrder};
use blk_api::policy;
use control_api::{ANSWER_WORDS, Answer, CALL_WORDS, Config, Refusal, Request, names, supervisor};
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
    /// The NVMe servers whose controllers may be administered, by their controllers' numbers.
    servers: Vec<Cap<Endpoint>>,
}

impl<P: Platform> Orders<P> {
    pub(crate) fn new(platform: P, environment: &Environment, config: Config) -> Self {
        let run = |name| {
            let all = 0..environment.cap_count(name);
            all.filter_map(|index| environment.cap_at(name, index)).collect()
        };
        let (policies, servers) = (run(names::POLICIES), run(names::ADMINISTERED));
        Self { platform, config, policies, supervisor: environment.cap(names::SUPERVISOR), servers }
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
            Request::Administer { .. } => Err(Refusal::Malformed),
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

    /// Passes a call on to the NVMe server of a controller, and returns its answer. The call that waits for its command's end would
    /// keep all other requests waiting.
    ///
    /// # Errors
    /// There is no such controller, or no right to administer one.
    pub(crate) async fn administer(
        &self,
        controller: u16,
        label: u32,
        words: &[u64; CALL_WORDS],
    ) -> Result<Answer, Refusal> {
        if self.servers.is_empty() || label == administration::EXECUTE {
            return Err(Refusal::NotAllowed);
        }
        let server = self.servers.get(usize::from(controller)).ok_or(Refusal::NoController(controller))?;
        let answer = self.platform.kernel().call(*server, &Message::from_words(label, words)).await;
        let mut words = [0; ANSWER_WORDS];
        for (word, answered) in words.iter_mut().zip(answer.words()) {
            *word = *answered;
        }
        Ok(Answer::Administration { label: answer.label, words })
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
