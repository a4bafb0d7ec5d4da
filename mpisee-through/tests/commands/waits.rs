//! `mpisee-through waits`.

use crate::support::{Builder, Written};
use mpisee_profile::rows::{ArrivalRow, CollectiveRow, NodeRow, Row, Seconds};
use std::collections::BTreeMap;

/// Reproducible uniform numbers from 0 to 1, by call and rank.
fn random(number: u64, salt: u64) -> f64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt.wrapping_mul(0xd1b5_4a32_d192_ed03);
    for shift in [31, 27, 33] {
        mixed = (mixed ^ (mixed >> shift)).wrapping_mul(0x94d0_49bb_1331_11eb);
    }
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

/// Calls of an operation, one each 2 ms.
struct Calls<'a> {
    comm: &'a str,
    call: &'a str,
    members: &'a [u32],
    root: Option<u32>,
    number: u64,
    /// One of this many calls is sampled.
    one_in: u64,
    /// The moment 0 on the clock of a rank, in seconds, and how much faster that clock is.
    clock: fn(u32) -> (f64, f64),
}

impl Default for Calls<'_> {
    fn default() -> Self {
        Calls {
            comm: "W",
            call: "MPI_Allreduce",
            members: &[0, 1, 2, 3, 4, 5, 6, 7],
            root: None,
            number: 4096,
            one_in: 16,
            clock: |_| (1000.0, 0.0),
        }
    }
}

/// Sums of what ranks waited and caused, as counted in all calls.
type Truth = BTreeMap<u32, [f64; 2]>;

impl Calls<'_> {
    /// Adds the calls, in which ranks are late by a time in seconds beside noise of 20 µs;
    /// transfers take 10 to 15 µs.
    fn add(&self, builder: Builder, late_s: impl Fn(u64, u32) -> f64) -> Builder {
        let mut builder = builder;
        let mut sums: BTreeMap<u32, [f64; 3]> = BTreeMap::new();
        for number in 0..self.number {
            let arrivals: Vec<f64> =
                self.members.iter().map(|&rank| self.arrival(number, rank, &late_s)).collect();
            let last_s = arrivals.iter().copied().fold(0.0, f64::max);
            let root_s = self.root.and_then(|root| {
                self.members.iter().position(|&rank| rank == root).map(|position| arrivals[position])
            });
            for (&rank, &arrival_s) in self.members.iter().zip(&arrivals) {
                let from_s = match self.call {
                    "MPI_Bcast" => root_s.unwrap_or(0.0).max(arrival_s),
                    _ => last_s,
                };
                let departure_s = from_s + 1e-5 + 5e-6 * random(number, 1000 + u64::from(rank));
                let (zero_s, fast) = (self.clock)(rank);
                let clock = |true_s: f64| zero_s + true_s * (1.0 + fast);
                let (arrival_s, departure_s) = (clock(arrival_s), clock(departure_s));
                let sum = sums.entry(rank).or_default();
                sum[0] += arrival_s;
                sum[1] += departure_s;
                sum[2] += departure_s - arrival_s;
                if random(number, 777) < 1.0 / self.one_in as f64 {
                    builder.arrivals.push(ArrivalRow {
                        comm: self.comm.to_owned(),
                        call: self.call.to_owned(),
                        instance: number,
                        rank,
                        root: self.root,
                        arrival_s: Seconds(arrival_s),
                        departure_s: Seconds(departure_s),
                        started_s: None,
                        completed: None,
                    });
                }
            }
        }
        for (rank, [arrivals_s, departures_s, time_s]) in sums {
            let mean = |sum_s: f64| Seconds(sum_s / self.number as f64);
            builder.collectives.push(CollectiveRow {
                comm: self.comm.to_owned(),
                call: self.call.to_owned(),
                rank,
                instances: self.number,
                sampled: 0,
                mean_arrival_s: mean(arrivals_s),
                mean_departure_s: mean(departures_s),
            });
            builder = builder.call(self.comm, rank, self.call, self.number, 8 * self.number, time_s);
        }
        builder
    }

    fn arrival(&self, number: u64, rank: u32, late_s: &impl Fn(u64, u32) -> f64) -> f64 {
        number as f64 * 0.002 + 2e-5 * random(number, u64::from(rank)) + late_s(number, rank)
    }

    /// The time that ranks waited and caused in all calls, where each waits for the last of all and
    /// that one causes it: so where one rank is later than all noise.
    fn truth(&self, late: u32, late_s: impl Fn(u64, u32) -> f64) -> Truth {
        let mut truth = Truth::new();
        for number in 0..self.number {
            let last_s = self.arrival(number, late, &late_s);
            for &rank in self.members {
                let waited_s = last_s - self.arrival(number, rank, &late_s);
                truth.entry(rank).or_default()[1] += waited_s;
                truth.entry(late).or_default()[0] += waited_s;
            }
        }
        truth
    }
}

