//! Parses the part of the kernel's bitfield language that describes single words and the tags of unions.
//!
//! A block lists its fields from the highest bit to the lowest. Blocks of several words (kernel objects, faults) are left
//! out: user level never sees them whole. `field_high`, which drops low bits, occurs in kernel objects only.

use std::fmt::Write as _;

use crate::result::Result;

const WORD_BITS: u32 = 64;

struct Field {
    name: String,
    bits: u32,
}

/// A module a block, with `new` that packs the fields and a function for each field that takes it out of the word; a
/// module a tagged union, with the number of each tag.
pub(crate) fn code(text: &str) -> Result<String> {
    let mut code = String::new();
    let text = strip_comments(text);
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        match word {
            "block" => {
                let name = words.next().ok_or("a block without a name")?;
                let body = body(&mut words);
                // The optional list of the block's visible fields may stand between name and brace.
                let name = name.split('(').next().unwrap_or(name);
                if let Some(fields) = fields(&body)? {
                    code += &block(name, &fields);
                }
            }
            "tagged_union" => {
                let name = words.next().ok_or("a union without a name")?;
                let body = body(&mut words);
                let _ = writeln!(code, "pub(crate) mod {name} {{");
                for tag in body.chunks(3).filter(|tag| tag.len() == 3 && tag[0] == "tag") {
                    let _ = writeln!(code, "    pub(crate) const {}: u64 = {};", tag[1], tag[2]);
                }
                code += "}\n";
            }
            _ => {}
        }
    }
    Ok(code)
}

fn strip_comments(text: &str) -> String {
    text.lines().map(|line| line.split("--").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

/// The words between the next pair of braces.
fn body<'a>(words: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    words.skip_while(|word| *word != "{").skip(1).take_while(|word| *word != "}").collect()
}

/// The fields from high to low, padding without a name; `None` when they are more than a word or not plain.
fn fields(body: &[&str]) -> Result<Option<Vec<Field>>> {
    let mut fields = Vec::new();
    let mut words = body.iter();
    while let Some(word) = words.next() {
        let name = match *word {
            "padding" => "",
            "field" => words.next().ok_or("a field without a name")?,
            _ => return Ok(None),
        };
        let bits = words.next().and_then(|bits| bits.parse().ok()).ok_or("a field without a size")?;
        fields.push(Field { name: name.to_owned(), bits });
    }
    let total: u32 = fields.iter().map(|field| field.bits).sum();
    Ok((total == WORD_BITS).then_some(fields))
}

fn block(name: &str, fields: &[Field]) -> String {
    let mut code = format!("pub(crate) mod {name} {{\n");
    let named: Vec<_> = fields.iter().filter(|field| !field.name.is_empty()).collect();
    let arguments: Vec<_> = named.iter().map(|field| format!("r#{}: u64", field.name)).collect();
    let _ = writeln!(code, "    #[inline]\n    pub(crate) const fn new({}) -> u64 {{\n        0", arguments.join(", "));
    let mut shift = WORD_BITS;
    let mut readers = String::new();
    for field in fields {
        shift -= field.bits;
        if field.name.is_empty() {
            continue;
        }
        let (name, mask) = (&field.name, u64::MAX >> (WORD_BITS - field.bits));
        let _ = writeln!(code, "            | (r#{name} & {mask:#x}) << {shift}");
        let _ = writeln!(readers, "    #[inline]\n    pub(crate) const fn r#{name}(word: u64) -> u64 {{");
        let _ = writeln!(readers, "        word >> {shift} & {mask:#x}\n    }}");
    }
    code + "    }\n" + &readers + "}\n"
}
