//! From the sampled instances of a rank's collective calls to rows, and with them its sampled
//! messages.

use crate::form::{AsRows, Form};
use crate::messages::{self, Messages};
use crate::node_clock::NodeClock;
use crate::process::boot;
use crate::ticks::moment;
use mpisee_profile::rows::{ArrivalRow, CollectiveRow};
use mpisee_profile::segment::instances::{ARRIVALS, ARRIVALS_CARRIED, INSTANCES, Sample, Subject};
use mpisee_profile::segment::key::Meaning;
use mpisee_profile::segment::layout::call;
use mpisee_profile::segment::snapshot::{Moment, Snapshot};
use mpisee_profile::segment::{InstancesKey, SlotKey};
use mpisee_profile::{CommRank, Operation, WorldRank};
use std::collections::BTreeMap;

/// The rows of a rank.
#[derive(Debug)]
pub struct Arrivals<F: Form = AsRows> {
    /// When it entered and left.
    pub samples: F::Of<ArrivalRow>,
    /// How many instances there were.
    pub collectives: Vec<CollectiveRow>,
    /// Its part in messages.
    pub messages: Messages<F>,
}

impl<F: Form> Default for Arrivals<F> {
    fn default() -> Self {
        Arrivals { samples: F::Of::default(), collectives: Vec::new(), messages: Messages::default() }
    }
}

impl<F: Form> Arrivals<F> {
    /// The rows of a process whose recording ended at `end`; `names` are those of its
    /// communicators.
    pub(crate) fn new(snapshot: &Snapshot, names: &[String], end: Moment) -> Self {
        let mut counted: Vec<(SlotKey, InstancesKey)> = snapshot
            .counters
            .iter()
            .filter_map(|&(key, _)| match key.meaning() {
                Some(Meaning::Instances(instances)) => Some((key, instances)),
                _ => None,
            })
            .collect();
        // The requests of a persistent operation one after the other.
        counted.sort_unstable_by_key(|&(_, key)| key);
        let clock = NodeClock::new(snapshot, end);
        let mut rows = Arrivals { messages: messages::rows(snapshot, names, &clock), ..Arrivals::default() };
        let rank = Rank { snapshot, names, clock, calls: calls(snapshot) };
        for (key, instances) in counted {
            rank.add(key, instances, &mut rows);
        }
        rows
    }
}

/// The end of a process that ended without `MPI_Finalize`. Its clock can be compared with that of
/// others only where both still run: on the same system.
pub(crate) fn end_of_ended(snapshot: &Snapshot) -> Option<Moment> {
    match snapshot.end {
        Some(end) => Some(end.moment),
        None if !snapshot.ticks_are_tsc => Some(snapshot.last_known()),
        None => (snapshot.boot == boot()).then(moment),
    }
}

/// Calls and ticks of each operation on each communicator.
fn calls(snapshot: &Snapshot) -> BTreeMap<InstancesKey, (u64, u64)> {
    let mut sums: BTreeMap<InstancesKey, (u64, u64)> = BTreeMap::new();
    for (key, values) in &snapshot.counters {
        let Some(Meaning::Call(key)) = key.meaning() else { continue };
        let Some((operation, _)) = snapshot.operation_at(key.operation) else { continue };
        let key = InstancesKey { communicator: key.communicator, operation: operation as u16, request: 0 };
        let (calls, ticks) = sums.entry(key).or_default();
        *calls = calls.wrapping_add(values[call::CALLS]);
        *ticks = ticks.wrapping_add(values[call::TICKS]);
    }
    sums
}

struct Rank<'s> {
    snapshot: &'s Snapshot,
    names: &'s [String],
    clock: NodeClock,
    calls: BTreeMap<InstancesKey, (u64, u64)>,
}

impl Rank<'_> {
    /// Adds the rows of one operation on a communicator.
    fn add<F: Form>(&self, key: SlotKey, instances: InstancesKey, rows: &mut Arrivals<F>) -> Option<()> {
        let comm = self.names.get(instances.communicator.index())?;
        let operation = Operation::from_index(u64::from(instances.operation))?.name();
        let values = self.snapshot.values_of(key)?;
        let samples = self.snapshot.samples.get(&key).map_or(&[][..], Vec::as_slice);
        let (calls, ticks) = self.calls.get(&instances).copied().unwrap_or_default();
        let sum = values[ARRIVALS_CARRIED] as f64 * 2f64.powi(64) + values[ARRIVALS] as f64;
        let mean = |sum: f64| self.clock.seconds(if calls > 0 { sum / calls as f64 } else { 0.0 });
        let row = CollectiveRow {
            comm: comm.clone(),
            call: operation.to_owned(),
            rank: self.snapshot.world_rank.get(),
            instances: values[INSTANCES],
            sampled: samples.len() as u64,
            mean_arrival_s: mean(sum),
            mean_departure_s: mean(sum + ticks as f64),
        };
        match rows.collectives.last_mut().filter(|last| (&last.comm, &last.call) == (&row.comm, &row.call)) {
            Some(last) => {
                last.instances = last.instances.wrapping_add(row.instances);
                last.sampled += row.sampled;
            }
            None => rows.collectives.push(row),
        }
        let mut samples = samples.to_vec();
        samples.sort_unstable_by_key(|sample| sample.number);
        let of_request = u64::from(instances.request.saturating_sub(1)) << u32::BITS;
        let row = |sample: &Sample| {
            let Subject::Instance { root, completed } = sample.subject else { return None };
            let is_blocking = completed == 0;
            Some(ArrivalRow {
                comm: comm.clone(),
                call: operation.to_owned(),
                instance: of_request | sample.number,
                rank: self.snapshot.world_rank.get(),
                root: root.and_then(|root| self.root(instances, root)),
                arrival_s: self.clock.moment(sample.arrival),
                departure_s: self.clock.moment(sample.departure),
                started_s: (!is_blocking).then(|| self.clock.moment(sample.start)),
                completed: (!is_blocking).then_some(completed),
            })
        };
        rows.samples.extend(samples.iter().filter_map(row));
        Some(())
    }

    /// The root's rank in the world, of its rank in the communicator.
    fn root(&self, instances: InstancesKey, root: u32) -> Option<u32> {
        let group = &self.snapshot.communicators.get(instances.communicator.index())?.created.group;
        let root = group.get(CommRank::new(root))?;
        (root != WorldRank::OUTSIDE && root != WorldRank::ELIDED).then_some(root.get())
    }
}
