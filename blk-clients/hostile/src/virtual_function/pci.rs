//! Calls to the PCI server that are not for it: other functions, other functions' vectors and registers, virtual functions, and
//! a badge that is not its own.

use super::Stuck;
use super::attacker::Attacker;
use crate::verdicts::sentence;
use pci_api::names::PCI;
use pci_api::{
    BAR_FRAME, CLAIM, Claim, GRANTED, INTERRUPTS, INTERRUPTS_INTX, INTERRUPTS_MSI, INTERRUPTS_MSIX, Index, RESTORE,
    Refusal, VECTOR, VIRTUAL_FUNCTIONS, WITHDRAW,
};
use platform::{AbsoluteCPtr, Badge, CPtr, CapData, Endpoint, Kernel, Message, Platform, Rights};
use workload::attacks;

/// Functions of its own bus that are tried.
const FUNCTIONS: u16 = 16;
/// Functions on all buses that are tried.
const MOST_LISTED: u64 = 64;
/// Labels of no call of the server.
const LABELS: [u32; 4] = [0, 12, 99, 0xf_ffff];
/// Pages and vectors far beyond its function's.
const FAR: u64 = 1 << 20;
/// Badges that other drivers have.
const BADGES: u64 = 8;

/// Runs all attacks of this module.
pub(super) async fn run<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    attacker.verdicts.begin(&attacks::PCI_SERVER);
    calls(attacker).await?;
    other_badges(attacker)?;
    other_functions(attacker).await
}

/// Calls with its own claim that must be refused.
async fn calls<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let event = attacker.environment.cap::<platform::Notification>(platform::names::EVENT);
    let event = event.ok_or(Stuck::Missing("its notification"))?.cptr();
    let far = |label| Message::with(label, &Index(FAR));
    let with = |label, number: u16| Message::with(label, &Index(number.into()));
    for (name, message) in [
        ("ask for registers that are not its own", far(BAR_FRAME)),
        ("ask for an interrupt that is not its own", far(VECTOR).and_cap(event)),
        ("enable virtual functions", with(VIRTUAL_FUNCTIONS, 1)),
        ("disable virtual functions", with(VIRTUAL_FUNCTIONS, 0)),
        ("withdraw a virtual function", with(WITHDRAW, 0)),
        ("restore a virtual function", with(RESTORE, 0)),
        ("interrupt by a pin", with(INTERRUPTS, INTERRUPTS_INTX)),
        ("interrupt by MSI", with(INTERRUPTS, INTERRUPTS_MSI)),
    ] {
        judge(attacker, name, &message).await?;
    }
    for label in LABELS {
        let name = sentence(format_args!("call the PCI server with label {label}"));
        judge(attacker, &name, &Message::new(label)).await?;
    }
    attacker.drive.claim_again().await
}

async fn judge<P: Platform>(attacker: &mut Attacker<'_, P>, name: &str, message: &Message) -> Result<(), Stuck> {
    let answer = call(attacker, message).await?;
    match answer {
        Ok(()) => attacker.report(name, false, format_args!("nothing: it was granted")),
        Err(refusal) => attacker.report(name, true, format_args!("the PCI server: {refusal}")),
    }
    Ok(())
}

pub(super) async fn call<P: Platform>(
    attacker: &Attacker<'_, P>,
    message: &Message,
) -> Result<Result<(), Refusal>, Stuck> {
    let server = attacker.environment.cap::<Endpoint>(PCI).ok_or(Stuck::Missing("the PCI server"))?;
    let answer = attacker.platform.kernel().call(server, message).await;
    if answer.cap_received {
        let cptr = attacker.environment.receive_cptr.and_then(|cptr| attacker.environment.absolute(cptr));
        attacker.platform.kernel().cnode_delete(cptr.ok_or(Stuck::Missing("its CNode"))?)?;
    }
    Ok(if answer.label == GRANTED { Ok(()) } else { Err(Refusal::from_label(answer.label)) })
}

/// Makes another driver's call of its own: the kernel gives a badged capability no other badge.
fn other_badges<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let environment = attacker.environment;
    let server = environment.cap::<Endpoint>(PCI).ok_or(Stuck::Missing("the PCI server"))?;
    let cptr = |cptr: CPtr| environment.absolute(cptr).ok_or(Stuck::Missing("its CNode"));
    let empty: AbsoluteCPtr = cptr(environment.receive_cptr.ok_or(Stuck::Missing("a receive cptr"))?)?;
    let kernel = attacker.platform.kernel();
    let mut minted = None;
    for badge in 0..BADGES {
        if kernel.cnode_mint(empty, cptr(server.cptr())?, Rights::ALL, CapData::Badge(Badge(badge))).is_ok() {
            minted.get_or_insert(badge);
            kernel.cnode_delete(empty)?;
        }
    }
    match minted {
        None => attacker.report("call as another driver", true, format_args!("the kernel: no second badge")),
        Some(badge) => attacker.report("call as another driver", false, format_args!("nothing: it has badge {badge}")),
    }
    Ok(())
}

/// Claims every other function, without a claim of its own: the physical one, neighbours', bridges.
async fn other_functions<P: Platform>(attacker: &mut Attacker<'_, P>) -> Result<(), Stuck> {
    let own = attacker.drive.bdf;
    attacker.drive.pci.release().await?;
    let mut bdfs: alloc::vec::Vec<u16> = (0..FUNCTIONS).map(|number| own & 0xff00 | number).collect();
    for index in 0..MOST_LISTED {
        let Some(function) = attacker.drive.pci.function(index).await? else { break };
        bdfs.push(function.bdf);
    }
    let (mut tried, mut granted) = (0u32, None);
    for bdf in bdfs.into_iter().filter(|bdf| *bdf != own) {
        for interrupts in [INTERRUPTS_MSIX, INTERRUPTS_MSI, INTERRUPTS_INTX] {
            let claim = Claim { bdf, interrupts, class_code: 0 };
            tried = tried.saturating_add(1);
            if call(attacker, &Message::with(CLAIM, &claim)).await?.is_ok() {
                granted.get_or_insert(bdf);
            }
        }
    }
    match granted {
        None => attacker.report("claim another function", true, format_args!("the PCI server: {tried} times")),
        Some(bdf) => attacker.report("claim another function", false, format_args!("nothing: it has {bdf:04x}")),
    }
    attacker.drive.claim_again().await
}
