//! Every flavour under every MPI: it records where it fits, and is a bystander elsewhere.

use mpisee_profile::rows::CallRow;
use mpisee_tests::python::{self, Stack};
use mpisee_tests::{Mpi, Run, case};

#[case]
fn a_flavour_records_under_every_version_of_its_mpi_and_says_what_it_misses(mpi: &Mpi) {
    for other in Mpi::all().iter().filter(|other| other.family == mpi.family) {
        mpisee_tests::note!("    with the library for {}", other.name);
        let finished = Run::new(mpi, "point_to_point/blocking_sends").ranks(2).preloaded_with(other);
        let tables = finished.tables();
        assert_eq!(tables.run.mpi.flavour, other.name);
        assert_eq!(tables.of_rank("W", "MPI_Send", 0).bytes, 1009);
        assert_eq!(tables.of_rank("W", "MPI_Irecv", 1).bytes, 8009);
        finished.check();
        let notes = tables.run.notes.join("\n");
        let (here, there) = (mpi.counted_functions(), other.counted_functions());
        for (has, lacks, sentence) in
            [(&here, &there, "are not counted: "), (&there, &here, "which this MPI lacks: ")]
        {
            let named = has.difference(lacks).all(|function| notes.contains(function.as_str()));
            assert!(named, "{notes}");
            assert_eq!(notes.contains(sentence), has.difference(lacks).next().is_some(), "{notes}");
        }
    }
}

#[case]
fn a_flavour_of_another_mpi_says_so_and_leaves_the_program_alone(mpi: &Mpi) {
    for other in Mpi::all().iter().filter(|other| other.family != mpi.family) {
        mpisee_tests::note!("    with the library for {}", other.name);
        let finished = Run::new(mpi, "point_to_point/blocking_sends").ranks(2).preloaded_in_vain(other);
        let said = format!("this libmpisee.so is for {}, the program runs ", other.name);
        assert_eq!(finished.stderr.matches(&said).count(), 1, "{}", finished.stderr);
        assert!(!finished.directory().exists());
        // A library that has no sessions is not called by a program of sessions alone.
        if [mpi, other].iter().all(|it| it.counted_functions().contains("MPI_Session_init")) {
            let finished = Run::new(mpi, "lifecycle/sessions").preloaded_in_vain(other);
            assert_eq!(finished.stderr.matches(&said).count(), 1, "{}", finished.stderr);
        }
    }
}

#[case]
fn intel_mpi_is_recorded_by_flavours_of_its_interfaces() {
    if !Stack::are_there() {
        mpisee_tests::harness::leave_out(
            "Python with venv and pip is not installed (on Debian python3-venv)",
        );
        return;
    }
    for intel in python::intel_mpi() {
        for flavour in Mpi::all() {
            mpisee_tests::note!("--- {} with the library for {}", intel.name, flavour.name);
            if flavour.family != intel.family {
                let finished =
                    Run::new(&intel, "point_to_point/blocking_sends").ranks(2).preloaded_in_vain(&flavour);
                let said = format!("this libmpisee.so is for {}, the program runs ", flavour.name);
                assert_eq!(finished.stderr.matches(&said).count(), 1, "{}", finished.stderr);
                continue;
            }
            let finished =
                Run::new(&intel, "point_to_point/blocking_sends").ranks(2).preloaded_with(&flavour);
            let tables = finished.tables();
            assert!(tables.run.mpi.library.contains("Intel"), "{}", tables.run.mpi.library);
            assert_eq!(tables.of_rank("W", "MPI_Send", 0).bytes, 1009);
            assert_eq!(tables.of_rank("W", "MPI_Irecv", 1).bytes, 8009);
            finished.check();
            let options = ["--flavour", &flavour.name];
            let run = Run::new(&intel, "communicators/split_and_free").ranks(2).argument(3).options(&options);
            let finished = run.profiled();
            let barriers = |row: &CallRow| row.comm == "W_s3.1" && row.call == "MPI_Barrier";
            assert_eq!(finished.tables().sum_where(barriers).calls, 1);
            finished.check();
        }
    }
}
