//! Commands and features that no controller of the subsystem executes (base specification 2.0, section 8.4).
//!
//! A plain table. [`crate::admin`] has the command that changes it, and consults it for every command. Only a loss of power clears it.

use std::collections::BTreeSet;

use nvme_spec::admin::Lock;

/// The commands and features that are prohibited in an admin SQ.
#[derive(Debug, Default)]
pub(crate) struct Lockdown {
    commands: BTreeSet<u8>,
    features: BTreeSet<u8>,
}

/// A command by its opcode, or Set Features by the feature's identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lockable {
    Command(u8),
    Feature(u8),
}

impl Lockdown {
    /// Prohibits or allows. Neither is an error when it is so already.
    pub(crate) fn set(&mut self, which: Lockable, lock: Lock) {
        let (ids, id) = match which {
            Lockable::Command(opcode) => (&mut self.commands, opcode),
            Lockable::Feature(fid) => (&mut self.features, fid),
        };
        match lock {
            Lock::Prohibit => ids.insert(id),
            Lock::Allow => ids.remove(&id),
        };
    }

    pub(crate) fn prohibits(&self, which: Lockable) -> bool {
        match which {
            Lockable::Command(opcode) => self.commands.contains(&opcode),
            Lockable::Feature(fid) => self.features.contains(&fid),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_and_features_are_prohibited_apart_and_allowed_again() {
        let mut lockdown = Lockdown::default();
        let [command, feature] = [Lockable::Command(6), Lockable::Feature(6)];
        for _ in 0..2 {
            lockdown.set(command, Lock::Prohibit);
        }
        assert!(lockdown.prohibits(command) && !lockdown.prohibits(feature));
        for _ in 0..2 {
            lockdown.set(command, Lock::Allow);
        }
        assert!(!lockdown.prohibits(command));
    }
}
