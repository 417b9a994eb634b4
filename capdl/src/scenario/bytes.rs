//! Sizes as people write them: `4096`, `"64K"`, `"1M"`, `"2G"`.

use serde::Deserializer;
use serde::de::{Error, Visitor};
use std::fmt;

/// Bytes from a number or a string with a binary unit.
pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    deserializer.deserialize_any(Bytes)
}

/// Bytes from a number or a string with a binary unit, where they may be left out.
pub(super) fn deserialize_some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserialize(deserializer).map(Some)
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of bytes such as 65536, \"64K\", \"1M\" or \"2G\"")
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<u64, E> {
        Ok(bytes)
    }

    fn visit_i64<E: Error>(self, bytes: i64) -> Result<u64, E> {
        u64::try_from(bytes).map_err(|_| E::custom("a size below zero: write a number of bytes such as 65536"))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
        parse(text).ok_or_else(|| {
            E::custom(format!("`{text}` is no size: write bytes as 65536, or with a unit as \"64K\", \"1M\" or \"2G\""))
        })
    }
}

fn parse(text: &str) -> Option<u64> {
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    if !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn units_are_powers_of_1024() {
        assert_eq!(parse("512"), Some(512));
        assert_eq!(parse("64K"), Some(65536));
        assert_eq!(parse("2M"), Some(2 << 20));
        assert_eq!(parse("3G"), Some(3 << 30));
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        for text in ["", "M", "-1", "+1", "1.5M", "1T", "99999999999G", "1 M"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
