use super::super::numbers::{all, number_of};
use super::*;
use crate::iommu::Iommu;
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Status, StatusCode};
use platform::Paddr;
use sim_check::{Discard, NamespaceRules, WriteCache};
use sim_kernel::{Kernel, MachineConfig};
use zerocopy::IntoBytes;

const SYSTEM: &str = r#"
name = "a"
description = "b"
[[controller]]
name = "disk"
virtual_functions = 3
[[controller.namespace]]
size = "1M"
[[controller.namespace]]
size = "1M"
[[tenant]]
name = "alice"
queue_pairs = 1
extents = [{ first = 0, blocks = 64 }]
program.name = "bench"
[tenant.program.config]
[[tenant]]
name = "bob"
path = "function"
namespace = 2
queue_pairs = 1
program.name = "bench"
[tenant.program.config]
"#;

/// The number of the first function, which is bob's.
const FUNCTION: u32 = 1;
const NSID: u32 = 2;
/// Memory of the function, whose addresses are physical ones.
const AT: u64 = 32 << 20;

fn scenario() -> Scenario {
    Scenario::parse(SYSTEM, "a").unwrap()
}

struct System {
    kernel: Kernel,
    functions: Functions,
    sessions: Vec<Session>,
    rights: Rights,
    data: Data,
    findings: Findings,
}

impl System {
    fn new() -> Self {
        let scenario = scenario();
        let config = MachineConfig { iommu: sim_kernel::Iommu::Absent, ..MachineConfig::q35(64 << 20, Vec::new()) };
        let mut data = Data::new();
        let rules = NamespaceRules { block_bytes: 512, discard: Discard::OldOrZeroes, write_cache: WriteCache::None };
        data.namespace(0, NSID, rules, Box::new(|_| hash_block(&[0; 512])));
        Self {
            kernel: Kernel::boot(config).0,
            functions: Functions::new(&scenario),
            rights: Rights::new(&scenario),
            sessions: scenario.tenants.iter().map(|tenant| Session::new(&scenario, tenant)).collect(),
            data,
            findings: Findings::new(10),
        }
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        self.kernel.memory_mut().write(Paddr::new(AT + offset), bytes).unwrap();
    }

    fn happened(&mut self, number: u32, event: &Event) {
        let Self { kernel, functions, sessions, rights, data, findings } = self;
        let memory = DeviceMemory { iommu: &Iommu::Kernels, kernel, requester_id: 0x101 };
        functions.happened(number, event, memory, 1, Judges { sessions, rights, data, findings });
    }

    fn fetched(&mut self, sqe: Sqe) {
        self.happened(FUNCTION, &Event::Fetched { sq: 1, sqe });
    }

    fn over(&mut self, cid: u16, status: Status) {
        self.happened(FUNCTION, &over(cid, status));
    }

    fn executed(&mut self, sqe: Sqe) {
        self.fetched(sqe);
        self.over(sqe.cid().0, Status::SUCCESS);
    }
}

const fn over(cid: u16, status: Status) -> Event {
    Event::Over(Record {
        sq: 1,
        cid,
        opcode: 0,
        nsid: NSID,
        slba: 0,
        blocks: 0,
        status,
        fetched_ns: 1,
        completed_ns: 1,
        postings: 1,
    })
}

fn blocks(first: u64, count: u32) -> Blocks {
    Blocks::new(Lba(first), count).unwrap()
}

fn write(cid: u16, at: Blocks) -> Sqe {
    nvm::write(Cid(cid), Nsid(NSID), at, DataPointer::page(AT))
}

fn read(cid: u16, at: Blocks) -> Sqe {
    nvm::read(Cid(cid), Nsid(NSID), at, DataPointer::page(AT))
}

#[test]
fn functions_are_numbered_after_the_controllers_in_the_order_of_their_tenants() {
    let scenario = scenario();
    let names: Vec<_> =
        all(&scenario).map(|(physical, tenant)| (physical, tenant.map(|one| one.name.as_str()))).collect();
    assert_eq!(names, [(0, Some("bob")), (0, None), (0, None)]);
    let numbers: Vec<_> = scenario.tenants.iter().map(|tenant| number_of(&scenario, tenant)).collect();
    assert_eq!(numbers, [None, Some(FUNCTION)]);
}

#[test]
fn reads_of_what_a_function_wrote_are_accepted_and_others_reported() {
    let mut system = System::new();
    system.put(0, &[7; 4096]);
    system.executed(write(1, blocks(8, 8)));
    system.executed(read(2, blocks(8, 8)));
    assert!(system.findings.is_empty());
    system.put(512 * 3, &[6]);
    system.executed(read(3, blocks(8, 8)));
    assert_eq!(system.findings.counted(), 1);
}

