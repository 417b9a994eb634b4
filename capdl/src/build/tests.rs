use super::dma::io_tables;
use super::*;
use crate::programs::tests::{samples, samples_for};
use blk_api::config::{Class, RateLimit, SchedulingPolicy};
use capdl_spec::{Arch, Object, Specification};
use pci_api::Match;
use platform::Environment;
use workload::Client;

/// The system of a scenario file, with made-up programs.
pub(crate) fn system_of(name: &str) -> System {
    build(&scenario_of(name), &samples()).unwrap_or_else(|error| panic!("{name}: {error}"))
}

pub(crate) fn scenario_of(name: &str) -> Scenario {
    let path = format!("{}/../scenarios/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Scenario::load(&path).unwrap_or_else(|error| panic!("{error}"))
}

fn object<'a>(system: &'a System, name: &str) -> &'a Object {
    system.specification.objects.iter().find(|object| object.name == name).unwrap_or_else(|| panic!("no {name}"))
}

fn environment<'a>(system: &'a System, name: &str) -> &'a Environment {
    system.environments.iter().find(|environment| environment.name == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn names_of_objects_are_unique() {
    let system = system_of("demo");
    let mut names: Vec<_> = system.specification.objects.iter().map(|object| &object.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), system.specification.objects.len());
}

#[test]
fn frames_of_a_component_never_lie_on_each_other() {
    let Specification { objects, mappings, components, .. } = system_of("demo").specification;
    for component in components {
        let mut ranges: Vec<_> = mappings
            .iter()
            .filter(|mapping| mapping.vspace == component.vspace)
            .filter_map(|mapping| {
                let object = &objects[mapping.object as usize];
                let bytes = crate::layout::frame_bytes(object.kind)? * u64::from(object.count);
                Some((mapping.vaddr, mapping.vaddr + bytes))
            })
            .collect();
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{}: {ranges:x?}", component.name);
    }
}

#[test]
fn paging_structures_cover_every_small_frame_and_come_first() {
    let Specification { objects, mappings, .. } = system_of("sessions-64").specification;
    let kind = |object: ObjectId| objects[object as usize].kind;
    for (position, mapping) in mappings.iter().enumerate() {
        if kind(mapping.object) != ObjectKind::SmallFrame {
            continue;
        }
        let count = u64::from(objects[mapping.object as usize].count);
        for vaddr in [mapping.vaddr, mapping.vaddr + (count - 1) * PAGE] {
            for (level, bits) in [
                (ObjectKind::TranslationTable { level: 1 }, 39),
                (ObjectKind::TranslationTable { level: 2 }, 30),
                (ObjectKind::TranslationTable { level: 3 }, 21),
            ] {
                let covers = |table: &&capdl_spec::Mapping| {
                    let size = u64::from(objects[table.object as usize].count) << bits;
                    table.vspace == mapping.vspace
                        && kind(table.object) == level
                        && (table.vaddr..table.vaddr + size).contains(&vaddr)
                };
                let covering = mappings[..position].iter().filter(covers).count();
                assert_eq!(covering, 1, "{level:?} for {vaddr:#x}");
            }
        }
    }
}

#[test]
fn cptrs_of_a_cspace_are_used_once_and_lie_inside() {
    let system = system_of("bridge-two-controllers");
    let Specification { objects, caps, components, .. } = &system.specification;
    for (component, environment) in components.iter().zip(&system.environments) {
        let mut cptrs: Vec<u64> = vec![component.fault_slot];
        for run in caps.iter().filter(|run| run.cnode == component.cnode) {
            cptrs.extend(run.cptr..run.cptr + u64::from(objects[run.object as usize].count));
        }
        let used = cptrs.len();
        cptrs.sort_unstable();
        cptrs.dedup();
        assert_eq!(cptrs.len(), used, "{}", component.name);
        assert!(cptrs.iter().all(|cptr| *cptr < 1 << environment.cnode_bits && *cptr > 0));
        assert!(cptrs.iter().all(|cptr| !environment.free_cptrs.contains(cptr)));
        assert!(environment.free_cptrs.end <= 1 << environment.cnode_bits);
    }
}

