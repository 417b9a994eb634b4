//! Miniature prefixes, with texts of our own.

use super::*;
use serde_json::json;
use tempfile::TempDir;

/// Options that suit the project's machine.
fn suitable(arch: Arch) -> Value {
    match arch {
        Arch::X86_64 => json!({
            "SEL4_ARCH": "x86_64", "PLAT": "pc99", "MAX_NUM_NODES": "1", "ROOT_CNODE_SIZE_BITS": "17", "KERNEL_MCS": false,
            "SUPPORT_PCID": false, "IOMMU": true,
        }),
        Arch::Aarch64 => json!({
            "SEL4_ARCH": "aarch64", "PLAT": "qemu-arm-virt", "MAX_NUM_NODES": "1", "ROOT_CNODE_SIZE_BITS": "17",
            "ARM_CORTEX_A57": true, "EXPORT_PCNT_USER": true, "EXPORT_VCNT_USER": true, "EXPORT_PTMR_USER": true,
        }),
    }
}

/// A prefix in which these options differ.
struct Prefix {
    folder: TempDir,
    arch: Arch,
}

impl Prefix {
    fn new(arch: Arch, changes: &Value) -> Self {
        let prefix = Self { folder: TempDir::new().unwrap(), arch };
        let mut options = suitable(arch);
        options.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        prefix.write("bin/kernel.elf", "");
        prefix.write("libsel4/include/kernel/gen_config.json", &options.to_string());
        prefix.interface("", "");
        prefix
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Methods and formats that the interface has.
    fn interface(&self, methods: &str, formats: &str) {
        self.write("libsel4/include/interfaces/object-api.xml", methods);
        self.write("libsel4/include/sel4/sel4_arch/types.pbf", formats);
    }

    fn place(&self) -> Place {
        Place::installed(self.folder.path(), "--kernel").unwrap()
    }

    fn check(&self) -> Result<Installed> {
        let place = self.place();
        check(&place.options().unwrap(), &place, self.arch)
    }

    fn refusal(&self) -> String {
        self.check().unwrap_err().to_string()
    }
}

#[test]
fn configuration_that_does_not_suit_the_machine_is_refused_with_its_option() {
    let of_both = [
        (json!({"KERNEL_MCS": true}), "-DKernelIsMCS=OFF"),
        (json!({"MAX_NUM_NODES": "4"}), "-DKernelMaxNumNodes=1"),
        (json!({"ROOT_CNODE_SIZE_BITS": "12"}), "-DKernelRootCNodeSizeBits=17"),
    ];
    let of_x86 = [
        (json!({"PLAT": "rocketchip"}), "-DKernelPlatform=pc99 -DKernelSel4Arch=x86_64"),
        (json!({"SEL4_ARCH": "ia32"}), "-DKernelPlatform=pc99 -DKernelSel4Arch=x86_64"),
        (json!({"SUPPORT_PCID": true}), "-DKernelSupportPCID=OFF"),
    ];
    let of_arm = [
        (json!({"PLAT": "zynqmp"}), "-DKernelPlatform=qemu-arm-virt -DKernelSel4Arch=aarch64"),
        (json!({"ARM_CORTEX_A57": false}), "-DARM_CPU=cortex-a57"),
        (json!({"ARM_HYPERVISOR_SUPPORT": true}), "-DKernelArmHypervisorSupport=OFF"),
        (json!({"ARM_GIC_V3_SUPPORT": true}), "-DQEMU_GIC_VERSION=2"),
        (json!({"EXPORT_PCNT_USER": false}), "-DKernelArmExportPCNTUser=ON"),
        (json!({"EXPORT_VCNT_USER": false}), "-DKernelArmExportVCNTUser=ON"),
        (json!({"EXPORT_PTMR_USER": false}), "-DKernelArmExportPTMRUser=ON"),
    ];
    for (arch, cases) in [(Arch::X86_64, &of_x86[..]), (Arch::Aarch64, &of_arm[..])] {
        assert!(Prefix::new(arch, &json!({})).check().is_ok(), "{arch}");
        for (change, option) in of_both.iter().chain(cases) {
            let refusal = Prefix::new(arch, change).refusal();
            assert!(refusal.contains(&format!(": configure it with {option}, or ")), "{change}: {refusal}");
        }
    }
}

#[test]
fn kernel_for_the_other_architecture_is_refused_with_its_name() {
    let refusal = Prefix::new(Arch::X86_64, &suitable(Arch::Aarch64)).refusal();
    assert!(refusal.ends_with("is for aarch64: add --arch aarch64, or name another prefix"), "{refusal}");
}

#[test]
fn memory_is_compared_where_it_is_stated() {
    let prefix = Prefix::new(Arch::Aarch64, &json!({}));
    prefix.write("support/platform_gen.json", r#"{"memory": [{"start": 1073741824, "end": 2147483648}]}"#);
    assert!(prefix.check().is_ok());
    prefix.write("support/platform_gen.json", r#"{"memory": [{"start": 1073741824, "end": 3221225472}]}"#);
    assert!(prefix.refusal().ends_with("configure it with -DQEMU_MEMORY=1024"), "{}", prefix.refusal());
}

#[test]
fn processor_and_warnings_follow_the_options() {
    let of = |changes| Prefix::new(Arch::X86_64, &changes).check().unwrap();
    let plain = of(json!({}));
    assert_eq!((plain.processor, plain.warnings.len(), plain.iommu, plain.cnode_bits), ("Nehalem", 0, true, 17));
    for name in NEED_NEWER {
        assert_eq!(of(json!({name: true})).processor, "max");
    }
    assert!(!of(json!({"IOMMU": false})).iommu);
    let warnings = of(json!({"KERNEL_SKIM_WINDOW": true, "PRINTING": true})).warnings;
    assert!(warnings[0].ends_with("-DKernelSkimWindow=OFF") && warnings[1].ends_with("-DKernelPrinting=OFF"));
}

#[test]
fn release_is_told_from_the_interface() {
    let of = |arch, methods: &str, formats: &str| {
        let prefix = Prefix::new(arch, &json!({}));
        prefix.interface(methods, formats);
        prefix.check().unwrap().release.to_string()
    };
    let (flags, schedules) = ("<method id=\"TCBSetFlags\"/>", "<method id=\"DomainScheduleConfigure\"/>");
    for (arch, newest) in [(Arch::X86_64, "seL4 15.0.0"), (Arch::Aarch64, "seL4 15.0.0 or later")] {
        assert_eq!(of(arch, "", ""), "seL4 13.0.0");
        assert_eq!(of(arch, flags, ""), "seL4 14.0.0");
        assert_eq!(of(arch, schedules, ""), newest);
    }
    assert_eq!(of(Arch::X86_64, schedules, "block seL4_X86_IOSpace_CapData"), "seL4 16.0.0 or later");
}

#[test]
fn option_comes_before_the_variables_and_the_architecture_s_own_first() {
    let prefixes: Vec<_> = (0..3).map(|_| Prefix::new(Arch::X86_64, &json!({}))).collect();
    let path = |number: usize| prefixes[number].folder.path();
    let environment = |names: &'static [(&'static str, usize)]| {
        move |asked: &str| names.iter().find(|(name, _)| *name == asked).map(|(_, number)| path(*number).into())
    };
    let found = |option, names| Place::of(Arch::X86_64, option, environment(names)).unwrap();
    let both: &[_] = &[("SEL4_PREFIX", 0), ("SEL4_PREFIX_x86_64", 1)];
    assert_eq!(found(Some(path(2)), both), Some(prefixes[2].place()));
    assert_eq!(found(None, both), Some(prefixes[1].place()));
    assert_eq!(found(None, &[("SEL4_PREFIX", 0), ("SEL4_PREFIX_aarch64", 1)]), Some(prefixes[0].place()));
    let alone = Place::of(Arch::X86_64, None, environment(&[("SEL4_KERNEL", 0)])).unwrap_err().to_string();
    assert!(alone.starts_with("SEL4_KERNEL is set, and SEL4_INCLUDE_DIRS is not"), "{alone}");
    let error = Place::of(Arch::X86_64, Some(Path::new("/nowhere")), |_| None).unwrap_err().to_string();
    assert!(error.starts_with("--kernel: there is no /nowhere/bin/kernel.elf"), "{error}");
}

#[test]
fn other_builders_variables_name_the_files() {
    let prefix = Prefix::new(Arch::X86_64, &json!({}));
    let kernel = prefix.folder.path().join("bin/kernel.elf");
    let folders = |last: PathBuf| env::join_paths([PathBuf::from("/nowhere"), last]).unwrap();
    let find = |folders: OsString| {
        Place::of(Arch::X86_64, None, |name| match name {
            "SEL4_KERNEL" => Some(kernel.clone().into()),
            "SEL4_INCLUDE_DIRS" => Some(folders.clone()),
            _ => None,
        })
    };
    let place = find(folders(prefix.folder.path().join("libsel4/include"))).unwrap().unwrap();
    assert_eq!((place.kernel, place.include), (prefix.place().kernel, prefix.place().include));
    assert!(
        find(folders("/nowhere".into())).unwrap_err().to_string().starts_with("no folder of SEL4_INCLUDE_DIRS has")
    );
}
