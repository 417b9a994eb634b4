use super::*;
use crate::schema::tests as schema;
use std::io::Write as _;

/// A small scenario of two tenants.
const SCENARIO: &str = r#"
name = "small"
description = "Two tenants."

[[controller]]
name = "disk"
iops_limit = 20000

[[controller.namespace]]
size = "1M"

[[tenant]]
name = "alice"
queue_pairs = 1
depth = 8
extents = [{ first = 0, blocks = 1024 }]
program.name = "bench"

[tenant.program.config]
operations = 40
depth = 4

[[tenant]]
name = "bob"
queue_pairs = 1
depth = 8
extents = [{ first = 1024, blocks = 1024 }]
program.name = "bench"

[tenant.program.config]
operations = 40
depth = 4

[expect]
latency_p99_us = { alice = 100000 }
"#;

struct Place {
    folder: tempfile::TempDir,
    project: Project,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("small.toml"), SCENARIO).unwrap();
        let project = Project::at(folder.path());
        Self { folder, project }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// The lines of a file, sorted: runs finish in any order.
    fn lines(&self, name: &str) -> Vec<String> {
        let mut lines: Vec<_> = self.text(name).lines().map(str::to_owned).collect();
        lines.sort();
        lines
    }

    fn sweep(&self, out: &str) -> Sweep {
        Sweep {
            scenario: Some(self.path("small.toml").display().to_string()),
            set: vec!["tenant.bob.class=low".parse().unwrap()],
            vary: vec![
                "tenant.bob.program.config.depth=1,2,4,8".parse().unwrap(),
                "server.policy=paced,weighted".parse().unwrap(),
            ],
            plot: vec!["x=depth,y=p99".parse().unwrap(), "x=policy,y=iops".parse().unwrap()],
            runs: None,
            part: None,
            jobs: NonZeroUsize::new(2),
            out: Some(self.path(out)),
            json: None,
            resume: false,
            merge: Vec::new(),
        }
    }

    fn run(&self, sweep: &Sweep) -> Result<bool, String> {
        run(&self.project, sweep).map(|code| code == ExitCode::SUCCESS).map_err(|error| format!("{error:#}"))
    }
}

