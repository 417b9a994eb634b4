//! Parts of documents, between comments that name them.

use super::texts::Texts;
use anyhow::{Context, Result};

/// The text of the document `path`.
pub(super) fn document<'a>(texts: &'a mut Texts, path: &str) -> Result<&'a mut String> {
    texts.get_mut(path).with_context(|| format!("{path} is not there"))
}

/// Replaces the text between the comments `<!-- made: NAME -->` and `<!-- end -->`.
pub(super) fn replace_part(texts: &mut Texts, path: &str, name: &str, part: &str) -> Result<()> {
    let text = document(texts, path)?;
    let begin = format!("<!-- made: {name} -->\n");
    let place = || {
        let first = text.find(&begin)? + begin.len();
        Some((first, first + text.get(first..)?.find("<!-- end -->")?))
    };
    let (first, end) = place().with_context(|| format!("{path} has no part between '{}' and an end", begin.trim()))?;
    text.replace_range(first..end, &format!("\n{part}\n"));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::texts::texts;
    use super::*;

    #[test]
    fn a_part_is_replaced_and_the_rest_stays() {
        let mut all = texts(&[("a.md", "before\n<!-- made: x -->\nold\n<!-- end -->\nafter\n")]);
        replace_part(&mut all, "a.md", "x", "new\n").unwrap();
        assert_eq!(all["a.md"], "before\n<!-- made: x -->\n\nnew\n\n<!-- end -->\nafter\n");
        let error = replace_part(&mut all, "a.md", "y", "").unwrap_err().to_string();
        assert_eq!(error, "a.md has no part between '<!-- made: y -->' and an end");
        assert_eq!(replace_part(&mut all, "b.md", "x", "").unwrap_err().to_string(), "b.md is not there");
    }
}
