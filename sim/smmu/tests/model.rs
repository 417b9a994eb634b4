//! Tests of the model by itself: its caching, and the misuse that it detects.

use platform::{Iova, Paddr};
use sim_smmu::{Abort, Config, Direction, PhysicalMemory, Reached, Refusal, Smmu, Violation};
use smmu_spec::command::Reach;
use smmu_spec::context::Asid;
use smmu_spec::registers::{Cr0, FORMAT_TWO_LEVEL, QueueBase, Register, StrtabBaseCfg};
use smmu_spec::translation::{ATTRIBUTE_NORMAL, Descriptor, Permission, index};
use smmu_spec::{Command, ContextDescriptor, EventKind, L1StreamDescriptor, StreamId, StreamTableEntry};
use zerocopy::IntoBytes;

const STREAM: StreamId = StreamId(0x0041);
const ASID: Asid = Asid(7);
const IOVA: u64 = 0x4020_3000;
const L1: u64 = 0x1000;
const L2: u64 = 0x2000;
const CONTEXT: u64 = 0x3000;
const ROOT: u64 = 0x4000;
const MIDDLE: u64 = 0x5000;
const LEAF: u64 = 0x6000;
const COMMANDS: u64 = 0x7000;

/// Eight pages from address 0.
struct Ram(Vec<u8>);

impl PhysicalMemory for Ram {
    fn read(&mut self, paddr: Paddr, bytes: &mut [u8]) -> Result<(), Abort> {
        let at = paddr.bits() as usize;
        bytes.copy_from_slice(self.0.get(at..at + bytes.len()).ok_or(Abort)?);
        Ok(())
    }

    fn write(&mut self, paddr: Paddr, bytes: &[u8]) -> Result<(), Abort> {
        let at = paddr.bits() as usize;
        self.0.get_mut(at..at + bytes.len()).ok_or(Abort)?.copy_from_slice(bytes);
        Ok(())
    }
}

/// An SMMU that translates one page, and its memory.
struct Machine {
    smmu: Smmu,
    ram: Ram,
    prod: u32,
}

impl Machine {
    fn new() -> Self {
        let mut machine = Self { smmu: Smmu::new(Config::default()), ram: Ram(vec![0; 0x8000]), prod: 0 };
        machine.put(L1 + 8, &L1StreamDescriptor::table(L2, 6));
        machine.put(L2 + 64, &StreamTableEntry::stage1(CONTEXT));
        machine.put(CONTEXT, &ContextDescriptor::stage1(ROOT, ASID, 4));
        machine.put(ROOT + 8 * index(IOVA, 1) as u64, &Descriptor::table(MIDDLE));
        machine.put(MIDDLE + 8 * index(IOVA, 2) as u64, &Descriptor::table(LEAF));
        machine.put_page(0x9_0000, Permission::ReadWrite);
        let cfg = StrtabBaseCfg::new().with_streams_log2(15).with_split(6).with_format(FORMAT_TWO_LEVEL);
        machine.smmu.write64(Register::StrtabBase.offset(), L1);
        machine.write(Register::StrtabBaseCfg, cfg.into_bits());
        machine.smmu.write64(Register::CmdqBase.offset(), QueueBase::at(COMMANDS, 8).into_bits());
        machine.write(Register::Cr0, Cr0::new().with_cmdq(true).into_bits());
        machine.run(&[Command::invalidate_all_streams(), Command::invalidate_all_translations(), Command::sync()]);
        machine.write(Register::Cr0, Cr0::new().with_cmdq(true).with_smmu(true).into_bits());
        machine
    }

    fn put(&mut self, at: u64, value: &(impl IntoBytes + zerocopy::Immutable)) {
        self.ram.write(Paddr::new(at), value.as_bytes()).unwrap();
    }

    fn put_page(&mut self, paddr: u64, permission: Permission) {
        let page = Descriptor::page(paddr, permission, ATTRIBUTE_NORMAL);
        self.put(LEAF + 8 * index(IOVA, 3) as u64, &page);
    }

