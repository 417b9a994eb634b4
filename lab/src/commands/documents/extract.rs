//! The README's extract of the demo's output: each of its lines must be a line of `docs/guide/demo.md`.

use super::texts::Texts;
use std::collections::BTreeSet;

const SHORT: (&str, &str) = ("README.md", "## What the demo shows");
const LONG: &str = "docs/guide/demo.md";

/// A sentence for each line that the longer output lacks.
pub(super) fn wrong_lines(texts: &Texts) -> Vec<String> {
    let text = |path: &str| texts.get(path).map(String::as_str).unwrap_or_default();
    let (path, heading) = SHORT;
    let known: BTreeSet<_> = text(LONG).lines().collect();
    let section = text(path).lines().skip_while(|line| *line != heading).skip(1);
    let fenced = section.take_while(|line| !line.starts_with("## ")).skip_while(|line| *line != "```").skip(1);
    let shown: Vec<_> = fenced.take_while(|line| *line != "```").collect();
    if shown.is_empty() {
        return vec![format!("{path} has no output after '{heading}'")];
    }
    let unknown = shown.into_iter().filter(|line| !known.contains(line));
    unknown.map(|line| format!("{path} shows '{}', and {LONG} does not", line.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn an_extract_has_lines_of_the_whole() {
        let short =
            |output: &str| format!("```\nother\n```\n## What the demo shows\n\n```\n{output}```\n## Next\nmore\n");
        let wrong =
            |output: &str| wrong_lines(&texts(&[("README.md", &short(output)), (LONG, "  1 s  a\n  2 s  b\nPASS\n")]));
        assert!(wrong("  1 s  a\nPASS\n").is_empty());
        assert_eq!(wrong("  3 s  b\n"), ["README.md shows '3 s  b', and docs/guide/demo.md does not"]);
        assert_eq!(wrong(""), ["README.md has no output after '## What the demo shows'"]);
    }
}
