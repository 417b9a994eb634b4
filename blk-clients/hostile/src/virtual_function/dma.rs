//! Addresses that its IOSpace does not have: physical ones, those of neighbours' memory, and those of its own queues and lists
//! in place of addresses that the function has.

use super::Stuck;
use super::attacker::Attacker;
use super::content::{Content, offset_of};
use super::drive::ENTRIES;
use nvme_driver::{DeviceFault, disable, wait_ready};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::registers::{Aqa, Arbitration, Cc, DOORBELL_BASE, IOCQES_16, IOSQES_64, Register};
use nvme_spec::{Cid, DataPointer, Lba, Sqe, admin};
use platform::{Iova, Memory, Mmio, PAGE_SIZE, Platform};
use workload::attacks;

/// The barrier.
const IOMMU: &str = "the IOMMU";
/// Pages of the window: an unmapped one's stand-in, and those of a transfer of three pages.
const GUARD_PAGE: u32 = 1;
const QUEUE_PAGE: u32 = 2;
const FIRST_PAGE: u32 = 3;
const MORE_PAGES: [u32; 2] = [4, 5];
/// Bytes of a transfer of three pages.
const TRANSFER_BYTES: u32 = 3 * PAGE_SIZE as u32;
/// Content of a page that nothing may reach.
const GUARD: Content = Content(0x90a2_d000_0000_0000);
/// Pages on either side of its window's physical place that are tried, in steps of the distances in [`STEPS`].
const STEPS: [u64; 12] = [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 4096];
/// Bytes between the windows that an NVMe server maps for one function, and how many of them are tried.
const WINDOW_ALIGN: u64 = 2 << 20;
const WINDOWS: u64 = 8;

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::DMA);
    own_physical_address(attacker).await?;
    around_its_window(attacker).await?;
    neighbours_windows(attacker).await?;
    behind_its_pool(attacker).await?;
    list(attacker).await?;
    queues(attacker).await
}

/// Names the attacker's own page, at the address that a function without an IOMMU would have for it.
async fn own_physical_address<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    let place = Iova::new(drive.paddr(GUARD_PAGE)?.bits());
    if is_its_own(attacker, place) {
        return Err(Stuck::Control("its memory has the same addresses as its function's: give the machine less"));
    }
    let offset = offset_of(GUARD_PAGE);
    GUARD.fill(&attacker.drive.memory, offset)?;
    let came_back = attacker.drive.round_trip(place).await?;
    let refused = !came_back && GUARD.fills(&attacker.drive.memory, offset)?;
    attacker.report_barrier(
        "DMA at its window's physical address",
        refused,
        format_args!("{IOMMU}: nothing is mapped there"),
    );
    Ok(())
}

async fn around_its_window<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let place = attacker.drive.paddr(0)?.bits();
    let distances = STEPS.map(|step| step.wrapping_mul(PAGE_SIZE as u64));
    let places = distances.into_iter().flat_map(|far| [place.checked_add(far), place.checked_sub(far)]).flatten();
    sweep(attacker, "DMA to physical memory around its window", places).await
}

/// A neighbour's window lies there in the address space of its own function, or in that of the NVMe server's.
async fn neighbours_windows<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (first, _) = attacker.drive.window();
    let places = (1..=WINDOWS).map(|number| first.bits().saturating_add(number.saturating_mul(WINDOW_ALIGN)));
    sweep(attacker, "DMA at the addresses of neighbours' windows", places).await
}

/// A larger pool, such as the NVMe server's, goes on there.
async fn behind_its_pool<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let behind = attacker.drive.behind_pool().map(Iova::bits);
    let places = behind.into_iter().flat_map(|first| [first, first.saturating_add(PAGE_SIZE as u64)]);
    sweep(attacker, "DMA at addresses behind its pool", places).await
}

/// Tries all `places` that are not its own.
async fn sweep<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    name: &str,
    places: impl Iterator<Item = u64>,
) -> Result<(), Stuck> {
    let (mut tried, mut reached) = (0u32, None);
    for place in places {
        let place = Iova::new(place);
        if is_its_own(attacker, place) {
            continue;
        }
        tried = tried.saturating_add(1);
        if attacker.drive.round_trip(place).await? {
            reached.get_or_insert(place);
        }
    }
    match reached {
        Some(place) => attacker.report(name, false, format_args!("nothing: {:#x} is memory for it", place.bits())),
        None => attacker.report(name, tried > 0, format_args!("{IOMMU}: nothing came back from {tried} addresses")),
    }
    Ok(())
}

