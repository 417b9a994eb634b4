//! Samples how long a running QEMU waits for a processor of the build machine.
//!
//! Linux counts for each thread the time on a processor and the time on a run queue, both in nanoseconds: the first two fields of
//! `/proc/PID/task/TID/schedstat`. Between two samples the thread counts that waited the longest, so QEMU never waits for more
//! than the time that passed. Threads of the simulator's controllers, which run in this process, count as QEMU's.
//!
//! Left out: time that a hypervisor below the build machine takes from it. A system without these counts gives no samples.

use crate::records::lateness::Sample;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two samples, at least.
pub(crate) const EVERY: Duration = Duration::from_millis(50);

/// Name of the threads that serve a simulator's controller to QEMU, at most 15 bytes.
pub(crate) const MODEL_THREAD: &str = "nvme-model";

/// The samples of a QEMU so far.
pub(crate) struct Waits {
    /// Folder of QEMU's threads.
    threads: PathBuf,
    /// Counts of each thread at the last sample.
    known: BTreeMap<PathBuf, Counts>,
    samples: Vec<Sample>,
}

/// Counts of one thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Counts {
    ran: Duration,
    waited: Duration,
}

impl Waits {
    /// Begins with the QEMU that is process `id`.
    pub(crate) fn of(id: u32) -> Self {
        Self { threads: format!("/proc/{id}/task").into(), known: BTreeMap::new(), samples: Vec::new() }
    }

    /// Takes a sample at `age` after QEMU's start, unless the last one is fresh.
    pub(crate) fn sample(&mut self, age: Duration) {
        let last = self.samples.last().copied().unwrap_or_default();
        if age.saturating_sub(last.age) < EVERY {
            return;
        }
        let models = tasks("/proc/self/task".into()).into_iter().filter(|task| is_models(task));
        let qemus: Vec<_> = counted(tasks(self.threads.clone()));
        // It has ended, or nothing counts here.
        let Some(ran) = qemus.iter().map(|(_, counts)| counts.ran).max() else { return };
        let now: BTreeMap<_, _> = qemus.into_iter().chain(counted(models.collect())).collect();
        let waited = |(thread, counts): (&PathBuf, &Counts)| {
            let before = self.known.get(thread).copied().unwrap_or_default();
            counts.waited.saturating_sub(before.waited)
        };
        let waited = now.iter().map(waited).max().unwrap_or_default().min(age.saturating_sub(last.age));
        self.samples.push(Sample { age, waited: last.waited + waited, ran });
        self.known = now;
    }

    /// The samples.
    pub(crate) fn end(self) -> Vec<Sample> {
        self.samples
    }
}

/// Folders of threads; a process that has ended has none.
fn tasks(folder: PathBuf) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|task| Some(task.ok()?.path())).collect()
}

fn is_models(task: &Path) -> bool {
    fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == MODEL_THREAD)
}

/// The counts of those threads that have not ended meanwhile.
fn counted(tasks: Vec<PathBuf>) -> Vec<(PathBuf, Counts)> {
    let counts = |task: PathBuf| Some((parse(&fs::read_to_string(task.join("schedstat")).ok()?)?, task));
    tasks.into_iter().filter_map(counts).map(|(counts, task)| (task, counts)).collect()
}

fn parse(text: &str) -> Option<Counts> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().map(Duration::from_nanos));
    Some(Counts { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn counts_are_the_first_two_fields() {
        let counts = Counts { ran: Duration::from_nanos(5), waited: Duration::from_nanos(7) };
        assert_eq!(parse("5 7 9\n"), Some(counts));
        assert_eq!((parse("5"), parse("a b")), (None, None));
    }

    #[test]
    fn a_busy_process_is_seen_to_run_and_one_that_ended_is_not_sampled() {
        let since = Instant::now();
        let mut waits = Waits::of(std::process::id());
        waits.sample(Duration::ZERO);
        while since.elapsed() < EVERY * 2 {
            thread::yield_now();
        }
        waits.sample(since.elapsed());
        waits.sample(since.elapsed());
        let [sample] = waits.end().try_into().unwrap();
        assert!(sample.ran > Duration::ZERO && sample.waited <= sample.age, "{sample:?}");
        let mut ended = Waits::of(u32::MAX);
        ended.sample(EVERY);
        assert_eq!(ended.end(), []);
    }

    #[test]
    fn a_thread_of_a_model_is_known_by_its_name() {
        let named = thread::Builder::new().name(MODEL_THREAD.into());
        let (begun, begins) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let thread = named.spawn(move || {
            begun.send(()).unwrap();
            ended.recv().unwrap();
        });
        begins.recv().unwrap();
        let models = tasks("/proc/self/task".into()).into_iter().filter(|task| is_models(task)).count();
        end.send(()).unwrap();
        thread.unwrap().join().unwrap();
        assert_eq!(models, 1);
    }
}
