//! The session's ring pair: two regions of shared memory, one written by each side.
//!
//! The client's region holds its submissions and how far it has read completions; the server's region holds the
//! completions and how far it has taken submissions. Each side maps its own region read-write and the other's read-only,
//! keeps its own indices privately and publishes them, and does not trust the other's indices. Indices count without end
//! and wrap at 2^32; slot = index mod entries.
//!
//! Sleeping: a side that wants a signal writes [`AWAKE`]'s opposite, [`ASLEEP`], into its own flag, fences, polls the ring
//! once more, and only then waits. A side that publishes then fences and reads the other's flag.

use crate::request::{Entry, Head};
use crate::status::Status;
use core::fmt;
use platform::{Memory, OutOfBounds, SlotReader, SlotWriter};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Offset of the producing index in a region.
pub const PRODUCED: usize = 0;
/// Offset of the consuming index.
pub const CONSUMED: usize = 64;
/// Offset of the sleep flag.
pub const FLAG: usize = 128;
/// Offset of the slots.
pub const SLOTS: usize = 192;

/// Flag: do not signal.
pub const AWAKE: u32 = 0;
/// Flag: signal after publishing.
pub const ASLEEP: u32 = 1;

/// Largest ring.
pub const MAX_ENTRIES: u32 = 4096;

/// A completion as it lies on the ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Completed {
    /// The submission's user data.
    pub user_data: u64,
    /// A [`Status`] by number.
    pub status: u16,
    /// The controller's status field when it failed the command, else 0: code, type, CRD and DNR (NVM Express base
    /// specification 2.0, section 3.3.3.2.1). [`DO_NOT_RETRY`] says that the same request would fail again. Without it the request may
    /// be tried again; where the controller asked for that, it was done already, as often as the server does it.
    pub device_status: u16,
    /// Always 0.
    pub reserved: u32,
}

/// DNR in [`Completed::device_status`].
pub const DO_NOT_RETRY: u16 = 1 << 14;

impl Completed {
    /// The status, if it is one.
    #[must_use]
    pub const fn status(&self) -> Option<Status> {
        Status::from_raw(self.status)
    }
}

/// Bytes of the client's region for `entries` entries, in whole pages.
#[must_use]
pub const fn client_region_bytes(entries: u32) -> u64 {
    region_bytes(entries, size_of::<Entry>() as u64)
}

/// Bytes of the server's region for `entries` entries, in whole pages.
#[must_use]
pub const fn server_region_bytes(entries: u32) -> u64 {
    region_bytes(entries, size_of::<Completed>() as u64)
}

const fn region_bytes(entries: u32, slot_bytes: u64) -> u64 {
    // At most 4096 slots of 64 bytes: no overflow.
    (SLOTS as u64).saturating_add((entries as u64).saturating_mul(slot_bytes)).next_multiple_of(4096)
}

/// The peer published an impossible index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub enum RingError {
    /// More entries published than the ring has, or fewer taken than before.
    IndexOutOfRange,
    /// The region is too small for its entries, or the number of entries is not a power of two up to [`MAX_ENTRIES`].
    BadRegion,
}

impl fmt::Display for RingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::IndexOutOfRange => "ring index out of range",
            Self::BadRegion => "ring region does not fit its entries",
        })
    }
}

impl From<OutOfBounds> for RingError {
    fn from(_: OutOfBounds) -> Self {
        Self::BadRegion
    }
}

/// A direction, as its producer holds it: `own` is written by the producer, `peer` by the consumer.
struct Producer<M: Memory, S: IntoBytes + Immutable + 'static> {
    own: M,
    peer: M,
    slots: M::Writer<S>,
    mask: u32,
    produced: u32,
    published: u32,
    consumed: u32,
}

/// A direction, as its consumer holds it.
struct Consumer<M: Memory, S: FromBytes + 'static> {
    own: M,
    peer: M,
    slots: M::Reader<S>,
    mask: u32,
    produced: u32,
    consumed: u32,
    published: u32,
}

fn mask(entries: u32) -> Result<u32, RingError> {
    let sound = entries.is_power_of_two() && entries <= MAX_ENTRIES;
    sound.then(|| entries.wrapping_sub(1)).ok_or(RingError::BadRegion)
}

impl<M: Memory, S: IntoBytes + Immutable + 'static> Producer<M, S> {
    fn new(own: M, peer: M, entries: u32) -> Result<Self, RingError> {
        let slots = own.writer(SLOTS, entries)?;
        Ok(Self { own, peer, slots, mask: mask(entries)?, produced: 0, published: 0, consumed: 0 })
    }

    /// Slots free to fill, as known without polling the peer.
    #[inline]
    const fn known_room(&self) -> u32 {
        self.mask.wrapping_add(1).wrapping_sub(self.produced.wrapping_sub(self.consumed))
    }

    /// Slots free to fill, after polling.
    fn room(&mut self) -> Result<u32, RingError> {
        let consumed = self.peer.load_acquire_u32(CONSUMED)?;
        if consumed.wrapping_sub(self.consumed) > self.published.wrapping_sub(self.consumed) {
            return Err(RingError::IndexOutOfRange);
        }
        self.consumed = consumed;
        Ok(self.known_room())
    }

    #[inline(always)]
    fn push(&mut self, slot: &S) {
        self.slots.write(self.produced & self.mask, slot);
        self.produced = self.produced.wrapping_add(1);
    }

    /// Publishes the pushed slots; returns whether the peer asked to be signalled for them.
    fn publish(&mut self) -> Result<bool, RingError> {
        if self.produced == self.published {
            return Ok(false);
        }
        self.own.store_release_u32(PRODUCED, self.produced)?;
        self.published = self.produced;
        self.own.fence();
        Ok(self.peer.load_acquire_u32(FLAG)? == ASLEEP)
    }
}

