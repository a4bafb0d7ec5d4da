//! Lists of message sizes, as options have them: `8,1k,1M-4M`.

use std::str::FromStr;

/// Sizes in bytes, ascending, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sizes(pub Vec<u64>);

impl Sizes {
    /// The powers of two from `first` to `last`.
    pub fn powers(first: u64, last: u64) -> Self {
        let powers = std::iter::successors(Some(first.max(1)), |size| size.checked_mul(2));
        Sizes(powers.take_while(|&size| size <= last).collect())
    }
}

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = Vec::new();
        for part in text.split(',') {
            match part.split_once('-') {
                None => all.push(bytes(part)?),
                Some((first, last)) => {
                    let (first, last) = (bytes(first)?, bytes(last)?);
                    if first > last {
                        return Err(format!("the range '{part}' begins after its end"));
                    }
                    if first == 0 {
                        all.push(0);
                    }
                    all.extend(Sizes::powers(first, last).0);
                }
            }
        }
        all.sort_unstable();
        all.dedup();
        Ok(Sizes(all))
    }
}

/// A number of bytes; k, M, G and T are powers of 1024.
pub fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let number =
        digits.parse::<u64>().ok().and_then(|number| number.checked_mul(factor(&text[digits.len()..])?));
    number.ok_or_else(|| format!("'{text}' is not a size like 512, 64k, 4M or 1G (k is 1024)"))
}

/// The factor of a suffix.
pub fn factor(suffix: &str) -> Option<u64> {
    match suffix {
        "" => Some(1),
        "k" | "K" => Some(1 << 10),
        "M" | "m" => Some(1 << 20),
        "G" | "g" => Some(1 << 30),
        "T" | "t" => Some(1 << 40),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_ranges_of_sizes_are_read() {
        let sizes = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(sizes("8,1k"), Ok(vec![8, 1024]));
        assert_eq!(sizes("1k-8k,4k,3"), Ok(vec![3, 1024, 2048, 4096, 8192]));
        assert_eq!(sizes("0-4"), Ok(vec![0, 1, 2, 4]));
        assert_eq!(sizes("3-20"), Ok(vec![3, 6, 12]));
        for wrong in ["", "x", "1kk", "4-", "8-4", "99999999999G", "1.5k", "-1"] {
            assert!(sizes(wrong).is_err(), "{wrong}");
        }
    }
}
