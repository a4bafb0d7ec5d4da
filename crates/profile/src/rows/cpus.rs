//! Sets of CPUs, written as ranks are: `0-3,8`.

use crate::RankSet;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Limit on the number of a CPU, which bounds time and memory on corrupt input; no node has as
/// many.
const MOST_CPUS: u32 = 1 << 16;

/// CPUs by their numbers in the kernel; none where they are unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpus(RankSet);

impl Cpus {
    /// How many they are.
    pub fn len(&self) -> u64 {
        self.0.len()
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter()
    }

    /// Returns whether a CPU is one of them.
    pub fn contains(&self, cpu: u32) -> bool {
        self.0.contains(cpu)
    }

    /// Both sets together.
    pub fn union(&self, other: &Self) -> Self {
        Cpus(self.0.union(&other.0))
    }

    /// Returns whether all of them are in the other set.
    pub fn is_within(&self, other: &Self) -> bool {
        self == other || self.0.iter().all(|cpu| other.0.contains(cpu))
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Cpus(cpus.into_iter().filter(|&cpu| cpu < MOST_CPUS).collect())
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl FromStr for Cpus {
    type Err = String;

    /// Reads what `Display` writes, and lists of the kernel.
    fn from_str(text: &str) -> Result<Self, String> {
        let set: RankSet = text.parse().map_err(|_| format!("'{text}' are not CPUs, like 0-3,8"))?;
        match set.ranges().iter().all(|range| range.last < MOST_CPUS) {
            // In the order and the form that equal sets share.
            true => Ok(Cpus(set.iter().collect())),
            false => Err(format!("'{text}' has CPUs of larger numbers than there can be")),
        }
    }
}

impl Serialize for Cpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Cpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_read_as_the_kernel_writes_them() {
        let cpus: Cpus = "0-3,8\n".parse().unwrap();
        assert_eq!((cpus.len(), cpus.to_string().as_str()), (5, "0-3,8"));
        assert!("".parse::<Cpus>().unwrap().is_empty());
        assert_eq!("2,1,0".parse::<Cpus>().unwrap(), "0-2".parse().unwrap());
        assert!("0-x".parse::<Cpus>().unwrap_err().contains("'0-x'"));
        assert!("0-4000000000".parse::<Cpus>().is_err());
    }

    #[test]
    fn sets_are_joined_and_compared() {
        let cpus = |text: &str| text.parse::<Cpus>().unwrap();
        assert_eq!(cpus("0-3").union(&cpus("2-5,9")), cpus("0-5,9"));
        assert!(cpus("1-2").is_within(&cpus("0-3")) && !cpus("1-4").is_within(&cpus("0-3")));
        assert!(Cpus::default().is_within(&cpus("0")));
    }
}
