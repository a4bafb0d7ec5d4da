//! Names and descriptions of communicators: equal on all members, unique in the run, whatever
//! creates them.
use mpisee_profile::rows::CommRow;
use mpisee_tests::profile::without_digests;
use mpisee_tests::{Mpi, Run, Tables, case};
use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

/// The row as a line: all columns but the number of nodes, without digests.
fn line(row: &CommRow) -> String {
    let members = match &row.members.remote {
        Some(remote) => format!("{}|{remote}", row.members.group),
        None => row.members.group.to_string(),
    };
    let reorder = row.reorder.map(|reorder| reorder.to_string()).unwrap_or_default();
    let freed = if row.freed == 1 { "freed" } else { "" };
    let [comm, parent, between] = [&row.comm, &row.parent, &row.between].map(|name| without_digests(name));
    let size = row.size.to_string();
    let described = [&row.label, &comm, &parent, &row.created_by, &size, &members, &row.topology];
    described
        .map(String::as_str)
        .into_iter()
        .chain([&reorder, freed, &between])
        .collect::<Vec<_>>()
        .join("; ")
}

/// Communicators of `creations.c`: label, name without digests, parent, creating call, size,
/// members, topology, reorder, freed, between.
const CREATIONS: &str = "\
all; W; ; ; 5; 0-4; ; ; ; 
; S; ; ; 1; 0-4; ; ; ; 
dup; W_d1; W; MPI_Comm_dup; 5; 0-4; ; ; freed; 
dup with info; W_d2; W; MPI_Comm_dup_with_info; 5; 0-4; ; ; ; 
split of 0 and 3; W_s3.0; W; MPI_Comm_split; 2; 0,3; ; ; ; 
split of 1 and 4; W_s3.1; W; MPI_Comm_split; 2; 1,4; ; ; ; 
split type; W_t4.1; W; MPI_Comm_split_type; 4; 1-4; ; ; ; 
create of 1 and 3; W_c5.1; W; MPI_Comm_create; 2; 1,3; ; ; ; 
create of 4 and 2; W_c5.2; W; MPI_Comm_create; 2; 2,4; ; ; ; 
create group of 1 and 3; W_g1.1; W; MPI_Comm_create_group; 2; 1,3; ; ; ; 
create group of 2 and 4; W_g1.2; W; MPI_Comm_create_group; 2; 2,4; ; ; ; 
cart; W_a6; W; MPI_Cart_create; 4; 0-3; cart dims=2x2 periods=1x0; 0; ; 
first row; W_a6_b1.0; W_a6; MPI_Cart_sub; 2; 0-1; cart dims=2 periods=0; ; ; 
second row; W_a6_b1.2; W_a6; MPI_Cart_sub; 2; 2-3; cart dims=2 periods=0; ; ; 
graph; W_r7; W; MPI_Graph_create; 4; 0-3; graph degree=1-3; 1; ; 
dist graph; W_n8; W; MPI_Dist_graph_create; 5; 0-4; dist_graph in=1 out=1; 0; ; 
dist graph adjacent; W_j9; W; MPI_Dist_graph_create_adjacent; 5; 0-4; dist_graph in=1 out=1; 1; ; 
dup of self; S_d1; S; MPI_Comm_dup; 1; 0-4; ; ; ; 
idup; W_i10; W; MPI_Comm_idup; 5; 0-4; ; ; ; 
0, 3 and 4; W_s11.0; W; MPI_Comm_split; 3; 0,3-4; ; ; ; 
1 and 2; W_s11.1; W; MPI_Comm_split; 2; 1-2; ; ; ; 
between; W_x1.0; W; MPI_Intercomm_create; 5; 0,3-4|1-2; ; ; freed; W_s11.0|W_s11.1
dup of between; W_x1.0_d1; W_x1.0; MPI_Comm_dup; 5; 0,3-4|1-2; ; ; ; 
idup of between; W_x1.0_i2; W_x1.0; MPI_Comm_idup; 5; 0,3-4|1-2; ; ; ; 
2 with 0; W_x1.0_s3.0; W_x1.0; MPI_Comm_split; 2; 0|2; ; ; ; 
1 with 3 and 4; W_x1.0_s3.1; W_x1.0; MPI_Comm_split; 3; 1|3-4; ; ; ; 
2 with 0 and 4; W_x1.0_c4.0; W_x1.0; MPI_Comm_create; 3; 0,4|2; ; ; ; 
merged; W_x1.0_m5; W_x1.0; MPI_Intercomm_merge; 5; 0-4; ; ; ; 
";

