use std::string::ToString;

use super::*;

#[test]
fn parts_share_sixteen_bits() {
    let bdf = Bdf::new(0x12, 0x1f, 7).unwrap();
    assert_eq!(bdf.to_raw(), 0x12ff);
    assert_eq!((bdf.bus(), bdf.device(), bdf.function()), (0x12, 0x1f, 7));
    assert_eq!(Bdf::new(0, 3, 0).unwrap().to_raw(), 0x0018);
    assert_eq!(Bdf::from_raw(0x0103), Bdf::new(1, 0, 3).unwrap());
}

#[test]
fn devices_and_functions_out_of_range_have_no_name() {
    assert_eq!(Bdf::new(0, 32, 0), None);
    assert_eq!(Bdf::new(0, 0, 8), None);
}

#[test]
fn ecam_gives_each_bus_a_mebibyte_and_each_function_a_page() {
    let offset = |bus, device, function, first| Bdf::new(bus, device, function).unwrap().ecam_offset(first);
    assert_eq!(offset(0, 0, 0, 0), Some(0));
    assert_eq!(offset(0, 3, 1, 0), Some(0x1_9000));
    assert_eq!(offset(1, 0, 0, 0), Some(0x10_0000));
    assert_eq!(offset(255, 31, 7, 0), Some(0x0fff_f000));
    assert_eq!(offset(0x81, 0, 0, 0x80), Some(0x10_0000));
    assert_eq!(offset(0x7f, 0, 0, 0x80), None);
}

#[test]
fn names_are_printed_and_read_alike() {
    assert_eq!(Bdf::new(0, 3, 0).unwrap().to_string(), "00:03.0");
    assert_eq!(Bdf::new(0xab, 0x1c, 5).unwrap().to_string(), "ab:1c.5");
    assert_eq!("ab:1c.5".parse(), Ok(Bdf::new(0xab, 0x1c, 5).unwrap()));
    for wrong in ["", "00:03", "00.3:0", "00:20.0", "00:03.8", "100:03.0", "+0:03.0", "00::3.0", ":.", "00:03.0.0"] {
        assert_eq!(wrong.parse::<Bdf>(), Err(ParseBdfError), "{wrong}");
    }
}
