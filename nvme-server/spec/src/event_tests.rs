use super::*;

#[test]
fn event_types_are_recognised() {
    for raw in 0..=0xff {
        assert!(EventKind::from_raw(raw).is_none_or(|kind| kind as u8 == raw));
    }
    assert_eq!(EventKind::from_raw(2), Some(EventKind::Notice));
    assert_eq!(EventKind::from_raw(3), None);
}

#[test]
fn named_events_have_the_numbers_of_the_standard() {
    // Type, information, log page.
    let expected = [
        (AsyncEvent::INVALID_DOORBELL_REGISTER, 0, 0, 1),
        (AsyncEvent::INVALID_DOORBELL_VALUE, 0, 1, 1),
        (AsyncEvent::DIAGNOSTIC_FAILURE, 0, 2, 1),
        (AsyncEvent::PERSISTENT_INTERNAL_ERROR, 0, 3, 1),
        (AsyncEvent::TRANSIENT_INTERNAL_ERROR, 0, 4, 1),
        (AsyncEvent::FIRMWARE_LOAD_ERROR, 0, 5, 1),
        (AsyncEvent::RELIABILITY, 1, 0, 2),
        (AsyncEvent::TEMPERATURE, 1, 1, 2),
        (AsyncEvent::SPARE, 1, 2, 2),
        (AsyncEvent::NAMESPACE_CHANGED, 2, 0, 4),
        (AsyncEvent::FIRMWARE_ACTIVATION, 2, 1, 3),
        (AsyncEvent::SANITIZE_COMPLETED, 6, 1, 0x81),
    ];
    for (event, kind, info, log_page) in expected {
        assert_eq!((event.kind(), event.info(), event.log_page()), (kind, info, log_page), "{event:?}");
        assert_eq!(event.into_bits(), u32::from(kind) | u32::from(info) << 8 | u32::from(log_page) << 16);
    }
    assert_eq!(AsyncEvent::SPARE.event_kind(), Some(EventKind::Smart));
}
