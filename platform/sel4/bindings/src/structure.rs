//! Offsets of the fields of the kernel's C structures of scalars.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use crate::header::{Constants, strip_comments};
use crate::result::Result;

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

/// A structure as it is declared.
pub(crate) struct Struct {
    name: String,
    is_packed: bool,
    fields: Vec<Field>,
}

struct Field {
    kind: String,
    name: String,
    /// The number of elements as it is written, empty for a scalar.
    count: String,
}

/// The structures that the text declares by typedef.
pub(crate) fn structs(text: &str) -> Vec<Struct> {
    let text = strip_comments(text);
    let mut structs = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find("typedef struct") {
        let Some(open) = rest[start..].find('{') else { break };
        let Some(close) = rest[start + open..].find('}') else { break };
        let (head, body) = (&rest[start..start + open], &rest[start + open + 1..start + open + close]);
        rest = &rest[start + open + close + 1..];
        let Some(end) = rest.find(';') else { break };
        let tail = &rest[..end];
        let name = tail.split_whitespace().find(|word| !word.starts_with("__") && *word != "SEL4_PACKED");
        structs.extend(name.map(|name| Struct {
            name: name.to_owned(),
            is_packed: [head, tail].iter().any(|part| part.to_lowercase().contains("packed")),
            fields: body.split(';').filter_map(|field| field_of(field.trim())).collect(),
        }));
    }
    structs
}

fn field_of(declaration: &str) -> Option<Field> {
    // The number of elements may have spaces.
    let array = declaration.strip_suffix(']').and_then(|array| array.split_once('['));
    let (scalar, count) = array.unwrap_or((declaration, ""));
    let (kind, name) = scalar.trim_end().rsplit_once(char::is_whitespace)?;
    let pointer = kind.contains('*') || name.starts_with('*');
    let kind = if pointer { "seL4_Word".to_owned() } else { kind.trim().to_owned() };
    Some(Field { kind, name: name.trim_start_matches('*').to_owned(), count: count.to_owned() })
}

/// A module a structure with the offset of each field and the size of the whole. A scalar is aligned to its size, unless the
/// structure is packed.
pub(crate) fn layout(structs: Vec<Struct>, types: &BTreeMap<String, String>, constants: &Constants) -> Result<String> {
    // Size and alignment.
    let mut known: HashMap<String, (i128, i128)> = HashMap::new();
    let mut code = String::new();
    for Struct { name, is_packed, fields } in structs {
        let (mut offset, mut alignment) = (0, 1);
        let _ = writeln!(code, "pub(crate) mod {name} {{");
        for Field { kind, name: field, count } in fields {
            let scalar = || scalar_bytes(&kind, types).map(|bytes| (bytes, bytes));
            let (size, least) = known
                .get(&kind)
                .copied()
                .or_else(scalar)
                .ok_or_else(|| format!("{name}.{field} has the unknown type {kind}"))?;
            let count = with_sizes(&count, types);
            let count = if count.is_empty() { Some(1) } else { constants.evaluate(&count) };
            let count = count.ok_or_else(|| format!("{name}.{field} has no known number of elements"))?;
            let least = if is_packed { 1 } else { least };
            alignment = alignment.max(least);
            offset = next_multiple(offset, least);
            let _ = writeln!(code, "    pub(crate) const {field}: usize = {offset};");
            offset += size * count;
        }
        let size = next_multiple(offset, alignment);
        let _ = writeln!(code, "    pub(crate) const SIZE: usize = {size};\n}}");
        known.insert(name, (size, alignment));
    }
    Ok(code)
}

fn next_multiple(value: i128, of: i128) -> i128 {
    (value + of - 1) / of * of
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The layout of structures, one line each: the offset of each field, and the size.
    fn offsets(text: &str) -> Vec<String> {
        let code = layout(structs(text), &BTreeMap::new(), &Constants::default()).unwrap();
        let shortened = code.replace("    pub(crate) const ", "").replace(": usize", "").replace(";\n", ", ");
        shortened.lines().filter_map(|line| line.split("{, ").next()).map(str::to_owned).collect()
    }

    #[test]
    fn a_word_after_a_byte_begins_at_a_multiple_of_its_size() {
        let text = "typedef struct { seL4_Uint8 a; seL4_Word b; seL4_Uint16 c; seL4_Uint32 d; seL4_Uint8 e[3]; } T;";
        assert_eq!(offsets(text), ["pub(crate) mod T {", "a = 0, b = 8, c = 16, d = 20, e = 24, SIZE = 32, }"]);
    }

    #[test]
    fn a_packed_structure_has_no_gaps() {
        let fields = "{ seL4_Uint8 a; seL4_Word b; seL4_Uint16 c; }";
        for text in [
            format!("typedef struct T_ {fields} SEL4_PACKED T;"),
            format!("typedef struct T_ {fields} __attribute__((packed)) T;"),
            format!("typedef struct SEL4_PACKED T_ {fields} T;"),
        ] {
            assert_eq!(offsets(&text), ["pub(crate) mod T {", "a = 0, b = 1, c = 9, SIZE = 11, }"], "{text}");
        }
    }

    #[test]
    fn a_structure_in_another_is_aligned_as_its_widest_field() {
        let inner = "typedef struct { seL4_Uint32 a; seL4_Uint8 b; } I;";
        let outer = "typedef struct { seL4_Uint8 c; I d[2]; seL4_Uint8 e; void *f; } O;";
        let lines = offsets(&format!("{inner}\n{outer}"));
        assert_eq!(lines[1], "a = 0, b = 4, SIZE = 8, }");
        assert_eq!(lines[3], "c = 0, d = 4, e = 20, f = 24, SIZE = 32, }");
    }
}
