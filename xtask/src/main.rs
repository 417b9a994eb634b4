//! `cargo xtask`: calls the library, which has all the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    xtask::main()
}
