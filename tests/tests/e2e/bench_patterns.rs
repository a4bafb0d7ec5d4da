//! Patterns of many steps by real MPIs: whatever is legal ends, with the right bytes.

use mpisee_bench::backend::Backend;
use mpisee_bench::collective::Collective;
use mpisee_bench::pattern::{CollectiveCall, Message, Pattern, Step};
use mpisee_tests::bench::bench;
use mpisee_tests::bench::has_bench;
use mpisee_tests::{Mpi, Place, case};
use std::path::Path;

const RANKS: u32 = 3;
/// Patterns that are tried on each MPI.
const PATTERNS: u64 = 40;

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// A legal pattern of up to eight steps of all backends that need no GPU, on pieces of memory of 1
/// KiB and of 100 KiB, below and above what MPI sends before it is received.
fn pattern(seed: u64) -> Pattern {
    const BACKENDS: [Backend; 5] =
        [Backend::Put, Backend::Get, Backend::Isend, Backend::Persistent, Backend::Shared];
    let mut numbers = Numbers(seed);
    let steps = 2 + numbers.below(7);
    let step = |numbers: &mut Numbers| {
        let mut step = Step {
            name: "any".to_owned(),
            backend: BACKENDS[numbers.below(BACKENDS.len() as u64) as usize],
            ..Step::default()
        };
        if numbers.below(6) == 0 {
            let members = if numbers.below(2) == 0 { vec![0, 2] } else { vec![0, 1, 2] };
            let collective = Collective::Allreduce;
            step.collectives.push(CollectiveCall { collective, members, bytes: 64, root: 0 });
        }
        let bytes = if numbers.below(2) == 0 { 1 << 10 } else { 100 << 10 };
        for _ in 0..1 + numbers.below(4) {
            step.messages.push(Message {
                source: numbers.below(RANKS.into()) as u32,
                destination: numbers.below(RANKS.into()) as u32,
                bytes,
                source_offset: bytes * numbers.below(3),
                destination_offset: bytes * numbers.below(3),
                times: 1,
            });
            if Pattern::from_steps(vec![step.clone()]).check(RANKS).is_err() {
                step.messages.pop();
            }
        }
        step
    };
    Pattern::from_steps((0..steps).map(|_| step(&mut numbers)).collect())
}

fn write(place: &Place, name: &str, text: &str) -> String {
    let path = place.path(&format!("{name}.pattern"));
    std::fs::write(&path, text).unwrap();
    Path::new(&path).display().to_string()
}

/// Between the posts, starts, completions and waits of one-sided steps, messages and collective
/// operations, no rank waits for ever.
#[case(only = has_bench)]
fn legal_patterns_of_all_backends_end(mpi: &Mpi) {
    let place = Place::new();
    let mut files = vec![];
    // A pipeline: 1 passes the first part on while it gets the second.
    for backend in ["put", "get", "isend"] {
        let text = format!(
            "step a using {backend}\n  0 -> 1 : n from 0 to 0\nstep b using {backend}\n  0 -> 1 : n from n to n\n  \
             1 -> 2 : n from 0 to 0\n"
        );
        files.push(write(&place, &format!("pipeline-{backend}"), &text));
    }
    for seed in 0..PATTERNS {
        let pattern = pattern(seed);
        pattern.check(RANKS).expect("illegal messages are left out");
        files.push(write(&place, &format!("any-{seed}"), &pattern.to_string()));
    }
    let words = format!("run {} --sizes 1000", files.join(" "));
    let finished = bench(mpi, &words).ranks(RANKS).plain();
    let rows: Vec<&str> = finished.stdout.lines().skip(1).collect();
    assert_eq!(rows.len(), files.len(), "{}", finished.stdout);
    assert!(rows.iter().all(|row| row.contains(",true,")), "{}", finished.stdout);
}

/// Thousands of steps of the same members share a communicator; what an MPI has too few of, or a
/// node no memory for, is a sentence.
#[case(only = has_bench)]
fn many_steps_run_or_are_refused(mpi: &Mpi) {
    let place = Place::new();
    let many = |operation: &str| format!("for i in 0..3000\n  step\n  {operation}\nend\n");
    let sums = write(&place, "sums", &many("MPI_Allreduce : 8"));
    let finished = bench(mpi, &format!("run {sums} --sizes 8")).ranks(2).plain();
    assert!(finished.stdout.contains(",true,"), "{}", finished.stdout);
    for (name, text, expected) in [
        ("windows", many("0 -> 1 : 8 to 0").replace("step\n", "step using put\n"), "needs 3000 windows"),
        ("buffers", many("MPI_Alltoall : 512M"), "of memory are available"),
        ("often", "0 -> 1 : 8 times 1000000000\n".to_owned(), "more than 131072 messages in one step"),
    ] {
        let file = write(&place, name, &text);
        let finished = bench(mpi, &format!("run {file} --sizes 8")).ranks(2).exits_with(2).plain();
        assert!(finished.stderr.contains(expected), "{name}: {}", finished.stderr);
    }
}
