//! Reports to test with.

use super::elsewhere::MpiTimes;
use super::{Estimate, Member, Report, Waiting};
use std::collections::BTreeMap;

/// Members with seconds caused and suffered.
pub fn operation(comm: &str, call: &str, members: &[(u32, f64, f64)]) -> Waiting {
    let member = |&(rank, caused_s, suffered_s): &(u32, f64, f64)| Member {
        rank,
        host: 0,
        time_s: suffered_s,
        caused: Some(Estimate::exact(caused_s)),
        suffered: Some(Estimate::exact(suffered_s)),
        directions: None,
    };
    Waiting {
        comm: comm.to_owned(),
        call: call.to_owned(),
        others: 0,
        instances: 100,
        sampled: 100,
        is_nonblocking: false,
        may_lack_progress: false,
        is_small: false,
        sends: None,
        time_s: 2.0,
        waiting: None,
        members: members.iter().map(member).collect(),
        findings: Vec::new(),
    }
}

/// A report of these, and of seconds in calls by rank, communicator and operation.
pub fn report(operations: Vec<Waiting>, times: &[(u32, &str, &str, f64)]) -> Report {
    let mut mpi = MpiTimes::default();
    let number = |names: &mut Vec<String>, name: &str| {
        let known = names.iter().position(|known| known == name);
        known.unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        }) as u32
    };
    for &(rank, comm, call, time_s) in times {
        let place = [number(&mut mpi.comms, comm), number(&mut mpi.calls, call)];
        mpi.each_s.entry(rank).or_default().push((place, time_s));
    }
    Report {
        operations,
        together: Vec::new(),
        hosts: vec!["node".to_owned()],
        uncertainty_s: vec![0.0],
        collective_s: BTreeMap::new(),
        message_s: BTreeMap::new(),
        mpi,
        without_times: BTreeMap::new(),
        messages: 0,
        left_out: BTreeMap::new(),
        partial: 0,
        cut_off: None,
    }
}
