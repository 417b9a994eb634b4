//! The JSON schema of scenario files, for editors and for the reference in the documents.
//!
//! Keys, types, defaults and descriptions are those of the types that read a file. Here are the schemas of the values that have a
//! reader of their own. Left out: contradictions between keys, which `validate` refuses.

use super::change::OrNone;
use super::file::File;
use super::{Mark, Workload};
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::Value;
use std::borrow::Cow;
use workload::{Bench, Digest, Flood, Hostile, Signal};

/// The schema of a scenario file, in draft 7, which editors of TOML read.
#[must_use]
pub fn schema() -> Value {
    schema_of::<File>()
}

/// The schema of what is written and read as `T`, likewise: a key without a value is left out, and unknown keys are refused.
#[must_use]
pub fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().for_deserialize().with(|settings| {
        // Before those of the draft, which wrap references that have a description beside them.
        settings.transforms.insert(0, Box::new(RecursiveTransform(without_null)));
        settings.transforms.push(Box::new(RecursiveTransform(closed)));
        settings.transforms.push(Box::new(RecursiveTransform(without_rust)));
    });
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// A number of bytes ([`super::bytes`]).
pub(super) struct Size;

impl JsonSchema for Size {
    fn schema_name() -> Cow<'static, str> {
        "Size".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "Bytes: a number, or text with a unit, as in `65536`, `\"64K\"`, `\"1M\"` or `\"2G\"`. Units are powers of 1024.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9]+[KMG]?$" }],
        })
    }
}

impl<T: JsonSchema> JsonSchema for OrNone<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("{}OrNone", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [generator.subschema_for::<T>(), { "const": "none", "description": "Without a limit." }] })
    }
}

/// Marks of a moment, by component ([`super::Moment::when`]).
pub(super) struct MarksByComponent;

impl JsonSchema for MarksByComponent {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Marks".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mark = generator.subschema_for::<Mark>();
        let count = generator.subschema_for::<u32>();
        let marks = json_schema!({ "type": "object", "propertyNames": mark, "additionalProperties": count });
        json_schema!({ "type": "object", "additionalProperties": marks })
    }
}

impl JsonSchema for Workload {
    fn schema_name() -> Cow<'static, str> {
        "Program".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let program = |name: &str, config: Schema| {
            json_schema!({
                "type": "object",
                "properties": { "name": { "const": name, "description": "Name of the program." }, "config": config },
                "required": ["name"],
                "additionalProperties": false,
            })
        };
        json_schema!({
            "description": "The program of a tenant's component: one of the project's by its name, or one's own by its path.",
            "oneOf": [
                program("bench", generator.subschema_for::<Bench>()),
                program("digest", generator.subschema_for::<Digest>()),
                program("flood", generator.subschema_for::<Flood>()),
                program("hostile", generator.subschema_for::<Hostile>()),
                program("signal", generator.subschema_for::<Signal>()),
                {
                    "type": "object",
                    "properties": {
                        "path": { "type": "string", "description": "Folder of the program's crate, from the folder of the scenario." },
                        "config": { "type": "object", "description": "Configuration, which the program reads as a type of its own." },
                    },
                    "required": ["path"],
                    "additionalProperties": false,
                },
            ],
        })
    }
}

/// Removes null, which TOML lacks: a key without a value is left out.
fn without_null(schema: &mut Schema) {
    let Some(object) = schema.as_object_mut() else { return };
    if let Some(Value::Array(types)) = object.get_mut("type") {
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            object.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(choices)) = object.get_mut("anyOf") {
        choices.retain(|one| one.get("type").is_none_or(|kind| kind != "null"));
        if let [Value::Object(only)] = choices.as_slice() {
            let only = only.clone();
            object.remove("anyOf");
            for (key, value) in only {
                object.entry(key).or_insert(value);
            }
        }
    }
    if object.get("default").is_some_and(Value::is_null) {
        object.remove("default");
    }
}

/// Closes tables: the reader refuses unknown keys also where a type does not say so.
fn closed(schema: &mut Schema) {
    if let Some(object) = schema.as_object_mut().filter(|object| object.contains_key("properties")) {
        object.entry("additionalProperties").or_insert(false.into());
    }
}

/// Rewrites descriptions for readers without the source: the names of links stay, and line ends that only wrap do not.
fn without_rust(schema: &mut Schema) {
    let Some(Value::String(text)) = schema.as_object_mut().and_then(|object| object.get_mut("description")) else {
        return;
    };
    let mut plain = String::new();
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("[`") {
        let (name, after) = after.split_once("`]").unwrap_or((after, ""));
        let link = after.strip_prefix('(').and_then(|link| link.split_once(')'));
        plain.push_str(&format!("{before}`{name}`"));
        rest = link.map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    *text = plain.replace("\n\n", "\u{b6}").replace('\n', " ").replace('\u{b6}', "\n\n");
}
