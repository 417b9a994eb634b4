//! Scenario text, and the systems that are built of accepted texts.

#![no_main]
fuzz::engine!(fuzz::scenario::TARGET);
