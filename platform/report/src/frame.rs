//! Frames on the serial line, which the console writes and the build machine reads.
//!
//! The line is not the console's alone: firmware and a debug kernel write text on it before and in between. So a frame
//! is encoded in COBS, which keeps zero bytes out of it, stands between two zero bytes, and ends with a CRC-32. A
//! reader that meets anything else resumes at the next zero. Inside the encoding are the component's number (little
//! endian), the kind, the bytes, and the CRC over all of these.
//!
//! Left out: the meaning of the bytes ([`crate::Stamped`], or defmt with the program's own table), and any repetition: a
//! damaged frame is lost, and its [`Piece::Noise`] shows that.

use crate::ring;
use alloc::vec::Vec;

/// Kind of a frame's payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A piece of the component's stream of defmt frames.
    Log,
    /// A [`crate::Report`] with its time: a [`crate::Stamped`].
    Report,
    /// Bytes of the component's records that were overwritten before the console read them, since the start: a little-endian
    /// u64.
    Lost,
    /// The time of the machine when the frame was written, in nanoseconds since its time stamp counter was zero: a
    /// little-endian u64. Records may have waited; this has not, so a reader can compare the machine's clock with its
    /// own.
    Clock,
}

impl Kind {
    const fn code(self) -> u8 {
        match self {
            Self::Log => 1,
            Self::Report => 2,
            Self::Lost => 3,
            Self::Clock => 4,
        }
    }

    const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Log),
            2 => Some(Self::Report),
            3 => Some(Self::Lost),
            4 => Some(Self::Clock),
            _ => None,
        }
    }
}

impl From<ring::Kind> for Kind {
    fn from(kind: ring::Kind) -> Self {
        match kind {
            ring::Kind::Log => Self::Log,
            ring::Kind::Report => Self::Report,
        }
    }
}

/// Bytes before the payload.
const HEADER: usize = 3;
/// Bytes after it.
const CRC: usize = 4;
/// A frame before its encoding, bytes.
const MAX_PLAIN: usize = HEADER + ring::MAX_RECORD + CRC;

/// The longest frame on the line, bytes: COBS adds one byte in 254, and there are the zeros around it.
pub const MAX_FRAME: usize = MAX_PLAIN + MAX_PLAIN.div_ceil(254) + 3;

/// Encodes the frame of `bytes` into `line`; returns its number of bytes. `None` for more than [`ring::MAX_RECORD`] bytes.
pub fn encode(component: u16, kind: Kind, bytes: &[u8], line: &mut [u8; MAX_FRAME]) -> Option<usize> {
    let mut plain = heapless::Vec::<u8, MAX_PLAIN>::new();
    (bytes.len() <= ring::MAX_RECORD).then_some(())?;
    plain.extend_from_slice(&component.to_le_bytes()).ok()?;
    plain.push(kind.code()).ok()?;
    plain.extend_from_slice(bytes).ok()?;
    let crc = crc32(&plain);
    plain.extend_from_slice(&crc.to_le_bytes()).ok()?;
    *line.first_mut()? = 0;
    let encoded = cobs::try_encode(&plain, line.get_mut(1..)?).ok()?;
    let end = encoded.checked_add(1)?;
    *line.get_mut(end)? = 0;
    end.checked_add(1)
}

/// A piece of the line, for its reader.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece<'a> {
    /// A whole frame.
    Frame {
        /// The component's number.
        component: u16,
        /// The kind of its payload.
        kind: Kind,
        /// The payload.
        bytes: &'a [u8],
    },
    /// Bytes that are not a frame: other text, or a damaged frame.
    Noise(&'a [u8]),
}

/// The reader's end of the line.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    pending: Vec<u8>,
}

/// Noise is returned in portions of at most this many bytes, so that a line without any zero byte costs no memory.
const MAX_PENDING: usize = 4096;

impl Reader {
    /// Creates a reader that has read nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { pending: Vec::new() }
    }

    /// Takes the next bytes of the line and passes every piece that they complete to `take`.
    pub fn feed(&mut self, bytes: &[u8], take: &mut dyn FnMut(Piece<'_>)) {
        for &byte in bytes {
            if byte != 0 {
                self.pending.push(byte);
            }
            if byte == 0 || self.pending.len() >= MAX_PENDING {
                self.finish(take);
            }
        }
    }

    /// Passes the rest at the end of the line to `take`.
    pub fn finish(&mut self, take: &mut dyn FnMut(Piece<'_>)) {
        if self.pending.is_empty() {
            return;
        }
        match cobs::decode_vec(&self.pending) {
            Ok(plain) => take(frame(&plain).unwrap_or(Piece::Noise(&self.pending))),
            Err(_) => take(Piece::Noise(&self.pending)),
        }
        self.pending.clear();
    }
}

fn frame(plain: &[u8]) -> Option<Piece<'_>> {
    let (checked, crc) = plain.split_last_chunk::<CRC>()?;
    (crc32(checked) == u32::from_le_bytes(*crc)).then_some(())?;
    let (header, bytes) = checked.split_first_chunk::<HEADER>()?;
    let [low, high, kind] = *header;
    Some(Piece::Frame { component: u16::from_le_bytes([low, high]), kind: Kind::from_code(kind)?, bytes })
}

