//! Names of capabilities and regions in environments: of the NVMe server, of its clients, and of the policy component beside it. The
//! system's model writes them.

use alloc::format;
use alloc::string::String;

/// A driver's own pool for DMA: a run of frames, and the region in which they lie one behind the other.
pub const DMA: &str = "dma";
/// A driver's run of IO page tables, where the kernel drives the IOMMU.
pub const IO_TABLE: &str = "io-table";
/// The NVMe server's request to the supervisor for an alarm.
pub const ALARM: &str = "alarm";
/// The NVMe server's page of teardown acknowledgements.
pub const TEARDOWN_ACKS: &str = "teardown-acks";
/// The NVMe server's signal to the supervisor that this page has a new acknowledgement.
pub const TORN_DOWN: &str = "torn-down";
/// The NVMe server's run of frames of the window of the component that administers its controller.
pub const ADMINISTRATION_WINDOW: &str = "administration-window";
/// The NVMe server's signal to that component.
pub const ADMINISTRATOR: &str = "administrator";

/// The call to the NVMe server, of a client or of the policy component.
pub const SERVER: &str = "server";
/// A client's call to the policy component, and the NVMe server's signal to it.
pub const POLICY: &str = "policy";
/// A policy component's signal to the control component: an order is over.
pub const CONTROL: &str = "control";
/// A policy component's page of orders, which its successor finds.
pub const KEPT: &str = "kept";
/// A client's signal to its server that the ring has entries.
pub const DOORBELL: &str = "doorbell";
/// A client's window. One that drives a function itself has the run of its frames, too.
pub const WINDOW: &str = "window";
/// The ring that the client writes, as the client has it.
pub const RING_CLIENT: &str = "ring-client";
/// The ring that the server writes, as the client has it.
pub const RING_SERVER: &str = "ring-server";
/// The liveness page of the NVMe server, as its clients and the policy component have it.
pub const LIVENESS_SERVER: &str = "liveness-server";

/// The NVMe server's signal to the client of session `number`, from 0.
#[must_use]
pub fn client(number: u32) -> String {
    format!("client-{number}")
}

/// The NVMe server's run of frames of that client's window.
#[must_use]
pub fn window(number: u32) -> String {
    format!("{WINDOW}-{number}")
}

/// The ring that the client of session `number` writes, as the NVMe server has it.
#[must_use]
pub fn ring_client(number: u32) -> String {
    format!("{RING_CLIENT}-{number}")
}

/// The ring that the NVMe server writes for session `number`, as it has it.
#[must_use]
pub fn ring_server(number: u32) -> String {
    format!("{RING_SERVER}-{number}")
}

/// The session whose [`ring_server`] has this name.
#[must_use]
pub fn session_of_ring_server(name: &str) -> Option<u32> {
    name.strip_prefix(RING_SERVER)?.strip_prefix('-')?.parse().ok()
}

/// The liveness page of the client of session `number`, as the NVMe server has it.
#[must_use]
pub fn liveness(number: u32) -> String {
    format!("liveness-{number}")
}

/// The liveness page of the client of virtual function `number`, from 0, as the NVMe server has it.
#[must_use]
pub fn function_liveness(number: u32) -> String {
    format!("liveness-function-{number}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_a_ring_is_found_by_its_name() {
        for number in [0, 7, u32::MAX] {
            assert_eq!(session_of_ring_server(&ring_server(number)), Some(number));
        }
        for other in [RING_SERVER, "ring-server-", "ring-server-x", "ring-client-1"] {
            assert_eq!(session_of_ring_server(other), None);
        }
    }
}
