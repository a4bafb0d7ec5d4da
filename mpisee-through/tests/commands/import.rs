//! Profiles made of what other profilers have recorded, read by the commands.

use crate::support::{Ran, splatt};
use mpisee_profile::rows::{CallRow, CommRow, RankRow, Row};
use mpisee_profile::{FORMAT_VERSION, Profile};
use rusqlite::Connection;
use tempfile::TempDir;

/// The tables of the C++ mpisee, by its version 4.1.
const SCHEMA: &str = "
CREATE TABLE mappings (id INTEGER PRIMARY KEY AUTOINCREMENT, machine TEXT);
CREATE TABLE exectimes (id INTEGER PRIMARY KEY AUTOINCREMENT, time REAL);
CREATE TABLE metadata (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE operations (id INTEGER PRIMARY KEY AUTOINCREMENT, operation TEXT);
CREATE TABLE comms (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT UNIQUE, size INTEGER);
CREATE TABLE data (id INTEGER PRIMARY KEY AUTOINCREMENT, rank INTEGER, comm_id INTEGER, operation_id INTEGER,
    buffer_size_min INTEGER, buffer_size_max INTEGER, calls INTEGER, time REAL, volume INTEGER);
";

/// A run of 3 ranks on 2 hosts: an `MPI_Allreduce` on the world, an `MPI_Alltoallv` on a part of
/// it, messages, and waits.
const ROWS: &str = "
INSERT INTO metadata VALUES ('MPI Library', 'Open MPI v4.1.4, package: Debian OpenMPI'), ('Processes', '3'),
    ('Run command', './app input.dat'), ('mpisee version', '4.1'), ('Profile date', 'Wed Nov  5 00:22:31 2025\n');
INSERT INTO mappings VALUES (0, 'n0'), (1, 'n0'), (2, 'n1');
INSERT INTO exectimes VALUES (0, '10.500000'), (1, '10.000000'), (2, '9.500000');
INSERT INTO operations VALUES (0, 'Isend'), (1, 'Recv'), (2, 'Waitall'), (3, 'Allreduce'), (4, 'Alltoallv'), (5, 'Fence'),
    (6, 'Init');
INSERT INTO comms VALUES (1, 'W0.0', 3), (2, '*0.0', 1), (3, 's1.2', 2), (4, 'd0.3', 3);
INSERT INTO data (rank, comm_id, operation_id, buffer_size_min, buffer_size_max, calls, time, volume) VALUES
    (0, 1, 6, 0, 128, 1, 0.75, 0), (0, 1, 3, 0, 128, 10, 1.25, 80), (1, 1, 3, 0, 128, 10, 1.5, 80),
    (2, 1, 3, 0, 128, 10, 0.5, 80), (1, 3, 4, 0, 128, 5, 2.0, 4000017), (0, 1, 0, 1024, 8192, 4, 0.125, 8004),
    (2, 1, 1, 33554432, 2147483647, 1, 0.25, 40000000), (0, 2, 2, 0, 128, 4, 0.0625, 0), (1, 4, 5, 0, 128, 2, 0.5, 0);
";

/// The layout of mpiP 3.5 with made-up numbers: two ranks, two call sites of `MPI_Allreduce` and
/// one each of the others.
const REPORT: &str = "\
@ mpiP
@ Command : ./app input.dat 
@ Version                  : 3.5.0
@ MPIP Build date          : Oct 20 2020, 18:22:06
@ Start time               : 2025 06 01 12:00:00
@ Stop time                : 2025 06 01 12:00:10
@ Timer Used               : PMPI_Wtime
@ MPIP env var             : -v
@ Collector Rank           : 0
@ Collector PID            : 4711
@ Final Output Dir         : .
@ Report generation        : Single collector task
@ MPI Task Assignment      : 0 n0
@ MPI Task Assignment      : 1 n1

---------------------------------------------------------------------------
@--- MPI Time (seconds) ---------------------------------------------------
---------------------------------------------------------------------------
Task    AppTime    MPITime     MPI%
   0         10       2.46    24.60
   1       9.51      0.452     4.75
   *       19.5       2.91    14.93
---------------------------------------------------------------------------
@--- Callsites: 4 ---------------------------------------------------------
---------------------------------------------------------------------------
 ID Lev File/Address        Line Parent_Funct             MPI_Call
  1   0 app.c                 21 main                     Allreduce
  2   0 app.c                 31 main                     Send
---------------------------------------------------------------------------
@--- Callsite Time statistics (all, milliseconds): 6 ----------------------
---------------------------------------------------------------------------
Name              Site Rank  Count      Max     Mean      Min   App%   MPI%
Allreduce            1    0     10      200      125      100  12.50  50.81
Allreduce            1    1     10       20       12        8   1.26  26.55
Allreduce            1    *     20      200     68.5        8   7.02  47.08

Allreduce            4    0      1     1000     1000     1000  10.00  40.65

Send                 2    0      4     60.0     52.5     50.0   2.10   8.54

Recv                 3    1      4      100       83       70   3.49  73.45

Alltoallv            5    1      1        2        2        2   0.02   0.44

Barrier              6    1      1        1        1        1   0.01   0.22
---------------------------------------------------------------------------
@--- Callsite Message Sent statistics (all, sent bytes) -------------------
---------------------------------------------------------------------------
Name              Site Rank   Count       Max      Mean       Min       Sum
Allreduce            1    0      10         8         8         8        80
Allreduce            1    1      10         8         8         8        80
Allreduce            4    0       1         8         8         8         8

Send                 2    0       4      4096      2048       512      8192
---------------------------------------------------------------------------
@--- End of Report --------------------------------------------------------
---------------------------------------------------------------------------
";

/// A folder with something to import.
struct Other(TempDir);

impl Other {
    fn database(rows: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let database = Connection::open(scratch.path().join("mpisee_1.db")).unwrap();
        database.execute_batch(SCHEMA).unwrap();
        database.execute_batch(rows).unwrap();
        Other(scratch)
    }

    fn report(text: &str) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::write(scratch.path().join("app.2.4711.1.mpiP"), text).unwrap();
        Other(scratch)
    }

    fn report_of_bytes(report: &[u8]) -> Self {
        let other = Other::report("");
        std::fs::write(other.0.path().join("app.2.4711.1.mpiP"), report).unwrap();
        other
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        Ran::beside(self.0.path(), arguments)
    }

    /// Imports to `app.mpisee`.
    fn import(&self, file: &str) -> &Self {
        self.run(&["import", file, "-o", "app.mpisee"]).exits(0);
        self
    }

    fn profile(&self) -> Profile {
        Profile::open(self.0.path().join("app.mpisee")).unwrap()
    }

    fn rows<R: Row>(&self) -> Vec<R> {
        self.profile().rows().unwrap().map(Result::unwrap).collect()
    }
}

