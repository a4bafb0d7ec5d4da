//! Files: what is read and written counts on the communicator on which the file was opened.

use crate::exact::{assert_all_seen, assert_calls, assert_classes, assert_peers, counts};
use mpisee_profile::segment::NotSeen;
use mpisee_tests::{Finished, Mpi, Run, case, through};

/// The reads and writes of a file, with their bytes; of those in two halves, the second half.
const TRANSFERS: &[(&str, u64, u64)] = &[
    ("MPI_File_write_at", 3, 1009 + 3 * 30 * 4),
    ("MPI_File_write_at_all", 1, 1013),
    // Of the 2003 bytes that it reads, 500 are there.
    ("MPI_File_read_at", 1, 500),
    ("MPI_File_read_at_all", 1, 211 * 4),
    ("MPI_File_write", 1, 1019),
    ("MPI_File_write_all", 1, 1021),
    ("MPI_File_read", 1, 1031),
    ("MPI_File_read_all", 1, 1033),
    ("MPI_File_write_shared", 1, 307),
    ("MPI_File_write_ordered", 1, 311),
    ("MPI_File_read_shared", 1, 313),
    ("MPI_File_read_ordered", 1, 317),
    ("MPI_File_iwrite_at", 1, 401),
    ("MPI_File_iwrite", 1, 409),
    ("MPI_File_iread_at", 1, 421),
    ("MPI_File_iread", 1, 431),
    ("MPI_File_iwrite_shared", 1, 433),
    ("MPI_File_iread_shared", 1, 439),
    ("MPI_File_iwrite_at_all", 1, 443),
    ("MPI_File_iwrite_all", 1, 449),
    ("MPI_File_iread_at_all", 1, 457),
    ("MPI_File_iread_all", 1, 461),
    ("MPI_File_write_at_all_end", 1, 503),
    ("MPI_File_write_all_end", 1, 509),
    ("MPI_File_write_ordered_end", 1, 521),
    ("MPI_File_read_at_all_end", 1, 523),
    ("MPI_File_read_all_end", 1, 541),
    ("MPI_File_read_ordered_end", 1, 547),
];

/// Calls that have time and no bytes.
const PLAIN: &[(&str, u64, u64)] = &[
    ("MPI_File_open", 2, 0),
    ("MPI_File_preallocate", 1, 0),
    ("MPI_File_set_size", 1, 0),
    ("MPI_File_get_size", 1, 0),
    ("MPI_File_set_view", 1, 0),
    ("MPI_File_sync", 1, 0),
    ("MPI_File_seek", 4, 0),
    ("MPI_File_seek_shared", 4, 0),
    ("MPI_File_write_at_all_begin", 1, 0),
    ("MPI_File_write_all_begin", 1, 0),
    ("MPI_File_write_ordered_begin", 1, 0),
    ("MPI_File_read_at_all_begin", 1, 0),
    ("MPI_File_read_all_begin", 1, 0),
    ("MPI_File_read_ordered_begin", 1, 0),
    ("MPI_File_close", 1, 0),
    ("MPI_Wait", 8, 0),
    ("MPI_Waitall", 1, 0),
    ("MPI_Comm_split", 1, 0),
];

#[case]
fn files_count_on_the_communicator_on_which_they_were_opened(mpi: &Mpi) {
    let finished = Run::new(mpi, "io/files").profiled();
    let tables = finished.tables();
    for rank in 0..4 {
        assert_calls(tables, "W", rank, &[TRANSFERS, PLAIN].concat());
        assert_classes(tables, "W", rank, "MPI_File_write_at", &[1009, 0, 360]);
        assert_classes(tables, "W", rank, "MPI_File_read_at", &[500]);
        assert_classes(tables, "W", rank, "MPI_File_iread_at", &[421]);
        let on_half = [
            ("MPI_File_open", 1, 0),
            ("MPI_File_write_at", 1, 601 + u64::from(rank)),
            ("MPI_File_close", 1, 0),
            ("MPI_Comm_free", 1, 0),
        ];
        assert_calls(tables, &format!("W_s1.{}", rank % 2), rank, &on_half);
    }
    assert_peers(tables, &[]);
    assert_all_seen(tables);
    finished.check();
}

#[case]
fn file_counts_do_not_depend_on_the_mpi() {
    let run = |mpi: &Mpi| Run::new(mpi, "io/files").profiled();
    let finished: Vec<Finished> = Mpi::all().iter().map(run).collect();
    for other in &finished[1..] {
        assert_eq!(counts(finished[0].tables()), counts(other.tables()));
    }
}

#[case]
fn romio_of_open_mpi_is_not_taken_for_the_program() {
    // It calls functions of MPI under their exported names. The nonblocking collective ones it
    // lacks.
    for mpi in Mpi::all().iter().filter(|mpi| mpi.is_open_mpi) {
        if mpi.is_left_out(&["openmpi-5"], "it is built without ROMIO") {
            continue;
        }
        let run = || Run::new(mpi, "io/files").argument("blocking");
        let romio = run().variable("OMPI_MCA_io", "romio321").profiled();
        assert_eq!(counts(romio.tables()), counts(run().profiled().tables()));
        assert_all_seen(romio.tables());
    }
}

#[case]
fn a_file_of_unknown_origin_is_not_seen(mpi: &Mpi) {
    if mpi.is_left_out(&["mpiabi"], "what is no file ends the program") {
        return;
    }
    let finished = Run::new(mpi, "io/files").ranks(2).argument("unknown").profiled();
    let tables = finished.tables();
    // Two writes, the close and what is no file, on each rank; the wait for the second write.
    let not_seen = [(NotSeen::UnknownFile.name().to_owned(), 2 * 4)].into_iter();
    let waits = [(NotSeen::UnknownRequest.name().to_owned(), 2)];
    assert_eq!(tables.run.not_seen, not_seen.chain(waits).collect());
    assert!(tables.calls.is_empty(), "{:?}", tables.calls);
}

#[case]
fn file_operations_are_a_kind_of_their_own(mpi: &Mpi) {
    let finished = Run::new(mpi, "io/files").ranks(1).profiled();
    let directory = finished.directory().display().to_string();
    let output = through(&[&directory, "--kind", "io", "--all", "--format", "csv"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("MPI_File_iread") && said.contains("MPI_File_close"), "{said}");
    assert!(!said.contains("MPI_Wait"), "{said}");
}

#[case]
fn a_file_that_was_opened_while_recording_was_off_is_known(mpi: &Mpi) {
    let finished = Run::new(mpi, "io/files").ranks(2).argument("off").profiled();
    let tables = finished.tables();
    for rank in 0..2 {
        assert_calls(tables, "W", rank, &[("MPI_File_write_at", 1, 73)]);
    }
    assert_all_seen(tables);
}
