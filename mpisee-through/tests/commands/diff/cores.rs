//! Sentences of `diff` on runs that had their cores for unlike parts of the time.

use super::diff;
use crate::support::{Builder, Ran, runs, solver};
use mpisee_profile::rows::Seconds;

/// A run whose ranks were without a core for this part of the time.
fn without_core(mut builder: Builder, share: f64) -> Builder {
    for row in &mut builder.ranks {
        let on_core_s = (1.0 - share) * row.wall_s.0;
        (row.cpu_user_s, row.cpu_system_s) = (Some(Seconds(on_core_s)), Some(Seconds(0.0)));
        row.cpu_wait_s = Some(Seconds(share * row.wall_s.0));
    }
    builder
}

const SAID: &str = "This difference changes all times, inside of MPI and outside.";

#[test]
fn runs_without_a_core_for_unlike_times_are_told_apart() {
    let with = |share: f64| without_core(solver(), share);
    for options in [&[][..], &["--by", "site"]] {
        let said = |after: f64| {
            let ran = diff(&with(0.013), &with(after), options);
            ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let sentence =
            "Ranks waited for a CPU core 1.3 % of the time in A, 27.0 % in B (mpisee-through ranks).";
        let much = said(0.27);
        assert!(much.contains(&format!("{sentence} {SAID}")), "{much}");
        assert!(!said(0.053).contains(SAID), "one run may lack cores as much by chance");
    }
    // What was not measured is not compared.
    let unknown = diff(&solver(), &with(0.27), &[]);
    assert!(!unknown.exits(0).stdout.contains(SAID), "{}", unknown.stdout);
}

#[test]
fn sets_differ_in_cores_by_more_than_their_runs_vary() {
    let set = |shares: [f64; 4]| shares.map(|share| without_core(runs::run(4, [3.0, 0.5, 1.0]), share));
    let compared = |before: [f64; 4], after: [f64; 4]| {
        let home = set(before)[0].write();
        runs::add(&home, "before", &set(before));
        runs::add(&home, "after", &set(after));
        Ran::beside(home.beside(), &["diff", "before", "after"]).exits(0).stdout.clone()
    };
    let alike = compared([0.02, 0.11, 0.05, 0.08], [0.09, 0.04, 0.12, 0.03]);
    assert!(!alike.contains("waited for a CPU core"), "{alike}");
    let unlike = compared([0.011, 0.012, 0.013, 0.012], [0.031, 0.033, 0.032, 0.035]);
    assert!(unlike.contains("Ranks waited for a CPU core 1.2 % of the time in A, 3.3 % in B"), "{unlike}");
}
