//! Prints the JSON schemas of scenario files and of results by the files that `cargo xtask docs --redraw` writes, as one object.

#![forbid(unsafe_code)]

use std::io::Write;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{}", xtask::schemas())
}
