//! Plays operations on the driver and on a plain map, and compares after each.

use std::collections::{BTreeMap, BTreeSet};

use iommu_server::{Devices, Error, EventKind, FaultKind, Rights, Smmu, StreamId};
use platform::{Iova, Paddr};
use proptest::prelude::*;
use sim_smmu::{Direction, Faults, Profile, Refusal};

use crate::machine::{ATTACHABLE, IOVAS, Machine, PADDRS, Reach, STREAMS};

/// An operation; numbers are places in the machine's lists.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Attach(usize),
    Detach(usize),
    Map(usize, usize, usize, Rights),
    Unmap(usize, usize),
    /// A device's transaction that is to be recorded if it fails.
    Dma(usize, usize, Direction),
    /// The driver dies between two operations and is restarted.
    Restart,
    /// The command queue does not advance during the next operation.
    Stuck,
    /// The server dies after this many accesses of the next operation, and again after this many of its start.
    Crash(u64, u64),
}

/// Any operation.
pub(crate) fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        21 => living_op(),
        1 => Just(Op::Restart),
        1 => Just(Op::Stuck),
        2 => (1..20u64, 1..100u64).prop_map(|(op, start)| Op::Crash(op, start)),
    ]
}

/// Operations of a driver that seldom restarts, so that much can go stale meanwhile.
pub(crate) fn steady_op() -> impl Strategy<Value = Op> {
    prop_oneof![39 => living_op(), 1 => Just(Op::Restart)]
}

fn living_op() -> impl Strategy<Value = Op> {
    let stream = 0..ATTACHABLE;
    let iova = 0..IOVAS.len();
    let rights = prop_oneof![Just(Rights::Read), Just(Rights::ReadWrite), Just(Rights::Messages)];
    let direction = prop_oneof![Just(Direction::Read), Just(Direction::Write)];
    prop_oneof![
        3 => stream.clone().prop_map(Op::Attach),
        2 => stream.clone().prop_map(Op::Detach),
        8 => (stream.clone(), iova.clone(), 0..PADDRS.len(), rights).prop_map(|(s, i, p, r)| Op::Map(s, i, p, r)),
        5 => (stream, iova.clone()).prop_map(|(s, i)| Op::Unmap(s, i)),
        3 => (0..STREAMS.len(), iova, direction).prop_map(|(s, i, d)| Op::Dma(s, i, d)),
    ]
}

/// The counts of a history that went well.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) operations: u64,
    pub(crate) probes: u64,
    pub(crate) crashes: u64,
    pub(crate) faults: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.probes += other.probes;
        self.crashes += other.crashes;
        self.faults += other.faults;
    }
}

/// The plain map: attached streams, and their pages with whether they can be written.
#[derive(Clone, Default)]
struct Oracle(BTreeMap<u32, BTreeMap<u64, (u64, bool)>>);

impl Oracle {
    fn apply(&mut self, op: Op) -> Result<(), Error> {
        match op {
            Op::Attach(stream) => match self.0.entry(STREAMS[stream]) {
                std::collections::btree_map::Entry::Occupied(_) => return Err(Error::Attached),
                std::collections::btree_map::Entry::Vacant(free) => drop(free.insert(BTreeMap::new())),
            },
            Op::Detach(stream) => drop(self.0.remove(&STREAMS[stream]).ok_or(Error::NotAttached)?),
            Op::Map(stream, iova, paddr, rights) => {
                let space = self.0.get_mut(&STREAMS[stream]).ok_or(Error::NotAttached)?;
                if space.contains_key(&IOVAS[iova]) {
                    return Err(Error::Mapped);
                }
                space.insert(IOVAS[iova], (PADDRS[paddr], rights != Rights::Read));
            }
            Op::Unmap(stream, iova) => {
                let space = self.0.get_mut(&STREAMS[stream]).ok_or(Error::NotAttached)?;
                space.remove(&IOVAS[iova]).ok_or(Error::NotMapped)?;
            }
            Op::Restart => self.0.clear(),
            Op::Dma(..) | Op::Crash(..) | Op::Stuck => {}
        }
        Ok(())
    }

    fn reach(&self) -> BTreeSet<Reach> {
        let mut reach = BTreeSet::new();
        for (stream, space) in &self.0 {
            for (iova, (paddr, is_writable)) in space {
                reach.insert((*stream, *iova, *paddr, false));
                if *is_writable {
                    reach.insert((*stream, *iova, *paddr, true));
                }
            }
        }
        reach
    }
}

fn perform(smmu: &mut Smmu<Machine, Machine>, op: Op) -> Result<(), Error> {
    match op {
        Op::Attach(stream) => smmu.attach(StreamId(STREAMS[stream]), usize::MAX),
        Op::Detach(stream) => smmu.detach(StreamId(STREAMS[stream])),
        Op::Map(stream, iova, paddr, rights) => {
            smmu.map(StreamId(STREAMS[stream]), Iova::new(IOVAS[iova]), Paddr::new(PADDRS[paddr]), rights)
        }
        Op::Unmap(stream, iova) => smmu.unmap(StreamId(STREAMS[stream]), Iova::new(IOVAS[iova])),
        Op::Dma(..) | Op::Restart | Op::Crash(..) | Op::Stuck => Ok(()),
    }
}