#[test]
fn environments_are_where_the_components_look_for_them() {
    let system = system_of("boot");
    let image = system.image();
    let (specification, data) = Specification::parse(&image).unwrap();
    for (component, expected) in specification.components.iter().zip(&system.environments) {
        let mapping = specification
            .mappings
            .iter()
            .find(|mapping| {
                let kind = specification.objects[mapping.object as usize].kind;
                let here = mapping.vspace == component.vspace && mapping.vaddr == component.environment_vaddr;
                here && kind == ObjectKind::SmallFrame
            })
            .unwrap();
        assert!(!mapping.writable);
        let fill = specification.objects[mapping.object as usize].fill.unwrap();
        let bytes = &data[fill.offset as usize..(fill.offset + fill.len) as usize];
        let len = u64::from_le_bytes(*bytes.first_chunk().unwrap());
        assert_eq!(len + 8, fill.len);
        assert_eq!(postcard::from_bytes::<Environment>(&bytes[8..]).as_ref(), Ok(expected));
    }
}

#[test]
fn a_client_gets_what_the_interfaces_name_and_nothing_else() {
    let system = system_of("boot");
    let alice = environment(&system, "alice");
    let caps: Vec<_> = alice.caps.iter().map(|run| (run.name.as_str(), run.count)).collect();
    assert_eq!(caps, [("event", 1), ("server", 1), ("doorbell", 1), ("policy", 1), ("log", 1)]);
    let regions: Vec<_> = alice.regions.iter().map(|region| region.name.as_str()).collect();
    assert_eq!(regions, ["log", "liveness-server", "window", "ring-client", "ring-server"]);
    assert_eq!((alice.cnode, alice.receive_cptr), (None, None));
    assert!(alice.free_cptrs.is_empty());
    let config: Client = alice.config().unwrap();
    assert_eq!((config.tenant.as_str(), config.window_bytes), ("alice", 1 << 20));
}

#[test]
fn the_server_holds_windows_it_does_not_map() {
    let system = system_of("demo");
    let server = environment(&system, "nvme-server");
    assert_eq!(server.cap_count("window-6"), 256);
    assert!(server.region("window-6").is_none());
    assert!(server.caps.iter().all(|run| !run.name.contains("vspace")));
    let config: ServerConfig = server.config().unwrap();
    assert_eq!(config.sessions.len(), 7);
    assert_eq!(config.sessions[6].tenant, "mallory");
}

#[test]
fn the_server_receives_what_its_tenants_are_entitled_to() {
    let path = format!("{}/../scenarios/boot.toml", env!("CARGO_MANIFEST_DIR"));
    let mut scenario = Scenario::load(&path).unwrap();
    scenario.server.policy = SchedulingPolicy::Dedicated;
    scenario.server.class_weights.high = 9;
    let limits = [RateLimit { per_second: 500, burst: 10 }, RateLimit { per_second: 1 << 20, burst: 1 << 16 }];
    scenario.tenants[0].highest_class = Some(Class::Urgent);
    scenario.tenants[0].weight = 4;
    scenario.tenants[0].iops = Some(limits[0]);
    scenario.tenants[0].bandwidth = Some(limits[1]);
    let system = build(&scenario, &samples()).unwrap();
    let config: ServerConfig = environment(&system, "nvme-server").config().unwrap();
    assert_eq!((config.policy, config.class_weights.high), (SchedulingPolicy::Dedicated, 9));
    let session = &config.sessions[0];
    assert_eq!((session.class, session.highest, session.weight), (Class::Medium, Class::Urgent, 4));
    assert_eq!((session.iops_limit, session.bandwidth_limit), (Some(limits[0]), Some(limits[1])));
}

#[test]
fn policy_component_holds_the_extents_and_little_else() {
    let system = system_of("demo");
    let policy = environment(&system, "policy");
    let caps: Vec<_> = policy.caps.iter().map(|run| (run.name.as_str(), run.count)).collect();
    assert_eq!(caps, [("endpoint", 1), ("event", 1), ("server", 1), ("log", 1)]);
    assert_eq!((policy.cnode, policy.receive_cptr), (None, None));
    let config: PolicyConfig = policy.config().unwrap();
    assert_eq!(config.sessions.len(), 7);
    assert_eq!((config.sessions[4].tenant.as_str(), config.sessions[4].writable), ("dora", false));
    assert_eq!(config.sessions[0].extents.len(), 2);
    let server: ServerConfig = environment(&system, "nvme-server").config().unwrap();
    assert_eq!((server.sessions[0].blocks, server.records), (4_096, 16_384));
}

