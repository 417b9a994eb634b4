//! What the server gets from the PCI server: the controller's registers, its interrupts, its address space.

use alloc::vec::Vec;
use blk_api::config::badge;
use pci_api::{BY_HANDLER, BY_SERVER, Bound, Claim, Claimed, Function, Index, Refusal};
use platform::{
    AbsoluteCPtr, Badge, CPtr, Cap, CapData, Endpoint, Environment, Frame, IoSpace, IrqHandler, Kernel, Message,
    Notification, PAGE_SIZE, Platform, Rights, Vaddr,
};

/// Class, subclass and programming interface of an NVMe controller (NVM Express 1.4, section 2.1.5).
const NVME_CLASS: u32 = 0x01_08_02;

/// Why there is no controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PciError {
    /// The PCI server refused.
    Refused(Refusal),
    /// The environment lacks a capability or slot of this name.
    Missing(&'static str),
    /// The kernel refused.
    Kernel(platform::Error),
    /// The answer makes no sense.
    Answer,
}

impl core::fmt::Display for PciError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Refused(refusal) => write!(f, "the PCI server refused: {refusal}"),
            Self::Missing(what) => write!(f, "the environment lacks {what}"),
            Self::Kernel(error) => write!(f, "the kernel refused: {error}"),
            Self::Answer => f.write_str("the PCI server's answer makes no sense"),
        }
    }
}

impl From<platform::Error> for PciError {
    fn from(error: platform::Error) -> Self {
        Self::Kernel(error)
    }
}

/// How interrupts arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupts {
    /// By messages, one for each vector.
    Msix,
    /// By the pin: level triggered, one for all.
    Intx,
}

impl Interrupts {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Msix => "MSI-X",
            Self::Intx => "INTx",
        }
    }

    const fn to_api(self) -> u16 {
        match self {
            Self::Msix => pci_api::INTERRUPTS_MSIX,
            Self::Intx => pci_api::INTERRUPTS_INTX,
        }
    }
}

/// One of the controller's interrupts.
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// What it is acknowledged by.
    pub line: Line,
    /// The driver's notification, with the badge of the vector.
    pub notification: Cap<Notification>,
}

/// What an interrupt is acknowledged by.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// Its own handler.
    Own(Cap<IrqHandler>),
    /// A signal to the PCI server, which has the handler of a pin that other drivers' functions share.
    Shared(Cap<Notification>),
}

/// A claimed controller.
pub struct Device<P: Platform> {
    /// Where it is: bus << 8 | device << 3 | function.
    pub bdf: u16,
    /// Registers and doorbells.
    pub registers: P::Mmio,
    /// Its vectors, vector 0 first.
    pub vectors: Vec<Vector>,
    /// How they arrive.
    pub interrupts: Interrupts,
    /// Its address space, where there is an IOMMU.
    pub io_space: Option<Cap<IoSpace>>,
}

/// Lets the claimed device master the bus.
///
/// # Errors
/// [`PciError::Refused`].
pub(crate) async fn start<P: Platform>(platform: &P, server: Cap<Endpoint>) -> Result<(), PciError> {
    ask(platform, server, &Message::new(pci_api::START)).await.map(drop)
}

async fn ask<P: Platform>(platform: &P, server: Cap<Endpoint>, message: &Message) -> Result<Message, PciError> {
    let answer = platform.kernel().call(server, message).await;
    if answer.label == pci_api::GRANTED {
        Ok(answer)
    } else {
        Err(PciError::Refused(Refusal::from_label(answer.label)))
    }
}

/// Talks to the PCI server.
pub struct PciClient<'a, P: Platform> {
    platform: &'a P,
    environment: &'a Environment,
    server: Cap<Endpoint>,
    free_slots: core::ops::Range<u64>,
}

impl<'a, P: Platform> PciClient<'a, P> {
    /// `free_slots` are the slots it may fill.
    pub fn new(
        platform: &'a P,
        environment: &'a Environment,
        free_slots: core::ops::Range<u64>,
    ) -> Result<Self, PciError> {
        let server = environment.cap("pci").ok_or(PciError::Missing("capability pci"))?;
        Ok(Self { platform, environment, server, free_slots })
    }

