//! No share in any answer is below nothing or above the whole: not where threads are in MPI at
//! once, ranks have no core, or a profile does not tell how many threads there are.

use crate::advise::gpu_far::staging;
use crate::advise::measured::uneven;
use crate::advise::waiting::{all_in_turn, hot_receiver, late_receiver, late_sender, on_one_node};
use crate::report::{data_of, over_time, page, page_of};
use crate::support::gpus::{beside_nccl, nccl_alone, two_gpus};
use crate::support::{Builder, Written, pools, solver, splatt};
use mpisee_profile::rows::Seconds;
use proptest::prelude::*;
use serde_json::Value;

const RANKS: u32 = 4;

/// Commands that answer with JSON.
const COMMANDS: [&[&str]; 33] = [
    &["summary", "app.mpisee"],
    &["summary", "app.mpisee", "--each"],
    &["ops", "app.mpisee"],
    &["ops", "app.mpisee", "--ranks", "0-1"],
    &["sizes", "app.mpisee"],
    &["comms", "app.mpisee"],
    &["ranks", "app.mpisee"],
    &["ranks", "app.mpisee", "--by", "node"],
    &["regions", "app.mpisee"],
    &["efficiency", "app.mpisee"],
    &["efficiency", "app.mpisee", "--each"],
    &["locality", "app.mpisee"],
    &["matrix", "app.mpisee"],
    &["advise", "app.mpisee"],
    &["advise", "app.mpisee", "--ranks", "0"],
    &["check", "app.mpisee"],
    &["variables", "app.mpisee"],
    &["diff", "app.mpisee", "app.mpisee"],
    &["runs", "app.mpisee"],
    &["sites", "app.mpisee"],
    &["sites", "app.mpisee", "--each"],
    &["paths", "app.mpisee"],
    &["waits", "app.mpisee"],
    &["waits", "app.mpisee", "--each"],
    &["waits", "app.mpisee", "--by", "site"],
    &["expect", "app.mpisee", "--write"],
    &["timeline", "app.mpisee"],
    &["gpu", "app.mpisee"],
    &["gpu", "app.mpisee", "--by", "copy"],
    &["gpu", "app.mpisee", "--by", "kernel"],
    &["gpu", "app.mpisee", "--by", "line"],
    &["gpu", "app.mpisee", "--by", "object"],
    &["diff", "app.mpisee", "app.mpisee", "--by", "site"],
];

/// Fields that are named as shares and are none: the speedup by how many times the ranks; parts of
/// differences, which add up to the whole with others that are negative.
const RATIOS: [&str; 3] = ["scaling_efficiency", "computation_scaling", "share_of_differences"];

/// Returns whether a field is a part of a whole.
fn is_share(name: &str) -> bool {
    const PARTS: [&str; 10] = [
        "share",
        "efficiency",
        "load_balance",
        "core_availability",
        "serialisation_",
        "transfer_low",
        "transfer_high",
        "parallel_",
        "imbalance",
        "loss",
    ];
    !RATIOS.contains(&name) && PARTS.iter().any(|part| name.contains(part))
}

/// The shares in an answer that are out of range, and sentences with more than 100 %.
fn beyond(path: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match field.as_f64() {
                    Some(number) if is_share(name) && !(0.0..=1.0).contains(&number) => {
                        found.push(format!("{path}.{name} = {number}"));
                    }
                    _ => beyond(&format!("{path}.{name}"), field, found),
                }
            }
        }
        Value::Array(all) => {
            all.iter().enumerate().for_each(|(at, one)| beyond(&format!("{path}[{at}]"), one, found))
        }
        Value::String(text) if percentages(text).any(|percent| percent > 100.0) => {
            found.push(format!("{path}: {text}"));
        }
        _ => {}
    }
}

/// The numbers before ` %`.
fn percentages(text: &str) -> impl Iterator<Item = f64> {
    let before = |(at, _): (usize, &str)| {
        let number = text[..at].rsplit(|letter: char| !letter.is_ascii_digit() && letter != '.').next()?;
        number.parse().ok()
    };
    text.match_indices(" %").filter_map(before)
}

/// What is out of range in the answers on a profile; and how many answers there were.
fn all_beyond(profile: &Written) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    let mut answers = 0;
    for command in COMMANDS {
        let ran = profile.run(&[command, &["--format", "json"]].concat());
        // Not every profile has an answer for each.
        let Ok(answer) = serde_json::from_str(&ran.stdout) else { continue };
        answers += 1;
        beyond(&command.join(" "), &answer, &mut found);
    }
    (found, answers)
}

