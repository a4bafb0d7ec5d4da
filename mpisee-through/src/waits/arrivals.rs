//! Reads `arrivals.csv`, and joins the rows of each instance over the members of its communicator.

use crate::group::Names;
use crate::scan::{self, Arrival, BadField, Fold};
use hashbrown::HashMap;
use mpisee_profile::rows::{ArrivalRow, Row};
use mpisee_profile::{Profile, ProfileError};
use std::collections::BTreeMap;

/// A call of one member: nanoseconds on the clock of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub instance: u64,
    pub arrival_ns: u64,
    pub departure_ns: u64,
    pub rank: u32,
    /// The root's rank, or [`NO_ROOT`].
    pub root: u32,
}

/// No process has this rank.
pub const NO_ROOT: u32 = u32::MAX;

/// Calls of an operation on a communicator.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub points: Vec<Point>,
    /// By point, when its operation was started; empty of a blocking operation.
    pub starts_ns: Vec<u64>,
    /// By point, how many collective operations the call completed; empty of a blocking operation.
    pub completed: Vec<u32>,
}

/// The calls by communicator and operation, in the pieces in which they were read.
pub type Points = BTreeMap<(String, String), Vec<Rows>>;

/// The rows of one thread.
#[derive(Default)]
struct Collector {
    comms: Names,
    calls: Names,
    indices: HashMap<(u32, u32), usize>,
    /// PERF: neighbouring rows mostly are of the same operation.
    last: Option<((u32, u32), usize)>,
    rows: Vec<((u32, u32), Rows)>,
}

impl Collector {
    fn rows_of(&mut self, key: (u32, u32)) -> &mut Rows {
        let index = match self.last {
            Some((last, index)) if last == key => index,
            _ => {
                let rows = &mut self.rows;
                *self.indices.entry(key).or_insert_with(|| {
                    rows.push((key, Rows::default()));
                    rows.len() - 1
                })
            }
        };
        self.last = Some((key, index));
        &mut self.rows[index].1
    }
}

impl Fold<Arrival<'static>> for Collector {
    fn row(&mut self, row: &Arrival<'_>) -> Result<(), BadField> {
        let comm = self.comms.number(row.comm, "comm", |_| true)?;
        let call = self.calls.number(row.call, "call", |_| true)?;
        let (Some(comm), Some(call)) = (comm, call) else { return Ok(()) };
        if row.departure_ns < row.arrival_ns {
            return Err(BadField { column: "departure_s", why: "is before arrival_s".to_owned() });
        }
        if row.started_ns.is_some_and(|started_ns| started_ns > row.arrival_ns) {
            return Err(BadField { column: "started_s", why: "is after arrival_s".to_owned() });
        }
        let Arrival { instance, rank, root, arrival_ns, departure_ns, started_ns, completed, .. } = *row;
        let rows = self.rows_of((comm, call));
        let is_same = rows.points.is_empty() || rows.starts_ns.is_empty() == started_ns.is_none();
        if !is_same {
            let why = "is there in some rows of the operation and not in others".to_owned();
            return Err(BadField { column: "started_s", why });
        }
        let root = root.unwrap_or(NO_ROOT);
        rows.points.push(Point { instance, rank, root, arrival_ns, departure_ns });
        rows.starts_ns.extend(started_ns);
        // An older recorder does not say how many they were.
        rows.completed.extend(started_ns.map(|_| completed.unwrap_or(1)));
        Ok(())
    }
}

/// Reads the table, and says why reading ended early if it did.
pub fn read(profile: &Profile) -> Result<(Points, Option<ProfileError>), ProfileError> {
    let scanned = scan::scan::<Arrival, Collector>(profile, Collector::default)?;
    let mut all = Points::new();
    for Collector { comms, calls, rows, .. } in scanned.folds {
        for ((comm, call), rows) in rows {
            let key = (comms.names[comm as usize].clone(), calls.names[call as usize].clone());
            all.entry(key).or_default().push(rows);
        }
    }
    Ok((all, scanned.cut_off))
}

