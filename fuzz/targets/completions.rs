//! Completion queue entries: whatever a controller posts, beside hostile clients.

#![no_main]
fuzz::engine!(fuzz::nvme::completions::TARGET);
