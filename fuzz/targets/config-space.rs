//! Configuration space: functions with any registers, found, sized and claimed.

#![no_main]
fuzz::engine!(fuzz::pci::config_space::TARGET);
