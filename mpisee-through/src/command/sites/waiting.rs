//! The part of a place's time that is waiting, where that follows from what `waits` measures.
//!
//! Waiting is measured of an operation on a communicator, whichever place calls it. Only where one
//! place makes all of these calls is it the place's.

use crate::filter::CallFilter;
use crate::sites::{PlaceSum, PlaceSums};
use crate::view::ProfileView;
use crate::waits;
use anyhow::Result;
use std::collections::{BTreeMap, HashMap};

/// The waiting of operations.
#[derive(Default)]
pub struct Waits {
    /// Seconds by communicator and operation, over all ranks.
    measured_s: HashMap<(String, String), f64>,
    /// All calls.
    calls: BTreeMap<(String, String), u64>,
}

/// The waiting of operations that are chosen as a whole; nothing of a profile without samples.
pub fn sum(view: &ProfileView, filter: &CallFilter, found: &PlaceSums) -> Result<Waits> {
    let is_part = filter.names_parts_of_operations() || filter.comms.names_ranks();
    if is_part || found.cut_off.is_some() || !waits::has_samples(view.profile()) {
        return Ok(Waits::default());
    }
    let report = waits::measure(view, &waits::filter(&filter.comms, &[]))?;
    // Nonblocking operations wait in other calls, and messages are not by operation.
    let operations = report.operations.into_iter();
    let own = operations.filter(|of| !of.is_nonblocking && !of.is_of_messages() && of.others == 0);
    let measured = own.filter_map(|of| Some(((of.comm, of.call), of.waiting?.total)));
    Ok(Waits { measured_s: measured.collect(), calls: found.calls.clone() })
}

impl Waits {
    /// The waiting at a place in seconds, over all ranks, if it is known of all its calls.
    pub fn waiting_s(&self, sum: &PlaceSum) -> Option<f64> {
        let on_comm = |(comm, (calls, _)): (&String, &(u64, u128))| {
            let key = (comm.clone(), sum.call.clone());
            let has_all = self.calls.get(&key) == Some(calls);
            self.measured_s.get(&key).copied().filter(|_| has_all)
        };
        sum.comms.iter().map(on_comm).sum()
    }
}
