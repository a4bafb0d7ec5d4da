//! Lists of a group's members by world rank, at a cost that grows with the number of processes and
//! not with its square.
//!
//! `MPI_Group_translate_ranks` of Open MPI compares each rank to translate with the members of the
//! target group, one after the other: to translate p members to a world of p processes takes p²/2
//! comparisons. But members mostly go on as they began. So the next ones are predicted, as an
//! arithmetic sequence, and translated to a small group of the predicted processes alone. Whoever
//! is found there is known, also out of order. Only where a prediction fails, one member is looked
//! up in the whole world. That is O(p) for lists that are contiguous, strided or dense with gaps,
//! and O(p) for each run of other lists, of which there may be a limited number.

use crate::generated::pmpi;
use crate::mpi::abi::{Group, Raw, constant};
use crate::mpi::query;
use mpisee_profile::WorldRank;
use mpisee_profile::segment::log::Runs;
use std::ffi::c_int;
use std::mem::MaybeUninit;

/// Members predicted at a time at most: translating this many takes half their square of
/// comparisons.
const MOST_PREDICTED: usize = 64;
/// Members predicted where the last prediction failed.
const LEAST_PREDICTED: usize = 4;
/// Members looked up in the whole world for each run that a list may have. One shows a jump, a
/// second the new stride.
const LOOKED_UP_PER_RUN: usize = 2;

/// The members of a group.
#[derive(Debug, PartialEq, Eq)]
pub enum Listed {
    /// World ranks in the order of the group; [`WorldRank::OUTSIDE`] for processes of other worlds.
    Runs(Runs),
    /// A list that takes more runs than wanted, or that MPI does not translate.
    Elided {
        /// The number of members.
        size: u32,
        /// World rank of the first member, or [`WorldRank::OUTSIDE`].
        first: WorldRank,
    },
}

/// Lists the `size` members of `group` by their rank in `world`, unless that takes more than
/// `most_runs` runs.
pub fn list(group: Group, size: u32, world: Group, world_size: u32, most_runs: usize) -> Listed {
    let mut translation = Mpi { group, world };
    if cfg!(mpi_family = "openmpi") && world_size as usize > MOST_PREDICTED {
        predicting(&mut translation, size, world_size, most_runs)
    } else {
        // MPICH and its descendants find each rank at once, but take O(p) to make a group, however
        // small.
        at_once(&mut translation, size, most_runs)
    }
}

/// Translation of a group's ranks by MPI.
trait Translation {
    /// The world ranks of the members from `first` on; negative for a process of another world.
    /// False if it failed.
    fn to_world(&mut self, first: u32, ranks: &mut [c_int]) -> bool;

    /// For each member from `first` on, the index of its world rank in `few`; negative if it is not
    /// there.
    fn to_few(&mut self, few: &[c_int], first: u32, places: &mut [c_int]) -> bool;
}

/// A list in the making.
struct Listing {
    runs: Runs,
    size: u32,
    /// The members so far.
    at: u32,
    first: WorldRank,
    last: WorldRank,
    /// From the member before the last one to that; 0 where one has no rank.
    distance: i64,
    /// True if the distance before was the same.
    is_steady: bool,
    most_runs: usize,
}

impl Listing {
    fn new(size: u32, most_runs: usize) -> Self {
        let (first, last) = (WorldRank::OUTSIDE, WorldRank::OUTSIDE);
        Listing { runs: Runs::default(), size, at: 0, first, last, distance: 0, is_steady: false, most_runs }
    }

    /// Appends one member; negative is a process of another world.
    fn push(&mut self, rank: c_int) {
        let rank = WorldRank::translated(rank);
        let have_ranks = self.last != WorldRank::OUTSIDE && rank != WorldRank::OUTSIDE;
        let distance = if have_ranks { i64::from(rank.get()) - i64::from(self.last.get()) } else { 0 };
        (self.is_steady, self.distance) = (distance == self.distance && distance != 0, distance);
        if self.at == 0 {
            self.first = rank;
        }
        self.last = rank;
        self.runs.push(rank);
        self.at += 1;
    }

    fn remaining(&self) -> usize {
        (self.size - self.at) as usize
    }

    fn has_too_many_runs(&self) -> bool {
        self.runs.run_count() > self.most_runs
    }

    fn elided(self) -> Listed {
        Listed::Elided { size: self.size, first: self.first }
    }

    fn end(self) -> Listed {
        if self.has_too_many_runs() { self.elided() } else { Listed::Runs(self.runs) }
    }
}

