//! Calls at the PCI server, from drivers that die and of functions that vanish.

#![no_main]
fuzz::engine!(fuzz::pci::calls::TARGET);
