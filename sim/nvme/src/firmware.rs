//! Firmware slots of the subsystem (section 8.1), and the images that the model takes.
//!
//! A plain table. [`crate::admin`] has the commands that change it; a reset of the primary controller activates the next image. An
//! image is no program: the model reads its revision alone. Left out: boot partitions.

/// Bytes of a revision.
const REVISION_BYTES: usize = 8;
/// Bytes of an image, and of each piece, are a multiple of this (FWUG).
pub(crate) const UNIT_BYTES: u64 = 4096;
/// Bytes of the largest image.
pub(crate) const MOST_BYTES: u64 = 1 << 20;
/// The first bytes of every image.
const MAGIC: [u8; 8] = *b"capnvme\0";
/// Place of the revision in an image.
const REVISION_AT: usize = 8;
/// Place of the dword that makes the sum of all dwords 0.
const CHECK_AT: usize = 16;

/// A firmware revision: ASCII, padded with spaces.
pub(crate) type Revision = [u8; REVISION_BYTES];

/// The images in the slots, and which of them runs.
#[derive(Debug, Default)]
pub(crate) struct Firmware {
    /// Revisions from slot 1 on.
    slots: Vec<Option<Revision>>,
    /// The slot that runs, from 1 on.
    active: u8,
    /// The slot that runs after the next reset; 0 when none was chosen.
    next: u8,
}

impl Firmware {
    /// Creates the slots, of which the first holds the revision that runs.
    pub(crate) fn new(count: u8, revision: &str) -> Self {
        let mut slots = vec![None; usize::from(count.max(1))];
        slots[0] = Some(padded(revision));
        Self { slots, active: 1, next: 0 }
    }

    /// Number of slots.
    pub(crate) fn count(&self) -> u8 {
        self.slots.len() as u8
    }

    /// The revision in a slot, from 1 on; `None` for an empty slot, and one that does not exist.
    pub(crate) fn revision(&self, slot: u8) -> Option<Revision> {
        *self.slots.get(usize::from(slot).checked_sub(1)?)?
    }

    pub(crate) const fn active(&self) -> u8 {
        self.active
    }

    pub(crate) const fn next(&self) -> u8 {
        self.next
    }

    /// The slot that an image comes into if the host leaves the choice: the first empty one, or the first that does not run.
    pub(crate) fn free_slot(&self) -> Option<u8> {
        let writable = || 2..=self.count();
        writable().find(|&slot| self.revision(slot).is_none()).or_else(|| writable().find(|&slot| slot != self.active))
    }

    /// Puts an image into a slot.
    pub(crate) fn replace(&mut self, slot: u8, revision: Revision) {
        if let Some(place) = usize::from(slot).checked_sub(1).and_then(|index| self.slots.get_mut(index)) {
            *place = Some(revision);
        }
    }

    /// Has the image of a slot run after the next reset.
    pub(crate) const fn choose(&mut self, slot: u8) {
        self.next = slot;
    }

    /// Runs the image of a slot.
    pub(crate) const fn activate(&mut self, slot: u8) {
        (self.active, self.next) = (slot, 0);
    }

    /// Runs the image that was chosen, if there is one: the controller is reset.
    pub(crate) const fn reset(&mut self) {
        if self.next != 0 {
            self.activate(self.next);
        }
    }
}

fn padded(revision: &str) -> Revision {
    let mut padded = [b' '; REVISION_BYTES];
    for (place, byte) in padded.iter_mut().zip(revision.bytes()) {
        *place = byte;
    }
    padded
}

/// Makes an image of this many units of 4 KiB, 1 to 256. The revision is ASCII, cut to 8 characters.
#[must_use]
pub fn firmware_image(revision: &str, units: u16) -> Vec<u8> {
    let bytes = (u64::from(units) * UNIT_BYTES).clamp(UNIT_BYTES, MOST_BYTES) as usize;
    let mut image: Vec<u8> = (0..bytes).map(|index| (index / 7) as u8).collect();
    image[..REVISION_AT].copy_from_slice(&MAGIC);
    image[REVISION_AT..CHECK_AT].copy_from_slice(&padded(revision));
    image[CHECK_AT..CHECK_AT + 4].fill(0);
    let check = 0_u32.wrapping_sub(sum(&image));
    image[CHECK_AT..CHECK_AT + 4].copy_from_slice(&check.to_le_bytes());
    image
}

/// Returns the revision of an image; `None` when it is none.
pub(crate) fn revision_of(image: &[u8]) -> Option<Revision> {
    let revision = image.get(REVISION_AT..CHECK_AT)?.first_chunk::<REVISION_BYTES>()?;
    (image.starts_with(&MAGIC) && sum(image) == 0).then_some(*revision)
}

fn sum(image: &[u8]) -> u32 {
    let dwords = image.as_chunks::<4>().0.iter();
    dwords.fold(0, |sum: u32, dword| sum.wrapping_add(u32::from_le_bytes(*dword)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_has_its_revision_and_a_damaged_one_none() {
        let mut image = firmware_image("2.1", 2);
        assert_eq!((image.len(), revision_of(&image)), (8192, Some(*b"2.1     ")));
        assert_eq!(revision_of(&image[..4096]), None);
        image[5000] ^= 1;
        assert_eq!(revision_of(&image), None);
        assert_eq!(revision_of(&[0; 8192]), None);
    }

    #[test]
    fn the_chosen_image_runs_from_the_reset_on() {
        let mut firmware = Firmware::new(3, "1.0");
        assert_eq!(firmware.free_slot(), Some(2));
        firmware.replace(2, *b"2.0     ");
        assert_eq!(firmware.free_slot(), Some(3));
        firmware.choose(2);
        assert_eq!((firmware.active(), firmware.next()), (1, 2));
        firmware.reset();
        assert_eq!((firmware.active(), firmware.next()), (2, 0));
        firmware.replace(3, *b"3.0     ");
        assert_eq!(firmware.free_slot(), Some(3));
        firmware.reset();
        assert_eq!(firmware.active(), 2);
        assert_eq!((firmware.revision(0), firmware.revision(4)), (None, None));
        assert_eq!(Firmware::new(1, "1.0").free_slot(), None);
    }
}
