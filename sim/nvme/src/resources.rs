//! Queue and interrupt resources of a primary controller and its secondary controllers, and the states of the latter
//! (section 8.5).
//!
//! A plain table. [`crate::admin`] has the command that changes it; [`crate::subsystem`] makes the controllers follow it.

use nvme_spec::StatusCode;
use nvme_spec::admin::ControllerResource;

use crate::attachment::Place;
use crate::config::{Config, Virtualization};

/// Resources of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Pool {
    /// VxFRT: those that can be moved between controllers.
    pub(crate) flexible: u16,
    /// VxPRT: those that always belong to the primary controller.
    pub(crate) private: u16,
    /// VxFRSM: most of one secondary controller.
    pub(crate) secondary_max: u16,
    /// VxRFAP: flexible ones that the primary controller has.
    pub(crate) primary: u16,
    /// Flexible ones that it has from its next reset on.
    pub(crate) primary_next: u16,
}

/// A secondary controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Secondary {
    pub(crate) place: Place,
    /// Software has its virtual function enabled.
    pub(crate) is_enabled: bool,
    pub(crate) is_online: bool,
    /// VQ resources assigned.
    pub(crate) queues: u16,
    /// VI resources assigned.
    pub(crate) interrupts: u16,
    /// Changes of its state since power-on, each of which resets the controller.
    pub(crate) changes: u64,
}

/// Limits of a controller's queue and vector numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Number of I/O SQs and of I/O CQs.
    pub(crate) queue_pairs: u16,
    /// Interrupt vectors.
    pub(crate) vectors: u16,
}

/// Resources and states of a subsystem with secondary controllers.
#[derive(Clone, Debug)]
pub(crate) struct Resources {
    queues: Pool,
    interrupts: Pool,
    secondaries: Vec<Secondary>,
}

impl Resources {
    /// Creates the state after power-on: the primary controller has everything, no secondary controller is online.
    pub(crate) fn new(config: &Config, virtualization: &Virtualization) -> Self {
        let pool = |all: u16, flexible: u16, secondary_max| Pool {
            flexible,
            private: all.saturating_sub(flexible),
            secondary_max,
            primary: flexible,
            primary_next: flexible,
        };
        let secondary =
            |place| Secondary { place, is_enabled: false, is_online: false, queues: 0, interrupts: 0, changes: 0 };
        Self {
            queues: pool(
                config.queue_pairs.saturating_add(1),
                virtualization.flexible_queues,
                virtualization.secondary_queues,
            ),
            interrupts: pool(config.vectors, virtualization.flexible_interrupts, virtualization.secondary_interrupts),
            secondaries: Place::secondaries(virtualization.functions).map(secondary).collect(),
        }
    }

    pub(crate) const fn pool(&self, kind: ControllerResource) -> &Pool {
        match kind {
            ControllerResource::Queues => &self.queues,
            ControllerResource::Interrupts => &self.interrupts,
        }
    }

    const fn pool_mut(&mut self, kind: ControllerResource) -> &mut Pool {
        match kind {
            ControllerResource::Queues => &mut self.queues,
            ControllerResource::Interrupts => &mut self.interrupts,
        }
    }

    /// The secondary controllers, by place.
    pub(crate) fn secondaries(&self) -> &[Secondary] {
        &self.secondaries
    }

    /// Returns a secondary controller; `None` for the primary one.
    pub(crate) fn secondary(&self, place: Place) -> Option<&Secondary> {
        self.secondaries.get(place.secondary_index()?)
    }

    fn secondary_mut(&mut self, place: Place) -> Option<&mut Secondary> {
        self.secondaries.get_mut(place.secondary_index()?)
    }

    /// VxRFA: flexible resources assigned to secondary controllers.
    pub(crate) fn assigned(&self, kind: ControllerResource) -> u16 {
        self.secondaries.iter().fold(0, |sum: u16, one| sum.saturating_add(one.assigned(kind)))
    }

    /// Returns the limits of a controller.
    pub(crate) fn limits(&self, place: Place) -> Limits {
        let (queues, vectors) = match self.secondary(place) {
            Some(secondary) => (secondary.queues, secondary.interrupts),
            None => (self.queues.of_primary(), self.interrupts.of_primary()),
        };
        Limits { queue_pairs: queues.saturating_sub(1), vectors }
    }

