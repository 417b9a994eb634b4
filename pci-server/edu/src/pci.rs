//! The driver's requests to the PCI server.

use crate::failure::Failure;
use crate::interrupts::{INTERRUPT, Mode};
use pci_api::{BY_HANDLER, Bound, Claim, Claimed, Index, Refusal, names};
use platform::{
    AbsoluteCPtr, Badge, CPtr, Cap, CapData, Endpoint, Environment, IrqHandler, Kernel, Message, Notification,
    PAGE_SIZE, Platform, Rights, Vaddr,
};

/// The class code of an `edu` device: unclassified, no VGA.
const CLASS_CODE: u32 = 0x00_ff_00;
/// The function's only vector.
const VECTOR: u64 = 0;

/// Client of the PCI server.
pub(crate) struct Pci<'a, P: Platform> {
    platform: &'a P,
    environment: &'a Environment,
    server: Cap<Endpoint>,
    /// The cptrs of the badged notification, of the interrupt's handler and of the IOSpace.
    notification: CPtr,
    handler: CPtr,
    io_space: CPtr,
}

impl<'a, P: Platform> Pci<'a, P> {
    pub(crate) fn new(platform: &'a P, environment: &'a Environment) -> Result<Self, Failure> {
        let mut free = environment.free_cptrs.clone().map(CPtr::new);
        let mut cptr = || free.next().ok_or(Failure::Missing("a free cptr"));
        let (notification, handler, io_space) = (cptr()?, cptr()?, cptr()?);
        let server = environment.cap(names::PCI).ok_or(Failure::Missing("capability pci"))?;
        Ok(Self { platform, environment, server, notification, handler, io_space })
    }

    /// Claims the function and returns its registers. It reaches no memory, and masters the bus only to send messages.
    ///
    /// # Errors
    /// [`Failure::Refused`], [`Failure::Answer`], [`Failure::Kernel`].
    pub(crate) async fn claim(&self, mode: Mode) -> Result<P::Mmio, Failure> {
        let claim = Claim { bdf: u16::MAX, interrupts: mode.to_api(), class_code: CLASS_CODE };
        let answer = self.ask(&Message::with(pci_api::CLAIM, &claim)).await?;
        let claimed: Claimed = answer.payload().map_err(|_| Failure::Answer)?;
        let runs = claimed.runs.get(..usize::from(claimed.run_count)).ok_or(Failure::Answer)?;
        let run = runs.iter().find(|run| run.bar == 0 && run.first_page == 0).ok_or(Failure::Answer)?;
        let registers = self.platform.mmio(Vaddr::new(run.vaddr), PAGE_SIZE).map_err(|_| Failure::Answer)?;
        // Where messages are translated like other writes, the function needs an address space for them.
        match self.ask(&Message::new(pci_api::IO_SPACE)).await {
            Ok(answer) => self.keep(&answer, self.io_space)?,
            Err(Failure::Refused(Refusal::NoIommu)) => {}
            Err(failure) => return Err(failure),
        }
        self.ask(&Message::new(pci_api::START)).await?;
        Ok(registers)
    }

    /// Binds the function's interrupt to the driver's notification and returns its handler.
    ///
    /// # Errors
    /// As [`Pci::claim`].
    pub(crate) async fn vector(&self) -> Result<Cap<IrqHandler>, Failure> {
        let kernel = self.platform.kernel();
        let event: Cap<Notification> =
            self.environment.cap(platform::names::EVENT).ok_or(Failure::Missing("capability event"))?;
        for cptr in [self.notification, self.handler] {
            kernel.cnode_delete(self.absolute(cptr)?)?;
        }
        let data = CapData::Badge(Badge(Badge::SIGNAL | INTERRUPT));
        kernel.cnode_mint(self.absolute(self.notification)?, self.absolute(event.cptr())?, Rights::WRITE, data)?;
        let ask = Message::with(pci_api::VECTOR, &Index(VECTOR)).and_cap(self.notification);
        let answer = self.ask(&ask).await?;
        let bound: Bound = answer.payload().map_err(|_| Failure::Answer)?;
        if bound.by != BY_HANDLER {
            return Err(Failure::Answer);
        }
        self.keep(&answer, self.handler)?;
        Ok(self.handler.cast())
    }

    /// Changes the interrupt mode of the claimed function.
    ///
    /// # Errors
    /// [`Failure::Refused`].
    pub(crate) async fn change(&self, mode: Mode) -> Result<(), Failure> {
        self.ask(&Message::with(pci_api::INTERRUPTS, &Index(mode.to_api().into()))).await.map(drop)
    }

    /// Releases the function.
    ///
    /// # Errors
    /// [`Failure::Refused`].
    pub(crate) async fn release(&self) -> Result<(), Failure> {
        self.ask(&Message::new(pci_api::RELEASE)).await.map(drop)
    }

    async fn ask(&self, message: &Message) -> Result<Message, Failure> {
        let answer = self.platform.kernel().call(self.server, message).await;
        match answer.label {
            pci_api::GRANTED => Ok(answer),
            label => Err(Failure::Refused(Refusal::from_label(label))),
        }
    }

    /// Moves the received capability to `cptr`, whose last one has ended.
    fn keep(&self, answer: &Message, cptr: CPtr) -> Result<(), Failure> {
        let receive = self.environment.receive_cptr.filter(|_| answer.cap_received).ok_or(Failure::Answer)?;
        let kernel = self.platform.kernel();
        kernel.cnode_delete(self.absolute(cptr)?)?;
        Ok(kernel.cnode_move(self.absolute(cptr)?, self.absolute(receive)?)?)
    }

    fn absolute(&self, cptr: CPtr) -> Result<AbsoluteCPtr, Failure> {
        self.environment.absolute(cptr).ok_or(Failure::Missing("its CNode"))
    }
}
