//! `cargo xtask`: see the library, which has all of it.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