#[test]
fn every_server_is_a_driver_with_a_domain_of_its_own() {
    let system = system_of("bridge-two-controllers");
    let pci = environment(&system, "pci-server");
    let config: pci_api::ServerConfig = pci.config().unwrap();
    assert_eq!(pci.cap_count("driver-vspace"), 2);
    assert_eq!(usize::try_from(pci.cap_count("pci-window")).unwrap(), config.pci_windows.len());
    let domains: Vec<_> = config.drivers.iter().map(|driver| driver.domain).collect();
    assert_eq!(domains, [1, 2]);
}

#[test]
fn the_pci_window_is_divided_into_the_largest_aligned_parts() {
    for (arch, first, last) in
        [(Arch::X86_64, (0xC000_0000, 29), (0xFE80_0000, 22)), (Arch::Aarch64, (0x1000_0000, 28), (0x3EFE_0000, 16))]
    {
        let machine = machine::of(arch);
        let windows = machine.pci_windows();
        assert_eq!((windows.first(), windows.last()), (Some(&first), Some(&last)));
        let mut next = machine.pci_window.start;
        for (paddr, bits) in windows {
            assert_eq!(paddr, next);
            assert!(paddr.is_multiple_of(1 << bits));
            next += 1 << bits;
        }
        assert_eq!(next, machine.pci_window.end);
    }
}

#[test]
fn io_page_tables_reach_pool_and_windows() {
    // Top, two middles, one leaf for the pool, two for the windows, four spare.
    assert_eq!(io_tables(4096, [4096, 1 << 20].into_iter()), 1 + 2 + 1 + 2 + 4);
    assert_eq!(io_tables(4 << 20, [1 << 30].into_iter()), 1 + 2 + 2 + 512 + 4);
}

#[test]
fn a_program_enters_the_data_once_however_many_run_it() {
    let system = system_of("demo");
    let alice = object(&system, "alice.code").fill.unwrap();
    let bob = object(&system, "bob.code").fill.unwrap();
    assert_eq!(alice, bob);
    assert_eq!(alice.skip, 0x800);
}

#[test]
fn the_same_scenario_gives_the_same_image() {
    assert_eq!(system_of("demo").image(), system_of("demo").image());
}

#[test]
fn a_missing_program_is_named() {
    let path = format!("{}/../scenarios/boot.toml", env!("CARGO_MANIFEST_DIR"));
    let error = build(&Scenario::load(path).unwrap(), &Programs::new()).unwrap_err();
    assert_eq!(error.to_string(), "the program `console` was not given: build it first");
}

#[test]
fn a_probe_has_the_servers_place_and_memory_of_its_own() {
    let system = system_of("probe-revoke");
    let probe = environment(&system, "probe");
    for run in ["pci", "event", "own-vspace"] {
        assert_eq!(probe.cap_count(run), 1, "{run}");
    }
    assert_eq!(probe.cap_count("memory"), 2);
    let arenas = ["arena", "pages"].map(|name| probe.region(name).unwrap().kind);
    assert_eq!(arenas, [RegionKind::Arena; 2]);
    let config: workload::Probe = probe.config().unwrap();
    assert_eq!(config.last, workload::LastProbe::RevokedPage);
    let pci: pci_api::ServerConfig = environment(&system, "pci-server").config().unwrap();
    assert_eq!(pci.drivers[0].arena, probe.region("arena").unwrap().vaddr);
    let components: Vec<_> = system.environments.iter().map(|environment| environment.name.as_str()).collect();
    assert_eq!(components, ["console", "pci-server", "probe"]);
}

#[test]
fn a_controller_that_comes_and_goes_is_found_by_its_slot() {
    let system = system_of("hotplug");
    let pci: pci_api::ServerConfig = environment(&system, "pci-server").config().unwrap();
    let allowed: Vec<_> = pci.drivers.iter().map(|driver| driver.allowed.clone()).collect();
    // The one that stays is the first of its class, whether the other is there or not.
    assert_eq!(allowed, [Match::Slot(1), Match::ClassCode { class_code: [1, 8, 2], index: 0 }]);
    let region = |component: &str, name: &str| environment(&system, component).region(name).map(|region| region.kind);
    assert_eq!(region("pci-server", "presence-0"), Some(RegionKind::ReadWrite));
    assert_eq!(region("nvme-server-comes", "presence"), Some(RegionKind::ReadOnly));
    assert_eq!((region("pci-server", "presence-1"), region("nvme-server-stays", "presence")), (None, None));
    let pages = system.specification.components.iter().filter_map(|one| Some((one.name.as_str(), one.presence?)));
    let name = |page: u32| system.specification.objects[page as usize].name.as_str();
    assert_eq!(
        pages.map(|(component, page)| (component, name(page))).collect::<Vec<_>>(),
        [("nvme-server-comes", "nvme-server-comes.presence")]
    );
}

