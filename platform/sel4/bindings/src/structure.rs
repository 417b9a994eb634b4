//! Offsets of the fields of the kernel's C structures of scalars.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::Result;
use crate::header::{Constants, strip_comments};

/// The names that typedefs give to other names.
pub(crate) fn typedefs(text: &str) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    for declaration in text.split(';').filter_map(|part| part.trim().strip_prefix("typedef")) {
        if let Some((old, new)) =
            declaration.trim().rsplit_once(char::is_whitespace).filter(|_| !declaration.contains('{'))
        {
            types.insert(new.to_owned(), old.split_whitespace().collect::<Vec<_>>().join(" "));
        }
    }
    types
}

/// A structure's name and its fields: type, name, and the number of elements as it is written, empty for a scalar.
pub(crate) type Struct = (String, Vec<(String, String, String)>);

/// The structures that the text declares by typedef.
pub(crate) fn structs(text: &str) -> Vec<Struct> {
    let text = strip_comments(text);
    let mut structs = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("typedef struct") {
        let Some(open) = rest[start..].find('{') else { break };
        let Some(close) = rest[start + open..].find('}') else { break };
        let body = &rest[start + open + 1..start + open + close];
        rest = &rest[start + open + close + 1..];
        let Some(end) = rest.find(';') else { break };
        let name = rest[..end].split_whitespace().find(|word| !word.starts_with("__") && *word != "SEL4_PACKED");
        let fields = body.split(';').filter_map(|field| field_of(field.trim())).collect();
        structs.extend(name.map(|name| (name.to_owned(), fields)));
    }
    structs
}

fn field_of(declaration: &str) -> Option<(String, String, String)> {
    // The number of elements may have spaces.
    let array = declaration.strip_suffix(']').and_then(|array| array.split_once('['));
    let (scalar, count) = array.unwrap_or((declaration, ""));
    let (kind, name) = scalar.trim_end().rsplit_once(char::is_whitespace)?;
    let pointer = kind.contains('*') || name.starts_with('*');
    let kind = if pointer { "seL4_Word".to_owned() } else { kind.trim().to_owned() };
    Some((kind, name.trim_start_matches('*').to_owned(), count.to_owned()))
}

/// A module a structure with the offset of each field and the size of the whole. Fields follow each other without
/// gaps: the structures are packed, or made of words.
pub(crate) fn layout(structs: Vec<Struct>, types: &BTreeMap<String, String>, constants: &Constants) -> Result<String> {
    let mut sizes: HashMap<String, i128> = HashMap::new();
    let mut code = String::new();
    for (name, fields) in structs {
        let mut offset = 0;
        let _ = writeln!(code, "pub(crate) mod {name} {{");
        for (kind, field, count) in fields {
            let size = match sizes.get(&kind) {
                Some(size) => *size,
                None => {
                    scalar_bytes(&kind, types).ok_or_else(|| format!("{name}.{field} has the unknown type {kind}"))?
                }
            };
            let count = with_sizes(&count, types);
            let count = if count.is_empty() { Some(1) } else { constants.evaluate(&count) };
            let count = count.ok_or_else(|| format!("{name}.{field} has no known number of elements"))?;
            let _ = writeln!(code, "    pub(crate) const {field}: usize = {offset};");
            offset += size * count;
        }
        let _ = writeln!(code, "    pub(crate) const SIZE: usize = {offset};\n}}");
        sizes.insert(name, offset);
    }
    Ok(code)
}

/// The expression with numbers in the place of `sizeof(...)` of scalars.
fn with_sizes(expression: &str, types: &BTreeMap<String, String>) -> String {
    let mut done = String::new();
    let mut rest = expression;
    while let Some((before, after)) = rest.split_once("sizeof(") {
        let (kind, after) = after.split_once(')').unwrap_or((after, ""));
        let size = scalar_bytes(kind.trim(), types).map_or_else(|| "unknown".into(), |size| size.to_string());
        done = done + before + &size;
        rest = after;
    }
    done + rest
}

/// Bytes of a scalar type of a 64-bit architecture. The kernel's own names of numbers say them.
pub(crate) fn scalar_bytes(kind: &str, types: &BTreeMap<String, String>) -> Option<i128> {
    match kind {
        "seL4_Int8" | "seL4_Uint8" | "seL4_Bool" => Some(1),
        "seL4_Int16" | "seL4_Uint16" => Some(2),
        "seL4_Int32" | "seL4_Uint32" | "int" => Some(4),
        "seL4_Int64" | "seL4_Uint64" | "seL4_Word" | "seL4_CPtr" => Some(8),
        // A structure of one word that the bitfield files describe.
        "seL4_MessageInfo_t" => Some(8),
        _ => scalar_bytes(types.get(kind)?, types),
    }
}