/// Returns whether `MPI_Comm_group` of a grid has processes that are not in the grid, as in MPICH
/// 5.0.2, also without the profiler.
fn has_wrong_groups(mpi: &Mpi) -> bool {
    mpi.is_left_out(&["mpich-5.0", "mpiabi"], "MPI_Comm_group of a grid is wrong")
}

#[case]
fn every_creating_call_gives_a_communicator_its_name_and_description(mpi: &Mpi) {
    if has_wrong_groups(mpi) {
        return;
    }
    let finished = Run::new(mpi, "communicators/creations").ranks(5).profiled();
    let found: BTreeSet<String> = finished.tables().comms.iter().map(line).collect();
    let expected: BTreeSet<String> = CREATIONS.lines().map(str::to_owned).collect();
    let missing: Vec<_> = expected.difference(&found).collect();
    let unexpected: Vec<_> = found.difference(&expected).collect();
    assert!(missing.is_empty() && unexpected.is_empty(), "not {unexpected:#?} but {missing:#?}");
    let tables = finished.tables();
    assert_eq!(tables.comms.len(), expected.len());
    for name in tables.names() {
        for step in name.split('_') {
            let is_by_members = step.starts_with(['g', 'x']);
            assert_eq!(step != without_digests(step), is_by_members, "digest of {step} in {name}");
        }
    }
    let digests = ["W_g1.1", "W_g1.2"].map(|name| tables.named(name).split_once('-').unwrap().1);
    assert_ne!(digests[0], digests[1], "of other members");
    assert_eq!(tables.run.names_agree, Some(true));
    finished.check();
}

#[case]
fn creating_is_a_call_on_the_parent_and_freeing_one_on_itself(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/creations").ranks(5).profiled();
    let tables = finished.tables();
    let calls = |comm: &str, call: &str| {
        let sum = tables.sum(tables.named(comm), call);
        assert_eq!(sum.bytes, 0, "{call} on {comm}");
        sum.calls
    };
    // In order: those on all five, those on one process less, those on a child.
    assert_eq!(calls("W", "MPI_Comm_dup"), 5);
    assert_eq!(calls("W_d1", "MPI_Comm_free"), 5);
    assert_eq!(calls("W", "MPI_Comm_dup_with_info"), 5);
    assert_eq!(calls("W", "MPI_Comm_idup"), 5);
    assert_eq!(calls("W", "MPI_Comm_split"), 10);
    assert_eq!(calls("W", "MPI_Comm_split_type"), 5);
    assert_eq!(calls("W", "MPI_Comm_create"), 5);
    assert_eq!(calls("W", "MPI_Comm_create_group"), 4);
    assert_eq!(calls("W", "MPI_Cart_create"), 5);
    assert_eq!(calls("W_a6", "MPI_Cart_sub"), 4);
    assert_eq!(calls("W", "MPI_Graph_create"), 5);
    assert_eq!(calls("W", "MPI_Dist_graph_create"), 5);
    assert_eq!(calls("W", "MPI_Dist_graph_create_adjacent"), 5);
    assert_eq!(calls("S", "MPI_Comm_dup"), 5);
    // On the local communicator, of which there is one on either side.
    assert_eq!(calls("W_s11.0", "MPI_Intercomm_create"), 3);
    assert_eq!(calls("W_s11.1", "MPI_Intercomm_create"), 2);
    assert_eq!(calls("W_x1.0", "MPI_Comm_split"), 5);
    assert_eq!(calls("W_x1.0", "MPI_Comm_create"), 5);
    assert_eq!(calls("W_x1.0", "MPI_Intercomm_merge"), 5);
    assert_eq!(calls("W_x1.0", "MPI_Comm_free"), 5);
}

