//! The order of calls: what it has adds up to the counts, and a loop takes the same room however
//! often it runs.

use mpisee_order::Rules;
use mpisee_profile::Profile;
use mpisee_profile::rows::{OrderRow, OrderRuleRow, OrderStepKind, OrderStepRow, OrderTimeRow, Row};
use mpisee_tests::{LIMIT, Mpi, Place, Run, case, within};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The tables of the order.
struct Order {
    threads: Vec<OrderRow>,
    rules: Vec<OrderRuleRow>,
    steps: Vec<OrderStepRow>,
    times: Vec<OrderTimeRow>,
}

fn rows<R: Row>(profile: &Profile) -> Vec<R> {
    let rows = profile.rows_if_any::<R>().expect("the table can be read");
    rows.collect::<Result<_, _>>().expect("its rows can be read")
}

impl Order {
    fn read(profile: &Path) -> Order {
        let profile = Profile::open(profile).expect("there is a profile");
        let order = Order {
            threads: rows(&profile),
            rules: rows(&profile),
            steps: rows(&profile),
            times: rows(&profile),
        };
        assert!(order.threads.iter().all(|row| row.lost == 0), "{:?}", order.threads);
        order
    }

    /// The steps of a thread, one after the other.
    fn steps_of(&self, row: &OrderRow) -> Vec<&OrderStepRow> {
        let rules = self.rules.iter().find(|rules| rules.rules == row.rules).expect("it has a sequence");
        let rules = Rules::from_text(&rules.symbols).expect("it is a sequence");
        let of_alphabet = self.steps.iter().filter(|step| step.alphabet == row.alphabet);
        let steps = Vec::from_iter(of_alphabet);
        rules.iter().map(|step| steps[step as usize]).collect()
    }
}

fn ordered<'m>(mpi: &'m Mpi, program: &str) -> Run<'m> {
    Run::new(mpi, program).variable("MPISEE_ORDER", "on")
}

#[case]
fn a_loop_takes_the_same_room_however_often_it_runs(mpi: &Mpi) {
    let of_iterations = |iterations: u32| {
        let finished = ordered(mpi, "order/halo").ranks(4).argument(iterations).profiled();
        finished.check();
        Order::read(&finished.directory())
    };
    let (short, long) = (of_iterations(100), of_iterations(10_000));
    for order in [&short, &long] {
        assert_eq!(order.threads.len(), 4);
    }
    assert_eq!((short.rules.len(), short.steps.len()), (long.rules.len(), long.steps.len()));
    // Ranks 1 to 3 do the same; what rank 0 receives from any source may come in several orders.
    let distinct =
        |order: &Order| order.threads[1..].iter().map(|row| row.rules).collect::<BTreeSet<_>>().len();
    assert_eq!((distinct(&short), distinct(&long)), (1, 1), "{:?}", long.threads);
    for row in &long.threads {
        let steps = long.steps_of(row);
        assert_eq!(steps.len() as u64, row.steps);
        let calls = |call: &str| {
            steps.iter().filter(|step| step.kind == OrderStepKind::Call && step.call == call).count()
        };
        let counts = ["MPI_Irecv", "MPI_Isend", "MPI_Waitall", "MPI_Allreduce", "MPI_Bcast"].map(calls);
        assert_eq!(counts, [20_000, 20_000, 10_000, 10_000, 1000]);
        let completed = steps.iter().filter(|step| step.kind == OrderStepKind::Completed).count();
        assert_eq!(completed, 40_000);
    }
    let of_waitall = |row: &&OrderTimeRow| {
        let is_it = |step: &OrderStepRow| step.alphabet == row.alphabet && step.step == row.step;
        long.steps.iter().any(|step| is_it(step) && step.call == "MPI_Waitall")
    };
    let calls: u64 = long.times.iter().filter(of_waitall).map(|row| row.calls).sum();
    assert_eq!(calls, 40_000);
}

#[case]
fn steps_come_in_the_order_of_the_calls(mpi: &Mpi) {
    let finished = ordered(mpi, "order/halo").ranks(3).argument(10).profiled();
    let order = Order::read(&finished.directory());
    let said = |step: &OrderStepRow| match step.kind {
        OrderStepKind::Call => format!("{} {}", step.call.trim_start_matches("MPI_"), step.bytes),
        // MPICH gives sends that are complete at once a handle that says nothing of the call.
        OrderStepKind::Completed if step.call.is_empty() => "completed Isend".to_owned(),
        OrderStepKind::Completed => format!("completed {}", step.call.trim_start_matches("MPI_")),
        kind => format!("{kind:?} {} tag {} {}", step.peer, step.tag, step.bytes),
    };
    let steps: Vec<String> = order.steps_of(&order.threads[2]).into_iter().map(said).collect();
    let of_receive = |peer: &str, tag: u32| {
        [
            "completed Irecv".to_owned(),
            format!("Received {peer} tag {tag} 1013"),
            "Bytes  tag  1013".to_owned(),
        ]
    };
    let mut of_step = ["Irecv 0", "Irecv 0", "Isend 1013"].map(str::to_owned).to_vec();
    of_step.push("Sent =0 tag 5 1013".to_owned());
    of_step.push("Isend 1013".to_owned());
    of_step.push("Sent -1 tag 6 1013".to_owned());
    of_step.extend(of_receive("-1", 5));
    of_step.extend(of_receive("=0", 6));
    of_step.extend(["completed Isend", "completed Isend", "Waitall 0", "Allreduce 8"].map(str::to_owned));
    assert_eq!(steps[0], "Comm_dup 0");
    assert_eq!(steps[1..=of_step.len()], of_step[..]);
    let end = ["Bcast 2027", "Root =0 tag  0", "Send 409", "Sent =0 tag 7 409", "Barrier 0", "Comm_free 0"]
        .map(str::to_owned);
    assert_eq!(steps[1 + 10 * of_step.len()..], end[..]);
}

