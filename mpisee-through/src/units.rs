//! Numbers with units: how they are shown, and how they are read from the command line.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// A time with its unit and three significant digits: `7.20 ms`.
pub fn time(seconds: f64) -> String {
    const UNITS: [(f64, &str); 4] = [(1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")];
    if seconds == 0.0 {
        return "0 s".to_owned();
    }
    // 0.9995 of a unit would be printed as 1000 of the next.
    let is_whole = |unit: f64| seconds.abs() >= 0.9995 * unit;
    let (unit, name) = UNITS.into_iter().find(|&(unit, _)| is_whole(unit)).unwrap_or((1e-9, "ns"));
    format!("{} {name}", three_digits(seconds / unit))
}

/// Three significant digits, or all digits before the point.
fn three_digits(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Rounds to nine decimals, for seconds nanoseconds, so that a sum does not show digits that no
/// clock measured.
pub fn to_nine_decimals(number: f64) -> f64 {
    // Beyond 2^53 ns (104 days) a double has no nanoseconds to round to.
    let billionths = number * 1e9;
    if billionths.abs() < 9e15 { billionths.round() / 1e9 } else { number }
}

/// Bytes with a binary prefix and three significant digits: `6.94 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    // 1023.5 would be printed as 1024.
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), UNITS[unit])
}

/// The ends of a range of sizes: `64 B` and `<128 B`, `512 B` and `<1 KiB`. A class ends below a
/// power of two.
pub fn range_ends([least, most]: [u64; 2]) -> [String; 2] {
    let beyond = u128::from(most) + 1;
    let end = match beyond.is_power_of_two() {
        true => format!("<{}", short_bytes(beyond)),
        false => short_bytes(u128::from(most)),
    };
    [short_bytes(u128::from(least)), end]
}

/// `512 B`, `4 KiB`; what is no whole number of a unit has the next smaller one.
pub fn short_bytes(bytes: u128) -> String {
    const UNITS: [(&str, u32); 6] =
        [("EiB", 60), ("PiB", 50), ("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let unit = UNITS.into_iter().find(|&(_, bits)| bytes >= 1 << bits && bytes.trailing_zeros() >= bits);
    unit.map_or_else(|| format!("{bytes} B"), |(unit, bits)| format!("{} {unit}", bytes >> bits))
}

/// A class of sizes, as tables show it: `4 KiB - <8 KiB`, `64 B`.
pub fn size_class(least: u64, most: u64) -> String {
    match least == most {
        true => human_bytes(least),
        false => range_ends([least, most]).join(" - "),
    }
}

/// A number that may be large: exact below ten million, then with three significant digits: `12.3
/// M`.
pub fn large_count(number: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000_000, "T"), (1_000_000_000, "G"), (1_000_000, "M")];
    const EXACT_BELOW: u64 = 10_000_000;
    let unit = UNITS.into_iter().find(|&(unit, _)| number >= EXACT_BELOW && number / unit >= 1);
    match unit {
        Some((unit, name)) => format!("{} {name}", three_digits(number as f64 / unit as f64)),
        None => number.to_string(),
    }
}

/// A count with its noun: `1 call`, `2 calls`.
pub fn count(number: u64, noun: &str) -> String {
    count_of(number, noun, &format!("{noun}s"))
}

/// A count with its noun in the singular or the plural.
pub fn count_of(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", large_count(number), if number == 1 { one } else { many })
}

/// The sentence below a table that does not show everything, `2 more rows are left out; …`; nothing
/// if nothing is missing.
pub fn left_out(number: usize, noun: &str) -> String {
    left_out_of(number, noun, "")
}

/// The same where several tables stand together: `2 more rows of messages are left out; …`.
pub fn left_out_of(number: usize, noun: &str, of: &str) -> String {
    let are = match number {
        0 => return String::new(),
        1 => "is",
        _ => "are",
    };
    let more = count(number as u64, &format!("more {noun}"));
    let of = if of.is_empty() { String::new() } else { format!(" of {of}") };
    format!("{more}{of} {are} left out; --all shows all, --top N the first N.\n")
}

/// How many accesses.
pub fn accesses(number: u64) -> String {
    count_of(number, "access", "accesses")
}

/// Message sizes, both ends included: `1k-64k`, `1k-`, `-64k`, `512`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeRange {
    /// The smallest size, in bytes.
    pub min_bytes: u64,
    /// The largest size, in bytes.
    pub max_bytes: u64,
}

impl fmt::Display for SizeRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.min_bytes, self.max_bytes) {
            (min, u64::MAX) => write!(out, "{min}-"),
            (0, max) if max > 0 => write!(out, "-{max}"),
            (min, max) if min == max => write!(out, "{min}"),
            (min, max) => write!(out, "{min}-{max}"),
        }
    }
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

/// Reads a time: `0.5`, `0.5s`, `10ms`, `20us`, `300ns`, `5m`, `1h`.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "" | "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        "m" => Some(60.0),
        "h" => Some(3600.0),
        _ => None,
    };
    let seconds = digits.parse::<f64>().ok().and_then(|number| Some(number * factor?));
    seconds
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .ok_or_else(|| format!("'{text}' is not a time like 0.5, 10ms, 20us or 5m"))
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
    fn rows_that_are_left_out_are_counted() {
        assert_eq!(left_out(0, "row"), "");
        let options = "--all shows all, --top N the first N.\n";
        assert_eq!(left_out(1, "row"), format!("1 more row is left out; {options}"));
        assert_eq!(
            left_out_of(2, "row", "messages"),
            format!("2 more rows of messages are left out; {options}")
        );
    }

    #[test]
    fn bytes_get_the_prefix_that_fits() {
        assert_eq!(human_bytes(0), "0 B");
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1024), "1.00 KiB");
        assert_eq!(human_bytes((1 << 20) - 1), "1.00 MiB");
        assert_eq!(human_bytes(7_456_121_600), "6.94 GiB");
        assert_eq!(human_bytes(439 << 20), "439 MiB");
        assert_eq!(human_bytes(1023 << 10), "1023 KiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn times_get_the_unit_that_fits() {
        assert_eq!(time(0.0), "0 s");
        assert_eq!(time(0.0072), "7.20 ms");
        assert_eq!(time(0.000_999_6), "1.00 ms");
        assert_eq!(time(59.96), "60.0 s");
        assert_eq!(time(12_345.6), "12346 s");
        assert_eq!(time(1.66e-8), "16.6 ns");
        assert_eq!(time(-2.5e-5), "-25.0 µs");
        assert_eq!(time(3e-13), "0.00 ns");
    }

    #[test]
    fn counts_are_exact_as_long_as_they_are_short() {
        assert_eq!(large_count(9_999_999), "9999999");
        assert_eq!(large_count(12_345_678), "12.3 M");
        assert_eq!(large_count(7_000_000_000), "7.00 G");
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
        assert_eq!((parse_seconds("5m"), parse_seconds("1h")), (Ok(300.0), Ok(3600.0)));
        for wrong in ["", "ms", "-1", "inf", "nan", "1d"] {
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