    /// Claims the controller and fetches everything but the start, with at most `max_vectors` interrupts.
    ///
    /// # Errors
    /// [`PciError`]: something is missing, or was refused.
    pub async fn claim(&mut self, interrupts: Interrupts, max_vectors: u16) -> Result<Device<P>, PciError> {
        let claim = Claim { bdf: u16::MAX, interrupts: interrupts.to_api(), class: NVME_CLASS };
        let answer = self.ask(&Message::with(pci_api::CLAIM, &claim)).await?;
        let claimed: Claimed = answer.payload().map_err(|_| PciError::Answer)?;
        let registers = self.registers(&claimed)?;
        let io_space = match self.ask(&Message::new(pci_api::IO_SPACE)).await {
            Ok(answer) => Some(self.keep(&answer)?.cast()),
            Err(PciError::Refused(Refusal::NoIommu)) => None,
            Err(error) => return Err(error),
        };
        let mut vectors = Vec::new();
        for vector in 0..claimed.vectors.min(max_vectors) {
            vectors.push(self.vector(vector, interrupts).await?);
        }
        if vectors.is_empty() {
            return Err(PciError::Refused(Refusal::NoSuchVector));
        }
        Ok(Device { bdf: claimed.bdf, registers, vectors, interrupts, io_space })
    }

    /// Function number `index` of those on the bus, `None` beyond the last.
    ///
    /// # Errors
    /// [`PciError::Refused`] for another reason, [`PciError::Answer`].
    pub async fn function(&self, index: u64) -> Result<Option<Function>, PciError> {
        match self.ask(&Message::with(pci_api::LIST, &Index(index))).await {
            Ok(answer) => answer.payload().map(Some).map_err(|_| PciError::Answer),
            Err(PciError::Refused(Refusal::NoSuchFunction)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The capability to page `index` of the claimed function's BAR pages. It ends with [`PciClient::release`].
    ///
    /// # Errors
    /// [`PciError`]: nothing is claimed, or the claim has fewer pages.
    pub async fn bar_frame(&mut self, index: u64) -> Result<Cap<Frame>, PciError> {
        let answer = self.ask(&Message::with(pci_api::BAR_FRAME, &Index(index))).await?;
        Ok(self.keep(&answer)?.cast())
    }

    /// Lets the device master the bus.
    ///
    /// # Errors
    /// [`PciError::Refused`].
    pub async fn start(&self) -> Result<(), PciError> {
        start(self.platform, self.server).await
    }

    /// Gives the function back: bus mastering goes off, and everything that was given is revoked.
    ///
    /// # Errors
    /// [`PciError::Refused`].
    pub async fn release(&self) -> Result<(), PciError> {
        self.ask(&Message::new(pci_api::RELEASE)).await.map(drop)
    }

    /// BAR 0's first pages: registers and doorbells, before the MSI-X table.
    fn registers(&self, claimed: &Claimed) -> Result<P::Mmio, PciError> {
        let runs = claimed.runs.get(..usize::from(claimed.run_count)).ok_or(PciError::Answer)?;
        let run = runs.iter().find(|run| run.bar == 0 && run.first_page == 0).ok_or(PciError::Answer)?;
        let len = usize::from(run.pages).checked_mul(PAGE_SIZE).ok_or(PciError::Answer)?;
        self.platform.mmio(Vaddr::new(run.vaddr), len).map_err(|_| PciError::Answer)
    }

    async fn vector(&mut self, vector: u16, interrupts: Interrupts) -> Result<Vector, PciError> {
        let kernel = self.platform.kernel();
        let event = self.environment.cap::<Notification>("event").ok_or(PciError::Missing("capability event"))?;
        let badged = self.free_slot()?;
        let data = CapData::Badge(Badge(badge::vector(u32::from(vector))));
        kernel.cnode_mint(self.slot(badged)?, self.slot(event.cptr())?, Rights::WRITE, data)?;
        let ask = Message::with(pci_api::VECTOR, &Index(u64::from(vector))).and_cap(badged);
        let answer = self.ask(&ask).await?;
        let bound: Bound = answer.payload().map_err(|_| PciError::Answer)?;
        let kept = self.keep(&answer)?;
        let line = match (bound.by, interrupts) {
            (BY_HANDLER, _) => Line::Own(kept.cast()),
            (BY_SERVER, Interrupts::Intx) => Line::Shared(kept.cast()),
            _ => return Err(PciError::Answer),
        };
        Ok(Vector { line, notification: badged.cast() })
    }

    async fn ask(&self, message: &Message) -> Result<Message, PciError> {
        ask(self.platform, self.server, message).await
    }

    /// Moves the received capability to a slot of its own.
    fn keep(&mut self, answer: &Message) -> Result<CPtr, PciError> {
        let receive = self.environment.receive_slot.filter(|_| answer.cap_received).ok_or(PciError::Answer)?;
        let kept = self.free_slot()?;
        self.platform.kernel().cnode_move(self.slot(kept)?, self.slot(receive)?)?;
        Ok(kept)
    }

    fn free_slot(&mut self) -> Result<CPtr, PciError> {
        self.free_slots.next().map(CPtr::new).ok_or(PciError::Missing("a free slot"))
    }

    fn slot(&self, cptr: CPtr) -> Result<AbsoluteCPtr, PciError> {
        self.environment.slot(cptr).ok_or(PciError::Missing("its CNode"))
    }
}