    fn write(&mut self, register: Register, value: u32) {
        self.smmu.write32(&mut self.ram, register.offset(), value);
    }

    fn run(&mut self, commands: &[Command]) {
        for command in commands {
            self.put(COMMANDS + 16 * u64::from(self.prod & 0xff), command);
            self.prod = (self.prod + 1) & 0x1ff;
        }
        self.write(Register::CmdqProd, self.prod);
    }

    fn dma(&mut self, direction: Direction) -> Result<Paddr, Refusal> {
        self.smmu.translate(&mut self.ram, STREAM, Iova::new(IOVA + 0x10), direction)
    }
}

#[test]
fn a_page_is_translated_through_all_tables() {
    let mut machine = Machine::new();
    assert_eq!(machine.dma(Direction::Write), Ok(Paddr::new(0x9_0010)));
    assert_eq!(machine.smmu.violations(), []);
}

#[test]
fn a_stream_reaches_its_page_until_the_smmu_forgets_it() {
    let mut machine = Machine::new();
    let reached = |machine: &mut Machine| {
        let reached = machine.smmu.reached(&mut machine.ram, STREAM);
        let mut at = |iova| machine.smmu.reached_at(&mut machine.ram, STREAM, Iova::new(iova));
        assert_eq!(at(IOVA + 0x10), reached.first().copied());
        assert_eq!([at(IOVA ^ 0x1000), at(IOVA | 1 << 39)], [None, None]);
        reached
    };
    let page = Reached { iova: Iova::new(IOVA), paddr: Paddr::new(0x9_0000), writable: true };
    assert_eq!(reached(&mut machine), [page]);
    assert_eq!(machine.smmu.reached(&mut machine.ram, StreamId(STREAM.0 + 1)), []);
    machine.dma(Direction::Read).unwrap();
    machine.put(LEAF + 8 * index(IOVA, 3) as u64, &0u64);
    assert_eq!(reached(&mut machine), [page], "it is cached");
    machine.run(&[Command::invalidate_address(ASID, IOVA, Reach::LastLevel), Command::sync()]);
    assert_eq!(reached(&mut machine), []);
    machine.put_page(0x9_0000, Permission::Read);
    assert_eq!(reached(&mut machine), [Reached { writable: false, ..page }]);
}

#[test]
fn unmapped_page_is_reached_until_invalidation_sync() {
    let mut machine = Machine::new();
    machine.dma(Direction::Read).unwrap();
    machine.put(LEAF + 8 * index(IOVA, 3) as u64, &0u64);
    assert!(machine.dma(Direction::Write).is_ok());
    machine.run(&[Command::invalidate_address(Asid(8), IOVA, Reach::LastLevel), Command::sync()]);
    assert!(machine.dma(Direction::Write).is_ok(), "another address space was invalidated");
    machine.run(&[Command::invalidate_address(ASID, IOVA, Reach::LastLevel)]);
    assert!(machine.dma(Direction::Write).is_ok(), "without a SYNC nothing is sure");
    machine.run(&[Command::sync()]);
    assert_eq!(machine.dma(Direction::Write), Err(Refusal::Event(EventKind::Translation)));
    assert_eq!(machine.smmu.violations(), []);
}

#[test]
fn a_table_is_remembered_until_all_levels_are_invalidated() {
    let mut machine = Machine::new();
    machine.dma(Direction::Read).unwrap();
    machine.put(MIDDLE + 8 * index(IOVA, 2) as u64, &0u64);
    machine.run(&[Command::invalidate_address(ASID, IOVA, Reach::LastLevel), Command::sync()]);
    assert!(machine.dma(Direction::Read).is_ok());
    machine.run(&[Command::invalidate_address(ASID, IOVA, Reach::AllLevels), Command::sync()]);
    assert!(machine.dma(Direction::Read).is_err());
}

