//! The JSON schema in the documents, by a validator that editors' validators resemble.

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");

struct Schema(Schemas, SchemaIndex);

impl Schema {
    fn of_documents() -> Self {
        let text = fs::read_to_string(Path::new(ROOT).join("docs/scenario.schema.json")).unwrap();
        let (mut schemas, mut compiler) = (Schemas::new(), Compiler::new());
        compiler.add_resource("scenario.json", serde_json::from_str(&text).unwrap()).unwrap();
        let index = compiler.compile("scenario.json", &mut schemas).unwrap();
        Self(schemas, index)
    }

    fn validate(&self, toml: &str) -> Result<(), String> {
        let scenario: Value = serde_json::to_value(toml.parse::<toml::Table>().unwrap()).unwrap();
        self.0.validate(&scenario, self.1).map_err(|error| error.to_string())
    }
}

fn scenarios(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { scenarios(&path) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.extension().is_some_and(|ending| ending == "toml")).collect()
}

#[test]
fn every_scenario_is_valid_by_the_schema() {
    let schema = Schema::of_documents();
    let files = scenarios(&Path::new(ROOT).join("scenarios"));
    assert!(files.len() > 100, "{}", files.len());
    for file in files {
        let result = schema.validate(&fs::read_to_string(&file).unwrap());
        assert!(result.is_ok(), "{}: {}", file.display(), result.unwrap_err());
    }
}

#[test]
fn unknown_keys_and_values_of_other_types_are_invalid_by_the_schema() {
    let schema = Schema::of_documents();
    let fault = "[[fault]]\ncommand = { effect = { delay = { ns = 1 } } }\n";
    let valid = format!("{}{fault}", super::GOOD);
    assert_eq!(schema.validate(&valid), Ok(()));
    for (old, new) in [
        ("[[tenant]]", "[console]\ncolour = 1\n[[tenant]]"),
        ("[[tenant]]", "[[chnage]]\n[[tenant]]"),
        ("queue_pairs = 2", "queue_pair = 2"),
        ("size = ", "szie = "),
        ("size = \"1M\"", "size = \"1T\""),
        ("queue_pairs = 2", "queue_pairs = 2\nclass = \"hihg\""),
        ("name = \"bench\"", "name = \"bnech\""),
        ("depth = 8", "dpeth = 8"),
        ("depth = 8", "depth = -8"),
        ("depth = 8", "verify = \"no\""),
        ("command", "comand"),
        ("ns = 1", "ns = 1, until = 2"),
        ("description = \"Two tenants.\"\n", ""),
    ] {
        assert!(valid.contains(old), "{old}");
        assert!(schema.validate(&valid.replacen(old, new, 1)).is_err(), "{new}");
    }
}
