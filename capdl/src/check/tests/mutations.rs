//! Valid systems with one thing changed: either the checker refuses the system, or no component can do anything else than
//! before.
//!
//! [`generator`] makes the changes, and [`reachability`] lists what everybody can do. It is written apart from the checker and
//! shares nothing with it, so that a mistake in one is not repeated in the other. Both draw from nothing but a seed, and a
//! failure names the seed.

mod configurations;
mod generator;
mod reachability;

use self::configurations::{alike, trees};
use self::generator::{Mutant, mutate};
use self::reachability::{Fact, facts};
use super::*;
use crate::layout::ENVIRONMENT_VADDR;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Changes in all, over all systems.
const MUTATIONS: u64 = 100_000;
/// Systems with more components are left to the other tests: a check of one takes as long as of a hundred small ones.
const MOST_COMPONENTS: usize = 14;
/// Most changes are made in these few, which have together everything that a system can have.
const THOROUGH: [&str; 11] = [
    "boot",
    "bridge-two-controllers",
    "client-cycles",
    "bench-signal-wait",
    "polled",
    "functions",
    "probe-revoke",
    "edu",
    "shares-change",
    "interrupts-change",
    "control",
];

/// A valid system.
struct Valid {
    name: String,
    image: Image,
    facts: BTreeSet<Fact>,
}

impl Valid {
    fn new(scenario: &Scenario) -> Self {
        Self::of(&scenario.name, Image::new(scenario, &samples()))
    }

    fn of(name: &str, image: Image) -> Self {
        let facts = facts(&image.specification, &image.data);
        Self { name: name.into(), image, facts }
    }

    fn scenario(name: &str) -> Self {
        Self::new(&Scenario::load(path(name)).unwrap_or_else(|error| panic!("{error}")))
    }
}

fn path(name: &str) -> String {
    format!("{}/../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"))
}

/// Every scenario of the repository that is small enough.
fn all() -> Vec<Valid> {
    let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios")).unwrap();
    let mut paths: Vec<_> = files.map(|file| file.unwrap().path()).filter(|path| path.is_file()).collect();
    paths.sort();
    let scenarios = paths.iter().map(|path| Scenario::load(path).unwrap_or_else(|error| panic!("{error}")));
    scenarios.filter(|scenario| scenario.components().len() <= MOST_COMPONENTS).map(|one| Valid::new(&one)).collect()
}

/// Three tenants on two controllers: two are started again, and two signal each other. No scenario has as much in one system.
fn crowded() -> Valid {
    let tenant = |name: &str, controller: &str, first: u32, more: &str| {
        format!(
            "[[tenant]]\nname = \"{name}\"\ncontroller = \"{controller}\"\nqueue_pairs = 1\ndepth = 2\nwindow = \"64K\"\n\
             {more}\nextents = [{{ first = {first}, blocks = 64 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\ndepth = 1\n\
             operations = 1\n"
        )
    };
    let again = "restart = { times = 2, within_seconds = 1 }";
    let text = format!(
        "name = \"crowded\"\ndescription = \"\"\n{}{}{}{}",
        ["left", "right"]
            .map(|name| format!("[[controller]]\nname = \"{name}\"\n[[controller.namespace]]\nsize = \"1M\"\n"))
            .concat(),
        tenant("anna", "left", 0, &format!("{again}\npeer = \"carl\"")),
        tenant("bert", "left", 64, again),
        tenant("carl", "right", 0, "peer = \"anna\"\npriority = 50"),
    );
    Valid::new(&Scenario::parse(&text, "crowded.toml").unwrap_or_else(|error| panic!("{error}")))
}

/// A system with an IOMMU server.
fn virt() -> Valid {
    Valid::of("functions on aarch64", super::iommu::virt())
}

/// The outcomes of changes.
#[derive(Default)]
struct Tally {
    refused: AtomicU64,
    harmless: AtomicU64,
    /// Accepted changes that gave or took something.
    wrong: Mutex<Vec<String>>,
}

impl Tally {
    /// Changes the system by `seed`, and judges the outcome.
    fn judge(&self, valid: &Valid, seed: u64) {
        let Some(Mutant { image, what }) = mutate(&valid.image, seed) else { return };
        if checked(&image).is_err() {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return;
        }
        self.harmless.fetch_add(1, Ordering::Relaxed);
        let facts = facts(&image.specification, &image.data);
        let (lost, gained): (Vec<_>, Vec<_>) =
            (valid.facts.difference(&facts).collect(), facts.difference(&valid.facts).collect());
        if !lost.is_empty() || !gained.is_empty() {
            let name = &valid.name;
            let wrong = format!("{name}, seed {seed}: accepted was {what}; {gained:x?} came for {lost:x?}");
            self.wrong.lock().unwrap().push(wrong);
        }
    }

    /// Asserts that nothing was wrong, and returns how many changes were refused and how many accepted.
    fn close(self) -> (u64, u64) {
        let wrong = self.wrong.into_inner().unwrap();
        assert!(wrong.is_empty(), "{} changes, of them\n{}", wrong.len(), wrong[..wrong.len().min(5)].join("\n"));
        (self.refused.into_inner(), self.harmless.into_inner())
    }
}

