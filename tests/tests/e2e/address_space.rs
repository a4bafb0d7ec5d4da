//! Address space belongs to the program: the profiler maps what it uses, and goes without where it
//! may not map more.

use mpisee_tests::{Finished, LIMIT, Mpi, Place, Run, Tables, case, dist, within};
use std::path::Path;

const COMMS: u64 = 150;
const KINDS: u64 = 14;
/// Each communicator gets each kind of message twice.
const BROADCASTS: u64 = 2 * COMMS * KINDS;
const NO_ROOM: &str = "calls for which no memory was left";

fn run<'m>(mpi: &'m Mpi, trouble: &str) -> Run<'m> {
    Run::new(mpi, "hostile/address_space").ranks(1).argument(trouble)
}

/// MiB of address space after `MPI_Init`.
fn mib_after_init(finished: &Finished) -> u64 {
    let size = finished.stdout.lines().find_map(|line| line.strip_prefix("VmSize "));
    size.expect("it prints its size").parse::<u64>().expect("a number") >> 10
}

fn broadcasts(tables: &Tables) -> u64 {
    tables.sum_where(|row| row.call == "MPI_Bcast").calls
}

#[case]
fn the_profiler_takes_little_address_space(mpi: &Mpi) {
    let (plain, profiled) = (run(mpi, "none").plain(), run(mpi, "none").profiled());
    let [plain, with] = [&plain, &profiled].map(mib_after_init);
    assert!(with < plain + 64, "{plain} MiB without the profiler, {with} MiB with it");
    assert_eq!(broadcasts(profiled.tables()), BROADCASTS);
}

#[case]
fn a_limit_after_init_leaves_the_program_its_memory(mpi: &Mpi) {
    let finished = run(mpi, "limit").profiled();
    assert!(finished.stdout.contains("256 MiB: ok\n"), "{}", finished.stdout);
    assert_eq!(broadcasts(finished.tables()), BROADCASTS);
    assert!(finished.tables().run.not_seen.is_empty(), "{:?}", finished.tables().run.not_seen);
    finished.check();
}

#[case]
fn a_tight_limit_from_the_start_is_room_enough(mpi: &Mpi) {
    let plain = mib_after_init(&run(mpi, "none").plain());
    // The program's 256 MiB, and some more for the profiler and what MPI allocates later.
    let kib = (plain + 256 + 64) << 10;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = mpi.launcher(1, &[]);
    command.args(["sh", "-c", &format!("ulimit -v {kib}; exec \"$0\" \"$@\"")]);
    command.arg(dist().join("bin/mpisee")).args(["--output", "test.mpisee"]);
    command.arg(mpi.compile("hostile/address_space")).arg("none").current_dir(folder.path());
    let output = within(LIMIT, &mut command);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("256 MiB: ok\n"));
    let tables = Tables::read(&folder.path().join("test.mpisee"), &said);
    assert_eq!(broadcasts(&tables), BROADCASTS, "{:?}", tables.run.not_seen);
}

#[case]
fn without_address_space_calls_are_not_seen_until_there_is_some_again(mpi: &Mpi) {
    let finished = run(mpi, "exhaust").profiled();
    let said = &finished.stderr;
    assert_eq!(said.matches("no address space for further counters (").count(), 1, "{said}");
    assert!(!said.contains("cannot grow"), "{said}");
    let tables = finished.tables();
    let unseen = tables.run.not_seen.get(NO_ROOM).copied().unwrap_or(0);
    // Of the second time what the profiler needs to find out that there is address space again.
    assert!(unseen > 0 && unseen <= COMMS * KINDS + 256, "{unseen}");
    assert_eq!(broadcasts(tables) + unseen, BROADCASTS);
}

/// Runs `hostile/out_of_memory` with the profiler. How much memory MPI needs itself is a matter of
/// timing, so that it is tried again if it ended for want of it; not if the profiler did.
fn run_out_of_memory(mpi: &Mpi, program: &Path, way: &str) -> (Place, String) {
    let mut said = String::new();
    for _ in 0..5 {
        let place = Place::new();
        let mut command = place.command(mpi, 2);
        command.args(["--output", "test.mpisee"]).arg(program).arg(way);
        let output = within(LIMIT, &mut command);
        said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("memory allocation of"), "{} {way}: {said}", mpi.name);
        if output.status.success() {
            return (place, String::from_utf8_lossy(&output.stdout).into_owned());
        }
    }
    panic!("{} {way}: {said}", mpi.name);
}

#[case]
fn a_program_that_has_taken_all_memory_goes_on(mpi: &Mpi) {
    let program = mpi.compile_with("hostile/out_of_memory", &["-lpthread"]);
    for (way, call, calls) in [
        ("sizes", "MPI_Bcast", 12),
        ("isend", "MPI_Isend", 1000),
        ("thread", "MPI_Allreduce", 40),
        ("comm", "MPI_Comm_split", 400),
        ("start", "MPI_Startall", 2),
        ("slow", "MPI_Barrier", 31),
        ("local", "MPI_Barrier", 1),
    ] {
        let plain = || within(LIMIT, mpi.launcher(2, &[]).arg(&program).arg(way));
        if !(0..3).any(|_| plain().status.success()) {
            mpisee_tests::note!("{} {way} is left out: MPI needs more memory", mpi.name);
            continue;
        }
        let (place, printed) = run_out_of_memory(mpi, &program, way);
        assert_eq!(printed.matches(" ok").count(), 2, "{printed}");
        // With memory again every call is seen.
        let seen = place.tables("test.mpisee").sum_where(|row| row.call == call).calls;
        assert!((2 * calls..=4 * calls).contains(&seen), "{} {way}: {seen} of {call}", mpi.name);
    }
}
