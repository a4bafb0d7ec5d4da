//! The profile's way from the ranks to its place, and to another one where it cannot be there.

use mpisee_profile::rows::{CallRow, Seconds};
use mpisee_tests::{Ended, LIMIT, Mpi, Place, Run, Tables, case, dist, through};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

const RANKS: u32 = 4;
const COPIES: u64 = 20;

/// A run without a place for its profile, which has ended.
struct Left(Ended);

impl Left {
    /// Runs `no_place HOW`; `None`, with a sentence, where it may not mount anything.
    fn by(mpi: &Mpi, collect: &str, how: &str, output: &str) -> Option<Left> {
        let place = Place::new();
        for name in ["out", "temporary"] {
            std::fs::create_dir(place.path(name)).expect("it is empty");
        }
        let temporary = place.path("temporary").display().to_string();
        let mut command = mpi.launcher(RANKS, &[("TEMPORARY".to_owned(), temporary)]);
        command
            .arg(dist().join("bin/mpisee"))
            .args(["--output", output, "--collect", collect])
            .arg("--segments")
            .arg(place.segments());
        command.arg(mpi.compile("lifecycle/no_place")).arg(how).arg(place.path("out")).arg(place.segments());
        let ended = place.run_within(LIMIT, &mut command);
        if ended.code == Some(77) {
            mpisee_tests::harness::leave_out("this test may not mount file systems here");
            return None;
        }
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        Some(Left(ended))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.place.path(name)
    }

    /// The one line of the profiler.
    fn said(&self) -> &str {
        let [said] = self.0.said()[..] else { panic!("{}", self.0.stderr) };
        said
    }

    fn segments(&self) -> usize {
        self.0.place.left().len()
    }

    /// Asserts that the profile is whole and lies there, and that it was said.
    fn assert_in(&self, directory: &Path, why: &str, collected: &str) {
        let said = self.said();
        let place = format!("is in {} instead; read it with: mpisee-through", directory.display());
        assert!(said.contains(why) && said.contains(&place), "{said}");
        self.assert_whole(directory, collected);
    }

    /// Asserts that the profile has all that was counted, and that no segment is left.
    fn assert_whole(&self, directory: &Path, collected: &str) {
        let tables = Tables::read(directory, &self.0.stderr);
        assert!(tables.run.complete);
        assert_eq!(tables.run.profiler.collected, collected);
        assert_counted(&tables);
        let checked = through(&["check", &directory.display().to_string()]);
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
        assert_eq!(self.segments(), 0);
    }
}

/// Runs `test` under every MPI with each value of `--collect`, and what `run.json` then says.
fn by_each_way(mpi: &Mpi, test: impl Fn(&Mpi, &str, &str)) {
    for (collect, collected) in [("auto", "node"), ("tree", "tree")] {
        test(mpi, collect, collected);
    }
}

/// Asserts that every call is there, once.
fn assert_counted(tables: &Tables) {
    assert_eq!(tables.ranks.len(), RANKS as usize);
    for n in 1..=COPIES {
        let comm = format!("W_d{n}");
        for rank in 0..RANKS {
            assert_eq!(tables.of_rank(&comm, "MPI_Bcast", rank).calls, 1, "{comm}");
            assert_eq!(tables.of_rank(&comm, "MPI_Barrier", rank).calls, n, "{comm}");
        }
        assert_eq!(tables.sum(&comm, "MPI_Bcast").bytes, u64::from(RANKS - 1) * (2000 + n));
    }
}

#[case]
fn where_the_file_system_is_full_the_profile_goes_to_the_working_directory(mpi: &Mpi) {
    by_each_way(mpi, |mpi, collect, collected| {
        let Some(left) = Left::by(mpi, collect, "full", "out/test.mpisee") else { return };
        left.assert_in(&left.path("test.mpisee"), "No space left on device", collected);
    });
}

#[case]
fn where_the_file_system_is_read_only_the_profile_goes_to_the_working_directory(mpi: &Mpi) {
    by_each_way(mpi, |mpi, collect, collected| {
        let Some(left) = Left::by(mpi, collect, "read-only", "out/test.mpisee") else { return };
        left.assert_in(&left.path("test.mpisee"), "Read-only file system", collected);
    });
}

#[case]
fn where_the_working_directory_is_gone_the_profile_goes_where_the_program_was_started(mpi: &Mpi) {
    by_each_way(mpi, |mpi, collect, collected| {
        let Some(left) = Left::by(mpi, collect, "gone", "test.mpisee") else { return };
        let expected = "mpisee: profile of 4 ranks in test.mpisee; read it with: mpisee-through test.mpisee";
        assert_eq!(left.said(), expected);
        left.assert_whole(&left.path("test.mpisee"), collected);
    });
}

#[case]
fn where_there_is_no_place_at_all_the_segments_are_kept_and_recovered(mpi: &Mpi) {
    by_each_way(mpi, |mpi, collect, _| {
        let Some(left) = Left::by(mpi, collect, "nowhere", "out/test.mpisee") else { return };
        let segments = left.path("segments").display().to_string();
        let said = left.said();
        assert!(
            said.starts_with("mpisee: no profile: cannot create '")
                && said.contains("out/test.mpisee': ")
                && said.contains("run: mpisee-through recover --only ")
                && said.ends_with(&format!(" {segments}")),
            "{said}"
        );
        assert_eq!(left.segments(), RANKS as usize);
        let wanted = left.path("recovered.mpisee");
        let recovered = through(&["recover", &segments, "--output", &wanted.display().to_string()]);
        assert!(recovered.status.success(), "{}", String::from_utf8_lossy(&recovered.stderr));
        assert_counted(&Tables::read(&wanted, &left.0.stderr));
    });
}

