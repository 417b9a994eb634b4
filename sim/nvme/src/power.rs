//! Power: what a loss takes with it.

use nvme_spec::registers::ShutdownStatus;

use crate::controller::Controller;
use crate::host::Host;
use crate::record::Event;

impl Controller {
    /// Power is lost at `now_ns` and comes back at once: queues, commands and settings are gone, registers are as after
    /// power-on.
    ///
    /// Of the writes that were neither flushed nor forced to the media, each atomic unit may survive or not, as the
    /// controller's generator draws; a block ends with what some write left there that was not older than the last
    /// durable one.
    pub fn power_loss(&mut self, now_ns: u64) {
        self.clock_ns = self.clock_ns.max(now_ns);
        self.lose_what_is_volatile();
        self.function_level_reset();
        self.journal.event(Event::PowerLost);
    }

    /// The same as a fault: the function around the controller stays as it is, and the driver learns of it by CSTS
    /// alone.
    pub(crate) fn power_fails(&mut self, host: &mut dyn Host) {
        self.lose_what_is_volatile();
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
        let atomic_blocks = u64::from(self.config.atomic_blocks);
        for namespace in self.namespaces.iter_mut() {
            let unit = atomic_blocks << namespace.block_bits();
            namespace.log.power_loss(&mut namespace.store, unit, self.clock_ns, &mut self.generator);
        }
    }

    /// Everything written to a namespace is durable.
    pub(crate) fn settle(&mut self, nsid: u32) {
        if let Some(namespace) = self.namespaces.get_mut(nsid) {
            namespace.log.clear();
        }
    }

    /// Hurries everything in the write caches to the media. Returns when it is there.
    pub(crate) fn flush_all(&mut self) -> u64 {
        let now_ns = self.clock_ns;
        self.namespaces.iter_mut().map(|namespace| namespace.log.flush(now_ns)).fold(now_ns, u64::max)
    }
}
