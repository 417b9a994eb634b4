//! The components' threads: their configuration, and their start.

use crate::BuildError;
use crate::build::Build;
use crate::cspace::root_guard_bits;
use crate::objects::expect_kind;
use crate::restarts::Restarts;
use alloc::rc::Rc;
use alloc::vec::Vec;
use capdl_spec::{Component, ObjectKind, Role};
use platform::{Badge, CPtr, Cap, Kernel, Name, Notification, Platform, Resume, Tcb, UserContext, Vaddr};
use report::{Report, clip};

/// The supervisor's record of a component.
#[derive(Debug)]
pub(crate) struct Thread {
    /// The component's number, the badge of its faults.
    pub(crate) id: u16,
    /// The component's name.
    pub(crate) name: Name,
    /// The component's thread.
    pub(crate) tcb: Cap<Tcb>,
    /// Notification that the supervisor signals at every tick.
    pub(crate) tick: Option<Cap<Notification>>,
    /// The component's alarms, if it may ask for some.
    pub(crate) alarms: Option<Alarms>,
    /// Whether the component is alive.
    pub(crate) state: State,
    /// The component's restarts.
    pub(crate) restarts: Restarts,
}

/// The alarms that a component may ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alarms {
    /// Notification that the supervisor signals when one goes off.
    pub(crate) notification: Cap<Notification>,
    /// The number of the first, and their lengths in microseconds.
    first: u8,
    lengths_us: &'static [u32],
}

impl Alarms {
    /// The lengths of those that `asked` has the bits of.
    pub(crate) fn asked_us(self, asked: u64) -> impl Iterator<Item = u32> {
        let first = self.first;
        let numbered = self.lengths_us.iter().zip(0u8..);
        let asks = move |number: u8| asked & Badge::alarm(first.wrapping_add(number)) & !Badge::SIGNAL != 0;
        numbered.filter_map(move |(length_us, number)| asks(number).then_some(*length_us))
    }
}

/// The lengths of the alarms that a component of this role may ask for, microseconds: one for each of its numbers.
const fn alarms_us(role: Role) -> &'static [u32] {
    match role {
        Role::NvmeServer => &platform::alarm::SERVER_US,
        Role::Client => &platform::alarm::CLIENT_US,
        _ => &[],
    }
}

/// Whether a component is alive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The component is alive.
    Alive,
    /// The component ended, and is restarted once a driver's device is silent and a client's session is torn down. A client with
    /// a function of its own waits for both.
    Waits {
        /// Time of its end, in ticks of the clock.
        since: u64,
        /// Whether the PCI server has reported its device as silent.
        is_silent: bool,
    },
    /// The component was stopped for good.
    Ended,
}

impl Thread {
    /// Whether the component runs, or could.
    pub(crate) fn is_alive(&self) -> bool {
        self.state == State::Alive
    }
}

impl<P: Platform> Build<P> {
    /// Configures every thread; none runs yet. Returns them in the order in which they are to start.
    pub(crate) fn configure_threads(&mut self) -> Result<Vec<Thread>, BuildError> {
        let specification = Rc::clone(&self.specification);
        let mut components: Vec<&Component> = specification.components.iter().collect();
        components.sort_by_key(|component| core::cmp::Reverse(component.priority));
        components.into_iter().map(|component| self.configure(component)).collect()
    }

    fn configure(&mut self, component: &Component) -> Result<Thread, BuildError> {
        self.install_root(component)?;
        self.install_fault_endpoint(component)?;
        expect_kind(&self.specification, component.vspace, ObjectKind::VSpace)?;
        expect_kind(&self.specification, component.ipc_buffer, ObjectKind::SmallFrame)?;
        let refused = || BuildError::refused("set up the thread of", &component.name);
        let (kernel, objects) = (self.kernel(), &self.objects);
        let tcb = objects.cap::<Tcb>(component.tcb)?;
        kernel
            .tcb_configure(
                tcb,
                CPtr::new(component.fault_path()),
                component.priority,
                objects.cap(component.cspace())?,
                root_guard_bits(&self.specification, component)?,
                objects.cap(component.vspace)?,
                Vaddr::new(component.ipc_buffer_vaddr),
                objects.cap(component.ipc_buffer)?,
            )
            .map_err(refused())?;
        if let Some(notification) = component.bound_notification {
            kernel.tcb_bind_notification(tcb, objects.cap(notification)?).map_err(refused())?;
        }
        self.write_registers(component)?;
        let tick = component.tick.map(|id| self.mint_own(id, Badge(Badge::SIGNAL | Badge::TICK))).transpose()?;
        let woken = Badge(Badge::SIGNAL | Badge::ALARM);
        let alarms = component.tick.zip(component.alarm).map(|(id, first)| {
            let lengths_us = alarms_us(component.role);
            Ok(Alarms { notification: self.mint_own(id, woken)?, first, lengths_us })
        });
        let alarms = alarms.transpose()?;
        let (id, name) = (component.id, clip(&component.name));
        let restarts = Restarts::new(component.restart);
        Ok(Thread { id, name, tcb, tick, alarms, state: State::Alive, restarts })
    }

    /// Puts the component's thread, which does not run, at its first instruction.
    pub(crate) fn write_registers(&self, component: &Component) -> Result<(), BuildError> {
        let context = UserContext {
            instruction_pointer: component.entry,
            stack_pointer: component.stack_pointer,
            arguments: [component.environment_vaddr, self.platform.ticks_per_second(), 0],
        };
        let written = self.kernel().tcb_write_registers(self.objects.cap(component.tcb)?, Resume::Later, &context);
        written.map_err(BuildError::refused("set up the thread of", &component.name))
    }

    /// Lets the threads run, and reports them.
    pub(crate) fn resume(&self, threads: &[Thread]) -> Result<(), BuildError> {
        for thread in threads {
            self.report_component(thread);
            let resumed = self.kernel().tcb_resume(thread.tcb);
            resumed.map_err(BuildError::refused("start", &thread.name))?;
        }
        Ok(())
    }

    fn report_component(&self, thread: &Thread) {
        let Some(component) = self.specification.components.iter().find(|component| component.id == thread.id) else {
            return;
        };
        let component = report::Component {
            component: component.id,
            name: clip(&component.name),
            priority: component.priority,
            capabilities: self.installed.get(&component.cnode).copied().unwrap_or(0),
            pages: self.pages.get(&component.vspace).copied().unwrap_or(0),
        };
        self.platform.report(&Report::Component(component).encode());
    }
}
