//! Every kind of condition, on and off: in headers, in elements of an interface, and in attributes.

use crate::prefix::Prefix;

#[test]
fn without_budgets_calls_are_numbered_from_minus_one() {
    let bindings = Prefix::x86_64().bindings();
    let calls = ["Call", "ReplyRecv", "Send", "NBSend", "Recv", "Reply", "Yield", "NBRecv"];
    assert_eq!(calls.map(|name| bindings.syscall(name).unwrap()), [-1, -2, -3, -4, -5, -6, -7, -8]);
    let others = ["NBSendWait", "DebugPutChar", "DebugSnapshot", "VMEnter", "SetTLSBase"];
    assert_eq!(others.map(|name| bindings.syscall(name)), [None; 5]);
}

#[test]
fn further_calls_follow_on_the_same_count() {
    let bindings = |options: &[&str]| {
        let bindings = Prefix::x86_64().with_options(options).bindings();
        ["DebugPutChar", "DebugSnapshot", "VMEnter", "SetTLSBase"].map(|name| bindings.syscall(name))
    };
    assert_eq!(bindings(&["CONFIG_PRINTING", "CONFIG_SET_TLS_BASE_SELF"]), [Some(-9), None, None, Some(-10)]);
    assert_eq!(bindings(&["CONFIG_FSGSBASE_INST"]), [None, None, None, Some(-9)], "either option");
    assert_eq!(bindings(&["CONFIG_VTX"]), [None, None, Some(-9), None], "by attribute");
    assert_eq!(bindings(&["CONFIG_DEBUG_BUILD"]), [None, Some(-9), None, None], "one and not the other");
    assert_eq!(bindings(&["CONFIG_DEBUG_BUILD", "CONFIG_ENABLE_SMP_SUPPORT"]), [None; 4], "one and the other");
}

#[test]
fn a_kernel_with_budgets_has_its_own_calls_and_methods() {
    let bindings = Prefix::aarch64().with_options(&["CONFIG_KERNEL_MCS"]).bindings();
    let calls = ["Call", "ReplyRecv", "NBSendRecv", "NBSendWait"];
    assert_eq!(calls.map(|name| bindings.syscall(name).unwrap()), [-1, -2, -3, -4]);
    assert_eq!(bindings.syscall("Reply"), None);
    let configure = "5, &[cspace_root, vspace_root, bufferFrame], &[cspace_root_data, vspace_root_data, buffer]";
    assert_eq!(bindings.message("seL4_TCB_Configure").unwrap(), configure);
    assert_eq!(bindings.message("seL4_CNode_SaveCaller"), None);
    assert_eq!(bindings.label("seL4_IRQControl_Get"), Some(24), "the label before it is gone");
    assert_eq!(bindings.constant("seL4_NotificationBits"), Some(6));
    assert_eq!(bindings.constant("seL4_ARM_VSpaceObject"), Some(8));
    assert_eq!(bindings.offset("seL4_BootInfo", "untyped"), Some(168));
    assert_eq!(bindings.features(), [""; 0]);
}

#[test]
fn methods_and_labels_of_an_option_come_and_go_together() {
    let without = Prefix::x86_64().without_option("CONFIG_IOMMU").bindings();
    assert_eq!(without.message("seL4_X86_Page_MapIO"), None);
    assert_eq!(without.message("seL4_X86_IOPageTable_Map"), None);
    assert_eq!(without.label("seL4_X86_Page_Map"), Some(39));
    assert_eq!(without.constant("seL4_X86_IOPageTableObject"), None);

    let affinity = |options: &[&str]| {
        let bindings = Prefix::x86_64().with_options(options).bindings();
        (bindings.label("seL4_TCB_SetAffinity"), bindings.label("seL4_TCB_SetFlags"))
    };
    assert_eq!(affinity(&[]), (None, Some(16)));
    assert_eq!(affinity(&["CONFIG_ENABLE_SMP_SUPPORT"]), (Some(15), Some(17)));
}

#[test]
fn attributes_of_older_interfaces_are_conditions_too() {
    let message = |options: &[&str], method| Prefix::aarch64().with_options(options).bindings().message(method);
    assert!(message(&[], "seL4_IRQControl_GetTrigger").is_some());
    assert_eq!(message(&["CONFIG_ARM_GIC_V3_SUPPORT"], "seL4_IRQControl_GetTrigger"), None);
    assert_eq!(message(&[], "seL4_ARM_VCPU_SetTCB"), None);
}

#[test]
fn headers_have_the_branch_that_holds() {
    let bits = |config: &str| {
        let file = "kernel/gen_config.h";
        let prefix =
            Prefix::x86_64().with(file, "#define CONFIG_IOMMU 1", &format!("#define CONFIG_IOMMU 1\n{config}"));
        let bindings = prefix.bindings();
        (bindings.constant("seL4_TCBBits").unwrap(), bindings.constant("seL4_X86_4K").unwrap())
    };
    assert_eq!(bits(""), (11, 7));
    assert_eq!(bits("#define CONFIG_XSAVE_SIZE 576"), (11, 7));
    assert_eq!(bits("#define CONFIG_XSAVE_SIZE 832\n#define CONFIG_HUGE_PAGE 1"), (12, 8));
}
