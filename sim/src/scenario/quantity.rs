//! Values in text form: quantities with their unit, and named values.

use std::fmt;
use std::marker::PhantomData;

use braid_cc::CcConfig;
use braid_lb::LbPolicy;
use serde::de::{Deserialize, Deserializer, Error, Visitor};

use crate::time::{Ps, Rate};

/// A value with a text form.
pub(super) trait Text: Sized {
    /// The kind of value, for errors.
    const WHAT: &'static str;
    /// An example of the text form, for errors.
    const EXAMPLE: &'static str;

    /// Parses the text, or says what is wrong with it.
    fn from_text(text: &str) -> Result<Self, String>;
}

/// A value of a scenario that is parsed from text.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T: Text> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor(PhantomData)).map(Parsed)
    }
}

struct TextVisitor<T>(PhantomData<T>);

impl<T: Text> Visitor<'_> for TextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}, written as in \"{}\"", T::WHAT, T::EXAMPLE)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        Err(E::custom(bare::<T>(number)))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        Err(E::custom(bare::<T>(number)))
    }
}

fn bare<T: Text>(number: impl fmt::Display) -> String {
    format!("{number} is not enough for a {}; write it as in \"{}\"", T::WHAT, T::EXAMPLE)
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Bytes(pub(super) u64);

/// A share, 0 to 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Share(pub(super) f64);

/// A queue length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Room {
    /// Bytes of frames.
    Bytes(u64),
    /// Full data frames.
    Packets(u64),
}

impl Room {
    /// Returns the length in bytes, with `frame` bytes per full data frame.
    pub(super) fn bytes(self, frame: u32) -> u64 {
        match self {
            Room::Bytes(bytes) => bytes,
            Room::Packets(packets) => packets.saturating_mul(frame.into()),
        }
    }
}

const BYTES: &[(&str, f64)] = &[
    ("B", 1.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
];
const RATES: &[(&str, f64)] = &[("Mb/s", 1e6), ("Gb/s", 1e9), ("Tb/s", 1e12)];
const TIMES: &[(&str, f64)] = &[("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
const SHARES: &[(&str, f64)] = &[("%", 1.0)];
const PACKETS: &[(&str, f64)] = &[("packets", 1.0), ("packet", 1.0)];

impl Text for Bytes {
    const WHAT: &'static str = "number of bytes";
    const EXAMPLE: &'static str = "16 MiB";

    fn from_text(text: &str) -> Result<Self, String> {
        let bytes = parse::<Self>(text, BYTES)?;
        within::<Self>(text, bytes, 0.0..=1e12, "0 B to 1000 GB").map(|bytes| Bytes(bytes as u64))
    }
}

impl Text for Rate {
    const WHAT: &'static str = "rate";
    const EXAMPLE: &'static str = "200 Gb/s";

    fn from_text(text: &str) -> Result<Self, String> {
        let bps = parse::<Self>(text, RATES)?;
        within::<Self>(text, bps, 1e6..=1e14, "1 Mb/s to 100 Tb/s")
            .map(|bps| Rate::from_bps(bps as u64))
    }
}

impl Text for Ps {
    const WHAT: &'static str = "time";
    const EXAMPLE: &'static str = "1.5 us";

    fn from_text(text: &str) -> Result<Self, String> {
        let ps = parse::<Self>(text, TIMES)?;
        within::<Self>(text, ps, 0.0..=3.6e15, "0 us to 3600 s").map(|ps| Ps(ps as u64))
    }
}

impl Text for Share {
    const WHAT: &'static str = "share";
    const EXAMPLE: &'static str = "2.5 %";

    fn from_text(text: &str) -> Result<Self, String> {
        let (number, unit) = split::<Self>(text)?;
        let factor = factor::<Self>(text, unit, SHARES)?;
        // Divided rather than multiplied by 0.01, so that 95 % gives exactly 0.95.
        within::<Self>(text, number * factor / 100.0, 0.0..=1.0, "0 % to 100 %").map(Share)
    }
}

impl Text for Room {
    const WHAT: &'static str = "number of bytes or packets";
    const EXAMPLE: &'static str = "800 KB\" or \"192 packets";

    fn from_text(text: &str) -> Result<Self, String> {
        let (number, unit) = split::<Self>(text)?;
        let in_packets = PACKETS.iter().any(|(name, _)| *name == unit);
        let factor = factor::<Self>(text, unit, if in_packets { PACKETS } else { BYTES })?;
        let room = (number * factor).round();
        let room = within::<Self>(text, room, 0.0..=1e12, "0 to 1000 GB")? as u64;
        Ok(if in_packets { Room::Packets(room) } else { Room::Bytes(room) })
    }
}

impl Text for LbPolicy {
    const WHAT: &'static str = "path policy";
    const EXAMPLE: &'static str = "pro";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: braid_lb::UnknownPolicy| error.to_string())
    }
}

impl Text for CcConfig {
    const WHAT: &'static str = "congestion control";
    const EXAMPLE: &'static str = "fixed:1M";

    fn from_text(text: &str) -> Result<Self, String> {
        text.parse().map_err(|error: braid_cc::UnknownPolicy| error.to_string())
    }
}

/// Returns the value with the given name.
pub(super) fn by_name<T: Clone>(what: &str, text: &str, known: &[(&str, T)]) -> Result<T, String> {
    known.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone()).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        format!("no {what} is called `{text}`; known names: {}", names.join(", "))
    })
}

