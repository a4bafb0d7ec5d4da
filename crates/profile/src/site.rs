//! Identifiers of places in the program: of call sites and of call paths.
//!
//! Each process computes them by itself from what is the same in all processes that run the same
//! binaries: the file with its build ID and layout, and the address in it. So ranks need not agree
//! on numbers, wherever their binaries are loaded.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Hexadecimal digits of an identifier.
const DIGITS: usize = 12;

/// Characters of the text that is validated, which is longer than the digits.
///
/// PERF: UTF-8 is validated by pairs of words, and a rest by characters.
const ROOM: usize = 16;

/// The digits of an identifier, in a text of digits.
///
/// PERF: each row of a profile may have one.
fn digits(mut number: u64, text: &mut [u8; ROOM]) -> &str {
    for digit in text[..DIGITS].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(number & 0xf) as usize];
        number >>= 4;
    }
    &std::str::from_utf8(text).expect("digits")[..DIGITS]
}
const BITS: u32 = 4 * DIGITS as u32;

/// A call site: a return address in a binary, or a line of an interpreted language.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SiteId(u64);

/// A call path: the call sites from an MPI call outwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PathId(u64);

/// A sequence of steps, or a list of the different ones; see [`crate::rows::OrderRow`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId(u64);

impl OrderId {
    /// The identifier of this content, by its hash.
    pub fn from_bytes(bytes: &[u8]) -> OrderId {
        OrderId(folded(bytes.iter().fold(FNV_BASIS, |hash, &byte| fnv(hash, u64::from(byte)))))
    }
}

impl SiteId {
    /// The site at `offset` in a binary: the address to which the call returns, as in the binary's
    /// symbol table. A file without build ID is identified by its path. `layout` is a hash of the
    /// program headers: linkers are also told to give every file the same build ID.
    pub fn new(module: &str, build_id: &str, layout: u32, offset: u64) -> SiteId {
        let file = if build_id.is_empty() { module } else { build_id };
        let of_name = file.bytes().fold(FNV_BASIS, |hash, byte| fnv(hash, u64::from(byte)));
        SiteId(folded(fnv(fnv(of_name, u64::from(layout)), offset)))
    }

    /// The line of a function of an interpreted language.
    pub fn of_line(file: &str, function: &str, line: u64) -> SiteId {
        let names = file.bytes().chain([0]).chain(function.bytes());
        let of_function = names.fold(!FNV_BASIS, |hash, byte| fnv(hash, u64::from(byte)));
        SiteId(folded(fnv(of_function, line)))
    }
}

impl PathId {
    /// The path through these sites, innermost first.
    pub fn new(sites: impl IntoIterator<Item = SiteId>) -> PathId {
        PathId(folded(sites.into_iter().fold(FNV_BASIS, |hash, site| fnv(hash, site.0))))
    }
}

/// Call sites in the sums over ranks of a profile at most: those with the smallest identifiers.
pub const MOST_SITES_OF_RANKS: usize = 1 << 16;

/// A hash of where in a file the segments are, how long, and where they are mapped: of each program
/// header the type and flags in one word, and the words `p_offset`, `p_vaddr`, `p_filesz` and
/// `p_memsz`.
pub fn layout(headers: impl IntoIterator<Item = [u64; 5]>) -> u32 {
    let bytes = headers.into_iter().flatten().flat_map(u64::to_ne_bytes);
    let step = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
    let hash = bytes.fold(FNV_BASIS, step);
    (hash ^ hash >> 32) as u32
}

/// A layout as it is in tables.
pub fn layout_text(layout: u32) -> String {
    format!("{layout:08x}")
}

const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// A step of the hash FNV-1a, by words.
fn fnv(hash: u64, word: u64) -> u64 {
    let mixed = (hash ^ word).wrapping_mul(FNV_PRIME);
    // A word changes only what is above it: rotation lets the next step spread it downwards.
    mixed.rotate_left(29)
}

