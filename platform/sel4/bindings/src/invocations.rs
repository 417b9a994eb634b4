//! System call numbers and invocations, from the kernel's XML.
//!
//! Labels come from the kernel's enumerations, by the methods' ids. Arguments are packed as the kernel's own stubs pack them: every
//! scalar aligned to its size, capabilities apart.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use roxmltree::{Document, Node};

use crate::header::Constants;
use crate::result::Result;
use crate::structure::scalar_bytes;

const WORD_BITS: u32 = 64;

/// Constants with the numbers of the system calls that the configuration has: -1 and down.
pub(crate) fn syscalls(text: &str, options: &Constants) -> Result<String> {
    let document = parse(text)?;
    let mut code = String::new();
    let mut number = -1i64;
    let other = if options.is_defined("CONFIG_KERNEL_MCS") { "api-master" } else { "api-mcs" };
    // The official ones come first in the file, the others follow on the same count.
    for config in document.descendants().filter(|node| node.has_tag_name("config")) {
        // A condition has elements of this name, too.
        let is_group =
            config.parent_element().is_some_and(|parent| !parent.has_tag_name("condition") && !is_term(parent));
        if !is_group
            || config.parent_element().is_some_and(|parent| parent.has_tag_name(other))
            || !applies(config, options)?
        {
            continue;
        }
        for syscall in config.children().filter(|node| node.has_tag_name("syscall")) {
            let name = required(syscall, "name")?;
            let _ = writeln!(code, "    pub(crate) const {name}: u64 = {number}i64 as u64;");
            number -= 1;
        }
    }
    Ok(code)
}

/// A function for each method of the interfaces that the configuration has. `constants` has the configuration and the labels.
pub(crate) fn code(interfaces: &[String], types: &BTreeMap<String, String>, constants: &Constants) -> Result<String> {
    let mut code = String::from("    use crate::invocation::{Answer, Sel4};\n    use platform::Result;\n");
    let documents = interfaces.iter().map(|text| parse(text)).collect::<Result<Vec<_>>>()?;
    // The common file uses structures that the architecture's declare.
    let mut structs = Structs::new();
    for document in &documents {
        structs.extend(structs_of(document)?);
    }
    for (name, members) in &structs {
        let _ =
            writeln!(code, "    pub(crate) mod {name} {{\n        pub(crate) const WORDS: usize = {};", members.len());
        for (index, member) in members.iter().enumerate() {
            let _ = writeln!(code, "        pub(crate) const {member}: usize = {index};");
        }
        code += "    }\n";
    }
    for document in &documents {
        for method in document.descendants().filter(|node| node.has_tag_name("method")) {
            if applies(method, constants)? {
                let id = required(method, "id")?;
                let label = constants.value(id).ok_or_else(|| format!("the method {id} has no label"))?;
                code += &function(method, label, types, &structs)?;
            }
        }
    }
    Ok(code)
}

/// Whether the configuration has what the node describes. The condition is an attribute in 5.0.0, and elements in later kernels.
fn applies(node: Node, options: &Constants) -> Result<bool> {
    let attribute = options.holds(node.attribute("condition").unwrap_or_default())?;
    let element = node.children().find(|child| child.has_tag_name("condition"));
    Ok(element.map_or(Ok(true), |condition| all(condition, options))? && attribute)
}

fn holds(term: Node, options: &Constants) -> Result<bool> {
    match term.tag_name().name() {
        "not" => Ok(!any(term, options)?),
        "and" => all(term, options),
        "or" => any(term, options),
        "config" => Ok(options.is_defined(required(term, "var")?)),
        other => Err(format!("a condition has the unknown element `{other}`")),
    }
}

fn all(node: Node, options: &Constants) -> Result<bool> {
    Ok(!terms(node, options)?.contains(&false))
}

fn any(node: Node, options: &Constants) -> Result<bool> {
    Ok(terms(node, options)?.contains(&true))
}

fn terms(node: Node, options: &Constants) -> Result<Vec<bool>> {
    node.children().filter(Node::is_element).map(|term| holds(term, options)).collect()
}

fn is_term(node: Node) -> bool {
    ["not", "and", "or"].contains(&node.tag_name().name())
}