#[case]
fn rows_come_in_the_order_of_ranks(mpi: &Mpi) {
    for (ranks, collect) in [(1, "tree"), (3, "tree"), (16, "tree"), (3, "auto")] {
        let finished = collected(mpi, "lifecycle/in_order", ranks, collect).profiled();
        let tables = finished.check().tables();
        assert_eq!(how(tables), (if collect == "tree" { "tree" } else { "node" }, &[][..]));
        assert_eq!(tables.run.names_agree, Some(true));
        let of: Vec<u32> = tables.ranks.iter().map(|row| row.rank).collect();
        assert_eq!(of, (0..ranks).collect::<Vec<_>>());
        assert!(tables.calls.is_sorted_by_key(|row| row.rank));
        assert!(tables.run.complete);
        // More rows than one piece holds, of every second rank.
        for n in 1..=300u64 {
            let region = format!("a region with a name that makes the rows long, the one with number {n}");
            for rank in 0..ranks {
                let here = |row: &mpisee_profile::rows::CallRow| row.rank == rank && row.region == region;
                let expected = if rank % 2 == 1 { n } else { 0 };
                assert_eq!(tables.sum_where(here).calls, expected, "{rank}, {region}");
            }
        }
        let itself = tables.comm("S");
        assert_eq!((itself.size, itself.members.group.len()), (1, u64::from(ranks)));
        let names: BTreeSet<&str> = tables.comms.iter().map(|row| row.comm.as_str()).collect();
        assert_eq!(names.len(), tables.comms.len());
    }
}

/// Columns that are the same in each run of the same program: all but times.
fn counted(tables: &Tables) -> Vec<String> {
    let ranks = tables.ranks.iter().map(|row| format!("{} {}", row.rank, row.host));
    let comms = tables.comms.iter().map(|row| format!("{row:?}"));
    let calls = tables.calls.iter().map(|row| {
        let times = [Seconds(0.0); 3];
        let [time_s, min_s, max_s] = times;
        format!("{:?}", CallRow { time_s, min_s, max_s, time_error_s: None, ..row.clone() })
    });
    let peers = tables.peers.iter().map(|row| format!("{row:?}"));
    ranks.chain(comms).chain(calls).chain(peers).collect()
}

/// A program whose rows are written as `collect` says.
fn collected<'m>(mpi: &'m Mpi, program: &str, ranks: u32, collect: &str) -> Run<'m> {
    Run::new(mpi, program).ranks(ranks).options(&["--collect", collect])
}

/// The method of writing the rows, and the notes.
fn how(tables: &Tables) -> (&str, &[String]) {
    (&tables.run.profiler.collected, &tables.run.notes)
}

#[case]
fn tree_and_segments_give_the_same_profile(mpi: &Mpi) {
    // Ranks with many rows make these themselves, for the one that writes the profile of the node.
    for (program, ranks) in [
        ("lifecycle/in_order", 1),
        ("lifecycle/in_order", 6),
        ("collectives/collectives", 4),
        ("lifecycle/many_rows", 3),
    ] {
        let through_tree = collected(mpi, program, ranks, "tree").profiled();
        let through_tree = through_tree.check().tables();
        assert_eq!(how(through_tree), ("tree", &[][..]));
        let from_segments = collected(mpi, program, ranks, "auto").profiled();
        let from_segments = from_segments.check().tables();
        assert_eq!(how(from_segments), ("node", &[][..]));
        assert!(from_segments.run.complete);
        assert_eq!(counted(from_segments), counted(through_tree), "{program} on {ranks}");
    }
}

/// Rank 0 comes last, and has changed the names in the files of the others' rows before.
#[case]
fn the_last_rank_copies_the_rows_that_others_have_left(mpi: &Mpi) {
    const RANKS: u32 = 3;
    let place = Place::new();
    let folder = place.segments().display().to_string();
    let copied = collected(mpi, "lifecycle/rows_left", RANKS, "auto");
    let copied = copied.options(&["--segments", &folder]).argument(&folder).profiled();
    let copied = copied.check().tables();
    assert_eq!((how(copied), place.left().len()), (("node", &[][..]), 0));
    let calls_in =
        |name: &str, rank: u32| copied.sum_where(|row| row.region == name && row.rank == rank).calls;
    for rank in 0..RANKS {
        let calls = [COUNTED, COPIED].map(|name| calls_in(name, rank));
        assert_eq!(calls, if rank == 0 { [300 * 16, 0] } else { [0, 300 * 16] }, "rank {rank}");
    }
    // All else is as in a profile from counts.
    let through_tree = collected(mpi, "lifecycle/rows_left", RANKS, "tree").profiled();
    let rows = counted(copied).into_iter().map(|row| row.replace(COPIED, COUNTED));
    assert_eq!(rows.collect::<Vec<_>>(), counted(through_tree.check().tables()));
}

/// A name, and that by which `rows_left` replaces it.
const COUNTED: &str = "counted by its rank";
const COPIED: &str = "copied from its row";
