//! Changes at an enabling, and under the driver that uses the controller, as the configuration has them ([`Later`](crate::Later)).

use crate::controller::Controller;
use crate::namespace::Namespace;

impl Controller {
    /// Counts an enabling, and changes what it changes.
    pub(crate) fn enabled_again(&mut self) {
        self.enablings = self.enablings.saturating_add(1);
        let now = self.enablings;
        for later in self.config.later.iter().filter(|later| later.enabling == Some(now)) {
            if let Some(serial) = &later.serial {
                self.config.identity.serial.clone_from(serial);
            }
            self.config.mdts = later.mdts.unwrap_or(self.config.mdts);
            self.granted = later.granted.or(self.granted);
            let is_meant = |namespace: &&mut Namespace| later.nsid.is_none_or(|nsid| namespace.nsid == nsid);
            self.namespaces.iter_mut().filter(is_meant).for_each(|namespace| later.change(namespace));
        }
        if let Some(granted) = self.granted {
            self.admin.limit_queues(granted.clamp(1, self.limits.queue_pairs));
        }
    }

    /// Changes namespaces under the driver that uses them, and says that all of them may have changed.
    pub(crate) fn namespaces_change(&mut self) {
        for later in self.config.later.iter().filter(|later| later.enabling.is_none()) {
            let is_meant = |namespace: &&mut Namespace| later.nsid.is_none_or(|nsid| namespace.nsid == nsid);
            self.namespaces.iter_mut().filter(is_meant).for_each(|namespace| later.change(namespace));
        }
        let changed: Vec<u32> = self.namespaces.iter().map(|namespace| namespace.nsid).collect();
        changed.into_iter().for_each(|nsid| self.admin.namespace_changed(nsid));
    }
}
