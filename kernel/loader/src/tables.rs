//! The translation tables with which the kernel is entered (Arm ARM DDI 0487, section D8.3: 4 KiB granule, addresses of 48 bits).
//!
//! Two trees of two levels each, every entry of the lower one a block of 1 GiB. The lower half of addresses maps the
//! machine's memory at its physical addresses, so that the loader continues while translation begins. The upper half is the
//! kernel's window. The kernel replaces both.

/// `MAIR_EL1`: the kernel expects these kinds of memory in this order: three of devices (nGnRnE, nGnRE, GRE), normal not
/// cached, normal write-back.
pub const MEMORY_ATTRIBUTES: u64 = 0x0000_00ff_440c_0400;
const DEVICE: u64 = 0;
const NORMAL: u64 = 4;

/// `TCR_EL1`: both halves of 48 bits with granules of 4 KiB, walks cacheable and inner shareable, physical addresses of 40 bits, address
/// space identifiers of 16 bits.
pub const TRANSLATION_CONTROL: u64 = {
    const SIZE_48: u64 = 64 - 48;
    const WALKS: u64 = 0b11 << 4 | 0b01 << 2 | 0b01;
    let lower = SIZE_48 | WALKS << 8;
    let upper = (SIZE_48 | WALKS << 8 | 0b10 << 14) << 16;
    lower | upper | 0b010 << 32 | 1 << 36
};

const ENTRIES: usize = 512;
/// log2 of the bytes that an entry of the first and of the second level translates.
const FIRST_BITS: u32 = 39;
const SECOND_BITS: u32 = 30;

/// An entry that names a table of the next level.
const TABLE: u64 = 0b11;
/// An entry that is a block.
const BLOCK: u64 = 0b01;
const KIND_SHIFT: u32 = 2;
const INNER_SHAREABLE: u64 = 0b11 << 8;
/// Must be set, or the first access faults.
const ACCESSED: u64 = 1 << 10;
/// User level cannot execute from it.
const NEVER_EXECUTED_BY_USERS: u64 = 1 << 54;

/// A tree of tables, by the addresses that it translates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// For addresses whose upper bits are zero, `TTBR0_EL1`.
    Lower,
    /// For addresses whose upper bits are one, `TTBR1_EL1`.
    Upper,
}

/// A table of either level.
#[derive(Clone, Debug)]
#[repr(C, align(4096))]
struct Table([u64; ENTRIES]);

impl Table {
    const EMPTY: Self = Self([0; ENTRIES]);

    fn set(&mut self, index: u64, entry: u64) {
        if let Some(place) = self.0.get_mut(index as usize % ENTRIES) {
            *place = entry;
        }
    }
}

/// Both trees, in consecutive pages.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Tables {
    lower: [Table; 2],
    upper: [Table; 2],
}

impl Tables {
    /// Tables that translate nothing.
    pub const EMPTY: Self = Self { lower: [Table::EMPTY; 2], upper: [Table::EMPTY; 2] };

    /// Fills the tables, which lie at the physical address `here`. The lower tree maps the first GiB (the devices) and the
    /// second (memory), each at its own address. The upper tree maps the GiB from `kernel_base` on to the one at
    /// `physical_base`. Both are multiples of a GiB.
    pub fn fill(&mut self, here: u64, physical_base: u64, kernel_base: u64) {
        let place = |root, level: u64| Self::address(here, root) + level * size_of::<Table>() as u64;
        let [first, second] = &mut self.lower;
        first.set(0, place(Root::Lower, 1) | TABLE);
        second.set(0, block(0, DEVICE));
        second.set(physical_base >> SECOND_BITS, block(physical_base, NORMAL));
        let [first, second] = &mut self.upper;
        first.set(kernel_base >> FIRST_BITS, place(Root::Upper, 1) | TABLE);
        second.set(kernel_base >> SECOND_BITS, block(physical_base, NORMAL));
    }

    /// The physical address of a tree's root, for tables that lie at `here`.
    #[must_use]
    pub const fn address(here: u64, root: Root) -> u64 {
        match root {
            Root::Lower => here,
            Root::Upper => here + 2 * size_of::<Table>() as u64,
        }
    }
}

const fn block(address: u64, kind: u64) -> u64 {
    address | BLOCK | kind << KIND_SHIFT | INNER_SHAREABLE | ACCESSED | NEVER_EXECUTED_BY_USERS
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 0x4041_0000;
    const PHYSICAL: u64 = 0x4000_0000;
    const KERNEL: u64 = 0xffff_ff80_0000_0000;

    /// Walks the tables as the processor does: the physical address and the kind of memory (section D8.2.5).
    fn walk(tables: &Tables, address: u64) -> Option<(u64, u64)> {
        let root = match address >> 48 {
            0 => Root::Lower,
            0xffff => Root::Upper,
            _ => return None,
        };
        let all = [&tables.lower[0], &tables.lower[1], &tables.upper[0], &tables.upper[1]];
        let table = |place: u64| all[((place - HERE) / 4096) as usize];
        let first = table(Tables::address(HERE, root)).0[(address >> 39) as usize % 512];
        let second = match first & 0b11 {
            0b11 => table(first & 0x0000_ffff_ffff_f000).0[(address >> 30) as usize % 512],
            _ => return None,
        };
        let [accessed, read_only, user] = [10, 7, 6].map(|bit| second >> bit & 1 == 1);
        assert!(second & 1 == 0 || (accessed && !read_only && !user && second & 0b11 == 0b01));
        (second & 1 == 1).then_some(((second & 0x0000_ffff_c000_0000) | (address & 0x3fff_ffff), second >> 2 & 7))
    }

    fn tables() -> Tables {
        let mut tables = Tables::EMPTY;
        tables.fill(HERE, PHYSICAL, KERNEL);
        tables
    }

    #[test]
    fn memory_and_devices_stay_where_they_are() {
        let tables = tables();
        for (address, kind) in [(0, 0), (0x0900_0000, 0), (0x3fff_ffff, 0), (PHYSICAL, 4), (HERE, 4), (0x7fff_fff8, 4)]
        {
            assert_eq!(walk(&tables, address), Some((address, kind)), "{address:#x}");
        }
    }

    #[test]
    fn the_kernels_window_is_memory_from_its_beginning() {
        let tables = tables();
        assert_eq!(walk(&tables, KERNEL), Some((PHYSICAL, 4)));
        assert_eq!(walk(&tables, KERNEL + 0x3fff_fff8), Some((0x7fff_fff8, 4)));
    }

    #[test]
    fn nothing_else_is_translated() {
        let tables = tables();
        for address in [0x8000_0000, 1 << 39, 0x0000_ffff_ffff_f000, KERNEL - 1, KERNEL + (1 << 30), u64::MAX, 1 << 48]
        {
            assert_eq!(walk(&tables, address), None, "{address:#x}");
        }
    }

    #[test]
    fn the_control_register_says_what_the_tables_are() {
        // Worked out by hand from section D24.2.186: T0SZ 16, IRGN0 1, ORGN0 1, SH0 3; T1SZ 16, IRGN1 1, ORGN1 1, SH1 3, TG1 2; IPS 2; AS 1.
        assert_eq!(TRANSLATION_CONTROL, 0x12_b510_3510);
    }
}
