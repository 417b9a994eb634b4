use super::*;
use crate::records::lateness::{Lateness, Sample};
use crate::records::results::{Compared, Faulted};
use report::{Attack, Change, Changed, Component, Controller, Fault, FaultKind, Load, Machine, Namespace, clip};
use std::time::Duration;

fn function(bdf: u16, parent: Option<u16>, buses: Option<(u8, u8)>) -> PciFunction {
    PciFunction {
        bdf,
        parent,
        vendor: 0x1b36,
        device: 0x0010,
        class_code: [1, 8, 2],
        bars: heapless_bars(buses.is_none()),
        msix_vectors: if buses.is_none() { 65 } else { 0 },
        buses,
    }
}

fn heapless_bars(any: bool) -> report::Bars {
    (if any { Some((0, 0xfe80_0000, 16384)) } else { None }).into_iter().collect()
}

fn attack() -> Attack {
    Attack {
        tenant: clip("mallory"),
        kind: clip("requests"),
        attack: clip("reads carol's blocks"),
        refused: true,
        stopped_by: clip("status out of range"),
    }
}

fn results() -> Results {
    Results {
        scenario: "demo".into(),
        passed: true,
        seconds: 3.5,
        first_verified_io_seconds: Some(1.5),
        folder: "target/runs/demo-1".into(),
        machine: Some(Machine {
            ticks_per_second: 2_000_000_000,
            memory_bytes: 240 << 20,
            memory_left_bytes: 200 << 20,
            objects: 1234,
            iommu_levels: 3,
            started_at_ns: 0,
        }),
        components: vec![Component { component: 1, name: clip("console"), priority: 1, capabilities: 5, pages: 90 }],
        pci: vec![function(0x20, None, Some((1, 1))), function(0x100, Some(0x20), None)],
        controllers: vec![Controller {
            server: clip("nvme-server"),
            bdf: 0x100,
            vendor: 0x1b36,
            model: clip("QEMU NVMe Ctrl   "),
            serial: clip("capnvme-demo"),
            firmware: clip("7.2"),
            version: [1, 4, 0],
            queue_pairs: 64,
            max_queue_entries: 2048,
            max_transfer_bytes: 512 << 10,
            interrupts: clip("MSI-X"),
        }],
        namespaces: vec![Namespace { server: clip("nvme-server"), nsid: 1, blocks: 262_144, block_bytes: 512 }],
        tenants: vec![Load {
            tenant: clip("alice"),
            class: clip("urgent"),
            queue_pairs: 2,
            depth: 16,
            block_bytes: 4096,
            reads: 2100,
            writes: 900,
            verified_bytes: 12 << 20,
            began_ns: 400_000_000,
            elapsed_ns: 500_000_000,
            p50_ns: 210_400,
            p99_ns: 900_000,
            p999_ns: 1_800_000,
            max_ns: 2_000_000,
            ..Load::default()
        }],
        refused: vec![Refused { tenant: clip("late"), label: 4, reason: clip("no queue pair is left") }],
        sessions: vec![
            report::Session { tenant: clip("alice"), requests: 3000, ..report::Session::default() },
            report::Session {
                tenant: clip("ext"),
                requests: 500,
                not_installed: 40,
                forbidden: 2,
                ..report::Session::default()
            },
        ],
        servers: ["alice", "ext"].map(|tenant| (tenant.to_owned(), "nvme-server".to_owned())).into(),
        restarts: vec![report::Restart {
            name: clip("nvme-server"),
            times: 1,
            ended_at_ns: 700_000_000,
            took_ns: 4_200_000,
            memory_left_bytes: 1 << 20,
        }],
        reconnected: ["alice", "bob"]
            .map(|tenant| report::Reconnected { tenant: clip(tenant), at_ns: 712_500_000, reissued: 3 })
            .to_vec(),
        changes: [
            (Changed::Revoked { blocks: 256 }, 300),
            (Changed::Granted { blocks: 256 }, 700),
            (Changed::Entitled, 800),
        ]
        .map(|(what, at_ms)| Change {
            policy: clip("policy"),
            tenant: clip("frank"),
            what,
            at_ns: at_ms * 1_000_000,
            took_ns: 12_000,
        })
        .to_vec(),
        attacks: vec![attack(), attack(), Attack { refused: false, attack: clip("reads all"), ..attack() }],
        faults: vec![
            ended("erin", FaultKind::Killed),
            Fault {
                component: 7,
                name: clip("mallory"),
                kind: FaultKind::Read,
                address: 0x6000_0000,
                instruction: 0x700_1000,
            },
        ]
        .into_iter()
        .map(|fault| Faulted { at_ns: 0, fault })
        .collect(),
        digests: vec![Compared {
            tenant: clip("dora"),
            first_byte: 0,
            bytes: 1024,
            sha256: "ab".repeat(32),
            build_machine_sha256: Some("ab".repeat(32)),
        }],
        ..Results::default()
    }
}

