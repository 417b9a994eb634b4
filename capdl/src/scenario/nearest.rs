//! The word that a misspelt one was to be.

use strsim::damerau_levenshtein;

/// The one of `known` that `word` is nearest to, if the two differ by a third of their letters at most.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.into_iter().map(|one| (damerau_levenshtein(word, one), one));
    let (distance, one) = distances.min()?;
    (distance * 3 <= word.chars().count().max(one.chars().count())).then_some(one)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn word_with_few_wrong_letters_is_recognized() {
        let known = ["depth", "demo", "queue_pairs", "seed"];
        for (word, expected) in [
            ("dpeth", Some("depth")),
            ("dmeo", Some("demo")),
            ("queue_pair", Some("queue_pairs")),
            ("queuepairs", Some("queue_pairs")),
            ("colour", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest("demo", []), None);
    }
}
