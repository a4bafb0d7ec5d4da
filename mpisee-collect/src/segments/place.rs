//! The calls in which ranks are, or were when they ended, with the communicator.

use super::Clock;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::active_call::{ActiveCall, Call};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::call::CALLS;
use mpisee_profile::{CommId, Kind, RankSet, WorldRank};
use std::collections::BTreeMap;

/// A call in which a thread is.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// The call.
    pub call: Call,
    /// The number of its communicator in the process, and the name; `None` where it is not known.
    pub comm: Option<(CommId, String)>,
    /// Its number among the rank's calls of the operation on the communicator, from 1; of a collective the same on all members.
    /// `None` where they cannot be counted.
    pub number: Option<u64>,
    /// Seconds since the rank entered it.
    pub for_s: f64,
}

/// The places of a process's threads, that of the longest stay first. `names` are those of its communicators.
pub fn of_snapshot(snapshot: &Snapshot, names: &[String], clock: &Clock) -> Vec<Place> {
    let place = |active: &ActiveCall| Place {
        call: active.call,
        comm: active.communicator.and_then(|id| Some((id, names.get(id.index())?.clone()))),
        number: number_of(snapshot, active),
        for_s: clock.since(active.since),
    };
    let mut places: Vec<Place> = snapshot.active_calls.iter().map(place).collect();
    places.sort_by(|left, right| right.for_s.total_cmp(&left.for_s));
    places
}

/// The number of the current call: completed calls plus one; `None` if recording was off at some time.
fn number_of(snapshot: &Snapshot, active: &ActiveCall) -> Option<u64> {
    let (Call::Counted(operation), Some(communicator), false) =
        (active.call, active.communicator, snapshot.recording_was_off)
    else {
        return None;
    };
    let is_here = |meaning: Option<Meaning>| {
        matches!(meaning, Some(Meaning::Call(key))
            if key.communicator == communicator && key.operation == operation as u16)
    };
    let counts = snapshot.counters.iter().filter(|(key, _)| is_here(key.meaning()));
    Some(counts.fold(0u64, |sum, (_, values)| sum.wrapping_add(values[CALLS])).wrapping_add(1))
}

/// Whether every member of the communicator makes the call, in the same order as the others (MPI 4.1, 6.1), and does
/// so without a request.
pub fn is_collective(call: Call) -> bool {
    let Call::Counted(operation) = call else { return call == Call::Finalize };
    let name = operation.name();
    match operation.kind() {
        Kind::Collective => !operation.starts_request() && !name.ends_with("_init"),
        Kind::Communicator => [
            "MPI_Cart_create",
            "MPI_Cart_sub",
            "MPI_Comm_create",
            "MPI_Comm_disconnect",
            "MPI_Comm_dup",
            "MPI_Comm_dup_with_info",
            "MPI_Comm_free",
            "MPI_Comm_split",
            "MPI_Comm_split_type",
            "MPI_Dist_graph_create",
            "MPI_Dist_graph_create_adjacent",
            "MPI_Graph_create",
            "MPI_Intercomm_create",
            "MPI_Intercomm_merge",
        ]
        .contains(&name),
        Kind::OneSided => ["MPI_Win_create", "MPI_Win_create_dynamic", "MPI_Win_fence", "MPI_Win_free"]
            .into_iter()
            .chain(["MPI_Win_allocate", "MPI_Win_allocate_shared"])
            .any(|known| known == name),
        Kind::Io => {
            let whole = ["MPI_File_open", "MPI_File_close", "MPI_File_set_size", "MPI_File_set_view"];
            (whole.contains(&name) || name.ends_with("_all") || name.ends_with("_ordered"))
                && !operation.starts_request()
        }
        Kind::PointToPoint | Kind::Completion | Kind::Probe => false,
    }
}

/// Ranks that are in the same place.
#[derive(Clone, Debug, PartialEq)]
pub struct Collected {
    /// The ranks.
    pub ranks: RankSet,
    /// Whether their processes ended.
    pub ended: bool,
    /// Their place, with the longest stay of them; `None` for no call.
    pub place: Option<Place>,
    /// The shortest stay, in seconds.
    pub least_s: f64,
}

