//! Calls to the IOMMU server, on a machine whose kernel has no IOSpaces: capabilities of every kind sent along, cptrs that are
//! not its frames', impossible addresses, calls of others and cut messages, and as many tables as it can make the server take.
//!
//! The server answers each of them, or this tenant never ends. Its neighbours' openings show whether the server lacks anything.

use super::Stuck;
use super::attacker::Attacker;
use crate::verdicts::sentence;
use alloc::vec::Vec;
use blk_api::names;
use iommu_api::{CLOSE, Close, MAP, Map, OPEN, Open, RESET, UNMAP, Unmap};
use platform::{CPtr, Cap, Endpoint, Iova, Kernel, Message, Notification, Platform, Rights};
use workload::attacks;

/// The barrier.
const SERVER: &str = "the IOMMU server";
/// The path of its fault endpoint, in the CNode above its own.
pub(super) const FAULT_ENDPOINT: CPtr = CPtr::new(1 << 63);
/// The page of the window that it maps again elsewhere.
const PAGE: u32 = 7;
/// Bytes that a table below the first one covers.
const GIB: u64 = 1 << 30;
/// The first of them in which it has nothing, and the end of an IOSpace.
const SPARSE: core::ops::Range<u64> = 8..512;
/// An address there.
const FREE: Iova = Iova::new(SPARSE.start * GIB);
/// Labels of no call of the server.
const LABELS: [u32; 4] = [0, 6, 99, 0xf_ffff];
/// Addresses that are not of a page, or of no IOSpace.
const IMPOSSIBLE: [u64; 6] = [FREE.bits() + 1, FREE.bits() + 0xfff, 1 << 39, 1 << 48, !0xfff, u64::MAX];

/// Runs all attacks of this module, where there is an IOMMU server: there no driver brings IO page tables.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    if attacker.environment.cap_count(names::IO_TABLE) > 0 {
        return Ok(());
    }
    attacker.verdicts.begin(&attacks::IOMMU_SERVER);
    capabilities(attacker).await?;
    cptrs(attacker).await?;
    addresses(attacker).await?;
    messages(attacker).await?;
    sparse(attacker).await
}

/// Sends each kind of capability that it has, by a call and without one, as the frame to map.
async fn capabilities<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let environment = attacker.environment;
    let event: Cap<Notification> = environment.cap(platform::names::EVENT).ok_or(Stuck::Missing("its notification"))?;
    let pci: Cap<Endpoint> = environment.cap(pci_api::names::PCI).ok_or(Stuck::Missing("the PCI server"))?;
    for (name, cap) in [
        ("map its fault endpoint", FAULT_ENDPOINT),
        ("map the PCI server's endpoint", pci.cptr()),
        ("map its CNode", environment.cnode.ok_or(Stuck::Missing("its CNode"))?),
        ("map its notification", event.cptr()),
        ("map its IOSpace", attacker.drive.io_space.cptr()),
    ] {
        let message = Message::with(MAP, &Map::new(FREE.bits(), cap, Rights::READ_WRITE)).and_cap(cap);
        let kernel = attacker.platform.kernel();
        kernel.send(attacker.drive.io_space.cptr(), &message);
        kernel.nb_send(attacker.drive.io_space.cptr(), &message);
        let answer = call(attacker, &message).await;
        judge(attacker, name, answer);
    }
    // It is carried out as without: the frame is named by its cptr.
    let unmap = Message::with(UNMAP, &Unmap { iova: FREE.bits() }).and_cap(FAULT_ENDPOINT);
    call(attacker, &unmap).await.map_err(Stuck::from)
}

/// Names cptrs that are not its frames'.
async fn cptrs<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let environment = attacker.environment;
    let frames = |name| {
        let run = environment.caps.iter().find(move |run| run.name.as_str() == name);
        run.map_or(0..0, |run| run.first.bits()..run.first.bits().saturating_add(run.count.into()))
    };
    let (window, pool) = (frames(names::WINDOW), frames(names::DMA));
    let is_its = |cptr: &u64| window.contains(cptr) || pool.contains(cptr);
    let around = [window.start.wrapping_sub(1), window.end, pool.start.wrapping_sub(1), pool.end];
    let beyond = [1 << environment.cnode_bits.min(63), 1 << 32 | window.start, 1 << 63 | pool.start, u64::MAX];
    let others = (0..window.start.min(pool.start)).chain(environment.free_cptrs.clone());
    let (mut tried, mut mapped) = (0u32, None);
    for cptr in others.chain(around).chain(beyond).filter(|cptr| !is_its(cptr)) {
        tried = tried.saturating_add(1);
        let map = Map::new(FREE.bits(), CPtr::new(cptr), Rights::READ_WRITE);
        if call(attacker, &Message::with(MAP, &map)).await.is_ok() {
            mapped.get_or_insert(cptr);
        }
    }
    match mapped {
        None => {
            attacker.report("map cptrs that are no frames of its own", true, format_args!("{SERVER}: {tried} times"))
        }
        Some(cptr) => {
            attacker.report("map cptrs that are no frames of its own", false, format_args!("nothing: {cptr}"))
        }
    }
    Ok(())
}

