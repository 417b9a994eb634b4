//! Empty on purpose: this package only names the crate that carries the seL4 source tree.
