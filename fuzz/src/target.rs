//! A fuzz target: its name, its law, and its inputs.

/// A target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The target's name: that of its module, of its program (`fuzz-NAME`) and of its folder of kept inputs.
    pub name: &'static str,
    /// Panics when this input violates the law.
    pub law: fn(&[u8], Subject),
    /// Sound inputs from which a search starts, beside the kept ones.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// The code that a law is checked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The code as it is.
    Real,
    /// The code with a defect that the target plants: a search has to find it.
    Planted,
}
