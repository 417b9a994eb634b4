//! Wraps lines between words, or between phrases.

use textwrap::core::Word;
use textwrap::{Options, WordSeparator, WordSplitter};

/// The line in lines of at most `columns` columns, the further ones indented. Phrases with a semicolon between them stay whole.
pub fn wrapped(line: &str, columns: usize) -> String {
    if line.chars().count() <= columns {
        return line.to_owned();
    }
    let indent = line.chars().take_while(|c| *c == ' ').count();
    let fits = |phrase: &str| indent + phrase.chars().count() < columns;
    let of_phrases = line.contains("; ") && line.trim_start().split("; ").all(fits);
    let (separator, further) =
        if of_phrases { (WordSeparator::Custom(phrases), indent) } else { (WordSeparator::AsciiSpace, indent + 2) };
    let (indent, further) = (" ".repeat(indent), " ".repeat(further));
    let options = Options::new(columns).initial_indent(&indent).subsequent_indent(&further).word_separator(separator);
    textwrap::fill(line.trim_start_matches(' '), options.word_splitter(WordSplitter::NoHyphenation).break_words(false))
}

/// The phrases of a line, each with its semicolon.
fn phrases(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    Box::new(line.split_inclusive("; ").map(Word::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stay_whole_and_a_line_without_a_limit_too() {
        let line = "  target/runs/demo-1 has its log, and the picture";
        assert_eq!(wrapped(line, usize::MAX), line);
        assert_eq!(wrapped(line, 24), "  target/runs/demo-1 has\n    its log, and the\n    picture");
        assert_eq!(wrapped(line, 9).lines().next(), Some("  target/runs/demo-1"));
    }
}
