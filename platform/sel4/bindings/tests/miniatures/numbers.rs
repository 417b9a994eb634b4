//! Labels, offsets, words, and the order of messages.

use crate::prefix::{Parts, Prefix};
use sel4_bindings::FEATURES;

fn check_constants(bindings: &Parts, expected: &[(&str, u64)]) {
    for (name, value) in expected {
        assert_eq!(bindings.constant(name), Some(*value), "{name}");
    }
}

#[test]
fn labels_are_those_of_the_releases() {
    let labels = |bindings: Parts, expected: &[(&str, u64)]| {
        for (method, label) in expected {
            assert_eq!(bindings.label(method), Some(*label), "{method}");
        }
    };
    let of_16 = [
        ("seL4_Untyped_Retype", 1),
        ("seL4_TCB_Configure", 5),
        ("seL4_TCB_SetFlags", 16),
        ("seL4_CNode_Revoke", 17),
        ("seL4_CNode_SaveCaller", 25),
        ("seL4_IRQHandler_Clear", 29),
        ("seL4_X86_PDPT_Map", 33),
        ("seL4_X86_PageDirectory_Map", 35),
        ("seL4_X86_Page_MapIO", 43),
        ("seL4_X86_IOPortControl_Issue", 47),
        ("seL4_IRQControl_GetMSI", 55),
    ];
    labels(Prefix::x86_64().bindings(), &of_16);
    let of_13 = [
        ("seL4_Untyped_Retype", 1),
        ("seL4_TCB_Configure", 5),
        ("seL4_CNode_Revoke", 16),
        ("seL4_CNode_SaveCaller", 24),
        ("seL4_IRQHandler_Clear", 28),
        ("seL4_ARM_VSpace_Clean_Data", 30),
        ("seL4_ARM_PageTable_Map", 35),
        ("seL4_ARM_Page_GetAddress", 43),
        ("seL4_IRQControl_GetTrigger", 46),
    ];
    labels(Prefix::aarch64().bindings(), &of_13);
}

#[test]
fn objects_count_on_from_one_header_to_the_next() {
    let of_both = [("seL4_UntypedObject", 0), ("seL4_CapTableObject", 4), ("seL4_NonArchObjectTypeCount", 5)];
    let x86_64 = Prefix::x86_64().bindings();
    check_constants(&x86_64, &of_both);
    check_constants(&x86_64, &[("seL4_X64_PML4Object", 6), ("seL4_X86_4K", 7), ("seL4_X86_IOPageTableObject", 11)]);
    let aarch64 = Prefix::aarch64().bindings();
    check_constants(&aarch64, &of_both);
    let objects =
        [("seL4_ARM_VSpaceObject", 6), ("seL4_ARM_PageTableObject", 9), ("seL4_ARM_IOPageTableObject", 0xffff)];
    check_constants(&aarch64, &objects);
}

#[test]
fn entries_that_call_a_macro_have_values() {
    let attributes = [
        ("seL4_ARM_PageCacheable", 1),
        ("seL4_ARM_ParityEnabled", 2),
        ("seL4_ARM_Default_VMAttributes", 3),
        ("seL4_ARM_ExecuteNever", 4),
    ];
    check_constants(&Prefix::aarch64().bindings(), &attributes);
    check_constants(&Prefix::x86_64().bindings(), &[("seL4_TCBFlag_fpuDisabled", 1), ("seL4_MsgMaxExtraCaps", 3)]);
}

#[test]
fn fields_of_the_boot_info_have_the_kernels_offsets() {
    for bindings in [Prefix::x86_64().bindings(), Prefix::aarch64().bindings()] {
        let expected = [
            ("seL4_BootInfo", "extraLen", 0),
            ("seL4_BootInfo", "numIOPTLevels", 24),
            ("seL4_BootInfo", "ipcBuffer", 32),
            ("seL4_BootInfo", "empty", 40),
            ("seL4_BootInfo", "userImageFrames", 72),
            ("seL4_BootInfo", "userImagePaging", 88),
            ("seL4_BootInfo", "initThreadCNodeSizeBits", 136),
            ("seL4_BootInfo", "untyped", 152),
            ("seL4_BootInfo", "untypedList", 168),
            ("seL4_BootInfo", "SIZE", 3848),
            ("seL4_SlotRegion", "end", 8),
            ("seL4_UntypedDesc", "sizeBits", 8),
            ("seL4_UntypedDesc", "isDevice", 9),
            ("seL4_UntypedDesc", "SIZE", 16),
            ("seL4_BootInfoHeader", "len", 8),
            ("seL4_BootInfoHeader", "SIZE", 16),
        ];
        for (structure, field, offset) in expected {
            assert_eq!(bindings.offset(structure, field), Some(offset), "{structure}.{field}");
        }
    }
}