/// Plays a history. The error is the first mismatch.
pub(crate) fn play(profile: Profile, seed: u64, faults: Faults, ops: &[Op]) -> Result<Counts, String> {
    let machine = Machine::new(profile, seed);
    machine.set_faults(Faults { forget: None, ..faults });
    let mut smmu = machine.start(Devices::Quiet).map_err(|error| error.to_string())?;
    machine.set_faults(faults);
    let mut oracle = Oracle::default();
    let mut counts = Counts::default();
    let mut crash = None;
    let mut is_stuck = false;
    for op in ops {
        counts.operations += 1;
        let before = oracle.clone();
        let expected = oracle.apply(*op);
        machine.allow(Some(before.reach().union(&oracle.reach()).copied().collect()));
        match *op {
            Op::Dma(stream, iova, direction) => {
                counts.faults += dma(&machine, &mut smmu, STREAMS[stream], IOVAS[iova], direction)?
            }
            Op::Restart => smmu = machine.start(Devices::MaySend).map_err(|error| error.to_string())?,
            Op::Crash(op, start) => crash = Some((op, start)),
            Op::Stuck => is_stuck = true,
            _ if is_stuck => {
                is_stuck = false;
                machine.set_faults(Faults { is_stuck: true, ..faults });
                let outcome = perform(&mut smmu, *op);
                machine.set_faults(faults);
                // Done in the tables or refused, and certain after this.
                smmu.settle().map_err(|error| error.to_string())?;
                if outcome != expected && outcome != Err(Error::Stuck) {
                    return Err(format!("{op:?} gives {outcome:?}, not {expected:?}"));
                }
            }
            _ => {
                let fuse = crash.take();
                machine.set_fuse(fuse.map(|(op, _)| op));
                let outcome = perform(&mut smmu, *op);
                if let (true, Some((_, start))) = (machine.is_dead(), fuse) {
                    counts.crashes += 1;
                    smmu = restart(&machine, start)?;
                    oracle = Oracle::default();
                } else if outcome != expected {
                    return Err(format!("{op:?} gives {outcome:?}, not {expected:?}"));
                }
                machine.set_fuse(None);
            }
        }
        let reached = machine.reached();
        if let Some(finding) = machine.finding() {
            return Err(format!("{op:?}: {finding}"));
        }
        if reached != oracle.reach() {
            return Err(format!("after {op:?} devices reach {reached:x?}, not {:x?}", oracle.reach()));
        }
    }
    // Nothing leaks: an empty server has all its pages.
    for stream in STREAMS {
        let _ = smmu.detach(StreamId(stream));
    }
    let all = machine.start(Devices::MaySend).map_err(|error| error.to_string())?.free_pages();
    if smmu.free_pages() != all {
        return Err(format!("{} of {all} pages are free at the end", smmu.free_pages()));
    }
    counts.probes = machine.probes();
    Ok(counts)
}

/// Restarts the driver after a death; it dies once more on the way.
fn restart(machine: &Machine, accesses: u64) -> Result<Smmu<Machine, Machine>, String> {
    machine.set_fuse(Some(accesses));
    let first = machine.start(Devices::MaySend);
    if !machine.is_dead() {
        return first.map_err(|error| error.to_string());
    }
    machine.set_fuse(None);
    machine.start(Devices::MaySend).map_err(|error| error.to_string())
}

/// A transaction: a refused one is reported, with its stream, and its address where there is one.
fn dma(
    machine: &Machine,
    smmu: &mut Smmu<Machine, Machine>,
    stream: u32,
    iova: u64,
    direction: Direction,
) -> Result<u64, String> {
    let outcome = machine.dma(stream, iova, direction);
    let mut faults = Vec::new();
    smmu.faults(|fault| faults.push(fault)).map_err(|error| error.to_string())?;
    let Err(Refusal::Event(kind)) = outcome else {
        return if faults.is_empty() { Ok(0) } else { Err(format!("{faults:?} for a transaction that passed")) };
    };
    let [fault] = faults[..] else { return Err(format!("{faults:?} for one {kind:?}")) };
    let is_write = direction == Direction::Write;
    let has_address = matches!(kind, EventKind::Translation | EventKind::Permission);
    let right = fault.stream == StreamId(stream)
        && fault.kind == FaultKind::Known(kind)
        && fault.iova == has_address.then(|| Iova::new(iova))
        && fault.direction.map(|direction| direction == iommu_server::Direction::Write)
            == has_address.then_some(is_write);
    if right { Ok(1) } else { Err(format!("{fault:?} for {kind:?} of {stream:#x} at {iova:#x}")) }
}
