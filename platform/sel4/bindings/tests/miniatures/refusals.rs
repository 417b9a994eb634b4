//! Refusals, each in one sentence: missing files, unknown names, and forms that the generator does not know.

use crate::prefix::Prefix;
use std::path::{Path, PathBuf};

const OBJECTS: &str = "interfaces/object-api.xml";

#[test]
fn a_missing_file_is_named_and_was_reported_as_read() {
    let prefix = Prefix::x86_64().without_file("sel4/errors.h");
    let mut reads = Vec::new();
    let error = prefix.generate(&mut |file: &Path| reads.push(file.to_path_buf())).unwrap_err();
    let missing = prefix.path("sel4/errors.h");
    let begin = format!("cannot read the kernel's file {}: ", missing.display());
    assert!(error.starts_with(&begin) && error.ends_with("; run `cargo xtask setup`"), "{error}");
    // Cargo runs the build script again when the file appears.
    assert_eq!(reads.last(), Some(&missing));
}

#[test]
fn every_file_that_is_read_is_reported() {
    let prefix = Prefix::aarch64();
    let mut reads = Vec::new();
    prefix.generate(&mut |file: &Path| reads.push(file.to_path_buf())).unwrap();
    let distinct: std::collections::BTreeSet<&PathBuf> = reads.iter().collect();
    assert_eq!(distinct.len(), 24);
}

#[test]
fn a_folder_without_an_installed_configuration_is_read_as_a_built_kernel() {
    let error = Prefix::x86_64().without_file("kernel/gen_config.h").error();
    assert!(error.starts_with("cannot read the kernel's file autoconf.h: "), "{error}");
}

#[test]
fn unknown_names_in_an_interface_are_refused() {
    let refusal = |old: &str, new: &str| Prefix::x86_64().with(OBJECTS, old, new).error();
    assert_eq!(refusal("\"TCBSuspend\"", "\"TCBSleep\""), "the method TCBSleep has no label");
    let kind = refusal("name=\"num_objects\" type=\"seL4_Word\"", "name=\"num_objects\" type=\"seL4_Tuple\"");
    assert_eq!(kind, "the unknown type seL4_Tuple in an interface");
}

#[test]
fn an_interface_of_another_form_is_refused() {
    let refusal = |old: &str, new: &str| Prefix::x86_64().with(OBJECTS, old, new).error();
    assert_eq!(refusal("<method id=\"TCBSuspend\"", "<method"), "a `method` without `id`");
    assert_eq!(refusal("<interface name=\"seL4_TCB\">", "<interface>"), "a `interface` without `name`");
    assert_eq!(refusal("dir=\"in\" name=\"num_objects\"", "name=\"num_objects\""), "a `param` without `dir`");
    let error = refusal("</api>", "</apis>");
    assert!(error.starts_with("an interface file is no XML: "), "{error}");
    let syscall = Prefix::x86_64().with("api/syscall.xml", "name=\"DebugPutChar\"", "");
    assert_eq!(syscall.with_options(&["CONFIG_PRINTING"]).error(), "a `syscall` without `name`");
}

#[test]
fn a_condition_that_cannot_be_decided_is_refused() {
    let refusal = |old: &str, new: &str| Prefix::x86_64().with(OBJECTS, old, new).error();
    let attribute = refusal("name=\"Suspend\"", "name=\"Suspend\" condition=\"defined(CONFIG_IOMMU\"");
    assert_eq!(attribute, "cannot decide `defined(CONFIG_IOMMU`");
    let one = "<config var=\"CONFIG_ENABLE_SMP_SUPPORT\"/>";
    assert_eq!(refusal(one, "<xor/>"), "a condition has the unknown element `xor`");
    assert_eq!(refusal(one, "<config name=\"CONFIG_ENABLE_SMP_SUPPORT\"/>"), "a `config` without `var`");
    let directive = Prefix::x86_64().with("sel4/arch/objecttype.h", "defined(CONFIG_IOMMU)", "defined(CONFIG_IOMMU");
    assert_eq!(directive.error(), "cannot decide `defined(CONFIG_IOMMU`");
}

#[test]
fn branches_without_a_condition_are_refused() {
    let header = "sel4/macros.h";
    let open = "#if __STDC_VERSION__ >= 202311\n#define LIBSEL4_BIT(n) 0\n";
    let refusal = |old: &str, new: &str| Prefix::x86_64().with(header, old, new).error();
    assert_eq!(refusal(open, ""), "#else without #if");
    assert_eq!(refusal("#else\n", "#else\n#endif\n"), "#endif without #if");
    assert_eq!(refusal("#endif", ""), "#if without #endif");
    assert_eq!(refusal(open, "#elif 1\n"), "#elif without #if");
    // Elsewhere, too: bitfields and structures are preprocessed apart.
    let file = Prefix::x86_64().with("sel4/shared_types.pbf", "base 64", "#if 1\nbase 64");
    assert_eq!(file.error(), "#if without #endif");
}

#[test]
fn a_field_of_unknown_size_is_refused() {
    let header = "sel4/bootinfo_types.h";
    let kind = Prefix::x86_64().with(header, "seL4_Word extraLen", "seL4_Tuple extraLen");
    assert_eq!(kind.error(), "seL4_BootInfo.extraLen has the unknown type seL4_Tuple");
    let count = Prefix::x86_64().with(header, "[CONFIG_MAX_NUM_BOOTINFO_UNTYPED_CAPS]", "[CONFIG_MANY]");
    assert_eq!(count.error(), "seL4_BootInfo.untypedList has no known number of elements");
}

#[test]
fn a_word_without_the_size_of_a_field_is_refused() {
    let refusal = |old: &str, new: &str| Prefix::x86_64().with("sel4/shared_types.pbf", old, new).error();
    assert_eq!(refusal("capAllowGrant 1", "capAllowGrant one"), "a field without a size");
}
