//! Timing of the front end, the link and the media (SEEDS O3, O4).
//!
//! All times are nanoseconds of virtual time, all rates megabytes (10^6 bytes) a second. The values of the media are
//! round numbers of the right order, not measurements of a product; [`Profile::open_express`] is fitted to the curves
//! of SEEDS O5, and its front end's latency holds what the host's software added in those measurements.

/// Timing of a whole controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Profile {
    /// Fetching commands and posting completions.
    pub front_end: FrontEnd,
    /// Between the host's memory and the controller, each direction on its own.
    pub link: Link,
    /// Behind the controller.
    pub media: Media,
    /// Limit on the accesses before the media, if there is one.
    pub throttle: Option<Throttle>,
}

/// A leaky bucket before the media, as QEMU's throttle groups are: accesses that fit into it pass at once, and later
/// ones wait their turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Throttle {
    /// Units a second, at least 1.
    pub per_second: u32,
    /// Bytes of a unit, at least 1; a smaller access is one unit too.
    pub unit_bytes: u32,
    /// Capacity of the bucket, in nanoseconds of units.
    pub burst_ns: u64,
}

impl Throttle {
    /// Returns a throttle of this many 4 KiB units a second and a bucket of a tenth of a second, which is QEMU's
    /// default.
    #[must_use]
    pub const fn of_4k(per_second: u32) -> Self {
        Self { per_second, unit_bytes: 4096, burst_ns: 100_000_000 }
    }

    /// Returns the part of the bucket that an access of `bytes` takes, in nanoseconds.
    pub(crate) const fn cost_ns(self, bytes: u64) -> u64 {
        let unit = if self.unit_bytes == 0 { 1 } else { self.unit_bytes as u64 };
        let rate = if self.per_second == 0 { 1 } else { self.per_second as u64 };
        let units = bytes.div_ceil(unit);
        (if units == 0 { 1 } else { units }).saturating_mul(1_000_000_000) / rate
    }
}

/// The modules before the media: one fetch engine, then a pipeline.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrontEnd {
    /// Time the fetch engine needs for a command: it bounds the rate of commands.
    pub fetch_ns: u64,
    /// From fetched to decoded; commands overlap in it.
    pub decode_ns: u64,
    /// From data done to completion posted; commands overlap in it.
    pub completion_ns: u64,
    /// Additional time of an admin command.
    pub admin_ns: u64,
}

/// The link to the host's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Link {
    /// Data of reads, towards the host.
    pub read_mb_per_s: u32,
    /// Data of writes, from the host.
    pub write_mb_per_s: u32,
    /// Additional time for which a write's request to the host's memory occupies the link, for each command.
    pub write_setup_ns: u64,
}

/// Media behind channels: data is cut into chunks that go over the channels in turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Media {
    /// Channels, at least 1.
    pub channels: u16,
    /// Bytes of a chunk: 512 to 4096 in SEEDS O3.
    pub chunk_bytes: u32,
    /// Time to access a chunk for reading.
    pub read_ns: u64,
    /// Time to program a chunk.
    pub program_ns: u64,
    /// Rate of one channel, in addition to the times above.
    pub channel_mb_per_s: u32,
}

impl Media {
    /// Behind DRAM: 100 ns and less.
    pub const DRAM: Self =
        Self { channels: 4, chunk_bytes: 4096, read_ns: 60, program_ns: 60, channel_mb_per_s: 8_000 };
    /// Behind magnetic memory: reads as DRAM, programs a little slower.
    pub const MRAM: Self =
        Self { channels: 4, chunk_bytes: 4096, read_ns: 100, program_ns: 300, channel_mb_per_s: 4_000 };
    /// Behind phase change memory: programs take microseconds.
    pub const PRAM: Self =
        Self { channels: 8, chunk_bytes: 4096, read_ns: 1_000, program_ns: 5_000, channel_mb_per_s: 2_000 };
    /// Behind flash: tens of microseconds to read, hundreds to program.
    pub const FLASH: Self =
        Self { channels: 32, chunk_bytes: 4096, read_ns: 40_000, program_ns: 300_000, channel_mb_per_s: 800 };
}

impl Profile {
    /// A quick controller before the given media, on four lanes of PCI Express 3.
    #[must_use]
    pub const fn before(media: Media) -> Self {
        Self {
            front_end: FrontEnd { fetch_ns: 400, decode_ns: 600, completion_ns: 300, admin_ns: 5_000 },
            link: Link { read_mb_per_s: 3_500, write_mb_per_s: 3_300, write_setup_ns: 100 },
            media,
            throttle: None,
        }
    }

    /// The controller of SEEDS O5: 7.0 GB/s of reads, 4.7 GB/s of writes, 27 to 30 us alone.
    #[must_use]
    pub const fn open_express() -> Self {
        Self {
            front_end: FrontEnd { fetch_ns: 909, decode_ns: 24_200, completion_ns: 300, admin_ns: 5_000 },
            link: Link { read_mb_per_s: 7_000, write_mb_per_s: 4_700, write_setup_ns: 98 },
            media: Media { channels: 4, chunk_bytes: 4096, read_ns: 60, program_ns: 1_400, channel_mb_per_s: 3_000 },
            throttle: None,
        }
    }

    /// QEMU's controller before a null device, as a driver on an emulated machine sees it: 0.15 ms a command, many of them
    /// at a time. A round number of the order that was measured (SEEDS F2, alone).
    #[must_use]
    pub const fn emulated() -> Self {
        Self {
            front_end: FrontEnd { fetch_ns: 3_000, decode_ns: 144_000, completion_ns: 300, admin_ns: 5_000 },
            link: Link { read_mb_per_s: 7_000, write_mb_per_s: 7_000, write_setup_ns: 100 },
            media: Media::DRAM,
            throttle: None,
        }
    }
}

/// Returns the nanoseconds to move `bytes` at `mb_per_s`, rounded up. A rate of 0 counts as 1.
pub(crate) const fn transfer_ns(bytes: u64, mb_per_s: u32) -> u64 {
    let rate = if mb_per_s == 0 { 1 } else { mb_per_s as u64 };
    bytes.saturating_mul(1_000).div_ceil(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_bytes_a_microsecond() {
        assert_eq!(transfer_ns(7_000, 7_000), 1_000);
        assert_eq!(transfer_ns(1, 7_000), 1);
        assert_eq!(transfer_ns(10, 0), 10_000);
    }
}
