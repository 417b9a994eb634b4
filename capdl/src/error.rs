//! Reasons for which a system is not built.

use crate::check::Leak;

/// Reason for which a system is not built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A program is missing.
    #[error("the program `{program}` was not given: build it first")]
    NoProgram {
        /// The program's name.
        program: String,
    },
    /// A program's file cannot be read.
    #[error("{path} cannot be read ({error}): build the programs first")]
    Unreadable {
        /// The file.
        path: String,
        /// The reason.
        error: String,
    },
    /// A program cannot be loaded.
    #[error("the program `{program}` {reason}")]
    BadProgram {
        /// The program's name.
        program: String,
        /// The reason.
        reason: String,
    },
    /// A configuration does not encode.
    #[error("a configuration does not encode: report this as a defect of capdl")]
    Encoding,
    /// A component's environment has more names than fit into it.
    #[error("the environment of `{component}` is larger than its place: use fewer sessions")]
    EnvironmentTooLarge {
        /// The component.
        component: String,
    },
    /// Authority leaks.
    #[error("authority leaks: {}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Authority(Vec<Leak>),
}
