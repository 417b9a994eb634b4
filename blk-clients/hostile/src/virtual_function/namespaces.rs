//! Namespaces of neighbours and of the physical function, and blocks behind the end of its own.

use super::Stuck;
use super::attacker::{Attacker, Tally};
use super::content::{Content, offset_of};
use super::drive::Drive;
use nvme_spec::nvm::{self, Blocks, Range};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe, Status, StatusCode};
use platform::{Memory, Platform};
use workload::attacks;

/// The namespaces that are tried: more than a scenario has.
const TRIED: u32 = 16;
/// The block that commands name.
const NAMED: Lba = Lba(0);
/// Pages of the window: the data of a transfer, and a list of ranges.
const DATA_PAGE: u32 = 0;
const LIST_PAGE: u32 = 1;
/// Content of the page of data, which no command may change.
const GUARD: Content = Content(0x7a11_d000_0000_0000);

/// An I/O command to a namespace.
type Build = fn(Cid, Nsid, Blocks, DataPointer) -> Sqe;

/// The commands by their attacks' names, with the page that their data pointer names.
const COMMANDS: [(&str, u32, Build); 6] = [
    ("read", DATA_PAGE, nvm::read),
    ("write", DATA_PAGE, nvm::write),
    ("compare", DATA_PAGE, nvm::compare),
    ("zero", DATA_PAGE, |cid, nsid, blocks, _| nvm::write_zeroes(cid, nsid, blocks)),
    ("flush", DATA_PAGE, |cid, nsid, _, _| nvm::flush(cid, nsid)),
    ("discard", LIST_PAGE, |cid, nsid, _, list| nvm::deallocate(cid, nsid, 0, list)),
];

/// Namespaces that are not its own.
pub(super) fn foreign(own: Nsid) -> impl Iterator<Item = Nsid> {
    (1..=TRIED).map(Nsid).filter(move |nsid| *nsid != own)
}

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::NAMESPACES);
    list_ranges(attacker).await?;
    for (verb, page, build) in COMMANDS {
        let (mut tally, block) = (Tally::default(), Drive::<P>::block(NAMED)?);
        let mut intact = true;
        for nsid in foreign(attacker.drive.nsid) {
            let status = attempt(attacker, nsid, block, page, build).await?;
            tally.add(nsid.0, status);
            intact &= GUARD.fills(&attacker.drive.memory, offset_of(DATA_PAGE))?;
        }
        let name = crate::verdicts::sentence(format_args!("{verb} a neighbour's namespace"));
        if intact {
            attacker.report_all(&name, tally);
        } else {
            attacker.report(&name, false, format_args!("nothing: the window was written"));
        }
    }
    behind_its_end(attacker).await?;
    described(attacker).await
}

/// Writes the list of ranges that a discard names, and checks that the list is good: by a discard in its own namespace.
async fn list_ranges<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let range = Range::new(NAMED, 1).ok_or(Stuck::Missing("a block"))?;
    attacker.drive.memory.write(offset_of(LIST_PAGE), &range)?;
    let (own, list) = (attacker.drive.nsid, DataPointer::page(attacker.drive.page(LIST_PAGE)?.bits()));
    let status = attacker.drive.command(|cid| nvm::deallocate(cid, own, 0, list)).await?;
    if status.is_success() { Ok(()) } else { Err(Stuck::Honest(status)) }
}

/// Executes a command. A comparison that found a difference has read the block, so it counts as a success.
async fn attempt<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    nsid: Nsid,
    blocks: Blocks,
    page: u32,
    build: Build,
) -> Result<Status, Stuck> {
    let drive = &mut attacker.drive;
    GUARD.fill(&drive.memory, offset_of(DATA_PAGE))?;
    let data = DataPointer::page(drive.page(page)?.bits());
    let status = drive.command(|cid| build(cid, nsid, blocks, data)).await?;
    Ok(if status.code() == StatusCode::CompareFailure { Status::SUCCESS } else { status })
}

async fn behind_its_end<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (own, end) = (attacker.drive.nsid, attacker.drive.blocks);
    for (verb, page, build) in COMMANDS.into_iter().take(2) {
        let mut tally = Tally::default();
        for (number, lba) in (0..).zip([end, end.saturating_add(8), end.saturating_mul(2), u64::MAX >> 1]) {
            let status = attempt(attacker, own, Drive::<P>::block(Lba(lba))?, page, build).await?;
            tally.add(number, status);
        }
        attacker.report_all(&crate::verdicts::sentence(format_args!("{verb} blocks behind its namespace")), tally);
    }
    Ok(())
}

/// A controller answers all zeroes about a namespace that is not attached to it (base specification 1.4, section 5.15.2.1).
async fn described<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let mut known = None;
    for nsid in foreign(attacker.drive.nsid) {
        if attacker.drive.namespace(nsid).await?.is_some() {
            known.get_or_insert(nsid.0);
        }
    }
    match known {
        None => attacker.report("have a neighbour's namespace described", true, format_args!("the controller: zeroes")),
        Some(nsid) => attacker.report(
            "have a neighbour's namespace described",
            false,
            format_args!("nothing: {nsid} was described"),
        ),
    }
    Ok(())
}
