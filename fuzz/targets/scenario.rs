//! Scenario text, and the systems that are built of what is accepted.

#![no_main]
fuzz::engine!(fuzz::scenario::TARGET);