#[test]
fn edu_driver_holds_a_pci_call_and_its_own_memory() {
    let system = system_of("edu");
    let driver = environment(&system, "edu-driver");
    let caps: Vec<_> = driver.caps.iter().map(|caps| (caps.name.as_str(), caps.count)).collect();
    assert_eq!(caps, [("event", 1), ("pci", 1), ("log", 1)]);
    let regions: Vec<_> = driver.regions.iter().map(|region| (region.name.as_str(), region.kind)).collect();
    assert_eq!(regions, [("log", RegionKind::ReadWrite), ("arena", RegionKind::Arena)]);
    let pci: pci_api::ServerConfig = environment(&system, "pci-server").config().unwrap();
    let [driver] = pci.drivers.as_slice() else { panic!("{} drivers", pci.drivers.len()) };
    assert_eq!(driver.allowed, Match::ClassCode { class_code: [0, 0xff, 0], index: 0 });
    assert_eq!((driver.max_vectors, driver.domain), (1, 1));
}

#[test]
fn pci_server_restarts_by_its_policy_and_keeps_one_page() {
    let pci_server =
        |system: &System| system.specification.components.iter().find(|one| one.name == "pci-server").cloned();
    let of = |name: &str| pci_server(&system_of(name)).and_then(|component| component.restart);
    assert_eq!(of("boot"), Some(capdl_spec::RestartPolicy { times: 5, within_ms: 60_000 }));
    assert_eq!(of("pci-server-stays-dead"), Some(capdl_spec::RestartPolicy { times: 1, within_ms: 60_000 }));
    let system = system_of("boot");
    let keeping: Vec<_> =
        system.specification.components.iter().filter(|component| component.keeps.is_some()).collect();
    let [only] = keeping.as_slice() else { panic!("{keeping:?}") };
    let kept = only.keeps.unwrap();
    assert_eq!(
        (only.name.as_str(), system.specification.objects[kept as usize].name.as_str()),
        ("pci-server", "pci-server.sizing")
    );
    let mapped = system.specification.mappings.iter().filter(|mapping| mapping.object == kept);
    assert_eq!(mapped.map(|mapping| (mapping.vspace, mapping.writable)).collect::<Vec<_>>(), [(only.vspace, true)]);
}

#[test]
fn the_same_scenario_is_a_system_of_either_machine() {
    let system = |arch| build(&scenario_of("demo"), &samples_for(arch)).unwrap();
    let (pc, virt) = (system(Arch::X86_64), system(Arch::Aarch64));
    assert_eq!((pc.specification.arch, virt.specification.arch), (Arch::X86_64, Arch::Aarch64));
    let names = |system: &System| {
        system.specification.components.iter().map(|component| component.name.clone()).collect::<Vec<_>>()
    };
    let without: Vec<_> = names(&virt).into_iter().filter(|name| name != "iommu-server").collect();
    assert_eq!((without, names(&virt).len()), (names(&pc), names(&pc).len() + 1));
    let has = |system: &System, kind: fn(ObjectKind) -> bool| {
        system.specification.objects.iter().any(|object| kind(object.kind))
    };
    let is_pcs =
        |kind| matches!(kind, ObjectKind::IoPorts { .. } | ObjectKind::IoSpaceMaster | ObjectKind::IoPageTable);
    assert!(has(&pc, is_pcs) && !has(&virt, is_pcs));
}

