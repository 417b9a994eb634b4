//! Parses the part of C that the kernel's interface headers use for numbers: conditions, plain definitions, enumerations.
//!
//! Left out: structures (`structure.rs`), includes (the caller names the headers in order), macros with several
//! arguments, initialised objects.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use crate::result::Result;

/// Names with values, gathered header by header.
#[derive(Clone, Default)]
pub(crate) struct Constants {
    values: HashMap<String, i128>,
    defined: HashSet<String>,
    /// Macros with one argument: its name, and their bodies.
    macros: HashMap<String, (String, String)>,
    order: Vec<String>,
}

impl Constants {
    /// Adds the definitions and enumerations of a header. Values that are not numbers are left out.
    pub(crate) fn define(&mut self, text: &str) -> Result<()> {
        let text = strip_comments(text);
        let mut rest = String::new();
        let mut open: Vec<Condition> = Vec::new();
        for line in joined_lines(&text) {
            let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
            match directive {
                Some(directive) => self.directive(directive, &mut open)?,
                None if is_active(&open) => rest = rest + &line + "\n",
                None => {}
            }
            // An enumeration counts from names that may be defined between it and the next directive.
            self.enumerations(&mut rest);
        }
        check_closed(&open)
    }

    /// The text without its comments, directives, and the parts whose conditions do not hold.
    pub(crate) fn preprocess(&self, text: &str) -> Result<String> {
        let mut scratch = self.clone();
        let mut open: Vec<Condition> = Vec::new();
        let mut kept = String::new();
        for line in joined_lines(&strip_comments(text)) {
            match line.trim_start().strip_prefix('#') {
                Some(directive) => scratch.directive(directive.trim_start(), &mut open)?,
                None if is_active(&open) => kept = kept + &line + "\n",
                None => {}
            }
        }
        check_closed(&open)?;
        Ok(kept)
    }

    pub(crate) fn is_defined(&self, name: &str) -> bool {
        self.defined.contains(name)
    }

    pub(crate) fn value(&self, name: &str) -> Option<i128> {
        self.values.get(name).copied()
    }

    /// Whether a condition as in `#if` or in an XML attribute holds. An empty one does. Names that are not defined are 0, as in C.
    pub(crate) fn holds(&self, condition: &str) -> Result<bool> {
        if condition.trim().is_empty() {
            return Ok(true);
        }
        self.value_of(condition, Some(0)).map(|value| value != 0).ok_or_else(|| format!("cannot decide `{condition}`"))
    }

    pub(crate) fn code(&self) -> String {
        let mut code = String::new();
        for name in &self.order {
            // Negative values are marks inside the kernel.
            if let Some(value) = self.value(name).and_then(|value| u64::try_from(value).ok()) {
                let _ = writeln!(code, "    pub(crate) const {name}: u64 = {value};");
            }
        }
        code
    }

    /// The value of an expression of numbers, known names and the usual operators.
    pub(crate) fn evaluate(&self, expression: &str) -> Option<i128> {
        self.value_of(expression, None)
    }

    fn value_of(&self, expression: &str, undefined: Option<i128>) -> Option<i128> {
        let tokens = tokens(expression)?;
        let mut parser = Parser { constants: self, tokens: &tokens, at: 0, undefined };
        let value = parser.binary(0)?;
        (parser.at == tokens.len()).then_some(value)
    }

    fn set(&mut self, name: &str, value: i128) {
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
    }

    fn directive(&mut self, directive: &str, open: &mut Vec<Condition>) -> Result<()> {
        let (keyword, rest) = directive.split_once(char::is_whitespace).unwrap_or((directive, ""));
        let rest = rest.trim();
        let outer = is_active(open);
        match keyword {
            "ifdef" => open.push(Condition::new(outer, self.is_defined(rest))),
            "ifndef" => open.push(Condition::new(outer, !self.is_defined(rest))),
            "if" => open.push(Condition::new(outer, outer && self.holds(rest)?)),
            "elif" => {
                let last = open.pop().ok_or("#elif without #if")?;
                let holds = last.may_turn() && self.holds(rest)?;
                open.push(last.turned(holds));
            }
            "else" => {
                let last = open.pop().ok_or("#else without #if")?;
                open.push(last.turned(true));
            }
            "endif" => {
                open.pop().ok_or("#endif without #if")?;
            }
            "define" if outer => self.definition(rest),
            _ => {}
        }
        Ok(())
    }

