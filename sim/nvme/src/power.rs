//! Power: the effects of a loss.

use nvme_spec::registers::ShutdownStatus;

use crate::attachment::Place;
use crate::controller::Controller;
use crate::host::Host;
use crate::lockdown::Lockdown;
use crate::namespace::Namespace;
use crate::record::Event;

impl Controller {
    /// Loses power at `now_ns`; it comes back at once. Queues, commands and settings are gone, registers are as after
    /// power-on.
    ///
    /// Of the writes that were neither flushed nor forced to the media, each atomic unit may survive or not, as the
    /// controller's generator draws. A block ends with the data of some write that is not older than the last durable
    /// one.
    pub fn power_loss(&mut self, now_ns: u64) {
        self.with_shared(|controller| {
            controller.clock_ns = controller.clock_ns.max(now_ns);
            controller.lose_what_is_volatile();
            controller.reset_function();
            controller.journal.event(Event::PowerLost);
        });
    }

    /// Loses power by a fault: the function around the controller stays as it is, and only CSTS shows it to the driver.
    pub(crate) fn power_fails(&mut self, host: &mut dyn Host) {
        self.lose_what_is_volatile();
        self.activate_resources();
        self.stop();
        self.interrupts.update_pin(host);
        self.registers.reset_unnoticed();
        self.journal.event(Event::PowerLost);
    }

    fn lose_what_is_volatile(&mut self) {
        if self.registers.csts.shst() != ShutdownStatus::Complete {
            self.counters.unsafe_shutdowns += 1;
        }
        self.counters.power_cycles += 1;
        if self.member.place != Place::PRIMARY {
            // The media lose power with the primary controller.
            return;
        }
        self.subsystem.lockdown = Lockdown::default();
        let atomic_blocks = u64::from(self.config.atomic_blocks);
        for namespace in self.namespaces.iter_mut() {
            let unit = atomic_blocks << namespace.block_bits();
            namespace.log.power_loss(&mut namespace.store, unit, self.clock_ns, &mut self.generator);
        }
    }

    /// Makes everything written to a namespace durable.
    pub(crate) fn settle(&mut self, nsid: u32) {
        if let Some(namespace) = self.namespaces.get_mut(nsid) {
            namespace.log.clear();
        }
    }

    /// Flushes the write caches to the media, those of a secondary controller's own namespaces alone. Returns when
    /// everything is there.
    pub(crate) fn flush_all(&mut self) -> u64 {
        let (now_ns, place) = (self.clock_ns, self.member.place);
        let is_own = |namespace: &&mut Namespace| place == Place::PRIMARY || namespace.attachments.contains(place);
        self.namespaces.iter_mut().filter(is_own).map(|namespace| namespace.log.flush(now_ns)).fold(now_ns, u64::max)
    }
}