/// Whether the address is that of its own window or pool.
fn is_its_own<P: Platform>(attacker: &Attacker<'_, P>, place: Iova) -> bool {
    let is_between = |first: Iova, end: Option<Iova>| first <= place && end.is_none_or(|end| place < end);
    let (window, behind_window) = attacker.drive.window();
    is_between(window, behind_window) || is_between(attacker.drive.pool(), attacker.drive.behind_pool())
}

/// A list of PRPs at a physical address, whose entries are good.
async fn list<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    let blocks = TRANSFER_BYTES.checked_div(drive.block_bytes).ok_or(Stuck::Missing("a block size"))?;
    let blocks = Blocks::new(Lba(0), blocks).ok_or(Stuck::Missing("blocks"))?;
    let (first, nsid) = (drive.page(FIRST_PAGE)?, drive.nsid);
    let list = offset_of(GUARD_PAGE);
    for (entry, page) in MORE_PAGES.into_iter().enumerate() {
        drive.memory.write(list.saturating_add(entry.saturating_mul(8)), &drive.page(page)?.bits())?;
    }
    let mut reached = [false; 2];
    for (place, was_reached) in
        [drive.page(GUARD_PAGE)?, Iova::new(drive.paddr(GUARD_PAGE)?.bits())].into_iter().zip(&mut reached)
    {
        for page in MORE_PAGES {
            GUARD.fill(&drive.memory, offset_of(page))?;
        }
        let data = DataPointer { prp1: first.bits(), prp2: place.bits() };
        drive.command(|cid| nvm::read(cid, nsid, blocks, data)).await?;
        for page in MORE_PAGES {
            *was_reached |= !GUARD.fills(&drive.memory, offset_of(page))?;
        }
    }
    let [control, attack] = reached;
    if !control {
        return Err(Stuck::Control("a list in mapped memory is not followed"));
    }
    attacker.report_barrier(
        "a list of addresses at a physical address",
        !attack,
        format_args!("{IOMMU}: it cannot be read"),
    );
    Ok(())
}

/// Admin queues at physical addresses: the function must neither read the command there nor write the completion.
async fn queues<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let drive = &mut attacker.drive;
    disable(attacker.platform, &drive.controller, || attacker.platform.yield_now()).await?;
    let (sq, cq) = (drive.paddr(QUEUE_PAGE)?.bits(), drive.paddr(GUARD_PAGE)?.bits());
    GUARD.fill(&drive.memory, offset_of(GUARD_PAGE))?;
    let answer = offset_of(FIRST_PAGE);
    GUARD.fill(&drive.memory, answer)?;
    let command: Sqe = admin::identify_controller(Cid(1), DataPointer::page(drive.page(FIRST_PAGE)?.bits()));
    drive.memory.write(offset_of(QUEUE_PAGE), &command)?;
    let size_z = ENTRIES.saturating_sub(1);
    let registers = &drive.registers;
    registers.write32(Register::Aqa.offset(), Aqa::new().with_asqs_z(size_z).with_acqs_z(size_z).into_bits())?;
    registers.write64(Register::Asq.offset(), sq)?;
    registers.write64(Register::Acq.offset(), cq)?;
    let cc = Cc::new().with_ams(Arbitration::RoundRobin).with_iosqes(IOSQES_64).with_iocqes(IOCQES_16).with_en(true);
    registers.write32(Register::Cc.offset(), cc.into_bits())?;
    match wait_ready(attacker.platform, &drive.controller, || attacker.platform.yield_now(), true).await {
        // The controller may stop because of them.
        Ok(()) | Err(DeviceFault::TimedOut) => {}
        Err(fault) => return Err(fault.into()),
    }
    registers.write32(DOORBELL_BASE, 1)?;
    drive.tick().await;
    drive.tick().await;
    let answered = !GUARD.fills(&drive.memory, offset_of(GUARD_PAGE))? || !GUARD.fills(&drive.memory, answer)?;
    match drive.bring_up().await {
        // The controller stopped because of them: a reset of its function starts it again.
        Err(Stuck::Device(DeviceFault::TimedOut)) => drive.claim_again().await?,
        done => done?,
    }
    attacker.report_barrier(
        "queues at physical addresses",
        !answered,
        format_args!("{IOMMU}: no command and no completion there"),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_around_a_window_reach_beyond_a_window() {
        assert!(STEPS.is_sorted() && STEPS.last().is_some_and(|last| last * PAGE_SIZE as u64 > WINDOW_ALIGN));
    }
}
