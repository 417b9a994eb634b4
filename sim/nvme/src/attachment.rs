//! The controllers of a subsystem by their places, and the attachment of namespaces to them (section 6.1).

/// The place of a controller in its subsystem: 0 for the primary or only one, from 1 on for the secondary ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u8);

impl Place {
    /// The primary controller, or the only one.
    pub(crate) const PRIMARY: Self = Self(0);

    const fn bit(self) -> u128 {
        1 << self.0
    }
}

/// The controllers that a namespace is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attachments(u128);

impl Attachments {
    /// Attached to the primary controller alone.
    pub(crate) const PRIMARY: Self = Self(Place::PRIMARY.bit());

    pub(crate) const fn contains(self, place: Place) -> bool {
        self.0 & place.bit() != 0
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) const fn insert(&mut self, place: Place) {
        self.0 |= place.bit();
    }

    pub(crate) const fn remove(&mut self, place: Place) {
        self.0 &= !place.bit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_attached_once_the_only_controller_is_removed() {
        let mut attachments = Attachments::PRIMARY;
        assert!(attachments.contains(Place::PRIMARY) && !attachments.is_empty());
        attachments.remove(Place::PRIMARY);
        assert!(!attachments.contains(Place::PRIMARY) && attachments.is_empty());
        attachments.insert(Place::PRIMARY);
        assert_eq!(attachments, Attachments::PRIMARY);
    }
}
