//! Address space identifiers, in pools of 512: each names at most one VSpace.

use crate::arena::{AsidPoolId, TableId, ThreadId};
use crate::capability::Capability;
use crate::invocation::{Invocation, Stop};
use crate::kernel::Kernel;
use crate::label;
use crate::object::{PAGE_BITS, TABLE_ENTRIES};
use platform::{AbsoluteCPtr, AsidControl, AsidPool, Cap, Error, Result, Untyped, VSpace};

const POOL_BITS: u32 = 9;

impl Kernel {
    /// See [`platform::Kernel::asid_control_make_pool`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn asid_control_make_pool(
        &mut self,
        thread: ThreadId,
        control: Cap<AsidControl>,
        untyped: Cap<Untyped>,
        dest: AbsoluteCPtr,
    ) -> Result<()> {
        let (words, caps) = ([dest.index, dest.depth.into()], [untyped.cptr(), dest.root.cptr()]);
        let (service, label) = (control.cptr(), label::ASID_CONTROL_MAKE_POOL);
        let invocation = Invocation { service, label, words: &words, caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let Capability::AsidControl = found.cap else { return Err(Stop::OtherKind) };
            let (parent, root) = (found.cap(0)?, found.cap(1)?);
            let free = kernel.asid_table.iter().position(Option::is_none).ok_or(Error::DeleteFirst)?;
            let Capability::Untyped { size_bits: PAGE_BITS, is_device: false, .. } = kernel.slots[parent].cap else {
                return Err(Error::InvalidCapability(1).into());
            };
            kernel.ensure_no_children(parent)?;
            let slot = kernel.resolve(&kernel.slots[root].cap, dest.index, dest.depth)?;
            kernel.ensure_empty(slot)?;
            kernel.make_asid_pool(parent, slot, (free << POOL_BITS) as u16);
            Ok(())
        })
    }

    /// See [`platform::Kernel::asid_pool_assign`].
    ///
    /// # Errors
    /// The kernel's errors, as the seam returns them.
    pub fn asid_pool_assign(&mut self, thread: ThreadId, pool: Cap<AsidPool>, vspace: Cap<VSpace>) -> Result<()> {
        let (service, caps) = (pool.cptr(), [vspace.cptr()]);
        let invocation = Invocation { service, label: label::ASID_POOL_ASSIGN, words: &[], caps: &caps };
        self.invoke(thread, &invocation, |kernel, found| {
            let Capability::AsidPool { pool, base } = found.cap else { return Err(Stop::OtherKind) };
            let vspace = found.cap(0)?;
            let Capability::VSpace { table, asid: 0 } = kernel.slots[vspace].cap else {
                return Err(Error::InvalidCapability(1).into());
            };
            match kernel.asid_table[usize::from(base >> POOL_BITS)] {
                None => return Err(Error::FailedLookup.into()),
                Some(installed) if installed != pool => return Err(Error::InvalidCapability(0).into()),
                Some(_) => {}
            }
            let vspaces = &mut kernel.asid_pools[pool].vspaces;
            // Number 0 means none.
            let is_free = |place: &usize| vspaces[*place].is_none() && (base != 0 || *place != 0);
            let place = (0..TABLE_ENTRIES).find(is_free).ok_or(Error::DeleteFirst)?;
            vspaces[place] = Some(table);
            kernel.slots[vspace].cap = Capability::VSpace { table, asid: base + place as u16 };
            Ok(())
        })
    }

    pub(crate) fn install_asid_pool(&mut self, pool: AsidPoolId, base: u16) {
        self.asid_table[usize::from(base >> POOL_BITS)] = Some(pool);
    }

    /// The VSpace that `asid` names.
    #[inline]
    pub(crate) fn vspace_of(&self, asid: u16) -> Option<TableId> {
        let pool = self.asid_table.get(usize::from(asid >> POOL_BITS)).copied().flatten()?;
        self.asid_pools[pool].vspaces[usize::from(asid) % TABLE_ENTRIES]
    }

    /// Frees an identifier, if it still names `table`.
    pub(crate) fn end_asid(&mut self, asid: u16, table: TableId) {
        let Some(pool) = self.asid_table.get(usize::from(asid >> POOL_BITS)).copied().flatten() else { return };
        let vspace = &mut self.asid_pools[pool].vspaces[usize::from(asid) % TABLE_ENTRIES];
        if *vspace == Some(table) {
            *vspace = None;
            self.translation_generation += 1;
        }
    }

    pub(crate) fn end_asid_pool(&mut self, pool: AsidPoolId, base: u16) {
        let place = &mut self.asid_table[usize::from(base >> POOL_BITS)];
        if *place == Some(pool) {
            *place = None;
            self.translation_generation += 1;
        }
    }
}