/// The rows of `--format csv`: by rank, the columns that are numbers.
fn rows(profile: &Written, arguments: &[&str]) -> Vec<BTreeMap<String, String>> {
    let ran = profile.run(&[&["waits", "app.mpisee", "--format", "csv"], arguments].concat());
    let text = ran.exits(0).stdout.clone();
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(Result::unwrap).collect()
}

fn number(row: &BTreeMap<String, String>, column: &str) -> f64 {
    row[column].parse().unwrap_or_else(|_| panic!("{column}: {row:?}"))
}

/// The page as one line.
fn said(profile: &Written, arguments: &[&str]) -> String {
    let ran = profile.run(&[&["waits", "app.mpisee"], arguments].concat());
    ran.exits(0).stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rank 3 is late by half a millisecond in each call.
fn late_rank() -> Builder {
    Calls::default().add(Builder::new(8), |_, rank| if rank == 3 { 5e-4 } else { 0.0 })
}

#[test]
fn a_late_rank_is_named_with_what_it_caused() {
    let profile = late_rank().write();
    for width in [60, 100] {
        profile.golden_at(width, "waits-late_rank", &["waits", "app.mpisee"]);
    }
    profile.run(&["waits", "app.mpisee", "--format", "json", "--ranks", "3"]).golden("waits-late_rank.json");
    let late_s = |_, rank| if rank == 3 { 5e-4 } else { 0.0 };
    let truth = Calls::default().truth(3, late_s);
    for row in rows(&profile, &[]) {
        let rank = number(&row, "rank") as u32;
        let [caused_s, suffered_s] = truth[&rank];
        let sampled = number(&row, "sampled");
        assert!((200.0..320.0).contains(&sampled) && number(&row, "instances") == 4096.0, "{row:?}");
        for (name, true_s) in [("suffered", suffered_s), ("caused", if rank == 3 { caused_s } else { 0.0 })] {
            let found = number(&row, &format!("{name}_s"));
            // While several are missing, each has a part.
            assert!((found - true_s).abs() <= 0.04 + 0.02 * true_s, "{name} {true_s}: {row:?}");
            let (low, high) =
                (number(&row, &format!("{name}_low_s")), number(&row, &format!("{name}_high_s")));
            assert!(low <= found && found <= high, "{row:?}");
        }
        let transfer_s = number(&row, "transfer_s") / 4096.0;
        assert!((1e-5..2e-5).contains(&transfer_s), "10 to 15 µs: {row:?}");
    }
}

#[test]
fn where_all_calls_were_sampled_waits_are_exact() {
    let mut builder = Builder::new(3);
    let calls: [[(f64, f64); 3]; 2] =
        [[(1.0, 4.5), (2.0, 4.5), (4.0, 4.5)], [(5.0, 8.25), (8.0, 8.25), (6.0, 8.25)]];
    for (instance, times) in (0u64..).zip(calls) {
        for (rank, (arrival_s, departure_s)) in (0u32..).zip(times) {
            builder.arrivals.push(ArrivalRow {
                comm: "W".to_owned(),
                call: "MPI_Barrier".to_owned(),
                instance,
                rank,
                root: None,
                arrival_s: Seconds(arrival_s),
                departure_s: Seconds(departure_s),
                started_s: None,
                completed: None,
            });
        }
    }
    for (rank, time_s) in [(0, 6.75), (1, 2.75), (2, 2.75)] {
        builder = builder.call("W", rank, "MPI_Barrier", 2, 0, time_s);
    }
    // First call: 0 waits 1 s for two, then 0 and 1 wait 2 s for 2. Second: 0 waits 1 s for two,
    // then 0 and 2 wait 2 s for 1.
    builder.write().run(&["waits", "app.mpisee", "--format", "csv"]).prints(
        "\
comm,call,rank,node,caused_s,caused_low_s,caused_high_s,suffered_s,suffered_low_s,suffered_high_s,transfer_s,instances,sampled
W,MPI_Barrier,0,node0,0.000000000,0.000000000,0.000000000,6.000000000,6.000000000,6.000000000,0.750000000,2,2
W,MPI_Barrier,1,node0,5.000000000,5.000000000,5.000000000,2.000000000,2.000000000,2.000000000,0.750000000,2,2
W,MPI_Barrier,2,node0,5.000000000,5.000000000,5.000000000,2.000000000,2.000000000,2.000000000,0.750000000,2,2
",
    );
}

#[test]
fn noise_is_nobodys_fault() {
    let noisy = |number, rank: u32| 1e-3 * random(number, 50 + u64::from(rank));
    let profile = Calls::default().add(Builder::new(8), noisy).write();
    let said = said(&profile, &[]);
    assert!(said.starts_with("No rank stands out: rank "), "{said}");
    // Waiting of little weight is none either.
    let calls = Calls { number: 400, one_in: 2, ..Calls::default() };
    let profile = calls.add(Builder::new(8), |_, rank| if rank == 3 { 1e-4 } else { 0.0 }).write();
    let said = self::said(&profile, &[]).split_whitespace().collect::<Vec<_>>().join(" ");
    let sentence = "No rank stands out for certain. Rank 3 caused 94.9 % of the waiting. All waiting in MPI_Allreduce on W takes less \
                    than 1 % of the wall time.";
    assert!(said.starts_with(sentence), "{said}");
}

#[test]
fn patterns_are_named() {
    let sentence = |calls: Calls<'_>, late_s: &dyn Fn(u64, u32) -> f64| {
        said(&calls.add(Builder::new(8), late_s).write(), &[])
    };
    let when = |is_late: bool| if is_late { 5e-4 } else { 0.0 };
    let some = sentence(Calls::default(), &|number, rank| {
        when(rank == 2 && random(number, 99) < 0.5 || rank == 5 && random(number, 99) >= 0.5)
    });
    assert!(some.contains("Ranks 2, 5 are late: they caused 9"), "{some}");
    let turns = sentence(Calls::default(), &|number, rank| when(u64::from(rank) == 1 + number % 3));
    assert!(turns.contains("Ranks 1, 2, 3 are last in turn, call by call: they caused 9"), "{turns}");
    let grows =
        sentence(Calls::default(), &|number, rank| if rank == 6 { 2e-7 * number as f64 } else { 0.0 });
    assert!(grows.contains("Rank 6 is late: it caused 9"), "{grows}");
    assert!(grows.contains("MPI_Allreduce on W grows: calls wait 5."), "{grows}");
    let bcast = || Calls { call: "MPI_Bcast", root: Some(4), ..Calls::default() };
    let root = sentence(bcast(), &|_, rank| when(rank == 4));
    assert!(root.contains("The root, rank 4, is late: it caused 100.0 %"), "{root}");
    let early = sentence(bcast(), &|_, rank| when(rank == 5));
    assert!(
        early.starts_with("No rank stands out"),
        "a late rank that is not the root makes nobody wait: {early}"
    );
}

