//! What components and firmware say, as text that a terminal only shows.

use std::borrow::Cow;

/// The text without control characters but ends of lines and tabs: in their place stands the replacement character. Escape
/// sequences of a component would otherwise act on the terminal of whoever reads its log, and no XML may hold them.
pub(crate) fn plain(text: &str) -> Cow<'_, str> {
    if text.chars().any(acts) { text.replace(acts, "\u{fffd}").into() } else { text.into() }
}

fn acts(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\r' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_text_and_lines_stay() {
        assert_eq!(plain("\u{1b}[2Jgone\u{9b}1m\u{7f}"), "\u{fffd}[2Jgone\u{fffd}1m\u{fffd}");
        assert!(matches!(plain("a line\r\n\tand another: ä┌\n"), Cow::Borrowed(_)));
    }
}