fn cpp_mpisee() -> Other {
    let other = Other::database(ROWS);
    other.import("mpisee_1.db");
    other
}

fn mpip() -> Other {
    let other = Other::report(REPORT);
    other.import("app.2.4711.1.mpiP");
    other
}

#[test]
fn the_cpp_mpisee_has_communicators_and_sizes() {
    let other = cpp_mpisee();
    let calls: Vec<CallRow> = other.rows();
    let row = |comm: &str, rank: u32, call: &str| {
        let found: Vec<&CallRow> = calls
            .iter()
            .filter(|row| (row.comm.as_str(), row.rank, row.call.as_str()) == (comm, rank, call))
            .collect();
        assert_eq!(found.len(), 1, "{call} of {rank} on {comm}");
        (found[0].calls, found[0].bytes, found[0].time_s.0, [found[0].size_min, found[0].size_max])
    };
    assert_eq!(calls.len(), 8, "MPI_Init is before the wall time");
    assert_eq!(row("W", 0, "MPI_Allreduce"), (10, 80, 1.25, [0, 127]));
    assert_eq!(row("W", 0, "MPI_Isend"), (4, 8004, 0.125, [1024, 8191]));
    assert_eq!(row("W", 2, "MPI_Recv"), (1, 40_000_000, 0.25, [33_554_432, u64::MAX]));
    assert_eq!(
        row("s1.2", 1, "MPI_Alltoallv"),
        (5, 4_000_017, 2.0, [0, u64::MAX]),
        "sizes are not told apart"
    );
    assert_eq!(row("*0.0", 0, "MPI_Waitall"), (4, 0, 0.0625, [0, 0]));
    assert_eq!(row("d0.3", 1, "MPI_Win_fence"), (2, 0, 0.5, [0, 0]));
    let ranks: Vec<RankRow> = other.rows();
    let times: Vec<(&str, f64, f64)> =
        ranks.iter().map(|row| (row.host.as_str(), row.wall_s.0, row.mpi_s.0)).collect();
    assert_eq!(times, [("n0", 10.5, 1.4375), ("n0", 10.0, 4.0), ("n1", 9.5, 0.75)]);
    let comms: Vec<CommRow> = other.rows();
    let comm = |name: &str| comms.iter().find(|row| row.comm == name).unwrap();
    assert_eq!(comm("W").members.to_string(), "0-2");
    assert_eq!(comm("s1.2").members.to_string(), "1~1", "one member has no call on it");
    assert_eq!((comm("s1.2").size, comm("s1.2").created_by.as_str()), (2, "MPI_Comm_split"));
    let run = other.profile();
    let run = run.run();
    assert_eq!((run.format_version, run.ranks, run.nodes), (FORMAT_VERSION, 3, 2));
    assert_eq!(
        (run.command.join(" ").as_str(), run.end.as_str()),
        ("./app input.dat", "2025-11-05T00:22:31")
    );
}