#[case]
fn collective_calls_have_their_roots(mpi: &Mpi) {
    let finished = ordered(mpi, "order/roots").ranks(3).profiled();
    finished.check();
    let order = Order::read(&finished.directory());
    for row in &order.threads {
        let steps = order.steps_of(row);
        // The call before each root.
        let mut roots = BTreeMap::new();
        let mut call = "";
        for step in steps {
            match step.kind {
                OrderStepKind::Call => call = &step.call,
                OrderStepKind::Root => {
                    let comm = row.comms.split(' ').nth(step.comm.unwrap() as usize).unwrap();
                    let comm = if comm.starts_with('W') { comm } else { "self" };
                    *roots.entry((call, comm, step.peer.as_str())).or_insert(0) += 1;
                }
                _ => {}
            }
        }
        let expected = [
            (("MPI_Bcast", "W", "=0"), 25),
            (("MPI_Bcast", "W", "=1"), 25),
            (("MPI_Bcast", "self", "=0"), 50),
            (("MPI_Igather", "W_s1.0", "=2"), 50),
        ];
        assert_eq!(roots, BTreeMap::from(expected), "{}", row.comms);
    }
}

#[case]
fn calls_that_find_something_are_steps_and_accesses_follow_their_call(mpi: &Mpi) {
    let finished = ordered(mpi, "order/found").ranks(3).profiled();
    finished.check();
    let order = Order::read(&finished.directory());
    for row in &order.threads {
        let steps = order.steps_of(row);
        let calls = |call: &str| {
            steps.iter().filter(|step| step.kind == OrderStepKind::Call && step.call == call).count()
        };
        let found = ["MPI_Iprobe", "MPI_Improbe", "MPI_Request_get_status", "MPI_Recv", "MPI_Mrecv"];
        assert_eq!(found.map(calls), [20; 5]);
        let accesses = steps.windows(2).filter_map(|pair| match pair[1].kind {
            OrderStepKind::Put | OrderStepKind::Get => Some((pair[0].call.as_str(), pair[1].bytes)),
            _ => None,
        });
        assert_eq!(Vec::from_iter(accesses), [("MPI_Put", 307), ("MPI_Get", 601)]);
    }
}

#[case]
fn a_killed_rank_leaves_its_whole_order(mpi: &Mpi) {
    let place = Place::new();
    let mut command = place.command(mpi, 3);
    command.env("MPISEE_ORDER", "on").arg(mpi.compile("order/halo")).args(["3000", "killed"]);
    let output = within(LIMIT, command.current_dir(place.folder()));
    assert!(!output.status.success());
    place.wait_for_ranks(&[]);
    place.recover(&[]);
    let order = Order::read(&place.path("halo.mpisee"));
    assert_eq!(order.threads.len(), 3);
    for row in &order.threads {
        let steps = order.steps_of(row);
        let calls =
            |call: &str| steps.iter().filter(|it| it.kind == OrderStepKind::Call && it.call == call).count();
        assert_eq!(["MPI_Waitall", "MPI_Allreduce", "MPI_Bcast"].map(calls), [3000, 3000, 300]);
    }
}

#[case]
fn whatever_a_program_does_its_steps_add_up_to_its_counts(mpi: &Mpi) {
    for (program, ranks) in [
        ("requests/persistent", 2),
        ("requests/cancelled", 2),
        ("requests/polls", 2),
        ("requests/switched_off", 1),
        ("requests/three_communicators", 4),
        ("threads/hammer", 2),
        ("point_to_point/sendrecv", 3),
        ("point_to_point/matched_probes", 2),
        ("communicators/parts", 6),
    ] {
        mpisee_tests::note!("{program}");
        let finished = ordered(mpi, program).ranks(ranks).profiled();
        finished.check();
        assert!(!Order::read(&finished.directory()).threads.is_empty());
    }
}

#[case]
fn without_the_option_there_is_no_order(mpi: &Mpi) {
    let finished = Run::new(mpi, "order/halo").ranks(2).argument(20).profiled();
    assert!(Order::read(&finished.directory()).threads.is_empty());
}