async fn addresses<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let frame = attacker.drive.frame(PAGE)?.cptr();
    let (mut refused, mut done) = (None, None);
    for iova in IMPOSSIBLE {
        let map = Message::with(MAP, &Map::new(iova, frame, Rights::READ_WRITE));
        let unmap = Message::with(UNMAP, &Unmap { iova });
        for message in [map, unmap] {
            match call(attacker, &message).await {
                Ok(()) => done = Some(iova),
                Err(error) => refused = Some(error),
            }
        }
    }
    match (done, refused) {
        (None, Some(error)) => attacker.report("map at impossible addresses", true, format_args!("{SERVER}: {error}")),
        _ => attacker.report("map at impossible addresses", false, format_args!("nothing: {done:x?}")),
    }
    let taken = Map::new(attacker.drive.page(0)?.bits(), frame, Rights::READ_WRITE);
    let answer = call(attacker, &Message::with(MAP, &taken)).await;
    judge(attacker, "map a page over another", answer);
    Ok(())
}

/// The PCI server's calls, unknown ones, and messages that are too short.
async fn messages<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let own = attacker.drive.bdf;
    let open = |domain, requester_id| Message::with(OPEN, &Open { domain, requester_id, reserved: 0 });
    for (name, message) in [
        ("open a domain for its function", open(2, own)),
        ("open a domain for the physical function", open(1, own & 0xff00)),
        ("close a neighbour's domain", Message::with(CLOSE, &Close { domain: 1 })),
        ("close all domains", Message::new(RESET)),
        ("map without an address", Message::new(MAP)),
        ("map without a frame", Message::from_words(MAP, &[FREE.bits()])),
        ("map without rights", Message::from_words(MAP, &[FREE.bits(), attacker.drive.frame(PAGE)?.bits()])),
        ("unmap without an address", Message::new(UNMAP)),
    ] {
        let answer = call(attacker, &message).await;
        judge(attacker, name, answer);
    }
    for label in LABELS {
        let answer = call(attacker, &Message::from_words(label, &[u64::MAX; 8])).await;
        judge(attacker, &sentence(format_args!("call the IOMMU server with label {label}")), answer);
    }
    Ok(())
}

/// Maps one frame at addresses that share no table, until the server refuses. It must not get more tables than its own memory
/// needs, because the rest are its neighbours'.
async fn sparse<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let frame = attacker.drive.frame(PAGE)?.cptr();
    let arrays = [names::WINDOW, names::DMA].map(|name| u64::from(attacker.environment.cap_count(name)));
    let own = iommu_api::tables(arrays);
    let mut mapped = Vec::new();
    let mut refused = None;
    for iova in SPARSE.map(|gib| gib.wrapping_mul(GIB)) {
        let map = Map::new(iova, frame, Rights::READ_WRITE);
        match call(attacker, &Message::with(MAP, &map)).await {
            Ok(()) => mapped.push(iova),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    // Its own function goes on with the tables that it has; a new claim begins with none.
    attacker.honest().await?;
    for iova in &mapped {
        call(attacker, &Message::with(UNMAP, &Unmap { iova: *iova })).await?;
    }
    let (name, number) = ("take all tables of the IOMMU server", mapped.len() as u64);
    match refused {
        Some(error) if number <= own => attacker.report(name, true, format_args!("{SERVER}: {error} after {number}")),
        _ => attacker.report(name, false, format_args!("nothing: {number} addresses in as many GiB")),
    }
    Ok(())
}

/// Calls the server with its IOSpace, until its budget lasts, and returns the server's answer.
async fn call<P: Platform>(attacker: &Attacker<'_, P>, message: &Message) -> platform::Result<()> {
    let server = attacker.drive.io_space.cptr().cast::<Endpoint>();
    loop {
        let answer = attacker.platform.kernel().call(server, message).await;
        if answer.label != iommu_api::BUSY {
            return iommu_api::result(&answer);
        }
        attacker.drive.tick().await;
    }
}

fn judge<P: Platform>(attacker: &mut Attacker<'_, P>, name: &str, answer: platform::Result<()>) {
    match answer {
        Ok(()) => attacker.report(name, false, format_args!("nothing: it was done")),
        Err(error) => attacker.report(name, true, format_args!("{SERVER}: {error}")),
    }
}