    /// Sets the flexible resources that the primary controller has from its next reset on.
    ///
    /// # Errors
    /// Invalid Number of Controller Resources when there are not so many; Invalid Resource Identifier when secondary
    /// controllers have too many of them, as QEMU answers.
    pub(crate) fn allocate(&mut self, kind: ControllerResource, count: u16) -> Result<(), StatusCode> {
        let assigned = self.assigned(kind);
        let pool = self.pool_mut(kind);
        if count > pool.flexible {
            return Err(StatusCode::InvalidResourceCount);
        }
        if count > pool.flexible.saturating_sub(assigned) {
            return Err(StatusCode::InvalidResourceId);
        }
        pool.primary_next = count;
        Ok(())
    }

    /// Gives the primary controller the resources that were allocated to it.
    pub(crate) const fn activate(&mut self) {
        let Self { queues, interrupts, secondaries: _ } = self;
        queues.primary = queues.primary_next;
        interrupts.primary = interrupts.primary_next;
    }

    /// Sets the resources of a secondary controller.
    ///
    /// # Errors
    /// Invalid Controller Identifier when it is none; Invalid Secondary Controller State when it is online; Invalid
    /// Number of Controller Resources beyond what one may have; Invalid Resource Identifier when not so many are free, as
    /// QEMU answers.
    pub(crate) fn assign(&mut self, place: Place, kind: ControllerResource, count: u16) -> Result<(), StatusCode> {
        let secondary = *self.secondary(place).ok_or(StatusCode::InvalidControllerId)?;
        if secondary.is_online {
            return Err(StatusCode::InvalidSecondaryState);
        }
        let pool = self.pool(kind);
        if count > pool.secondary_max {
            return Err(StatusCode::InvalidResourceCount);
        }
        let others = self.assigned(kind).saturating_sub(secondary.assigned(kind));
        // The resources that the primary controller has until its reset are not free yet, nor are those that it will have.
        let taken = others.saturating_add(pool.primary.max(pool.primary_next));
        if count > pool.flexible.saturating_sub(taken) {
            return Err(StatusCode::InvalidResourceId);
        }
        if let Some(secondary) = self.secondary_mut(place) {
            match kind {
                ControllerResource::Queues => secondary.queues = count,
                ControllerResource::Interrupts => secondary.interrupts = count,
            }
        }
        Ok(())
    }

    /// Sets a secondary controller online.
    ///
    /// # Errors
    /// Invalid Controller Identifier when it is none; Invalid Secondary Controller State without the least resources, and
    /// without its virtual function, as QEMU answers.
    pub(crate) fn set_online(&mut self, place: Place) -> Result<(), StatusCode> {
        let secondary = self.secondary_mut(place).ok_or(StatusCode::InvalidControllerId)?;
        let kinds = [ControllerResource::Queues, ControllerResource::Interrupts];
        if !secondary.is_enabled || kinds.iter().any(|&kind| secondary.assigned(kind) < kind.minimum()) {
            return Err(StatusCode::InvalidSecondaryState);
        }
        if !secondary.is_online {
            secondary.is_online = true;
            secondary.changes = secondary.changes.saturating_add(1);
        }
        Ok(())
    }

    /// Takes a secondary controller offline and removes its resources.
    ///
    /// # Errors
    /// Invalid Controller Identifier when it is none.
    pub(crate) fn set_offline(&mut self, place: Place) -> Result<(), StatusCode> {
        let secondary = self.secondary_mut(place).ok_or(StatusCode::InvalidControllerId)?;
        secondary.take_offline();
        Ok(())
    }

    /// Software enabled the virtual function of a secondary controller.
    pub(crate) fn enable_function(&mut self, place: Place) {
        if let Some(secondary) = self.secondary_mut(place) {
            secondary.is_enabled = true;
        }
    }

    /// Software disabled the virtual function of a secondary controller, which takes that offline.
    pub(crate) fn disable_function(&mut self, place: Place) {
        if let Some(secondary) = self.secondary_mut(place) {
            secondary.is_enabled = false;
            secondary.take_offline();
        }
    }

    /// Takes all secondary controllers offline.
    pub(crate) fn set_all_offline(&mut self) {
        self.secondaries.iter_mut().for_each(Secondary::take_offline);
    }
}

impl Pool {
    const fn of_primary(&self) -> u16 {
        self.private.saturating_add(self.primary)
    }
}

impl Secondary {
    /// Resources assigned.
    pub(crate) const fn assigned(&self, kind: ControllerResource) -> u16 {
        match kind {
            ControllerResource::Queues => self.queues,
            ControllerResource::Interrupts => self.interrupts,
        }
    }

    const fn take_offline(&mut self) {
        if self.is_online {
            self.changes = self.changes.saturating_add(1);
        }
        self.is_online = false;
        (self.queues, self.interrupts) = (0, 0);
    }
}

#[cfg(test)]
#[path = "resources_tests.rs"]
mod tests;
