//! Properties that a controller reports: any CAP and VS, any Identify data, any grant of queues.
//!
//! The law: the server uses the controller within its reported properties, or refuses its clients. Doorbells lie where
//! CAP.DSTRD puts them, and queues are no longer than CAP.MQES. No queue pair is used that was not granted. No command moves
//! more than MDTS allows, names blocks that the namespace does not have, or names memory outside the session's window.

use super::support::{Setup, System, entry, session};
use super::window;
use crate::target::{Subject, Target};
use arbitrary::{Result, Unstructured};
use blk_api::extent::Extent;
use blk_api::request::Opcode;
use blk_api::session::OPEN;
use nvme_spec::feature::NumberOfQueues;
use nvme_spec::identify::{LbaFormat, Namespace};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::Cap;
use nvme_spec::{Sqe, identify};
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use zerocopy::FromBytes;

/// The target.
pub const TARGET: Target = Target { name: "identify", law, seeds };

const PAGE: u64 = 4096;
/// Blocks of the session.
const BLOCKS: u64 = 64;
/// Bytes of Identify data that an input changes at most.
const CHANGES: usize = 24;

/// The controller's last reported properties, for the law.
#[derive(Clone, Debug, Default)]
struct Said {
    mdts: u8,
    /// Blocks of namespace 1 and log2 of their bytes.
    namespace: Option<(u64, u8)>,
}

fn law(input: &[u8], subject: Subject) {
    // An input that ends early reports nothing more; the law holds for its properties so far.
    let _ = run(&mut Unstructured::new(input), subject);
}

fn run(input: &mut Unstructured<'_>, subject: Subject) -> Result<()> {
    let sound = Cap::new().with_mqes_z(63).with_cqr(true).with_to(1).with_css_nvm(true).into_bits();
    // Each half of CAP: sound, or any value.
    let mut cap = sound ^ u64::from(input.arbitrary::<u32>()?);
    cap ^= u64::from(input.arbitrary::<u32>()?) << 32;
    let cap = Cap::from_bits(cap);
    let granted = NumberOfQueues::from_bits(input.arbitrary()?);
    let mut tenant = session("only", 0).with(vec![Extent::new(0, BLOCKS)]);
    tenant.config.queue_pairs = input.int_in_range(1..=3)?;
    tenant.config.depth = input.int_in_range(1..=40)?;
    let mut setup = Setup { sessions: vec![tenant], ..Setup::default() };
    setup.shape.mqes_z = cap.mqes_z();
    setup.shape.weighted = cap.ams_wrr();
    setup.shape.mdts = 0;
    setup.shape.blocks = BLOCKS;
    setup.shape.queue_pairs = u16::try_from(granted.sqs().min(granted.cqs())).unwrap_or(u16::MAX);
    let said = Rc::new(RefCell::new(Said::default()));
    let changes = changes(input)?;
    setup.shape.cap = Some(cap.into_bits());
    let mut system = System::start_with(setup, |controller, _| {
        let said = Rc::clone(&said);
        controller.lies.granted = Some(granted.into_bits());
        controller.hold = true;
        controller.lies.describe = Some(Box::new(move |cns, nsid, bytes| {
            for (_, at, byte) in changes.iter().filter(|(on, ..)| *on == cns) {
                bytes[usize::from(*at) % bytes.len()] = *byte;
            }
            said.borrow_mut().hear(cns, nsid, bytes);
        }));
    });
    system.begin_call(1, OPEN);
    let _ = system.install(0);
    for _ in 0..8 {
        let (lba, blocks) = (u64::from(input.int_in_range(0..=63u8)?), input.int_in_range(1..=64)?);
        let opcode = *input.choose(Opcode::ALL)?;
        let offset = u32::from(input.arbitrary::<u8>()?) * 1024 + 4 * u32::from(input.int_in_range(0..=3u8)?);
        if system.clients[0].end.submit(&entry(opcode, lba, blocks, offset)) == Ok(true) {
            // A client's own ring is sound; a session that is not served rings without result.
            let _ = system.clients[0].end.publish();
            system.ring(0);
        }
        system.tick();
    }
    let mut said = said.borrow().clone();
    if subject == Subject::Planted && said.mdts > 1 {
        // The planted defect: a law with a smaller MDTS than the server's.
        said.mdts -= 1;
    }
    assert_sound(&system, cap, &said);
    Ok(())
}

/// Changed bytes of the three structures: CNS, place, value.
fn changes(input: &mut Unstructured<'_>) -> Result<Vec<(u8, u16, u8)>> {
    let count = input.int_in_range(0..=CHANGES)?;
    (0..count).map(|_| Ok((input.int_in_range(0..=2)?, input.arbitrary()?, input.arbitrary()?))).collect()
}

