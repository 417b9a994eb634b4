use super::*;
use capdl::scenario::{Action, HotPlug};

fn scenario(controller: &str, namespace: &str) -> Scenario {
    let text = format!(
        "name = \"t\"\ndescription = \"t\"\n[[controller]]\nname = \"a\"\nserial = \"S1\"\nqueue_pairs = 8\n{controller}\n\
         [[controller.namespace]]\nsize = \"64M\"\n{namespace}\n\
         [[tenant]]\nname = \"w\"\nqueue_pairs = 1\nextents = [{{ first = 0, blocks = 8192 }}]\nprogram.name = \"bench\"\n[tenant.program.config]\n"
    );
    Scenario::parse(&text, "t.toml").unwrap()
}

fn line(scenario: &Scenario, disk: Option<&UserDisk>, time: Time<'_>) -> String {
    let parts = Parts {
        boot: Boot::Multiboot {
            kernel: Path::new("kernel32.elf"),
            processor: "Nehalem",
            image: Path::new("image.elf"),
        },
        scenario,
        images: Path::new("images"),
        disk,
        time,
        models: None,
        start: Start::AtOnce,
    };
    let words = arguments(&parts).unwrap();
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn attached(attach: &str) -> String {
    line(&scenario(&format!("attach = \"{attach}\""), ""), None, Time::Real)
}

const NVME: &str = "serial=S1,max_ioqpairs=8,msix_qsize=9";

#[test]
fn aarch64_boots_one_file_on_virt_with_an_smmu() {
    let scenario = scenario("attach = \"root-port\"", "");
    let parts = Parts {
        boot: Boot::Whole(Path::new("image.elf")),
        scenario: &scenario,
        images: Path::new("images"),
        disk: None,
        time: Time::Real,
        models: None,
        start: Start::AtOnce,
    };
    let words = arguments(&parts).unwrap();
    let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    assert!(line.starts_with("-M virt,gic-version=2,highmem=off,iommu=smmuv3 -accel tcg -cpu cortex-a57"), "{line}");
    assert!(line.contains(" -m 1024M ") && line.ends_with("-kernel image.elf") && !line.contains("intel"), "{line}");
}

#[test]
fn an_edu_device_is_on_the_root_bus_where_its_scenario_has_one() {
    let scenario = Scenario::parse("name = \"t\"\ndescription = \"t\"\n[edu]\n", "t.toml").unwrap();
    let with = line(&scenario, None, Time::Real);
    assert!(with.contains(" -device edu,bus=pcie.0,addr=0x4 ") && !with.contains("nvme"), "{with}");
    assert!(!attached("root").contains("edu"));
}

#[test]
fn the_iommu_stands_before_every_device() {
    let line = attached("root-port");
    let iommu = line.find("-device intel-iommu").unwrap();
    assert_eq!(line.find("-device").unwrap(), iommu);
    assert!(line.starts_with("-M q35 -accel tcg -cpu Nehalem -smp 1,maxcpus=2 -m 256M -nodefaults"), "{line}");
    assert!(line.ends_with("-kernel kernel32.elf -initrd image.elf"), "{line}");
}

#[test]
fn a_controller_is_attached_where_the_scenario_says() {
    assert!(attached("root").contains(&format!("-device nvme,id=nvme0,bus=pcie.0,addr=0x4,{NVME}")));
    let port = "-device pcie-root-port,id=port0,bus=pcie.0,addr=0x4,chassis=1,slot=1";
    assert!(attached("root-port").contains(&format!("{port} -device nvme,id=nvme0,bus=port0,{NVME}")));
    assert!(attached("switch").contains(&format!(
        "{port} -device x3130-upstream,id=up0,bus=port0 \
         -device xio3130-downstream,id=down0,bus=up0,chassis=2,slot=2 -device nvme,id=nvme0,bus=down0,{NVME}"
    )));
    assert!(attached("bridge").contains(&format!(
        "-device pci-bridge,id=bridge0,bus=pcie.0,addr=0x4,chassis_nr=1 -device nvme,id=nvme0,bus=bridge0,addr=0x1,{NVME}"
    )));
}

#[test]
fn a_controller_with_virtual_functions_is_in_a_subsystem_and_keeps_its_first_namespace() {
    let with = scenario("virtual_functions = 2", "[[controller.namespace]]\nsize = \"64M\"");
    let with = line(&with, None, Time::Real);
    let functions = "subsys=subsystem0,sriov_max_vfs=2,sriov_vq_flexible=4,sriov_vi_flexible=4";
    let controller = format!("-device nvme-subsys,id=subsystem0 -device nvme,id=nvme0,bus=port0,{NVME},{functions} ");
    assert!(with.contains(&controller), "{with}");
    assert!(with.contains("nsid=1,bus=nvme0,logical_block_size=512,physical_block_size=512,shared=off -"), "{with}");
    assert!(with.contains("nsid=2,bus=nvme0,logical_block_size=512,physical_block_size=512,shared=off,detached=on"));
    let without = attached("root-port");
    assert!(!without.contains("subsys") && !without.contains("sriov") && !without.contains("shared"), "{without}");
}

#[test]
fn memory_of_ones_is_only_for_a_controller_that_needs_it() {
    let with = |effect: &str| {
        let mut scenario = scenario("", "");
        let fault = format!("[controller]\nat_ns = 1\neffect = {effect}");
        scenario.faults.push(toml::from_str(&fault).unwrap());
        line(&scenario, None, Time::Real)
    };
    assert!(with("{ all-ones = {} }").contains(&format!("{NVME},romfile=images/ones ")));
    assert!(!with("\"fatal-status\"").contains("romfile"));
}

#[test]
fn a_namespace_is_a_file_or_nothing_or_has_bad_blocks() {
    let file = line(&scenario("", ""), None, Time::Real);
    assert!(file.contains(r#""driver":"file","node-name":"d0n1","filename":"images/a-1.img""#), "{file}");
    assert!(
        file.contains("-device nvme-ns,drive=d0n1,nsid=1,bus=nvme0,logical_block_size=512,physical_block_size=512")
    );
    let null = line(&scenario("", "backend = \"null\""), None, Time::Real);
    assert!(null.contains(r#""driver":"null-co","node-name":"d0n1","size":67108864,"read-zeroes":true"#), "{null}");
    let bad = line(&scenario("", "media_errors = [100]\nblock_bytes = 4096"), None, Time::Real);
    assert!(bad.contains(r#""node-name":"d0n1-whole""#), "{bad}");
    assert!(bad.contains(r#""image":"d0n1-whole""#) && bad.contains(r#""sector":800"#), "{bad}");
}

#[test]
fn a_limited_controller_is_throttled_above_all_else() {
    let limited = line(&scenario("iops_limit = 4000", "media_errors = [100]"), None, Time::Real);
    assert!(limited.contains("-object throttle-group,id=limit0,x-iops-total=4000,x-iops-size=4096"), "{limited}");
    let node = r#"{"driver":"throttle","node-name":"d0n1","throttle-group":"limit0","file":"d0n1-unlimited"}"#;
    assert!(limited.contains(node), "{limited}");
    assert!(limited.contains(r#""image":"d0n1-unlimited-whole","inject-error""#), "{limited}");
    assert!(limited.contains(r#""node-name":"d0n1-unlimited""#), "{limited}");
    assert!(!line(&scenario("", ""), None, Time::Real).contains("throttle"));
}

#[test]
fn a_users_disk_is_not_changed_unless_it_may_be() {
    let scenario = scenario("", "");
    let mut disk = UserDisk { path: "/home/a,b.img".into(), writing: Writing::Forgotten, bytes: 0 };
    let kept = line(&scenario, Some(&disk), Time::Real);
    assert!(kept.contains("if=none,id=d0n1,format=raw,snapshot=on,file=/home/a,,b.img"), "{kept}");
    disk.writing = Writing::Kept;
    assert!(line(&scenario, Some(&disk), Time::Real).contains("snapshot=off"));
}

#[test]
fn time_by_instructions_comes_with_the_counter() {
    let time = Time::Counted { plugin: Path::new("count.so"), argument: "out=x.json" };
    assert!(line(&scenario("", ""), None, time).contains("-icount shift=0,sleep=off -plugin count.so,out=x.json"));
}

#[test]
fn models_are_devices_at_their_sockets_in_shared_memory() {
    let scenario = scenario("attach = \"root\"", "");
    let sockets = [PathBuf::from("/tmp/a,b/0")];
    let parts = Parts {
        boot: Boot::Multiboot {
            kernel: Path::new("kernel32.elf"),
            processor: "Nehalem",
            image: Path::new("image.elf"),
        },
        scenario: &scenario,
        images: Path::new("images"),
        disk: None,
        time: Time::Real,
        models: Some(&sockets),
        start: Start::AtOnce,
    };
    let words: Vec<_> = arguments(&parts).unwrap();
    let line = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    assert!(line.starts_with("-M q35,memory-backend=ram -accel tcg"), "{line}");
    assert!(line.contains("-object memory-backend-memfd,id=ram,size=256M,share=on -m 256M"), "{line}");
    assert!(line.contains("-device intel-iommu,caching-mode=on "), "{line}");
    let device = r#"{"driver":"vfio-user-pci","id":"nvme0","bus":"pcie.0","socket":{"type":"unix","path":"/tmp/a,b/0"},"addr":"0x4"}"#;
    assert!(line.contains(device) && !line.contains("nvme-ns") && !line.contains("blockdev"), "{line}");
}

#[test]
fn a_controller_that_moves_has_its_namespace_in_itself() {
    let with = |action, other| {
        let mut moving = scenario("hot_plug = true", "");
        moving.hot_plugs.push(HotPlug { controller: "a".into(), after_ms: 5, action, other });
        line(&moving, None, Time::Real)
    };
    let there = with(Action::Pull, false);
    assert!(there.contains(r#""driver":"nvme","id":"nvme0","bus":"port0","serial":"S1""#), "{there}");
    assert!(!there.contains("nvme-ns") && there.contains("acpi-pci-hotplug-with-bridge-support=off"), "{there}");
    let absent = with(Action::Insert, false);
    assert!(!absent.contains("nvme0") && absent.contains("pcie-root-port,id=port0"), "{absent}");
    assert!(absent.contains(r#""node-name":"d0n1""#), "{absent}");
    assert!(!line(&scenario("hot_plug = true", ""), None, Time::Real).contains("acpi"), "nothing moves");
    let other = with(Action::Insert, true);
    assert!(other.contains(r#""driver":"null-co","node-name":"other0","size":67108864,"read-zeroes":true"#), "{other}");
    assert!(!there.contains("other0"), "{there}");
}