/// The CRC-32 of IEEE 802.3, reflected.
pub fn crc32<'a>(bytes: impl IntoIterator<Item = &'a u8>) -> u32 {
    !bytes.into_iter().fold(u32::MAX, |crc, &byte| {
        let index = (crc as u8 ^ byte) as usize;
        (crc >> 8) ^ TABLE.get(index).copied().unwrap_or(0)
    })
}

#[expect(clippy::indexing_slicing, reason = "made by the compiler, which would refuse a wrong index")]
const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut index = 0;
    while index < table.len() {
        let mut value = index as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ 0xedb8_8320 } else { value >> 1 };
            bit += 1;
        }
        table[index] = value;
        index += 1;
    }
    table
};

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "tests")]
mod tests {
    use super::*;
    use alloc::vec;

    fn line(component: u16, kind: Kind, bytes: &[u8]) -> Vec<u8> {
        let mut buffer = [0xff; MAX_FRAME];
        let len = encode(component, kind, bytes, &mut buffer).unwrap();
        buffer[..len].to_vec()
    }

    /// Frames as tuples, noise as the number of its bytes.
    fn read(bytes: &[u8]) -> (Vec<(u16, Kind, Vec<u8>)>, usize) {
        let (mut frames, mut noise) = (Vec::new(), 0);
        let mut reader = Reader::new();
        let mut take = |piece: Piece<'_>| match piece {
            Piece::Frame { component, kind, bytes } => frames.push((component, kind, bytes.to_vec())),
            Piece::Noise(bytes) => noise += bytes.len(),
        };
        for chunk in bytes.chunks(7) {
            reader.feed(chunk, &mut take);
        }
        reader.finish(&mut take);
        (frames, noise)
    }

    #[test]
    fn the_check_value_of_the_crc_is_the_standards() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn every_length_survives_the_line() {
        for len in [0, 1, 2, 252, 253, 254, 255, 256, 508, 600, ring::MAX_RECORD] {
            for fill in [0u8, 1, 0xff] {
                let payload = vec![fill; len];
                let expected = (vec![(0x1234, Kind::Report, payload.clone())], 0);
                assert_eq!(read(&line(0x1234, Kind::Report, &payload)), expected, "{len} bytes of {fill}");
            }
        }
    }

    #[test]
    fn too_long_a_payload_is_refused() {
        assert_eq!(encode(1, Kind::Log, &[0; ring::MAX_RECORD + 1], &mut [0; MAX_FRAME]), None);
    }

    #[test]
    fn text_before_and_between_frames_is_noise_and_costs_no_frame() {
        let mut bytes = b"SeaBIOS (version 1.16)\r\n\x1b[2J".to_vec();
        let text = bytes.len();
        bytes.extend(line(3, Kind::Log, b"one"));
        bytes.extend(b"Caught cap fault\n");
        bytes.extend(line(0, Kind::Lost, &7u64.to_le_bytes()));
        let frames = vec![(3, Kind::Log, b"one".to_vec()), (0, Kind::Lost, 7u64.to_le_bytes().to_vec())];
        assert_eq!(read(&bytes), (frames, text + 17));
    }

    #[test]
    fn a_damaged_frame_is_lost_alone() {
        let mut bytes = line(1, Kind::Log, b"first frame");
        bytes[6] ^= 0x10;
        bytes.extend(line(2, Kind::Log, b"second"));
        let (frames, noise) = read(&bytes);
        assert_eq!(frames, vec![(2, Kind::Log, b"second".to_vec())]);
        assert!(noise > 0);
    }

    #[test]
    fn text_in_the_middle_of_a_frame_loses_that_frame_alone() {
        let mut bytes = line(1, Kind::Log, b"first frame");
        bytes.splice(5..5, *b"kernel says hello");
        bytes.extend(line(2, Kind::Log, b"second"));
        assert_eq!(read(&bytes).0, vec![(2, Kind::Log, b"second".to_vec())]);
    }

    #[test]
    fn a_line_without_zeros_is_given_out_in_portions() {
        let (frames, noise) = read(&vec![b'x'; 3 * MAX_PENDING + 5]);
        assert!(frames.is_empty());
        assert_eq!(noise, 3 * MAX_PENDING + 5);
    }
}
