//! Tries every attack a client can make with what it holds
