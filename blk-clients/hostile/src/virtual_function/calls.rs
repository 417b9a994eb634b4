//! Permitted calls of the PCI server and the IOMMU server, without end. The neighbours' results show what they cost.

use super::attacker::Attacker;
use super::{Stuck, pci};
use alloc::vec::Vec;
use blk_api::names;
use iommu_api::{MAP, Map, UNMAP, Unmap};
use pci_api::{INTERRUPTS, INTERRUPTS_MSIX, IO_SPACE, Index, LIST, START};
use platform::{Endpoint, Iova, Kernel, Message, Platform, Rights};

/// Calls of a kind in a row.
const IN_A_ROW: u32 = 256;
/// The page of the window that is mapped and unmapped, and an address at which nothing else is.
const PAGE: u32 = 7;
const FREE: Iova = Iova::new(8 << 30);

/// Makes some calls of each kind after the other. Returns only when something is missing.
pub(super) async fn flood<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let pci = [
        Message::with(INTERRUPTS, &Index(INTERRUPTS_MSIX.into())),
        Message::new(START),
        Message::new(IO_SPACE),
        Message::with(LIST, &Index(0)),
    ];
    let map = Message::with(MAP, &Map::new(FREE.bits(), attacker.drive.frame(PAGE)?.cptr(), Rights::READ_WRITE));
    let unmap = Message::with(UNMAP, &Unmap { iova: FREE.bits() });
    // With IO page tables the kernel has the IOSpaces, and no server is called for them.
    let iommu = if attacker.environment.cap_count(names::IO_TABLE) > 0 { Vec::new() } else { [map, unmap].to_vec() };
    loop {
        for message in pci.iter().flat_map(|message| (0..IN_A_ROW).map(move |_| message)) {
            // It goes on after any answer.
            let _ = pci::call(attacker, message).await?;
        }
        for message in (0..IN_A_ROW).flat_map(|_| &iommu) {
            let server = attacker.drive.io_space.cptr().cast::<Endpoint>();
            let _ = attacker.platform.kernel().call(server, message).await;
        }
    }
}
