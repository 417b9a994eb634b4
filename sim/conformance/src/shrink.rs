//! Shortens a sequence whose journals differ, as long as they still differ.
//!
//! Calls are removed in pieces, large ones first, and many candidates are tried at once, because starting the kernel costs
//! more than a sequence. A call that is removed leaves [`Op::Nothing`], so that the others keep their numbers.

use crate::answer::Entry;
use crate::compare::{Difference, difference};
use crate::model;
use crate::op::Op;
use crate::script::Script;

/// A way to make sequences on the kernel: a journal for each, in their order, as far as it came.
pub type Play<'a, E> = &'a mut dyn FnMut(&[Script]) -> Result<Vec<Vec<Entry>>, E>;

/// Makes `script` shorter while its journals differ. Returns the shorter sequence and its difference; `None` when the
/// journals of `script` itself do not differ.
///
/// # Errors
/// Those of `kernel`.
pub fn shrink<E>(script: &Script, kernel: Play<'_, E>) -> Result<Option<(Script, Difference)>, E> {
    let Some(found) = differing(core::slice::from_ref(script), kernel)?.pop() else { return Ok(None) };
    let mut best = (script.clone(), found.1);
    let mut piece = script.calls().div_ceil(2);
    while piece > 0 {
        let candidates: Vec<Script> = pieces(&best.0, piece).collect();
        let shorter = differing(&candidates, kernel)?;
        let removable: Vec<&Script> = shorter.iter().filter_map(|(index, _)| candidates.get(*index)).collect();
        let together = common(&best.0, &removable);
        if let Some((_, reported)) = differing(core::slice::from_ref(&together), kernel)?.pop() {
            best = (together, reported);
        } else if let Some((index, reported)) = shorter.into_iter().next()
            && let Some(candidate) = candidates.get(index)
        {
            best = (candidate.clone(), reported);
            // There may be more of this size.
            continue;
        }
        piece /= 2;
    }
    Ok(Some(best))
}

/// The indices of `scripts` whose journals differ, with the first difference.
fn differing<E>(scripts: &[Script], kernel: Play<'_, E>) -> Result<Vec<(usize, Difference)>, E> {
    // Skip sequences that get stuck on the model: they would get stuck on the kernel as well, and keep the others from running.
    let models = scripts.iter().enumerate().filter_map(|(index, script)| Some((index, model::run(script).ok()?)));
    let models: Vec<_> = models.collect();
    let tried: Vec<Script> = models.iter().filter_map(|(index, _)| scripts.get(*index).cloned()).collect();
    let journals = if tried.is_empty() { Vec::new() } else { kernel(&tried)? };
    let differences = models.into_iter().zip(&tried).zip(journals);
    Ok(differences
        .filter_map(|(((index, model), script), journal)| Some((index, difference(script, &model, &journal)?)))
        .collect())
}

/// The places of all calls.
fn calls(script: &Script) -> Vec<(usize, usize)> {
    let threads = script.threads.iter().enumerate();
    let places = threads.flat_map(|(thread, calls)| {
        let full = calls.iter().enumerate().filter(|(_, op)| **op != Op::Nothing);
        full.map(move |(index, _)| (thread, index))
    });
    places.collect()
}

/// `script` without each `piece` of its calls.
fn pieces(script: &Script, piece: usize) -> impl Iterator<Item = Script> {
    let places = calls(script);
    let pieces: Vec<Vec<_>> = places.chunks(piece).map(<[_]>::to_vec).collect();
    pieces.into_iter().map(|piece| without(script, &piece))
}

fn without(script: &Script, places: &[(usize, usize)]) -> Script {
    let mut shorter = script.clone();
    for (thread, index) in places {
        if let Some(op) = shorter.threads.get_mut(*thread).and_then(|calls| calls.get_mut(*index)) {
            *op = Op::Nothing;
        }
    }
    shorter
}

/// The calls of `script` that all `shorter` ones have.
fn common(script: &Script, shorter: &[&Script]) -> Script {
    let kept = |script: &Script| calls(script);
    let lost: Vec<_> =
        calls(script).into_iter().filter(|place| shorter.iter().any(|one| !kept(one).contains(place))).collect();
    without(script, &lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use crate::generate;

    /// A kernel that is the model with one defect: it refuses to delete slot 13.
    fn defective(scripts: &[Script]) -> Result<Vec<Vec<Entry>>, ()> {
        let journal = |script: &Script| {
            let mut journal = model::run(script).map_err(|_| ())?;
            for entry in &mut journal {
                if script.threads[0].get(usize::from(entry.index)) == Some(&crate::script::delete(13)) {
                    entry.answer = Answer::Refused(platform::Error::DeleteFirst);
                }
            }
            Ok(journal)
        };
        scripts.iter().map(journal).collect()
    }

    #[test]
    fn what_differs_is_cut_down_to_the_call_that_matters() {
        let mut script = generate::script(6);
        script.threads[0].insert(30, crate::script::delete(13));
        let (short, reported) = shrink(&script, &mut defective).unwrap().unwrap();
        assert_eq!(short.calls(), 1, "{:?}", short.threads);
        assert!(reported.to_string().contains("the kernel error 8 DeleteFirst"), "{reported}");
    }

    #[test]
    fn what_does_not_differ_is_left_alone() {
        assert!(
            shrink(&generate::script(6), &mut |scripts| Ok::<_, ()>(
                scripts.iter().map(|s| model::run(s).unwrap()).collect()
            ))
            .unwrap()
            .is_none()
        );
    }
}
