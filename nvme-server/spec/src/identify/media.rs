//! Tells the data of one namespace from those of another, after a controller was exchanged.

use super::{Controller, Namespace};
use crate::Nsid;
use zerocopy::IntoBytes;

/// The media behind a namespace, as one number: FNV-1a, 64 bits, of the controller's vendor, serial and model number, and of the
/// namespace's number, NGUID and EUI64. Many namespaces have neither of the last two (section 7.10), and serial numbers are unique
/// for each vendor (section 7.9). The size of such a namespace is one of its marks; one with an identifier may grow.
#[must_use]
pub fn media(controller: &Controller, nsid: Nsid, namespace: &Namespace) -> u64 {
    let has_identifier = namespace.nguid.iter().chain(&namespace.eui64).any(|byte| *byte != 0);
    let parts: [&[u8]; 7] = [
        controller.vid.as_bytes(),
        &controller.sn,
        &controller.mn,
        &nsid.0.to_le_bytes(),
        &namespace.nguid,
        &namespace.eui64,
        if has_identifier { &[] } else { namespace.nsze.as_bytes() },
    ];
    let bytes = parts.into_iter().flatten();
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn media_differ_by_serial_number_namespace_and_identifiers_or_size() {
        let (controller, namespace) = (Controller::new_zeroed(), Namespace::new_zeroed());
        let mut other_serial = Controller::new_zeroed();
        other_serial.sn = [b'2'; 20];
        let (mut other_nguid, mut other_eui64, mut in_use) =
            (Namespace::new_zeroed(), Namespace::new_zeroed(), Namespace::new_zeroed());
        (other_nguid.nguid, other_eui64.eui64, in_use.nuse) = ([7; 16], [7; 8], 9.into());
        let (mut larger, mut larger_known) = (Namespace::new_zeroed(), Namespace::new_zeroed());
        (larger.nsze, larger_known.nsze, larger_known.nguid) = (9.into(), 9.into(), [7; 16]);
        let mut all = [
            media(&controller, Nsid(1), &namespace),
            media(&controller, Nsid(2), &namespace),
            media(&other_serial, Nsid(1), &namespace),
            media(&controller, Nsid(1), &other_nguid),
            media(&controller, Nsid(1), &other_eui64),
            media(&controller, Nsid(1), &larger),
        ];
        assert_eq!(all[0], media(&controller, Nsid(1), &in_use));
        assert_eq!(all[3], media(&controller, Nsid(1), &larger_known));
        all.sort_unstable();
        assert!(all.windows(2).all(|two| two[0] != two[1]), "{all:?}");
    }
}
