//! The client of the PCI server: the controller's registers, its interrupts, its address space.

use alloc::vec::Vec;
pub use blk_api::config::Interrupts;
use blk_api::config::badge;
use pci_api::{BY_HANDLER, BY_SERVER, Bound, Claim, Claimed, Count, Function, Index, Refusal, names};
use platform::{
    AbsoluteCPtr, Badge, CPtr, Cap, CapData, Endpoint, Environment, Frame, IoSpace, IrqHandler, Kernel, Message,
    Notification, PAGE_SIZE, Platform, Rights, Vaddr,
};

/// Class, subclass and programming interface of an NVMe controller (NVM Express 1.4, section 2.1.5).
const NVME_CLASS_CODE: u32 = 0x01_08_02;

/// Reason why there is no controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PciError {
    /// The PCI server refused.
    Refused(Refusal),
    /// The environment lacks a capability or cptr of this name.
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

/// The number of an interrupt mode in the PCI server's interface.
const fn to_api(interrupts: Interrupts) -> u16 {
    match interrupts {
        Interrupts::Msix => pci_api::INTERRUPTS_MSIX,
        Interrupts::Msi => pci_api::INTERRUPTS_MSI,
        Interrupts::Intx => pci_api::INTERRUPTS_INTX,
    }
}

/// Whether a function has this interrupt mode.
pub const fn has(function: &Function, interrupts: Interrupts) -> bool {
    match interrupts {
        Interrupts::Msix => function.msix_vectors > 0,
        Interrupts::Msi => function.msi_vectors > 0,
        Interrupts::Intx => function.pin > 0,
    }
}

/// An interrupt of the controller.
#[derive(Clone, Copy, Debug)]
pub struct Vector {
    /// Handle that acknowledges it.
    pub line: Line,
    /// The driver's notification, with the badge of the vector.
    pub notification: Cap<Notification>,
}

/// Handle that acknowledges an interrupt.
#[derive(Clone, Copy, Debug)]
pub enum Line {
    /// The vector's own handler.
    Own(Cap<IrqHandler>),
    /// A signal to the PCI server, which has the handler of a pin that other drivers' functions share.
    Shared(Cap<Notification>),
}

/// A claimed controller.
pub struct Device<P: Platform> {
    /// The function's address: bus << 8 | device << 3 | function.
    pub bdf: u16,
    /// Registers and doorbells.
    pub registers: P::Mmio,
    /// The function's vectors, vector 0 first.
    pub vectors: Vec<Vector>,
    /// The vectors' interrupt mode.
    pub interrupts: Interrupts,
    /// The function's address space, where there is an IOMMU.
    pub io_space: Option<Cap<IoSpace>>,
}

/// Lets the claimed device master the bus.
///
/// # Errors
/// [`PciError::Refused`].
pub async fn start<P: Platform>(platform: &P, server: Cap<Endpoint>) -> Result<(), PciError> {
    ask(platform, server, &Message::new(pci_api::START)).await.map(drop)
}

/// Releases the claimed function: bus mastering is turned off, and all its capabilities are revoked.
///
/// # Errors
/// [`PciError::Refused`].
pub async fn release<P: Platform>(platform: &P, server: Cap<Endpoint>) -> Result<(), PciError> {
    ask(platform, server, &Message::new(pci_api::RELEASE)).await.map(drop)
}

/// Has the PCI server reset the claimed function, whose device is disabled, and enable `number` virtual functions. Returns how
/// many can be claimed; the caller repeats this until all of them can.
///
/// # Errors
/// [`PciError`].
pub async fn enable_functions<P: Platform>(platform: &P, server: Cap<Endpoint>, number: u16) -> Result<u16, PciError> {
    let message = Message::with(pci_api::VIRTUAL_FUNCTIONS, &Index(number.into()));
    let Count(count) = ask(platform, server, &message).await?.payload().map_err(|_| PciError::Answer)?;
    Ok(u16::try_from(count).unwrap_or(u16::MAX))
}

/// Withdraws virtual function `index` of the claimed function from its driver.
///
/// # Errors
/// [`PciError::Refused`].
pub async fn withdraw<P: Platform>(platform: &P, server: Cap<Endpoint>, index: u32) -> Result<(), PciError> {
    ask(platform, server, &Message::with(pci_api::WITHDRAW, &Index(index.into()))).await.map(drop)
}

