//! Which QEMU runs: the one on the search path, or the one the user names.

use std::ffi::OsString;

/// Names another QEMU program than the one on the search path.
pub const VARIABLE: &str = "CAPNVME_QEMU";

/// QEMU's program: what [`VARIABLE`] holds, or `qemu-system-x86_64`.
#[must_use]
pub fn program() -> OsString {
    chosen(std::env::var_os(VARIABLE))
}

/// An empty variable is as good as none.
fn chosen(named: Option<OsString>) -> OsString {
    named.filter(|program| !program.is_empty()).unwrap_or_else(|| "qemu-system-x86_64".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_program_comes_before_the_one_on_the_search_path() {
        assert_eq!(chosen(Some("/opt/qemu".into())), "/opt/qemu");
        assert_eq!(chosen(None), "qemu-system-x86_64");
        assert_eq!(chosen(Some("".into())), "qemu-system-x86_64");
    }
}