#[case]
fn the_example_of_the_paper_has_the_names_of_the_paper(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/names_of_the_paper").profiled();
    let tables = finished.tables();
    let names: BTreeSet<&str> = tables.names().into_iter().collect();
    let expected =
        ["S", "W", "W_a1", "W_a1_s1.0", "W_a1_s1.0_d1", "W_a1_s1.2", "W_a1_s1.2_c1.0"].into_iter().collect();
    assert_eq!(names, expected);
    assert_eq!(tables.sum("W_a1_s1.0_d1", "MPI_Barrier").calls, 2);
    assert_eq!(tables.sum("W_a1_s1.2_c1.0", "MPI_Barrier").calls, 2);
    finished.check();
}

#[case]
fn names_stay_unique_when_the_busiest_process_takes_no_part(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/busiest_leaves").profiled();
    let tables = finished.tables();
    // Process 3 had been part of five more than the others, on its own MPI_COMM_SELF.
    let splits: Vec<_> = tables.names().into_iter().filter(|name| name.starts_with("W_")).collect();
    assert_eq!(splits, ["W_s1.0", "W_s2.0", "W_s3.0"]);
    for name in splits {
        assert_eq!(tables.sum(name, "MPI_Barrier").calls, 3);
    }
    finished.check();
}

#[case]
fn a_handle_that_comes_again_is_a_new_communicator(mpi: &Mpi) {
    const CYCLES: u32 = 2000;
    let finished = Run::new(mpi, "communicators/split_and_free")
        .ranks(2)
        .argument(CYCLES)
        .options(&["--alike", &CYCLES.to_string()])
        .profiled();
    let tables = finished.tables();
    let names: BTreeSet<&str> = tables.names().into_iter().collect();
    assert_eq!(names.len(), tables.comms.len(), "names come twice");
    assert_eq!(names.len() as u32, 2 * CYCLES + 2);
    let mut barriers: BTreeMap<&str, u64> = BTreeMap::new();
    for row in tables.calls.iter().filter(|row| row.call == "MPI_Barrier") {
        *barriers.entry(&row.comm).or_default() += row.calls;
    }
    for n in 1..=CYCLES {
        for r in 0..2 {
            let name = format!("W_s{n}.{r}");
            assert!(names.contains(name.as_str()), "there is no {name}");
            assert_eq!(barriers.get(name.as_str()), Some(&1), "barriers on {name}");
        }
    }
    assert!(tables.comms.iter().all(|row| row.freed == u8::from(row.comm.starts_with("W_"))));
    finished.check();
}

#[case]
fn idup_does_not_wait_for_the_others(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/idup_does_not_wait").ranks(2).profiled();
    let tables = finished.tables();
    let labelled = |label: &str| {
        let rows = tables.comms.iter().filter(|row| row.label == label);
        let names: Vec<_> = rows.map(|row| row.comm.as_str()).collect();
        for name in &names {
            assert_eq!(tables.sum(name, "MPI_Barrier").calls, 2, "barriers on {name}");
        }
        names
    };
    assert_eq!(labelled("one"), ["W_i1"]);
    let two: BTreeSet<_> = labelled("two").into_iter().collect();
    assert_eq!(two, ["W_i2", "W_i3"].into_iter().collect());
    assert_eq!(labelled("between"), [tables.named("W_x1.0_i1")]);
    assert_eq!(tables.sum("W", "MPI_Comm_idup").calls, 6);
    assert_eq!(tables.sum("W", "MPI_Wait").calls, 6);
    finished.check();
}

