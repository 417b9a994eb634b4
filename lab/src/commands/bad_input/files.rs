//! The files of the wrong inputs.

use anyhow::{Context, Result};
use rustix::fs::{CWD, Mode, mkfifoat};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use xtask::project::Project;

const HEAD: &str = "name = \"t\"\ndescription = \"t\"\n";
const CONTROLLER: &str = "[[controller]]\nname = \"a\"\nqueue_pairs = 4\n[[controller.namespace]]\nsize = \"16M\"\n";

/// A controller whose image is written in full and is larger than any disk of a build machine.
const VAST_CONTROLLER: &str =
    "[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"65536G\"\ncontent = \"pattern\"\n";

const SMALL_LIMIT: &str = "bandwidth = { per_second = 4095, burst = \"64K\" }";
const HIGH_CLASS: &str = "class = \"urgent\"\nhighest_class = \"high\"";
const NO_CLASS_WEIGHT: &str = "[server]\nclass_weights = { high = 6, medium = 0, low = 1 }\n";

const TWO_EXTENTS: &str = "[[tenant]]\nname = \"w\"\nqueue_pairs = 1\n\
                           extents = [{ first = 0, blocks = 8 }, { first = 8, blocks = 8 }]\nprogram.name = \"digest\"\n[tenant.program.config]\n";

/// The program of [`tenant`], and programs that do not exist.
const BENCH: &str = "program.name = \"bench\"";
const NO_CRATE: &str = "program.path = \"nowhere/my-program\"";
const NO_PROGRAM: &str = "program.name = \"bnech\"";

/// A fault that QEMU's own controller cannot have.
const FAULT: &str = "[[fault]]\ncommand = { times = 1, effect = \"drop-completion\" }\n";

const ONE_FUNCTION: &str = "virtual_functions = 1\n";
/// Keys of a tenant with a function.
const FUNCTION: &str = "path = \"function\"\nnamespace = 2";
const FUNCTION_OF_NOTHING: &str = "controller = \"b\"\npath = \"function\"\nnamespace = 2";
const THIRD_NAMESPACE: &str = "path = \"function\"\nnamespace = 3";
const FIRST_NAMESPACE: &str = "path = \"function\"";
/// A size beyond all bytes of any namespace, by one unit of 1 GiB.
const VAST: &str = "[[controller]]\nname = \"a\"\n[[controller.namespace]]\nsize = \"1073741825G\"\n";

/// The configuration of a kernel that the project cannot boot.
const WITH_BUDGETS: &str = r#"{"SEL4_ARCH": "x86_64", "PLAT": "pc99", "KERNEL_MCS": true}"#;

fn tenant(name: &str, queue_pairs: u16, first: u64) -> String {
    tenant_with(name, queue_pairs, first, "")
}

/// A tenant with further keys.
fn tenant_with(name: &str, queue_pairs: u16, first: u64, keys: &str) -> String {
    format!(
        "[[tenant]]\nname = \"{name}\"\nqueue_pairs = {queue_pairs}\nextents = [{{ first = {first}, blocks = 100 }}]\n\
         {keys}\nprogram.name = \"bench\"\n[tenant.program.config]\n"
    )
}

/// A scenario with another name.
fn named(name: &str) -> String {
    format!("name = \"{name}\"\ndescription = \"t\"\n{CONTROLLER}{}", tenant("w", 1, 0))
}

/// A system with a fault of these keys.
fn fault(keys: &str) -> String {
    format!("{HEAD}{CONTROLLER}{}[[fault]]\n{keys}\n", tenant("w", 1, 0))
}

/// A system whose one tenant has blocks 0 to 99, and a change.
fn change(name: &str, key: &str, first: u64, blocks: u64) -> String {
    let tenant = tenant("w", 1, 0);
    format!(
        "{HEAD}{CONTROLLER}{tenant}[[change]]\nafter_ms = 5\ntenant = \"{name}\"\n\
         {key} = [{{ first = {first}, blocks = {blocks} }}]\n"
    )
}

/// A system whose one tenant drives a virtual function of a controller with these keys.
fn function(keys: &str) -> String {
    functions(keys, &[("", FUNCTION)])
}

