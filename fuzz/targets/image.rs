//! Specification images: what the root task boots from, and supervises.

#![no_main]
fuzz::engine!(fuzz::image::TARGET);
