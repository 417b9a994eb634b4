//! Comparison of two journals of one sequence.

use crate::answer::Entry;
use crate::op::Op;
use crate::script::Script;
use core::fmt;

/// The first place where two journals of a sequence differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Difference {
    /// The sequence.
    pub script: String,
    /// The model's entry there, with its call; `None` at its end.
    pub model: Option<(Entry, Op)>,
    /// The kernel's entry there.
    pub kernel: Option<(Entry, Op)>,
}

/// The first difference between the journals of `script`, if there is one.
#[must_use]
pub fn difference(script: &Script, model: &[Entry], kernel: &[Entry]) -> Option<Difference> {
    let longest = model.len().max(kernel.len());
    let at = (0..longest).find(|at| model.get(*at) != kernel.get(*at))?;
    let with_call = |entry: &Entry| {
        let calls = script.threads.get(usize::from(entry.thread));
        let op = calls.and_then(|calls| calls.get(usize::from(entry.index))).copied().unwrap_or(Op::Nothing);
        (*entry, op)
    };
    Some(Difference {
        script: script.name.clone(),
        model: model.get(at).map(with_call),
        kernel: kernel.get(at).map(with_call),
    })
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { script, model, kernel } = self;
        write!(f, "{script}: ")?;
        match (model, kernel) {
            (Some((model, op)), Some((kernel, _))) if (model.thread, model.index) == (kernel.thread, kernel.index) => {
                write!(f, "thread {} call {} {op:?}: ", model.thread, model.index)?;
                write!(f, "the model says {}, the kernel {}", model.answer, kernel.answer)
            }
            (model, kernel) => {
                write!(f, "the model goes on with ")?;
                went_on(f, model.as_ref())?;
                write!(f, ", the kernel with ")?;
                went_on(f, kernel.as_ref())
            }
        }
    }
}

fn went_on(f: &mut fmt::Formatter<'_>, with: Option<&(Entry, Op)>) -> fmt::Result {
    match with {
        Some((Entry { thread, index, answer }, op)) => write!(f, "thread {thread} call {index} {op:?} -> {answer}"),
        None => f.write_str("nothing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use crate::script::{Topic, delete};

    #[test]
    fn the_first_difference_is_reported_with_its_call() {
        let mut script = Script::new(Topic::CNode, "two");
        script.then(delete(20)).then(delete(21));
        let entry = |index, answer| Entry { thread: 0, index, answer };
        let model = [entry(0, Answer::Done), entry(1, Answer::Done)];
        let kernel = [entry(0, Answer::Done), entry(1, Answer::Refused(platform::Error::RevokeFirst))];
        assert_eq!(difference(&script, &model, &model), None);
        let reported = difference(&script, &model, &kernel).unwrap().to_string();
        assert!(reported.contains("call 1 Delete") && reported.contains("error 9 RevokeFirst"), "{reported}");
        let reported = difference(&script, &model, &kernel[..1]).unwrap().to_string();
        assert!(reported.ends_with("the kernel with nothing"), "{reported}");
    }
}
