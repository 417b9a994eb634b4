//! Sets the features that the server relies on, where the controller has other values saved.
//!
//! Neighbours: `bring_up` does this at each bring-up, because a reset brings saved values back; the driver's `features` says which.

use crate::control_path::bring_up::execute;
use crate::control_path::identity::Namespace;
use crate::controller::fault::DeviceFault;
use crate::controller::features::Reliance;
use crate::shared::Shared;
use nvme_spec::DataPointer;
use platform::Platform;
use platform::log::{info, warn};

/// Sets them for the controller and for `namespaces`. A feature that the controller refuses stays as it is.
pub(crate) async fn set<P: Platform>(shared: &Shared<P>, namespaces: &[Namespace]) -> Result<(), DeviceFault> {
    let page = DataPointer::page(shared.device.identify_page.iova.bits());
    let of_namespaces = namespaces.iter().map(|namespace| Reliance::of_namespace(namespace.nsid));
    for relied_on in Reliance::OF_CONTROLLER.into_iter().chain(of_namespaces) {
        let current = match execute(shared, |cid| relied_on.get(cid, page)).await {
            Ok(cqe) => cqe.dw0,
            Err(DeviceFault::Refused(_)) => continue,
            Err(fault) => return Err(fault),
        };
        let Some(value) = relied_on.mended(current) else { continue };
        let number = relied_on.feature as u8;
        match execute(shared, |cid| relied_on.set(cid, value, page)).await {
            Ok(_) => info!("feature {:#x} was {:#x} and is set to {:#x}", number, current, value),
            Err(DeviceFault::Refused(status)) => {
                warn!("feature {:#x} stays {:#x}: status {:#x}", number, current, status.to_raw());
            }
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}
