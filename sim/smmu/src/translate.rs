//! Walking translation tables (DDI 0487, D5.2 to D5.4), with a cache of every level.

use platform::{Iova, Paddr};
use smmu_spec::context::Asid;
use smmu_spec::registers::output_bits;
use smmu_spec::translation::{Descriptor, FIRST_LEVEL, LAST_LEVEL, index, shift};
use smmu_spec::{ContextDescriptor, EventKind};

use crate::configuration::fetch;
use crate::registers::OAS;
use crate::smmu::{Direction, PhysicalMemory, Refusal, Smmu};
use crate::violation::Violation;

/// Bits of a page descriptor that are reserved, or that request features left out.
const PAGE_RESERVED: Descriptor = Descriptor::from_bits((0x7 << 48) | (0xf << 55))
    .with_dirty_modifier(true)
    .with_contiguous(true)
    .with_table_limits(0x1f)
    .with_non_secure(true);

impl Smmu {
    /// Returns the address to which a context translates `iova`.
    pub(crate) fn look_up(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        context: &ContextDescriptor,
        iova: Iova,
        direction: Direction,
    ) -> Result<Paddr, Refusal> {
        if iova.bits() >> (64 - u32::from(context.word0.t0sz())) != 0 {
            return Err(Refusal::Event(EventKind::Translation));
        }
        let asid = Asid(context.word0.asid());
        let mut table = context.root();
        for level in FIRST_LEVEL..=LAST_LEVEL {
            let descriptor = self.descriptor(memory, (asid, level), table, iova)?;
            if level == LAST_LEVEL {
                return access(descriptor, iova, direction, context.word0.ips());
            }
            table = descriptor.address();
        }
        Err(Refusal::Event(EventKind::Translation))
    }

    /// Returns the valid descriptor for an address in a table: the cached one, if there is one.
    fn descriptor(
        &mut self,
        memory: &mut dyn PhysicalMemory,
        (asid, level): (Asid, u8),
        table: u64,
        iova: Iova,
    ) -> Result<Descriptor, Refusal> {
        let key = (asid, level, iova.bits() >> shift(level));
        let now = fetch::<Descriptor>(memory, table + index(iova.bits(), level) as u64 * 8);
        if let Some(cached) = self.caches.descriptors.get(&key).copied() {
            if now.is_ok_and(|now| now.valid() && now != cached) {
                self.violation(Violation::TranslationChanged { asid, iova: iova.bits() });
            }
            return Ok(cached);
        }
        let now = now.map_err(|_| Refusal::Event(EventKind::WalkAbort))?;
        if !now.valid() {
            return Err(Refusal::Event(EventKind::Translation));
        }
        if !is_legal(now, level) {
            self.violation(Violation::Descriptor { bits: now.into_bits() });
            return Err(Refusal::Event(EventKind::Translation));
        }
        self.caches.descriptors.insert(key, now);
        Ok(now)
    }
}

/// Whether the descriptor is a table, or a page of one ASID, as the level requires; blocks are left out.
fn is_legal(descriptor: Descriptor, level: u8) -> bool {
    let bits = descriptor.into_bits();
    let in_reach = descriptor.address() >> output_bits(OAS) == 0 || level == LAST_LEVEL;
    let fields = if level == LAST_LEVEL {
        bits & PAGE_RESERVED.into_bits() == 0 && descriptor.not_global()
    } else {
        bits == Descriptor::table(descriptor.address()).into_bits()
    };
    descriptor.table_or_page() && fields && in_reach
}

/// Checks in the order of the standard: address size, access flag, permission (section 3.12 and DDI 0487, D5.4).
fn access(page: Descriptor, iova: Iova, direction: Direction, ips: u8) -> Result<Paddr, Refusal> {
    if page.address() >> output_bits(ips) != 0 {
        return Err(Refusal::Event(EventKind::AddressSize));
    }
    if !page.accessed() {
        return Err(Refusal::Event(EventKind::AccessFlag));
    }
    if !page.unprivileged() || (direction == Direction::Write && page.read_only()) {
        return Err(Refusal::Event(EventKind::Permission));
    }
    Ok(Paddr::new(page.address() | iova.page_offset() as u64))
}
