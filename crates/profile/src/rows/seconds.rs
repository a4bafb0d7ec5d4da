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
        // PERF: a profile has millions of times, and as whole nanoseconds they are written in a
        // tenth of the time. Their digits need no quotes, and are written as bytes.
        const MOST_NS: f64 = (1_u64 << 53) as f64;
        let ns = (self.0 * 1e9).round();
        if (0.0..MOST_NS).contains(&ns) {
            let mut text = [b'0'; DECIMAL_BYTES];
            serializer.serialize_bytes(decimal(ns as u64, &mut text))
        } else {
            serializer.collect_str(&format_args!("{:.9}", self.0))
        }
    }
}

/// Bytes of the longest [`decimal`].
const DECIMAL_BYTES: usize = 21;

/// Nanoseconds as seconds with nine decimal places: `1.500000000`. The text is zeros so far.
fn decimal(ns: u64, text: &mut [u8; DECIMAL_BYTES]) -> &[u8] {
    const DECIMALS: usize = 9;
    let mut digits = itoa::Buffer::new();
    let digits = digits.format(ns).as_bytes();
    let zeros = (DECIMALS + 1).saturating_sub(digits.len());
    let point = zeros + digits.len() - DECIMALS;
    text[zeros..][..digits.len()].copy_from_slice(digits);
    text.copy_within(point..point + DECIMALS, point + 1);
    text[point] = b'.';
    &text[..=point + DECIMALS]
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
            let mut row = csv::Writer::from_writer(Vec::new());
            row.serialize(Seconds(seconds)).unwrap();
            assert_eq!(row.into_inner().unwrap(), format!("{text}\n").as_bytes());
            assert_eq!(text, format!("{seconds:.9}"));
        }
    }
}