/// Four ranks on each of two nodes, whose clocks are 5 s and 20 ppm apart.
fn two_nodes(calls: &[Calls<'_>], late_s: impl Fn(u64, u32) -> f64) -> Builder {
    let clock = |rank| if rank < 4 { (1000.0, 0.0) } else { (1005.0, 20e-6) };
    let mut builder = Builder::new(8);
    for calls in calls {
        // Barriers have ranks in time, between which clocks can be compared.
        let late_s = |number, rank| if calls.call == "MPI_Barrier" { 0.0 } else { late_s(number, rank) };
        builder = Calls { clock, ..*calls }.add(builder, late_s);
    }
    builder.run.nodes = 2;
    for row in builder.ranks.iter_mut().filter(|row| row.rank >= 4) {
        row.host = "node1".to_owned();
    }
    builder
}

#[test]
fn clocks_of_nodes_are_compared_by_the_calls_of_the_program() {
    let late_s =
        |number, rank| if rank >= 4 { 3e-4 * (1.0 + random(number, u64::from(rank) + 60)) } else { 0.0 };
    let calls = [Calls::default(), Calls { call: "MPI_Barrier", ..Calls::default() }];
    let profile = two_nodes(&calls, late_s).write();
    profile.golden_at(100, "waits-late_node", &["waits", "app.mpisee"]);
    let said = said(&profile, &[]);
    assert!(said.contains("Node node1 (ranks 4-7) is late: its ranks caused 9"), "{said}");
    // A rank of the other clock is late by half a millisecond, and not by 5 s.
    let profile = two_nodes(&calls, |_, rank| if rank == 5 { 5e-4 } else { 0.0 }).write();
    let truth = Calls::default().truth(5, |_, rank| if rank == 5 { 5e-4 } else { 0.0 });
    for row in rows(&profile, &["--call", "allreduce"]) {
        let rank = number(&row, "rank") as u32;
        let suffered_s = number(&row, "suffered_s");
        assert!((suffered_s - truth[&rank][1]).abs() < 0.04, "{} {row:?}", truth[&rank][1]);
    }
}

#[test]
fn clocks_that_no_call_joins_have_no_waits_across() {
    let bcast = Calls { call: "MPI_Bcast", root: Some(0), ..Calls::default() };
    let profile = two_nodes(&[bcast], |_, rank| if rank == 0 { 5e-4 } else { 0.0 }).write();
    let said = said(&profile, &[]);
    let note = "1 operation left out (MPI_Bcast on W): clocks of the nodes cannot be compared without calls";
    assert!(said.contains(note), "{said}");
    assert!(!said.contains("No rank stands out"), "nothing is known: {said}");
    assert_eq!(rows(&profile, &[]).len(), 0);
    // Nobody needs to wait for another where nothing is reduced.
    let nothing = two_nodes(&[Calls::default()], |_, _| 0.0).with(|profile| {
        profile.calls.iter_mut().for_each(|row| (row.size_min, row.size_max, row.bytes) = (0, 0, 0));
    });
    let said = self::said(&nothing.write(), &[]);
    assert!(
        said.contains("1 operation left out (MPI_Allreduce on W): clocks of the nodes cannot be compared"),
        "{said}"
    );
}

#[test]
fn operations_without_known_dependences_are_left_out_and_said() {
    let late_s = |_, rank| if rank == 3 { 5e-4 } else { 0.0 };
    let few = |comm, call| Calls { comm, call, number: 64, one_in: 1, ..Calls::default() };
    let builder = Builder::new(8)
        .comm("W_s1.0", "W", "MPI_Comm_split", "0-7", |_| {})
        .comm("W_d2", "W", "MPI_Comm_dup", "0-7", |_| {})
        .comm("W_x3", "W", "MPI_Intercomm_create", "0-3|4-7", |_| {});
    let builder = few("W", "MPI_Neighbor_alltoall").add(builder, late_s);
    let builder = few("W_s1.0", "MPI_Scan").add(builder, late_s);
    let builder = few("W_d2", "MPI_Scan").add(builder, late_s);
    let builder = few("W_x3", "MPI_Allreduce").add(builder, late_s);
    let builder = Calls { number: 64, one_in: 8, ..Calls::default() }.add(builder, late_s);
    let profile = builder.write();
    let said = said(&profile, &[]);
    for note in [
        "1 operation left out (MPI_Neighbor_alltoall on W): ranks depend on neighbours",
        "1 operation left out (MPI_Scan on W_s1.0): ranks depend on those of lower rank",
        "1 operation left out (MPI_Allreduce on W_x3): the operation is between the two groups",
        "1 operation has too few samples to show who waits (under 20).",
    ] {
        assert!(said.contains(note), "{note}: {said}");
    }
    let scan = rows(&profile, &["--call", "scan"]);
    assert_eq!(scan.len(), 8, "those of the duplicate");
    let suffered = |rank: usize| number(&scan[rank], "suffered_s");
    assert!(suffered(7) > 0.03 && suffered(2) < 0.002, "only higher ranks wait for rank 3: {scan:?}");
}

#[test]
fn calls_that_a_member_lacks_are_left_out_and_said() {
    let mut builder = late_rank();
    let first = builder.arrivals[0].instance;
    builder.arrivals.retain(|row| row.rank != 6 || row.instance != first);
    let said = said(&builder.write(), &[]);
    assert!(said.contains("1 sampled call is left out: not all members have the sample."), "{said}");
}

#[test]
fn filters_choose_communicators_operations_and_ranks() {
    let late_s = |_, rank| if rank == 3 { 5e-4 } else { 0.0 };
    let builder = late_rank().comm("W_s1.0", "W", "MPI_Comm_split", "0-3", |_| {}).comm(
        "W_s1.4",
        "W",
        "MPI_Comm_split",
        "4-7",
        |_| {},
    );
    let of = |comm, members| Calls { comm, members, call: "MPI_Barrier", ..Calls::default() };
    let builder = of("W_s1.0", &[0, 1, 2, 3]).add(builder, late_s);
    let profile = of("W_s1.4", &[4, 5, 6, 7]).add(builder, late_s).write();
    assert_eq!(rows(&profile, &[]).len(), 16);
    assert_eq!(rows(&profile, &["--comm", "W_s1.*"]).len(), 8);
    assert_eq!(rows(&profile, &["--call", "allreduce", "--ranks", "2-3"]).len(), 2);
    profile.golden_at(100, "waits-families", &["waits", "app.mpisee", "--top", "4"]);
    let each = said(&profile, &["--each"]);
    assert!(each.contains("W_s1.0 4 ") && each.contains("W_s1.4 4 "), "{each}");
    profile
        .run(&["waits", "app.mpisee", "--call", "bcast"])
        .fails_with(&["no operation matches --call bcast"]);
    let other = late_rank().call("W", 0, "MPI_Send", 1, 8, 0.5).write();
    let said = said(&other, &["--call", "send"]);
    assert!(said.ends_with("No time was spent in collective operations."), "{said}");
    profile.run(&["waits", "app.mpisee", "--ranks", "9"]).fails_with(&["no rank matches --ranks 9"]);
}

#[test]
fn calls_of_nccl_are_no_collectives_of_mpi() {
    let builder = late_rank().comm("N1-5e1c09tz", "", "ncclCommInitRank", "0-7", |_| {});
    let profile = builder.call("N1-5e1c09tz", 0, "ncclAllReduce", 9, 900, 0.5).write();
    let said = said(&profile, &["--width", "200"]);
    assert!(said.contains("NCCL communicators are left out") && !said.contains("N1-5e1c09tz"), "{said}");
}

#[test]
fn profiles_without_arrivals_are_named() {
    let without = Calls { number: 0, ..Calls::default() }.add(Builder::new(8), |_, _| 0.0).write();
    without.run(&["waits", "app.mpisee"]).fails_with(&["has no samples of collective calls (arrivals.csv)"]);
    let cut = late_rank().write();
    cut.replace("arrivals.csv", ",0,,1000.", ",x,,1000.");
    let sums = late_rank().with(|profile| profile.run.is_aggregate = true).write();
    std::fs::write(sums.directory.join("nodes.csv"), NodeRow::columns().join(",") + "\n").unwrap();
    sums.run(&["waits", "app.mpisee"]).fails_with(&["has sums over ranks", "MPISEE_FOLD=8"]);
    let ran = cut.run(&["waits", "app.mpisee"]);
    ran.exits(2).says(&["arrivals.csv", "line 2", "'x' is not a rank"]);
}

/// Each rank is last in a random eighth of the calls, by the same time.
fn nobody_is_late() -> Builder {
    let is_last = |number: u64, rank: u32| (random(number, 99) * 8.0) as u32 == rank;
    Calls::default().add(Builder::new(8), |number, rank| if is_last(number, rank) { 5e-4 } else { 0.0 })
}

#[test]
fn why_no_rank_stands_out_is_said() {
    let profile = nobody_is_late().write();
    let text = said(&profile, &[]);
    let caused = text.split("caused the most, ").nth(1).and_then(|rest| rest.split(" %").next());
    let caused: f64 = caused.and_then(|percent| percent.parse().ok()).unwrap_or_else(|| panic!("{text}"));
    assert!((12.5..25.0).contains(&caused), "{text}");
    assert!(text.contains("of the waiting. An even share is 12.5 %."), "{text}");
    // All but for the noise of 20 µs arrive together: a call's wait is 1 % of the 10 s at most.
    let small = Calls { number: 512, one_in: 1, ..Calls::default() }.add(Builder::new(8), |_, _| 0.0);
    let text = said(&small.write(), &[]);
    assert!(
        text.contains(
            "No rank stands out: all waiting in each operation takes less than 1 % of the wall time."
        ),
        "{text}"
    );
}

#[test]
fn polling_is_named_with_the_command_that_shows_its_place() {
    let polls = |probes_s: f64| {
        (0..8).fold(nobody_is_late(), |builder, rank| {
            let builder = builder.call("W", rank, "MPI_Iprobe", 9000, 0, probes_s);
            builder.call("W", rank, "MPI_Test", 7000, 0, 0.25)
        })
    };
    let text = said(&polls(3.75).write(), &[]);
    let share = 100.0 * 32.0 / polls(3.75).ranks.iter().map(|row| row.mpi_s.0).sum::<f64>();
    let expected = format!(
        "{share:.1} % of the MPI time is in tests and probes, above all MPI_Iprobe. Samples do not show for whom ranks wait \
         there. mpisee-through sites app.mpisee --call MPI_Iprobe shows where ranks poll."
    );
    assert!(text.contains(&expected), "{expected}: {text}");
    let text = said(&polls(0.0).write(), &["--ranks", "2"]);
    assert!(!text.contains("tests and probes"), "{text}");
}
