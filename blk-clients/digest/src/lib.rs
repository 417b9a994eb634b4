//! Reads a range through the whole stack and reports its SHA-256
