//! The request door: any entries on a ring, against an oracle in 128 bits.

#![no_main]
fuzz::engine!(fuzz::door::TARGET);
