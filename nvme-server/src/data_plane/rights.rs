//! Records of extents, which the policy component installs and removes, and the end of commands submitted before a removal.

use super::DataPlane;
use blk_api::policy::{READ, Range, Record, Refusal, Removal, WRITE};
use extent_table::{InstallError, RecordError, Rights};
use platform::{Kernel, Platform};

impl<P: Platform> DataPlane<P> {
    /// Installs a record for an open session.
    ///
    /// # Errors
    /// [`Refusal`], and nothing has changed.
    pub(crate) fn install_record(&mut self, record: &Record) -> Result<(), Refusal> {
        let Record { session: number, rights, first, lba, blocks } = *record;
        let rights = match rights {
            0 => Rights::NONE,
            READ => Rights::READ,
            WRITE => Rights::WRITE,
            _ if rights == READ | WRITE => Rights::READ_WRITE,
            _ => return Err(Refusal::UnknownRights(rights)),
        };
        let number = u64::from(number);
        let index = self.index(number)?;
        let slot = self.slots.get_mut(index).ok_or(Refusal::NotOpen(number))?;
        let session = slot.phase.serving_mut().ok_or(Refusal::NotOpen(number))?;
        let (has, namespace_has) = (session.bounds.blocks, session.namespace_blocks);
        let beyond_session = Refusal::BeyondSession { first, blocks, has };
        let beyond_namespace = Refusal::BeyondNamespace { lba, blocks, has: namespace_has };
        let record = extent_table::Record::new(first, lba, blocks, rights).map_err(|error| match error {
            RecordError::Empty { first } => Refusal::Empty { first },
            RecordError::BeyondNumbers { .. } => beyond_session,
            RecordError::BeyondNamespace { .. } => beyond_namespace,
        })?;
        if record.end() > has {
            return Err(beyond_session);
        }
        if lba.saturating_add(blocks) > namespace_has {
            return Err(beyond_namespace);
        }
        match self.extents.install(index, record) {
            Ok(_) => {
                if session.refill_refusals() {
                    slot.place.wake_too();
                }
                Ok(())
            }
            Err(InstallError::NoSession(_)) => Err(Refusal::NoSession(number)),
            Err(InstallError::Contradicts(other)) => {
                let (first, lba, blocks) = (other.first(), other.lba(), other.blocks());
                Err(Refusal::Contradicts { first, lba, blocks })
            }
        }
    }

    /// Takes the rights to blocks of a session.
    ///
    /// # Errors
    /// [`Refusal::NoSession`], [`Refusal::Empty`].
    pub(crate) fn remove_records(&mut self, range: &Range) -> Result<Removal, Refusal> {
        let Range { session, first, blocks } = *range;
        let index = self.index(session)?;
        if blocks == 0 {
            return Err(Refusal::Empty { first });
        }
        self.extents.remove(index, first, blocks);
        Ok(Removal { session, since: self.platform.ticks() })
    }

    /// Takes the rights to all blocks of a session.
    ///
    /// # Errors
    /// [`Refusal::NoSession`].
    pub(crate) fn clear_records(&mut self, session: u64) -> Result<Removal, Refusal> {
        let index = self.index(session)?;
        self.extents.clear(index);
        Ok(Removal { session, since: self.platform.ticks() })
    }

    /// Returns success if a removal's blocks are out of reach for commands in flight, too. Otherwise the policy component is
    /// notified when they are.
    ///
    /// # Errors
    /// [`Refusal::Busy`] until then, [`Refusal::NoSession`].
    pub(crate) fn await_removal(&mut self, removal: &Removal) -> Result<(), Refusal> {
        self.index(removal.session)?;
        if self.is_over(removal) {
            return Ok(());
        }
        // One per session is enough, because the policy component retries all of its calls.
        self.removals.retain(|other| other.session != removal.session);
        self.removals.push(*removal);
        Err(Refusal::Busy)
    }

    /// Notifies the policy component if a removal that it waits for is over.
    #[cold]
    pub(super) fn report_removals(&mut self) {
        let mut removals = core::mem::take(&mut self.removals);
        let before = removals.len();
        removals.retain(|removal| !self.is_over(removal));
        if removals.len() < before {
            self.platform.kernel().signal(self.policy);
        }
        self.removals = removals;
    }

    /// Returns whether no command of the session is in flight that was submitted before the removal.
    fn is_over(&self, &Removal { session, since }: &Removal) -> bool {
        let slot = usize::try_from(session).ok().and_then(|index| self.slots.get(index));
        let open = slot.and_then(|slot| slot.phase.session());
        open.is_none_or(|session| !session.has_commands_of(&self.queues, since))
    }

    /// The place of the session of this number.
    fn index(&self, session: u64) -> Result<usize, Refusal> {
        let index = usize::try_from(session).ok().filter(|index| *index < self.slots.len());
        index.ok_or(Refusal::NoSession(session))
    }
}