type Structs = BTreeMap<String, Vec<String>>;

fn structs_of(document: &Document) -> Result<Structs> {
    let mut structs = Structs::new();
    for node in document.descendants().filter(|node| node.has_tag_name("struct")) {
        let members = node.children().filter(|child| child.has_tag_name("member"));
        let members = members.map(|member| required(member, "name").map(str::to_owned)).collect::<Result<_>>()?;
        structs.insert(required(node, "name")?.to_owned(), members);
    }
    Ok(structs)
}

fn function(method: Node, label: i128, types: &BTreeMap<String, String>, structs: &Structs) -> Result<String> {
    let interface = method.parent_element().ok_or("a method outside an interface")?;
    let name = format!("{}_{}", required(interface, "name")?, required(method, "name")?);
    let mut message = Packing::default();
    let (mut arguments, mut caps) = (String::new(), Vec::new());
    for parameter in method.children().filter(|node| node.has_tag_name("param")) {
        if required(parameter, "dir")? != "in" {
            continue;
        }
        let kind = required(parameter, "type")?;
        let argument = format!("r#{}", required(parameter, "name")?);
        if is_cap(kind, types) {
            let _ = write!(arguments, ", {argument}: u64");
            caps.push(argument);
        } else if let Some(members) = structs.get(kind) {
            let _ = write!(arguments, ", {argument}: &[u64; {}]", members.len());
            for index in 0..members.len() {
                message.pack(&format!("{argument}[{index}]"), WORD_BITS);
            }
        } else {
            let _ = write!(arguments, ", {argument}: u64");
            message.pack(&argument, bits(kind, types)?);
        }
    }
    Ok(format!(
        "    #[inline]\n    pub(crate) fn {name}(kernel: &Sel4, service: u64{arguments}) -> Result<Answer> {{\n        \
         kernel.invoke({label}, service, &[{}], &[{}])\n    }}\n",
        caps.join(", "),
        message.words.join(", ")
    ))
}

/// The words of a message under construction, as expressions.
#[derive(Default)]
struct Packing {
    words: Vec<String>,
    bits: u32,
}

impl Packing {
    fn pack(&mut self, value: &str, bits: u32) {
        self.bits = self.bits.next_multiple_of(bits);
        let (word, shift) = ((self.bits / WORD_BITS) as usize, self.bits % WORD_BITS);
        let value = match bits {
            WORD_BITS => value.to_owned(),
            _ => format!("({value} & {:#x}) << {shift}", u64::MAX >> (WORD_BITS - bits)),
        };
        match self.words.get_mut(word) {
            Some(others) => *others += &format!(" | {value}"),
            None => self.words.push(value),
        }
        self.bits += bits;
    }
}

/// Whether the type is another name for a capability pointer: such arguments travel as capabilities.
fn is_cap(kind: &str, types: &BTreeMap<String, String>) -> bool {
    kind == "seL4_CPtr" || types.get(kind).is_some_and(|kind| is_cap(kind, types))
}

fn bits(kind: &str, types: &BTreeMap<String, String>) -> Result<u32> {
    match kind {
        // A truth value is one bit in a message.
        "seL4_Bool" => Ok(1),
        // One-word structures of the bitfield files, and an enumeration forced to a word.
        "seL4_CapData_t"
        | "seL4_PrioProps_t"
        | "seL4_CapRights_t"
        | "seL4_X86_VMAttributes"
        | "seL4_X86_EPT_VMAttributes"
        | "seL4_ARM_VMAttributes" => Ok(WORD_BITS),
        _ => {
            let bytes = scalar_bytes(kind, types).ok_or_else(|| format!("the unknown type {kind} in an interface"))?;
            u32::try_from(bytes * 8).map_err(|_| format!("the type {kind} is too large"))
        }
    }
}

fn parse(text: &str) -> Result<Document<'_>> {
    Document::parse(text).map_err(|error| format!("an interface file is no XML: {error}"))
}

fn required<'a>(node: Node<'a, '_>, attribute: &str) -> Result<&'a str> {
    node.attribute(attribute).ok_or_else(|| format!("a `{}` without `{attribute}`", node.tag_name().name()))
}