impl Said {
    fn hear(&mut self, cns: u8, nsid: u32, bytes: &[u8]) {
        match cns {
            // A list of namespaces with more entries has the server ask about others, too.
            0 if nsid == 1 => {
                let Ok(about) = Namespace::read_from_bytes(bytes) else { return };
                let index = about.flbas & 15 | about.flbas >> 1 & 0x30;
                let format = LbaFormat::from_bits(about.lbaf[usize::from(index)].get());
                self.namespace = Some((about.nsze.get(), format.lbads()));
            }
            1 => self.mdts = identify::Controller::read_from_bytes(bytes).map_or(0, |about| about.mdts),
            _ => {}
        }
    }
}

/// Checks that every I/O command is one that the controller can do and the session may do.
fn assert_sound(system: &System, cap: Cap, said: &Said) {
    let window = window(system, 0);
    let mut state = system.world.state();
    let given = std::mem::take(&mut state.controller.submitted);
    for (_, sqe) in given {
        let Some((blocks, shift)) = said.namespace else { panic!("a command for a namespace that nobody described") };
        assert_eq!(sqe.nsid().0, 1, "a command for another namespace");
        match nvm::Opcode::from_raw(sqe.opcode()) {
            Some(nvm::Opcode::Read | nvm::Opcode::Write | nvm::Opcode::Compare) => {
                let bytes = u128::from(named(&sqe, blocks)) << shift;
                // A page of at most 2^27 bytes, shifted by 64, is beyond every transfer.
                let most = u128::from(cap.min_page_bytes()) << said.mdts.min(64);
                assert!(said.mdts == 0 || bytes <= most, "{bytes} bytes in a command, with MDTS {}", said.mdts);
                for (address, len) in pages(|at| state.bus.read(at), &sqe, bytes as u64) {
                    assert!(
                        inside(&window, address, len),
                        "{len} bytes at {address:#x}, outside of the window {window:x?}"
                    );
                }
            }
            Some(nvm::Opcode::WriteZeroes | nvm::Opcode::Verify) => drop(named(&sqe, blocks)),
            Some(nvm::Opcode::Flush) => {}
            Some(nvm::Opcode::DatasetManagement) => {
                let range: nvm::Range = state.bus.read(sqe.prp1).expect("a range in the server's memory");
                assert!(
                    u128::from(range.start) + u128::from(range.blocks) <= u128::from(blocks.min(BLOCKS)),
                    "{range:?}"
                );
            }
            other => panic!("the command {other:?}"),
        }
    }
}

/// Blocks that a command names, all of them the session's and the namespace's.
fn named(sqe: &Sqe, has: u64) -> u32 {
    let named = Blocks::from_sqe(sqe).expect("a number of blocks");
    let end = u128::from(named.start().0) + u128::from(named.count());
    assert!(end <= u128::from(has.min(BLOCKS)), "blocks up to {end} of {has}");
    named.count()
}

fn inside(window: &Range<u64>, address: u64, len: u64) -> bool {
    window.contains(&address) && address + len <= window.end
}

/// The pieces of memory that PRP1 and PRP2 name for `bytes` (section 4.3). A window needs one list page at most.
fn pages(mut read: impl FnMut(u64) -> Option<u64>, sqe: &Sqe, bytes: u64) -> Vec<(u64, u64)> {
    let first = bytes.min(PAGE - sqe.prp1 % PAGE);
    let (mut pieces, mut left, mut entry) = (vec![(sqe.prp1, first)], bytes - first, sqe.prp2);
    let listed = left > PAGE;
    while left > 0 {
        let page = if listed { read(entry).expect("a list in the server's memory") } else { entry };
        entry += 8;
        pieces.push((page, left.min(PAGE)));
        left -= left.min(PAGE);
    }
    pieces
}

/// A sound controller, and one with doorbells 64 bytes apart and a small MDTS.
fn seeds() -> Vec<Vec<u8>> {
    let with = |upper: u32, changes: &[(u8, u16, u8)]| {
        let mut seed = Vec::new();
        seed.extend(0u32.to_le_bytes());
        seed.extend(upper.to_le_bytes());
        seed.extend(0x0003_0003u32.to_le_bytes());
        seed.extend([1, 7]);
        seed.push(changes.len() as u8);
        for (cns, at, byte) in changes {
            seed.push(*cns);
            seed.extend(at.to_le_bytes());
            seed.push(*byte);
        }
        for request in 0..8u8 {
            seed.extend([request, 20, 0, request, request, request % 4]);
        }
        seed
    };
    let mdts = std::mem::offset_of!(identify::Controller, mdts) as u16;
    let lbads = std::mem::offset_of!(Namespace, lbaf) as u16 + 2;
    let (nlbaf, flbas) =
        (std::mem::offset_of!(Namespace, nlbaf_z) as u16, std::mem::offset_of!(Namespace, flbas) as u16);
    // Format 17, with blocks of 4096 bytes.
    let format_17 = [(0, nlbaf, 17), (0, flbas, 0x21), (0, lbads + 17 * 4, 12)];
    vec![with(0, &[]), with(0, &format_17), with(4, &[(1, mdts, 2)]), with(1, &[(0, lbads, 12), (1, mdts, 1)])]
}