#[test]
fn mpip_has_ranks_and_operations() {
    let other = mpip();
    let calls: Vec<CallRow> = other.rows();
    let row = |rank: u32, call: &str| {
        let found: Vec<&CallRow> =
            calls.iter().filter(|row| (row.rank, row.call.as_str()) == (rank, call)).collect();
        assert_eq!(found.len(), 1, "{call} of {rank}");
        let row = found[0];
        (row.calls, row.bytes, row.time_s.0, [row.min_s.0, row.max_s.0], [row.size_min, row.size_max])
    };
    assert_eq!(row(0, "MPI_Allreduce"), (11, 88, 2.25, [0.1, 1.0], [8, 15]), "both call sites");
    assert_eq!(row(0, "MPI_Send"), (4, 8192, 0.21, [0.05, 0.06], [512, 8191]));
    assert_eq!(row(1, "MPI_Recv"), (4, 0, 0.332, [0.07, 0.1], [0, u64::MAX]), "what came is unknown");
    assert_eq!(
        row(1, "MPI_Alltoallv"),
        (1, 0, 0.002, [0.002, 0.002], [0, u64::MAX]),
        "mpiP does not count its bytes"
    );
    assert_eq!(row(1, "MPI_Barrier"), (1, 0, 0.001, [0.001, 0.001], [0, 0]));
    assert!(calls.iter().all(|row| row.comm == "unknown"), "nothing is charged to the world");
    let ranks: Vec<RankRow> = other.rows();
    assert_eq!((ranks[1].host.as_str(), ranks[1].wall_s.0, ranks[1].mpi_s.0), ("n1", 9.51, 0.452));
    let run = other.profile();
    assert_eq!(run.run().start, "2025-06-01T12:00:00");
}

/// Calls and bytes of an operation by rank.
fn by_rank(calls: &[CallRow], call: &str) -> Vec<(u64, u64)> {
    let of = |rank: u32| {
        let rows = calls.iter().filter(move |row| row.rank == rank && row.call == call);
        rows.fold((0, 0), |(calls, bytes), row| (calls + row.calls, bytes + row.bytes))
    };
    (0..4).map(of).collect()
}

