//! Namespaces of neighbours and of the physical function, and blocks behind the end of its own.

use super::content::Content;
use super::drive::Drive;
use super::{Attacker, Stuck, Tally};
use nvme_spec::nvm::{self, Blocks};
use nvme_spec::{Cid, DataPointer, Lba, Nsid, Sqe};
use platform::Platform;

/// The namespaces that are tried: more than a scenario has.
const TRIED: u32 = 16;
/// Content of the window's first page, which no command may change.
const GUARD: Content = Content(0x7a11_d000_0000_0000);

/// An I/O command to a namespace.
type Build = fn(Cid, Nsid, Blocks, DataPointer) -> Sqe;

/// The commands by their attacks' names.
const COMMANDS: [(&str, Build); 6] = [
    ("read", nvm::read),
    ("write", nvm::write),
    ("compare", nvm::compare),
    ("zero", |cid, nsid, blocks, _| nvm::write_zeroes(cid, nsid, blocks)),
    ("flush", |cid, nsid, _, _| nvm::flush(cid, nsid)),
    ("discard", |cid, nsid, _, data| nvm::deallocate(cid, nsid, 0, data)),
];

/// Namespaces that are not its own.
pub(super) fn foreign(own: Nsid) -> impl Iterator<Item = Nsid> {
    (1..=TRIED).map(Nsid).filter(move |nsid| *nsid != own)
}

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    for (verb, build) in COMMANDS {
        let (mut tally, block) = (Tally::default(), Drive::<P>::block(Lba(0))?);
        let mut intact = true;
        for nsid in foreign(attacker.drive.nsid) {
            let status = attempt(attacker, nsid, block, build).await?;
            tally.add(nsid.0, status);
            intact &= GUARD.fills(&attacker.drive.memory, 0)?;
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

async fn attempt<P: Platform>(
    attacker: &mut Attacker<'_, P>,
    nsid: Nsid,
    blocks: Blocks,
    build: Build,
) -> Result<nvme_spec::Status, Stuck> {
    let drive = &mut attacker.drive;
    GUARD.fill(&drive.memory, 0)?;
    let data = DataPointer::page(drive.page(0)?.bits());
    drive.command(|cid| build(cid, nsid, blocks, data)).await
}

async fn behind_its_end<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let (own, end) = (attacker.drive.nsid, attacker.drive.blocks);
    for (verb, build) in COMMANDS.into_iter().take(2) {
        let mut tally = Tally::default();
        for (number, lba) in (0..).zip([end, end.saturating_add(8), end.saturating_mul(2), u64::MAX >> 1]) {
            let status = attempt(attacker, own, Drive::<P>::block(Lba(lba))?, build).await?;
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
