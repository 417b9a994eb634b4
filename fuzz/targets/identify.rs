//! CAP, Identify data and granted queues: whatever a controller says of itself.

#![no_main]
fuzz::engine!(fuzz::nvme::identify::TARGET);
