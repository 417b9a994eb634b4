//! Addresses outside of its regions, asked for through the platform: memory and registers through forged regions. Here
//! the platform refuses. An access without asking is a fault of the kernel, and is a last attack (`last`).

use crate::attacker::Attacker;
use blk_api::names;
use platform::{Environment, Memory, Platform, Region, RegionKind, Vaddr};
use workload::attacks;

/// The code that stops these attacks. A malicious program would leave it out. The last attack `unmapped-read` shows the
/// barrier that it could not leave out.
const SEAM: &str = "the seam in its own program (of the kernel: last = unmapped-read)";

/// A page.
const LEN: u64 = 4096;

/// Runs all attacks of this module.
pub(crate) fn run<P: Platform>(attacker: &mut Attacker<'_, P>, environment: &Environment) {
    attacker.verdicts.begin(&attacks::ADDRESSES);
    let platform = attacker.session.platform().clone();
    for (name, vaddr) in forged(environment) {
        let memory_refused = [RegionKind::ReadOnly, RegionKind::ReadWrite].into_iter().all(|kind| {
            let region = Region { name: platform::Name::new(), vaddr, len: LEN, kind };
            platform.memory(&region).is_err()
        });
        judge(attacker, name, memory_refused && platform.mmio(vaddr, LEN as usize).is_err());
    }
    writable_server_ring(attacker, environment, &platform);
}

/// Returns addresses outside of every region of the environment: around the window, unmapped, the kernel's, and one that
/// wraps.
fn forged(environment: &Environment) -> impl Iterator<Item = (&'static str, Vaddr)> {
    let window = environment.region(names::WINDOW);
    let (begin, end) =
        window.map_or((0, 0), |window| (window.vaddr.bits(), window.vaddr.bits().wrapping_add(window.len)));
    let places = [
        ("memory behind the window", end),
        ("memory before the window", begin.wrapping_sub(LEN)),
        ("memory at address 0", 0),
        ("the kernel's memory", 0xffff_ff80_0000_0000),
        ("memory across the end of the address space", LEN.wrapping_neg().wrapping_add(8)),
    ];
    places.map(|(name, address)| (name, Vaddr::new(address))).into_iter()
}

fn judge<P: Platform>(attacker: &mut Attacker<'_, P>, name: &str, refused: bool) {
    let stopped_by = if refused { SEAM } else { "nothing: it was granted" };
    attacker.report(name, refused, format_args!("{stopped_by}"));
}

/// Asks for the server's ring, which it holds read-only, as if it were its own.
fn writable_server_ring<P: Platform>(attacker: &mut Attacker<'_, P>, environment: &Environment, platform: &P) {
    let Some(region) = environment.region(names::RING_SERVER) else { return };
    let forged = Region { kind: RegionKind::ReadWrite, ..region.clone() };
    let refused = platform.memory(&forged).and_then(|ring| ring.write(0, &u32::MAX)).is_err();
    judge(attacker, "write the completion ring through a forged region", refused);
}
