use super::*;
use crate::testing::Machine;
use alloc::vec;
use platform::ObjectType;

fn machine(sizes: &[u8]) -> (sim_kernel::Invoker, BootInfo) {
    let Machine { root, boot, .. } = crate::testing::machine(sizes, &[]);
    (root, boot)
}

const fn demand(object_type: ObjectType, size_bits: u8, count: u64) -> Demand {
    Demand { object_type, size_bits, count, contiguous: false }
}

#[test]
fn what_fits_by_its_sum_does_fit() {
    // 2 MiB and 64 KiB and 4 KiB, asked for in the worst order: nothing is left.
    let (kernel, boot) = machine(&[12, 21, 16]);
    let mut allocator = Allocator::new(&boot);
    let demands = [
        demand(ObjectType::Endpoint, 0, 256),
        demand(ObjectType::SmallPage, 0, 7),
        demand(ObjectType::Untyped, 20, 1),
        demand(ObjectType::Tcb, 0, 2),
        demand(ObjectType::CNode, 10, 1),
        demand(ObjectType::Untyped, 19, 2),
    ];
    let made = allocator.make_all(&kernel, &demands).unwrap();
    assert_eq!(allocator.left(), 0);
    let lengths: Vec<u64> = made.iter().map(|cptrs| cptrs.end - cptrs.start).collect();
    assert_eq!(lengths, [256, 7, 1, 2, 1, 2]);
}

#[test]
fn many_objects_take_few_invocations() {
    let (kernel, boot) = machine(&[24]);
    let cptrs = Allocator::new(&boot).make_all(&kernel, &[demand(ObjectType::SmallPage, 0, 3000)]).unwrap();
    assert_eq!(kernel.invocations(), 12);
    let first = boot.free_cptrs.start;
    assert_eq!(cptrs, vec![first..first + 3000]);
}

#[test]
fn large_memory_stays_closed_while_small_does() {
    let (kernel, boot) = machine(&[27, 13, 16]);
    let mut allocator = Allocator::new(&boot);
    allocator.make_all(&kernel, &[demand(ObjectType::SmallPage, 0, 18)]).unwrap();
    assert_eq!(allocator.left(), 1 << 27);
}

#[test]
fn what_is_to_lie_together_is_in_one_block() {
    // More than one retype makes, with a fuller block that has room for the last of them.
    let (kernel, boot) = machine(&[21, 13, 18]);
    let mut allocator = Allocator::new(&boot);
    let pages = |count| demand(ObjectType::SmallPage, 0, count);
    let together = Demand { contiguous: true, ..pages(300) };
    allocator.make_all(&kernel, &[pages(3), together]).unwrap();
    let used: Vec<_> = allocator.blocks.iter().map(|block| block.used / 4096).collect();
    assert_eq!(used, [2, 1, 300]);
    let refused = allocator.make_all(&kernel, &[Demand { count: 213, ..together }]);
    assert!(matches!(refused, Err(BuildError::NoMemory { .. })), "though all that is left would be enough");
}

#[test]
fn missing_memory_is_said_before_anything_is_made() {
    let (kernel, boot) = machine(&[16]);
    let demands = [demand(ObjectType::SmallPage, 0, 3), demand(ObjectType::SmallPage, 0, 14)];
    let refused = Allocator::new(&boot).make_all(&kernel, &demands);
    assert_eq!(refused, Err(BuildError::NoMemory { asked: 17 * 4096, available: 16 * 4096 }));
    assert_eq!(kernel.invocations(), 0);
}

#[test]
fn memory_in_too_small_pieces_is_not_counted_as_available() {
    let (kernel, boot) = machine(&[20, 20]);
    let refused = Allocator::new(&boot).make_all(&kernel, &[demand(ObjectType::LargePage, 0, 1)]);
    assert_eq!(refused, Err(BuildError::NoMemory { asked: 1 << 21, available: 0 }));
}

#[test]
fn used_up_cptrs_are_named() {
    let (kernel, boot) = machine(&[24]);
    let boot = BootInfo { free_cptrs: 100..110, ..boot };
    let refused = Allocator::new(&boot).make_all(&kernel, &[demand(ObjectType::Endpoint, 0, 11)]);
    assert_eq!(refused, Err(BuildError::NoCptrs { asked: 11, available: 10 }));
}