#[case]
fn names_are_equal_also_where_recording_is_off(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/recording_off_here_and_there").profiled();
    let tables = finished.tables();
    let names: BTreeSet<&str> = tables.names().into_iter().collect();
    let expected = [
        "W", "S", "W_d1", "W_s2.0", "W_s2.1", "W_i3", "W_d4", "W_s5.0", "W_s5.1", "W_i6", "W_d7", "W_s8.0",
        "W_s8.1", "W_i9",
    ];
    assert_eq!(names, expected.into_iter().collect());
    let labels = [("W_i3", "off on one"), ("W_i6", "off on the others"), ("W_i9", "off on all")];
    for (name, label) in labels {
        assert_eq!(tables.comm(name).label, label);
        assert_eq!(tables.sum(name, "MPI_Barrier").calls, 4, "barriers on {name}");
    }
    // Who had it off did not count.
    for call in ["MPI_Comm_dup", "MPI_Comm_split", "MPI_Comm_idup"] {
        assert_eq!(tables.sum("W", call).calls, 3 + 1, "{call}");
    }
    assert!(tables.run.recording_was_off);
    assert_eq!(tables.run.names_agree, Some(true));
    finished.check();
}

#[case]
fn a_communicator_that_one_member_makes_past_the_profiler_is_reported(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/past_the_profiler").profiled();
    let run = &finished.tables().run;
    assert!(run.complete, "{:?}", run.incomplete_because);
    assert_eq!(run.names_agree, Some(false));

    // Who makes all of its communicators so has no names, and none that others have is wrong.
    let finished = Run::new(mpi, "communicators/past_the_profiler").argument("all").profiled();
    let tables = finished.tables();
    assert_eq!(tables.run.names_agree, Some(true));
    assert_eq!(tables.names().len(), 2, "{:?}", tables.names());
    finished.check();
}

#[case]
fn self_and_intercommunicators_are_counted_like_any_other(mpi: &Mpi) {
    let finished = Run::new(mpi, "communicators/self_and_intercomm").profiled();
    let tables = finished.tables();
    for rank in 0..4 {
        let on_self = |call| tables.of_rank("S", call, rank);
        assert_eq!((on_self("MPI_Barrier").calls, on_self("MPI_Barrier").bytes), (1, 0));
        assert_eq!((on_self("MPI_Bcast").calls, on_self("MPI_Bcast").bytes), (1, 0));
        assert_eq!((on_self("MPI_Allreduce").calls, on_self("MPI_Allreduce").bytes), (1, 4));
        assert_eq!((on_self("MPI_Sendrecv").calls, on_self("MPI_Sendrecv").bytes), (1, 2 * 257));
        assert_eq!(tables.peer("S", rank, rank), [1, 257, 1, 257]);
    }
    let between = tables.comm(tables.named("W_x1.0"));
    assert_eq!((between.size, between.created_by.as_str()), (4, "MPI_Intercomm_create"));
    assert_eq!(tables.sum(&between.comm, "MPI_Barrier").calls, 4);
    assert_eq!(tables.sum(&between.comm, "MPI_Intercomm_merge").calls, 4);
    let merged = tables.comm(tables.named("W_x1.0_m1"));
    assert_eq!((merged.size, merged.parent.as_str()), (4, between.comm.as_str()));
    assert_eq!(tables.sum(&merged.comm, "MPI_Barrier").calls, 4);
    assert_eq!(tables.sum(&merged.comm, "MPI_Bcast").bytes, 3 * 521);
    assert!(tables.comms.iter().all(|row| row.freed == u8::from(row.comm.starts_with("W_"))));
    finished.check();
}

/// A communicator as the program wrote it.
#[derive(Debug, PartialEq, Eq)]
struct Known {
    /// Each group in ascending order; the one with the smallest rank first.
    groups: Vec<BTreeSet<u32>>,
    /// The ranks that wrote that they are members.
    witnesses: BTreeSet<u32>,
}

/// Communicators as the ranks of `tree_of_communicators.c` wrote them, by id.
fn known(directory: &std::path::Path, ranks: u32) -> BTreeMap<u64, Known> {
    let mut all: BTreeMap<u64, Known> = BTreeMap::new();
    for rank in 0..ranks {
        let text = std::fs::read_to_string(directory.join(format!("members.{rank}"))).unwrap();
        for line in text.lines() {
            let (id, members) = line.split_once(' ').unwrap();
            let group = |text: &str| text.split(',').map(|rank| rank.parse().unwrap()).collect();
            let mut groups: Vec<BTreeSet<u32>> = members.split('|').map(group).collect();
            groups.sort_by_key(|group| group.first().copied());
            let id = id.parse().unwrap();
            let known =
                all.entry(id).or_insert_with(|| Known { groups: groups.clone(), witnesses: BTreeSet::new() });
            assert_eq!(known.groups, groups, "communicator {id} for rank {rank}");
            assert!(known.witnesses.insert(rank), "rank {rank} has communicator {id} twice");
        }
    }
    all
}