/// Looks up every member in the world.
fn at_once(translation: &mut impl Translation, size: u32, most_runs: usize) -> Listed {
    const BLOCK: usize = 1024;
    let mut listing = Listing::new(size, most_runs);
    let mut ranks = [0; BLOCK];
    while listing.remaining() > 0 && !listing.has_too_many_runs() {
        let block = &mut ranks[..listing.remaining().min(BLOCK)];
        if !translation.to_world(listing.at, block) {
            return listing.elided();
        }
        block.iter().for_each(|&rank| listing.push(rank));
    }
    listing.end()
}

/// Predicts members and verifies the predictions.
fn predicting(translation: &mut impl Translation, size: u32, world_size: u32, most_runs: usize) -> Listed {
    let mut listing = Listing::new(size, most_runs);
    let (mut stride, mut predicted) = (1, LEAST_PREDICTED);
    // Members looked up since the last prediction that held, and in all.
    let (mut in_a_row, mut looked_up) = (0, 0);
    while listing.remaining() > 0 && !listing.has_too_many_runs() {
        let Some(found) = follow(translation, &mut listing, stride, predicted, world_size) else {
            return listing.elided();
        };
        if 2 * found >= predicted {
            (in_a_row, predicted) = (0, (2 * predicted).min(MOST_PREDICTED));
            continue;
        }
        predicted = LEAST_PREDICTED;
        if found > 0 {
            in_a_row = 0;
        } else {
            let mut rank = [constant::UNDEFINED];
            let may_look_up = looked_up < LOOKED_UP_PER_RUN * (most_runs + 1);
            if !may_look_up || !translation.to_world(listing.at, &mut rank) {
                return listing.elided();
            }
            listing.push(rank[0]);
            (in_a_row, looked_up) = (in_a_row + 1, looked_up + 1);
        }
        // After a jump the members most often go on at the distance before.
        if (in_a_row > 1 && listing.distance != 0) || listing.is_steady {
            stride = listing.distance;
        }
    }
    listing.end()
}

/// Appends the next members while they are among the `most` ranks that follow the last one at
/// `stride`; returns their number. `None` if MPI fails.
fn follow(
    translation: &mut impl Translation,
    listing: &mut Listing,
    stride: i64,
    most: usize,
    world_size: u32,
) -> Option<usize> {
    if listing.last == WorldRank::OUTSIDE {
        return Some(0);
    }
    let last = i64::from(listing.last.get());
    let next =
        (1..).map(|step| last + stride * step).take_while(|rank| (0..i64::from(world_size)).contains(rank));
    let mut predicted = [0; MOST_PREDICTED];
    let count = predicted[..most.min(listing.remaining())]
        .iter_mut()
        .zip(next)
        .map(|(place, rank)| *place = rank as c_int)
        .count();
    let predicted = &predicted[..count];
    let mut places = [0; MOST_PREDICTED];
    let places = &mut places[..count];
    if count > 0 && !translation.to_few(predicted, listing.at, places) {
        return None;
    }
    let found = places.iter().map_while(|&place| predicted.get(usize::try_from(place).ok()?));
    Some(found.map(|&rank| listing.push(rank)).count())
}

struct Mpi {
    group: Group,
    world: Group,
}

impl Mpi {
    fn translate(&self, first: u32, target: Group, places: &mut [c_int]) -> bool {
        const BLOCK: usize = 1024;
        let mut from = [0; BLOCK];
        (first..).step_by(BLOCK).zip(places.chunks_mut(BLOCK)).all(|(first, places)| {
            let from = &mut from[..places.len()];
            from.iter_mut().zip(first..).for_each(|(place, rank)| *place = rank as c_int);
            let (count, ranks, to) = (places.len() as c_int, from.as_ptr(), places.as_mut_ptr());
            // SAFETY: both groups are valid; `count` ranks of the group are read, as many written.
            let code = unsafe {
                let translate = pmpi::MPI_Group_translate_ranks.get();
                translate(Raw::new(self.group), count, ranks, Raw::new(target), to)
            };
            code == constant::SUCCESS
        })
    }
}

impl Translation for Mpi {
    fn to_world(&mut self, first: u32, ranks: &mut [c_int]) -> bool {
        self.translate(first, self.world, ranks)
    }

    fn to_few(&mut self, few: &[c_int], first: u32, places: &mut [c_int]) -> bool {
        let mut group = MaybeUninit::<Group>::uninit();
        // SAFETY: the world's group is valid, `few` are different ranks of it; the call writes the
        // handle if it succeeds.
        let code = unsafe {
            let include = pmpi::MPI_Group_incl.get();
            include(Raw::new(self.world), few.len() as c_int, few.as_ptr(), group.as_mut_ptr())
        };
        if code != constant::SUCCESS {
            return false;
        }
        // SAFETY: written by the call that succeeded.
        let group = unsafe { group.assume_init() };
        let translated = self.translate(first, group, places);
        query::free_group(group);
        translated
    }
}

#[cfg(test)]
mod tests;
