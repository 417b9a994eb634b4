//! The reference of scenarios: the JSON schema `docs/scenario.schema.json`, and from it the tables of `docs/guide/reference.md`.
//!
//! The schema comes from the types that read a scenario (`capdl`, feature `schema`).

use super::links;
use super::parts::replace_part;
use super::texts::Texts;
use crate::commands::{soak, sweep};
use crate::schema;
use anyhow::{Context, Result};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use xtask::project::Project;

/// The file of the scenarios' schema.
const SCHEMA: &str = "docs/scenario.schema.json";
/// The example of a program of one's own.
const OWN: &str = "fat";

/// Writes the schemas and the tables.
pub(super) fn make(_: &Project, texts: &mut Texts) -> Result<()> {
    let scenarios = schema::of_scenarios();
    let tables = tables(&scenarios, &schema::of_own())?;
    for (file, schema) in [
        (SCHEMA, scenarios),
        ("docs/results.schema.json", schema::of_results()),
        ("docs/soak.schema.json", soak::schema()),
        ("docs/sweep.schema.json", sweep::schema()),
    ] {
        texts.insert(file.to_owned(), format!("{schema:#}\n"));
    }
    replace_part(texts, "docs/guide/reference.md", "reference", &tables)
}

/// The schema's definitions, with the headings under which they stand.
struct Reference<'a> {
    definitions: &'a Map<String, Value>,
    headings: BTreeMap<&'a str, String>,
}

/// The sections: the tables of a file in the order in which they are met, then programs, then what several keys have.
fn tables(schema: &Value, own: &Value) -> Result<String> {
    let definitions = schema["definitions"].as_object().context("the schema of scenarios has no definitions")?;
    let mut uses = BTreeMap::new();
    count_uses(schema, &mut uses);
    let mut reference = Reference { definitions, headings: BTreeMap::new() };
    let (mut order, mut programs) = (Vec::new(), Vec::new());
    reference.meet(schema, "", &uses, &mut order, &mut programs);
    let shared = definitions.keys().map(String::as_str).filter(|name| !reference.headings.contains_key(name));
    let shared: Vec<_> = shared.filter(|name| !["Program", "Size"].contains(name)).collect();
    reference.headings.extend(shared.iter().map(|name| (*name, (*name).to_owned())));
    let mut text = format!("## Tables\n\n### Top of the file\n\n{}", reference.section(schema));
    for name in order {
        text.push_str(&reference.titled(name));
    }
    text.push_str("\n## Programs\n\nA tenant names its program: `program.name = \"bench\"`.\n");
    for name in programs {
        text.push_str(&reference.titled(name));
    }
    text.push_str(&own_program(own));
    text.push_str("\n## Values\n\nValues of several keys, and values that have a name.\n");
    for name in shared {
        text.push_str(&reference.titled(name));
    }
    Ok(text)
}

/// The configuration of a program that scenarios name by its path.
fn own_program(schema: &Value) -> String {
    let none = Map::new();
    let definitions = schema["definitions"].as_object().unwrap_or(&none);
    let headings = definitions.keys().map(|name| (name.as_str(), format!("{name} of `{OWN}`"))).collect();
    let reference = Reference { definitions, headings };
    let inner: String = definitions.keys().map(|name| reference.titled(name)).collect();
    format!(
        "\n### `[tenant.program.config]` of `{OWN}`\n\nAn example of a program of one's own: `program.path = \"../blk-clients/{OWN}\"` in \
         `scenarios/{OWN}.toml`. {}{inner}",
        reference.section(schema)
    )
}

fn count_uses<'a>(value: &'a Value, uses: &mut BTreeMap<&'a str, u32>) {
    match value {
        Value::Object(object) => {
            if let Some(name) = reference_of(value) {
                *uses.entry(name).or_default() += 1;
            }
            object.values().for_each(|value| count_uses(value, uses));
        }
        Value::Array(values) => values.iter().for_each(|value| count_uses(value, uses)),
        _ => {}
    }
}

/// The name of the definition to which a schema refers.
fn reference_of(schema: &Value) -> Option<&str> {
    schema["$ref"].as_str()?.strip_prefix("#/definitions/")
}

