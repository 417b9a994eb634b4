//! The program for developers: calls the library, which has all the code.

use std::process::ExitCode;

fn main() -> ExitCode {
    lab::main()
}