#[test]
fn systems_without_iommu_have_no_io_spaces() {
    let mut scenario = scenario_of("demo");
    scenario.machine.iommu = false;
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let System { mut specification, data, .. } = build(&scenario, &samples_for(arch)).unwrap();
        let is_iommus = |kind| matches!(kind, ObjectKind::IoSpaceMaster | ObjectKind::IoPageTable);
        assert!(specification.objects.iter().all(|object| !is_iommus(object.kind)));
        assert!(specification.no_iommu && specification.components.iter().all(|one| one.name != "iommu-server"));
        specification.no_iommu = false;
        let leaks = crate::check::authority(
            &specification,
            &data,
            &declaration(&scenario, &samples_for(specification.arch)).unwrap(),
        )
        .unwrap_err();
        assert!(leaks.iter().any(|leak| leak.path.contains("finds no capability called io-space-master")));
    }
}

#[test]
fn drivers_end_with_pci_server_and_it_with_iommu_server() {
    let scenario = scenario_of("demo");
    for (arch, needs) in [(Arch::X86_64, None), (Arch::Aarch64, Some("iommu-server"))] {
        let System { mut specification, data, .. } = build(&scenario, &samples_for(arch)).unwrap();
        let id = |name: &str| specification.components.iter().find(|one| one.name == name).map(|one| one.id);
        let with = |name: &str| specification.components.iter().find(|one| one.name == name).unwrap().ends_with;
        assert_eq!(with("nvme-server"), id("pci-server"));
        assert_eq!((with("pci-server"), with("alice")), (needs.and_then(id), None));
        for component in specification.components.iter_mut().filter(|one| one.name == "nvme-server") {
            component.ends_with = None;
        }
        let leaks = crate::check::authority(
            &specification,
            &data,
            &declaration(&scenario, &samples_for(specification.arch)).unwrap(),
        )
        .unwrap_err();
        assert!(leaks.iter().any(|leak| leak.path.contains("ends with nobody, and its role with the PCI server")));
    }
}

#[test]
fn programs_of_two_architectures_are_no_system() {
    let mixed = samples().with("digest", crate::programs::tests::sample_for(Arch::Aarch64, 0x0600_0000));
    let error = build(&scenario_of("demo"), &mixed).unwrap_err().to_string();
    assert_eq!(error, "the program `digest` is for another architecture than the others");
}

#[test]
fn probe_beside_an_iommu_server_has_no_untyped() {
    let scenario = scenario_of("probe-dma");
    let System { mut specification, data, .. } = build(&scenario, &samples_for(Arch::Aarch64)).unwrap();
    let is_memory = |kind| matches!(kind, ObjectKind::Untyped { .. });
    assert!(specification.objects.iter().all(|object| !is_memory(object.kind)));
    let frames = specification.objects.iter_mut().find(|object| object.name == "probe.frames").unwrap();
    (frames.kind, frames.count) = (ObjectKind::Untyped { size_bits: 16 }, 2);
    let leaks = crate::check::authority(
        &specification,
        &data,
        &declaration(&scenario, &samples_for(specification.arch)).unwrap(),
    )
    .unwrap_err();
    assert!(leaks.iter().any(|leak| leak.path.contains("holds memory") && leak.path.contains("the IOMMU server")));
}

