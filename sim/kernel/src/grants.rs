//! The versions' rules about capabilities that go along with messages and answers.

use platform::Rights;

/// The rules of a kernel's version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grants {
    /// seL4 5.0.0: an answer carries a capability whatever the rights of its sender. Grant-reply is grant.
    Lax,
    /// seL4 11.0.0 and later: an answer carries a capability only if its sender received the call through a capability with
    /// grant. Grant-reply is a right of its own: a call through it is answered, and carries no capability.
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

    /// The rights that this kernel has of these.
    pub(crate) const fn known(self, rights: Rights) -> Rights {
        match self {
            Self::Lax => Rights { grant: rights.grant || rights.grant_reply, grant_reply: false, ..rights },
            Self::Strict => rights,
        }
    }

    /// Rights as the kernel's interface encodes them.
    pub(crate) fn word(self, rights: Rights) -> u64 {
        let Rights { read, write, grant, grant_reply } = self.known(rights);
        u64::from(write) | u64::from(read) << 1 | u64::from(grant) << 2 | u64::from(grant_reply) << 3
    }
}
