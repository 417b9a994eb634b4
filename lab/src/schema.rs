//! The JSON schemas of results, as `--json` writes them: of a run, and of the lines of a soak and a sweep. Beside them that of scenario
//! files (`capdl`).
//!
//! Keys, types and descriptions are those of the types that are written. Left out: the other formats.

use crate::lines::Line;
use schemars::JsonSchema;
use serde_json::{Value, json};
use xtask::destination::Format;
use xtask::records::results::Results;

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
    with_format(capdl::scenario::schema_of::<Results>(), Format::Run.name(), Format::Run.version())
}

/// The schema of a line of a file of runs.
pub(crate) fn of_lines<L: Line + JsonSchema>() -> Value {
    with_format(capdl::scenario::schema_of::<L>(), L::FORMAT, L::VERSION)
}

/// The schema with the keys that all formats begin with.
fn with_format(mut schema: Value, name: &str, version: u32) -> Value {
    for (key, value, description) in [
        ("version", json!(version), "Version of the format: it grows when a key gets another meaning or is gone."),
        ("format", json!(name), "Name of the format."),
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    /// Checks values by the schema of this name in `docs/`, which refuses a value without keys.
    pub(crate) fn check<'a>(name: &str, values: impl Iterator<Item = &'a str>) {
        let file = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs")).join(format!("{name}.schema.json"));
        let schema = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
        let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
        compiler.add_resource("schema.json", schema).unwrap();
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        for value in values {
            let valid =
                schemas.validate(&serde_json::from_str(value).unwrap(), index).map_err(|error| error.to_string());
            assert_eq!(valid, Ok(()), "{value}");
        }
        assert!(schemas.validate(&json!({}), index).is_err());
    }
}