/// Lets the driver of virtual function `index` of the claimed function claim it again.
///
/// # Errors
/// [`PciError::Refused`].
pub async fn restore<P: Platform>(platform: &P, server: Cap<Endpoint>, index: u32) -> Result<(), PciError> {
    ask(platform, server, &Message::with(pci_api::RESTORE, &Index(index.into()))).await.map(drop)
}

async fn ask<P: Platform>(platform: &P, server: Cap<Endpoint>, message: &Message) -> Result<Message, PciError> {
    let answer = platform.kernel().call(server, message).await;
    if answer.label == pci_api::GRANTED {
        Ok(answer)
    } else {
        Err(PciError::Refused(Refusal::from_label(answer.label)))
    }
}

/// Cptrs for capabilities from the PCI server.
#[derive(Clone, Debug)]
pub struct Cptrs {
    free: core::ops::Range<u64>,
    /// For each vector that was ever asked for, in their order: those of its notification and of its line.
    vectors: Vec<(CPtr, CPtr)>,
}

/// Client of the PCI server.
pub struct PciClient<'a, P: Platform> {
    platform: &'a P,
    environment: &'a Environment,
    server: Cap<Endpoint>,
    cptrs: Cptrs,
}

impl<'a, P: Platform> PciClient<'a, P> {
    /// Creates a client, which may fill `free_cptrs`.
    pub fn new(
        platform: &'a P,
        environment: &'a Environment,
        free_cptrs: core::ops::Range<u64>,
    ) -> Result<Self, PciError> {
        let server = environment.cap(names::PCI).ok_or(PciError::Missing("capability pci"))?;
        Ok(Self { platform, environment, server, cptrs: Cptrs { free: free_cptrs, vectors: Vec::new() } })
    }

    /// Creates a client with the cptrs of an earlier one.
    pub const fn resume(platform: &'a P, environment: &'a Environment, server: Cap<Endpoint>, cptrs: Cptrs) -> Self {
        Self { platform, environment, server, cptrs }
    }

    /// The client's cptrs, for a later client.
    pub fn into_cptrs(self) -> Cptrs {
        self.cptrs
    }

    /// Claims the controller and fetches everything but the start, with at most `max_vectors` interrupts.
    ///
    /// # Errors
    /// [`PciError`]: something is missing, or was refused.
    pub async fn claim(&mut self, interrupts: Interrupts, max_vectors: u16) -> Result<Device<P>, PciError> {
        // Of an earlier claim, after its release.
        self.empty_vector_cptrs()?;
        let claim = Claim { bdf: u16::MAX, interrupts: to_api(interrupts), class_code: NVME_CLASS_CODE };
        let answer = self.ask(&Message::with(pci_api::CLAIM, &claim)).await?;
        let claimed: Claimed = answer.payload().map_err(|_| PciError::Answer)?;
        let registers = self.registers(&claimed)?;
        let io_space = match self.ask(&Message::new(pci_api::IO_SPACE)).await {
            Ok(answer) => Some(self.keep(&answer)?.cast()),
            Err(PciError::Refused(Refusal::NoIommu)) => None,
            Err(error) => return Err(error),
        };
        let vectors = self.vectors(claimed.vectors.min(max_vectors), interrupts).await?;
        Ok(Device { bdf: claimed.bdf, registers, vectors, interrupts, io_space })
    }

    /// Changes the interrupt mode of the claimed controller, which is disabled, with at most `max_vectors` interrupts. The old
    /// vectors have ended, after an error too.
    ///
    /// # Errors
    /// [`PciError`]: the PCI server refuses that, or a vector.
    pub async fn change_interrupts(&mut self, to: Interrupts, max_vectors: u16) -> Result<Vec<Vector>, PciError> {
        self.empty_vector_cptrs()?;
        let ask = Message::with(pci_api::INTERRUPTS, &Index(u64::from(to_api(to))));
        let Count(count) = self.ask(&ask).await?.payload().map_err(|_| PciError::Answer)?;
        self.vectors(u16::try_from(count).unwrap_or(u16::MAX).min(max_vectors), to).await
    }