#[test]
fn the_message_buffer_has_the_kernels_offsets() {
    let bindings = Prefix::x86_64().bindings();
    let fields = ["tag", "msg", "userData", "caps_or_badges", "receiveCNode", "receiveIndex", "receiveDepth", "SIZE"];
    let offsets = fields.map(|field| bindings.offset("seL4_IPCBuffer", field).unwrap());
    assert_eq!(offsets, [0, 8, 968, 976, 1000, 1008, 1016, 1024]);
}

#[test]
fn words_have_their_fields_from_the_highest_bit_down() {
    for bindings in [Prefix::x86_64().bindings(), Prefix::aarch64().bindings()] {
        let rights = [
            "(capAllowGrantReply & 0x1) << 3",
            "(capAllowGrant & 0x1) << 2",
            "(capAllowRead & 0x1) << 1",
            "(capAllowWrite & 0x1) << 0",
        ];
        assert_eq!(bindings.word("seL4_CapRights"), rights);
        let guard = ["(guard & 0x3ffffffffffffff) << 6", "(guardSize & 0x3f) << 0"];
        assert_eq!(bindings.word("seL4_CNode_CapData"), guard);
        let description = [
            "(label & 0xfffffffffffff) << 12",
            "(capsUnwrapped & 0x7) << 9",
            "(extraCaps & 0x3) << 7",
            "(length & 0x7f) << 0",
        ];
        assert_eq!(bindings.word("seL4_MessageInfo"), description);
        assert_eq!(bindings.tag("seL4_Fault", "VMFault"), Some(5));
        assert_eq!(bindings.word("VMFault"), [""; 0], "more than a word");
    }
    let io_space = ["(domainID & 0xffff) << 16", "(pciBus & 0xff) << 8", "(pciDev & 0x1f) << 3", "(pciFun & 0x7) << 0"];
    assert_eq!(Prefix::x86_64().bindings().word("seL4_X86_IOSpace_CapData"), io_space);
}

#[test]
fn messages_have_capabilities_apart_and_small_arguments_in_one_word() {
    let bindings = Prefix::x86_64().bindings();
    let message = |method| bindings.message(method).unwrap();
    assert_eq!(message("seL4_TCB_Suspend"), "11, &[], &[]");
    assert_eq!(
        message("seL4_TCB_Configure"),
        "5, &[cspace_root, vspace_root, bufferFrame], &[fault_ep, cspace_root_data, vspace_root_data, buffer]"
    );
    assert_eq!(
        message("seL4_CNode_Copy"),
        "20, &[src_root], &[dest_index, (dest_depth & 0xff) << 0, src_index, (src_depth & 0xff) << 0, rights]"
    );
    // A truth value is a bit, and a byte begins at the next byte.
    assert_eq!(
        message("seL4_TCB_ReadRegisters"),
        "2, &[], &[(suspend_source & 0x1) << 0 | (arch_flags & 0xff) << 8, count]"
    );
    assert_eq!(
        message("seL4_X86_IOPortControl_Issue"),
        "47, &[root], &[first_port, last_port, index, (depth & 0xff) << 0]"
    );
    assert_eq!(message("seL4_X86_IOPort_In8"), "48, &[], &[(port & 0xffff) << 0]");
    let registers = message("seL4_TCB_WriteRegisters");
    assert!(registers.contains("count, regs[0], regs[1]") && registers.ends_with("regs[19]]"), "{registers}");
}

#[test]
fn registers_have_the_order_of_the_interface() {
    let x86_64 = Prefix::x86_64().bindings();
    let places = ["rip", "rsp", "rdi", "rsi", "rdx", "WORDS"].map(|name| x86_64.register(name).unwrap());
    assert_eq!(places, [0, 1, 8, 7, 6, 20]);
    let aarch64 = Prefix::aarch64().bindings();
    let places = ["pc", "sp", "x0", "x1", "x2", "x9", "WORDS"].map(|name| aarch64.register(name).unwrap());
    assert_eq!(places, [0, 1, 3, 4, 5, 17, 36]);
}

#[test]
fn features_are_those_that_the_interface_has() {
    assert_eq!(Prefix::x86_64().bindings().features(), ["sel4_sched_params", "sel4_fpu_flag"]);
    assert_eq!(Prefix::aarch64().bindings().features(), ["sel4_sched_params"]);
    assert_eq!(Prefix::x86_64().with_options(&["CONFIG_PRINTING"]).bindings().features(), FEATURES);
}
