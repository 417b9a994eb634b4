//! Work on many items, several at a time.

use anyhow::Result;
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use thread_priority::{
    NormalThreadSchedulePolicy, ThreadPriority, ThreadSchedulePolicy, set_thread_priority_and_policy, thread_native_id,
};

/// Calls `work` for each item, `jobs` at a time; without `jobs`, as many as there are processors. Calls `done` on this thread with
/// each result, in the order in which they finish.
pub(crate) fn each<I, R>(items: I, jobs: Option<NonZeroUsize>, work: impl Fn(I::Item) -> R + Sync, done: impl FnMut(R))
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    let jobs = jobs.or_else(|| thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    spread(items.into_iter(), vec![I::IntoIter::next; jobs], work, done);
}

/// Does so up to the first failure of `done`, and returns that; items that are worked on then are finished.
pub(crate) fn try_each<I, R>(
    items: I,
    jobs: Option<NonZeroUsize>,
    work: impl Fn(I::Item) -> R + Sync,
    mut done: impl FnMut(R) -> Result<()>,
) -> Result<()>
where
    I: IntoIterator<IntoIter: Send>,
    R: Send,
{
    let (is_over, mut first) = (AtomicBool::new(false), Ok(()));
    let items = items.into_iter().take_while(|_| !is_over.load(Ordering::Relaxed));
    each(items, jobs, work, |result| {
        if first.is_ok() {
            first = done(result);
            is_over.store(first.is_err(), Ordering::Relaxed);
        }
    });
    first
}

/// Calls `work` for each item, two at a time: one from the front of the items, one from the back.
pub(crate) fn from_both_ends<I: Send, R: Send>(items: Vec<I>, work: impl Fn(I) -> R + Sync, done: impl FnMut(R)) {
    spread(VecDeque::from(items), vec![VecDeque::pop_front, VecDeque::pop_back], work, done);
}

/// Leaves the processors to others from now on, in this thread and all threads and processes that it starts: Linux wakes others where
/// these run as if nothing ran there. Where the system does not allow it, it runs as others do.
pub(crate) fn give_way() {
    let idle = ThreadSchedulePolicy::Normal(NormalThreadSchedulePolicy::Idle);
    let _ = set_thread_priority_and_policy(thread_native_id(), ThreadPriority::Min, idle);
}

/// A thread for each way to take an item.
fn spread<S: Send, I, R: Send>(
    items: S,
    takes: Vec<fn(&mut S) -> Option<I>>,
    work: impl Fn(I) -> R + Sync,
    done: impl FnMut(R),
) {
    let left = Mutex::new(items);
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for take in takes {
            let (sender, left, work) = (sender.clone(), &left, &work);
            scope.spawn(move || {
                let next = || take(&mut left.lock().unwrap_or_else(PoisonError::into_inner));
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
    fn nothing_is_begun_after_a_failure() {
        let mut seen = Vec::new();
        let failed = try_each(
            0..,
            NonZeroUsize::new(2),
            |item: u64| item,
            |item| {
                seen.push(item);
                anyhow::ensure!(seen.len() < 3, "full");
                Ok(())
            },
        );
        assert_eq!((failed.unwrap_err().to_string(), seen.len()), ("full".into(), 3));
    }

    #[test]
    fn every_item_is_taken_once_from_either_end() {
        let both = std::sync::Barrier::new(2);
        let mut taken = Vec::new();
        // Each waits for another, so the two threads take them pair by pair.
        let work = |item| {
            both.wait();
            item
        };
        from_both_ends((0..6).collect(), work, |item: u32| taken.push(item));
        let mut pairs: Vec<_> = taken.chunks(2).map(|pair| pair.iter().sum::<u32>()).collect();
        pairs.dedup();
        assert_eq!((taken.len(), pairs), (6, vec![5]));
    }

    #[test]
    fn two_items_are_worked_on_at_a_time() {
        let both = std::sync::Barrier::new(2);
        // With one thread this would wait for ever.
        each(0..2, NonZeroUsize::new(2), |_| both.wait(), |_| {});
    }
}
