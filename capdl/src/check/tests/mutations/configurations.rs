//! Changes of configurations: as trees of values, so that every field of every type is changed without being named here.
//!
//! A tree is changed and read back as its type. A change that its type does not have is none.

use crate::check::tests::{Image, environment, reconfigure};
use capdl_spec::{Component, Role};
use fastrand::Rng;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A component's configuration, and the nodes of its tree by their paths, of the leaves and all above them.
pub(super) struct Tree {
    pub(super) who: String,
    pub(super) role: Role,
    pub(super) root: Value,
    pub(super) nodes: Vec<String>,
}

/// The configurations of all components that have one.
pub(super) fn trees(image: &Image) -> Vec<Tree> {
    let tree = |component: &Component| {
        let Component { name, role, .. } = component;
        let root = as_tree(*role, &environment(image, name)?.config)?;
        let mut nodes = Vec::new();
        collect(&root, String::new(), &mut nodes);
        Some(Tree { who: name.clone(), role: *role, root, nodes })
    };
    image.components.iter().filter_map(tree).collect()
}

fn collect(value: &Value, path: String, nodes: &mut Vec<String>) {
    match value {
        Value::Object(all) => all.iter().for_each(|(key, value)| collect(value, format!("{path}/{key}"), nodes)),
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(index, value)| collect(value, format!("{path}/{index}"), nodes));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    if !path.is_empty() || !matches!(value, Value::Object(_)) {
        nodes.push(path);
    }
}

/// The name of the field that a path ends in, whatever the places in arrays.
pub(super) fn field(path: &str) -> &str {
    path.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default()
}

fn as_tree(role: Role, config: &[u8]) -> Option<Value> {
    fn read<T: Serialize + DeserializeOwned>(config: &[u8]) -> Option<Value> {
        serde_json::to_value(postcard::from_bytes::<T>(config).ok()?).ok()
    }
    match role {
        Role::Console => read::<Vec<(u16, String)>>(config),
        Role::PciServer => read::<pci_api::ServerConfig>(config),
        Role::IommuServer => read::<iommu_api::ServerConfig>(config),
        Role::NvmeServer => read::<blk_api::config::ServerConfig>(config),
        Role::Policy => read::<blk_api::policy::PolicyConfig>(config),
        Role::Client => read::<workload::Client>(config),
        Role::Probe => read::<workload::Probe>(config),
        Role::Control => read::<control_api::Config>(config),
        Role::EduDriver => None,
    }
}

/// The bytes of a tree, or the words that its type has where the tree has another.
fn as_config(role: Role, root: &Value) -> Result<Vec<u8>, Vec<String>> {
    fn write<T: Serialize + DeserializeOwned>(root: &Value) -> Result<Vec<u8>, Vec<String>> {
        let config: T = serde_json::from_value(root.clone()).map_err(|error| variants(&error.to_string()))?;
        postcard::to_stdvec(&config).map_err(|_| Vec::new())
    }
    match role {
        Role::Console => write::<Vec<(u16, String)>>(root),
        Role::PciServer => write::<pci_api::ServerConfig>(root),
        Role::IommuServer => write::<iommu_api::ServerConfig>(root),
        Role::NvmeServer => write::<blk_api::config::ServerConfig>(root),
        Role::Policy => write::<blk_api::policy::PolicyConfig>(root),
        Role::Client => write::<workload::Client>(root),
        Role::Probe => write::<workload::Probe>(root),
        Role::Control => write::<control_api::Config>(root),
        Role::EduDriver => Err(Vec::new()),
    }
}

