//! Samples how long a running QEMU waits for a processor of the build machine.
//!
//! Linux counts for each thread the time on a processor and the time on a run queue, both in nanoseconds: the first two fields of
//! `/proc/PID/task/TID/schedstat`. Between two samples the thread counts that waited the longest, so QEMU never waits for more
//! than the time that passed. Threads of the simulator's controllers, which run in this process, count as QEMU's.
//!
//! `/proc/stat` has the time that all processors were busy, so the rest of that is what others had.
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
pub const MODEL_THREAD: &str = "nvme-model";

/// Unit of the times in `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

/// The samples of a QEMU so far.
pub struct Waits {
    /// Folder of QEMU's threads.
    threads: PathBuf,
    /// Counts of each thread of QEMU and of this process at the last sample.
    known: BTreeMap<PathBuf, Counts>,
    /// Processor time that all processes had before the first sample, and of QEMU and this process since then.
    before: Duration,
    own: Duration,
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
    pub fn of(id: u32) -> Self {
        let known = counted(tasks("/proc/self/task")).collect();
        let before = all_busy().unwrap_or_default();
        let (own, samples) = (Duration::ZERO, Vec::new());
        Self { threads: format!("/proc/{id}/task").into(), known, before, own, samples }
    }

    /// Takes a sample at `age` after QEMU's start, unless the last one is fresh.
    pub fn sample(&mut self, age: Duration) {
        let last = self.samples.last().copied().unwrap_or_default();
        if age.saturating_sub(last.age) < EVERY {
            return;
        }
        let qemus: BTreeMap<_, _> = counted(tasks(&self.threads)).collect();
        // It has ended, or nothing counts here.
        let (Some(ran), Some(busy)) = (qemus.values().map(|counts| counts.ran).max(), all_busy()) else { return };
        let now: BTreeMap<_, _> = counted(tasks("/proc/self/task")).chain(qemus.clone()).collect();
        let before = |thread: &PathBuf| self.known.get(thread).copied().unwrap_or_default();
        let more_ran = |(thread, counts): (&PathBuf, &Counts)| counts.ran.saturating_sub(before(thread).ran);
        self.own += now.iter().map(more_ran).sum::<Duration>();
        let counts = |thread: &Path| qemus.contains_key(thread) || is_models(thread);
        let more_waited = |(thread, counts): (&PathBuf, &Counts)| counts.waited.saturating_sub(before(thread).waited);
        let waited = now.iter().filter(|(thread, _)| counts(thread)).map(more_waited).max().unwrap_or_default();
        let waited = last.waited + waited.min(age.saturating_sub(last.age));
        let others = busy.saturating_sub(self.before).saturating_sub(self.own).max(last.others);
        self.samples.push(Sample { age, waited, others, ran });
        self.known = now;
    }

    /// The samples.
    pub fn end(self) -> Vec<Sample> {
        self.samples
    }
}

/// Folders of threads; a process that has ended has none.
fn tasks(folder: impl AsRef<Path>) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().filter_map(|task| Some(task.ok()?.path()))
}

fn is_models(task: &Path) -> bool {
    fs::read_to_string(task.join("comm")).is_ok_and(|name| name.trim_end() == MODEL_THREAD)
}

/// The counts of those threads that have not ended meanwhile.
fn counted(tasks: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = (PathBuf, Counts)> {
    tasks
        .filter_map(|task| Some((of_thread(&fs::read_to_string(task.join("schedstat")).ok()?)?, task)))
        .map(|(counts, task)| (task, counts))
}

fn of_thread(text: &str) -> Option<Counts> {
    let mut numbers = text.split_ascii_whitespace().map(|number| number.parse().map(Duration::from_nanos));
    Some(Counts { ran: numbers.next()?.ok()?, waited: numbers.next()?.ok()? })
}

/// Time that all processors were busy since the system's start.
fn all_busy() -> Option<Duration> {
    busy(&fs::read_to_string("/proc/stat").ok()?)
}

/// The first line is the sum of all processors: user, nice, system, idle, waiting for I/O, interrupts, soft interrupts, stolen.
fn busy(stat: &str) -> Option<Duration> {
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace();
    let numbers: Vec<u64> = numbers.map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [user, nice, system, _, _, interrupts, soft, stolen, ..] = *numbers else { return None };
    Some([user, nice, system, interrupts, soft, stolen].into_iter().map(ticks_long).sum())
}

/// The time of so many ticks of `/proc/stat`.
fn ticks_long(ticks: u64) -> Duration {
    Duration::from_millis(ticks.saturating_mul(TICK.as_millis() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn counts_are_the_first_two_fields() {
        let counts = Counts { ran: Duration::from_nanos(5), waited: Duration::from_nanos(7) };
        assert_eq!(of_thread("5 7 9\n"), Some(counts));
        assert_eq!((of_thread("5"), of_thread("a b")), (None, None));
    }

    #[test]
    fn a_processor_is_busy_when_it_neither_is_idle_nor_waits_for_a_disk() {
        assert_eq!(busy("cpu  1 2 4 1000 1000 8 16 32 9 9\ncpu0 1\n"), Some(TICK * 63));
        assert_eq!((busy("cpu  1 2 4"), busy("intr 5"), busy("")), (None, None, None));
        assert!(all_busy().is_some());
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
        let models = tasks("/proc/self/task").filter(|task| is_models(task)).count();
        end.send(()).unwrap();
        thread.unwrap().join().unwrap();
        assert_eq!(models, 1);
    }
}