impl<M: Memory, S: FromBytes + 'static> Consumer<M, S> {
    fn new(own: M, peer: M, entries: u32) -> Result<Self, RingError> {
        let slots = peer.reader(SLOTS, entries)?;
        Ok(Self { own, peer, slots, mask: mask(entries)?, produced: 0, consumed: 0, published: 0 })
    }

    /// Slots to take, after polling when none are known.
    #[inline]
    fn available(&mut self) -> Result<u32, RingError> {
        if self.produced == self.consumed {
            let produced = self.peer.load_acquire_u32(PRODUCED)?;
            if produced.wrapping_sub(self.consumed) > self.mask.wrapping_add(1) {
                return Err(RingError::IndexOutOfRange);
            }
            self.produced = produced;
        }
        Ok(self.produced.wrapping_sub(self.consumed))
    }

    /// Copies the beginning of the next slot out, without taking it.
    #[inline(always)]
    fn peek<T: FromBytes>(&mut self) -> Result<Option<T>, RingError> {
        if self.available()? == 0 {
            return Ok(None);
        }
        Ok(Some(self.slots.read_head(self.consumed & self.mask)))
    }

    /// Takes a slot: a copy, made once.
    #[inline]
    fn pop(&mut self) -> Result<Option<S>, RingError> {
        if self.available()? == 0 {
            return Ok(None);
        }
        let slot = self.slots.read(self.consumed & self.mask);
        self.consumed = self.consumed.wrapping_add(1);
        Ok(Some(slot))
    }

    /// Publishes how far slots may be filled again.
    fn publish(&mut self) -> Result<(), RingError> {
        if self.published != self.consumed {
            self.own.store_release_u32(CONSUMED, self.consumed)?;
            self.published = self.consumed;
        }
        Ok(())
    }
}

/// The client's end.
pub struct ClientEnd<M: Memory> {
    submissions: Producer<M, Entry>,
    completions: Consumer<M, Completed>,
}

impl<M: Memory> ClientEnd<M> {
    /// Creates the client's end over its own region `client` and the server's region `server`, at index 0. It must be created
    /// before the session is opened.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub fn new(client: M, server: M, entries: u32) -> Result<Self, RingError> {
        for index in [PRODUCED, CONSUMED, FLAG] {
            client.store_release_u32(index, 0)?;
        }
        Ok(Self {
            submissions: Producer::new(client.clone(), server.clone(), entries)?,
            completions: Consumer::new(client, server, entries)?,
        })
    }

    /// Writes an entry; `false` when the ring is full. The server sees it after [`ClientEnd::publish`].
    ///
    /// # Errors
    /// [`RingError`] for impossible indices of the server.
    #[inline]
    pub fn submit(&mut self, entry: &Entry) -> Result<bool, RingError> {
        if self.submissions.known_room() == 0 && self.submissions.room()? == 0 {
            return Ok(false);
        }
        self.submissions.push(entry);
        Ok(true)
    }

    /// Publishes the submissions; returns whether the server sleeps and must be signalled.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn publish(&mut self) -> Result<bool, RingError> {
        self.submissions.publish()
    }

    /// The number of the next submission, counted from the opening on and without end.
    #[must_use]
    #[inline]
    pub const fn submitted(&self) -> u32 {
        self.submissions.produced
    }

    /// The number of the next completion to take, likewise.
    #[must_use]
    #[inline]
    pub const fn taken(&self) -> u32 {
        self.completions.consumed
    }

    /// Whether submissions are not published yet.
    #[must_use]
    #[inline]
    pub const fn has_unpublished(&self) -> bool {
        self.submissions.produced != self.submissions.published
    }

    /// Whether completions were taken and that is not published yet.
    #[must_use]
    #[inline]
    pub const fn has_taken(&self) -> bool {
        self.completions.consumed != self.completions.published
    }

    /// Takes the next completion.
    ///
    /// # Errors
    /// [`RingError`] for impossible indices of the server.
    #[inline]
    pub fn complete(&mut self) -> Result<Option<Completed>, RingError> {
        self.completions.pop()
    }

    /// Publishes which completions were taken, after a batch.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn publish_taken(&mut self) -> Result<(), RingError> {
        self.completions.publish()
    }

    /// Asks for a signal; returns whether there are completions nevertheless, so that the client must not wait.
    ///
    /// # Errors
    /// [`RingError`] for impossible indices of the server.
    pub fn prepare_sleep(&mut self) -> Result<bool, RingError> {
        self.completions.own.store_release_u32(FLAG, ASLEEP)?;
        self.completions.own.fence();
        Ok(self.completions.available()? > 0)
    }

    /// Wants no signals any more.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub fn awake(&mut self) -> Result<(), RingError> {
        Ok(self.completions.own.store_release_u32(FLAG, AWAKE)?)
    }
}