impl<'a> Reference<'a> {
    /// Gives the tables below `schema` their headings: the paths at which they are written. Tables with several places have none yet.
    fn meet(
        &mut self,
        schema: &'a Value,
        path: &str,
        uses: &BTreeMap<&str, u32>,
        order: &mut Vec<&'a str>,
        programs: &mut Vec<&'a str>,
    ) {
        for (key, value) in schema["properties"].as_object().into_iter().flatten() {
            let (name, is_list) = match (reference_of(&value["items"]), reference_of(plain(value))) {
                (Some(name), _) => (name, true),
                (None, Some(name)) => (name, false),
                (None, None) => continue,
            };
            let Some(definition) = self.definitions.get(name) else { continue };
            if name == "Program" {
                for program in definition["oneOf"].as_array().into_iter().flatten() {
                    let config = reference_of(&program["properties"]["config"]);
                    let program = program["properties"]["name"]["const"].as_str();
                    if let (Some(config), Some(program)) = (config, program) {
                        self.headings.insert(config, format!("`[tenant.program.config]` of `{program}`"));
                        programs.push(config);
                    }
                }
            } else if definition["properties"].is_object() && uses.get(name) == Some(&1) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                self.headings.insert(name, if is_list { format!("`[[{path}]]`") } else { format!("`[{path}]`") });
                order.push(name);
                self.meet(definition, &path, uses, order, programs);
            }
        }
    }

    /// The section of a definition, with its heading.
    fn titled(&self, name: &str) -> String {
        let (Some(heading), Some(definition)) = (self.headings.get(name), self.definitions.get(name)) else {
            return String::new();
        };
        format!("\n### {heading}\n\n{}", self.section(definition))
    }

    /// A description, and the rows of its keys or its choices.
    fn section(&self, schema: &Value) -> String {
        let mut text = format!("{}\n", description(schema));
        let mut keys: Vec<_> = schema["properties"].as_object().into_iter().flatten().collect();
        keys.sort_by_key(|(key, _)| !is_required(schema, key));
        if !keys.is_empty() {
            text.push_str("\n| key | value | without it | meaning |\n|---|---|---|---|\n");
            for (key, value) in keys {
                let without = if is_required(schema, key) { "required".to_owned() } else { self.default(value) };
                let meaning = description(value);
                text.push_str(&format!("| `{key}` | {} | {without} | {meaning} |\n", self.value(value)));
            }
        }
        if let Some(choices) = schema["oneOf"].as_array() {
            text.push_str("\n| value | meaning |\n|---|---|\n");
            for choice in choices {
                text.push_str(&format!("| {} | {} |\n", self.value(choice), self.meaning(choice)));
            }
        }
        text
    }

    /// The meaning of a choice, with the keys of its table.
    fn meaning(&self, choice: &Value) -> String {
        let tables = choice["properties"].as_object().into_iter().flat_map(Map::values);
        let keys =
            tables.flat_map(|table| table["properties"].as_object().into_iter().flatten().map(move |key| (table, key)));
        let keys = keys.map(|(table, (key, value))| {
            let default =
                if is_required(table, key) { String::new() } else { format!(" ({} without it)", self.default(value)) };
            format!(" `{key}`: {}{default}. {}", self.value(value), description(value))
        });
        format!("{}{}", description(choice), keys.collect::<String>())
    }

    /// The values that a schema permits.
    fn value(&self, schema: &Value) -> String {
        let schema = plain(schema);
        if let Some(name) = reference_of(schema) {
            return match self.headings.get(name) {
                Some(heading) => format!("[{heading}](#{})", links::anchor(heading)),
                None if name == "Size" => "size".into(),
                None => "program".into(),
            };
        }
        if let Some(name) = schema["const"].as_str() {
            return format!("`\"{name}\"`");
        }
        if let Some(choices) = schema["anyOf"].as_array() {
            return choices.iter().map(|choice| self.value(choice)).collect::<Vec<_>>().join(" or ");
        }
        match schema["type"].as_str() {
            Some("boolean") => "`true` or `false`".into(),
            Some("string") => "text".into(),
            Some("integer") => match schema["maximum"].as_u64() {
                Some(most) => format!("number up to {most}"),
                None => "number".into(),
            },
            Some("array") => match schema["maxItems"].as_u64() {
                Some(count) => format!("list of {count}: {}", self.value(&schema["items"])),
                None => format!("list: {}", self.value(&schema["items"])),
            },
            Some("object") if schema["additionalProperties"].is_object() => {
                let by = reference_of(&schema["propertyNames"])
                    .map_or_else(|| "name".into(), |_| self.value(&schema["propertyNames"]));
                format!("by {by}: {}", self.value(&schema["additionalProperties"]))
            }
            Some("object") => {
                let keys = schema["properties"].as_object().into_iter().flatten();
                let keys = keys.map(|(key, inner)| match reference_of(plain(inner)) {
                    Some(_) => format!("`{key}`: {}", self.value(inner)),
                    None => format!("`{{ {key} = {{ … }} }}`"),
                });
                keys.collect::<Vec<_>>().join(", ")
            }
            _ => "any".into(),
        }
    }

    /// The default of a key, as TOML; tables have those of their keys.
    fn default(&self, schema: &Value) -> String {
        match (&schema["default"], reference_of(plain(schema))) {
            (Value::Null, _) => "none".into(),
            (Value::Number(bytes), Some("Size")) => bytes.as_u64().map(size).unwrap_or_default(),
            (Value::Object(table), _) if table.is_empty() => "none".into(),
            (Value::Object(_), _) => "its own".into(),
            (value, _) => format!("`{value}`"),
        }
    }
}

