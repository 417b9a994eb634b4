use super::*;
use crate::expected::bytes;

#[test]
fn smart_fields_stand_where_the_standard_puts_them() {
    let smart = Smart::read_from_bytes(&bytes::<512>(&[
        (0, &[0x04]),
        (1, &[0x43, 0x01]),
        (3, &[100]),
        (4, &[10]),
        (5, &[1]),
        (32, &[0x01, 0x02]),
        (48, &[3]),
        (64, &[4]),
        (80, &[5]),
        (96, &[6]),
        (112, &[7]),
        (128, &[8]),
        (144, &[9]),
        (160, &[10]),
        (176, &[11]),
        (192, &[12]),
        (196, &[13]),
        (200, &[14]),
        (214, &[15]),
        (216, &[16]),
        (220, &[17]),
        (224, &[18]),
        (228, &[19]),
    ]))
    .unwrap();
    assert!(smart.warnings().reliability());
    assert!(!smart.warnings().spare());
    assert_eq!(smart.temperature.get(), 323);
    assert_eq!(smart.celsius(), 50);
    assert_eq!((smart.spare, smart.spare_threshold, smart.used), (100, 10, 1));
    assert_eq!(smart.data_units_read.get(), 0x201);
    assert_eq!(smart.data_units_written.get(), 3);
    assert_eq!((smart.host_reads.get(), smart.host_writes.get()), (4, 5));
    assert_eq!((smart.busy_minutes.get(), smart.power_cycles.get()), (6, 7));
    assert_eq!((smart.power_on_hours.get(), smart.unsafe_shutdowns.get()), (8, 9));
    assert_eq!((smart.media_errors.get(), smart.error_log_entries.get()), (10, 11));
    assert_eq!((smart.warning_minutes.get(), smart.critical_minutes.get()), (12, 13));
    assert_eq!((smart.sensors[0].get(), smart.sensors[7].get()), (14, 15));
    assert_eq!(smart.thermal_transitions.map(U32::get), [16, 17]);
    assert_eq!(smart.thermal_seconds.map(U32::get), [18, 19]);
}
