//! Validates the sums that another rank sent: their bytes may have any values, and must not become
//! a profile unseen.

use super::{ALL, Aggregate, CellKey, bounded};
use mpisee_profile::{Operation, ProfileError};

/// Returns whether each key is larger than the one before.
pub fn is_sorted<K: Ord, V>(rows: &[(K, V)]) -> bool {
    rows.is_sorted_by(|(left, _), (right, _)| left < right)
}

impl CellKey {
    fn is_possible(&self) -> bool {
        u32::from(self.size_class) <= u64::BITS && Operation::from_index(self.operation.into()).is_some()
    }
}

impl Aggregate {
    /// The sums of another rank, if what they say is possible: its bytes may have any values.
    pub fn checked(mut self) -> Result<Self, ProfileError> {
        let wrong = |why: &str| ProfileError::Message { why: format!("sums over ranks {why}") };
        let Aggregate { nodes, comms, regions, cells, wholes, offsets, outside, sites, variables, .. } =
            &self;
        let sorted = is_sorted(nodes) && is_sorted(comms) && is_sorted(regions) && is_sorted(cells);
        if !(sorted && is_sorted(wholes) && is_sorted(offsets) && is_sorted(outside)) {
            return Err(wrong("are not in order"));
        }
        let is_comm = |number: u32| number == ALL || (number as usize) < comms.len();
        let is_call = |number: u32| number == ALL || Operation::from_index(number.into()).is_some();
        let known = cells.iter().all(|(key, _)| is_comm(key.comm) && (key.region as usize) < regions.len())
            && wholes.iter().all(|((comm, call), _)| is_comm(*comm) && is_call(*call))
            && offsets.iter().all(|((comm, first, last), _)| is_comm(*comm) && first <= last)
            && outside.iter().all(|(comm, _)| is_comm(*comm));
        if !variables.is_sound() {
            return Err(wrong("have variables that are not in order"));
        }
        if !known || !sites.is_sound(comms.len()) || !cells.iter().all(|(key, _)| key.is_possible()) {
            return Err(wrong("speak of what they do not name"));
        }
        self.offsets = bounded(std::mem::take(&mut self.offsets));
        Ok(self)
    }
}