#[test]
fn a_change_without_break_before_make_is_seen() {
    let mut machine = Machine::new();
    machine.dma(Direction::Read).unwrap();
    machine.put_page(0xa_0000, Permission::Read);
    machine.dma(Direction::Read).unwrap();
    assert_eq!(machine.smmu.violations(), [Violation::TranslationChanged { asid: ASID, iova: IOVA + 0x10 }]);
    let mut machine = Machine::new();
    machine.dma(Direction::Read).unwrap();
    machine.put(L2 + 64, &StreamTableEntry::stage1(CONTEXT + 64));
    machine.dma(Direction::Read).unwrap();
    assert_eq!(machine.smmu.violations(), [Violation::StreamChanged(STREAM)]);
}

#[test]
fn an_asid_of_two_address_spaces_is_seen() {
    let mut machine = Machine::new();
    machine.dma(Direction::Read).unwrap();
    machine.put(CONTEXT + 64, &ContextDescriptor::stage1(MIDDLE, ASID, 4));
    machine.put(L2 + 128, &StreamTableEntry::stage1(CONTEXT + 64));
    let _ = machine.smmu.translate(&mut machine.ram, StreamId(0x42), Iova::new(0), Direction::Read);
    assert_eq!(machine.smmu.violations(), [Violation::SharedAsid(ASID)]);
}

#[test]
fn fields_that_must_be_zero_are_checked() {
    let mut machine = Machine::new();
    let mut entry = StreamTableEntry::stage1(CONTEXT);
    entry.word1.set_s1_stall_disable(true);
    machine.put(L2 + 64, &entry);
    assert_eq!(machine.dma(Direction::Read), Err(Refusal::Event(EventKind::BadSte)));
    machine.put(L2 + 64, &StreamTableEntry::stage1(CONTEXT));
    let mut context = ContextDescriptor::stage1(ROOT, ASID, 4);
    context.word0.set_abort(false);
    machine.put(CONTEXT, &context);
    assert_eq!(machine.dma(Direction::Read), Err(Refusal::Event(EventKind::BadCd)));
    assert_eq!(machine.smmu.violations(), [Violation::Structure(STREAM), Violation::Structure(STREAM)]);
}

#[test]
fn registers_written_while_enabled_keep_their_values() {
    let mut machine = Machine::new();
    machine.smmu.write64(Register::StrtabBase.offset(), 0x6000);
    machine.write(Register::Cr1, 0);
    machine.write(Register::CmdqCons, 0);
    machine.write(Register::Idr0, 0);
    machine.write(Register::Gerrorn, 1);
    machine.write(Register::CmdqProd, (machine.prod + 300) & 0x1ff);
    let expected = [
        Violation::WhileEnabled(Register::StrtabBase),
        Violation::WhileEnabled(Register::Cr1),
        Violation::WhileEnabled(Register::CmdqCons),
        Violation::ReadOnly(Register::Idr0),
        Violation::NotActive(1),
        Violation::QueueIndex(Register::CmdqProd, (machine.prod + 300) & 0x1ff),
    ];
    assert_eq!(machine.smmu.violations(), expected);
    assert!(machine.dma(Direction::Read).is_ok());
}

#[test]
fn enabling_with_caches_of_unknown_content_is_seen() {
    let mut smmu = Smmu::new(Config::default());
    let cfg = StrtabBaseCfg::new().with_streams_log2(15).with_split(6).with_format(FORMAT_TWO_LEVEL);
    let mut ram = Ram(vec![0; 0x8000]);
    smmu.write32(&mut ram, Register::StrtabBaseCfg.offset(), cfg.into_bits());
    smmu.write32(&mut ram, Register::Cr0.offset(), 1);
    assert_eq!(smmu.violations(), [Violation::EnabledUninvalidated]);
}

#[test]
fn an_illegal_command_stops_the_queue() {
    let mut machine = Machine::new();
    let before = machine.smmu.commands();
    machine.run(&[Command::default(), Command::sync()]);
    assert_eq!(machine.smmu.commands(), before);
    assert_eq!(machine.smmu.read32(&mut machine.ram, Register::Gerror.offset()), 1);
    assert_eq!(machine.smmu.read32(&mut machine.ram, Register::CmdqCons.offset()) >> 24, 1);
    assert_eq!(machine.smmu.violations(), [Violation::Command { word0: 0, word1: 0 }]);
}