    fn definition(&mut self, rest: &str) {
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let value = &rest[name.len()..];
        self.defined.insert(name.clone());
        // With a parenthesis right behind the name it is a macro with arguments.
        if let Some((argument, body)) = value.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            self.macros.insert(name, (argument.trim().to_owned(), body.to_owned()));
        } else if let Some(value) = self.evaluate(value) {
            self.set(&name, value);
        }
    }

    /// Takes every complete enumeration out of `text`.
    fn enumerations(&mut self, text: &mut String) {
        while let Some(start) = find_word(text, "enum") {
            let Some(brace) = text[start..].find(['{', ';']) else { return };
            let body = start + brace + 1;
            if text[..body].ends_with(';') {
                text.replace_range(..body, "");
                continue;
            }
            let Some(len) = text[body..].find('}') else { return };
            let entries = text[body..body + len].to_owned();
            self.enumeration(&entries);
            text.replace_range(..=body + len, "");
        }
    }

    fn enumeration(&mut self, entries: &str) {
        let mut next = Some(0);
        for entry in split_entries(entries) {
            let (name, value) = match entry.split_once('=') {
                Some((name, value)) => (name.trim(), self.evaluate(value)),
                // A macro stands for an entry of another name.
                None if entry.contains('(') => (entry, None),
                None => (entry, next),
            };
            if let Some(value) = value {
                self.set(name, value);
            }
            next = value.map(|value| value + 1);
        }
    }
}

/// An open `#if`.
struct Condition {
    /// Whether the text around it counts.
    outer: bool,
    /// Whether the present branch counts.
    holds: bool,
    /// Whether an earlier branch did.
    is_over: bool,
}

impl Condition {
    fn new(outer: bool, holds: bool) -> Self {
        Self { outer, holds, is_over: false }
    }

    /// Whether a further branch may count.
    fn may_turn(&self) -> bool {
        self.outer && !self.holds && !self.is_over
    }

    /// The next branch, which counts if none did before.
    fn turned(self, holds: bool) -> Self {
        Self { holds: self.may_turn() && holds, is_over: self.is_over || self.holds, ..self }
    }
}

fn check_closed(open: &[Condition]) -> Result<()> {
    if open.is_empty() { Ok(()) } else { Err("#if without #endif".into()) }
}

/// The entries of an enumeration: a comma in an argument list ends none.
fn split_entries(entries: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    let ends = move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    };
    entries.split(ends).map(str::trim).filter(|entry| !entry.is_empty())
}

fn is_active(open: &[Condition]) -> bool {
    open.iter().all(|condition| condition.outer && condition.holds)
}

pub(crate) fn strip_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        kept += &rest[..start];
        let Some(len) = rest[start..].find("*/") else { return kept };
        kept.push(' ');
        rest = &rest[start + len + 2..];
    }
    kept += rest;
    kept.lines().map(|line| line.split("//").next().unwrap_or_default()).collect::<Vec<_>>().join("\n")
}

fn joined_lines(text: &str) -> Vec<String> {
    text.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word)
        .map(|(at, _)| at)
        .find(|at| !text[..*at].ends_with(is_part) && !text[at + word.len()..].starts_with(is_part))
}

fn tokens(expression: &str) -> Option<Vec<String>> {
    let mut tokens = Vec::new();
    let mut chars = expression.chars().peekable();
    while let Some(c) = chars.next() {
        let mut token = String::from(c);
        if c.is_whitespace() {
            continue;
        } else if c.is_alphanumeric() || c == '_' {
            while let Some(more) = chars.next_if(|c| c.is_alphanumeric() || *c == '_') {
                token.push(more);
            }
        } else if let Some(second) =
            chars.next_if(|second| OPERATORS.iter().any(|(op, _)| *op == format!("{c}{second}")))
        {
            token.push(second);
        }
        tokens.push(token);
    }
    (!tokens.is_empty()).then_some(tokens)
}

/// Binary operators with their precedence.
const OPERATORS: &[(&str, u8)] = &[
    ("||", 1),
    ("&&", 2),
    ("|", 3),
    ("&", 4),
    ("==", 5),
    ("!=", 5),
    ("<", 6),
    (">", 6),
    ("<=", 6),
    (">=", 6),
    ("<<", 7),
    (">>", 7),
    ("+", 8),
    ("-", 8),
    ("*", 9),
    ("/", 9),
];

struct Parser<'a> {
    constants: &'a Constants,
    tokens: &'a [String],
    at: usize,
    /// The value of names without one.
    undefined: Option<i128>,
}

