//! Opens a profile and loads its small tables; commands stream the large ones.

use crate::filter::CommFilter;
use crate::matched;
use crate::units::natural_order;
use anyhow::{Result, anyhow, bail};
use mpisee_collect::profile;
use mpisee_collect::segments::{self, WorldSegments};
use mpisee_profile::rows::{CommRow, Members, NodeRow, RankRow, Row};
use mpisee_profile::{Profile, ProfileError};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Opens the profile directory; where there is none, says whether a run has left counts for it, or which ones lie nearby.
pub fn open(directory: &Path) -> Result<Profile> {
    Profile::open(directory).map_err(|error| {
        if directory.exists() {
            return error.into();
        }
        match unfinished(directory).or_else(|| Some(format!("nearby {}", nearby(directory)?))) {
            Some(hint) => anyhow!("{error}; {hint}"),
            None => error.into(),
        }
    })
}

/// What to do where a run that wanted this profile goes on or has ended without it, on this node.
fn unfinished(directory: &Path) -> Option<String> {
    let name = directory.file_name()?;
    let found = segments::find(&segments::directory().ok()?, segments::own_user().ok()?, false).ok()?;
    let worlds = segments::worlds(found.segments);
    let is_meant = |world: &&WorldSegments| {
        profile::describe(world)
            .is_some_and(|it| it.wanted.file_name() == Some(name) || it.wanted.file_stem() == Some(name))
    };
    let world = worlds.iter().find(is_meant)?;
    Some(match world.running().next() {
        Some(_) => "a run that will write it goes on: mpisee-through top shows it".to_owned(),
        None => {
            let stem = Path::new(name).file_stem().unwrap_or(name).to_string_lossy();
            format!(
                "a run that ended before it was written has left its counts: mpisee-through recover --only {stem}"
            )
        }
    })
}

/// The profiles in the folder where one is missing: those of similar names, else all, if they are few.
fn nearby(directory: &Path) -> Option<String> {
    const MOST: usize = 4;
    let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
    let entries = std::fs::read_dir(parent.unwrap_or(Path::new("."))).ok()?;
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut profiles: Vec<String> = names.filter(|name| name.ends_with(".mpisee")).collect();
    profiles.sort_by(|one, other| natural_order(one, other));
    let wanted = directory.file_name()?.to_string_lossy();
    let stem = |name: &str| name.trim_end_matches(".mpisee").to_owned();
    let stems: Vec<String> = profiles.iter().map(|name| stem(name)).collect();
    let similar = matched::similar(&stem(&wanted), stems.iter().map(String::as_str));
    let shown: Vec<String> = match similar.as_slice() {
        [] => profiles,
        similar => similar.iter().map(|stem| format!("{stem}.mpisee")).collect(),
    };
    match shown.len() {
        0 => None,
        1 => Some(format!("is '{}'", shown[0])),
        count => {
            let more = if count > MOST { format!(" and {} more", count - MOST) } else { String::new() };
            let names: Vec<String> = shown.iter().take(MOST).map(|name| format!("'{name}'")).collect();
            Some(format!("are {}{more}", names.join(", ")))
        }
    }
}

/// All rows of a table that is small enough to hold.
pub fn all<R: Row>(profile: &Profile) -> Result<Vec<R>, ProfileError> {
    profile.rows::<R>()?.collect()
}

/// An error for an aggregated profile, which does not have `what`.
pub fn need_rows_by_rank(profile: &Profile, what: &str) -> Result<()> {
    let run = profile.run();
    if run.is_aggregate {
        bail!(
            "'{}' has sums over ranks, and {what} is not in it; a run with MPISEE_FOLD={} (mpisee --fold {}) leaves rows of each rank",
            profile.directory().display(),
            run.ranks,
            run.ranks
        );
    }
    Ok(())
}

