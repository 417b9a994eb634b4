//! Agrees with a client on version and capabilities ("VFIO_USER_VERSION").
//!
//! The reply names only capabilities that the client named, as the specification demands. QEMU also takes no reply that
//! is longer than its own message, and refuses values above those it knows: 16 descriptors, 65,535 regions.

use crate::error::VersionError;
use crate::message::Version;
use serde_json::{Map, Value, json};
use zerocopy::{FromBytes, IntoBytes};

/// File descriptors that one message may carry. QEMU refuses a server that offers more.
pub(crate) const MAX_FDS: usize = 16;
/// Regions for DMA that may be mapped at a time: the protocol's default, and the most that QEMU takes.
pub(crate) const MAX_REGIONS: usize = 65_535;
/// Bytes of data in one message, in either direction: the protocol's default.
pub(crate) const MAX_TRANSFER: u32 = 1 << 20;
/// Page sizes of regions, ORed: the protocol's default. Not checked; any size can be served.
const PAGE_SIZES: u64 = 4096;
/// The minor version that is served: the lowest, which each client of major version zero knows.
const MINOR: u16 = 0;

/// The result of the negotiation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Agreed {
    /// Bytes of data in one message to the client; at least one.
    pub(crate) transfer: u32,
}

/// Answers the body of the client's message.
///
/// # Errors
///
/// [`VersionError`]; the client cannot be served.
pub(crate) fn negotiate(body: &[u8]) -> Result<(Agreed, Vec<u8>), VersionError> {
    let (version, text) = Version::read_from_prefix(body).map_err(|_| VersionError::CutOff)?;
    if version.major != 0 {
        return Err(VersionError::Major(version.major));
    }
    let proposed = capabilities(text)?;
    let transfer = match proposed.get("max_data_xfer_size") {
        None => MAX_TRANSFER,
        Some(value) => match value.as_u64() {
            None | Some(0) => return Err(VersionError::Capability("max_data_xfer_size")),
            Some(bytes) => u32::try_from(bytes).unwrap_or(MAX_TRANSFER).min(MAX_TRANSFER),
        },
    };
    let mut reply = Version { major: 0, minor: MINOR }.as_bytes().to_vec();
    if !text.is_empty() {
        reply.extend(answer(&proposed, transfer).to_string().bytes());
        reply.push(0);
    }
    Ok((Agreed { transfer }, reply))
}

/// The client's capabilities; none of them has to be there.
fn capabilities(text: &[u8]) -> Result<Map<String, Value>, VersionError> {
    let json = match text.split_last() {
        None => return Ok(Map::new()),
        Some((0, json)) => json,
        Some(_) => return Err(VersionError::CutOff),
    };
    let data: Value = serde_json::from_slice(json).map_err(|_| VersionError::NotJson)?;
    let Value::Object(mut data) = data else { return Err(VersionError::NotJson) };
    match data.remove("capabilities") {
        None => Ok(Map::new()),
        Some(Value::Object(proposed)) => Ok(proposed),
        Some(_) => Err(VersionError::Capability("capabilities")),
    }
}

/// The server's values for those capabilities that the client named.
fn answer(proposed: &Map<String, Value>, transfer: u32) -> Value {
    let known = [
        ("max_msg_fds", json!(MAX_FDS)),
        ("max_data_xfer_size", json!(transfer)),
        ("max_dma_maps", json!(MAX_REGIONS)),
        ("pgsizes", json!(PAGE_SIZES)),
        ("write_multiple", json!(true)),
    ];
    let ours = known.into_iter().filter(|(name, _)| proposed.contains_key(*name));
    json!({ "capabilities": ours.map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The capabilities of QEMU 11.1.
    const QEMU: &str = concat!(
        r#"{"capabilities": {"migration": {"max_bitmap_size": 268435456, "pgsize": 4096}, "max_msg_fds": 16, "#,
        r#""max_data_xfer_size": 1048576, "pgsizes": 4096, "max_dma_maps": 65535, "write_multiple": true}}"#
    );

    fn message(major: u16, minor: u16, text: Option<&str>) -> Vec<u8> {
        let mut body = Version { major, minor }.as_bytes().to_vec();
        if let Some(text) = text {
            body.extend(text.bytes());
            body.push(0);
        }
        body
    }

    #[test]
    fn a_reply_fits_into_qemus_buffer() {
        let body = message(0, 0, Some(QEMU));
        let (agreed, reply) = negotiate(&body).expect("QEMU is served");
        assert_eq!(agreed.transfer, 1 << 20);
        assert!(reply.len() <= body.len(), "{} bytes", reply.len());
        let (0, text) = reply[4..].split_last().map(|(last, text)| (*last, text)).unwrap() else { panic!("no NUL") };
        let value: Value = serde_json::from_slice(text).unwrap();
        let capabilities = &value["capabilities"];
        assert_eq!(capabilities["max_msg_fds"], 16);
        assert_eq!(capabilities["max_dma_maps"], 65_535);
        assert_eq!(capabilities["pgsizes"], 4096);
        assert_eq!(capabilities["write_multiple"], true);
        assert!(capabilities.get("migration").is_none());
    }

    #[test]
    fn a_client_without_capabilities_gets_the_defaults() {
        let (agreed, reply) = negotiate(&message(0, 1, None)).unwrap();
        assert_eq!(agreed.transfer, 1 << 20);
        assert_eq!(reply, message(0, 0, None));
        let (_, reply) = negotiate(&message(0, 0, Some("{}"))).unwrap();
        assert_eq!(reply, message(0, 0, Some(r#"{"capabilities":{}}"#)));
    }

    #[test]
    fn the_smaller_transfer_size_is_agreed() {
        let of = |bytes: &str| {
            let text = format!(r#"{{"capabilities":{{"max_data_xfer_size":{bytes}}}}}"#);
            negotiate(&message(0, 0, Some(&text))).map(|(agreed, _)| agreed.transfer)
        };
        assert_eq!(of("4096"), Ok(4096));
        assert_eq!(of("18446744073709551615"), Ok(1 << 20));
        for bytes in ["0", "-1", "1.5", "\"4096\"", "null"] {
            assert_eq!(of(bytes), Err(VersionError::Capability("max_data_xfer_size")), "{bytes}");
        }
    }

    #[test]
    fn unreadable_messages_are_refused() {
        assert_eq!(negotiate(&[0, 0, 0]), Err(VersionError::CutOff));
        assert_eq!(negotiate(b"\0\0\0\0{}"), Err(VersionError::CutOff));
        assert_eq!(negotiate(&message(1, 0, None)), Err(VersionError::Major(1)));
        assert_eq!(negotiate(&message(0, 0, Some("["))), Err(VersionError::NotJson));
        assert_eq!(negotiate(&message(0, 0, Some("[]"))), Err(VersionError::NotJson));
        let not_an_object = negotiate(&message(0, 0, Some(r#"{"capabilities":1}"#)));
        assert_eq!(not_an_object, Err(VersionError::Capability("capabilities")));
    }
}