/// A system whose tenants have these keys, beside a controller with these keys.
fn functions(keys: &str, tenants: &[(&str, &str)]) -> String {
    let namespace = "[[controller.namespace]]\nsize = \"1M\"\n";
    let tenants = tenants.iter().zip(["w", "x"]).map(|((extents, keys), name)| {
        tenant_with(name, 1, 0, keys).replace("extents = [{ first = 0, blocks = 100 }]\n", extents)
    });
    let tenants: String = tenants.collect();
    format!("{HEAD}[[controller]]\nname = \"a\"\n{keys}{namespace}{namespace}{namespace}{tenants}")
}

/// A system whose controller has these keys, and an event in its slot.
fn hot_plug(keys: &str, action: &str) -> String {
    let namespace = "[[controller.namespace]]\nsize = \"1M\"\n";
    let (tenant, event) = (tenant("w", 1, 0), event(5, action));
    format!("{HEAD}[[controller]]\nname = \"a\"\n{keys}{namespace}{tenant}{event}")
}

fn event(after_ms: u32, action: &str) -> String {
    format!("[[hotplug]]\ncontroller = \"a\"\nafter_ms = {after_ms}\naction = \"{action}\"\n")
}

/// Writes the files of the wrong inputs; returns their folder.
pub(crate) fn prepare(project: &Project) -> Result<PathBuf> {
    let folder = project.target_folder("bad-input")?;
    let files = [
        ("unknown-key.toml", format!("{HEAD}colour = \"red\"\n{CONTROLLER}{}", tenant("w", 1, 0))),
        (
            "three-wrong.toml",
            format!(
                "{HEAD}{}{}dpeth = 4\n",
                CONTROLLER.replace("queue_pairs", "queue_piars"),
                tenant_with("w", 1, 0, "clas = \"high\"")
            ),
        ),
        ("overlap.toml", format!("{HEAD}{CONTROLLER}{}{}", tenant("v", 1, 0), tenant("w", 1, 99))),
        ("empty-extent.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 0).replace("blocks = 100", "blocks = 0"))),
        ("no-crate.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 0).replace(BENCH, NO_CRATE))),
        ("no-program.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 0).replace(BENCH, NO_PROGRAM))),
        ("no-option.toml", format!("{HEAD}{CONTROLLER}{}dpeth = 3\n", tenant("w", 1, 0))),
        ("beyond.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 1, 32_700))),
        ("few-records.toml", format!("{HEAD}{CONTROLLER}[server]\nrecords = 3\n{}", tenant("w", 1, 0))),
        ("no-pairs.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 0, 0))),
        ("too-many.toml", format!("{HEAD}{CONTROLLER}{}", tenant("w", 5, 0))),
        ("no-function.toml", function("")),
        ("eight-functions.toml", function("virtual_functions = 8\n")),
        ("no-function-queues.toml", function("queue_pairs = 3\nvirtual_functions = 1\n")),
        ("one-function.toml", functions(ONE_FUNCTION, &[("", FUNCTION), ("", THIRD_NAMESPACE)])),
        ("function-of-nothing.toml", functions(ONE_FUNCTION, &[("", FUNCTION_OF_NOTHING)])),
        ("function-extents.toml", functions(ONE_FUNCTION, &[("extents = [{ first = 0, blocks = 8 }]\n", FUNCTION)])),
        ("function-of-first.toml", functions(ONE_FUNCTION, &[("", FIRST_NAMESPACE)])),
        ("function-queues.toml", function(ONE_FUNCTION).replace("\"w\"\nqueue_pairs = 1", "\"w\"\nqueue_pairs = 2")),
        ("pulled-functions.toml", function("virtual_functions = 1\nhot_plug = true\n")),
        ("faults.toml", format!("{HEAD}{CONTROLLER}{}{FAULT}", tenant("w", 1, 0))),
        ("vast.toml", format!("{HEAD}{VAST}{}", tenant("w", 1, 0))),
        ("no-slot.toml", hot_plug("attach = \"bridge\"\nhot_plug = true\n", "pull")),
        ("fixed.toml", hot_plug("", "pull")),
        ("there-already.toml", hot_plug("hot_plug = true\n", "pull") + &event(6, "pull")),
        ("here-already.toml", hot_plug("hot_plug = true\n", "insert") + &event(6, "insert")),
        ("other-pull.toml", hot_plug("hot_plug = true\n", "pull") + "other = true\n"),
        ("at-once.toml", hot_plug("hot_plug = true\n", "pull") + "times = 2\n"),
        ("two-move.toml", hot_plug("hot_plug = true\n[[controller.namespace]]\nsize = \"1M\"\n", "pull")),
        ("no-space.toml", format!("{HEAD}{VAST_CONTROLLER}{}", tenant("w", 1, 0))),
        ("two-extents.toml", format!("{HEAD}{CONTROLLER}{TWO_EXTENTS}")),
        ("no-weight.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, "weight = 0"))),
        ("small-limit.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, SMALL_LIMIT))),
        ("class-too-high.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, HIGH_CLASS))),
        ("no-class-weight.toml", format!("{HEAD}{NO_CLASS_WEIGHT}{CONTROLLER}{}", tenant("w", 1, 0))),
        ("taken-twice.toml", change("w", "revoke", 98, 5)),
        ("given-beyond.toml", change("w", "grant", 100, 1)),
        ("changes-nobody.toml", change("nobody", "revoke", 0, 1)),
        ("far-name.toml", named("../../x")),
        ("escaping-name.toml", named("\\u001b[31m")),
        ("no-name.toml", named("")),
        ("empty-fault.toml", fault("")),
        (
            "two-faults.toml",
            fault("command = { effect = \"wrong-cid\" }\ncontroller = { at_ns = 1, effect = \"removal\" }"),
        ),
        ("doubled-fault.toml", fault("command = { effect = \"wrong-cid\" }\ncommand = { effect = \"wrong-cid\" }")),
        ("sct.toml", fault("command = { effect = { status = { sct = 9, sc = 0 } } }")),
        ("no-delay.toml", fault("command = { effect = { delay = { ns = 0 } } }")),
        ("no-such-pair.toml", fault("controller = { at_ns = 1, effect = { stuck-queue-pair = { pair = 2 } } }")),
        ("negative-seed.toml", format!("seed = -1\n{HEAD}{CONTROLLER}{}", tenant("w", 1, 0))),
        ("one-bracket.toml", format!("{HEAD}[controller]\nname = \"a\"\n{}", tenant("w", 1, 0))),
        ("no-controller.toml", format!("{HEAD}{}", tenant("w", 1, 0))),
        ("large-rings.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, "ring_entries = 4096"))),
        ("odd-rings.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, "ring_entries = 3"))),
        ("two-gigabytes.toml", format!("{HEAD}[machine]\nmemory = \"2G\"\n{CONTROLLER}{}", tenant("w", 1, 0))),
        ("large-windows.toml", format!("{HEAD}{CONTROLLER}{}", tenant_with("w", 1, 0, "window = \"256M\""))),
        ("small.img", "x".repeat(1000)),
        ("tiny.img", "x".repeat(100)),
        ("locked.img", "x".repeat(1000)),
        ("read-only.img", "x".repeat(1000)),
        ("old-qemu", "#!/bin/sh\necho QEMU emulator version 5.1.0\n".to_owned()),
        ("silent-qemu", "#!/bin/sh\nsleep 600\n".to_owned()),
        ("with-budgets/bin/kernel.elf", String::new()),
        ("with-budgets/libsel4/include/kernel/gen_config.json", WITH_BUDGETS.to_owned()),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(&folder);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        // An earlier file may be locked.
        let _ = fs::remove_file(&path);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    // Text in Latin-1.
    let latin = folder.join("latin.toml");
    fs::write(&latin, b"name = \"t\"\ndescription = \"caf\xe9\"\n")
        .with_context(|| format!("cannot write {}", latin.display()))?;
    let pipe = folder.join("pipe");
    // A pipe of an earlier run serves as well.
    let _ = fs::remove_file(&pipe);
    mkfifoat(CWD, &pipe, Mode::RUSR | Mode::WUSR).with_context(|| format!("cannot make {}", pipe.display()))?;
    let locked = folder.join("locked");
    fs::create_dir_all(&locked).with_context(|| format!("cannot make {}", locked.display()))?;
    let modes =
        [("old-qemu", 0o755), ("silent-qemu", 0o755), ("locked.img", 0), ("read-only.img", 0o444), ("locked", 0o555)];
    for (name, mode) in modes {
        fs::set_permissions(folder.join(name), fs::Permissions::from_mode(mode))
            .with_context(|| format!("cannot change the permissions of {name}"))?;
    }
    Ok(folder)
}
