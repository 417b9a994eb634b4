//! Models of devices, in virtual time: a command's completion time is known when it is submitted.

use crate::controller::Controller;
use scheduler::Kind;
use sim_nvme::Profile;
use sim_nvme::config::Cache;
use sim_nvme::profile::{Media, Throttle};

/// A device.
#[derive(Clone, Debug)]
pub enum Device {
    /// Channels that each serve one command at a time, first come, first served.
    Channels { free_at: Vec<u64>, per_command: u64, per_4k: u64 },
    /// QEMU's throttle group: a leaky bucket in front of a device that takes `latency`. Each command is `unit_ns` of
    /// the bucket, or each 4 KiB of it; the content of the bucket (`burst_ns`) passes at once.
    Throttled { empty_at: u64, unit_ns: u64, unit: Unit, burst_ns: u64, latency: u64 },
    /// A device that is late with some commands, whichever tenant submitted them.
    Noisy(Box<Device>, Noise, u64),
    /// Channels; a command takes one for each 4 KiB, from a drawn one on, or from the first if its block is the hot one.
    Striped { free_at: Vec<u64>, ns: u64, random: u64 },
    /// A device to which a write is so many times as much work as a read.
    SlowWrites(Box<Device>, u64),
    /// A controller of the simulator.
    Simulated(Box<Controller>),
    /// A device that never answers the commands of these numbers, counted from 1; and how many it was submitted.
    Losing(Box<Device>, Vec<u64>, u64),
}

/// An operation of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    Read,
    Write,
    Zeroes,
    Discard,
    Flush,
}

impl Operation {
    pub const fn kind(self) -> Kind {
        match self {
            Self::Read => Kind::Read,
            Self::Write => Kind::Write,
            Self::Zeroes | Self::Discard | Self::Flush => Kind::Other,
        }
    }
}

/// A command, as a device sees it.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// The number by which its submitter knows it.
    pub number: usize,
    pub operation: Operation,
    /// The first byte of the blocks.
    pub at: u64,
    pub bytes: u32,
    /// The work of the command, in multiples of another's.
    pub times: u64,
    /// Whether the command names the block that others name, too.
    pub is_hot: bool,
}

/// Lateness of a noisy device: `percent` of the commands are late by between the two of `late_ns`, and all by up to `jitter_ns`.
#[derive(Clone, Copy, Debug)]
pub struct Noise {
    pub percent: u64,
    pub late_ns: (u64, u64),
    pub jitter_ns: u64,
}

impl Noise {
    /// As on an emulated machine.
    pub const EMULATED: Self = Self { percent: 4, late_ns: (400_000, 1_200_000), jitter_ns: 33_000 };
    /// As on an emulated machine whose processors are busy with others' work.
    pub const CROWDED: Self = Self { percent: 20, late_ns: (1_000_000, 12_000_000), jitter_ns: 300_000 };
}

/// The unit that the bucket counts.
#[derive(Clone, Copy, Debug)]
pub enum Unit {
    Command,
    FourKib,
}

impl Device {
    pub fn channels(count: usize, per_command: u64, per_4k: u64) -> Self {
        Self::Channels { free_at: vec![0; count], per_command, per_4k }
    }

    /// The throttled device of the noisy-neighbour figures: 4,000 a second, 0.15 ms, a bucket of 0.1 s.
    pub fn throttled(unit: Unit) -> Self {
        Self::Throttled { empty_at: 0, unit_ns: 250_000, unit, burst_ns: 100_000_000, latency: 150_000 }
    }

    /// A quick controller before DRAM: 3 us a command, and 4 KiB occupy its link for 1.17 us (`sim/nvme/src/profile.rs`).
    pub fn dram() -> Self {
        Self::Throttled { empty_at: 0, unit_ns: 1_170, unit: Unit::FourKib, burst_ns: 0, latency: 3_000 }
    }

    /// The controller of SEEDS O5: 27 us a command, 0.9 us of its front end each.
    pub fn open_express() -> Self {
        Self::Throttled { empty_at: 0, unit_ns: 909, unit: Unit::FourKib, burst_ns: 0, latency: 27_000 }
    }

    /// Flash of 32 channels that each serve one command at a time, in 45 us.
    pub fn flash() -> Self {
        Self::Striped { free_at: vec![0; 32], ns: 45_000, random: 1 }
    }