#[test]
fn compare_that_succeeds_shows_the_content_as_a_read_does() {
    let compare = |cid| nvm::compare(Cid(cid), Nsid(NSID), blocks(8, 8), DataPointer::page(AT));
    let mut system = System::new();
    system.put(0, &[7; 4096]);
    system.executed(write(1, blocks(8, 8)));
    system.executed(compare(2));
    system.executed(nvm::verify(Cid(3), Nsid(NSID), blocks(8, 8)));
    system.put(512 * 3, &[6]);
    system.fetched(compare(4));
    system.over(4, Status::new(StatusCode::CompareFailure));
    assert!(system.findings.is_empty());
    system.executed(compare(5));
    assert_eq!(system.findings.counted(), 1, "it differs");
}

#[test]
fn zeroes_and_discarded_blocks_are_judged_too() {
    let mut system = System::new();
    system.put(0, &[7; 4096]);
    system.executed(write(1, blocks(0, 8)));
    system.executed(nvm::write_zeroes(Cid(2), Nsid(NSID), blocks(0, 4)));
    system.put(0x1000, nvm::Range::new(Lba(4), 4).unwrap().as_bytes());
    system.executed(nvm::deallocate(Cid(3), Nsid(NSID), 0, DataPointer::page(AT + 0x1000)));
    system.executed(nvm::flush(Cid(4), Nsid(NSID)));
    system.put(0, &[0; 2048]);
    system.executed(read(5, blocks(0, 8)));
    assert!(system.findings.is_empty(), "the discarded half may be as before");
    system.put(0, &[7]);
    system.executed(read(6, blocks(0, 8)));
    assert_eq!(system.findings.counted(), 1);
}

#[test]
fn write_that_failed_or_ended_with_a_reset_may_have_happened_or_not() {
    let ends: [fn(&mut System); 2] = [
        |system| system.over(1, Status::new(StatusCode::InternalError)),
        |system| system.happened(FUNCTION, &Event::Stopped),
    ];
    for end in ends {
        for byte in [0, 7] {
            let mut system = System::new();
            system.put(0, &[7; 512]);
            system.fetched(write(1, blocks(0, 1)));
            end(&mut system);
            system.put(0, &[byte; 512]);
            system.executed(read(2, blocks(0, 1)));
            assert!(system.findings.is_empty());
        }
    }
}

#[test]
fn commands_of_others_and_for_other_namespaces_are_not_the_functions() {
    let mut system = System::new();
    system.put(0, &[7; 512]);
    for number in [0, 2, 3] {
        system.happened(number, &Event::Fetched { sq: 1, sqe: write(1, blocks(0, 1)) });
        system.happened(number, &over(1, Status::SUCCESS));
    }
    system.executed(nvm::write(Cid(2), Nsid(1), blocks(0, 1), DataPointer::page(AT)));
    system.happened(FUNCTION, &Event::Fetched { sq: 0, sqe: write(3, blocks(0, 1)) });
    system.put(0, &[0; 512]);
    system.executed(read(4, blocks(0, 1)));
    assert!(system.findings.is_empty());
}

#[test]
fn data_is_found_through_lists_that_go_on_in_another_page() {
    let mut system = System::new();
    let pages = [3, 9, 5, 11].map(|page| AT + page * PAGE);
    let (list, rest) = (AT + PAGE - 2 * ENTRY, AT + 2 * PAGE);
    system.put(PAGE - 2 * ENTRY, &pages[1].to_le_bytes());
    system.put(PAGE - ENTRY, &rest.to_le_bytes());
    system.put(2 * PAGE, &pages[2].to_le_bytes());
    system.put(2 * PAGE + ENTRY, &pages[3].to_le_bytes());
    let memory = DeviceMemory { iommu: &Iommu::Kernels, kernel: &system.kernel, requester_id: 0 };
    let offset = 512;
    let sqe = nvm::read(Cid(0), Nsid(NSID), blocks(0, 1), DataPointer { prp1: pages[0] + offset, prp2: list });
    let first = PAGE_SIZE - offset as usize;
    let all = |last| vec![(pages[0] + offset, first), (pages[1], PAGE_SIZE), (pages[2], PAGE_SIZE), (pages[3], last)];
    assert_eq!(pieces(&sqe, first + 2 * PAGE_SIZE + 100, memory), Some(all(100)));
    assert_eq!(pieces(&sqe, first, memory), Some(vec![(pages[0] + offset, first)]));
    // The last entry of a page is no pointer when it is the last of all.
    let two = DataPointer { prp1: pages[0], prp2: AT + PAGE - 2 * ENTRY };
    let sqe = nvm::read(Cid(0), Nsid(NSID), blocks(0, 1), two);
    assert_eq!(
        pieces(&sqe, 3 * PAGE_SIZE, memory),
        Some(vec![(pages[0], PAGE_SIZE), (pages[1], PAGE_SIZE), (rest, PAGE_SIZE)])
    );
}