/// A number of bytes with its largest unit.
fn size(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    match units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift)) {
        Some((shift, unit)) => format!("`\"{}{unit}\"`", bytes >> shift),
        None => format!("`{bytes}`"),
    }
}

/// The schema itself, where the draft wraps a reference that has a description.
fn plain(schema: &Value) -> &Value {
    match schema["allOf"].as_array().map(Vec::as_slice) {
        Some([only]) => only,
        _ => schema,
    }
}

fn is_required(schema: &Value, key: &str) -> bool {
    schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == key))
}

/// A description as one line of a table.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tables_stand_at_their_paths_and_shared_values_at_their_names() {
        let schema = json!({
            "description": "A scenario.",
            "properties": {
                "seed": { "type": "integer", "default": 1, "description": "Seed." },
                "disk": { "type": "array", "items": { "$ref": "#/definitions/Disk" } },
                "spare": { "allOf": [{ "$ref": "#/definitions/Speed" }], "default": "slow" },
            },
            "required": ["disk"],
            "definitions": {
                "Disk": { "description": "A disk.", "properties": {
                    "size": { "allOf": [{ "$ref": "#/definitions/Size" }], "default": 2048, "description": "Bytes | all." },
                    "speed": { "$ref": "#/definitions/Speed" },
                } },
                "Speed": { "description": "Speeds.", "oneOf": [
                    { "const": "slow", "description": "Slow." },
                    { "description": "So fast.", "properties": { "fast": { "type": "object", "properties": {
                        "by": { "type": "integer", "maximum": 9, "description": "Factor." },
                    }, "required": ["by"] } }, "type": "object" },
                ] },
                "Size": {},
            },
        });
        let own = json!({
            "description": "Files.",
            "properties": { "write": { "type": "array", "items": { "$ref": "#/definitions/File" } } },
            "definitions": { "File": { "description": "A file.", "properties": {} } },
        });
        let text = tables(&schema, &own).unwrap();
        for expected in [
            "### `[tenant.program.config]` of `fat`\n\nAn example of a program",
            "| `write` | list: [File of `fat`](#file-of-fat) | none |  |\n\n### File of `fat`\n\nA file.\n",
            "### Top of the file\n\nA scenario.\n\n| key |",
            "| `disk` | list: [`[[disk]]`](#disk) | required |  |\n| `seed` | number | `1` | Seed. |\n| `spare` | [Speed](#speed) | `\"slow\"`",
            "### `[[disk]]`\n\nA disk.\n",
            "| `size` | size | `\"2K\"` | Bytes \\| all. |",
            "### Speed\n\nSpeeds.\n\n| value | meaning |\n|---|---|\n| `\"slow\"` | Slow. |\n\
             | `{ fast = { … } }` | So fast. `by`: number up to 9. Factor. |",
        ] {
            assert!(text.contains(expected), "no {expected} in {text}");
        }
    }
}