#[test]
fn ranks_below_a_threshold_of_mpip_have_their_calls() {
    for (report, options) in [
        (&include_bytes!("mpip/mixed_t10_k2.mpiP")[..], "-t 10.0 -k 2"),
        (include_bytes!("mpip/mixed_t60.1.mpiP"), "-t 60"),
        (include_bytes!("mpip/mixed_t99.1.mpiP"), "-t 99"),
        (include_bytes!("mpip/mixed_l_t60.mpiP"), "-l -t 60"),
    ] {
        let other = Other::report_of_bytes(report);
        other.import("app.2.4711.1.mpiP");
        let calls: Vec<CallRow> = other.rows();
        for (call, of_each) in [
            ("MPI_Barrier", (5, 0)),
            ("MPI_Allreduce", (1000, 8000)),
            ("MPI_Bcast", (500, 32_000)),
            ("MPI_Sendrecv", (300, 12_000)),
            ("MPI_File_write_at", (10, 1000)),
            ("MPI_File_open", (1, 0)),
            ("MPI_File_close", (1, 0)),
        ] {
            assert_eq!(by_rank(&calls, call), [of_each; 4], "{call} with {options}");
        }
        let notes = &other.profile().run().notes.join(" ");
        assert!(notes.contains(&format!("below its threshold (MPIP={options})")), "{notes}");
        assert!(notes.contains("so differences between these ranks are not shown"), "{notes}");
        let summary = other.run(&["summary", "app.mpisee"]);
        assert!(
            summary.exits(0).stdout.contains("mpiP left out rows below its threshold"),
            "{}",
            summary.stdout
        );
        other.run(&["check", "app.mpisee"]).exits(0);
    }
}

#[test]
fn a_rank_whose_calls_are_known_by_exclusion_keeps_its_time() {
    // With -t 60 the barriers of ranks 1 to 3 are named: rank 0, which slept outside of MPI, made
    // the others.
    let other = Other::report_of_bytes(include_bytes!("mpip/mixed_t60.1.mpiP"));
    other.import("app.2.4711.1.mpiP");
    let calls: Vec<CallRow> = other.rows();
    let time =
        |rank| calls.iter().find(|row| row.rank == rank && row.call == "MPI_Barrier").unwrap().time_s.0;
    assert!((time(0) - 0.000_555).abs() < 1e-9 && (time(2) - 1.0).abs() < 1e-9, "{} {}", time(0), time(2));
}

#[test]
fn a_report_of_low_memory_has_no_call_of_no_time() {
    // With -l, rows of all ranks have a least time of 0 where a rank has no call.
    let other = Other::report_of_bytes(include_bytes!("mpip/mixed_l_t60.mpiP"));
    other.import("app.2.4711.1.mpiP");
    let calls: Vec<CallRow> = other.rows();
    let of_barriers: Vec<&CallRow> = calls.iter().filter(|row| row.call == "MPI_Barrier").collect();
    assert_eq!(of_barriers.len(), 4);
    for row in of_barriers {
        assert!((row.min_s.0 - 0.000_058_2).abs() < 1e-9, "the mean of rank 0: {row:?}");
        assert!((row.max_s.0 - 0.221).abs() < 1e-9, "{row:?}");
    }
    assert!(calls.iter().all(|row| row.min_s.0 > 0.0), "{calls:?}");
}

#[test]
fn a_concise_report_is_refused_with_what_to_do() {
    let other = Other::report_of_bytes(include_bytes!("mpip/mixed_c.mpiP"));
    let parts = ["a concise one (-c), without calls by rank", "run with MPIP=-v"];
    is_refused(&other, "app.2.4711.1.mpiP", &parts);
}

#[test]
fn a_report_may_have_bytes_that_are_no_text() {
    let other = Other::report_of_bytes(include_bytes!("mpip/latin1_argument.mpiP"));
    other.import("app.2.4711.1.mpiP");
    assert_eq!(other.profile().run().command, ["./nbr", "caf\u{fffd}"]);
}

#[test]
fn commands_say_what_an_import_lacks() {
    for (other, name) in [(cpp_mpisee(), "cpp"), (mpip(), "mpip")] {
        let json = other.run(&["check", "app.mpisee", "--format", "json"]);
        let document: serde_json::Value = serde_json::from_str(&json.exits(0).stdout).unwrap();
        assert_eq!(
            (&document["checks"][3]["check"], &document["checks"][3]["unknown"]),
            (&"traffic".into(), &true.into())
        );
        for command in ["summary", "ops", "comms", "sizes", "ranks", "check", "efficiency", "advise"] {
            let arguments = [command, "app.mpisee", "--width", "120"];
            other.run(&arguments).golden(&format!("import-{name}-{command}"));
        }
        for command in [&["matrix"][..], &["locality"], &["export", "--graph", "ranks", "--dot", "-"]] {
            let ran = other.run(&[command, &["app.mpisee"]].concat());
            ran.fails_with(&["'app.mpisee' is imported from", "does not have who sent to whom"]);
        }
        other.run(&["waits", "app.mpisee"]).fails_with(&["does not record when ranks arrive"]);
    }
}

