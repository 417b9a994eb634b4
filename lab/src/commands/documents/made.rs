//! Generated parts of documents: their sources are code, scenarios, data, and cargo's metadata.
//!
//! A maker replaces its part in the texts; a part that is not found is an error. [`stale`] returns the texts that then differ
//! from the files.

use super::{Texts, attacks, benchmarks, counts, gathered, licences, options, pictures, reference, scenario};
use anyhow::{Context, Result};
use xtask::project::{Project, write_whole};

type Maker = fn(&Project, &mut Texts) -> Result<()>;

const MAKERS: [Maker; 8] = [
    attacks::make,
    pictures::make,
    options::make,
    reference::make,
    licences::make,
    benchmarks::make,
    counts::make,
    scenario::make,
];

/// New texts of the documents that are out of date.
pub(super) fn stale(project: &Project) -> Result<Texts> {
    let texts = gathered(project)?;
    let mut made = texts.clone();
    MAKERS.iter().try_for_each(|make| make(project, &mut made))?;
    made.retain(|path, text| texts.get(path) != Some(text));
    Ok(made)
}

/// Rewrites the documents that are out of date; returns their names.
///
/// # Errors
/// A source that cannot be read, a part that is not found, or a file that cannot be written.
pub(in crate::commands) fn redraw(project: &Project) -> Result<Vec<String>> {
    let stale = stale(project)?;
    stale.iter().try_for_each(|(path, text)| write_whole(&project.path(path), text.as_bytes()))?;
    Ok(stale.into_keys().collect())
}

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
    use super::super::texts;
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
