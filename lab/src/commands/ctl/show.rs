//! `cargo xtask ctl show`: structures of a running system's controller, field by field.

use crate::fields::{CONTROLLER, NAMESPACE, SMART, Structure, Value};
use crate::live::administration;
use crate::nvme_cli::{FarEnd, Refused};
use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use nvme_passthrough::{Command, Data, Queue};
use nvme_spec::admin::Opcode;
use serde_json::{Map, Value as Json};
use std::fmt::Write as _;
use xtask::out;
use xtask::project::Project;

/// Log page of SMART, which is asked for about the whole controller.
const SMART_LOG: u32 = 2;
const WHOLE_CONTROLLER: u32 = u32::MAX;

/// Arguments of the command.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The structure
    structure: Named,
    /// The namespace that is identified
    #[arg(long, default_value_t = 1, value_name = "NSID")]
    namespace: u32,
    /// Print JSON: the fields by name, numbers in hexadecimal digits
    #[arg(long)]
    json: bool,
}

/// A structure.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Named {
    /// Identify Controller
    IdCtrl,
    /// Identify Namespace
    IdNs,
    /// The SMART log
    Smart,
}

/// Asks the controller of the run, and prints the structure.
pub(super) fn run(project: &Project, run: Option<&str>, show: &Show) -> Result<()> {
    let mut far = administration::controller(project, run)?;
    let (structure, bytes) = read(&mut far, show)?;
    let fields = structure.in_order(&bytes);
    let shown = if show.json { json(fields)? } else { text(&fields) };
    out::line(format_args!("{}", shown.trim_end()))?;
    Ok(())
}

fn read(far: &mut dyn FarEnd, show: &Show) -> Result<(&'static Structure, Vec<u8>)> {
    let (structure, opcode, nsid, cdw10) = match show.structure {
        Named::IdCtrl => (&CONTROLLER, Opcode::Identify, 0, 1),
        Named::IdNs => (&NAMESPACE, Opcode::Identify, show.namespace, 0),
        Named::Smart => (&SMART, Opcode::GetLogPage, WHOLE_CONTROLLER, SMART_LOG | (SMART.bytes as u32 / 4 - 1) << 16),
    };
    let opcode = opcode as u8;
    let command = Command { queue: Queue::Admin, opcode, nsid, cdw2: [0; 2], cdw10: [cdw10, 0, 0, 0, 0, 0] };
    let done =
        far.execute(&command, &Data::In(structure.bytes as u32)).map_err(|Refused(_, why)| anyhow::anyhow!(why))?;
    let status = nvme_spec::Status::from_raw(done.status);
    ensure!(status.is_success(), "the controller refuses: {status}");
    Ok((structure, done.data))
}

/// A line for each field, and one below it for each of its named bits.
fn text(fields: &[(String, Value)]) -> String {
    let mut text = String::new();
    let width = fields.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in fields {
        let shown = match value {
            Value::Number(number) => format!("{number} ({number:#x})"),
            Value::Bits { whole, .. } => format!("{whole:#x}"),
            Value::Text(text) => format!("\"{text}\""),
            Value::Hex(digits) => digits.clone(),
        };
        let _ = writeln!(text, "{name:width$}  {shown}");
        if let Value::Bits { named, unknown, .. } = value {
            for (bits, value) in named {
                let _ = writeln!(text, "{:width$}    {bits} {value}", "");
            }
            if *unknown != 0 {
                let _ = writeln!(text, "{:width$}    unknown bits {unknown:#x}", "");
            }
        }
    }
    text
}

fn json(fields: Vec<(String, Value)>) -> Result<String> {
    let hex = |number: u128| Json::String(format!("{number:x}"));
    let of = |value| match value {
        Value::Number(number) => hex(number),
        Value::Text(text) | Value::Hex(text) => Json::String(text),
        Value::Bits { whole, named, unknown } => {
            let named = named.into_iter().map(|(name, value)| (name.to_owned(), hex(value)));
            let more = [("whole".to_owned(), hex(whole)), ("unknown".to_owned(), hex(unknown))];
            Json::Object(named.chain(more).collect())
        }
    };
    let fields: Map<String, Json> = fields.into_iter().map(|(name, value)| (name, of(value))).collect();
    Ok(serde_json::to_string_pretty(&Json::Object(fields))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_shown_and_unknown_ones_as_hex() {
        let bits = Value::Bits { whole: 0x103, named: vec![("one", 1), ("two", 1)], unknown: 0x100 };
        let fields = [("vid".into(), Value::Number(27)), ("oacs".into(), bits), ("sn".into(), Value::Text("a".into()))];
        let wanted =
            "vid   27 (0x1b)\noacs  0x103\n        one 1\n        two 1\n        unknown bits 0x100\nsn    \"a\"\n";
        assert_eq!(text(&fields), wanted);
        let read: Json = serde_json::from_str(&json(fields.to_vec()).unwrap()).unwrap();
        assert_eq!((&read["vid"], &read["oacs"]["unknown"]), (&Json::from("1b"), &Json::from("100")));
    }
}
