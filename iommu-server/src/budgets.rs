//! The budgets of clients that drive a function: the calls of each that are carried out from one tick to the next.
//!
//! The server runs before all clients, so a call of one takes processor time from the others. A call beyond the budget is refused
//! as [`iommu_api::BUSY`], and the client's platform repeats it. NVMe servers have no budget: they run before all clients as well,
//! and one that waited for a tick here would serve nobody.
//!
//! Left out: the refusal itself, which takes time too. A client that keeps asking takes that time whenever its thread runs.

use alloc::vec::Vec;
use iommu_api::Driver;
use iommu_api::frames::Frames;
use platform::Allowance;

/// Calls of each client at once, beside two for each of its frames: it may map all of its memory twice.
const BURST: u32 = 64;
/// Calls that a tick restores, of all clients together; at least one of each.
const A_TICK: u32 = 256;

/// The budgets by domain, less one; the PCI server has none.
#[derive(Debug)]
pub(crate) struct Budgets(Vec<Option<Allowance>>);

impl Budgets {
    /// Full budgets for the clients among `drivers`, which have the domains from 1 on.
    pub(crate) fn new(drivers: &[Driver], frames: &Frames) -> Self {
        let clients = drivers.iter().filter(|driver| driver.is_client).count();
        let a_tick = A_TICK.checked_div(u32::try_from(clients).unwrap_or(u32::MAX)).unwrap_or(A_TICK).max(1);
        let budget = |(driver, domain): (&Driver, u16)| {
            let twice = frames.count(domain).saturating_mul(2);
            let burst = BURST.saturating_add(u32::try_from(twice).unwrap_or(u32::MAX));
            driver.is_client.then(|| Allowance::with_burst(burst, a_tick))
        };
        Self(drivers.iter().zip(1..).map(budget).collect())
    }

    /// Whether a call by this badge is carried out now.
    pub(crate) fn takes_call(&mut self, badge: u64) -> bool {
        let domain = badge.checked_sub(1).and_then(|domain| usize::try_from(domain).ok());
        let budget = domain.and_then(|domain| self.0.get_mut(domain)).and_then(Option::as_mut);
        budget.is_none_or(|budget| budget.takes(1))
    }

    /// A tick has passed.
    pub(crate) fn refill(&mut self) {
        self.0.iter_mut().flatten().for_each(Allowance::refill);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iommu_api::frames::Run;
    use platform::PAGE_SIZE;
    use std::vec;

    fn budgets(clients: usize, pages: u32) -> Budgets {
        let driver = |is_client| Driver { name: "one".into(), tables: 1, is_client };
        let drivers: Vec<_> = core::iter::once(false).chain((0..clients).map(|_| true)).map(driver).collect();
        let run = |domain| Run {
            cptr: 8,
            paddr: u64::from(domain) << 32 | PAGE_SIZE as u64,
            frames: pages,
            domain,
            writable: 1,
        };
        Budgets::new(&drivers, &Frames::of((1..=drivers.len() as u16).map(run).collect()))
    }

    fn taken(budgets: &mut Budgets, badge: u64) -> u32 {
        (0..100_000).take_while(|_| budgets.takes_call(badge)).count() as u32
    }

    #[test]
    fn a_client_maps_its_memory_twice_at_once_and_then_a_part_at_each_tick() {
        for pages in [200, 16384] {
            let mut budgets = budgets(1, pages);
            assert!(taken(&mut budgets, 2) >= 2 * pages);
            for _ in 0..3 {
                assert_eq!(taken(&mut budgets, 2), 0);
                budgets.refill();
                assert_eq!(taken(&mut budgets, 2), A_TICK);
            }
        }
    }

    #[test]
    fn joint_floods_stay_within_the_calls_of_a_tick_and_each_has_its_own() {
        for clients in [2, 7, 31] {
            let mut budgets = budgets(clients, 16);
            let all = |budgets: &mut Budgets| (2..2 + clients as u64).map(|badge| taken(budgets, badge)).collect();
            let _: Vec<u32> = all(&mut budgets);
            budgets.refill();
            let taken: Vec<u32> = all(&mut budgets);
            assert!(taken.iter().sum::<u32>() <= A_TICK && taken.iter().all(|taken| *taken > 0), "{taken:?}");
        }
    }

    #[test]
    fn servers_are_never_made_to_wait() {
        let mut budgets = budgets(1, 1);
        for badge in [0, 1, iommu_api::MASTER] {
            assert_eq!(taken(&mut budgets, badge), 100_000);
        }
        assert_eq!(vec![taken(&mut budgets, 2)], [BURST + 2]);
    }
}
