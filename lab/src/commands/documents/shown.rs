//! Commands shown in documents: `cargo xtask NAME --option` must name an existing command and option.

use super::texts::Texts;
use clap::{Arg, Command};

/// Beginning of each command.
const BEGIN: &str = "cargo xtask ";

/// A sentence for each shown command or option that does not exist.
pub(super) fn unknown_commands(texts: &Texts, program: &Command) -> Vec<String> {
    let mut wrong = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (number, line) in (1..).zip(text.lines()) {
            for shown in line.split(BEGIN).skip(1) {
                wrong.extend(unknown(shown, program).map(|what| format!("{path}:{number} shows {what}")));
            }
        }
    }
    wrong
}

/// The missing command or option in `shown`, which continues to the end of its code.
fn unknown(shown: &str, program: &Command) -> Option<String> {
    let mut words = shown.split(['`', '#', ';', '|', ')']).next()?.split_whitespace().peekable();
    let name = words.next()?;
    // A placeholder, or the end of the line.
    if !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-') || name.starts_with('-') {
        return None;
    }
    let Some(mut command) = program.find_subcommand(name) else {
        return Some(format!("the command {name}, which is not there"));
    };
    while let Some(below) = words.peek().and_then(|word| command.find_subcommand(word)) {
        command = below;
        words.next();
    }
    let options: Vec<_> = command.get_arguments().filter_map(Arg::get_long).chain(["help"]).collect();
    let word = |word: &'_ str| word.trim_matches(['[', ']', ',', '.']).split('=').next().unwrap_or_default().to_owned();
    let mut shown = words.map(word).filter_map(|word| word.strip_prefix("--").map(str::to_owned));
    let wrong = shown.find(|option| !option.is_empty() && !options.contains(&option.as_str()))?;
    Some(format!("the option --{wrong} of {name}, which is not there"))
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn a_command_or_an_option_that_is_not_there_is_named() {
        let text = "`cargo xtask demo --sim --seed=4` and `cargo xtask COMMAND --help`\n\
                    cargo xtask demo edu --simm   # --no\n`cargo xtask dmeo` (`cargo xtask bench --sim`) --no\n\
                    cargo xtask ctl tenants --json and cargo xtask ctl metrics --json";
        assert_eq!(
            unknown_commands(&texts(&[("a.md", text), ("a.rs", "cargo xtask no")]), &crate::program()),
            [
                "a.md:2 shows the option --simm of demo, which is not there",
                "a.md:3 shows the command dmeo, which is not there",
                "a.md:4 shows the option --json of ctl, which is not there"
            ]
        );
    }
}
