//! `cargo xtask completions`: prints a script that lets a shell complete the commands and their options.
//!
//! clap_complete generates it for a program `xtask`. Cargo runs that program, so each shell gets a few lines more that hand the words
//! after `cargo` to it.

use anyhow::{Context, Result};
use clap::builder::PossibleValuesParser;
use clap::{Arg, Args, ValueEnum};
use clap_complete::{Shell as Generator, generate};
use kernel::Arch;
use std::process::ExitCode;
use xtask::out;
use xtask::project::Project;

/// Bash: the words after `cargo` are those of `_xtask`, and all others those of the function that completes cargo already.
const BASH: &str = r#"
if [[ "$(complete -p cargo 2>/dev/null)" != *_cargo_or_xtask* ]]; then
    _cargo_before_xtask=$(complete -p cargo 2>/dev/null | sed -n 's/.* -F \([^ ]*\).*/\1/p')
fi
_cargo_or_xtask() {
    if [[ "${COMP_WORDS[1]}" == xtask && "$COMP_CWORD" -gt 1 ]]; then
        local COMP_WORDS=("${COMP_WORDS[@]:1}") COMP_CWORD=$((COMP_CWORD - 1))
        _xtask xtask "$2" "$3"
    elif [[ -n "$_cargo_before_xtask" ]]; then
        "$_cargo_before_xtask" "$@"
    fi
}
complete -F _cargo_or_xtask -o bashdefault -o default cargo
"#;

/// Fish: completes what follows `xtask` as if it were a command of its own.
const FISH: &str = "
complete -c cargo -n '__fish_seen_subcommand_from xtask' -f -a '(__fish_complete_subcommand --fcs-skip=1)'
";

/// Arguments of the command.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

/// A shell that completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Shell {
    /// `source <(cargo xtask completions bash)`
    Bash,
    /// `cargo xtask completions zsh > FOLDER/_cargo-xtask`, a folder of $fpath
    Zsh,
    /// `cargo xtask completions fish | source`
    Fish,
}

/// Prints the script.
pub(crate) fn run(project: &Project, completions: &Completions, program: clap::Command) -> Result<ExitCode> {
    out::line(format_args!("{}", script(project, completions.shell, program)?.trim_end()))?;
    Ok(ExitCode::SUCCESS)
}

fn script(project: &Project, shell: Shell, program: clap::Command) -> Result<String> {
    // Zsh completes `cargo xtask` by the function `_cargo-xtask`.
    let (generator, name, more) = match shell {
        Shell::Bash => (Generator::Bash, "xtask", BASH),
        Shell::Zsh => (Generator::Zsh, "cargo-xtask", ""),
        Shell::Fish => (Generator::Fish, "xtask", FISH),
    };
    let scenarios = project.scenarios()?;
    let mut command = program.mut_subcommands(|command| command.mut_args(|argument| known(argument, &scenarios)));
    let mut script = Vec::new();
    generate(generator, &mut command, name, &mut script);
    Ok(String::from_utf8(script).context("the script is no UTF-8")? + more)
}

/// The argument, with the values that a shell completes where it has no list of its own.
fn known(argument: Arg, scenarios: &[String]) -> Arg {
    match argument.get_id().as_str() {
        "arch" => argument.value_parser(PossibleValuesParser::new(Arch::ALL.map(Arch::name))),
        // The script is the last that the program does.
        "scenario" => {
            argument.value_parser(PossibleValuesParser::new(scenarios.iter().map(|name| &*name.clone().leak())))
        }
        _ => argument,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn every_shells_script_has_every_command() {
        for (shell, ends) in [(Shell::Bash, "cargo"), (Shell::Zsh, "fi"), (Shell::Fish, "--fcs-skip=1)'")] {
            let script = script(&Project::here().unwrap(), shell, crate::program()).unwrap();
            assert!(script.trim_end().ends_with(ends), "{shell:?}");
            for command in crate::program().get_subcommands() {
                assert!(script.contains(command.get_name()), "{shell:?}: {}", command.get_name());
            }
        }
    }

    #[test]
    fn bash_completes_cargo_xtask_and_leaves_cargo_as_it_was() {
        let script = script(&Project::here().unwrap(), Shell::Bash, crate::program()).unwrap();
        // Sourced twice, as by a shell within another's profile.
        let test = format!(
            "_cargo() {{ COMPREPLY=(build); }}\ncomplete -F _cargo cargo\n{script}\n{script}\n\
             try() {{ COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); COMPREPLY=()\n\
             _cargo_or_xtask cargo \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD-1]}}\"\n\
             echo \"${{COMPREPLY[*]}}\"; }}\n\
             try cargo b; try cargo xtask soa; try cargo xtask sim --see; try cargo xtask demo --device ''; \
             try cargo xtask demo two; try cargo xtask sim --arch ''; try cargo xtask demo --arch ''"
        );
        // Longer than an argument may be.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, test).unwrap();
        let output = Command::new("bash").arg("--norc").arg(file.path()).output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(
            printed.lines().collect::<Vec<_>>(),
            ["build", "soak", "--seed --seeds", "qemu model", "two-tenants", "x86_64 aarch64", "x86_64 aarch64"]
        );
    }
}
