//! Requests that arrived while the device could not be called, in their order.

use crate::error::ClientError;
use crate::message::Header;
use crate::request::{DeviceRequest, Write};
use std::collections::VecDeque;

/// Most requests that are kept.
const MAX_REQUESTS: usize = 65_536;
/// Most bytes of data that are kept with them.
const MAX_BYTES: usize = 16 << 20;

/// A request for the device.
#[derive(Debug)]
pub(crate) struct Pending {
    /// Of the command.
    pub(crate) header: Header,
    /// Whether the client has its answer: a write that arrived during a DMA.
    pub(crate) is_answered: bool,
    pub(crate) request: DeviceRequest,
}

/// The queue. Bounded: a client that fills it loses its session. Its reply to the DMA would stand behind requests that
/// are not read any more.
#[derive(Default, Debug)]
pub(crate) struct Deferred {
    requests: VecDeque<Pending>,
    bytes: usize,
}

impl Deferred {
    /// Adds a request at the end.
    ///
    /// # Errors
    ///
    /// [`ClientError::Flooded`].
    pub(crate) fn push(&mut self, pending: Pending) -> Result<(), ClientError> {
        let bytes = self.bytes.saturating_add(data_bytes(&pending.request));
        if self.requests.len() >= MAX_REQUESTS || bytes > MAX_BYTES {
            return Err(ClientError::Flooded);
        }
        self.bytes = bytes;
        self.requests.push_back(pending);
        Ok(())
    }

    /// Takes the oldest request.
    pub(crate) fn pop(&mut self) -> Option<Pending> {
        let pending = self.requests.pop_front()?;
        self.bytes = self.bytes.saturating_sub(data_bytes(&pending.request));
        Some(pending)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

/// Memory that a request needs, its own size left out.
fn data_bytes(request: &DeviceRequest) -> usize {
    match request {
        DeviceRequest::Write(write) => write.bytes.len(),
        DeviceRequest::WriteMany(writes) => writes.len().saturating_mul(size_of::<Write>()),
        DeviceRequest::Read(_) | DeviceRequest::Reset => 0,
    }
}
