//! Structures of controllers, field by field: names, values, and the named bits of each value.
//!
//! A [`Structure`] is a table of its fields. Names are the standard's abbreviations, or its words where it has none; they are ours, and
//! stay. Bits that the standard does not define, and bytes between fields, are reported as such, so that nothing a controller sent is
//! lost. Sources: base specification 2.0c, NVM command set specification 1.0c. Left out: what a value means for anybody.

mod controller;
mod namespace;
mod smart;

pub(crate) use controller::CONTROLLER;
pub(crate) use namespace::NAMESPACE;
pub(crate) use smart::SMART;

use std::collections::BTreeMap;

/// A structure: its bytes, and its fields in their order.
pub(crate) struct Structure {
    /// Number of bytes.
    pub(crate) bytes: usize,
    fields: &'static [Field],
}

/// A field.
struct Field {
    name: &'static str,
    /// Offset of its first byte.
    first: usize,
    /// Number of bytes; of one element, if there are several.
    bytes: usize,
    kind: Kind,
}

/// Form of a field.
enum Kind {
    /// A number, little endian, of 16 bytes at most.
    Number,
    /// A number whose bits have names.
    Bits(&'static [Bits]),
    /// ASCII, filled up with spaces or ended by a zero.
    Text,
    /// Bytes, the most significant first.
    Hex,
    /// So many elements, each with these fields.
    Each(usize, &'static [Field]),
}

/// Named bits of a number.
struct Bits {
    name: &'static str,
    low: u32,
    count: u32,
}

const fn number(name: &'static str, first: usize, bytes: usize) -> Field {
    Field { name, first, bytes, kind: Kind::Number }
}

const fn bits(name: &'static str, first: usize, bytes: usize, bits: &'static [Bits]) -> Field {
    Field { name, first, bytes, kind: Kind::Bits(bits) }
}

const fn text(name: &'static str, first: usize, bytes: usize) -> Field {
    Field { name, first, bytes, kind: Kind::Text }
}

const fn hex(name: &'static str, first: usize, bytes: usize) -> Field {
    Field { name, first, bytes, kind: Kind::Hex }
}

const fn each(name: &'static str, first: usize, bytes: usize, count: usize, fields: &'static [Field]) -> Field {
    Field { name, first, bytes, kind: Kind::Each(count, fields) }
}

/// A single bit.
const fn bit(name: &'static str, low: u32) -> Bits {
    Bits { name, low, count: 1 }
}

/// Bits from `low` on.
const fn span(name: &'static str, low: u32, count: u32) -> Bits {
    Bits { name, low, count }
}

impl Bits {
    const fn mask(&self) -> u128 {
        ((1 << self.count) - 1) << self.low
    }
}

/// Value of a field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Value {
    /// A number.
    Number(u128),
    /// A number with the values of its named bits, and the rest of its bits, which have no name.
    Bits {
        /// The whole number.
        whole: u128,
        /// Each name with the value of its bits.
        named: Vec<(&'static str, u128)>,
        /// The bits without a name, at their places.
        unknown: u128,
    },
    /// Text without the characters that fill it up. Other bytes than those of printable ASCII are replaced.
    Text(String),
    /// Bytes as hexadecimal digits.
    Hex(String),
}

impl Value {
    /// The number, whatever its bits mean.
    pub(crate) const fn number(&self) -> Option<u128> {
        match self {
            Self::Number(number) | Self::Bits { whole: number, .. } => Some(*number),
            Self::Text(_) | Self::Hex(_) => None,
        }
    }
}

impl Structure {
    /// The fields of `bytes` by name, in their order; of an element as `lbaf3.ms`. Bytes outside of all fields are under
    /// `unknown-OFFSET`, before all fields, if there is one that is not 0. Missing bytes are zeroes.
    pub(crate) fn in_order(&self, bytes: &[u8]) -> Vec<(String, Value)> {
        let mut whole = bytes.to_vec();
        whole.resize(self.bytes, 0);
        let mut values = Vec::new();
        decode(self.fields, "", 0, &whole, &mut values);
        values
    }

    /// As [`Structure::in_order`], by name.
    pub(crate) fn decode(&self, bytes: &[u8]) -> BTreeMap<String, Value> {
        self.in_order(bytes).into_iter().collect()
    }
}

/// Decodes the fields of `bytes`, which begin at `offset` of the structure.
fn decode(fields: &[Field], prefix: &str, offset: usize, bytes: &[u8], values: &mut Vec<(String, Value)>) {
    let mut unknown = |from: usize, end: usize| {
        let between = bytes.get(from..end).unwrap_or_default();
        if between.iter().any(|byte| *byte != 0) {
            values.push((format!("unknown-{:04}", offset + from), Value::Hex(digits(between))));
        }
    };
    let mut end = 0;
    for field in fields {
        unknown(end, field.first);
        end = field.end();
    }
    unknown(end, bytes.len());
    for field in fields {
        let own = bytes.get(field.first..field.end()).unwrap_or_default();
        let name = format!("{prefix}{}", field.name);
        let value = match &field.kind {
            Kind::Number => Value::Number(little_endian(own)),
            Kind::Bits(bits) => {
                let whole = little_endian(own);
                let named = bits.iter().map(|one| (one.name, (whole & one.mask()) >> one.low)).collect();
                let known = bits.iter().fold(0, |known, one| known | one.mask());
                Value::Bits { whole, named, unknown: whole & !known }
            }
            Kind::Text => Value::Text(ascii(own)),
            Kind::Hex => Value::Hex(digits(own)),
            Kind::Each(_, fields) => {
                for (index, element) in own.chunks(field.bytes).enumerate() {
                    let first = offset + field.first + index * field.bytes;
                    decode(fields, &format!("{name}{index}."), first, element, values);
                }
                continue;
            }
        };
        values.push((name, value));
    }
}

impl Field {
    const fn end(&self) -> usize {
        match self.kind {
            Kind::Each(count, _) => self.first + count * self.bytes,
            _ => self.first + self.bytes,
        }
    }
}

fn little_endian(bytes: &[u8]) -> u128 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u128::from(*byte))
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn ascii(bytes: &[u8]) -> String {
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let printable = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '\u{fffd}' };
    bytes.iter().map(printable).collect::<String>().trim_end_matches(' ').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nvme_spec::identify;
    use nvme_spec::log::Smart;
    use zerocopy::FromBytes;