/// The server's end.
pub struct ServerEnd<M: Memory> {
    submissions: Consumer<M, Entry>,
    completions: Producer<M, Completed>,
}

impl<M: Memory> ServerEnd<M> {
    /// Creates the server's end over the client's region `client` and its own region `server`, at index 0, when the session is
    /// opened and the client waits for the answer.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub fn new(client: M, server: M, entries: u32) -> Result<Self, RingError> {
        for index in [PRODUCED, CONSUMED] {
            server.store_release_u32(index, 0)?;
        }
        server.store_release_u32(FLAG, ASLEEP)?;
        Ok(Self {
            submissions: Consumer::new(server.clone(), client.clone(), entries)?,
            completions: Producer::new(server, client, entries)?,
        })
    }

    /// Takes the next entry, as a copy.
    ///
    /// # Errors
    /// [`RingError::IndexOutOfRange`] for an impossible tail of the client.
    #[inline]
    pub fn take(&mut self) -> Result<Option<Entry>, RingError> {
        self.submissions.pop()
    }

    /// Copies out the first half of the next entry, which stays on the ring until [`ServerEnd::advance`].
    ///
    /// # Errors
    /// As [`ServerEnd::take`].
    #[inline(always)]
    pub fn peek(&mut self) -> Result<Option<Head>, RingError> {
        self.submissions.peek()
    }

    /// Takes the entry of which [`ServerEnd::peek`] returned the first half.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.submissions.consumed = self.submissions.consumed.wrapping_add(1);
    }

    /// The number of the next entry to take, counted from the opening on and without end. The client's [`ClientEnd::submitted`] counts
    /// alike.
    #[must_use]
    #[inline(always)]
    pub const fn taken(&self) -> u32 {
        self.submissions.consumed
    }

    /// The number of the next completion, likewise.
    #[must_use]
    #[inline(always)]
    pub const fn answered(&self) -> u32 {
        self.completions.produced
    }

    /// Whether completions are not published yet.
    #[must_use]
    #[inline]
    pub const fn has_unpublished(&self) -> bool {
        self.completions.produced != self.completions.published
    }

    /// Whether entries wait, polling the client's tail.
    ///
    /// # Errors
    /// As [`ServerEnd::take`].
    #[inline]
    pub fn has_entries(&mut self) -> Result<bool, RingError> {
        Ok(self.submissions.available()? > 0)
    }

    /// Number of entries that wait, as the client claims; 0 for an impossible number.
    #[must_use]
    pub fn waiting(&self) -> u32 {
        let Consumer { peer, consumed, mask, .. } = &self.submissions;
        let claimed = peer.load_acquire_u32(PRODUCED).unwrap_or(*consumed).wrapping_sub(*consumed);
        if claimed > mask.wrapping_add(1) { 0 } else { claimed }
    }

    /// Publishes how far the client's entries were taken, after a batch.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn publish_taken(&mut self) -> Result<(), RingError> {
        self.submissions.publish()
    }

    /// Number of further requests that can be answered, with `outstanding` requests taken and not answered yet: the completion
    /// ring must have room for all of them. 0 is exact; there may be room for more than any other number.
    ///
    /// # Errors
    /// [`RingError::IndexOutOfRange`] for an impossible head of the client.
    #[inline]
    pub fn answerable(&mut self, outstanding: u32) -> Result<u32, RingError> {
        let known = self.completions.known_room().saturating_sub(outstanding);
        if known > 0 {
            return Ok(known);
        }
        Ok(self.completions.room()?.saturating_sub(outstanding))
    }

    /// Writes a completion; [`ServerEnd::answerable`] ensured room for it when the request was taken.
    #[inline(always)]
    pub fn reply(&mut self, completed: &Completed) {
        self.completions.push(completed);
    }

    /// Publishes the completions; returns whether the client sleeps and must be signalled.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    #[inline]
    pub fn publish(&mut self) -> Result<bool, RingError> {
        self.completions.publish()
    }

    /// Asks for a signal; returns whether there are entries nevertheless, so that the server must not wait.
    ///
    /// # Errors
    /// As [`ServerEnd::take`].
    pub fn prepare_sleep(&mut self) -> Result<bool, RingError> {
        self.submissions.own.store_release_u32(FLAG, ASLEEP)?;
        self.submissions.own.fence();
        self.has_entries()
    }

    /// Wants no signals any more.
    ///
    /// # Errors
    /// [`RingError::BadRegion`].
    pub fn awake(&mut self) -> Result<(), RingError> {
        Ok(self.submissions.own.store_release_u32(FLAG, AWAKE)?)
    }
}

#[cfg(test)]
mod tests;
