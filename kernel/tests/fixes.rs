//! Each fix of the kernel is needed and works. Builds kernels and boots QEMU, about a minute in all, so these tests run
//! only when asked for: `cargo test -p kernel -- --ignored`, or as a part of `cargo xtask test`.

use std::path::Path;

use kernel::{FixName, regress};

fn check(name: FixName) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    regress::check(root, name, &root.join("target/kernel/regress"), &mut |line| println!("{line}")).unwrap();
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn interrupts_pending_at_kernel_exit_do_no_harm() {
    check(FixName::StackAlignment);
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn deleting_one_of_several_frame_capabilities_removes_its_mapping() {
    check(FixName::FrameCopy);
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn a_device_without_an_address_space_reaches_nothing() {
    check(FixName::ContextCache);
}

#[test]
#[ignore = "builds kernels"]
fn the_multicore_kernel_links() {
    check(FixName::Popcount);
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn a_badge_that_does_not_fit_is_refused() {
    check(FixName::EndpointBadge);
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn an_unmapped_io_page_table_is_empty_and_has_no_copies() {
    check(FixName::IoPageTable);
}

#[test]
#[ignore = "builds kernels and boots QEMU"]
fn an_io_space_given_away_is_taken_back() {
    check(FixName::IoSpaceRevoke);
}
