//! The segments of one world: of the processes of one `MPI_COMM_WORLD`.

use super::Segment;
use mpisee_profile::{RankSet, WorldRank};
use std::collections::BTreeMap;

/// The segments of one world, by rank.
#[derive(Debug, Default)]
pub struct WorldSegments {
    by_rank: BTreeMap<WorldRank, Segment>,
}

/// Groups segments into worlds, in the order in which these began. If two segments have the same
/// job and rank, the later one begins another world, since launchers reuse the numbers of jobs.
pub fn worlds(mut segments: Vec<Segment>) -> Vec<WorldSegments> {
    segments.sort_by_key(|segment| {
        let header = &segment.header;
        (header.job, header.world_size, header.start_realtime_ns, header.world_rank)
    });
    let mut worlds: Vec<WorldSegments> = Vec::new();
    let mut last = None;
    for segment in segments {
        let header = &segment.header;
        let of = Some((header.job, header.world_size));
        let rank = header.world_rank;
        match worlds.last_mut() {
            Some(world) if of == last && !world.by_rank.contains_key(&rank) => {
                world.by_rank.insert(rank, segment);
            }
            _ => worlds.push(WorldSegments { by_rank: BTreeMap::from([(rank, segment)]) }),
        }
        last = of;
    }
    worlds.sort_by_key(|world| world.segments().map(|segment| segment.header.start_realtime_ns).min());
    worlds
}

impl WorldSegments {
    /// Of segments that are known to be of one world, one per rank.
    pub fn from_segments(segments: impl IntoIterator<Item = Segment>) -> WorldSegments {
        WorldSegments {
            by_rank: segments.into_iter().map(|segment| (segment.header.world_rank, segment)).collect(),
        }
    }

    /// All segments, by rank.
    pub fn segments(&self) -> impl DoubleEndedIterator<Item = &Segment> {
        self.by_rank.values()
    }

    /// The segments of processes that ended, by rank.
    pub fn ended(&self) -> impl Iterator<Item = &Segment> {
        self.segments().filter(|segment| !segment.is_running)
    }

    /// The segments of processes that run, by rank.
    pub fn running(&self) -> impl Iterator<Item = &Segment> {
        self.segments().filter(|segment| segment.is_running)
    }

    /// The size of `MPI_COMM_WORLD`.
    pub fn size(&self) -> u32 {
        self.segments().next().map_or(0, |segment| segment.header.world_size)
    }

    /// Each rank and its node, as runs of one.
    pub fn nodes(&self) -> impl Iterator<Item = (WorldRank, u32, &str)> {
        self.by_rank.iter().map(|(&rank, segment)| (rank, 1, segment.header.host.as_str()))
    }
}

/// The ranks below `size` that are not among `present`, ascending; found without walking them all,
/// since the size may be a wrong one.
pub fn missing(size: u32, present: impl IntoIterator<Item = WorldRank>) -> RankSet {
    let mut gaps = Vec::new();
    let mut expected = 0;
    for rank in present.into_iter().map(WorldRank::get).chain([size]) {
        gaps.push(RankSet::evenly_spaced(expected, rank.saturating_sub(expected), 1));
        expected = rank.saturating_add(1);
    }
    RankSet::disjoint(gaps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing_of<const COUNT: usize>(size: u32, present: [u32; COUNT]) -> String {
        missing(size, present.map(WorldRank::new)).to_string()
    }

    #[test]
    fn gaps_are_found() {
        assert_eq!(missing_of(8, [1, 2, 5]), "0,3-4,6-7");
        assert_eq!(missing_of(3, [0, 1, 2]), "");
        assert_eq!(missing_of(u32::MAX, [0]), "1-4294967294");
    }
}
