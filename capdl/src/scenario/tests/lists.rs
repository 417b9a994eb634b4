//! Lists where tables are possible: refused, whatever their elements are.

use super::{GOOD, refusal};
use crate::Scenario;

#[test]
fn list_in_the_place_of_a_table_is_refused_with_its_line() {
    for (old, new, expected) in [
        (
            "[[controller]]",
            "[server]\nrestart = [3, 1000]\n[[controller]]",
            "good.toml:6: `restart` is a list: write a table",
        ),
        ("description", "machine = [\"64M\"]\ndescription", "good.toml:3: `machine` is a list: write a table"),
        ("description", "machine = []\ndescription", "good.toml:3: `machine` is a list: write a table"),
        ("description", "expect = [60]\ndescription", "good.toml:3: `expect` is a list: write a table"),
        ("queue_pairs = 4", "model = [\"dram\", 1]", "good.toml:7: `model` is a list: write a table"),
        ("{ first = 0, blocks = 1024 }", "[0, 1024]", "good.toml:15: a value is a list: write a table"),
        ("queue_pairs = 2", "queue_pairs = 2\niops = [500, 10]", "good.toml:15: `iops` is a list: write a table"),
        (
            "[[controller]]",
            "fault = [{ command = { effect = { status = [2, 129, true] } } }]\n[[controller]]",
            "good.toml:5: `status` is a list: write a table",
        ),
        (
            "[tenant.program.config]\ndepth = 8",
            "program.config = [4096]",
            "good.toml:18: `program.config` is a list: write a table",
        ),
        (
            "[[controller]]",
            "[[expect]]\n[[controller]]",
            "good.toml:5: `[[expect]]` is one of several tables where one is possible: write `[expect]`",
        ),
    ] {
        let refusal = refusal(old, new);
        assert_eq!(refusal, expected);
    }
}

#[test]
fn lists_of_tables_and_of_numbers_are_read() {
    let text = GOOD
        .replacen("queue_pairs = 4", "queue_pairs = 4\nmodel = { retry_delays = [1, 2, 3] }\nquirks = []", 1)
        .replacen(
            "program.name = \"bench\"\n[tenant.program.config]\ndepth = 8",
            "program.path = \"mine\"\nprogram.config = { pair = [1, 2] }",
            1,
        );
    assert!(Scenario::parse(&text, "good.toml").is_ok());
}
