//! Rules about measured waiting, transfers and volumes: each finds what it is for, from its threshold on.

use super::{finds, run};
use crate::support::Builder;
use mpisee_profile::run::EndedIn;

/// The findings in words, without line breaks.
fn said(builder: &Builder) -> String {
    let ran = builder.write().run(&["advise", "app.mpisee"]);
    ran.exits(0).stdout.replace("\n              ", " ").replace("\n   ", " ")
}

#[test]
fn ranks_wait_at_the_end_for_the_last_ones() {
    let ending = |early: std::ops::Range<usize>, wall_s: f64| {
        run().with(|profile| profile.ranks[early].iter_mut().for_each(|row| row.wall_s.0 = wall_s))
    };
    // Seven ranks wait, 2 % of the run or less.
    finds(&ending(1..8, 9.77), &["finalize MPI_Finalize"]);
    finds(&ending(1..8, 9.78), &[]);
    // Two ranks come early, and most come last.
    finds(&ending(0..2, 8.0), &["finalize MPI_Finalize"]);
    finds(&ending(0..2, 8.01), &[]);
    let one = said(&ending(1..8, 9.0));
    assert!(one.contains("At the end the others wait in MPI_Finalize for rank 0."), "{one}");
    assert!(one.contains("it caused 100 % of the wait. The longest rank takes 10.0 s"), "{one}");
    let two = said(&ending(2..8, 9.0));
    assert!(two.contains("for ranks 0-1.") && two.contains("they caused 100 % of the wait."), "{two}");
    assert!(said(&ending(0..2, 8.0)).contains("Ranks come to MPI_Finalize at unequal times."));
    // A part of the run has no end of its own, and a run that was killed has none.
    let profile = ending(1..8, 9.0).write();
    let part = profile.run(&["advise", "app.mpisee", "--ranks", "0-3"]);
    assert!(!part.exits(0).stdout.contains("MPI_Finalize"), "{}", part.stdout);
    let killed = ending(1..8, 9.0).with(|profile| {
        profile.run.complete = false;
        profile.run.ended_in = vec![EndedIn { ranks: "0-7".to_owned(), ..EndedIn::default() }];
    });
    finds(&killed, &[]);
}