fn ended(name: &str, kind: FaultKind) -> Fault {
    Fault { component: 9, name: clip(name), kind, address: 0, instruction: 0 }
}

const EXPECTED: &str = include_str!("expected.txt");
const EXPECTED_80: &str = include_str!("expected_80.txt");

#[test]
fn everything_a_run_showed_is_on_the_page() {
    assert_eq!(render(&results(), 200, usize::MAX), EXPECTED);
    assert_eq!(render(&results(), 80, usize::MAX), EXPECTED_80);
}

#[test]
fn a_failed_run_says_why_and_where_its_log_is() {
    let mut results = Results { scenario: "demo".into(), folder: "target/runs/demo-1".into(), ..Results::default() };
    results.reasons.push("alice has not finished".into());
    let files = "  target/runs/demo-1 has its log, and the pictures timeline.svg and system.svg\n";
    assert_eq!(render(&results, 80, usize::MAX), format!("FAIL demo\n  alice has not finished\n{files}"));
    let narrow = render(&results, 80, 40);
    let wrapped = "\n  target/runs/demo-1 has its log, and\n    the pictures timeline.svg and\n    system.svg\n";
    assert!(narrow.ends_with(wrapped), "{narrow}");
    results.seed = Some(1);
    let page = render(&results, 80, usize::MAX);
    assert!(page.ends_with("system.svg, and in events the steps around the first failure\n"), "{page}");
    results.files = [("report", "target/runs/demo-1/report.html".to_owned())].into();
    let last = "  target/runs/demo-1/report.html is a page of all this for a browser\n";
    assert!(render(&results, 80, usize::MAX).ends_with(last));
}

#[test]
fn rows_that_were_not_judged_are_named_and_counted() {
    let mut results =
        Results { scenario: "demo".into(), passed: true, folder: "runs/demo-1".into(), ..Results::default() };
    results.not_judged.push("alice waited; the machine was too slow: it waited".into());
    let row = "not judged: alice waited; the machine was too slow: it waited";
    let files = "  runs/demo-1 has its log, and the pictures timeline.svg and system.svg\n";
    assert_eq!(
        render(&results, 80, usize::MAX),
        format!("{row}\nPASS demo\n1 row was not judged: the machine was too slow\n{files}")
    );
    results.passed = false;
    results.reasons.push("bob has not finished".into());
    let failed = format!("FAIL demo\n  bob has not finished\n  {row}\n{files}");
    assert_eq!(render(&results, 80, usize::MAX), failed);
    let age = Duration::from_secs(2);
    results.lateness = Lateness::of(vec![Sample { age, waited: age / 2, others: age, ran: age }], None);
    results.set_clock(0, Duration::ZERO);
    let why = "the machine was too slow: of 2.0 s QEMU waited 1.0 s for a processor of the build machine";
    assert!(
        render(&results, 80, usize::MAX).contains(&format!("  {why}\n{files}")),
        "a failed run says how late it was"
    );
    assert_eq!(not_judged(2).as_deref(), Some("2 rows were not judged: the machine was too slow"));
    assert_eq!(not_judged(0), None);
}

#[test]
fn sizes_have_the_largest_unit_that_fits_whole() {
    assert_eq!(size(512), "512 B");
    assert_eq!(size(4096), "4 KiB");
    assert_eq!(size(1 << 20), "1 MiB");
    assert_eq!(size(1536 << 10), "1536 KiB");
    assert_eq!(size(1_159_167), "1132.0 KiB");
    assert_eq!(size(0), "0 B");
}

#[test]
fn functions_whose_parents_go_in_a_circle_do_not_go_on_for_ever() {
    let mut text = String::new();
    branch(&[function(1, Some(1), None)], Some(1), 1, &mut text);
    assert!(text.lines().count() <= 2, "{text}");
}
