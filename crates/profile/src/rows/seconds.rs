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
            serializer.serialize_str(decimal(ns as u64, &mut [0; DECIMAL_BYTES]))
        } else {
            serializer.collect_str(&format_args!("{:.9}", self.0))
        }
    }
}

/// Bytes of the longest [`decimal`].
const DECIMAL_BYTES: usize = 21;

/// Nanoseconds as seconds with nine decimal places: `1.500000000`.
fn decimal(mut ns: u64, text: &mut [u8; DECIMAL_BYTES]) -> &str {
    const DECIMALS: usize = 9;
    let mut first = DECIMAL_BYTES;
    while ns > 0 || first >= DECIMAL_BYTES - DECIMALS {
        if first == DECIMAL_BYTES - DECIMALS {
            first -= 1;
            text[first] = b'.';
        }
        first -= 1;
        text[first] = b'0' + (ns % 10) as u8;
        ns /= 10;
    }
    std::str::from_utf8(&text[first..]).expect("digits and a point")
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
