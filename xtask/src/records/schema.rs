//! The JSON schema of a run's results, as `--json` writes them, beside that of scenario files (`capdl`).
//!
//! Keys, types and descriptions are those of the types that are written. Left out: the other formats.

use crate::destination::Format;
use crate::records::results::Results;
use serde_json::{Value, json};

/// All schemas, by their files; that of a program of one's own, which has no file, by the program's name.
#[must_use]
pub fn all() -> Value {
    json!({
        "docs/scenario.schema.json": capdl::scenario::schema(),
        "docs/results.schema.json": results(),
        "fat": capdl::scenario::schema_of::<fat::Config>(),
    })
}

fn results() -> Value {
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