/// The same; nothing where the profile lacks the table, since it has messages alone.
pub fn read_if_any(profile: &Profile) -> Result<(Points, Option<ProfileError>), ProfileError> {
    match profile.directory().join(ArrivalRow::FILE).exists() {
        true => read(profile),
        false => Ok(Default::default()),
    }
}

/// The instances that all members have; times are by instance and member.
#[derive(Clone, Debug, Default)]
pub struct Joined {
    /// The numbers of the instances, ascending.
    pub instances: Vec<u64>,
    pub roots: Vec<Option<u32>>,
    pub arrivals_ns: Vec<u64>,
    pub departures_ns: Vec<u64>,
    /// Empty of a blocking operation.
    pub starts_ns: Vec<u64>,
    /// How many collective operations each call completed; empty of a blocking operation.
    pub completed: Vec<u32>,
    /// The number of instances that some member lacks.
    pub partial: u64,
}

impl Joined {
    /// From when on others need not wait for each member, by instance and member.
    pub fn starts(&self) -> &[u64] {
        if self.starts_ns.is_empty() { &self.arrivals_ns } else { &self.starts_ns }
    }
}

/// Numbers of instances in the order in which they come up, with how many rows each has.
#[derive(Default)]
struct Numbers {
    rows: Vec<(u64, usize)>,
    indices: HashMap<u64, usize>,
    /// PERF: ranks mostly have the same instances in the same order.
    next: usize,
}

impl Numbers {
    fn index(&mut self, instance: u64) -> usize {
        let index = match self.rows.get(self.next) {
            Some((number, _)) if *number == instance => self.next,
            _ => *self.indices.entry(instance).or_insert_with(|| {
                self.rows.push((instance, 0));
                self.rows.len() - 1
            }),
        };
        self.next = index + 1;
        index
    }
}

/// A moment that no row has.
const UNSET: u64 = u64::MAX;

/// Joins the rows of an operation over its members, which are in ascending order.
pub fn join(pieces: &[Rows], members: &[u32]) -> Joined {
    let mut numbers = Numbers::default();
    for point in pieces.iter().flat_map(|rows| &rows.points) {
        let index = numbers.index(point.instance);
        numbers.rows[index].1 += 1;
    }
    // Only instances with as many rows as members get room, which bounds the memory by the number
    // of rows.
    let counted = numbers.rows.iter().enumerate().filter(|(_, (_, rows))| *rows == members.len());
    let mut whole: Vec<(u64, usize)> = counted.map(|(index, (number, _))| (*number, index)).collect();
    whole.sort_unstable();
    let mut slots = vec![usize::MAX; numbers.rows.len()];
    whole.iter().enumerate().for_each(|(slot, (_, index))| slots[*index] = slot);
    let has_starts = pieces.iter().any(|rows| !rows.starts_ns.is_empty());
    let room = || vec![UNSET; whole.len() * members.len()];
    let mut filled = Joined {
        instances: whole.iter().map(|(number, _)| *number).collect(),
        roots: vec![None; whole.len()],
        arrivals_ns: room(),
        departures_ns: room(),
        starts_ns: if has_starts { room() } else { Vec::new() },
        completed: if has_starts { vec![1; whole.len() * members.len()] } else { Vec::new() },
        partial: (numbers.rows.len() - whole.len()) as u64,
    };
    let mut is_whole = vec![true; whole.len()];
    let mut last = (NO_ROOT, None);
    for rows in pieces {
        for (at, point) in rows.points.iter().enumerate() {
            let slot = slots[numbers.index(point.instance)];
            if slot == usize::MAX {
                continue;
            }
            if last.0 != point.rank {
                last = (point.rank, members.binary_search(&point.rank).ok());
            }
            let root = *filled.roots[slot].get_or_insert(point.root);
            let Some(position) = last.1.filter(|_| root == point.root) else {
                is_whole[slot] = false;
                continue;
            };
            let cell = slot * members.len() + position;
            filled.arrivals_ns[cell] = point.arrival_ns;
            filled.departures_ns[cell] = point.departure_ns;
            if has_starts {
                filled.starts_ns[cell] = rows.starts_ns.get(at).copied().unwrap_or(UNSET);
                filled.completed[cell] = rows.completed.get(at).copied().unwrap_or(1);
            }
        }
    }
    filled.finished(&is_whole, members.len())
}

