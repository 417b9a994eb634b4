//! Runs tests, keeps their results, and reports them.

use super::case::TestCase;
use crate::commands::counted::Counted;
use crate::out;
use crate::parallel;
use crate::progress::Step;
use anyhow::Result;
use quick_junit::{NonSuccessKind, Report, TestCase as JunitCase, TestCaseStatus, TestSuite};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use std::{iter, thread};

/// Number of tests whose time is reported at the end, at most.
const SLOWEST: usize = 10;

/// Tests so far, in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<Vec<Ended>>);

/// A test that ended.
#[derive(Debug)]
struct Ended {
    name: String,
    counted: Counted,
    took: Duration,
}

impl Tally {
    /// Runs one test and prints its result.
    pub(super) fn run(&self, case: &TestCase, test: impl FnOnce() -> Result<Counted>) -> Result<()> {
        self.add(timed(case, test))
    }

    /// Runs tests one after the other, by a thread that leaves the processors to `meanwhile`. Once that is over, the rest of them
    /// run two at a time.
    pub(super) fn run_beside(
        &self,
        patient: Vec<TestCase>,
        test: impl Fn(&TestCase) -> Result<Counted> + Sync,
        meanwhile: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let left = Mutex::new(VecDeque::from(patient));
        let next = || left.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        thread::scope(|scope| {
            let beside = scope.spawn(|| {
                parallel::give_way();
                iter::from_fn(next).try_for_each(|case| self.run(&case, || test(&case)))
            });
            let done = meanwhile();
            let rest = iter::from_fn(next).collect();
            done?;
            self.run_pairs(rest, &test)?;
            beside.join().unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Runs tests two at a time, one from either end of the list.
    pub(super) fn run_pairs(
        &self,
        cases: Vec<TestCase>,
        test: impl Fn(&TestCase) -> Result<Counted> + Sync,
    ) -> Result<()> {
        let mut printed = Ok(());
        let work = |case: TestCase| timed(&case, || test(&case));
        parallel::from_both_ends(cases, work, |ended| {
            let added = self.add(ended);
            printed = std::mem::replace(&mut printed, Ok(())).and(added);
        });
        printed
    }

    /// The same for tests of times, which the other one of the pair may disturb: those that failed run again, each alone, unless the
    /// failure is certain.
    pub(super) fn run_quiet_pairs(
        &self,
        cases: Vec<TestCase>,
        test: impl Fn(&TestCase) -> Result<Counted> + Sync,
    ) -> Result<()> {
        let mut printed = Ok(());
        let mut again = Vec::new();
        let work = |case: TestCase| (timed(&case, || test(&case)), case);
        parallel::from_both_ends(cases, work, |(ended, case)| {
            if !ended.counted.failed.is_empty() && !ended.counted.is_certain {
                again.push((ended, case));
                return;
            }
            let added = self.add(ended);
            printed = std::mem::replace(&mut printed, Ok(())).and(added);
        });
        printed?;
        again.into_iter().try_for_each(|(first, case)| {
            let mut ended = timed(&case, || test(&case));
            ended.took += first.took;
            ended.counted.repeated = Some(first.counted.failed.join("; "));
            self.add(ended)
        })
    }

    fn add(&self, ended: Ended) -> Result<()> {
        // The lines of one test stay together.
        let mut all = self.all();
        let Ended { name, counted, took } = &ended;
        let mark = match counted {
            Counted { failed, .. } if !failed.is_empty() => "FAIL ",
            Counted { skipped: Some(_), .. } => "skip ",
            _ => "ok   ",
        };
        out::line(format_args!("{mark} {name} ({:.1} s)", took.as_secs_f64()))?;
        counted.failed.iter().try_for_each(|reason| out::line(format_args!("      {reason}")))?;
        all.push(ended);
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no test failed.
    pub(super) fn passed(&self) -> bool {
        self.all().iter().all(|ended| ended.counted.failed.is_empty())
    }

    /// Prints the repeated tests, the slowest ones, the failures, and the sums.
    pub(super) fn report(&self) -> Result<()> {
        let all = self.all();
        for Ended { name, counted, .. } in &*all {
            let passed = counted.repeated.iter().filter(|_| counted.failed.is_empty());
            passed
                .into_iter()
                .try_for_each(|missed| out::line(format_args!("passed when run once more: {name}: {missed}")))?;
        }
        if all.len() > SLOWEST {
            out::line(format_args!("the slowest:"))?;
            slowest(&all).try_for_each(|Ended { name, took, .. }| {
                out::line(format_args!("{:7.1} s  {name}", took.as_secs_f64()))
            })?;
        }
        for Ended { name, counted, .. } in &*all {
            counted.failed.iter().try_for_each(|reason| out::line(format_args!("failed: {name}: {reason}")))?;
        }
        let mut skipped: Vec<_> = all.iter().filter_map(|ended| ended.counted.skipped.as_deref()).collect();
        let count = skipped.len();
        skipped.dedup();
        skipped.iter().try_for_each(|reason| out::line(format_args!("skipped: {reason}")))?;
        let passed: u64 = all.iter().map(|ended| ended.counted.passed).sum();
        let failed: usize = all.iter().map(|ended| ended.counted.failed.len()).sum();
        let skipped = if count > 0 { format!(", {count} skipped") } else { String::new() };
        out::line(format_args!("{passed} passed, {failed} failed{skipped}"))
    }

    /// The tests as JUnit's XML, a test case for each.
    pub(super) fn junit(&self) -> Result<String> {
        let mut suite = TestSuite::new("cargo xtask test");
        for Ended { name, counted, took } in self.all().iter() {
            let status = if counted.skipped.is_some() {
                TestCaseStatus::skipped()
            } else if counted.failed.is_empty() {
                TestCaseStatus::success()
            } else {
                let mut failure = TestCaseStatus::non_success(NonSuccessKind::Failure);
                failure.set_message(counted.failed.join("\n"));
                failure
            };
            let mut case = JunitCase::new(name.as_str(), status);
            case.set_time(*took);
            suite.add_test_case(case);
        }
        let mut report = Report::new("capnvme");
        report.add_test_suite(suite);
        Ok(report.to_string()?)
    }
}

fn slowest(all: &[Ended]) -> impl Iterator<Item = &Ended> {
    let mut all: Vec<_> = all.iter().collect();
    all.sort_by_key(|ended| std::cmp::Reverse(ended.took));
    all.into_iter().take(SLOWEST)
}

/// Runs a test; a test that returns an error fails.
fn timed(case: &TestCase, test: impl FnOnce() -> Result<Counted>) -> Ended {
    let (name, since) = (case.to_string(), Instant::now());
    let _step = Step::new(name.clone());
    let counted = test().unwrap_or_else(|error| Counted { failed: vec![format!("{error:#}")], ..Counted::default() });
    Ended { name, counted, took: since.elapsed() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{anyhow, ensure};
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    fn tally() -> Tally {
        let tally = Tally::default();
        tally.run(&TestCase::Soak, || Ok(Counted::one())).unwrap();
        tally.run(&TestCase::Smmu, || Err(anyhow!("1 < 2").context("no QEMU"))).unwrap();
        tally
    }

    #[test]
    fn a_test_that_cannot_be_run_fails_with_its_reason() {
        let tally = tally();
        assert!(!tally.passed());
        assert_eq!(tally.all()[1].counted.failed, ["no QEMU: 1 < 2"]);
    }

    #[test]
    fn pairs_run_every_case_once() {
        let tally = Tally::default();
        let cases = (0..20).map(|i| TestCase::Found(i.to_string())).collect();
        let fails = |case: &TestCase| {
            ensure!(case.to_string() != "found: 7", "it is the seventh");
            Ok(Counted::one())
        };
        tally.run_pairs(cases, fails).unwrap();
        let mut names: Vec<_> = tally.all().iter().map(|ended| ended.name.clone()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 20);
        assert_eq!(tally.all().iter().map(|ended| ended.counted.passed).sum::<u64>(), 19);
        assert_eq!(slowest(&tally.all()).count(), SLOWEST);
    }

    #[test]
    fn patient_tests_run_beside_others_and_leave_the_processors_to_them() {
        let policy = || thread_priority::thread_schedule_policy().unwrap();
        let usual = policy();
        let (begun, begins) = std::sync::mpsc::channel();
        let (finished, is_over) = std::sync::mpsc::channel::<()>();
        let is_over = Mutex::new(is_over);
        let patient = (0..9).map(|i| TestCase::Found(i.to_string())).collect();
        let test = |case: &TestCase| {
            if case.to_string() == "found: 0" {
                begun.send(policy()).unwrap();
                is_over.lock().unwrap().recv().unwrap();
            }
            Ok(Counted::one())
        };
        let tally = Tally::default();
        let mut patient_policy = None;
        let meanwhile = || {
            patient_policy = begins.recv().ok();
            finished.send(()).unwrap();
            tally.run(&TestCase::Soak, || Ok(Counted::one()))
        };
        tally.run_beside(patient, test, meanwhile).unwrap();
        assert_eq!(tally.all().len(), 10);
        assert!(patient_policy.is_some_and(|policy| policy != usual));
        assert_eq!(policy(), usual);
    }

    #[test]
    fn a_quiet_test_that_fails_beside_another_runs_again_alone() {
        let runs = std::sync::Mutex::new(std::collections::BTreeMap::<String, u32>::new());
        let cases = ["steady", "disturbed", "wrong", "certain"].map(|name| TestCase::Found(name.into())).into();
        let test = |case: &TestCase| {
            let name = case.to_string();
            let mut runs = runs.lock().unwrap();
            let run = runs.entry(name.clone()).and_modify(|run| *run += 1).or_insert(1);
            if name == "found: certain" {
                return Ok(Counted { failed: vec!["a wrong byte".into()], is_certain: true, ..Counted::default() });
            }
            ensure!(name == "found: steady" || (name == "found: disturbed" && *run == 2), "slow in run {run}");
            Ok(Counted::one())
        };
        let tally = Tally::default();
        let running = AtomicU32::new(0);
        let watched = |case: &TestCase| {
            let others = running.fetch_add(1, SeqCst);
            let ended = test(case);
            running.fetch_sub(1, SeqCst);
            let is_repeated = runs.lock().unwrap()[&case.to_string()] == 2;
            assert!(!is_repeated || others == 0, "it runs again alone");
            ended
        };
        tally.run_quiet_pairs(cases, watched).unwrap();
        let all = tally.all();
        let of = |name: &str| &all.iter().find(|ended| ended.name == format!("found: {name}")).unwrap().counted;
        assert_eq!((of("steady").passed, &of("steady").repeated), (1, &None));
        assert_eq!((of("disturbed").passed, of("disturbed").repeated.as_deref()), (1, Some("slow in run 1")));
        assert_eq!((of("wrong").passed, &of("wrong").failed), (0, &vec!["slow in run 2".to_owned()]));
        assert_eq!((of("certain").passed, &of("certain").failed), (0, &vec!["a wrong byte".to_owned()]));
        assert_eq!((of("certain").repeated.as_ref(), runs.lock().unwrap()["found: certain"]), (None, 1));
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn junit_has_a_case_for_each_test_with_its_reason() {
        let xml = tally().junit().unwrap();
        assert!(xml.contains("tests=\"2\"") && xml.contains("failures=\"1\""), "{xml}");
        assert!(xml.contains("no QEMU: 1 &lt; 2"), "{xml}");
    }
}
