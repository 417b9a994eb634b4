//! Completion queue entries: any entries of a controller, beside hostile clients.

#![no_main]
fuzz::engine!(fuzz::nvme::completions::TARGET);
