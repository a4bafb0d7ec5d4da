//! Golden files of the report, from a made-up job: of a running one no two looks are alike.

use super::comm_table::MOST_COMMS;
use super::job::{Comm, Job, Rank};
use super::part::{self, NodeReport};
use super::report::{JobDocument, Report, SortKey};
use crate::output::{self, Page};
use mpisee_collect::process::cpu::CoreTimes;
use mpisee_collect::segments::{CallLocation, CurrentCall, Partner, Tag, With};
use mpisee_profile::segment::active_call::CurrentFunction;
use mpisee_profile::segment::snapshot::Program;
use mpisee_profile::{CommId, Operation, RankSet, Ticks, WorldRank};
use std::collections::BTreeSet;

fn golden(name: &str, text: &str) {
    insta::with_settings!({
        prepend_module_to_snapshot => false,
        snapshot_path => "../../../tests/commands/snapshots",
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

fn comm(members: &str, here: u64, [calls, bytes]: [u64; 2], time_s: f64) -> Comm {
    let members: RankSet = members.parse().unwrap();
    Comm { size: members.len(), members, here, calls, bytes, time_s, ..Comm::default() }
}

fn rank(number: u32, elapsed_s: f64, call: Option<(Operation, &str, u64, f64)>) -> (WorldRank, Rank) {
    let call = call.map(|(operation, comm, number, for_s)| CurrentCall {
        call: CurrentFunction::Operation(operation),
        comm: Some((CommId::WORLD, comm.to_owned())),
        number: Some(number),
        with: None,
        since: Ticks::ZERO,
        for_s,
        place: CallLocation::default(),
    });
    let calls = call.into_iter().collect();
    (
        WorldRank::new(number),
        Rank {
            pid: 4711 + number,
            host: "n1".to_owned(),
            elapsed_s,
            thread_s: elapsed_s,
            calls,
            ..Rank::default()
        },
    )
}

/// Four of the eight ranks of a job, `more_s` seconds after its first 30: two wait for a third, the
/// fourth has ended.
pub fn job(more_s: f64) -> Job {
    let elapsed_s = 30.0 + more_s;
    let more = (1000.0 * more_s) as u64;
    let mut ranks = [
        rank(0, elapsed_s, Some((Operation::Allreduce, "W_s1.0", 18, 4.5 + more_s))),
        rank(1, elapsed_s, Some((Operation::Allreduce, "W_s1.0", 18, 4.25 + more_s))),
        rank(2, elapsed_s, Some((Operation::Recv, "W", 7, 0.5 + more_s))),
        (WorldRank::new(3), Rank { ended: true, ..rank(3, 12.5, None).1 }),
    ];
    let [.., (_, receiver), _] = &mut ranks;
    receiver.calls[0].place.stack =
        ["read_header at io.c:88", "read_all<mesh> at io.h:120", "main at main.c:7"]
            .map(str::to_owned)
            .to_vec();
    receiver.calls[0].with = Some(With::From(Partner::Rank { rank: 7, in_world: Some(7) }, Tag::Is(5)));
    let label = "solver".to_owned();
    let comms = [
        ("W", comm("0-7", 4, [1_200 + more, 4_800 + 1_048_576 * more], 3.0 + more_s)),
        ("W_s1.0", Comm { label, ..comm("0-2", 3, [51, 408], 10.0 + 2.0 * more_s) }),
        ("W_s1.0_d2", comm("0-2", 3, [0, 0], 0.0)),
    ];
    Job {
        id: (17, 8, 0),
        program: Program {
            command: vec!["./lu.B".to_owned(), "--grid".to_owned(), "4x2".to_owned()],
            library: "Open MPI v5.0.3, package: Open MPI, ident: 5.0.3".to_owned(),
            flavour: "openmpi-5.0".to_owned(),
            ..Program::default()
        },
        size: 8,
        // 2025-06-01T12:00:00Z
        start_realtime_ns: 1_748_779_200_000_000_000,
        elapsed_s,
        recording_was_off: false,
        is_last: false,
        is_pieced_together: false,
        ranks: ranks.into(),
        comms: comms.map(|(name, comm)| (name.to_owned(), comm)).into(),
        stack_problems: BTreeSet::new(),
        is_joined: false,
        growth: None,
        read_within_s: None,
    }
}

fn report(sort: SortKey) -> Report {
    Report::new(&job(0.0), &job(2.0), sort, 5.0)
}

#[test]
fn the_report_fits_the_page() {
    let job = job(2.0);
    for width in [40, 60, 80, 100] {
        let page = Page { width: Some(width), colour: false };
        let text = report(SortKey::Time).text(&job, page);
        assert!(text.lines().all(|line| line.chars().count() <= width.into()), "{text}");
        golden(&format!("top-{width}"), &text);
    }
    let page = Page { width: None, colour: false };
    golden("top-by-name", &report(SortKey::Name).text(&job, page));
}

/// The job with 858 more communicators of these labels.
fn with_many(label: impl Fn(u64) -> String) -> Job {
    let mut job = job(2.0);
    let one = |at| Comm { label: label(at), ..comm("0-7", 4, [at, 3], 0.001) };
    job.comms.extend((0..858).map(|at| (format!("W_d{at}"), one(at))));
    job
}

#[test]
fn like_communicators_share_a_row() {
    let job = with_many(|at| format!("grid {at}"));
    let report = Report::new(&job, &job, SortKey::Time, 5.0);
    let text = report.text(&job, Page { width: Some(120), colour: false });
    let family = text.lines().find(|line| line.starts_with("W_d*")).expect(&text);
    let calls = (0..858).sum::<u64>().to_string();
    let words: Vec<&str> = family.split_whitespace().collect();
    assert!(family.contains("grid *") && family.contains("858 × 8"), "{text}");
    assert!(words.contains(&"3432") && words.contains(&&*calls), "{text}");
    assert!(text.contains("Like communicators share a row (how many × size). --format csv and"), "{text}");
    let csv = report.sheet().csv().unwrap();
    assert_eq!(std::str::from_utf8(&csv).unwrap().lines().count(), 1 + 3 + 858);
}

#[test]
fn communicators_beyond_the_first_are_summed_up() {
    // No two of them are alike.
    let letters = |at: u64| [at / 26 / 26, at / 26 % 26, at % 26].map(|it| char::from(b'a' + it as u8));
    let job = with_many(|at| letters(at).iter().collect());
    let report = Report::new(&job, &job, SortKey::Time, 5.0);
    let page = Page { width: Some(100), colour: false };
    let text = report.short_text(&job, page);
    let listed = text.lines().filter(|line| line.starts_with("W_") || line.starts_with("W ")).count();
    assert_eq!(listed, MOST_COMMS, "{text}");
    let more = 858 + 3 - MOST_COMMS;
    assert!(
        text.contains(&format!("{more} more communicators, with 0.0 % of the interval, not shown.")),
        "{text}"
    );
    assert!(report.text(&job, page).contains("W_d857 "), "the screen scrolls");
    assert!(!self::report(SortKey::Time).short_text(&self::job(2.0), page).contains("not shown"));
}

/// Five ranks of two nodes, each of which receives from the next; the others wait for them in a
/// barrier, but for two that nobody saw.
fn deadlock() -> Job {
    let receive = |number: u32| {
        let (number, mut state) = rank(number, 30.0, Some((Operation::Recv, "W", 7, 12.0)));
        let from = (number.get() + 1) % 5;
        let call = &mut state.calls[0];
        call.with = Some(With::From(Partner::Rank { rank: from, in_world: Some(from) }, Tag::Is(40)));
        call.place.stack = ["exchange at halo.c:40", "main at main.c:7"].map(str::to_owned).to_vec();
        (number, state)
    };
    let ranks = (0..5).map(receive).chain([rank(5, 30.0, Some((Operation::Barrier, "W", 3, 11.0)))]);
    let still = |(number, state): (WorldRank, Rank)| {
        let host = if number.get() < 3 { "n1" } else { "n2" }.to_owned();
        (number, Rank { host, is_still: true, ..state })
    };
    let comms = [("W".to_owned(), comm("0-7", 6, [120, 480], 72.0))].into();
    Job { ranks: ranks.map(still).collect(), comms, is_joined: true, ..job(0.0) }
}

#[test]
fn a_deadlock_is_named_in_the_roll_call_of_several_nodes() {
    let job = deadlock();
    let report = || Report::new(&job, &job, SortKey::Time, 5.0);
    golden("top-deadlock", &report().text(&job, Page { width: Some(100), colour: false }));
    let document = output::json(&JobDocument::new(&job, report())).unwrap();
    golden("top-deadlock.json", std::str::from_utf8(&document).unwrap());
}

#[test]
fn a_job_without_mpi_is_in_no_call_of_nccl() {
    let mut job = job(2.0);
    (job.program.library, job.program.flavour) = ("none".to_owned(), String::new());
    job.ranks.get_mut(&WorldRank::new(2)).unwrap().calls.clear();
    let report = Report::new(&job, &job, SortKey::Time, 5.0);
    let text = report.text(&job, Page { width: None, colour: false });
    assert!(text.contains("MPI        none\n") && text.contains("rank 2 in no call of NCCL"), "{text}");
    for of_mpi in ["In MPI", "no MPI call", "flavour"] {
        assert!(!text.contains(of_mpi), "{of_mpi}: {text}");
    }
}

#[test]
fn scripts_get_the_same() {
    let rows = report(SortKey::Time).sheet().csv().unwrap();
    golden("top.csv", std::str::from_utf8(&rows).unwrap());
    let document = output::json(&JobDocument::new(&job(2.0), report(SortKey::Time))).unwrap();
    golden("top.json", std::str::from_utf8(&document).unwrap());
}

#[test]
fn ranks_without_a_core_are_named_with_their_part_of_the_interval() {
    let crowded = |more_s: f64| {
        let mut job = job(more_s);
        for (rank, share) in [(0, 0.48), (1, 0.26), (2, 0.04)] {
            let core_times = CoreTimes { ran_ns: 7, waited_ns: 11 + (share * more_s * 1e9) as u64 };
            job.ranks.get_mut(&WorldRank::new(rank)).unwrap().core_times = Some(core_times);
        }
        job
    };
    let page = Page { width: None, colour: false };
    let (before, now) = (crowded(0.0), crowded(2.0));
    let part = NodeReport::new(0, "n1".to_owned(), 0, 0..1, [(&before, &now)], Vec::new());
    let joined = part::joined(vec![part]).unwrap();
    for (before, now) in [(&before, &now), (&joined[0].0, &joined[0].1)] {
        let report = Report::new(before, now, SortKey::Time, 5.0);
        let text = report.text(now, page);
        let line = "\nCores      Ranks 0-1 waited for a CPU core 26 to 48 % of the last 2.0 s\n";
        assert!(text.contains(line), "{text}");
        let document = serde_json::to_value(JobDocument::new(now, report)).unwrap();
        let shares = [0, 1, 2, 3].map(|rank| document["processes"][rank]["no_core_share"].as_f64());
        assert_eq!(shares, [Some(0.48), Some(0.26), Some(0.04), None]);
    }
    assert!(!Report::new(&now, &now, SortKey::Time, 5.0).text(&now, page).contains("Cores"));
}

#[test]
fn the_time_in_which_ranks_were_read_is_in_the_head() {
    let page = Page { width: None, colour: false };
    let now = Job { read_within_s: Some(0.0032), ..job(2.0) };
    let report = Report::new(&job(0.0), &now, SortKey::Time, 5.0);
    let line = "4 of 8 here: 0-3 (1 ended), read one after the other within 3.20 ms\n";
    assert!(report.text(&now, page).contains(line), "{}", report.text(&now, page));
    let document = serde_json::to_value(JobDocument::new(&now, report)).unwrap();
    assert_eq!(document["read_within_s"].as_f64(), Some(0.0032));
}
