//! The whole PCI server on the made-up machine of its own tests: functions, and the kernel's model.

#[expect(dead_code, reason = "the server's tests use more of their machine than these targets")]
#[path = "../../pci-server/src/tests/bus.rs"]
mod bus;
pub mod calls;
pub mod config_space;
#[path = "../../pci-server/src/tests/kernel.rs"]
mod kernel;
#[path = "../../pci-server/src/tests/machine.rs"]
mod machine;
#[expect(dead_code, reason = "the server's tests use more of their machine than these targets")]
#[path = "../../pci-server/src/tests/system.rs"]
mod system;
#[expect(dead_code, reason = "the server's tests use more of their machine than these targets")]
#[path = "../../pci-server/src/tests/tree_bus.rs"]
mod tree_bus;
mod virtual_functions;
#[expect(dead_code, reason = "the server's tests use more of their machine than these targets")]
#[path = "../../pci-server/src/tests/virtual_system.rs"]
mod virtual_system;

use pci_server::run;
