//! The SMMU for its users: streams, pages, faults, and the order in which tables change and caches are invalidated.
//!
//! To map, a table is completed and then linked in. To unmap, it is unlinked, the SMMU's caches are invalidated, and then
//! the page is free. An invalidation that was not confirmed leaves its pages in limbo and the SMMU in doubt: the next
//! operation that maps invalidates everything first, and the next that unmaps does so at its end.

use crate::address_space::{AddressSpace, Rights};
use crate::command_queue::{CommandQueue, Failure};
use crate::error::Error;
use crate::event_queue::{Drained, EventQueue, Fault};
use crate::pool::{Pool, Role};
use crate::registers::Registers;
use crate::start::{self, Config, Identity};
use crate::stream_table::{SPLIT, StreamTable};
use alloc::vec;
use alloc::vec::Vec;
use platform::{Iova, Memory, Mmio, Paddr};
use smmu_spec::command::Reach;
use smmu_spec::registers::Cr0;
use smmu_spec::{Command, StreamId, StreamTableEntry};

/// Streams that can be attached at the same time: context descriptors in a page.
pub const MAX_STREAMS: usize = 64;
/// Times that an invalidation of everything is tried when the SMMU refuses commands.
const SETTLE_ATTEMPTS: u32 = 8;

/// An SMMU that is up.
#[derive(Debug)]
pub struct Smmu<R, M> {
    registers: Registers<R>,
    pool: Pool<M>,
    identity: Identity,
    /// The enables as they are.
    cr0: Cr0,
    commands: CommandQueue,
    events: EventQueue,
    streams: StreamTable,
    /// By slot, which is the ASID less one.
    spaces: Vec<Option<AddressSpace>>,
    /// Whether the SMMU may have cached something that is no longer in the tables.
    in_doubt: bool,
}

impl<R: Mmio, M: Memory> Smmu<R, M> {
    /// Brings the SMMU up from any state. No stream is attached afterwards. At no moment can a device reach memory that it could
    /// not reach before, unless `config` declares the devices quiet.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`], [`Error::Unsupported`], [`Error::Unanswered`], [`Error::Unguarded`], [`Error::Stuck`].
    /// After an error the SMMU may be off, and start may be tried again with the same pages.
    pub fn start(mmio: R, pool: Pool<M>, config: Config) -> Result<Self, Error> {
        if !start::is_whole(&mmio) {
            return Err(Error::OutOfBounds);
        }
        let registers = Registers::new(mmio, config.polls.max(1));
        let identity = start::identify(&registers)?;
        let prepared = start::prepare(&registers, &pool, config.devices)?;
        let events = EventQueue::start(&registers, &pool)?;
        let mut smmu = Self {
            commands: CommandQueue::default(),
            events,
            streams: StreamTable::new(),
            spaces: vec![None; MAX_STREAMS],
            in_doubt: true,
            cr0: prepared.cr0,
            registers,
            pool,
            identity,
        };
        smmu.settle()?;
        smmu.enable(smmu.cr0.with_eventq(true))?;
        start::enable_interrupts(&smmu.registers)?;
        smmu.enable(smmu.cr0.with_smmu(true))?;
        Ok(smmu)
    }

    /// Gives the stream an empty address space of at most `most_tables` translation tables: from now on it is translated.
    ///
    /// # Errors
    /// [`Error::StreamId`], [`Error::Attached`], [`Error::NoAddressSpace`], [`Error::NoPages`], [`Error::Quota`] when it may
    /// have no table; [`Error::Stuck`], after which [`Smmu::is_attached`] returns whether it is.
    pub fn attach(&mut self, stream: StreamId, most_tables: usize) -> Result<(), Error> {
        if !StreamTable::covers(stream) {
            return Err(Error::StreamId);
        }
        if self.space(stream).is_ok() {
            return Err(Error::Attached);
        }
        if most_tables == 0 {
            return Err(Error::Quota);
        }
        self.settle_doubts()?;
        let free = self.spaces.iter().position(Option::is_none).ok_or(Error::NoAddressSpace)?;
        let slot = u8::try_from(free).map_err(|_| Error::NoAddressSpace)?;
        let pages = 1usize.saturating_add(usize::from(self.streams.needs_page(stream)));
        if self.pool.free_pages() < pages {
            return Err(Error::NoPages);
        }
        let space = AddressSpace::new(&mut self.pool, stream, slot, self.identity.ips, most_tables)?;
        if let Some(place) = self.spaces.get_mut(free) {
            *place = Some(space);
        }
        let entry = StreamTableEntry::stage1(space.context(&self.pool)?);
        self.streams.set(&mut self.pool, stream, &entry)?;
        self.invalidate(&[Command::invalidate_stream(stream, Reach::AllLevels)])
    }

    /// Takes the stream's address space away: all its transactions abort. Its pages are free for others afterwards.
    ///
    /// # Errors
    /// [`Error::NotAttached`]; [`Error::Stuck`], after which the stream is not attached.
    pub fn detach(&mut self, stream: StreamId) -> Result<(), Error> {
        let (slot, space) = self.space(stream)?;
        self.streams.clear(&self.pool, stream)?;
        let forgot_stream = self.invalidate(&[Command::invalidate_stream(stream, Reach::LastLevel)]);
        space.end(&mut self.pool)?;
        if let Some(place) = self.spaces.get_mut(slot) {
            *place = None;
        }
        let group = self.streams.prune(&mut self.pool, stream)?;
        forgot_stream.and_then(|()| {
            let context = [Command::invalidate_context(stream), Command::invalidate_asid(space.asid())];
            self.invalidate(&context)?;
            match group {
                Some(first) => self.invalidate(&[Command::invalidate_streams(first, SPLIT.saturating_sub(1))]),
                None => Ok(()),
            }
        })?;
        self.release();
        Ok(())
    }

