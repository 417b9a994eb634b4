//! Times at which work is done: a queueing model of front end, link and channels.
//!
//! Each of them serves one thing at a time; its state is the moment from which it is free. The link has a direction
//! towards the host and one from it. Left out: reads that find their data in the write cache are as slow as others.

use crate::profile::{Profile, transfer_ns};

/// The moments from which the parts of a controller are free.
#[derive(Debug)]
pub struct Timing {
    profile: Profile,
    fetch_free_ns: u64,
    outbound_free_ns: u64,
    inbound_free_ns: u64,
    /// Time at which the bucket before the media is empty.
    throttle_empty_ns: u64,
    channels: Vec<u64>,
}

/// An operation of the media.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MediaAccess {
    /// Reads.
    Read,
    /// Programs.
    Program,
}

impl Timing {
    /// Returns the model of a controller with nothing to do.
    #[must_use]
    pub fn new(mut profile: Profile) -> Self {
        profile.media.chunk_bytes = profile.media.chunk_bytes.max(512);
        let channels = vec![0; usize::from(profile.media.channels.max(1))];
        Self { profile, fetch_free_ns: 0, outbound_free_ns: 0, inbound_free_ns: 0, throttle_empty_ns: 0, channels }
    }

    pub(crate) const fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Resets the model: nothing is under way any more.
    pub(crate) fn reset(&mut self) {
        let Self { profile: _, fetch_free_ns, outbound_free_ns, inbound_free_ns, throttle_empty_ns, channels } = self;
        (*fetch_free_ns, *outbound_free_ns, *inbound_free_ns, *throttle_empty_ns) = (0, 0, 0, 0);
        channels.fill(0);
    }

    /// Returns when a fetch requested at `now_ns` is done.
    pub fn fetch(&mut self, now_ns: u64) -> u64 {
        self.fetch_free_ns = now_ns.max(self.fetch_free_ns).saturating_add(self.profile.front_end.fetch_ns);
        self.fetch_free_ns
    }

    /// Returns when `bytes` of a read, ready at `from_ns`, are with the host.
    pub fn outbound(&mut self, from_ns: u64, bytes: u64) -> u64 {
        let busy = transfer_ns(bytes, self.profile.link.read_mb_per_s);
        self.outbound_free_ns = from_ns.max(self.outbound_free_ns).saturating_add(busy);
        self.outbound_free_ns
    }

    /// Returns when `bytes` of a write, requested at `from_ns`, are with the controller.
    pub fn inbound(&mut self, from_ns: u64, bytes: u64) -> u64 {
        let link = self.profile.link;
        let busy = link.write_setup_ns.saturating_add(transfer_ns(bytes, link.write_mb_per_s));
        self.inbound_free_ns = from_ns.max(self.inbound_free_ns).saturating_add(busy);
        self.inbound_free_ns
    }

    /// Returns when the media are done with a range of a namespace, in bytes, requested at `from_ns`.
    pub fn media(&mut self, access: MediaAccess, range: std::ops::Range<u64>, from_ns: u64) -> u64 {
        let media = self.profile.media;
        let access_ns = match access {
            MediaAccess::Read => media.read_ns,
            MediaAccess::Program => media.program_ns,
        };
        let from_ns = self.let_through(range.end.saturating_sub(range.start), from_ns);
        let chunk = u64::from(media.chunk_bytes);
        let count = self.channels.len() as u64;
        let mut at = range.start;
        let mut done = from_ns;
        while at < range.end {
            let end = (at / chunk + 1).saturating_mul(chunk).min(range.end);
            let busy = access_ns.saturating_add(transfer_ns(end - at, media.channel_mb_per_s));
            if let Some(free) = self.channels.get_mut(((at / chunk) % count) as usize) {
                *free = from_ns.max(*free).saturating_add(busy);
                done = done.max(*free);
            }
            at = end;
        }
        done
    }

    /// Returns when the throttle, if there is one, passes an access of `bytes` that arrives at `from_ns`.
    fn let_through(&mut self, bytes: u64, from_ns: u64) -> u64 {
        let Some(throttle) = self.profile.throttle else { return from_ns };
        let through_ns = from_ns.max(self.throttle_empty_ns.saturating_sub(throttle.burst_ns));
        self.throttle_empty_ns = from_ns.max(self.throttle_empty_ns).saturating_add(throttle.cost_ns(bytes));
        through_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Media, Throttle};

    #[test]
    fn a_throttle_passes_its_burst_at_once_and_then_its_rate() {
        let mut timing =
            Timing::new(Profile { throttle: Some(Throttle::of_4k(4_000)), ..Profile::before(Media::DRAM) });
        let mut through = |bytes: u64| timing.let_through(bytes, 1_000);
        let burst: Vec<_> = (0..401).map(|_| through(4096)).collect();
        assert!(burst.iter().all(|at_ns| *at_ns == 1_000), "a tenth of a second of units, and the one that fills it");
        assert_eq!([through(4096), through(131_072), through(512)], [251_000, 501_000, 8_501_000]);
        timing.reset();
        assert_eq!(timing.let_through(4096, 2_000), 2_000);
    }
}
