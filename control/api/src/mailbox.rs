//! The mailbox: two pages in the machine's memory, through which the build machine and the control component exchange letters.
//!
//! The component writes the page of answers, and the build machine that of requests; each only reads the other. A page has one
//! letter: a header and the bytes of a [`Request`](crate::Request) or an [`Answer`](crate::Answer) in postcard. The number of the
//! letter is written last. An answer has the number of its request, so the sender knows that it is its own. A letter that is
//! changed while it is read, is too long, is of another version, or has another checksum, is damaged.
//!
//! A restarted component finds two pages of zeroes. The sender of a request that is gone cannot know whether it was carried out.
//!
//! Left out: several senders. They take turns by a lock of the build machine.

use alloc::vec::Vec;
use platform::PAGE_SIZE;
use serde::Serialize;
use serde::de::DeserializeOwned;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Pages of a mailbox.
pub const PAGES: usize = 2;
/// Offset of the page of answers.
pub const ANSWERS: usize = 0;
/// Offset of the page of requests.
pub const REQUESTS: usize = PAGE_SIZE;

/// Version of the letters.
pub const VERSION: u16 = 1;
/// The most bytes of a letter behind its header.
pub const MOST_BYTES: usize = 256;
/// Bytes of a header.
pub const HEADER_BYTES: usize = size_of::<Header>();

/// The first bytes of a letter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
pub struct Header {
    /// The letter's number; 0 for none.
    pub number: u32,
    /// CRC-32 of the number, the version, the length and the bytes.
    pub checksum: u32,
    /// [`VERSION`].
    pub version: u16,
    /// Bytes behind the header.
    pub len: u16,
    /// Zero.
    pub reserved: u32,
}

/// A letter, ready to be written: the bytes behind the number first, then the number.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Letter {
    /// The header.
    pub header: Header,
    /// The bytes behind it.
    pub bytes: Vec<u8>,
}

impl Letter {
    /// The letter with this number. `None` for more than [`MOST_BYTES`].
    #[must_use]
    pub fn new<T: Serialize>(number: u32, contents: &T) -> Option<Self> {
        let bytes = postcard::to_allocvec(contents).ok().filter(|bytes| bytes.len() <= MOST_BYTES)?;
        let len = u16::try_from(bytes.len()).ok()?;
        let header = Header { number, version: VERSION, len, ..Header::default() };
        Some(Self { header: Header { checksum: checksum(&header, &bytes), ..header }, bytes })
    }

    /// The letter that begins these bytes, if its length is one that there can be.
    #[must_use]
    pub fn on(page: &[u8]) -> Option<Self> {
        let (header, rest) = Header::read_from_prefix(page).ok()?;
        Some(Self { header, bytes: rest.get(..len(&header)?)?.to_vec() })
    }

    /// The contents, if the letter is whole.
    #[must_use]
    pub fn open<T: DeserializeOwned>(&self) -> Option<T> {
        let Self { header, bytes } = self;
        let is_whole = header.version == VERSION
            && usize::from(header.len) == bytes.len()
            && header.reserved == 0
            && checksum(header, bytes) == header.checksum;
        is_whole.then(|| postcard::from_bytes(bytes).ok()).flatten()
    }
}

/// The length of the letter with this header, if it is one that there can be.
#[must_use]
pub fn len(header: &Header) -> Option<usize> {
    Some(usize::from(header.len)).filter(|len| *len <= MOST_BYTES)
}

fn checksum(header: &Header, bytes: &[u8]) -> u32 {
    let header = Header { checksum: 0, ..*header };
    report::frame::crc32(header.as_bytes().iter().chain(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Refusal, Request};
    use proptest::prelude::*;

    #[test]
    fn a_letter_has_what_was_put_into_it() {
        let letter = Letter::new(7, &Request::Kill(3)).unwrap();
        assert_eq!(letter.open(), Some(Request::Kill(3)));
        let refused = Answer::Refused(Refusal::Policy { label: u32::MAX, values: [u64::MAX; 3] });
        assert_eq!(Letter::new(8, &refused).unwrap().open(), Some(refused));
        assert_eq!(Letter::new(9, &[0u8; MOST_BYTES + 1].as_slice()), None);
    }

    proptest! {
        #[test]
        fn a_damaged_letter_is_not_opened(tenant: u16, at in 0usize..24, bit in 0u8..8) {
            let letter = Letter::new(7, &Request::Pause(tenant)).unwrap();
            let mut bytes = [letter.header.as_bytes(), &letter.bytes].concat();
            let at = at % bytes.len();
            bytes[at] ^= 1 << bit;
            let (header, rest) = bytes.split_at(HEADER_BYTES);
            let damaged = Letter { header: Header::read_from_bytes(header).unwrap(), bytes: rest.to_vec() };
            prop_assert_eq!(damaged.open::<Request>(), None);
        }

        #[test]
        fn garbage_is_no_letter(header: [u32; 4], bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let letter = Letter { header: Header::read_from_bytes(header.as_bytes()).unwrap(), bytes };
            prop_assert_eq!(letter.open::<Request>(), None);
        }
    }
}
