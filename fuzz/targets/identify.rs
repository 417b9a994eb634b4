//! CAP, Identify data and granted queues: any properties that a controller reports.

#![no_main]
fuzz::engine!(fuzz::nvme::identify::TARGET);
