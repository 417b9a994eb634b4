//! The JSON schema of a run's results, as `--json` writes them, beside that of scenario files (`capdl`).
//!
//! Keys, types and descriptions are those of the types that are written. Left out: the other formats.

use crate::destination::Format;
use crate::records::results::Results;
use serde_json::{Value, json};

/// The schema of scenario files.
pub(crate) fn of_scenarios() -> Value {
    capdl::scenario::schema()
}

/// The schema of the configuration of a program of one's own, the example.
pub(crate) fn of_own() -> Value {
    capdl::scenario::schema_of::<fat::Config>()
}

/// The schema of results.
pub(crate) fn of_results() -> Value {
    let mut schema = capdl::scenario::schema_of::<Results>();
    for (key, value, description) in [
        (
            "version",
            json!(Format::Run.version()),
            "Version of the format: it grows when a key gets another meaning or is gone.",
        ),
        ("format", json!(Format::Run.name()), "Name of the format."),
    ] {
        if let Some(keys) = schema["properties"].as_object_mut() {
            keys.insert(key.into(), json!({ "const": value, "description": description }));
        }
        if let Some(required) = schema["required"].as_array_mut() {
            required.insert(0, key.into());
        }
    }
    schema
}
