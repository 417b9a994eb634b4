//! Prints the JSON schema of scenario files, which `cargo xtask docs --redraw` writes to `docs/scenario.schema.json`.

#![forbid(unsafe_code)]

use std::io::Write;

fn main() -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{:#}", capdl::scenario::schema())
}