    async fn vectors(&mut self, count: u16, interrupts: Interrupts) -> Result<Vec<Vector>, PciError> {
        let mut vectors = Vec::new();
        for vector in 0..count {
            vectors.push(self.vector(vector, interrupts).await?);
        }
        if vectors.is_empty() {
            return Err(PciError::Refused(Refusal::NoSuchVector));
        }
        Ok(vectors)
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

    /// Whether the claimed function was withdrawn: any request but that for its release is refused then.
    pub async fn is_withdrawn(&self) -> bool {
        matches!(self.function(0).await, Err(PciError::Refused(Refusal::Withdrawn)))
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

    /// Releases the function: bus mastering is turned off, and all its capabilities are revoked.
    ///
    /// # Errors
    /// [`PciError::Refused`].
    pub async fn release(&self) -> Result<(), PciError> {
        release(self.platform, self.server).await
    }

    /// BAR 0's first pages: registers and doorbells, before the MSI-X table.
    fn registers(&self, claimed: &Claimed) -> Result<P::Mmio, PciError> {
        let runs = claimed.runs.get(..usize::from(claimed.run_count)).ok_or(PciError::Answer)?;
        let run = runs.iter().find(|run| run.bar == 0 && run.first_page == 0).ok_or(PciError::Answer)?;
        let len = usize::from(run.pages).checked_mul(PAGE_SIZE).ok_or(PciError::Answer)?;
        self.platform.mmio(Vaddr::new(run.vaddr), len).map_err(|_| PciError::Answer)
    }

    async fn vector(&mut self, vector: u16, interrupts: Interrupts) -> Result<Vector, PciError> {
        let (notification, line) = self.vector_cptrs(vector)?;
        let event = self
            .environment
            .cap::<Notification>(platform::names::EVENT)
            .ok_or(PciError::Missing("capability event"))?;
        let data = CapData::Badge(Badge(badge::vector(u32::from(vector))));
        let kernel = self.platform.kernel();
        kernel.cnode_mint(self.absolute(notification)?, self.absolute(event.cptr())?, Rights::WRITE, data)?;
        let ask = Message::with(pci_api::VECTOR, &Index(u64::from(vector))).and_cap(notification);
        let answer = self.ask(&ask).await?;
        let bound: Bound = answer.payload().map_err(|_| PciError::Answer)?;
        self.keep_in(&answer, line)?;
        let line = match (bound.by, interrupts) {
            (BY_HANDLER, _) => Line::Own(line.cast()),
            (BY_SERVER, Interrupts::Intx) => Line::Shared(line.cast()),
            _ => return Err(PciError::Answer),
        };
        Ok(Vector { line, notification: notification.cast() })
    }

    /// The empty cptrs of a vector's notification and of its line. Vectors are asked for in their order.
    fn vector_cptrs(&mut self, vector: u16) -> Result<(CPtr, CPtr), PciError> {
        if let Some(cptrs) = self.cptrs.vectors.get(usize::from(vector)) {
            return Ok(*cptrs);
        }
        let cptrs = (self.free_cptr()?, self.free_cptr()?);
        self.cptrs.vectors.push(cptrs);
        Ok(cptrs)
    }

    fn empty_vector_cptrs(&self) -> Result<(), PciError> {
        for cptr in self.cptrs.vectors.iter().flat_map(|(notification, line)| [*notification, *line]) {
            self.platform.kernel().cnode_delete(self.absolute(cptr)?)?;
        }
        Ok(())
    }

    async fn ask(&self, message: &Message) -> Result<Message, PciError> {
        ask(self.platform, self.server, message).await
    }

    /// Moves the received capability to a cptr of its own.
    fn keep(&mut self, answer: &Message) -> Result<CPtr, PciError> {
        let kept = self.free_cptr()?;
        self.keep_in(answer, kept)?;
        Ok(kept)
    }

    /// Moves it to this cptr, which is empty.
    fn keep_in(&self, answer: &Message, cptr: CPtr) -> Result<(), PciError> {
        let receive = self.environment.receive_cptr.filter(|_| answer.cap_received).ok_or(PciError::Answer)?;
        Ok(self.platform.kernel().cnode_move(self.absolute(cptr)?, self.absolute(receive)?)?)
    }

    fn free_cptr(&mut self) -> Result<CPtr, PciError> {
        self.cptrs.free.next().map(CPtr::new).ok_or(PciError::Missing("a free cptr"))
    }

    fn absolute(&self, cptr: CPtr) -> Result<AbsoluteCPtr, PciError> {
        self.environment.absolute(cptr).ok_or(PciError::Missing("its CNode"))
    }
}
