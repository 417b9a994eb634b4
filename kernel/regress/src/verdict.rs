//! Results of a test.

/// The reason why a test did not pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    /// The kernel has the defect; with the observation.
    Defect(&'static str),
    /// The test itself could not be done; with the step, and the kernel's error number, if it is one.
    Broken(&'static str, u64),
}

/// A test, or a step of one.
pub(crate) type Check<T = ()> = Result<T, Failure>;

/// `Ok` when `seen`; otherwise the test could not be done.
pub(crate) fn need(seen: bool, what: &'static str) -> Check {
    if seen { Ok(()) } else { Err(Failure::Broken(what, 0)) }
}

/// The defect `what` when `seen`.
pub(crate) fn defect_if(seen: bool, what: &'static str) -> Check {
    if seen { Err(Failure::Defect(what)) } else { Ok(()) }
}