#[test]
fn a_changed_system_is_refused_or_nobody_can_do_anything_else() {
    let systems: Vec<Valid> = THOROUGH.into_iter().map(Valid::scenario).chain([crowded(), virt()]).collect();
    let tally = Tally::default();
    let threads = 2;
    std::thread::scope(|scope| {
        for first in 0..threads {
            let (systems, tally) = (&systems, &tally);
            scope.spawn(move || {
                for seed in (first..MUTATIONS).step_by(threads as usize) {
                    tally.judge(&systems[seed as usize % systems.len()], seed);
                }
            });
        }
    });
    let (refused, harmless) = tally.close();
    assert!(refused > MUTATIONS / 2, "{refused} of {MUTATIONS} changes were refused: the generator changes nothing");
    assert!(harmless > MUTATIONS / 1000, "{harmless} of {MUTATIONS} changes were accepted: the model is not asked");
}

#[test]
fn mutated_scenarios_are_refused_or_harmless() {
    let tally = Tally::default();
    for (valid, number) in all().iter().zip(1u64..) {
        (0..20).for_each(|seed| tally.judge(valid, number << 32 | seed));
    }
    tally.close();
}

/// Systems that have together every field of every configuration, with a value.
const CONFIGURED: [&str; 7] =
    ["shares-change", "extents", "queues-pool", "hotplug", "interrupts-change", "functions-revoked", "probe-revoke"];

/// Goes through the trees of all configurations: whatever a node has instead, the system is refused.
#[test]
fn every_field_of_every_configuration_is_judged() {
    let (mut accepted, mut tried) = (Vec::new(), 0);
    for valid in CONFIGURED.into_iter().map(Valid::scenario).chain([crowded(), virt()]) {
        let trees = trees(&valid.image);
        for tree in &trees {
            for node in &tree.nodes {
                let mut is_tried = false;
                for value in tree.others(node, &alike(&trees, node)) {
                    let mut image = valid.image.clone();
                    if tree.put(&mut image, node, &value).is_none() || image.data == valid.image.data {
                        continue;
                    }
                    (tried, is_tried) = (tried + 1, true);
                    if checked(&image).is_ok() {
                        accepted.push(format!("{}: {}{node} may be {value}", valid.name, tree.who));
                    }
                }
                let is_leaf = !tree.at(node).is_object();
                assert!(is_tried || !is_leaf, "{}: {}{node} has no other value", valid.name, tree.who);
            }
        }
    }
    assert!(accepted.is_empty(), "of {tried} other values are accepted\n{}", accepted.join("\n"));
}

/// Tests the model itself: each of these changes gives somebody something, and the model has to show it.
#[test]
fn the_model_sees_what_was_given() {
    type Change = fn(&mut Image);
    let changes: [(&str, Change); 15] = [
        ("a capability", |system| plant(system, "bob", "policy-old.event", 1, WRITE)),
        ("a mapping", |system| {
            map(system, "bob", "alice.window", false, false);
            // Where there are paging structures.
            system.mappings.last_mut().unwrap().vaddr = ENVIRONMENT_VADDR + 0x8000;
        }),
        ("an IPC buffer", |system| {
            let buffer = id(system, "alice.window");
            component(system, "bob").ipc_buffer = buffer;
        }),
        ("a number", |system| component(system, "bob").id = 2),
        ("ports", |system| {
            let serial = id(system, "serial") as usize;
            system.objects[serial].kind = ObjectKind::IoPorts { first: 0xcf8, last: 0xcff };
        }),
        ("a liveness page", |system| component(system, "bob").liveness = component(system, "alice").liveness),
        ("a page to keep", |system| {
            let page = id(system, "alice.data");
            component(system, "pci-server").keeps = Some(page);
        }),
        ("a priority", |system| component(system, "bob").priority = 121),
        ("a bound notification", |system| component(system, "policy-old").bound_notification = None),
        ("a driver's number", |system| component(system, "nvme-server-old").driver = Some(1)),
        ("a component to end with", |system| component(system, "nvme-server-old").ends_with = None),
        ("a page of blocked transactions", |system| {
            let page = id(system, "alice.data");
            component(system, "alice").blocked = Some(page);
        }),
        ("a table of frames", |system| {
            let page = id(system, "alice.data");
            component(system, "alice").frames = Some(page);
        }),
        ("an environment", |system| {
            let (alice, bob) = (id(system, "alice.environment") as usize, id(system, "bob.environment") as usize);
            system.objects[alice].fill = system.objects[bob].fill;
        }),
        ("rights", |system| {
            let cnode = id(system, "bob.cnode");
            system.caps.iter_mut().find(|run| run.cnode == cnode).unwrap().rights = ALL;
        }),
    ];
    let valid = Valid::scenario("bridge-two-controllers");
    for (what, change) in changes {
        let mut image = valid.image.clone();
        change(&mut image);
        assert_ne!(facts(&image.specification, &image.data), valid.facts, "{what}");
    }
}

#[test]
fn a_seed_makes_a_change() {
    let valid = Valid::scenario("boot");
    for seed in 0..100 {
        let [one, two] =
            [(); 2].map(|()| mutate(&valid.image, seed).map(|mutant| (mutant.what, mutant.image.specification)));
        assert_eq!(one, two);
    }
}
