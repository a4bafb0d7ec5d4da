//! mpi4py, which loads MPI privately, recognises the MPI by its symbols, and calls the
//! functions with large counts where there are any.

use mpisee_tests::python::Stack;
use mpisee_tests::{Mpi, Run, case, root};
use serde_json::Value;

/// Runs `test` with mpi4py on every MPI that there is.
fn on_each_stack(test: impl Fn(&Mpi)) {
    if !Stack::are_there() {
        mpisee_tests::harness::leave_out(
            "Python with venv and pip is not installed (on Debian python3-venv)",
        );
        return;
    }
    for stack in Stack::all() {
        mpisee_tests::note!("--- {}", stack.name());
        test(&stack.install());
    }
}

#[case]
fn mpi4py_is_recorded() {
    on_each_stack(|mpi| {
        communicators_are_counted(mpi);
        a_benchmark_is_counted(mpi);
        lines_of_python_are_on_paths(mpi);
    });
}

/// `FUNCTION at lines.py:LINE`, the line of `tests/programs/python/lines.py` that has this remark.
/// From Python 3.11 on functions have the names of their classes, too: what is compared ends so.
fn at(function: &str, remark: &str) -> String {
    let text = std::fs::read_to_string(root().join("tests/programs/python/lines.py")).expect("it is there");
    let line = text.lines().position(|line| line.ends_with(remark)).expect("the remark is there") + 1;
    format!("{function} at lines.py:{line}")
}

/// A table of mpisee-through.
fn json(arguments: &[&str]) -> Value {
    let output = mpisee_tests::through(&[arguments, &["--format", "json", "--all"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

fn lines_of_python_are_on_paths(mpi: &Mpi) {
    let finished = Run::python(mpi, &["python/lines.py"]).ranks(2).profiled();
    let directory = finished.directory().display().to_string();
    let paths = json(&["paths", &directory]);
    let rows = paths["paths"].as_array().expect("a list");
    let frames = |call: &str, begin: &str| -> String {
        let of =
            |row: &&Value| row["call"] == call && row["frames"].as_str().is_some_and(|it| it.contains(begin));
        let longest = rows.iter().filter(of).max_by_key(|row| row["calls"].as_u64());
        let frames = longest.map(|row| row["frames"].as_str().expect("a text").to_owned());
        frames.unwrap_or_else(|| panic!("{call} by {begin}: {paths}"))
    };
    let whole = frames("MPI_Barrier", &at("exchange", "# exchange calls"));
    let (step, main, all) =
        (at("step", "# step calls"), at("main", "# main calls"), at("<module>", "# all of it"));
    let outer: Vec<&str> = whole.split(" < ").collect();
    let [.., by_step, by_main, by_module] = outer[..] else { panic!("{whole}") };
    assert!(by_step.ends_with(&step) && by_main == main && by_module == all, "{whole}");
    let sites = json(&["sites", &directory]);
    let places: Vec<&str> =
        sites["sites"].as_array().expect("a list").iter().filter_map(|row| row["at"].as_str()).collect();
    for (function, remark) in [
        ("exchange", "# exchange calls"),
        ("reduce_object", "# reduce_object calls"),
        ("gather", "# gather calls"),
    ] {
        let wanted = format!("{} (by mpi4py)", at(function, remark));
        // Up to Python 3.11 a list comprehension is a function of its own.
        let wanted_in_list = format!("<listcomp> at {}", &wanted[function.len() + 4..]);
        let is_it = |place: &&str| place.ends_with(&wanted) || place.ends_with(&wanted_in_list);
        assert!(places.iter().any(is_it), "{wanted}: {places:?}");
    }
    finished.check();
}

fn communicators_are_counted(mpi: &Mpi) {
    let finished = Run::python(mpi, &["python/communicators.py"]).ranks(2).profiled();
    let tables = finished.tables();
    assert_eq!(tables.comm("W_d1").label, "copy");
    for (comm, call, rank, calls, bytes) in [
        ("W_d1", "MPI_Send", 0, 1, 1009),
        ("W_d1", "MPI_Recv", 1, 1, 1009),
        ("W", "MPI_Isend", 0, 1, 4001),
        ("W", "MPI_Irecv", 1, 1, 4001),
        ("W", "MPI_Waitall", 1, 1, 0),
        ("W", "MPI_Allreduce", 1, 1, 40),
        ("W_s2.1", "MPI_Bcast", 1, 1, 0),
        ("W_a3", "MPI_Neighbor_allgather", 0, 1, 26),
    ] {
        let sum = tables.of_rank(comm, call, rank);
        assert_eq!((sum.calls, sum.bytes), (calls, bytes), "{call} of {rank} on {comm}");
    }
    assert_eq!(tables.peer("W_d1", 1, 0), [0, 0, 1, 1009]);
    assert!(tables.run.not_seen.is_empty(), "{:?}", tables.run.not_seen);
    finished.check();
}

fn a_benchmark_is_counted(mpi: &Mpi) {
    let arguments = ["-m", "mpi4py.bench", "pingpong", "--max-size", "1024", "--loop", "10", "--skip", "0"];
    let finished = Run::python(mpi, &arguments).ranks(2).profiled();
    assert!(finished.stdout.contains("1024"), "{}", finished.stdout);
    let sent = finished.tables().sum_where(|row| row.call == "MPI_Send" && row.size_max >= 1024);
    assert_eq!(sent.bytes, 2 * 10 * 1024, "{sent:?}");
    finished.check();
}
