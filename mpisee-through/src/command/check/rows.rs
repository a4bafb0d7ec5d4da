//! The checks of a profile with a row of each rank.

use super::findings::{Check, Claims, Findings};
use super::nccl_times::NcclTimeCheck;
use super::order::OrderCheck;
use super::sites::SiteCheck;
use super::targets::TargetCheck;
use super::times::WITHOUT_TIMES;
use super::{copies, devices, explanation, gpu, names, ranks, times, traffic};
use crate::load;
use crate::view::ProfileView;
use anyhow::Result;
use mpisee_profile::rows::{CallRow, CommRow, NcclPeerRow, OutsideRow, PeerCounts, PeerRow, RankRow};
use mpisee_profile::run::Lacking;
use std::collections::HashSet;

const CLAIMS: Claims = Claims {
    ranks: "ranks.csv has every rank once",
    names: "names, parents and members of communicators agree",
    rows: "calls.csv and peers.csv name communicators and their members only",
    traffic: "what was sent is what was received, between each two ranks",
    time: "the MPI time of each rank is that of its calls",
    within_wall_time: "within its wall time",
};

/// The claim of a profile with call sites.
const ROWS_WITH_SITES: &str =
    "calls.csv, peers.csv and paths.csv name communicators, members and call sites that there are";

/// Reads each table once; `calls.csv` and `peers.csv` are not held.
pub fn check(view: &ProfileView, ranks: &[RankRow], findings: &mut Findings) -> Result<()> {
    let (profile, run) = (view.profile(), view.run());
    findings.claims = CLAIMS;
    if run.is_without_mpi() {
        (findings.claims.time, findings.claims.within_wall_time) = WITHOUT_TIMES;
    }
    if run.lacks(Lacking::Peers) {
        findings.claims.traffic = "who sent to whom";
        findings.unknown.push(Check::Traffic);
    }
    if run.lacks(Lacking::Ancestry) {
        findings.claims.names = "names and members of communicators agree";
    }
    let is_exact = !run.lacks(Lacking::ExactNumbers);
    if !is_exact {
        findings.claims.time = "whether the MPI time of each rank is that of its calls: numbers are rounded";
        findings.unknown.push(Check::Time);
    }
    let comms: Vec<CommRow> = load::all(profile)?;
    ranks::check(run, ranks, findings);
    let incomplete = explanation::incomplete(run);
    names::check(run, &comms, incomplete, findings);

    let mut members = names::RowCheck::new(&comms, incomplete);
    let mut sites = SiteCheck::read(profile, Some(&mut members), findings)?;
    if sites.has_any() {
        findings.claims.rows = ROWS_WITH_SITES;
    }
    let mut nccl_times = NcclTimeCheck::default();
    let mut targets = TargetCheck::default();
    let mut order = OrderCheck::read(profile)?;
    let mut times = times::TimeCheck::new(ranks, times::may_overlap(run));
    for row in profile.rows::<CallRow>()? {
        let row = row?;
        members.row("calls.csv", &row.comm, row.rank, findings);
        sites.call(&row, findings);
        times.row(&row);
        nccl_times.call(&row);
        targets.call(&row);
        order.call(&row);
    }
    sites.finish(incomplete, findings);
    nccl_times.finish(profile, &mut members, findings)?;
    if is_exact {
        times.finish(findings);
    }

    let mut traffic = traffic::TrafficCheck::default();
    for row in profile.rows::<PeerRow>()? {
        let row = row?;
        members.row("peers.csv", &row.comm, row.rank, findings);
        members.row("peers.csv", &row.comm, row.peer, findings);
        traffic.row(&row);
        targets.target(&row.comm, row.rank, row.counts());
        order.peer(&row.comm, row.rank, row.counts());
    }
    for row in profile.rows_if_any::<NcclPeerRow>()? {
        let row = row?;
        members.row("nccl-peers.csv", &row.comm, row.rank, findings);
        order.peer(&row.comm, row.rank, nccl_counts(&row));
        traffic.nccl_row(row);
    }
    traffic.finish(explanation::of_traffic(run), findings);
    // What went to another world was received there; its own profile tells.
    for row in profile.rows_if_any::<OutsideRow>()? {
        let row = row?;
        members.row("outside.csv", &row.comm, row.rank, findings);
        members.outsider("outside.csv", &row.comm, row.peer_in_comm, findings);
        targets.target(&row.comm, row.rank, row.counts());
        order.peer(&row.comm, row.rank, row.counts());
    }
    order.finish(incomplete, findings);
    if profile.has_column::<PeerRow>("puts") {
        targets.finish(explanation::of_traffic(run), findings);
    }
    let present: HashSet<u32> = ranks.iter().map(|row| row.rank).collect();
    let is_there = |rank| present.contains(&rank);
    devices::check(profile, ranks, incomplete, findings)?;
    copies::check(profile, is_there, &mut members, findings)?;
    gpu::check(profile, is_there, findings)
}

fn nccl_counts(row: &NcclPeerRow) -> PeerCounts {
    PeerCounts {
        sent_messages: row.sent_messages,
        sent_bytes: row.sent_bytes,
        received_messages: row.received_messages,
        received_bytes: row.received_bytes,
        ..PeerCounts::default()
    }
}