#[test]
fn sweep_in_parts_that_was_killed_has_the_results_of_a_whole_one() {
    let place = Place::new();
    assert_eq!(place.run(&place.sweep("whole")), Ok(true));
    let table = place.text("whole/sweep.csv");
    let heading = "run,tenant.bob.program.config.depth,server.policy,seed,tenant,iops,bytes_per_second,p50_ns,p99_ns,p999_ns,\
                   max_ns,errors,passed\n";
    assert!(table.starts_with(heading), "{table}");
    assert_eq!(table.lines().count(), 1 + 8 * 2, "{table}");
    assert!(
        table.lines().nth(16).is_some_and(|row| row.starts_with("7,8,weighted,1,bob,") && row.ends_with(",0,true")),
        "{table}"
    );
    let figure = place.text("whole/p99-over-depth.svg");
    for expected in ["alice", "bob", "policy=paced", "policy=weighted", "tenant.bob.program.config.depth", "99 of 100"]
    {
        assert!(figure.contains(expected), "no {expected} in {figure}");
    }
    assert!(place.text("whole/iops-over-policy.svg").contains("depth=8"));
    let page = place.text("whole/report.html");
    let cell = "<td class=\"number\">weighted</td>";
    assert!(page.contains("8 of 8 runs passed") && page.matches("<svg").count() == 2, "{page}");
    assert!(page.matches(cell).count() == 8 && !page.contains("did not pass"), "{page}");

    // Two parts, of which one is killed within a line, and then resumed.
    let part = |runs, out: &str| Sweep { runs: Some(runs), plot: Vec::new(), ..place.sweep(out) };
    assert_eq!(place.run(&part(0..3, "first")), Ok(true));
    assert_eq!(place.run(&part(3..8, "second")), Ok(true));
    let lines = place.text("second/runs.jsonl");
    let killed = lines.len() - 30;
    fs::write(place.path("second/runs.jsonl"), &lines[..killed]).unwrap();
    assert_eq!(place.run(&Sweep { resume: true, ..part(3..8, "second") }), Ok(true));
    assert_eq!(place.lines("second/runs.jsonl").len(), 5);
    schema::check("sweep", lines.lines());
    assert!(
        lines
            .contains(r#"{"key":"tenant.bob.program.config.depth","value":8},{"key":"server.policy","value":"paced"}"#)
    );
    assert_eq!(place.lines("second/runs.jsonl"), {
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    let merge = |files: &[&str], out: &str| Sweep {
        scenario: None,
        vary: Vec::new(),
        merge: files.iter().map(|file| place.path(file)).collect(),
        ..place.sweep(out)
    };
    assert_eq!(place.run(&merge(&["second/runs.jsonl", "first/runs.jsonl"], "merged")), Ok(true));
    // Merging is concatenation.
    fs::write(place.path("all.jsonl"), place.text("second/runs.jsonl") + &place.text("first/runs.jsonl")).unwrap();
    assert_eq!(place.run(&merge(&["all.jsonl"], "concatenated")), Ok(true));
    for file in ["sweep.csv", "p99-over-depth.svg", "iops-over-policy.svg"] {
        let whole = place.text(&format!("whole/{file}"));
        assert_eq!(place.text(&format!("merged/{file}")), whole, "{file}");
        assert_eq!(place.text(&format!("concatenated/{file}")), whole, "{file}");
    }
    // Runs that are missing are a failure.
    assert_eq!(place.run(&merge(&["first/runs.jsonl"], "incomplete")), Ok(false));
    fs::write(
        place.path("all.jsonl"),
        lines.lines().filter(|line| !line.contains("\"run\":4,")).collect::<Vec<_>>().join("\n") + "\n",
    )
    .unwrap();
    let records = lines::read::<Record>(&place.path("all.jsonl")).unwrap();
    let missing = missing(&records.into_iter().map(|record| (record.run, record)).collect());
    let command = "small.toml --set tenant.bob.class=low --vary tenant.bob.program.config.depth=1,2,4,8 --vary server.policy=paced,weighted";
    assert!(missing[0].starts_with("runs 0 to 2 are missing: make them with cargo xtask sweep "), "{missing:?}");
    assert!(missing[0].ends_with(&format!("{command} --runs 0..3 --json FILE")), "{missing:?}");
    assert!(missing[1].starts_with("run 4 is missing: make it with ") && missing.len() == 2, "{missing:?}");
}

#[test]
fn run_that_fails_is_a_row_and_fails_the_sweep() {
    let place = Place::new();
    let mut sweep = place.sweep("failing");
    sweep.vary = vec!["expect.latency_p99_us=\"\",{ alice = 1 },{ alice = 100000 }".parse().unwrap()];
    sweep.plot.clear();
    let refusal = place.run(&sweep).unwrap_err();
    assert!(refusal.contains("small.toml with --vary expect.latency_p99_us=\"\": "), "{refusal}");
    assert!(!place.path("failing").exists());
    sweep.vary = vec!["expect.latency_p99_us={ alice = 1 },{ alice = 100000 }".parse().unwrap()];
    assert_eq!(place.run(&sweep), Ok(false));
    let table = place.text("failing/sweep.csv");
    let passed: Vec<_> = table.lines().skip(1).map(|row| row.rsplit(',').next().unwrap_or_default()).collect();
    assert_eq!(passed, ["false", "false", "true", "true"]);
    let record: Record = serde_json::from_str(&place.lines("failing/runs.jsonl")[0]).unwrap();
    assert!(
        record.command().ends_with("small.toml --set tenant.bob.class=low --set 'expect.latency_p99_us={ alice = 1 }'")
    );
    assert!(record.reasons.iter().any(|reason| reason.contains("alice")), "{:?}", record.reasons);
    let page = place.text("failing/report.html");
    assert!(
        page.contains("1 of 2 runs passed") && page.contains("run 0: expect.latency_p99_us={ alice = 1 }"),
        "{page}"
    );
    assert!(page.matches("cargo xtask sim").count() == 3, "each run, and once more that which failed: {page}");
}

#[test]
fn lines_of_another_sweep_and_files_that_are_there_are_refused() {
    let place = Place::new();
    let few = |out: &str| Sweep { runs: Some(0..1), plot: Vec::new(), ..place.sweep(out) };
    assert_eq!(place.run(&few("one")), Ok(true));
    let refusal = |sweep: Sweep| place.run(&sweep).unwrap_err();
    assert!(refusal(few("one")).contains("runs.jsonl is there already: add --resume"));
    fs::create_dir(place.path("taken")).unwrap();
    fs::write(place.path("taken/sweep.csv"), b"my own").unwrap();
    assert!(refusal(few("taken")).contains("sweep.csv is there already: name another folder"));
    assert_eq!(place.text("taken/sweep.csv"), "my own");
    let merged = |line: &str, new: &str| {
        let text = place.text("one/runs.jsonl");
        assert!(text.contains(line), "{text}");
        fs::write(place.path("changed.jsonl"), text.clone() + &text.replace(line, new)).unwrap();
        let merge = vec![place.path("changed.jsonl")];
        refusal(Sweep { merge, scenario: None, set: Vec::new(), vary: Vec::new(), runs: None, ..few("merged") })
    };
    assert!(merged("\"passed\":true", "\"passed\":false").contains("run 0 has two results"));
    assert!(merged("\"run\":0", "\"run\":8").contains("has a run 8 that no sweep writes"));
    assert!(merged("\"iops\":", "\"iops\":-").contains("that no sweep writes"));
    assert!(merged("\"of\":8", "\"of\":9").contains("has runs of another sweep"));
    let other = Sweep { set: Vec::new(), resume: true, ..few("one") };
    assert!(refusal(other).contains("runs of another sweep or scenario"));
    assert!(refusal(Sweep { runs: Some(3..9), ..few("two") }).contains("there are 8 runs"));
    let vary = ["tenant.1.depth=1,2", "tenant.alice.depth=3,4"].map(|one| one.parse().unwrap()).to_vec();
    let two_names = refusal(Sweep { vary, ..few("two") });
    let expected = "--vary tenant.alice.depth=3: `tenant.1.depth=1` sets the same key: name it once";
    assert!(two_names.ends_with(expected), "{two_names}");
    assert!(
        refusal(Sweep { plot: vec!["x=dpeth,y=p99".parse().unwrap()], ..few("two") })
            .contains("no varied key is `dpeth`")
    );
    let mut file = fs::OpenOptions::new().append(true).open(place.path("one/runs.jsonl")).unwrap();
    file.write_all(b"{}\n").unwrap();
    assert!(refusal(Sweep { resume: true, ..few("one") }).contains("runs.jsonl:2: the line is no run"));
    assert!("x=depth,y=p98".parse::<Plot>().unwrap_err().to_string().contains("`p98` is no measurement"));
}

#[test]
fn figure_with_too_many_lines_is_refused_before_the_first_run_and_seeds_are_no_lines() {
    let place = Place::new();
    let mut sweep = Sweep {
        set: vec!["tenant.bob.program.config.operations=8".parse().unwrap()],
        vary: vec!["seed=0..8".parse().unwrap(), "tenant.bob.depth=1,2".parse().unwrap()],
        plot: vec!["x=seed,y=p99".parse().unwrap(), "x=depth,y=p99".parse().unwrap()],
        ..place.sweep("seeds")
    };
    assert_eq!(place.run(&sweep), Ok(true));
    let figure = place.text("seeds/p99-over-depth.svg");
    assert!(figure.contains("median over the seeds") && !figure.contains("seed="), "{figure}");
    assert!(!place.text("seeds/p99-over-seed.svg").contains("median over"));
    sweep.out = Some(place.path("many"));
    sweep.vary = vec!["seed=0..2".parse().unwrap(), "tenant.bob.depth=1,2,3,4,5,6,7,8".parse().unwrap()];
    assert!(place.run(&sweep).unwrap_err().starts_with("the figure seed,y=p99 has 8 lines"));
    assert!(!place.path("many").exists());
}
