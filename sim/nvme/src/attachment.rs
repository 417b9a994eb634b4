//! The controllers of a subsystem by their places, and the attachment of namespaces to them (section 6.1).

/// Secondary controllers that a subsystem can have: as many as their list can hold (section 5.15.2.11).
pub(crate) const MOST_SECONDARIES: u8 = 127;

/// The place of a controller in its subsystem: 0 for the primary or only one, from 1 on for the secondary ones.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place(u8);

impl Place {
    /// The primary controller, or the only one.
    pub(crate) const PRIMARY: Self = Self(0);

    /// Returns the places of the first `count` secondary controllers, as far as there can be so many.
    pub(crate) fn secondaries(count: u8) -> impl Iterator<Item = Self> {
        (1..=count.min(MOST_SECONDARIES)).map(Self)
    }

    /// The place of the controller with this number ([`Place::number`]), if there can be one.
    pub(crate) const fn numbered(number: u8) -> Option<Self> {
        if number <= MOST_SECONDARIES { Some(Self(number)) } else { None }
    }

    /// The number of a secondary controller's virtual function, from 1 on; 0 for the primary controller.
    pub(crate) const fn number(self) -> u8 {
        self.0
    }

    /// The index of a secondary controller, from 0 on; `None` for the primary one.
    pub(crate) fn secondary_index(self) -> Option<usize> {
        usize::from(self.0).checked_sub(1)
    }

    const fn bit(self) -> u128 {
        1 << self.0
    }
}

/// The controllers that a namespace is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Attachments(u128);

impl Attachments {
    /// Attached to one controller alone.
    pub(crate) const fn only(place: Place) -> Self {
        Self(place.bit())
    }

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

    /// Returns the places, ascending.
    pub(crate) fn places(self) -> impl Iterator<Item = Place> {
        (0..=MOST_SECONDARIES).map(Place).filter(move |&place| self.contains(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_secondary_controller_has_a_place() {
        let places: Vec<Place> = Place::secondaries(u8::MAX).collect();
        let last = places[126];
        assert_eq!((places.len(), last.number(), last.secondary_index()), (127, 127, Some(126)));
        let mut attachments = Attachments::only(Place::PRIMARY);
        attachments.insert(last);
        assert_eq!(attachments.places().collect::<Vec<_>>(), [Place::PRIMARY, last]);
        attachments.remove(Place::PRIMARY);
        assert!(!attachments.contains(Place::PRIMARY) && !attachments.is_empty());
        attachments.remove(last);
        assert!(attachments.is_empty());
    }
}