/// A system of `functions.toml` whose tenants all restart.
fn functions(arch: Arch) -> System {
    let mut scenario = scenario_of("functions");
    for tenant in &mut scenario.tenants {
        tenant.restart = Some(crate::scenario::Restart { times: 2, within_seconds: 1 });
    }
    build(&scenario, &samples_for(arch)).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn function_clients_are_drivers_after_the_servers() {
    for arch in [Arch::X86_64, Arch::Aarch64] {
        let system = functions(arch);
        let pci: pci_api::ServerConfig = environment(&system, "pci-server").config().unwrap();
        let drivers: Vec<_> = pci.drivers.iter().map(|driver| (driver.name.as_str(), driver.domain)).collect();
        assert_eq!(drivers, [("nvme-server", 1), ("frida", 2), ("fritz", 3)]);
        let allowed: Vec<_> = pci.drivers.iter().map(|driver| driver.allowed.clone()).collect();
        let nvme = Match::ClassCode { class_code: [1, 8, 2], index: 0 };
        let function = |index| Match::Virtual { driver: 0, index };
        assert_eq!(allowed, [nvme, function(0), function(1)]);
        // The admin queue pair's, and the I/O queue pair's.
        assert_eq!(pci.drivers[1..].iter().map(|driver| driver.max_vectors).collect::<Vec<_>>(), [2, 2]);
        let Specification { objects, caps, components, .. } = &system.specification;
        let component = |name: &str| components.iter().find(|component| component.name == name).unwrap();
        let badge = |name: &str, object: &str| {
            let (cnode, object) = (component(name).cnode, objects.iter().position(|one| one.name == object).unwrap());
            let mut runs = caps.iter().filter(|run| run.cnode == cnode && run.object as usize == object);
            runs.find(|run| run.badge != 0).map(|run| run.badge)
        };
        let numbers = [("nvme-server", 0), ("frida", 1), ("fritz", 2)];
        for (name, number) in numbers {
            assert_eq!(component(name).driver, Some(number), "{name}");
            assert_eq!(badge(name, "pci-server.endpoint"), Some(u64::from(number) + 1), "{name}");
            assert_eq!(component(name).ends_with, Some(component("pci-server").id), "{name}");
        }
        assert_eq!((component("alice").driver, component("alice").ends_with), (None, None));
        assert_eq!(badge("alice", "pci-server.endpoint"), None);
    }
}

#[test]
fn function_client_has_what_a_driver_needs_and_no_way_to_its_server() {
    let system = functions(Arch::X86_64);
    let frida = environment(&system, "frida");
    let caps: Vec<_> = frida.caps.iter().map(|run| run.name.as_str()).collect();
    assert_eq!(caps, ["event", "pci", "window", "dma", "io-table", "log"]);
    assert_eq!(frida.cap_count("window"), 256);
    let regions: Vec<_> = frida.regions.iter().map(|region| (region.name.as_str(), region.kind)).collect();
    let expected = ["log", "window", "dma"].map(|name| (name, RegionKind::ReadWrite));
    assert_eq!(regions, [expected.as_slice(), &[("arena", RegionKind::Arena)]].concat());
    assert!(frida.cnode.is_some() && frida.receive_cptr.is_some());
    // The IOSpace, and for each of two vectors a notification and a handler.
    assert!(frida.free_cptrs.end - frida.free_cptrs.start >= 5, "{:?}", frida.free_cptrs);
    let pool = frida.region("dma").unwrap().len / PAGE;
    assert!(pool >= 4 + 32, "{pool} pages for two queue pairs and the lists of 32 commands");
    let server = environment(&system, "nvme-server");
    assert!(server.caps.iter().all(|run| !run.name.ends_with("-1")), "a session, and no second one");
    assert!(server.region("liveness-function-0").is_some() && server.region("liveness-function-1").is_some());
    let config: ServerConfig = server.config().unwrap();
    let functions: Vec<_> =
        config.functions.iter().map(|one| (one.tenant.as_str(), one.nsid, one.queue_pairs)).collect();
    assert_eq!((config.sessions.len(), functions), (1, vec![("frida", 2, 1), ("fritz", 3, 1)]));
}

#[test]
fn teardown_words_of_functions_follow_those_of_sessions() {
    let system = functions(Arch::X86_64);
    let acks = |name: &str| {
        let component = system.specification.components.iter().find(|component| component.name == name).unwrap();
        let ack = component.teardown_ack.unwrap();
        (system.specification.objects[ack.page as usize].name.as_str(), ack.session)
    };
    let words = ["alice", "frida", "fritz"].map(acks);
    assert_eq!(words, [0, 1, 2].map(|word| ("nvme-server.teardown-acks", word)));
    let config: ServerConfig = environment(&system, "nvme-server").config().unwrap();
    assert_eq!([0, 1].map(|number| config.function_word(number)), [1, 2]);
}

#[test]
fn functions_of_two_controllers_are_counted_for_each() {
    let mut scenario = scenario_of("functions");
    let mut second = scenario.controllers[0].clone();
    (second.name, second.serial) = ("other".into(), "other".into());
    scenario.controllers.push(second);
    scenario.tenants[1].controller = "other".into();
    let system = build(&scenario, &samples()).unwrap_or_else(|error| panic!("{error}"));
    let pci: pci_api::ServerConfig = environment(&system, "pci-server").config().unwrap();
    let drivers: Vec<_> =
        pci.drivers[2..].iter().map(|driver| (driver.name.as_str(), driver.allowed.clone())).collect();
    let function = |driver| Match::Virtual { driver, index: 0 };
    assert_eq!(drivers, [("fritz", function(0)), ("frida", function(1))]);
    let domains: Vec<_> = pci.drivers.iter().map(|driver| driver.domain).collect();
    assert_eq!(domains, [1, 2, 3, 4]);
}