    /// Maps the page at `paddr` for the stream. The caller holds the page until [`Smmu::unmap`] or [`Smmu::detach`] has
    /// succeeded.
    ///
    /// # Errors
    /// [`Error::NotAttached`], [`Error::Address`], [`Error::Mapped`], [`Error::Quota`], [`Error::NoPages`],
    /// [`Error::Corrupt`]; [`Error::Stuck`] from an earlier operation, after which nothing was mapped.
    pub fn map(&mut self, stream: StreamId, iova: Iova, paddr: Paddr, rights: Rights) -> Result<(), Error> {
        let (_, space) = self.space(stream)?;
        let beyond = paddr.bits() >> self.identity.output_bits != 0;
        if beyond || paddr.page_offset() != 0 || self.pool.find(paddr.bits()).is_some() {
            return Err(Error::Address);
        }
        // A translation in doubt could still be cached for this address.
        self.settle_doubts()?;
        space.map(&mut self.pool, iova, paddr, rights)
    }

    /// Unmaps the page at `iova`. When this returns, no transaction of the stream reaches it any more.
    ///
    /// # Errors
    /// [`Error::NotAttached`], [`Error::Address`], [`Error::NotMapped`], [`Error::Corrupt`]; [`Error::Stuck`], after which
    /// nothing is mapped there, but the page must not be freed.
    pub fn unmap(&mut self, stream: StreamId, iova: Iova) -> Result<(), Error> {
        let (_, space) = self.space(stream)?;
        let emptied = space.unmap(&mut self.pool, iova)?;
        let reach = if emptied { Reach::AllLevels } else { Reach::LastLevel };
        self.invalidate(&[Command::invalidate_address(space.asid(), iova.bits(), reach)])?;
        self.release();
        Ok(())
    }

    /// Passes `each` the faults recorded since the last call, at most as many as the queue holds. Called at an event or error
    /// interrupt, and at any other time. The SMMU interrupts for the first event in an empty queue alone: after
    /// [`Drained::more`] the caller calls again without an interrupt.
    ///
    /// # Errors
    /// [`Error::Unsupported`] when the SMMU reports a permanent failure; [`Error::OutOfBounds`].
    pub fn faults(&mut self, each: impl FnMut(Fault)) -> Result<Drained, Error> {
        self.events.drain(&self.registers, &self.pool, each)
    }

    /// Whether a stream has an address space.
    #[must_use]
    pub fn is_attached(&self, stream: StreamId) -> bool {
        self.space(stream).is_ok()
    }

    /// Free pages of the pool.
    #[must_use]
    pub fn free_pages(&self) -> usize {
        self.pool.free_pages()
    }

    /// Restarts the command queue and invalidates everything that the SMMU may have cached. Success ends the doubt that an
    /// [`Error::Stuck`] left: memory unmapped before may be freed.
    ///
    /// # Errors
    /// [`Error::Stuck`] when the SMMU still does not confirm.
    pub fn settle(&mut self) -> Result<(), Error> {
        let all = [Command::invalidate_all_streams(), Command::invalidate_all_translations()];
        self.in_doubt = true;
        for _ in 0..SETTLE_ATTEMPTS {
            self.enable(self.cr0.with_cmdq(false)).map_err(stuck)?;
            self.commands = CommandQueue::start(&self.registers, &self.pool)?;
            self.enable(self.cr0.with_cmdq(true)).map_err(stuck)?;
            match self.commands.run(&self.registers, &self.pool, &all) {
                Ok(()) => {
                    self.in_doubt = false;
                    self.release();
                    return Ok(());
                }
                Err(Failure::Refused) => {}
                Err(Failure::Stuck) => return Err(Error::Stuck),
                Err(Failure::Access(error)) => return Err(error),
            }
        }
        Err(Error::Stuck)
    }

    fn settle_doubts(&mut self) -> Result<(), Error> {
        if self.in_doubt { self.settle() } else { Ok(()) }
    }

    /// Runs commands. In doubt, or where one was refused, everything is invalidated instead.
    fn invalidate(&mut self, commands: &[Command]) -> Result<(), Error> {
        if self.in_doubt {
            return self.settle();
        }
        match self.commands.run(&self.registers, &self.pool, commands) {
            Ok(()) => Ok(()),
            Err(Failure::Refused) => self.settle(),
            Err(failure) => {
                self.in_doubt = true;
                match failure {
                    Failure::Access(error) => Err(error),
                    _ => Err(Error::Stuck),
                }
            }
        }
    }

    /// Frees the pages in limbo, which the SMMU has not cached any more.
    fn release(&mut self) {
        for page in self.pool.pages_with(|role| role == Role::Limbo) {
            self.pool.give_back(page);
        }
    }

    fn enable(&mut self, cr0: Cr0) -> Result<(), Error> {
        self.registers.enable(cr0)?;
        self.cr0 = cr0;
        Ok(())
    }

    fn space(&self, stream: StreamId) -> Result<(usize, AddressSpace), Error> {
        let found = |(slot, space): (usize, &Option<AddressSpace>)| {
            space.filter(|space| space.stream == stream).map(|space| (slot, space))
        };
        self.spaces.iter().enumerate().find_map(found).ok_or(Error::NotAttached)
    }
}

/// The error of a queue that cannot be restarted.
fn stuck(error: Error) -> Error {
    match error {
        Error::Unanswered => Error::Stuck,
        other => other,
    }
}
