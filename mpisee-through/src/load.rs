//! Opens a profile and holds its small tables; the large ones are streamed by those who need them.

use crate::filter::CommFilter;
use anyhow::Result;
use mpisee_profile::rows::{CommRow, Members, RankRow, Row};
use mpisee_profile::{Profile, ProfileError};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Opens the profile directory.
pub fn open(directory: &Path) -> Result<Profile> {
    Ok(Profile::open(directory)?)
}

/// All rows of a table that is small enough to hold.
pub fn all<R: Row>(profile: &Profile) -> Result<Vec<R>, ProfileError> {
    profile.rows::<R>()?.collect()
}

/// The communicators and the processes of a run.
pub struct Processes {
    /// `ranks.csv`.
    pub ranks: Vec<RankRow>,
    /// The ranks in it.
    pub present: HashSet<u32>,
    /// `comms.csv`, by name.
    pub comms: HashMap<String, CommRow>,
}

impl Processes {
    /// Reads `ranks.csv` and `comms.csv`.
    pub fn load(profile: &Profile) -> Result<Self> {
        let ranks: Vec<RankRow> = all(profile)?;
        let present = ranks.iter().map(|row| row.rank).collect();
        let comms = all::<CommRow>(profile)?.into_iter().map(|row| (row.comm.clone(), row)).collect();
        Ok(Processes { ranks, present, comms })
    }

    /// How many processes the filter takes.
    pub fn chosen(&self, filter: &CommFilter) -> usize {
        self.ranks.iter().filter(|row| filter.takes_rank(row.rank)).count()
    }

    /// The processes that the filter takes; where communicators are chosen, members of these alone.
    pub fn chosen_rows(&self, filter: &CommFilter) -> Vec<&RankRow> {
        let comms = self.comms.values().filter(|row| filter.takes_comm(&row.comm, Some(row)));
        let members: Option<HashSet<u32>> = filter
            .names_comms()
            .then(|| comms.flat_map(|row| row.members.all().iter().collect::<Vec<_>>()).collect());
        let takes = |row: &&RankRow| {
            filter.takes_rank(row.rank) && members.as_ref().is_none_or(|members| members.contains(&row.rank))
        };
        self.ranks.iter().filter(takes).collect()
    }

    /// The members that have a row in `ranks.csv`, ascending.
    pub fn present_members(&self, members: &Members) -> Vec<u32> {
        let groups = || std::iter::once(&members.group).chain(&members.remote);
        let listed: u64 = groups().map(mpisee_profile::RankSet::len).sum();
        // PERF: of the two sets, the smaller is walked.
        let mut found: Vec<u32> = if listed <= self.present.len() as u64 {
            groups().flat_map(|group| group.iter()).filter(|rank| self.present.contains(rank)).collect()
        } else {
            let is_member = |rank: &u32| groups().any(|group| group.contains(*rank));
            self.present.iter().copied().filter(is_member).collect()
        };
        found.sort_unstable();
        found.dedup();
        found
    }
}

pub use mpisee_profile::rows::is_one_per_process;

/// The members for reading: blanks where a line may break, and what the row of `S` stands for. `+2` are two
/// processes of other worlds.
pub fn members_text(row: &CommRow) -> String {
    let text = row.members.to_string().replace(',', ", ").replace('|', " | ").replace('+', " +");
    let text = text.trim_start().replace("|  +", "| +");
    if is_one_per_process(&row.comm) { format!("each of {text}") } else { text }
}