/// The words after "expected" in the refusal of an unknown variant.
fn variants(refusal: &str) -> Vec<String> {
    let expected = refusal.strip_prefix("unknown variant").and_then(|rest| rest.split_once("expected"));
    let words = expected.map_or("", |(_, words)| words);
    words.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Values of variants with data, which no word stands for, and of parts that are left out.
fn with_data() -> [Value; 9] {
    let share = json!({"class": "low", "weight": 1, "iops": null, "bandwidth": null, "queue_pairs": 1, "depth": 1});
    [
        json!({"shared": {"queue_pairs": 1, "depth": 1}}),
        json!({"ClassCode": {"class_code": [1, 8, 2], "index": 0}}),
        json!({"Slot": 1}),
        json!({"Bdf": 0}),
        json!({"Virtual": {"driver": 0, "index": 0}}),
        json!({"per_second": 5000, "burst": 5000}),
        json!({"Revoke": [{"first": 0, "blocks": 1}]}),
        json!({"Entitle": share}),
        json!({"rights": 1, "window_bytes": 4096}),
    ]
}

/// Arrays of one element, for those that are empty everywhere.
fn of_one() -> [Value; 5] {
    [
        json!(["nguid-changes-at-reset"]),
        json!([{"tenant": "alice", "nsid": 1, "queue_pairs": 1}]),
        json!([{"tenant": "alice", "nsid": 1, "extents": [], "writable": true}]),
        json!([{"moment": 0, "to": "intx"}]),
        json!([{"moment": 0, "session": 0, "what": {"Revoke": [{"first": 0, "blocks": 1}]}}]),
    ]
}

impl Tree {
    /// The value of a node.
    pub(super) fn at(&self, node: &str) -> &Value {
        self.root.pointer(node).unwrap_or(&Value::Null)
    }

    /// Other values for a node, some of which its type may not have. `alike` are values of the same field elsewhere.
    pub(super) fn others(&self, node: &str, alike: &[Value]) -> Vec<Value> {
        let is = self.at(node);
        let mut others: Vec<Value> = alike.to_vec();
        match is {
            Value::Bool(value) => others.push(json!(!value)),
            Value::Number(number) => {
                let number = number.as_u64().unwrap_or(0);
                let near = [number.wrapping_add(1), number.wrapping_sub(1), number.wrapping_mul(2), number / 2];
                let far = [0, 1, 255, 0xffff, 1 << 31, 0xffff_ffff, u64::MAX];
                others.extend(near.into_iter().chain(far).map(|number| json!(number)));
            }
            Value::String(word) => {
                let mut unknown = self.root.clone();
                if let Some(place) = unknown.pointer_mut(node) {
                    *place = json!("no such word");
                }
                let words = as_config(self.role, &unknown).err().unwrap_or_default();
                others.extend(words.into_iter().map(Value::String));
                others.extend(["", "alice", "no such word"].map(Value::from));
                others.push(json!(format!("{word} ")));
                others.extend(with_data());
            }
            Value::Array(all) => {
                let without = |index: usize| all.iter().enumerate().filter(move |(place, _)| *place != index);
                let values = |all: Vec<&Value>| Value::Array(all.into_iter().cloned().collect());
                others.push(json!([]));
                for index in 0..all.len() {
                    others.push(values(without(index).map(|(_, value)| value).collect()));
                    others.push(values(all.iter().chain([&all[index]]).collect()));
                }
                others.push(values(all.iter().rev().collect()));
                others.extend(of_one());
            }
            Value::Null => others.extend(with_data().into_iter().chain([json!(0), json!(1), json!(0xffff)])),
            Value::Object(_) => {
                others.push(Value::Null);
                others.push(json!("dedicated"));
                others.extend(with_data());
            }
        }
        others.retain(|other| other != is);
        others
    }

    /// Puts `value` into the node of the component's configuration; `None` if its type does not have it.
    pub(super) fn put(&self, image: &mut Image, node: &str, value: &Value) -> Option<()> {
        let mut root = self.root.clone();
        *root.pointer_mut(node)? = value.clone();
        let config = as_config(self.role, &root).ok()?;
        reconfigure(image, &self.who, |configured| configured.config = config)
    }
}

/// Values of one field in all configurations.
pub(super) fn alike(trees: &[Tree], node: &str) -> Vec<Value> {
    let of_field = |tree: &Tree| -> Vec<Value> {
        let ends = |other: &&String| {
            let is_place = |path: &str| path.rsplit('/').next().is_some_and(|part| part.parse::<usize>().is_ok());
            field(other) == field(node) && is_place(other) == is_place(node)
        };
        tree.nodes.iter().filter(ends).map(|other| tree.at(other).clone()).collect()
    };
    let mut all: Vec<Value> = Vec::new();
    for value in trees.iter().flat_map(of_field) {
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all
}

fn any<'a, T>(all: &'a [T], chance: &mut Rng) -> Option<&'a T> {
    chance.choice(all.iter())
}

/// Changes configurations once: one node, one field of a tenant everywhere, or an exchange of two components'.
pub(super) fn configuration(image: &mut Image, chance: &mut Rng) -> Option<String> {
    let trees = trees(image);
    let tree = any(&trees, chance)?;
    let node = any(&tree.nodes, chance)?;
    let others = tree.others(node, &alike(&trees, node));
    match chance.u8(0..8) {
        // The same of the same tenant, in each configuration that has it.
        0 | 1 => {
            let (parent, _) = node.rsplit_once('/')?;
            let owner = |tree: &Tree, parent: &str| {
                let named = tree.root.pointer(parent)?.as_object()?;
                named.get("tenant").or_else(|| named.get("name")).cloned()
            };
            let (own, value) = (owner(tree, parent)?, any(&others, chance)?);
            let mut changed = Vec::new();
            for other in &trees {
                let same = other.nodes.iter().filter(|path| {
                    let of = path.rsplit_once('/').and_then(|(parent, _)| owner(other, parent));
                    field(path) == field(node) && of.as_ref() == Some(&own)
                });
                let same: Vec<_> = same.collect();
                for path in same {
                    if other.put(image, path, value).is_some() {
                        changed.push(format!("{}{path}", other.who));
                    }
                }
            }
            Some(format!("{changed:?} is {value} everywhere"))
        }
        2 => {
            let alike: Vec<&Tree> = trees.iter().filter(|other| other.role == tree.role).collect();
            let other = any(&alike, chance)?;
            tree.put(image, "", &other.root)?;
            other.put(image, "", &tree.root)?;
            Some(format!("the configurations of {} and {} are exchanged", tree.who, other.who))
        }
        3 if tree.at(node).is_number() => {
            let value = json!(chance.u64(..) >> chance.u32(0..64));
            tree.put(image, node, &value)?;
            Some(format!("{}{node} is {value}", tree.who))
        }
        _ => {
            let value = any(&others, chance)?;
            tree.put(image, node, value)?;
            Some(format!("{}{node} is {value}", tree.who))
        }
    }
}
