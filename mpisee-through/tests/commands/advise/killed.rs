//! Killed runs: calls in which ranks ended, as polls, are neither findings nor evidence.

use super::waiting::late_sender;
use super::{ALL, finds, on, run};
use crate::support::Builder;
use mpisee_profile::run::EndedIn;

#[test]
fn calls_that_a_hang_or_an_early_end_explains_are_no_finding() {
    let ended = |builder: Builder, call: Option<&str>| {
        builder.with(|profile| {
            profile.run.complete = false;
            profile.run.ended_in = vec![EndedIn {
                ranks: "0-7".to_owned(),
                call: call.map(str::to_owned),
                comm: call.map(|_| "W".to_owned()),
                ..EndedIn::default()
            }];
        })
    };
    let polls = || on(run(), "W", &ALL, "MPI_Test", 1000, 0, 0.2);
    finds(&polls(), &["polling W"]);
    finds(&ended(polls(), Some("MPI_Test")), &[]);
    finds(&ended(polls(), None), &[]);
    let killed = ended(on(polls(), "W", &ALL, "MPI_Isend", 10, 80, 0.01), Some("MPI_Test")).write();
    let said = killed.run(&["advise", "app.mpisee"]).exits(0).stdout.replace('\n', " ");
    let verdict = "95.2 % of the MPI time is in MPI_Test on W. Ranks ended in or between such calls, so a hang may explain \
                   the time.";
    assert!(said.contains(verdict) && !said.contains("largest"), "{said}");
    finds(&ended(polls(), Some("MPI_Allreduce")), &["polling W"]);
    let dups = |number: u32| {
        let builder = on(run(), "W", &ALL, "MPI_Comm_dup", u64::from(number), 0, 0.001);
        (0..number)
            .fold(builder, |builder, n| builder.comm(&format!("W_d{n}"), "W", "MPI_Comm_dup", "0-7", |_| {}))
    };
    finds(&dups(8), &["creation W"]);
    finds(&ended(dups(8), Some("MPI_Allreduce")), &[]);
    finds(&ended(dups(16), Some("MPI_Allreduce")), &["creation W"]);
}

/// Rank 3 sends late to ranks 1 and 2. Then all ranks poll by this call for 5 s each, in which they
/// are killed or not.
fn polling_to_the_end(call: &str, is_killed: bool) -> Builder {
    let mut builder = late_sender(41);
    let receive = builder.line("step", "solver.c", 301);
    let poll = builder.line("wait_for_work", "queue.c", 77);
    for row in &mut builder.calls {
        row.site = Some(receive);
    }
    for rank in ALL {
        builder = builder.call_with("W", rank, call, 9000, 0, 5.0, |row| row.site = Some(poll));
    }
    builder.with(|profile| {
        profile.run.complete = !is_killed;
        if is_killed {
            profile.run.incomplete_because = Some("ranks were killed".to_owned());
            profile.run.ended_in = vec![EndedIn {
                ranks: "0-7".to_owned(),
                call: Some(call.to_owned()),
                comm: Some("W".to_owned()),
                ..EndedIn::default()
            }];
        }
    })
}

#[test]
fn polls_in_which_ranks_were_killed_are_no_evidence_of_waiting_in_messages() {
    let said = |builder: &Builder, command: &str| {
        let text = builder.write().run(&[command, "app.mpisee"]).exits(0).stdout.clone();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    for call in ["MPI_Test", "MPI_Iprobe"] {
        let killed = polling_to_the_end(call, true);
        finds(&killed, &["waiting W"]);
        let text = said(&killed, "advise");
        for expected in [
            &format!(
                "of the MPI time is in {call} on W. Ranks ended in or between such calls, so a hang may explain the time."
            ),
            "Waiting for others takes 87 % of 1.89 s in messages, measured by both ends. Ranks wait 1.64 s for senders",
            "All of the time in messages is in step at solver.c:301.",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert!(!text.contains("queue.c") && !text.contains("longer in"), "{text}");
        let text = said(&killed, "waits");
        let polling = format!(
            "95.5 % of the MPI time is in tests and probes, above all {call}. Ranks ended in or between such calls, so a hang may \
             explain the time. mpisee-through sites app.mpisee --call {call} shows where ranks poll."
        );
        assert!(text.contains(&polling) && text.contains("Rank 3 sends late"), "{text}");
    }
    // Probes are no time in messages, killed or not.
    let text = said(&polling_to_the_end("MPI_Iprobe", false), "advise");
    assert!(text.contains("All of the time in messages is in step at solver.c:301."), "{text}");
}
