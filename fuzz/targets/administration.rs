//! Calls of the component that administers the controller, with any rights.

#![no_main]
fuzz::engine!(fuzz::nvme::administration::TARGET);
