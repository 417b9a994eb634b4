//! The complaint of a failed program, as a part of one sentence. Left out: its whole output, which is for callers to keep.

use std::process::Output;

/// The most informative line of `output`: the first with an error and, of cargo's, its deepest cause; without such a line
/// the last one on standard error, or the first on standard output.
pub(crate) fn line(output: &Output) -> String {
    let (errors, text) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    let errors: Vec<_> = errors.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&&str| line.to_ascii_lowercase().contains("error:");
    let last = errors.last().copied().unwrap_or_default();
    match errors.iter().find(is_error) {
        Some(error) => {
            let error = error.strip_prefix("error: ").or(error.strip_prefix("ERROR: ")).unwrap_or(error);
            if errors.contains(&"Caused by:") { format!("{error} ({last})") } else { error.to_owned() }
        }
        None if !last.is_empty() => last.to_owned(),
        None => text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("nothing").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::ExitStatus;

    fn said(stdout: &str, stderr: &str) -> String {
        line(&Output { status: ExitStatus::default(), stdout: stdout.into(), stderr: stderr.into() })
    }

    #[test]
    fn an_error_comes_before_what_is_around_it_and_with_its_cause() {
        let cargo = "    Updating crates.io index\nwarning: spurious network error (3 tries remaining): [6]\n\
                     error: failed to download `sel4-sys`\n\nCaused by:\n  unable to get packages\n\n\
                     Caused by:\n  Could not resolve host\n";
        assert_eq!(said("", cargo), "failed to download `sel4-sys` (Could not resolve host)");
        let pip = "WARNING: Retrying\nERROR: Could not find a version of ply\nERROR: No matching distribution\n";
        assert_eq!(said("", pip), "Could not find a version of ply");
        let make = "a.c: In function 'f':\na.c:1:2: error: no such thing\nmake: *** [Makefile:1: a.o] Error 1\n";
        assert_eq!(said("", make), "a.c:1:2: error: no such thing");
    }

    #[test]
    fn standard_error_ends_count_before_standard_output() {
        assert_eq!(said("out\n", "one\ntwo\n\n"), "two");
        assert_eq!(said("\nensurepip is not available\nmore\n", ""), "ensurepip is not available");
        assert_eq!(said("", ""), "nothing");
    }
}
