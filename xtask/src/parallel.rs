//! Work on many items, several at a time.

use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

/// Calls `work` for each item, `jobs` at a time; without `jobs`, as many as there are processors. Calls `done` on this thread with
/// each result, in the order in which they finish.
pub(crate) fn each<I, R>(items: I, jobs: Option<NonZeroUsize>, work: impl Fn(I::Item) -> R + Sync, done: impl FnMut(R))
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let left = Mutex::new(items.into_iter());
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs {
            let (sender, left, work) = (sender.clone(), &left, &work);
            scope.spawn(move || {
                let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(item) = next() {
                    // The receiver lives until all senders are dropped.
                    let _ = sender.send(work(item));
                }
            });
        }
        drop(sender);
        finished.into_iter().for_each(done);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once_whatever_the_jobs() {
        for jobs in [1, 2, 30] {
            let mut squares = Vec::new();
            each(0..20_u32, NonZeroUsize::new(jobs), |item| item * item, |square| squares.push(square));
            squares.sort_unstable();
            assert_eq!(squares, (0..20).map(|item| item * item).collect::<Vec<_>>());
        }
    }

    #[test]
    fn two_items_are_worked_on_at_a_time() {
        let both = std::sync::Barrier::new(2);
        // With one thread this would wait for ever.
        each(0..2, NonZeroUsize::new(2), |_| both.wait(), |_| {});
    }
}
