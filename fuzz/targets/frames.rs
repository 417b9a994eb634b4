//! The serial line: log messages and reports, up to the page of results.

#![no_main]
fuzz::engine!(fuzz::frames::TARGET);