impl Joined {
    /// Drops instances with two rows of a member, and those that are not whole otherwise.
    fn finished(mut self, is_whole: &[bool], members: usize) -> Self {
        let has_all = |slot: usize| {
            let cells = slot * members..(slot + 1) * members;
            is_whole[slot]
                && !self.arrivals_ns[cells.clone()].contains(&UNSET)
                && (self.starts_ns.is_empty() || !self.starts_ns[cells].contains(&UNSET))
        };
        let kept: Vec<bool> = (0..is_whole.len()).map(has_all).collect();
        self.partial += kept.iter().filter(|kept| !**kept).count() as u64;
        let mut at = 0..;
        self.instances.retain(|_| at.next().is_none_or(|slot| kept[slot]));
        let mut at = 0..;
        self.roots.retain(|_| at.next().is_none_or(|slot| kept[slot]));
        for root in &mut self.roots {
            *root = root.filter(|&root| root != NO_ROOT);
        }
        if kept.iter().all(|kept| *kept) {
            return self;
        }
        for times in [&mut self.arrivals_ns, &mut self.departures_ns, &mut self.starts_ns] {
            retain(times, &kept, members);
        }
        retain(&mut self.completed, &kept, members);
        self
    }
}

/// Drops the values, by instance and member, of instances that are not kept.
fn retain<T>(values: &mut Vec<T>, kept: &[bool], members: usize) {
    let mut at = 0..;
    values.retain(|_| at.next().is_none_or(|cell: usize| kept[cell / members]));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(points: &[(u64, u32)]) -> Rows {
        let point = |&(instance, rank): &(u64, u32)| Point {
            instance,
            rank,
            root: NO_ROOT,
            arrival_ns: 10 * instance + u64::from(rank),
            departure_ns: 10 * instance + 9,
        };
        Rows { points: points.iter().map(point).collect(), ..Rows::default() }
    }

    #[test]
    fn instances_that_a_member_lacks_are_counted_and_left_out() {
        let pieces = [rows(&[(4, 3), (0, 1), (2, 1)]), rows(&[(0, 3), (4, 1), (7, 3)])];
        let joined = join(&pieces, &[1, 3]);
        assert_eq!((&joined.instances[..], joined.partial), (&[0, 4][..], 2));
        assert_eq!(joined.arrivals_ns, [1, 3, 41, 43]);
        assert_eq!(joined.departures_ns, [9, 9, 49, 49]);
        assert_eq!(joined.roots, [None, None]);
    }

    #[test]
    fn instances_with_a_member_twice_or_another_one_are_left_out() {
        let joined = join(&[rows(&[(0, 1), (0, 1), (1, 1), (1, 5), (2, 1), (2, 3)])], &[1, 3]);
        assert_eq!((&joined.instances[..], joined.partial), (&[2][..], 2));
        assert_eq!(joined.arrivals_ns, [21, 23]);
        let mut rows = rows(&[(0, 1), (0, 3), (1, 3), (1, 1)]);
        (rows.points[0].root, rows.points[2].root, rows.points[3].root) = (1, 3, 3);
        let joined = join(&[rows], &[1, 3]);
        assert_eq!((&joined.roots[..], joined.partial), (&[Some(3)][..], 1), "of two roots");
    }

    #[test]
    fn starts_lie_beside_arrivals() {
        let rows =
            Rows { starts_ns: vec![5, 6, 7], completed: vec![1, 2, 3], ..rows(&[(1, 3), (2, 3), (1, 1)]) };
        let joined = join(&[rows], &[1, 3]);
        assert_eq!((&joined.starts_ns[..], joined.partial), (&[7, 5][..], 1));
        assert_eq!(joined.starts(), [7, 5]);
        assert_eq!(joined.completed, [3, 1]);
    }
}