/// A hash in as many bits as an identifier has, which is not 0.
fn folded(hash: u64) -> u64 {
    // The last mixing of MurmurHash3: each bit changes all others.
    let mut mixed = hash;
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ mixed >> 33).wrapping_mul(factor);
    }
    ((mixed ^ mixed >> 33) >> (u64::BITS - BITS)).max(1)
}

/// Written as hexadecimal digits in text, as a number between ranks.
macro_rules! identifier {
    ($name:ident, $what:literal) => {
        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(digits(self.0, &mut [b'0'; ROOM]))
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                let is_id = text.len() == DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit());
                let number = u64::from_str_radix(text, 16).ok().filter(|&number| is_id && number != 0);
                number.map($name).ok_or_else(|| {
                    format!("'{text}' identifies no {}, which takes {DIGITS} hexadecimal digits", $what)
                })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                if serializer.is_human_readable() {
                    serializer.serialize_str(digits(self.0, &mut [b'0'; ROOM]))
                } else {
                    serializer.serialize_u64(self.0)
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                use serde::de::Error;
                if deserializer.is_human_readable() {
                    let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                    text.parse().map_err(D::Error::custom)
                } else {
                    let number = u64::deserialize(deserializer)?;
                    let is_id = number != 0 && number < 1 << BITS;
                    if is_id {
                        Ok($name(number))
                    } else {
                        Err(D::Error::custom("an identifier is out of range"))
                    }
                }
            }
        }
    };
}

identifier!(SiteId, "call site");
identifier!(PathId, "call path");
identifier!(OrderId, "sequence of steps");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #[test]
        fn identifiers_are_read_as_they_are_written(module: String, build_id: String, layout: u32, offset: u64) {
            let site = SiteId::new(&module, &build_id, layout, offset);
            prop_assert_eq!(site.to_string().parse(), Ok(site));
            let path = PathId::new([site, site]);
            prop_assert_eq!(path.to_string().parse(), Ok(path));
            prop_assert_ne!(path, PathId::new([site]));
        }
    }

    #[test]
    fn the_place_of_a_file_does_not_matter_where_it_has_a_build_id() {
        assert_eq!(SiteId::new("/a/app", "12ab", 3, 7), SiteId::new("/b/app", "12ab", 3, 7));
        assert_ne!(SiteId::new("/a/app", "", 3, 7), SiteId::new("/b/app", "", 3, 7));
    }

    #[test]
    fn files_that_were_given_one_build_id_are_told_apart() {
        assert_ne!(SiteId::new("/a/app", "12ab", 3, 7), SiteId::new("/b/app", "12ab", 4, 7));
    }

    #[test]
    fn a_line_is_identified_by_file_and_function() {
        let sites = [
            SiteId::of_line("/a/solver.py", "step", 42),
            SiteId::of_line("/a/solver.py", "step", 43),
            SiteId::of_line("/a/solver.py", "stop", 42),
            SiteId::of_line("/b/solver.py", "step", 42),
            SiteId::of_line("/a/solver", ".pystep", 42),
        ];
        assert_eq!(sites.iter().collect::<HashSet<_>>().len(), sites.len());
        assert_eq!(sites[0], SiteId::of_line("/a/solver.py", "step", 42));
    }

    #[test]
    fn neighbouring_addresses_of_some_files_share_no_identifier() {
        let of_file =
            |file: u64| (0..20_000).map(move |offset| SiteId::new("", &format!("{file:x}"), 0, offset));
        let all: HashSet<SiteId> = (0..10).flat_map(of_file).collect();
        assert_eq!(all.len(), 200_000);
    }

    #[test]
    fn what_is_no_identifier_is_named() {
        let error = "12".parse::<SiteId>().unwrap_err();
        assert_eq!(error, "'12' identifies no call site, which takes 12 hexadecimal digits");
        assert!("000000000000".parse::<PathId>().is_err());
    }
}
