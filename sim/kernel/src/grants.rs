//! The versions' rules about capabilities that go along with messages and answers.

use platform::Rights;

/// The rules of a kernel's version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grants {
    /// seL4 5.0.0: an answer carries a capability whatever the rights of its sender.
    Lax,
    /// seL4 11.0.0 and later: an answer carries a capability only if its sender received the call through a capability with
    /// grant.
    Strict,
}

impl Grants {
    /// Whether the answer to a call that is received through a capability with `rights` carries a capability.
    pub(crate) const fn answer_carries(self, rights: Rights) -> bool {
        match self {
            Self::Lax => true,
            Self::Strict => rights.grant,
        }
    }
}
