//! Correct MPI programs that are hard on a profiler (`tests/programs/hostile`), run without it and
//! with it.
#![allow(dead_code, reason = "each test file uses its part")]

use mpisee_profile::comm_name::is_shared_row;
use mpisee_tests::{Finished, Mpi, Place, Run, Tables};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// A program and how to start it.
pub struct Case {
    pub program: &'static str,
    pub ranks: u32,
    pub argument: &'static str,
    pub compiler: &'static [&'static str],
    pub launcher: &'static [&'static str],
    pub options: &'static [&'static str],
    /// Segments that may stay: of ranks that ended without `MPI_Finalize` as far as the library can
    /// see.
    pub may_stay: usize,
}

/// `tests/programs/hostile/PROGRAM.c` on so many ranks.
pub const fn case(program: &'static str, ranks: u32) -> Case {
    Case { program, ranks, argument: "", compiler: &[], launcher: &[], options: &[], may_stay: 0 }
}

/// The lines that a program printed, in alphabetical order, without UCX's about receives that
/// nobody completed.
pub fn sorted(stdout: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        stdout.lines().filter(|line| !line.contains("UCX  WARN")).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

impl Case {
    pub fn argument(self, argument: &'static str) -> Case {
        Case { argument, ..self }
    }

    pub fn options(self, options: &'static [&'static str]) -> Case {
        Case { options, ..self }
    }

    pub fn compile(&self, mpi: &Mpi) -> PathBuf {
        mpi.compile_with(&format!("hostile/{}", self.program), self.compiler)
    }

    pub fn prepare<'m>(&self, mpi: &'m Mpi, place: &Place) -> Run<'m> {
        let run = Run::from_program(mpi, self.compile(mpi)).ranks(self.ranks).launched_with(self.launcher);
        let run = run.variable("MPISEE_SEGMENTS", &place.segments().display().to_string());
        if self.argument.is_empty() { run } else { run.argument(self.argument) }
    }

    /// Runs the program without the profiler and with it, and compares. Both runs end with code 0.
    pub fn run(&self, mpi: &Mpi) -> Finished {
        mpisee_tests::note!("{} {}", self.program, self.argument);
        let place = Place::new();
        let plain = self.prepare(mpi, &place).plain();
        let profiled = self.prepare(mpi, &place).options(self.options).profiled();
        assert_eq!(sorted(&profiled.stdout), sorted(&plain.stdout), "{}", profiled.stderr);
        let left = place.left();
        assert!(left.len() <= self.may_stay, "segments stay: {left:?}");
        profiled
    }
}

/// The ranks of which the profile has counters.
pub fn ranks(tables: &Tables) -> Vec<u32> {
    tables.ranks.iter().map(|row| row.rank).collect()
}

/// The communicators that `call` created, but those that share a row, each name once.
pub fn created_by<'t>(tables: &'t Tables, call: &str) -> BTreeMap<&'t str, String> {
    let rows: Vec<_> = tables.comms.iter().filter(|row| row.created_by == call).collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.comm.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "two communicators have one name");
    let own = rows.into_iter().filter(|row| !is_shared_row(&row.comm));
    own.map(|row| (row.comm.as_str(), row.members.to_string())).collect()
}