#[test]
fn what_is_no_import_is_said_in_a_sentence() {
    const END: &str = "@--- End of Report -------\n";
    let other = Other::report(&format!("@ mpiP\n@ Command : ./app\n{END}"));
    let import = |file: &str| other.run(&["import", file]);
    import("app.2.4711.1.mpiP")
        .fails_with(&["cannot be imported as a report of mpiP", "no line '@ MPI Task Assignment'"]);
    std::fs::write(other.0.path().join("cut.mpiP"), "@ mpiP\n@ Command : ./app\n").unwrap();
    import("cut.mpiP")
        .fails_with(&["cannot be imported as a report of mpiP", "does not end with '@--- End of Report'"]);
    import("none.mpiP").fails_with(&["cannot read 'none.mpiP'"]);
    std::fs::write(other.0.path().join("text"), "nothing of either").unwrap();
    import("text").fails_with(&["'text' is neither a database of the C++ mpisee nor a report of mpiP"]);
    std::fs::write(other.0.path().join("cut.db"), b"SQLite format 3\0").unwrap();
    import("cut.db").fails_with(&["'cut.db' cannot be imported as a database of the C++ mpisee"]);
    let short = REPORT.replace("(all, milliseconds)", "(all callsites, milliseconds)");
    Other::report(&short).run(&["import", "app.2.4711.1.mpiP"]).fails_with(&["leaves out with -d"]);
    let negative = REPORT.replace("10       20       12", "10       20      -12");
    Other::report(&negative).run(&["import", "app.2.4711.1.mpiP"]).fails_with(&["-0.12", "time in seconds"]);
    Other::database("INSERT INTO mappings VALUES (1, 'n0')")
        .run(&["import", "mpisee_1.db"])
        .fails_with(&["rank 0 is missing in mappings"]);
}

/// Expects that the import fails with these parts of a sentence, and leaves nothing.
#[track_caller]
fn is_refused(other: &Other, file: &str, parts: &[&str]) {
    other.run(&["import", file, "-o", "app.mpisee"]).fails_with(parts);
    let left: Vec<_> = std::fs::read_dir(other.0.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, [file], "nothing is written");
}

#[test]
fn numbers_in_a_report_that_cannot_be_are_named_by_their_line() {
    let time = "Allreduce            1    1     10       20       12        8";
    let size = "Send                 2    0       4      4096      2048       512      8192";
    for (line, wrong, parts) in [
        (time, "Allreduce 1 1 10 20 NaN 8", ["its line 'Allreduce 1 1 10 20 NaN 8", "has NaN where a time"]),
        (
            time,
            "Allreduce 1 1 NaN 20 12 8",
            ["its line 'Allreduce 1 1 NaN", "has NaN where a number of calls"],
        ),
        (time, "Allreduce 1 1 -3 20 12 8", ["its line 'Allreduce 1 1 -3", "has -3 where a number of calls"]),
        (
            time,
            "Allreduce 1 1 1e30 20 0 0",
            ["its line 'Allreduce 1 1 1e30", "where a number of calls or bytes"],
        ),
        (time, "Allreduce 1 1 10 20000 12 8", ["a call of 20.0 s", "the rank ran for 9.51 s"]),
        (time, "Allreduce 1 1 10 20 2e4 8", ["a call of 20.0 s", "the rank ran for 9.51 s"]),
        (time, "Allreduce 1 1 1e8 20 12 8", ["calls of 1200000 s in all", "the rank ran for 9.51 s"]),
        (time, "Allreduce 1 1 10 20 12 80", ["a shortest call of 80.0 ms", "a longest of 20.0 ms"]),
        (time, "Allreduce 1 1 10 inf 12 8", ["its line 'Allreduce 1 1 10 inf", "has inf where a time"]),
        (
            size,
            "Send 2 0 4 1e300 2048 512 8192",
            ["its line 'Send 2 0 4 1e300", "where a number of calls or bytes"],
        ),
        (size, "Send 2 0 4 4096 2048 -512 8192", ["its line 'Send 2 0 4 4096", "has -512 where a number"]),
        (size, "Send 2 0 4 4096 2048 512 NaN", ["its line 'Send 2 0 4 4096", "has NaN where a number"]),
        (size, "Send 2 0 4 4 2048 512 8192", ["a smallest message of 512 bytes", "a largest of 4"]),
        ("   1       9.51", "   1       1e12", ["its line '1       1e12", "where a time in seconds"]),
    ] {
        assert!(REPORT.contains(line), "{line}");
        let other = Other::report(&REPORT.replace(line, wrong));
        is_refused(&other, "app.2.4711.1.mpiP", &parts);
    }
    let sent = REPORT.split_once("Sent statistics").unwrap().1;
    let many = sent.replace("        80\n", "        9e18\n").replace("8192\n", "9e18\n");
    let other = Other::report(&REPORT.replace(sent, &many));
    is_refused(&other, "app.2.4711.1.mpiP", &["its bytes add up to more than 2^64"]);
}

