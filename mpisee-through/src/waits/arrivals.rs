//! Reads `arrivals.csv`, and joins the rows of each instance over the members of its communicator.

use crate::group::Names;
use crate::scan::{self, Arrival, BadField, Fold};
use mpisee_profile::{Profile, ProfileError};
use std::collections::{BTreeMap, HashMap};

/// A call of one member: nanoseconds on the clock of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub instance: u64,
    pub rank: u32,
    pub root: Option<u32>,
    pub arrival_ns: u64,
    pub departure_ns: u64,
}

/// The calls by communicator and operation.
pub type Points = BTreeMap<(String, String), Vec<Point>>;

/// The rows of one thread.
#[derive(Default)]
struct Collector {
    comms: Names,
    calls: Names,
    indices: HashMap<(u32, u32), usize>,
    points: Vec<((u32, u32), Vec<Point>)>,
}

impl Fold<Arrival<'static>> for Collector {
    fn row(&mut self, row: &Arrival<'_>) -> Result<(), BadField> {
        let comm = self.comms.number(row.comm, "comm", |_| true)?;
        let call = self.calls.number(row.call, "call", |_| true)?;
        let (Some(comm), Some(call)) = (comm, call) else { return Ok(()) };
        if row.departure_ns < row.arrival_ns {
            return Err(BadField { column: "departure_s", why: "is before arrival_s".to_owned() });
        }
        let Arrival { instance, rank, root, arrival_ns, departure_ns, .. } = *row;
        let points = &mut self.points;
        let index = *self.indices.entry((comm, call)).or_insert_with(|| {
            points.push(((comm, call), Vec::new()));
            points.len() - 1
        });
        self.points[index].1.push(Point { instance, rank, root, arrival_ns, departure_ns });
        Ok(())
    }
}

/// Reads the table, and says why reading ended early if it did.
pub fn read(profile: &Profile) -> Result<(Points, Option<ProfileError>), ProfileError> {
    let scanned = scan::scan::<Arrival, Collector>(profile, Collector::default)?;
    let mut all = Points::new();
    for Collector { comms, calls, points, .. } in scanned.folds {
        for ((comm, call), points) in points {
            let key = (comms.names[comm as usize].clone(), calls.names[call as usize].clone());
            let known = all.entry(key).or_default();
            match known.is_empty() {
                true => *known = points,
                false => known.extend(points),
            }
        }
    }
    Ok((all, scanned.cut_off))
}

/// The instances that all members have; times are by instance and member.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// The numbers of the instances, ascending.
    pub instances: Vec<u64>,
    pub roots: Vec<Option<u32>>,
    pub arrivals_ns: Vec<u64>,
    pub departures_ns: Vec<u64>,
    /// The number of instances that some member lacks.
    pub partial: u64,
}

/// Joins the rows of an operation over its members, which are in ascending order.
pub fn join(mut points: Vec<Point>, members: &[u32]) -> Joined {
    points.sort_unstable_by_key(|point| (point.instance, point.rank));
    let mut joined = Joined::default();
    for instance in points.chunk_by(|one, other| one.instance == other.instance) {
        let root = instance[0].root;
        let is_whole = instance.len() == members.len()
            && instance.iter().zip(members).all(|(point, member)| point.rank == *member)
            && instance.iter().all(|point| point.root == root);
        if !is_whole {
            joined.partial += 1;
            continue;
        }
        joined.instances.push(instance[0].instance);
        joined.roots.push(root);
        joined.arrivals_ns.extend(instance.iter().map(|point| point.arrival_ns));
        joined.departures_ns.extend(instance.iter().map(|point| point.departure_ns));
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_that_a_member_lacks_are_counted_and_left_out() {
        let point = |instance: u64, rank: u32| Point {
            instance,
            rank,
            root: None,
            arrival_ns: 10 * instance + u64::from(rank),
            departure_ns: 10 * instance + 9,
        };
        let points = vec![point(4, 3), point(0, 1), point(2, 1), point(0, 3), point(4, 1), point(7, 3)];
        let joined = join(points, &[1, 3]);
        assert_eq!((joined.instances, joined.partial), (vec![0, 4], 2));
        assert_eq!(joined.arrivals_ns, [1, 3, 41, 43]);
        assert_eq!(joined.departures_ns, [9, 9, 49, 49]);
    }
}
