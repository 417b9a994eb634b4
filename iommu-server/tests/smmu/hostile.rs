//! Registers and tables with arbitrary contents: nothing panics, nothing loops for ever.

use std::cell::RefCell;
use std::rc::Rc;

use iommu_server::{Config, Devices, Error, Pool, Rights, Smmu, StreamId};
use platform::fake::Ram;
use platform::{Iova, Memory, Mmio, OutOfBounds, PAGE_SIZE, Paddr};
use proptest::prelude::*;
use smmu_spec::registers::{REGISTER_BYTES, Register};

const PAGES: usize = 12;

/// Registers that answer from a list. Identification and acknowledgements are correct as long as `friendly` lasts; otherwise
/// no start would succeed.
#[derive(Clone)]
struct Liar {
    answers: Rc<RefCell<Vec<u32>>>,
    kept: Ram,
    friendly: Rc<RefCell<u32>>,
}

impl Mmio for Liar {
    fn len(&self) -> usize {
        REGISTER_BYTES
    }

    fn read32(&self, offset: usize) -> Result<u32, OutOfBounds> {
        let mut friendly = self.friendly.borrow_mut();
        if *friendly > 0 {
            *friendly -= 1;
            return match Register::at(offset) {
                Some(Register::Idr0) => Ok(0x0d40_101a),
                Some(Register::Idr1) => Ok(0x0273_0010),
                Some(Register::Idr5) => Ok(0x0000_0074),
                Some(Register::Cr0Ack) => self.kept.read(Register::Cr0.offset()),
                Some(Register::IrqCtrlAck) => self.kept.read(Register::IrqCtrl.offset()),
                Some(Register::CmdqCons) => self.kept.read(Register::CmdqProd.offset()),
                Some(Register::Gbpa) => Ok(0),
                _ => self.kept.read(offset),
            };
        }
        let mut answers = self.answers.borrow_mut();
        let next = answers.pop().unwrap_or(0);
        answers.insert(0, next);
        Ok(next)
    }

    fn write32(&self, offset: usize, value: u32) -> Result<(), OutOfBounds> {
        self.kept.write(offset, &value)
    }

    fn read64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        Ok(u64::from(self.read32(offset)?) << 32 | u64::from(self.read32(offset)?))
    }

    fn write64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        self.kept.write(offset, &value)
    }
}

fn paddrs() -> Vec<Paddr> {
    (0..PAGES as u64).map(|page| Paddr::new(0x4000_0000 + page * PAGE_SIZE as u64)).collect()
}

fn use_everything(smmu: &mut Smmu<Liar, Ram>, memory: &Ram, scribbles: &[(usize, u64)]) {
    let stream = StreamId(0x10);
    for (word, value) in scribbles {
        let _ = smmu.attach(stream, usize::MAX);
        let _ = smmu.map(stream, Iova::new(0x1000), Paddr::new(0x8000_0000), Rights::ReadWrite);
        memory.write(word % (PAGES * 512) * 8, value).unwrap();
        let drained = smmu.faults(|_| {});
        assert!(drained.is_err() || drained.is_ok_and(|drained| drained.faults <= 128));
        let _ = smmu.map(stream, Iova::new(0x2000), Paddr::new(0x8000_0000), Rights::Read);
        let _ = smmu.unmap(stream, Iova::new(0x1000));
        let _ = smmu.settle();
        if value % 3 == 0 {
            let _ = smmu.detach(stream);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_answer_of_registers_and_no_content_of_tables_panics(
        answers in proptest::collection::vec(prop_oneof![any::<u32>(), 0..1024u32, Just(u32::MAX)], 1..64),
        scribbles in proptest::collection::vec((any::<usize>(), any::<u64>()), 1..8),
        friendly in prop_oneof![Just(0u32), 0..400u32],
    ) {
        let memory = Ram::new(PAGES * PAGE_SIZE);
        let liar = Liar {
            answers: Rc::new(RefCell::new(answers)),
            kept: Ram::new(REGISTER_BYTES),
            friendly: Rc::new(RefCell::new(friendly)),
        };
        let pool = Pool::new(memory.clone(), &paddrs()).unwrap();
        let config = Config { polls: 40, devices: Devices::Quiet };
        if let Ok(mut smmu) = Smmu::start(liar, pool, config) {
            use_everything(&mut smmu, &memory, &scribbles);
        }
    }
}

#[test]
fn a_table_that_was_overwritten_leads_nowhere() {
    let memory = Ram::new(PAGES * PAGE_SIZE);
    let liar = Liar {
        answers: Rc::new(RefCell::new(vec![0])),
        kept: Ram::new(REGISTER_BYTES),
        friendly: Rc::new(RefCell::new(u32::MAX)),
    };
    let pool = Pool::new(memory.clone(), &paddrs()).unwrap();
    let mut smmu = Smmu::start(liar, pool, Config { polls: 40, devices: Devices::Quiet }).unwrap();
    let stream = StreamId(0x10);
    smmu.attach(stream, usize::MAX).unwrap();
    smmu.map(stream, Iova::new(0x1000), Paddr::new(0x8000_0000), Rights::Read).unwrap();
    // Wherever a table descriptor lies, it now leads to the stream table.
    for word in 4 * 512..PAGES * 512 {
        let value: u64 = memory.read(word * 8).unwrap();
        if value & 3 == 3 && value >> 12 != 0x8000_0000 >> 12 && value < 1 << 48 {
            memory.write(word * 8, &(0x4000_0000u64 | 3)).unwrap();
        }
    }
    assert_eq!(smmu.unmap(stream, Iova::new(0x1000)), Err(Error::Corrupt));
    assert_eq!(smmu.map(stream, Iova::new(0x2000), Paddr::new(0x8000_0000), Rights::Read), Err(Error::Corrupt));
    smmu.detach(stream).unwrap();
}