/// A rank in a profile: seconds, in MPI by its wall time, on cores and without one by the same;
/// threads that call MPI, if that is known.
type Rank = (f64, f64, f64, f64, Option<u32>);

fn rank() -> impl Strategy<Value = Rank> {
    let threads = prop_oneof![Just(None), (1..6u32).prop_map(Some)];
    (0.001..20.0, 0.0..1.0, 0.0..8.0, 0.0..8.0, threads)
}

fn built(ranks: &[Rank], with_cores: bool, is_multiple: bool) -> Builder {
    let mut builder = Builder::new(RANKS).comm("W_s1.0", "W", "MPI_Comm_split", "0-1", |_| {});
    if is_multiple {
        builder.run.mpi.thread_level = "multiple".to_owned();
    }
    for (number, &(wall_s, in_mpi, on_cores, without_core, threads)) in (0..).zip(ranks) {
        // Unless their number is known, up to four threads are in MPI at once.
        let most = if is_multiple { threads.unwrap_or(4) } else { 1 };
        let mpi_s = in_mpi * wall_s * f64::from(most);
        let row = &mut builder.ranks[number as usize];
        row.wall_s = Seconds(wall_s);
        row.host = format!("n{}", number / 2);
        row.mpi_threads = if is_multiple { threads } else { Some(1) };
        if with_cores {
            row.cpu_user_s = Some(Seconds(on_cores * wall_s));
            row.cpu_system_s = Some(Seconds(0.0));
            row.cpu_wait_s = Some(Seconds(without_core * wall_s));
        }
        builder = builder
            .call_with("W", number, "MPI_Allreduce", 10, 80, mpi_s / 2.0, |row| {
                row.region = "solver".to_owned()
            })
            .call("W", number, "MPI_Sendrecv", 5, 80_000, mpi_s / 4.0)
            .call(if number < 2 { "W_s1.0" } else { "W" }, number, "MPI_Bcast", 3, 24, mpi_s / 4.0)
            .region("solver", number, 2, wall_s * 0.75, mpi_s / 2.0);
        let region = builder.regions.last_mut().unwrap();
        region.cpu_s = Some(Seconds(on_cores * wall_s / 2.0));
        // As few threads as its time in MPI needs.
        region.mpi_threads =
            threads.filter(|_| number % 2 == 0).map(|_| (mpi_s / 1.5 / wall_s).ceil() as u32);
    }
    builder.messages("W", 0, 1, 5, 40_000)
}

/// The same, where threads lived no longer than their calls need.
fn with_short_lives(mut profile: Builder) -> Builder {
    for row in &mut profile.ranks {
        row.mpi_thread_s = Some(Seconds(row.mpi_s.0.max(row.wall_s.0)));
    }
    for row in &mut profile.regions {
        row.mpi_thread_s = Some(Seconds(row.mpi_s.0.max(row.wall_s.0)));
    }
    profile
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_share_is_beyond_the_whole(
        ranks in proptest::collection::vec(rank(), RANKS as usize),
        with_cores in any::<bool>(),
        is_multiple in any::<bool>(),
    ) {
        let profile = built(&ranks, with_cores, is_multiple);
        for profile in [profile.write(), with_short_lives(profile).write()] {
            let (found, answers) = all_beyond(&profile);
            prop_assert!(found.is_empty(), "{:#?}", found);
            prop_assert!(answers >= 14, "{}", answers);
        }
    }

    #[test]
    fn the_factors_multiply_and_the_loss_is_the_rest(
        ranks in proptest::collection::vec(rank(), RANKS as usize),
        with_cores in any::<bool>(),
    ) {
        let ranks: Vec<Rank> = ranks.into_iter().map(|it| (it.0, it.1, it.2, it.3, it.4.or(Some(2)))).collect();
        let profile = built(&ranks, with_cores, true).write();
        let ran = profile.run(&["efficiency", "app.mpisee", "--format", "json"]);
        let answer: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        for row in answer["efficiency"].as_array().unwrap() {
            let of = |name: &str| row[name].as_f64();
            let factors = ["load_balance", "communication_efficiency"].map(|name| of(name).unwrap_or(0.0));
            let parallel = of("parallel_efficiency").unwrap();
            let product = factors[0] * factors[1] * of("core_availability").unwrap_or(1.0);
            prop_assert!((product - parallel).abs() < 1e-8, "{}", row);
            prop_assert!(of("parallel_low").unwrap() <= parallel + 1e-9 && parallel <= of("parallel_high").unwrap() + 1e-9);
            prop_assert_eq!(of("core_availability").is_some(), with_cores);
        }
        let loss = answer["loss"].as_array().unwrap().iter().map(|row| row["loss"].as_f64().unwrap_or(0.0));
        let whole = answer["efficiency"][0]["parallel_efficiency"].as_f64().unwrap() + loss.sum::<f64>();
        prop_assert!((whole - 1.0).abs() < 1e-7, "{}", answer);
    }
}

