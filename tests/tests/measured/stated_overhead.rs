//! The overhead that the profiler states is the time that it adds.

use mpisee_tests::{Mpi, Run, case};

const PAIRS: usize = 5;

/// Seconds in the calls of a run of `tools/overhead/stated_overhead.c`; with the profiler also the
/// least and the most that it states.
fn seconds(mpi: &Mpi, arguments: [&str; 3], profiled: bool) -> (f64, [f64; 2]) {
    let run = Run::from_program(mpi, mpi.compile_benchmark("stated_overhead")).ranks(1);
    let run = arguments.iter().fold(run, |run, it| run.argument(it));
    let finished = if profiled { run.profiled() } else { run.plain() };
    let took = finished.stdout.trim().parse().expect("the program prints seconds");
    if !profiled {
        return (took, [0.0; 2]);
    }
    let stated = &finished.tables().run.profiler;
    let calls: u64 = arguments[1].parse().expect("a number of calls");
    assert_eq!(finished.tables().sum_where(|_| true).calls, calls);
    // The calls are chosen at random, and of 200 calls some ten are. The estimate and its upper
    // bound are the run's time if a sampled call lost its core, and so stands for more than the
    // whole run.
    assert!(
        stated.sampled_calls > 1 && stated.low_s < stated.high_s && stated.low_s <= stated.time_s,
        "{stated:?}"
    );
    assert!(stated.time_s <= stated.high_s, "{stated:?}");
    (took, [stated.low_s, stated.high_s])
}

/// Runs without and with the profiler in turns: what it adds lies within what it states, as far as
/// the runs show. Nothing is said of how much that is.
fn states_what_it_adds(mpi: &Mpi, arguments: [&str; 3]) {
    let (mut added, mut stated) = ([f64::MAX, f64::MIN], [f64::MAX, f64::MIN]);
    for _ in 0..PAIRS {
        let (without, _) = seconds(mpi, arguments, false);
        let (with, [low, high]) = seconds(mpi, arguments, true);
        added = [added[0].min(with - without), added[1].max(with - without)];
        stated = [stated[0].min(low), stated[1].max(high)];
    }
    let shown = format!("{} {arguments:?}: {added:?} s were added, {stated:?} s stated", mpi.name);
    assert!(added[0] <= stated[1] && stated[0] <= added[1], "{shown}");
}

#[case]
fn in_a_loop_of_calls(mpi: &Mpi) {
    states_what_it_adds(mpi, ["allreduce", "10000000", "0"]);
}

#[case]
fn in_a_loop_of_messages(mpi: &Mpi) {
    states_what_it_adds(mpi, ["messages", "3000000", "0"]);
}

#[case]
fn of_few_calls_on_long_arrays(mpi: &Mpi) {
    states_what_it_adds(mpi, ["array", "300300", "0"]);
}

#[case]
fn where_the_program_works_between_calls(mpi: &Mpi) {
    states_what_it_adds(mpi, ["barrier", "20000", "1024"]);
}

#[case]
fn where_all_caches_are_cold(mpi: &Mpi) {
    // More than last-level caches hold: where they hold it, too little is stated
    // (docs/explanation/cost.md).
    states_what_it_adds(mpi, ["allreduce", "200", "65536"]);
}
