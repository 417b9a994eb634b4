//! Pages in HTML: the frame that all have, tables and pictures.
//!
//! A page is one file without scripts and without anything from elsewhere, and its policy allows neither. Text is escaped by maud;
//! pictures are those of this program, whose library escapes their text.

use crate::plain::plain;
use crate::reports::sheet::{Sheet, Value};
use maud::{DOCTYPE, Markup, PreEscaped, html};

/// The style of all pages: light or dark as the reader's system is, and for paper.
pub const STYLE: &str = include_str!("page.css");
/// Content that a page of a file may have: its own style.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// The file of a page.
#[must_use]
pub fn file(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    plain(&page.into_string()).into_owned()
}

/// A table.
#[must_use]
pub fn table(sheet: &Sheet) -> Markup {
    // Numbers stand below a heading on their side.
    let is_number = |column: usize| {
        let mut cells = sheet.rows().iter().filter_map(|row| row.get(column));
        cells.any(|cell| matches!(cell, Value::Number(_)))
    };
    let class = |number: bool| number.then_some("number");
    html! {
        div.wide {
            table {
                thead { tr {
                    @for (column, name) in sheet.header().iter().enumerate() {
                        th class=[class(is_number(column))] { (name) }
                    }
                } }
                tbody {
                    @for row in sheet.rows() {
                        tr {
                            @for cell in row {
                                td class=[class(matches!(cell, Value::Number(_)))] { (cell.text()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A picture that this program drew.
#[must_use]
pub fn picture(svg: &str) -> Markup {
    html! { figure { (PreEscaped(svg)) } }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Text that acts in a page, unless it is escaped.
    pub(crate) const HOSTILE: &str = "<script>x</script>\"'&\u{1b}<img src=x onerror=x>";

    /// Whether the text of [`HOSTILE`] has become an element of the page, or is missing.
    pub(crate) fn acts(page: &str) -> bool {
        page.contains("<script") || page.contains("<img") || page.contains('\u{1b}') || !page.contains("&lt;img src=x")
    }

    #[test]
    fn text_is_escaped_in_every_place() {
        let mut sheet = Sheet::new([HOSTILE]);
        sheet.row([Value::Word(HOSTILE.into())]);
        let drawn = crate::reports::figure::picture(9, 9, |canvas| {
            let letters =
                crate::reports::figure::letters(9, crate::reports::figure::INK, crate::reports::figure::Align::Left);
            canvas.text(HOSTILE, (1, 1), letters);
        });
        for body in [table(&sheet), picture(&drawn), html! { p title=(HOSTILE) { (HOSTILE) } }] {
            let page = file(HOSTILE, &body);
            assert!(!acts(&page), "{page}");
        }
    }

    #[test]
    fn a_page_has_nothing_from_elsewhere() {
        let page = file("a", &html! {});
        assert!(page.starts_with("<!DOCTYPE html>") && page.contains("default-src 'none'"), "{page}");
        for word in ["http:", "https:", "@import", "url(", "src="] {
            assert!(!page.replace("default-src", "").replace("style-src", "").contains(word), "{word}");
        }
    }
}