/// Groups ranks in the same place, those of the longest stay first; those in no call come last. A rank with several
/// threads in calls is in several places. Only collectives are distinguished by number.
pub fn collected<'p>(ranks: impl IntoIterator<Item = (WorldRank, bool, &'p [Place])>) -> Vec<Collected> {
    type Key = (bool, Option<(Call, Option<String>, Option<u64>)>);
    let mut groups: BTreeMap<Key, (Vec<WorldRank>, Option<&'p Place>, f64)> = BTreeMap::new();
    let mut add = |rank: WorldRank, ended: bool, place: Option<&'p Place>| {
        let key = place.map(|place| {
            let name = place.comm.as_ref().map(|(_, name)| name.clone());
            (place.call, name, place.number.filter(|_| is_collective(place.call)))
        });
        let (ranks, longest, least_s) =
            groups.entry((ended, key)).or_insert((Vec::new(), place, f64::INFINITY));
        ranks.push(rank);
        if let (Some(place), Some(known)) = (place, *longest) {
            *least_s = least_s.min(place.for_s);
            if place.for_s > known.for_s {
                *longest = Some(place);
            }
        }
    };
    for (rank, ended, places) in ranks {
        if places.is_empty() {
            add(rank, ended, None);
        }
        places.iter().for_each(|place| add(rank, ended, Some(place)));
    }
    let mut all: Vec<Collected> = groups
        .into_iter()
        .map(|((ended, key), (ranks, longest, least_s))| Collected {
            ranks: ranks.into_iter().collect(),
            ended,
            place: longest.cloned().zip(key).map(|(place, (_, _, number))| Place { number, ..place }),
            least_s: if least_s.is_finite() { least_s } else { 0.0 },
        })
        .collect();
    let stay = |one: &Collected| one.place.as_ref().map_or(-1.0, |place| place.for_s);
    all.sort_by(|left, right| stay(right).total_cmp(&stay(left)));
    all
}

impl Place {
    /// `MPI_Allreduce on W (call 18)`.
    pub fn name(&self) -> String {
        let mut text = self.call.name().to_owned();
        match &self.comm {
            Some((_, name)) => text += &format!(" on {name}"),
            None if self.call == Call::Abort => {}
            None => text += " on a communicator that is not known",
        }
        if let Some(number) = self.number.filter(|_| is_collective(self.call)) {
            text += &format!(" (call {number})");
        }
        text
    }
}

/// A time as people say it: `12 s`, `0.3 s`.
pub fn short_seconds(seconds: f64) -> String {
    match seconds {
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        _ if seconds < 600.0 => format!("{seconds:.0} s"),
        _ => format!("{:.0} min", seconds / 60.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_profile::Operation;

    fn place(operation: Operation, comm: &str, number: u64, for_s: f64) -> Place {
        Place {
            call: Call::Counted(operation),
            comm: Some((CommId::WORLD, comm.to_owned())),
            number: Some(number),
            for_s,
        }
    }

    #[test]
    fn ranks_in_the_same_place_are_put_together() {
        let (one, other) =
            (place(Operation::Allreduce, "W", 18, 4.0), place(Operation::Allreduce, "W", 18, 6.0));
        let behind = place(Operation::Allreduce, "W", 17, 5.0);
        let (recv, more) = (place(Operation::Recv, "W", 3, 1.0), place(Operation::Recv, "W", 9, 2.0));
        let ranks: [(u32, &[Place]); 6] =
            [(0, &[one]), (1, &[other]), (2, &[behind]), (3, &[recv]), (4, &[more]), (5, &[])];
        let found = collected(ranks.iter().map(|&(rank, places)| (WorldRank::new(rank), rank == 5, places)));
        let texts: Vec<_> = found
            .iter()
            .map(|one| {
                (one.ranks.to_string(), one.ended, one.place.as_ref().map_or("none".to_owned(), Place::name))
            })
            .collect();
        let expected = [
            ("0-1", false, "MPI_Allreduce on W (call 18)"),
            ("2", false, "MPI_Allreduce on W (call 17)"),
            ("3-4", false, "MPI_Recv on W"),
            ("5", true, "none"),
        ];
        assert_eq!(texts, expected.map(|(ranks, ended, place)| (ranks.to_owned(), ended, place.to_owned())));
        assert_eq!((found[0].least_s, found[0].place.as_ref().unwrap().for_s), (4.0, 6.0));
    }

    #[test]
    fn collectives_are_told_from_others() {
        for (operation, is) in [
            (Operation::Allreduce, true),
            (Operation::Iallreduce, false),
            (Operation::CommSplit, true),
            (Operation::CommCreateGroup, false),
            (Operation::WinFence, true),
            (Operation::WinLockAll, false),
            (Operation::Recv, false),
            (Operation::Waitall, false),
        ] {
            assert_eq!(is_collective(Call::Counted(operation)), is, "{}", operation.name());
        }
        assert!(is_collective(Call::Finalize) && !is_collective(Call::Abort));
    }
}
