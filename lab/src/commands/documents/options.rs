//! The tables of `docs/guide/options.md`: every command and every option, from the command-line definitions.

use super::parts::replace_part;
use super::texts::Texts;
use anyhow::Result;
use clap::{Arg, Command};
use std::fmt::Write;
use std::iter;

/// Writes the tables.
pub(super) fn make(program: &Command, texts: &mut Texts) -> Result<()> {
    let sections: Vec<_> = program.get_subcommands().flat_map(sections).collect();
    replace_part(texts, "docs/guide/options.md", "options", &sections.join("\n"))
}

/// Sections of a command, and of the commands below it.
fn sections(command: &Command) -> Vec<String> {
    let name = command.get_name();
    let below = command.get_subcommands().map(|one| section(&format!("{name} {}", one.get_name()), one));
    iter::once(section(name, command)).chain(below).collect()
}

/// Section of a command: its purpose, and a row for each of its arguments.
fn section(name: &str, command: &Command) -> String {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut section = format!("### {name}\n\n{about}.\n");
    let mut rows = command.get_arguments().map(row).peekable();
    if rows.peek().is_some() {
        section.push_str("\n| | |\n|---|---|\n");
        section.extend(rows);
    }
    section
}

fn row(argument: &Arg) -> String {
    let value = argument.get_action().takes_values().then(|| {
        let name = argument.get_value_names().and_then(|names| names.first()).map(ToString::to_string);
        name.unwrap_or_else(|| argument.get_id().as_str().to_uppercase())
    });
    let shown = match (argument.get_long(), value) {
        (Some(long), Some(value)) => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (None, Some(value)) if argument.is_required_set() => value,
        (None, value) => format!("[{}]", value.unwrap_or_default()),
    };
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default().replace('|', "\\|");
    let mut row = format!("| `{shown}` | {help}");
    let defaults: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if argument.get_action().takes_values() && defaults.iter().any(|value| !value.is_empty()) {
        // An empty default is not shown.
        let _ = write!(row, "; `{}` without it", defaults.join(" "));
    }
    row + " |\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ArgAction;

    #[test]
    fn a_command_has_a_row_for_each_argument() {
        let command = Command::new("go").about("Go on").args([
            Arg::new("where").value_name("PLACE").required(true).help("To a | place"),
            Arg::new("only").default_value("").help("These"),
            Arg::new("speed").long("speed").default_value("slow").help("How quick"),
            Arg::new("yes").long("yes").action(ArgAction::SetTrue).help("Without asking"),
        ]);
        assert_eq!(
            section("go", &command),
            "### go\n\nGo on.\n\n| | |\n|---|---|\n| `PLACE` | To a \\| place |\n| `[ONLY]` | These |\n\
             | `--speed SPEED` | How quick; `slow` without it |\n| `--yes` | Without asking |\n"
        );
        assert_eq!(section("stay", &Command::new("stay").about("Stay")), "### stay\n\nStay.\n");
    }

    #[test]
    fn a_command_below_another_has_a_section() {
        let command = Command::new("go").about("Go on").subcommand(Command::new("back").about("Return"));
        assert_eq!(sections(&command), ["### go\n\nGo on.\n", "### go back\n\nReturn.\n"]);
    }
}
