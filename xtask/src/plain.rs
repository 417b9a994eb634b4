//! Makes text of components, firmware, files and users safe for a terminal.

use std::borrow::Cow;

/// Replaces control characters other than ends of lines and tabs by the replacement character. Otherwise escape sequences of a
/// component would act on the terminal of the log's reader; and XML must not contain them. Each end of a line becomes a line feed alone.
pub fn plain(text: &str) -> Cow<'_, str> {
    match text.chars().any(acts) {
        true => text.replace("\r\n", "\n").replace(acts, "\u{fffd}").into(),
        false => text.into(),
    }
}

fn acts(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_become_text_and_lines_stay() {
        assert_eq!(plain("\u{1b}[2Jgone\u{9b}1m\u{7f}"), "\u{fffd}[2Jgone\u{fffd}1m\u{fffd}");
        assert!(matches!(plain("a line\n\tand another: ä┌\n"), Cow::Borrowed(_)));
        assert_eq!(plain("a line\r\nPASS\rFAIL"), "a line\nPASS\u{fffd}FAIL", "nothing is written over");
    }
}