/// A profile of ranks that had no core for a third of the time that they wanted one.
pub fn without_core() -> Written {
    built(&[(10.0, 0.2, 0.5, 0.25, Some(1)); RANKS as usize], true, false).write()
}

#[test]
fn time_without_a_core_is_said_wherever_efficiency_is() {
    const SAID: &str = "Useful time excludes the part of this wait outside of MPI (CA %).";
    let profile = without_core();
    for format in ["table", "json"] {
        let ran = profile.run(&["efficiency", "app.mpisee", "--format", format]);
        let said = ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(SAID), "{format}: {said}");
    }
    let data = data_of(&page_of(&profile));
    let notes = data["caveats"]["efficiency"].as_array().expect("there are notes");
    assert!(notes.iter().any(|note| note.as_str().is_some_and(|note| note.contains(SAID))), "{notes:?}");
}

#[test]
fn golden_profiles_have_no_share_beyond_the_whole() {
    let waiting = [on_one_node(), late_sender(40), late_receiver(), all_in_turn(), hot_receiver()];
    let others = [pools(), splatt(), solver(), uneven(0.5), beside_nccl(), nccl_alone()];
    let written = [two_gpus(), staging("gpu", "0.5"), over_time::with_time_line(), page::sums_over_ranks()];
    let built = waiting.into_iter().chain(others).map(|profile| profile.write());
    for profile in built.chain(written) {
        let (found, answers) = all_beyond(&profile);
        assert!(found.is_empty() && answers >= 14, "{answers}: {found:#?}");
    }
}

#[test]
fn threads_of_unknown_number_leave_efficiencies_empty() {
    let ranks = [(10.0, 0.9, 1.0, 0.0, None); RANKS as usize];
    let profile = built(&ranks, false, true).write();
    let ran = profile.run(&["efficiency", "app.mpisee", "--format", "json"]);
    let answer: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    let run = &answer["efficiency"][0];
    for name in ["parallel_efficiency", "load_balance", "communication_efficiency", "useful_mean_s"] {
        assert!(run[name].is_null(), "{name}: {run}");
    }
    let caveat = answer["caveats"].to_string();
    assert!(caveat.contains("the profile does not tell how many threads were in MPI at once"), "{caveat}");
    // With their number, the time of each is known.
    let known = built(&ranks.map(|it| (it.0, it.1, it.2, it.3, Some(4))), false, true).write();
    let ran = known.run(&["efficiency", "app.mpisee", "--format", "json"]);
    let answer: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
    assert_eq!(answer["efficiency"][0]["parallel_efficiency"], 0.1);
}

#[test]
fn the_share_of_a_region_is_of_the_threads_that_call_there() {
    let ranks = [(10.0, 0.7, 1.0, 0.0, Some(5)); RANKS as usize];
    let share = |threads: Option<u32>| {
        let mut profile = built(&ranks, false, true);
        for row in &mut profile.regions {
            (row.wall_s, row.mpi_s, row.mpi_threads) = (Seconds(2.0), Seconds(1.98), threads);
        }
        profile
            .calls
            .iter_mut()
            .filter(|row| row.region == "solver")
            .for_each(|row| row.time_s = Seconds(1.98));
        let ran = profile.write().run(&["regions", "app.mpisee", "--format", "json"]);
        let answer: Value = serde_json::from_str(&ran.exits(0).stdout).unwrap();
        (answer["regions"][0]["share_of_wall"].as_f64().unwrap(), answer["caveats"].to_string())
    };
    let (of_caller, notes) = share(Some(1));
    assert!((of_caller - 0.99).abs() < 1e-9 && !notes.contains("which threads"), "{of_caller} {notes}");
    let (of_all, notes) = share(None);
    assert!((of_all - 0.198).abs() < 1e-9, "{of_all}");
    assert!(notes.contains("Shares of regions count all threads of a rank"), "{notes}");
}
