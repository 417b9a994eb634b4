//! The generator on miniature prefixes: small interfaces in the layout of an installed kernel, with texts of our own.
//!
//! Expected numbers are those of the releases that the miniatures stand for, 16.0.0 on x86_64 and 13.0.0 on AArch64.

mod conditions;
mod numbers;
mod prefix;
mod refusals;