impl Parser<'_> {
    fn take(&mut self) -> Option<&str> {
        let token = self.tokens.get(self.at)?;
        self.at += 1;
        Some(token)
    }

    fn take_if(&mut self, token: &str) -> bool {
        let there = self.tokens.get(self.at).is_some_and(|next| next == token);
        self.at += usize::from(there);
        there
    }

    fn binary(&mut self, least: u8) -> Option<i128> {
        let mut left = self.unary()?;
        while let Some((operator, precedence)) = self
            .tokens
            .get(self.at)
            .and_then(|token| OPERATORS.iter().find(|(operator, precedence)| token == operator && *precedence > least))
        {
            self.at += 1;
            let right = self.binary(*precedence)?;
            left = apply(operator, left, right)?;
        }
        Some(left)
    }

    fn unary(&mut self) -> Option<i128> {
        let constants = self.constants;
        match self.take()?.to_owned().as_str() {
            "-" => self.unary()?.checked_neg(),
            "!" => Some(i128::from(self.unary()? == 0)),
            "(" => {
                let value = self.binary(0)?;
                self.take_if(")").then_some(value)
            }
            "defined" => {
                let parenthesis = self.take_if("(");
                let name = self.take()?.to_owned();
                (!parenthesis || self.take_if(")")).then(|| i128::from(constants.is_defined(&name)))
            }
            token => match constants.macros.get(token) {
                Some((argument, body)) if self.take_if("(") => {
                    let mut inner = constants.clone();
                    inner.set(argument, self.binary(0)?);
                    self.take_if(")").then(|| inner.evaluate(body))?
                }
                _ => number(token).or_else(|| constants.value(token)).or(self.undefined),
            },
        }
    }
}

fn number(token: &str) -> Option<i128> {
    let digits = token.trim_end_matches(['u', 'U', 'l', 'L']);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => digits.parse().ok(),
    }
}

fn apply(operator: &str, left: i128, right: i128) -> Option<i128> {
    let shift = u32::try_from(right).ok().filter(|shift| *shift < 64);
    Some(match operator {
        "||" => i128::from(left != 0 || right != 0),
        "&&" => i128::from(left != 0 && right != 0),
        "|" => left | right,
        "&" => left & right,
        "==" => i128::from(left == right),
        "!=" => i128::from(left != right),
        "<" => i128::from(left < right),
        ">" => i128::from(left > right),
        "<=" => i128::from(left <= right),
        ">=" => i128::from(left >= right),
        "<<" => left << shift?,
        ">>" => left >> shift?,
        "+" => left.checked_add(right)?,
        "-" => left.checked_sub(right)?,
        "*" => left.checked_mul(right)?,
        "/" => left.checked_div(right)?,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn constants(text: &str) -> Constants {
        let mut constants = Constants::default();
        constants.define(text).unwrap();
        constants
    }

    #[test]
    fn entries_of_an_enumeration_may_call_macros() {
        let text = "#define BIT(n) (1ul << (n))\n\
                    enum { A = BIT(4), B, C = BIT(2) | 1, D = (BIT(1) + 3) * 2, E };";
        let constants = constants(text);
        assert_eq!(["A", "B", "C", "D", "E"].map(|name| constants.value(name).unwrap()), [16, 17, 5, 10, 11]);
    }

    #[test]
    fn entries_after_an_unknown_value_are_unknown_up_to_the_next_value() {
        let text = "#define MAX(a, b) ((a) > (b) ? (a) : (b))\n\
                    enum { A = 7, B = MAX(1, 2), C, D = 3, E, F = sizeof(long), G, LAST(H), I };";
        let constants = constants(text);
        let values = ["A", "B", "C", "D", "E", "F", "G", "I"].map(|name| constants.value(name));
        assert_eq!(values, [Some(7), None, None, Some(3), Some(4), None, None, None]);
        assert_eq!(constants.order, ["A", "D", "E"]);
    }

    #[test]
    fn one_branch_of_a_condition_counts() {
        let chain = |config: &str| {
            let chain =
                "#if A == 1\n#define X 1\n#elif defined B && !defined(C)\n#define X 2\n#else\n#define X 3\n#endif";
            constants(&format!("{config}\n{chain}")).value("X")
        };
        assert_eq!(chain("#define A 1\n#define B"), Some(1));
        assert_eq!(chain("#define B"), Some(2));
        assert_eq!(chain("#define B\n#define C"), Some(3));
        let nested = constants(
            "#ifdef A\n#if 1\n#define X 1\n#else\n#define X 2\n#endif\n#endif\n#ifndef A\n#define Y 3\n#endif",
        );
        assert_eq!((nested.value("X"), nested.value("Y")), (None, Some(3)));
    }

    #[test]
    fn expressions_have_the_precedence_of_c() {
        let constants = constants("#define LONG 1 + \\\n  2\n#define HEX 0x1Ful // of\n#define TEXT \"1\"");
        assert_eq!(constants.evaluate("1 + 2 * 3 - 8 / 4 << 1"), Some(10));
        assert_eq!(constants.evaluate("!0 && 1 | 2 == 2"), Some(1));
        assert_eq!(constants.evaluate("10 - 3 - 2"), Some(5));
        assert_eq!(constants.evaluate("-(LONG) + HEX"), Some(28));
        assert_eq!(["TEXT", "1 / 0", "1 << 64", "(1", ""].map(|text| constants.evaluate(text)), [None; 5]);
    }
}
