//! Above the limit of MPISEE_FOLD a profile has sums over ranks: those of the rows that the same program leaves by rank.

use mpisee_profile::Profile;
use mpisee_profile::fold::family_of;
use mpisee_profile::rows::{CommRow, NodeRow, OffsetRow, SpreadRow, TotalRow};
use mpisee_tests::profile::rows;
use mpisee_tests::{Finished, Run, on_each_mpi, through};
use std::collections::BTreeMap;

const RANKS: u32 = 8;

/// By communicator or family, operation and size class: ranks, calls, bytes.
type Sums = BTreeMap<(String, String, u64), (u64, u64, u64)>;

/// The name of the row in which a communicator is.
fn row_of(families: &[CommRow], comm: &CommRow) -> String {
    let family = family_of(&comm.comm, comm.size);
    if families.iter().any(|row| row.comm == family) { family } else { comm.comm.clone() }
}

#[test]
fn sums_over_ranks_are_those_of_the_rows_by_rank() {
    on_each_mpi(|mpi| {
        let by_rank = Run::new(mpi, "grid_of_parts").ranks(RANKS).variable("MPISEE_FOLD", "8").preloaded();
        let run = Run::new(mpi, "grid_of_parts").ranks(RANKS).variable("MPISEE_FOLD", "3");
        let finished = run.preloaded_to("test.mpisee");
        let folded = Profile::open(finished.directory())
            .unwrap_or_else(|error| panic!("{error}\n{}", finished.stderr));
        by_rank.check();
        finished.check();
        let tables = by_rank.tables();
        assert_eq!((tables.run.folded, folded.run().folded, folded.run().complete), (false, true, true));

        let families: Vec<CommRow> = rows(&folded);
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        tables.comms.iter().for_each(|row| *counts.entry(row_of(&families, row)).or_default() += 1);
        assert_eq!(counts, families.iter().map(|row| (row.comm.clone(), row.count)).collect());
        let of = |comm: &str| row_of(&families, tables.comm(comm));
        let mut expected = Sums::new();
        for row in &tables.calls {
            let sum = expected.entry((of(&row.comm), row.call.clone(), row.size_min)).or_default();
            *sum = (sum.0 + 1, sum.1 + row.calls, sum.2 + row.bytes);
        }
        let totals: Vec<TotalRow> = rows(&folded);
        let found = totals.iter().map(|row| {
            ((row.comm.clone(), row.call.clone(), row.size_min), (row.ranks, row.calls, row.bytes))
        });
        assert_eq!(found.collect::<Sums>(), expected);

        let spread: Vec<SpreadRow> = rows(&folded);
        let own = spread.iter().find(|row| row.comm == "S" && row.call == "MPI_Allreduce").unwrap();
        assert_eq!((own.calls_min, own.calls_max, own.calls_max_rank, own.bytes_max), (1, 8, 7, 8 * 101));
        let mut pairs: BTreeMap<(String, i64), [u64; 5]> = BTreeMap::new();
        for row in &tables.peers {
            let sums = pairs.entry((of(&row.comm), i64::from(row.peer) - i64::from(row.rank))).or_default();
            let own = [1, row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
            *sums = std::array::from_fn(|place| sums[place] + own[place]);
        }
        let offsets = rows::<OffsetRow>(&folded).into_iter().map(|row| {
            let sums =
                [row.pairs, row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
            assert_eq!(row.offset_min, row.offset_max);
            ((row.comm, row.offset_min), sums)
        });
        assert_eq!(offsets.collect::<BTreeMap<_, _>>(), pairs);
        let nodes: Vec<NodeRow> = rows(&folded);
        assert_eq!(
            nodes.iter().map(|row| (row.ranks, row.members.to_string())).collect::<Vec<_>>(),
            [(8, "0-7".to_owned())]
        );
        answers(&finished);
    });
}

/// Each command answers, or says in a sentence what it needs.
fn answers(finished: &Finished) {
    let directory = finished.directory().display().to_string();
    for command in ["summary", "ops", "sizes", "comms", "regions", "efficiency", "ranks", "matrix", "advise"]
    {
        let output = through(&[command, &directory]);
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        assert!(!output.stdout.is_empty(), "{command}");
    }
    for arguments in [&["locality", &directory][..], &["summary", &directory, "--ranks", "3"]] {
        let output = through(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("MPISEE_FOLD=8") && said.lines().count() == 1, "{said}");
    }
}
