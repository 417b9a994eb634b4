//! The columns of `docs/benchmarks.md` that are not measured: gates, goals, and the ratio of each instruction count to the PC's.

use super::counts::grouped;
use super::parts::document;
use super::texts::Texts;
use crate::commands::bench::{GATES, Gate};
use anyhow::{Context, Result, ensure};
use kernel::Arch;
use std::collections::BTreeMap;
use xtask::project::Project;

const DOCUMENT: &str = "docs/benchmarks.md";
/// The column of instructions.
const IN_ALL: &str = "in all";

/// Fills the columns.
pub(super) fn make(_: &Project, texts: &mut Texts) -> Result<()> {
    let text = document(texts, DOCUMENT)?;
    *text = filled(text)?;
    Ok(())
}

fn filled(text: &str) -> Result<String> {
    let (mut lines, mut headings, mut arch) = (Vec::new(), Vec::new(), Arch::X86_64);
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        if line.starts_with("### AArch64") {
            arch = Arch::Aarch64;
        }
        let mut cells: Vec<String> = line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
        if line.starts_with("| benchmark |") {
            headings = cells;
        } else if let Some(name) = line.strip_prefix("| `").filter(|_| headings.iter().any(|is| is == IN_ALL)) {
            let name = name.split('`').next().unwrap_or_default();
            let gate =
                Gate::of(name).with_context(|| format!("{DOCUMENT} has the benchmark {name}, and no gate is of it"))?;
            let instructions = headings.iter().position(|heading| heading == IN_ALL).and_then(|at| cells.get(at));
            let instructions: f64 =
                instructions.and_then(|cell| cell.replace(',', "").parse().ok()).unwrap_or(f64::NAN);
            rows.insert((arch.to_string(), gate.name), instructions);
            let on_pc = rows.get(&(Arch::X86_64.to_string(), gate.name));
            for (heading, cell) in headings.iter().zip(&mut cells) {
                match heading.as_str() {
                    "at most" => *cell = gate.instructions(arch).map(|most| grouped(most, 0)).unwrap_or_default(),
                    "goal" => *cell = gate.goal(arch).map(|goal| grouped(goal, 0)).unwrap_or_default(),
                    "times x86_64" => *cell = on_pc.map(|pc| format!("{:.2}", instructions / pc)).unwrap_or_default(),
                    _ => {}
                }
            }
            lines.push(format!("| {} |", cells.join(" | ")));
            continue;
        } else if !line.starts_with('|') {
            headings.clear();
        }
        lines.push(line.to_owned());
    }
    let of_all = GATES.iter().flat_map(|gate| Arch::ALL.map(|arch| (gate, arch)));
    for (gate, arch) in of_all.filter(|(gate, arch)| gate.instructions(*arch).is_some()) {
        ensure!(rows.contains_key(&(arch.to_string(), gate.name)), "{DOCUMENT} has no row of {} on {arch}", gate.name);
    }
    Ok(lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tables of all benchmarks whose other columns are `wrong`.
    fn tables(wrong: &str) -> String {
        let rows = |columns: &str| {
            let rows: String =
                GATES.iter().map(|gate| format!("| `{}` | 1,000 | {wrong} | {wrong} |\n", gate.name)).collect();
            format!("| benchmark | in all | {columns} |\n|---|---:|---:|---:|\n{rows}\n")
        };
        format!("{}### AArch64\n\n{}", rows("at most | goal"), rows("at most | times x86_64"))
    }

    #[test]
    fn gates_and_goals_are_filled_in() {
        let filled = filled(&tables("7")).unwrap();
        let gate = Gate::of("read-4k-qd1-interrupt").unwrap();
        let most = Arch::ALL.map(|arch| grouped(gate.instructions(arch).unwrap(), 0));
        let goal = gate.goal(Arch::X86_64).map(|goal| grouped(goal, 0)).unwrap();
        assert!(filled.contains(&format!("| `{}` | 1,000 | {} | {goal} |", gate.name, most[0])), "{filled}");
        assert!(filled.contains(&format!("| `{}` | 1,000 | {} | 1.00 |", gate.name, most[1])), "{filled}");
        assert_eq!(super::filled(&filled).unwrap(), filled);
    }

    #[test]
    fn each_benchmark_has_a_row_and_each_row_a_benchmark() {
        let name = GATES[0].name;
        let error = |text: &str| filled(text).unwrap_err().to_string();
        assert_eq!(
            error(&tables("7").replace(&format!("| `{name}` |"), "| `other` |")),
            "docs/benchmarks.md has the benchmark other, and no gate is of it"
        );
        assert_eq!(
            error(&tables("7").replacen(&format!("| `{name}` |"), "| none |", 1)),
            format!("docs/benchmarks.md has no row of {name} on x86_64")
        );
    }

    #[test]
    fn a_table_without_the_column_of_instructions_stays_and_stands_for_no_row() {
        let other = "### A current kernel\n\n| benchmark | 16.0.0 | goal |\n|---|---:|---:|\n| `ipc-call` | 1 | 2 |\n";
        let all = filled(&tables("")).unwrap();
        assert_eq!(filled(&format!("{all}{other}")).unwrap(), format!("{all}{other}"));
        assert!(filled(other).is_err());
    }
}