/// Returns whether a communicator is one process's own, so that others may have one of that name.
fn is_own(name: &str) -> bool {
    name == "S" || name.starts_with("S_")
}

fn set(ranks: &mpisee_profile::RankSet) -> BTreeSet<u32> {
    (0..64).filter(|&rank| ranks.contains(rank)).collect()
}

/// Asserts that each communicator of the program has one name on all members, one that no other
/// has, and one row with its members; and that there are no other rows.
fn assert_one_name_each(tables: &Tables, known: &BTreeMap<u64, Known>) {
    let mut names: BTreeMap<u64, BTreeSet<(&str, u32)>> = BTreeMap::new();
    for row in tables.calls.iter().filter(|row| row.call == "MPI_Allreduce" && row.bytes > 0) {
        // One call each, of as many bytes as the id says. The children of MPI_COMM_SELF are the
        // process's own.
        assert_eq!(row.calls, 1, "{row:?}: two communicators have this name");
        names.entry(row.bytes).or_default().insert((&row.comm, row.rank));
    }
    let mut ids: BTreeMap<&str, u64> = BTreeMap::new();
    let mut own = BTreeSet::new();
    for (&id, known) in known.iter().filter(|&(&id, _)| id > 0) {
        let found = &names[&id];
        let name = found.first().unwrap().0;
        let expected: BTreeSet<_> = known.witnesses.iter().map(|&rank| (name, rank)).collect();
        assert_eq!(*found, expected, "names of communicator {id} on its members");
        let row = tables.comm(name);
        if is_own(name) {
            assert_eq!((row.size, known.witnesses.len()), (1, 1), "{name}");
            own.extend(found.iter().copied());
            continue;
        }
        assert_eq!(ids.insert(name, id), None, "{name} is the name of two communicators");
        let mut groups = vec![set(&row.members.group)];
        groups.extend(row.members.remote.as_ref().map(set));
        assert_eq!(groups, known.groups, "members of {name}");
        let members: BTreeSet<u32> = groups.into_iter().flatten().collect();
        assert_eq!(members, known.witnesses, "witnesses of {name}");
        assert_eq!(row.size as usize, known.witnesses.len(), "size of {name}");
    }
    let rows: BTreeSet<_> = tables.names().into_iter().filter(|name| !is_own(name) && *name != "W").collect();
    assert_eq!(rows, ids.into_keys().collect(), "communicators that the program did not create");
    let own_rows = tables.comms.iter().filter(|row| is_own(&row.comm));
    let own_rows =
        own_rows.flat_map(|row| set(&row.members.group).into_iter().map(|rank| (row.comm.as_str(), rank)));
    assert_eq!(own_rows.collect::<BTreeSet<_>>(), own, "descendants of MPI_COMM_SELF");
}

fn assert_names_of_a_tree(mpi: &Mpi, seed: u64) {
    let ranks = 5 + (seed % 3) as u32;
    mpisee_tests::note!("seed {seed}, {ranks} ranks");
    let run = Run::new(mpi, "random/tree_of_communicators").ranks(ranks).argument(seed).argument(40);
    let finished = run.profiled();
    assert_one_name_each(finished.tables(), &known(finished.place.folder(), ranks));
    assert_eq!(finished.tables().run.names_agree, Some(true));
    finished.check();
}

#[case]
fn in_random_trees_names_are_equal_on_all_members_and_unique(mpi: &Mpi) {
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    if has_wrong_groups(mpi) {
        return;
    }
    for seed in (1..=6).chain([clock]) {
        assert_names_of_a_tree(mpi, seed);
    }
}