    /// The controllers of the matrix, with the simulator's constants: those that a scenario selects by `media`, `iops_limit = 4000`
    /// and `write_cache = "1M"`.
    pub fn simulated() -> [(&'static str, Self); 5] {
        let flash = Profile::before(Media::FLASH);
        let throttled = Profile { throttle: Some(Throttle::of_4k(4_000)), ..Profile::emulated() };
        // `CACHE_LINGER_NS` of `sim/src/topology.rs`.
        let cache = Cache { bytes: 1 << 20, linger_ns: 5_000_000 };
        [
            ("dram", Profile::before(Media::DRAM), None),
            ("openexpress", Profile::open_express(), None),
            ("flash", flash, None),
            ("flash with cache", flash, Some(cache)),
            ("throttled", throttled, None),
        ]
        .map(|(name, profile, cache)| (name, Self::Simulated(Box::new(Controller::new(profile, cache)))))
    }

    pub fn slow_writes(self, times: u64) -> Self {
        Self::SlowWrites(Box::new(self), times)
    }

    pub fn noisy(self, noise: Noise) -> Self {
        Self::Noisy(Box::new(self), noise, 1)
    }

    pub fn losing(self, commands: &[u64]) -> Self {
        Self::Losing(Box::new(self), commands.to_vec(), 0)
    }

    /// When a command completes.
    pub fn submit(&mut self, asked: Asked, now: u64) -> u64 {
        let Asked { bytes, times, is_hot, .. } = asked;
        let fours = u64::from(bytes).div_ceil(4096);
        match self {
            Self::Channels { free_at, per_command, per_4k } => {
                let channel = free_at.iter_mut().min().expect("a device has channels");
                *channel = now.max(*channel) + (*per_command + *per_4k * fours) * times;
                *channel
            }
            Self::Throttled { empty_at, unit_ns, unit, burst_ns, latency } => {
                let units = match unit {
                    Unit::Command => 1,
                    Unit::FourKib => fours.max(1),
                };
                let start = now.max(empty_at.saturating_sub(*burst_ns));
                *empty_at = now.max(*empty_at) + units * *unit_ns * times;
                start + *latency
            }
            Self::Noisy(device, noise, random) => {
                *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let (drawn, hiccup) = (*random >> 40, (*random >> 33) % 100 < noise.percent);
                let (least, most) = noise.late_ns;
                let late = drawn % noise.jitter_ns + if hiccup { least + drawn % (most - least) } else { 0 };
                device.submit(asked, now) + late
            }
            Self::Striped { free_at, ns, random } => {
                *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let first = if is_hot { 0 } else { (*random >> 40) as usize % free_at.len() };
                let count = free_at.len();
                let part = |chunk: usize| (first + chunk) % count;
                let mut done = now;
                for chunk in 0..fours.max(1) as usize {
                    let channel = &mut free_at[part(chunk)];
                    *channel = now.max(*channel) + *ns * times;
                    done = done.max(*channel);
                }
                done
            }
            Self::SlowWrites(device, times) => {
                let times = if asked.operation == Operation::Write { *times } else { 1 };
                device.submit(Asked { times, ..asked }, now)
            }
            Self::Simulated(_) => unreachable!("it completes commands step by step"),
            Self::Losing(device, commands, submitted) => {
                *submitted += 1;
                if commands.contains(submitted) { u64::MAX } else { device.submit(asked, now) }
            }
        }
    }

    /// Makes it slower by `numerator / denominator`.
    pub fn slow_down(&mut self, numerator: u64, denominator: u64) {
        let scale = |value: &mut u64| *value = *value * numerator / denominator;
        match self {
            Self::Channels { per_command, per_4k, .. } => {
                scale(per_command);
                scale(per_4k);
            }
            Self::Striped { ns, .. } => scale(ns),
            Self::Throttled { unit_ns, .. } => scale(unit_ns),
            Self::Simulated(_) => unreachable!("its times are constants"),
            Self::Noisy(device, ..) | Self::Losing(device, ..) | Self::SlowWrites(device, _) => {
                device.slow_down(numerator, denominator)
            }
        }
    }

    /// The rate of commands of `bytes` that it sustains, a second.
    pub fn rate(&self, bytes: u32) -> f64 {
        let fours = u64::from(bytes).div_ceil(4096);
        match self {
            Self::Channels { free_at, per_command, per_4k } => {
                free_at.len() as f64 * 1e9 / (per_command + per_4k * fours) as f64
            }
            Self::Noisy(device, ..) | Self::Losing(device, ..) | Self::SlowWrites(device, _) => device.rate(bytes),
            Self::Striped { free_at, ns, .. } => free_at.len() as f64 * 1e9 / (ns * fours) as f64,
            Self::Simulated(_) => unreachable!("its rate depends on the operation"),
            Self::Throttled { unit_ns, unit: Unit::Command, .. } => 1e9 / *unit_ns as f64,
            Self::Throttled { unit_ns, unit: Unit::FourKib, .. } => 1e9 / (unit_ns * fours.max(1)) as f64,
        }
    }
}