    /// A structure whose byte at each offset depends on it.
    fn bytes(structure: &Structure) -> Vec<u8> {
        (0..structure.bytes).map(|at| (at * 7 + at / 256) as u8).collect()
    }

    fn at<T: FromBytes>(structure: &Structure) -> T {
        T::read_from_bytes(&bytes(structure)).ok().unwrap()
    }

    /// Every element's fields lie in it, and no two of them overlap.
    fn tiled(fields: &[Field], bytes: usize) {
        let mut end = 0;
        for field in fields {
            assert!(field.first >= end, "{} begins before {end}", field.name);
            end = field.end();
            match &field.kind {
                Kind::Each(_, fields) => tiled(fields, field.bytes),
                Kind::Bits(bits) => {
                    let sum = bits.iter().fold(0, |known, one| {
                        assert_eq!(known & one.mask(), 0, "{}.{} overlaps", field.name, one.name);
                        known | one.mask()
                    });
                    assert!(
                        field.bytes <= 16 && sum.checked_shr(field.bytes as u32 * 8).unwrap_or(0) == 0,
                        "{}",
                        field.name
                    );
                }
                Kind::Number => assert!(field.bytes <= 16, "{}", field.name),
                Kind::Text | Kind::Hex => {}
            }
        }
        assert!(end <= bytes);
    }

    #[test]
    fn fields_do_not_overlap_and_lie_in_their_structures() {
        for structure in [&CONTROLLER, &NAMESPACE, &SMART] {
            tiled(structure.fields, structure.bytes);
        }
    }

    #[test]
    fn fields_lie_where_the_specifications_types_have_them() {
        let number = |values: &BTreeMap<String, Value>, name: &str| values[name].number().unwrap();
        let (values, about) = (CONTROLLER.decode(&bytes(&CONTROLLER)), at::<identify::Controller>(&CONTROLLER));
        let expected: [(&str, u128); 9] = [
            ("vid", about.vid.get().into()),
            ("oacs", about.oacs.get().into()),
            ("pels", about.pels.get().into()),
            ("unvmcap", about.unvmcap.get()),
            ("nanagrpid", about.nanagrpid.get().into()),
            ("oncs", about.oncs.get().into()),
            ("mnan", about.mnan.get().into()),
            ("psd31.exlat", about.psd[31].exit_us.get().into()),
            ("psd2.actp", about.psd[2].active_power.get().into()),
        ];
        expected.iter().for_each(|(name, value)| assert_eq!(number(&values, name), *value, "{name}"));
        let (values, about) = (NAMESPACE.decode(&bytes(&NAMESPACE)), at::<identify::Namespace>(&NAMESPACE));
        let expected: [(&str, u128); 5] = [
            ("nuse", about.nuse.get().into()),
            ("dlfeat", about.dlfeat.into()),
            ("nows", about.nows_z.get().into()),
            ("endgid", about.endgid.get().into()),
            ("lbaf63.ms", u128::from(about.lbaf[63].get() & 0xffff)),
        ];
        expected.iter().for_each(|(name, value)| assert_eq!(number(&values, name), *value, "{name}"));
        assert_eq!(values["eui64"], Value::Hex(digits(&about.eui64)));
        let (values, about) = (SMART.decode(&bytes(&SMART)), at::<Smart>(&SMART));
        let expected: [(&str, u128); 4] = [
            ("data_units_read", about.data_units_read.get()),
            ("critical_temperature_minutes", about.critical_minutes.get().into()),
            ("temperature_sensor_8", about.sensors[7].get().into()),
            ("thermal_2_seconds", about.thermal_seconds[1].get().into()),
        ];
        expected.iter().for_each(|(name, value)| assert_eq!(number(&values, name), *value, "{name}"));
    }

    #[test]
    fn bits_and_bytes_without_a_name_are_reported() {
        let mut structure = vec![0; SMART.bytes];
        structure[0] = 0b1100_0010;
        structure[510..].copy_from_slice(&[0xab, 0xcd]);
        let values = SMART.decode(&structure);
        let Value::Bits { named, unknown, .. } = &values["critical_warning"] else { panic!("{values:?}") };
        assert_eq!((*unknown, named[1]), (0b1100_0000, ("temperature", 1)));
        let Value::Hex(rest) = &values["unknown-0232"] else { panic!("{values:?}") };
        assert!(rest.starts_with("0000") && rest.ends_with("abcd"), "{rest}");
        assert!(!SMART.decode(&[]).keys().any(|name| name.starts_with("unknown")));
        let text = CONTROLLER.decode(b"\x01\x02\x03\x04a\x1b[2J  \0b");
        assert_eq!(text["sn"], Value::Text("a\u{fffd}[2J".into()));
    }
}