#[test]
fn numbers_in_a_database_that_cannot_be_are_named_by_their_row() {
    for (change, parts) in [
        ("UPDATE data SET time = -1.0 WHERE id = 3", ["row 3 of its table data", "has -1 where a time"]),
        // SQLite keeps NaN as NULL.
        (
            "UPDATE data SET time = NULL WHERE id = 3",
            ["row 3 of its table data", "type Null in the column time"],
        ),
        ("UPDATE data SET time = 9e999 WHERE id = 3", ["row 3 of its table data", "has inf where a time"]),
        (
            "UPDATE data SET time = 1000.0 WHERE id = 2",
            ["row 2 of its table data has a call of 100 s", "ran for 10.5 s"],
        ),
        (
            "UPDATE data SET calls = -7 WHERE id = 4",
            ["row 4 of its table data", "has -7, which is out of range"],
        ),
        (
            "UPDATE data SET volume = 'much' WHERE id = 4",
            ["row 4 of its table data", "type Text in the column volume"],
        ),
        (
            "UPDATE data SET buffer_size_min = 999 WHERE id = 2",
            ["row 2 of its table data", "a smallest message of 999 bytes"],
        ),
        (
            "UPDATE data SET volume = 9223372036854775807",
            ["its bytes add up to more than 2^64", "mpisee_1.db"],
        ),
        (
            "UPDATE data SET comm_id = 77 WHERE id = 5",
            ["row 5 of its table data", "type Null in the column name"],
        ),
        (
            "UPDATE comms SET size = -1 WHERE id = 3",
            ["row 3 of its table comms", "has -1, which is out of range"],
        ),
        (
            "UPDATE exectimes SET time = 'nan' WHERE id = 1",
            ["row 1 of its table exectimes", "type Text in the column time"],
        ),
        (
            "UPDATE exectimes SET time = -2 WHERE id = 1",
            ["row 1 of its table exectimes", "has -2 where a time"],
        ),
    ] {
        let other = Other::database(&format!("{ROWS}{change};"));
        is_refused(&other, "mpisee_1.db", &parts);
    }
}

#[test]
fn an_import_never_overwrites() {
    let other = cpp_mpisee();
    other
        .run(&["import", "mpisee_1.db", "-o", "app.mpisee"])
        .prints("app-2.mpisee: 3 ranks, 4 communicators, 8 rows of calls, since app.mpisee exists\n");
    other
        .run(&["import", "mpisee_1.db"])
        .prints("mpisee_1.mpisee: 3 ranks, 4 communicators, 8 rows of calls\n");
    let recorded = splatt().write();
    let ran = recorded.run(&["check", "app.mpisee"]);
    assert!(!ran.exits(0).stdout.contains("unknown"), "what is recorded is checked\n{}", ran.stdout);
}
