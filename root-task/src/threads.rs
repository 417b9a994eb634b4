//! The components' threads: their configuration, and their start.

use crate::cspace::root_guard_bits;
use crate::error::BuildError;
use crate::objects::expect_kind;
use crate::restarts::Restarts;
use crate::state::Build;
use crate::thread::{Alarms, State, Thread, alarms_us};
use alloc::rc::Rc;
use alloc::vec::Vec;
use capdl_spec::{Component, ObjectKind};
use platform::{Badge, CPtr, Kernel, Platform, Resume, Tcb, UserContext, Vaddr};
use report::{Report, clip};

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