/// Parses a quantity to a whole number of base units.
fn parse<T: Text>(text: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let (number, unit) = split::<T>(text)?;
    Ok((number * factor::<T>(text, unit, units)?).round())
}

/// Splits a quantity into number and unit.
fn split<T: Text>(text: &str) -> Result<(f64, &str), String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let number = number
        .parse()
        .map_err(|_| format!("`{text}` is not a {}; write it as in \"{}\"", T::WHAT, T::EXAMPLE))?;
    Ok((number, unit.trim()))
}

fn factor<T: Text>(text: &str, unit: &str, units: &[(&str, f64)]) -> Result<f64, String> {
    let known = units.iter().find(|(name, _)| *name == unit);
    known.map(|(_, factor)| *factor).ok_or_else(|| {
        let names: Vec<&str> = units.iter().map(|(name, _)| *name).collect();
        let wrong = match unit {
            "" => format!("`{text}` has no unit"),
            _ => format!("`{unit}` is not a unit of a {}", T::WHAT),
        };
        format!("{wrong}; write it as in \"{}\" ({})", T::EXAMPLE, names.join(", "))
    })
}

fn within<T: Text>(
    text: &str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    limits: &str,
) -> Result<f64, String> {
    match range.contains(&value) {
        true => Ok(value),
        false => Err(format!("`{text}` is out of range for a {}; give {limits}", T::WHAT)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_decimal_or_binary_as_they_are_written() {
        assert_eq!(Bytes::from_text("100 KB"), Ok(Bytes(100_000)));
        assert_eq!(Bytes::from_text("16MiB"), Ok(Bytes(16 << 20)));
        assert_eq!(Rate::from_text("0.4 Tb/s"), Ok(Rate::from_gbps(400)));
        assert_eq!(Ps::from_text("0.1 us"), Ok(Ps(100_000)));
        assert_eq!(Share::from_text("1 %"), Ok(Share(0.01)));
        assert_eq!(Room::from_text("192 packets").map(|room| room.bytes(4160)), Ok(798_720));
    }

    #[test]
    fn errors_name_the_value_and_the_remedy() {
        let error = Ps::from_text("12").unwrap_err();
        assert_eq!(error, "`12` has no unit; write it as in \"1.5 us\" (ps, ns, us, ms, s)");
        assert!(Rate::from_text("1 GB").unwrap_err().contains("`GB` is not a unit of a rate"));
        assert!(Bytes::from_text("many").unwrap_err().contains("`many` is not a number of bytes"));
        assert!(Bytes::from_text("-1 KB").unwrap_err().contains("`-1 KB`"));
        assert!(Share::from_text("101 %").unwrap_err().contains("0 % to 100 %"));
        assert!(Ps::from_text("1e9 s").unwrap_err().contains("`e9 s`"));
        assert!(Ps::from_text("99999999999999999999999 s").unwrap_err().contains("out of range"));
    }
}
