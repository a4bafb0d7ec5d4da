//! Numbers with units: how they are shown, and how they are read from the command line.

use std::cmp::Ordering;
use std::str::FromStr;

/// Seconds with microseconds, which is finer than a table needs and the same for all of its rows.
pub fn seconds(seconds: f64) -> String {
    format!("{seconds:.6}")
}

/// Rounds to nine decimals, for seconds nanoseconds, so that a sum does not show digits that no clock
/// measured.
pub fn to_nine_decimals(number: f64) -> f64 {
    // Beyond 2^53 ns (104 days) a double has no nanoseconds to round to.
    let billionths = number * 1e9;
    if billionths.abs() < 9e15 { billionths.round() / 1e9 } else { number }
}

/// Bytes with a binary prefix and three significant digits or more: `6.94 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.995 would be printed as 1024.00.
    while value >= 1023.995 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.2} {}", UNITS[unit])
}

/// A count with its noun: `1 call`, `2 calls`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// How many accesses.
pub fn accesses(number: u64) -> String {
    format!("{number} access{}", if number == 1 { "" } else { "es" })
}

/// Message sizes, both ends included: `1k-64k`, `1k-`, `-64k`, `512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest size, in bytes.
    pub min_bytes: u64,
    /// The largest size, in bytes.
    pub max_bytes: u64,
}

impl FromStr for SizeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (min, max) = text.split_once('-').unwrap_or((text, text));
        if min.is_empty() && max.is_empty() {
            return Err("a range of sizes looks like 1k-64k, 1k- or -64k".to_owned());
        }
        let min_bytes = if min.is_empty() { 0 } else { parse_bytes(min)? };
        let max_bytes = if max.is_empty() { u64::MAX } else { parse_bytes(max)? };
        if min_bytes > max_bytes {
            return Err(format!("the range begins at {min_bytes} bytes and ends before, at {max_bytes}"));
        }
        Ok(SizeRange { min_bytes, max_bytes })
    }
}

fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let factor: Option<u64> = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" => Some(1),
        "k" => Some(1 << 10),
        "m" => Some(1 << 20),
        "g" => Some(1 << 30),
        "t" => Some(1 << 40),
        _ => None,
    };
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor?));
    bytes.ok_or_else(|| format!("'{text}' is not a size like 512, 64k, 4M or 1G (k is 1024)"))
}

/// Reads a time: `0.5`, `0.5s`, `10ms`, `20us`, `300ns`.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    };
    let seconds = digits.parse::<f64>().ok().and_then(|number| Some(number * factor?));
    seconds
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| format!("'{text}' is not a time like 0.5, 10ms or 20us"))
}

/// Orders names as people count: `W_s2.0` before `W_s10.0`.
pub fn natural_order(left: &str, right: &str) -> Ordering {
    let (mut left_rest, mut right_rest) = (left, right);
    while !left_rest.is_empty() && !right_rest.is_empty() {
        let (left_part, right_part) = (leading_part(left_rest), leading_part(right_rest));
        let order = match (left_part.parse::<u64>(), right_part.parse::<u64>()) {
            (Ok(left_number), Ok(right_number)) => left_number.cmp(&right_number),
            _ => left_part.cmp(right_part),
        };
        if order != Ordering::Equal {
            return order;
        }
        left_rest = &left_rest[left_part.len()..];
        right_rest = &right_rest[right_part.len()..];
    }
    // Names that differ in leading zeros only still have one order.
    left_rest.len().cmp(&right_rest.len()).then_with(|| left.cmp(right))
}

/// The digits, or what is not digits, at the beginning.
fn leading_part(text: &str) -> &str {
    let digits = text.starts_with(|c: char| c.is_ascii_digit());
    let end = text.find(|c: char| c.is_ascii_digit() != digits).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_get_the_prefix_that_fits() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.00 KiB");
        assert_eq!(human_bytes((1 << 20) - 1), "1.00 MiB");
        assert_eq!(human_bytes(7_456_121_600), "6.94 GiB");
        assert_eq!(human_bytes(u64::MAX), "16.00 EiB");
    }

    #[test]
    fn size_ranges_are_read() {
        let range = |text: &str| text.parse::<SizeRange>().map(|range| (range.min_bytes, range.max_bytes));
        assert_eq!(range("1k-64K"), Ok((1024, 65536)));
        assert_eq!(range("2M-"), Ok((2 << 20, u64::MAX)));
        assert_eq!(range("-512"), Ok((0, 512)));
        assert_eq!(range("0"), Ok((0, 0)));
        assert!(range("64k-1k").unwrap_err().contains("ends before"));
        for wrong in ["", "-", "k", "1x", "1.5k", "99999999999G", "ü-1"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read() {
        assert_eq!(parse_seconds("0.5"), Ok(0.5));
        assert_eq!(parse_seconds("10ms"), Ok(0.01));
        assert_eq!(parse_seconds("2s"), Ok(2.0));
        for wrong in ["", "ms", "-1", "inf", "nan", "1h"] {
            assert!(parse_seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_ordered_as_people_count() {
        let mut names = ["W_s10.0", "W_s2.8", "W", "S", "W_s2.16", "W_d1", "W_s2.8_d1"];
        names.sort_by(|left, right| natural_order(left, right));
        assert_eq!(names, ["S", "W", "W_d1", "W_s2.8", "W_s2.8_d1", "W_s2.16", "W_s10.0"]);
        assert_eq!(natural_order("W_s01", "W_s1"), Ordering::Less);
    }

    #[test]
    fn sums_show_nanoseconds_at_most() {
        assert_eq!(to_nine_decimals(0.1 + 0.2), 0.3);
        assert_eq!(to_nine_decimals(1e300), 1e300);
    }
}