/// The communicators and the processes of a run.
pub struct Processes {
    /// `ranks.csv`; nothing where rows are sums over ranks.
    pub ranks: Vec<RankRow>,
    /// The ranks in it.
    pub present: HashSet<u32>,
    /// `nodes.csv`, where rows are sums over ranks.
    pub nodes: Vec<NodeRow>,
    /// `comms.csv`, by name.
    pub comms: HashMap<String, CommRow>,
}

impl Processes {
    /// Reads `ranks.csv`, or `nodes.csv`, and `comms.csv`.
    pub fn load(profile: &Profile) -> Result<Self> {
        let (ranks, nodes) = processes(profile)?;
        let present = ranks.iter().map(|row: &RankRow| row.rank).collect();
        let comms = all::<CommRow>(profile)?.into_iter().map(|row| (row.comm.clone(), row)).collect();
        Ok(Processes { ranks, present, nodes, comms })
    }

    /// How many processes there are.
    pub fn count(&self) -> u64 {
        self.ranks.len() as u64 + self.nodes.iter().map(|row| row.ranks).fold(0, u64::saturating_add)
    }

    /// How many processes the filter takes.
    pub fn chosen(&self, filter: &CommFilter) -> u64 {
        match self.nodes.is_empty() {
            true => self.ranks.iter().filter(|row| filter.takes_rank(row.rank)).count() as u64,
            false => self.count(),
        }
    }

    /// The wall time of the longest rank.
    pub fn wall_max_s(&self) -> f64 {
        let nodes = self.nodes.iter().map(|row| row.wall_max_s.0);
        self.ranks.iter().map(|row| row.wall_s.0).chain(nodes).fold(0.0, f64::max)
    }

    /// The wall times of all ranks.
    pub fn wall_s(&self) -> f64 {
        self.ranks.iter().map(|row| row.wall_s.0).chain(self.nodes.iter().map(|row| row.wall_s.0)).sum()
    }

    /// The time of all ranks in MPI.
    pub fn mpi_s(&self) -> f64 {
        self.ranks.iter().map(|row| row.mpi_s.0).chain(self.nodes.iter().map(|row| row.mpi_s.0)).sum()
    }

    /// How many ranks the fullest node has.
    pub fn ranks_per_node(&self) -> u64 {
        let mut on_node: HashMap<&str, u64> = HashMap::new();
        let ranks = self.ranks.iter().map(|row| (row.host.as_str(), 1));
        for (host, ranks) in ranks.chain(self.nodes.iter().map(|row| (row.host.as_str(), row.ranks))) {
            *on_node.entry(host).or_default() += ranks;
        }
        on_node.into_values().max().unwrap_or(0)
    }

    /// The number of members with a row in `ranks.csv`; in an aggregated profile, of all members.
    pub fn present_count(&self, members: &Members) -> u64 {
        if self.nodes.is_empty() { self.present_members(members).len() as u64 } else { members.len() }
    }

    /// As [`Processes::present_count`], of members that the filter takes.
    pub fn chosen_count(&self, members: &Members, filter: &CommFilter) -> u64 {
        match self.nodes.is_empty() {
            true => self.present_members(members).into_iter().filter(|&rank| filter.takes_rank(rank)).count()
                as u64,
            false => members.len(),
        }
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

/// `ranks.csv` or, where rows are sums over ranks, `nodes.csv`.
pub fn processes(profile: &Profile) -> Result<(Vec<RankRow>, Vec<NodeRow>), ProfileError> {
    Ok(match profile.run().is_aggregate {
        true => (Vec::new(), all(profile)?),
        false => (all(profile)?, Vec::new()),
    })
}

pub use mpisee_profile::rows::is_one_per_process;

/// The members for reading: blanks where a line may break, and what the row of `S` stands for. `+2` are two
/// processes of other worlds.
pub fn members_text(row: &CommRow) -> String {
    let text = row.members.to_string().replace(',', ", ").replace('|', " | ").replace('+', " +");
    let text = text.trim_start().replace("|  +", "| +");
    if is_one_per_process(&row.comm) { format!("each of {text}") } else { text }
}
