//! Families of like communicators, by their names.

use crate::rows::is_of_changing_members;

/// The family of a communicator: its name with `*` for each number that tells apart what one call made, and its size,
/// since one call may make communicators of several sizes: `W_s1.*_d2@64`. Where no such number is in the name it is
/// that of one communicator alone.
///
/// The members of a communicator know its name and its size, whatever else they know, so that they agree on it.
pub fn family_of(comm: &str, size: u32) -> String {
    let pattern = pattern_of(comm);
    // A row for communicators of changing members has no size.
    if comm.contains('.') && !is_of_changing_members(comm) { format!("{pattern}@{size}") } else { pattern }
}

/// The name with `*` for each number that tells apart what one call made. Creations that a digest tells apart have nothing in
/// common by their names.
pub fn pattern_of(comm: &str) -> String {
    let mut pattern = String::with_capacity(comm.len() + 8);
    for (number, step) in comm.split('_').enumerate() {
        if number > 0 {
            pattern.push('_');
        }
        match step.split_once('.') {
            Some((made, rank)) if !rank.contains('-') => {
                pattern.push_str(made);
                pattern.push_str(".*");
            }
            _ => pattern.push_str(step),
        }
    }
    pattern
}
