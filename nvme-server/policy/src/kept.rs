//! The orders that a restarted policy component finds: without them it would restore rights that an operator took.
//!
//! They lie in a page that the supervisor leaves as it is. An order replaces the earlier one about the same share or the same blocks:
//! it is written to a free place first, and then the earlier one is deleted. So a component that dies in between has both, and the
//! later one counts. Left out: the order between these and the changes of the configuration. After a restart the configured ones
//! that are due come first.

use alloc::vec::Vec;
use blk_api::orders::RightsOrder;
use blk_api::policy::Share;
use platform::{Memory, PAGE_SIZE};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// An order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    Share(Share),
    Rights(RightsOrder),
}

impl Order {
    /// Whether one of them makes the other needless.
    fn is_about_the_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Share(one), Self::Share(other)) => one.session == other.session,
            (Self::Rights(one), Self::Rights(other)) => {
                (one.session, one.first, one.blocks) == (other.session, other.first, other.blocks)
            }
            _ => false,
        }
    }
}

/// A place of the page.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Place {
    /// The order's number, ascending from 1; 0 in a free place. Written last.
    number: u64,
    /// [`SHARE`] or [`RIGHTS`]: the one that is meant.
    kind: u64,
    share: Share,
    rights: RightsOrder,
}

const SHARE: u64 = 1;
const RIGHTS: u64 = 2;

/// Places of the page.
pub(crate) const PLACES: usize = PAGE_SIZE / size_of::<Place>();

/// The page.
pub(crate) struct Kept<M> {
    memory: M,
    /// The orders, by place, with their numbers.
    orders: Vec<Option<(u64, Order)>>,
}

impl<M: Memory> Kept<M> {
    /// The orders of the component's incarnations before. A page that cannot be read has none.
    pub(crate) fn new(memory: M) -> Self {
        let order = |place: usize| {
            let Place { number, kind, share, rights } = memory.read(offset(place)).ok()?;
            let order = match kind {
                SHARE => Order::Share(share),
                RIGHTS => Order::Rights(rights),
                _ => return None,
            };
            (number != 0).then_some((number, order))
        };
        let orders = (0..PLACES).map(order).collect();
        Self { memory, orders }
    }

    /// The orders, in their order.
    pub(crate) fn all(&self) -> Vec<Order> {
        let mut all: Vec<(u64, Order)> = self.orders.iter().flatten().copied().collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        all.into_iter().map(|(_, order)| order).collect()
    }

    /// Whether an order can be kept.
    pub(crate) fn has_room(&self) -> bool {
        self.orders.iter().any(Option::is_none)
    }

    /// Keeps an order. Returns whether there was a place.
    pub(crate) fn keep(&mut self, order: Order) -> bool {
        let earlier = self.orders.iter().position(|kept| kept.is_some_and(|(_, kept)| kept.is_about_the_same(&order)));
        let Some(free) = self.orders.iter().position(Option::is_none) else { return false };
        let number = self.orders.iter().flatten().map(|(number, _)| *number).max().unwrap_or(0).saturating_add(1);
        let blank = Place { number: 0, kind: 0, share: Share::new_zeroed(), rights: RightsOrder::new_zeroed() };
        let place = match order {
            Order::Share(share) => Place { kind: SHARE, share, ..blank },
            Order::Rights(rights) => Place { kind: RIGHTS, rights, ..blank },
        };
        if self.memory.write(offset(free), &place).is_err() || !self.number(free, number) {
            return false;
        }
        self.remember(free, Some((number, order)));
        if let Some(earlier) = earlier {
            self.number(earlier, 0);
            self.remember(earlier, None);
        }
        true
    }

    /// Writes the number of a place, after what was written before.
    fn number(&self, place: usize, number: u64) -> bool {
        self.memory.fence();
        self.memory.write(offset(place), &number).is_ok()
    }

    fn remember(&mut self, place: usize, kept: Option<(u64, Order)>) {
        if let Some(known) = self.orders.get_mut(place) {
            *known = kept;
        }
    }
}

const fn offset(place: usize) -> usize {
    place.saturating_mul(size_of::<Place>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use platform::fake::Ram;

    fn rights(session: u32, first: u64, rights: u32) -> Order {
        Order::Rights(RightsOrder { session, rights, first, blocks: 8 })
    }

    fn share(session: u32, weight: u32) -> Order {
        Order::Share(Share { session, weight, ..Share::new_zeroed() })
    }

    #[test]
    fn a_successor_finds_the_last_order_about_each_thing_in_their_order() {
        let ram = Ram::new(PAGE_SIZE);
        let mut kept = Kept::new(ram.clone());
        for order in [rights(1, 0, 0), share(1, 2), rights(1, 8, 0), share(2, 2), rights(1, 0, 3), share(1, 5)] {
            assert!(kept.keep(order));
        }
        let last = [rights(1, 8, 0), share(2, 2), rights(1, 0, 3), share(1, 5)];
        assert_eq!(kept.all(), last);
        assert_eq!(Kept::new(ram).all(), last);
    }

    #[test]
    fn alternating_orders_need_two_places_and_others_run_out() {
        let mut kept = Kept::new(Ram::new(PAGE_SIZE));
        assert!((0..10_000).all(|number| kept.keep(rights(1, 0, number % 2))));
        assert_eq!(kept.all(), [rights(1, 0, 1)]);
        let room = (1..).take_while(|number| kept.keep(rights(1, number * 8, 0))).count();
        assert_eq!(room, PLACES - 1);
        assert_eq!(kept.all().len(), PLACES);
    }

    #[test]
    fn a_component_that_dies_at_any_write_leaves_one_of_the_two_or_both() {
        let before = [share(1, 1), rights(1, 0, 0)];
        for last in 0..4 {
            let (ram, torn) = (Ram::new(PAGE_SIZE), Ram::new(PAGE_SIZE));
            let mut kept = Kept::new(ram.clone());
            before.into_iter().for_each(|order| assert!(kept.keep(order)));
            let mut bytes = [0; PAGE_SIZE];
            ram.read_bytes(0, &mut bytes).unwrap();
            torn.write_bytes(0, &bytes).unwrap();
            // The first `last` writes of the next order reach the memory.
            let writes = std::rc::Rc::new(std::cell::Cell::new(0));
            let (from, to, count) = (ram.clone(), torn.clone(), std::rc::Rc::clone(&writes));
            let watched = ram.watched(move |_, _| {
                if count.get() == last {
                    let mut bytes = [0; PAGE_SIZE];
                    from.read_bytes(0, &mut bytes).unwrap();
                    to.write_bytes(0, &bytes).unwrap();
                }
                count.set(count.get() + 1);
            });
            assert!(Kept::new(watched).keep(share(1, 7)));
            let found = Kept::new(torn).all();
            assert!(found.contains(&before[1]), "{last}");
            assert!(found.contains(&before[0]) || found.contains(&share(1, 7)), "{last}: {found:?}");
        }
    }
}
