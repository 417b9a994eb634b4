//! Specification images: the root task boots from them, and supervises their systems.

#![no_main]
fuzz::engine!(fuzz::image::TARGET);
