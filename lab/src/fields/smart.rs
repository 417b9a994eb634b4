//! SMART / Health Information, log page 02h (base specification 2.0c, figure 207).

use super::{Structure, bit, bits, number};

/// The log page.
pub(crate) const SMART: Structure = Structure {
    bytes: 512,
    fields: &[
        bits(
            "critical_warning",
            0,
            1,
            &[
                bit("spare", 0),
                bit("temperature", 1),
                bit("reliability", 2),
                bit("read_only", 3),
                bit("backup", 4),
                bit("persistent_memory", 5),
            ],
        ),
        number("composite_temperature", 1, 2),
        number("available_spare", 3, 1),
        number("available_spare_threshold", 4, 1),
        number("percentage_used", 5, 1),
        bits("endurance_group_warning", 6, 1, &[bit("spare", 0), bit("reliability", 2), bit("read_only", 3)]),
        number("data_units_read", 32, 16),
        number("data_units_written", 48, 16),
        number("host_reads", 64, 16),
        number("host_writes", 80, 16),
        number("controller_busy_minutes", 96, 16),
        number("power_cycles", 112, 16),
        number("power_on_hours", 128, 16),
        number("unsafe_shutdowns", 144, 16),
        number("media_errors", 160, 16),
        number("error_log_entries", 176, 16),
        number("warning_temperature_minutes", 192, 4),
        number("critical_temperature_minutes", 196, 4),
        number("temperature_sensor_1", 200, 2),
        number("temperature_sensor_2", 202, 2),
        number("temperature_sensor_3", 204, 2),
        number("temperature_sensor_4", 206, 2),
        number("temperature_sensor_5", 208, 2),
        number("temperature_sensor_6", 210, 2),
        number("temperature_sensor_7", 212, 2),
        number("temperature_sensor_8", 214, 2),
        number("thermal_1_transitions", 216, 4),
        number("thermal_2_transitions", 220, 4),
        number("thermal_1_seconds", 224, 4),
        number("thermal_2_seconds", 228, 4),
    ],
};
