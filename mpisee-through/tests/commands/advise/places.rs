//! Findings name the place in the program that has most of the calls.

use super::{ALL, run};
use crate::support::Builder;
use mpisee_profile::SiteId;

/// The same call at a place on all ranks.
fn at(builder: Builder, site: Option<SiteId>, call: &str, calls: u64, bytes: u64, time_s: f64) -> Builder {
    ALL.iter().fold(builder, |builder, &rank| {
        builder.call_with("W", rank, call, calls, bytes, time_s, |row| row.site = site)
    })
}

#[track_caller]
fn said(builder: &Builder, expected: &str, not_expected: &str) {
    let ran = builder.write().run(&["advise", "app.mpisee", "--format", "json"]);
    assert!(ran.exits(0).stdout.contains(expected), "{expected}: {}", ran.stdout);
    assert!(!ran.stdout.contains(not_expected), "{not_expected}: {}", ran.stdout);
}

#[test]
fn a_place_with_most_of_it_is_named() {
    let mut profile = run();
    let [halo, corners] = [profile.line("exchange", "halo.c", 57), profile.line("corners", "halo.c", 93)];
    let waits = |halo_s: f64, corners_s: f64| {
        let profile = run().with(|other| other.sites.clone_from(&profile.sites));
        let profile = at(profile, Some(halo), "MPI_Waitall", 10, 0, halo_s);
        at(profile, Some(corners), "MPI_Waitall", 10, 0, corners_s)
    };
    let mostly = waits(1.5, 0.5);
    said(&mostly, "100 % of the MPI time, 75 % of it in exchange at halo.c:57.", "corners");
    let both = "100 % of the MPI time, 52 % of it in exchange at halo.c:57 and 48 % in corners at halo.c:93.";
    said(&waits(1.04, 0.96), both, "most of it");
    said(
        &mostly,
        "summed over ranks. 75.0 % of the time in MPI_Waitall is in exchange at halo.c:57.",
        "corners",
    );
    said(&waits(1.5, 0.0), "All of the time in MPI_Waitall is in exchange at halo.c:57.", "corners");
    let unknown = at(waits(0.9, 0.5), None, "MPI_Waitall", 10, 0, 0.6);
    said(&unknown, "100 % of the MPI time.", "halo.c");
}

#[test]
fn calls_are_counted_where_their_number_matters() {
    let mut profile = run();
    let [test, other] = [profile.line("poll", "loop.c", 5), profile.line("step", "loop.c", 9)];
    let profile = at(profile, Some(test), "MPI_Test", 3000, 0, 0.1);
    let profile = at(profile, Some(other), "MPI_Test", 1000, 0, 0.3);
    let profile = at(profile, Some(other), "MPI_Allreduce", 2000, 16_000, 0.4);
    said(&profile, "75.0 % of the tests are made in poll at loop.c:5.", "corners");
    said(&profile, "All calls of MPI_Allreduce are made in step at loop.c:9.", "corners");
}
