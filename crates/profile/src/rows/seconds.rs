//! Times in seconds, as tables have them.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Seconds, written with nanoseconds and without an exponent.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

impl Seconds {
    /// Whole nanoseconds, rounded as the tables are.
    pub fn to_ns(self) -> u64 {
        (self.0 * 1e9).round() as u64
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // PERF: a profile has millions of times, and as whole nanoseconds they are written in a tenth of the time.
        const MOST_NS: f64 = (1_u64 << 53) as f64;
        let ns = (self.0 * 1e9).round();
        if (0.0..MOST_NS).contains(&ns) {
            let mut text = [0; DECIMAL_BYTES];
            serializer.serialize_str(decimal(ns as u64, &mut text))
        } else {
            serializer.collect_str(&format_args!("{:.9}", self.0))
        }
    }
}

/// Bytes of the longest [`decimal`].
const DECIMAL_BYTES: usize = 21;

/// Nanoseconds as seconds with nine decimal places: `1.500000000`.
fn decimal(ns: u64, text: &mut [u8; DECIMAL_BYTES]) -> &str {
    const NS_PER_S: u64 = 1_000_000_000;
    let mut digits = itoa::Buffer::new();
    let whole = digits.format(ns / NS_PER_S).as_bytes();
    let point = whole.len();
    text[..point].copy_from_slice(whole);
    // The first digit keeps the zeros behind it, and makes room for the point.
    let decimals = digits.format(NS_PER_S + ns % NS_PER_S).as_bytes();
    let end = point + decimals.len();
    text[point..end].copy_from_slice(decimals);
    text[point] = b'.';
    std::str::from_utf8(&text[..end]).expect("digits and a point")
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if seconds.is_finite() && seconds >= 0.0 {
            Ok(Seconds(seconds))
        } else {
            Err(Error::custom(format!("{seconds} is not a time in seconds")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_nanoseconds_have_nine_decimal_places() {
        for (seconds, text) in [
            (0.0, "0.000000000"),
            (1.2e-7, "0.000000120"),
            (1.5, "1.500000000"),
            (12.345_678_901, "12.345678901"),
            (0.999_999_999_6, "1.000000000"),
            (9_007_199.0, "9007199.000000000"),
            (1e9, "1000000000.000000000"),
        ] {
            assert_eq!(serde_json::to_value(Seconds(seconds)).unwrap(), text);
            assert_eq!(text, format!("{seconds:.9}"));
        }
    }
}
