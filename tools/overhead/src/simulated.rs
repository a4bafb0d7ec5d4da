//! Plays the ranks of a regular program without MPI, and makes their aggregate profile by the code
//! that real ranks use.
//!
//! The processes are a periodic grid of three dimensions. Each is in the world, the grid, its lines
//! and planes, its node, halves of halves of the world, and duplicates of these; it exchanges halos
//! with its neighbours and calls collectives of several sizes.

use crate::merged::{Below, Sent, Traffic, Tree};
use anyhow::{Context, Result, ensure};
use mpisee_collect::files::{AggregateFiles, ProfileFiles, parts};
use mpisee_collect::nodes::Nodes;
use mpisee_collect::run::RunSums;
use mpisee_collect::wire::{RankSummary, Sums};
use mpisee_collect::{Aggregate, RankTables};
use mpisee_profile::rows::Memory;
use mpisee_profile::run::{MpiInfo, RunInfo};
use mpisee_profile::segment::Moment;
use mpisee_profile::segment::key::size_class;
use mpisee_profile::segment::log::{Created, NONE, Record, Run, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, OperationAtSite, PeerKey, SlotKey, Snapshot};
use mpisee_profile::{CommId, CommRank, FORMAT_VERSION, Operation, RankSet, RegionId, Ticks, WorldRank};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use xtask::root;

/// Processes of a node.
const PER_NODE: u32 = 64;
/// The wall time of the program.
const WALL_NS: u64 = 3_600_000_000_000;
/// Communicators that are not duplicates or halves: the world, each process itself, the grid, its
/// lines and planes, the node.
const FEWEST: u32 = 10;
/// The one named region.
const SOLVER: RegionId = RegionId::new(1);

/// A program that never was.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    ranks: u32,
    /// The grid's extents; ranks along the last are neighbours.
    dims: [u32; 3],
    /// That each process is in.
    communicators: u32,
}

/// A communicator as one process sees it.
struct Comm {
    created: Created,
    label: &'static str,
    topology: String,
    /// Its size, for peers.
    size: u32,
    /// Peers in it.
    neighbours: Vec<u32>,
}

/// The letter and the operation of a call that creates communicators.
type Call = (u8, Option<Operation>);

const NO_CALL: Call = (0, None);
const CART_CREATE: Call = (b'a', Some(Operation::CartCreate));
const CART_SUB: Call = (b'b', Some(Operation::CartSub));
const SPLIT: Call = (b's', Some(Operation::CommSplit));
const SPLIT_TYPE: Call = (b't', Some(Operation::CommSplitType));
const DUP: Call = (b'd', Some(Operation::CommDup));

fn run(first: u32, count: u32, stride: i32) -> Run {
    Run { first, count, stride }
}

/// The communicators of a process so far.
struct Comms(Vec<Comm>);

impl Comms {
    /// Appends one of the `group`, made of `parent`. Its smallest rank in the parent is `r`, this
    /// process's own `rank`.
    fn add(
        &mut self,
        parent: CommId,
        (letter, operation): Call,
        r: Option<u32>,
        group: Runs,
        rank: u32,
    ) -> CommId {
        let number = self.0.len() as u32;
        let id = CommId::new(number);
        let size = group.len() as u32;
        let created = Created {
            id,
            parent: (letter != 0).then_some(parent),
            letter,
            n: number.saturating_sub(1),
            r: r.map(CommRank::new),
            code: 0,
            members: 0,
            local: None,
            peer: None,
            operation: operation.map_or(NONE, |operation| operation as u32),
            rank: CommRank::new(rank),
            reorder: if letter == b'a' { 1 } else { NONE },
            group,
            remote: None,
        };
        let ring = [(rank + 1) % size, (rank + size - 1) % size];
        let neighbours = if size > 2 { ring.to_vec() } else { Vec::new() };
        self.0.push(Comm { created, label: "", topology: String::new(), size, neighbours });
        id
    }
}

impl Program {
    /// A program of `ranks` processes, each in `communicators` communicators.
    pub fn new(ranks: u32, communicators: u32) -> Result<Self> {
        ensure!(ranks > 0, "a program has at least one rank");
        ensure!(communicators >= FEWEST, "a process is in at least {FEWEST} communicators here");
        let largest_factor = |of: u32, most: f64| {
            (1..=of)
                .take_while(|&factor| f64::from(factor) <= most + 1e-6)
                .filter(|factor| of.is_multiple_of(*factor))
                .max()
                .unwrap_or(1)
        };
        let first = largest_factor(ranks, f64::from(ranks).cbrt());
        let second = largest_factor(ranks / first, f64::from(ranks / first).sqrt());
        Ok(Program { ranks, dims: [first, second, ranks / first / second], communicators })
    }

    /// The run, as in `run.json`.
    pub fn run(&self) -> RunInfo {
        RunInfo {
            format_version: FORMAT_VERSION,
            mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
            mpi: MpiInfo {
                library: "none".to_owned(),
                flavour: "none".to_owned(),
                thread_level: "single".to_owned(),
                ..MpiInfo::default()
            },
            command: vec!["./simulated".to_owned()],
            start: "2026-01-01T00:00:00Z".to_owned(),
            end: "2026-01-01T01:00:00Z".to_owned(),
            ranks: self.ranks,
            nodes: self.ranks.div_ceil(PER_NODE),
            complete: true,
            clock: "monotonic".to_owned(),
            ..RunInfo::default()
        }
    }

    /// The tables of a rank, as it makes them of its segment at `MPI_Finalize`.
    pub fn tables(&self, rank: u32) -> Result<(Snapshot, RankTables)> {
        let words = self.segment(rank);
        let snapshot = Snapshot::read(words.words())?;
        let ticks = Ticks::new(WALL_NS - u64::from(rank % 977) * 1_000_003);
        let end = Moment { monotonic_ns: WALL_NS, ticks };
        let tables = RankTables::new(&snapshot, end);
        Ok((snapshot, tables))
    }

    fn segment(&self, rank: u32) -> Words {
        let host = format!("node{:06}", rank / PER_NODE);
        let owner =
            Owner { pid: 1000 + rank % PER_NODE, host: &host, world_rank: rank, world_size: self.ranks };
        let comms = self.comms(rank);
        let mut records: Vec<Record> = Vec::new();
        let mut counters: Vec<(SlotKey, [u64; 6])> = Vec::new();
        for comm in &comms {
            let id = comm.created.id;
            records.push(Record::Created(comm.created.clone()));
            if !comm.label.is_empty() {
                records.push(Record::Label { id, text: comm.label.to_owned() });
            }
            if !comm.topology.is_empty() {
                records.push(Record::Topology { id, text: comm.topology.clone() });
            }
            counters.extend(calls(rank, id));
            counters.extend(messages(id, comm));
        }
        records.push(Record::Region { id: SOLVER, parent: RegionId::OUTSIDE, name: "solver".to_owned() });
        counters.push((
            SlotKey::region(SOLVER),
            [10, WALL_NS / 2 + u64::from(rank % 89) * 1_000_001, 0, 0, 0, 0],
        ));
        Words::new(owner).log(&records).counters(&counters)
    }

    /// The communicators of a process, in the order in which it came to be in them.
    fn comms(&self, rank: u32) -> Vec<Comm> {
        let mut comms = Comms(Vec::with_capacity(self.communicators as usize));
        let all = || Runs::first(self.ranks);
        let [first, second, third] = self.dims;
        let at = [rank / (second * third), rank / third % second, rank % third];
        comms.add(CommId::WORLD, NO_CALL, None, all(), rank);
        comms.add(CommId::WORLD, NO_CALL, None, Runs::from_runs([run(rank, 1, 1)]), 0);
        let grid = comms.add(CommId::WORLD, CART_CREATE, None, all(), rank);
        self.add_parts(&mut comms, grid, rank, at);
        self.add_halves_and_duplicates(&mut comms, grid, rank);
        let Comms(mut comms) = comms;
        let grid = &mut comms[grid.index()];
        (grid.label, grid.topology) = ("grid", format!("cart dims={first}x{second}x{third} periods=1x1x1"));
        grid.neighbours = self.around(at);
        comms
    }

    /// Lines along each dimension, then planes across each, then the node.
    fn add_parts(&self, comms: &mut Comms, grid: CommId, rank: u32, at: [u32; 3]) {
        let [first, second, third] = self.dims;
        let plane = second * third;
        let base = rank - at[2];
        comms.add(grid, CART_SUB, Some(base), Runs::from_runs([run(base, third, 1)]), at[2]);
        let base = rank - at[1] * third;
        comms.add(grid, CART_SUB, Some(base), Runs::from_runs([run(base, second, third as i32)]), at[1]);
        let base = rank - at[0] * plane;
        comms.add(grid, CART_SUB, Some(base), Runs::from_runs([run(base, first, plane as i32)]), at[0]);
        let base = at[0] * plane;
        comms.add(grid, CART_SUB, Some(base), Runs::from_runs([run(base, plane, 1)]), rank - base);
        let rows = Runs::from_runs((0..first).map(|row| run(row * plane + at[1] * third, third, 1)));
        comms.add(grid, CART_SUB, Some(at[1] * third), rows, at[0] * third + at[2]);
        let columns = Runs::from_runs([run(at[2], first * second, third as i32)]);
        comms.add(grid, CART_SUB, Some(at[2]), columns, rank / third);
        let base = rank / PER_NODE * PER_NODE;
        let node = Runs::from_runs([run(base, PER_NODE.min(self.ranks - base), 1)]);
        comms.add(CommId::WORLD, SPLIT_TYPE, Some(base), node, rank - base);
    }

    /// Halves of halves, as often as each has at least four processes, then duplicates.
    fn add_halves_and_duplicates(&self, comms: &mut Comms, grid: CommId, rank: u32) {
        let halvings = self.ranks.ilog2().saturating_sub(2);
        let (mut parent, mut begin, mut size) = (CommId::WORLD, 0, self.ranks);
        for number in FEWEST..self.communicators {
            if number - FEWEST < halvings {
                let low = size / 2;
                let is_high = rank - begin >= low;
                let r = if is_high { low } else { 0 };
                (begin, size) = (begin + r, if is_high { size - low } else { low });
                parent =
                    comms.add(parent, SPLIT, Some(r), Runs::from_runs([run(begin, size, 1)]), rank - begin);
            } else {
                let of = if number.is_multiple_of(2) { CommId::WORLD } else { grid };
                comms.add(of, DUP, None, Runs::first(self.ranks), rank);
            }
        }
    }

    /// The six neighbours in the grid, of which some may be one.
    fn around(&self, at: [u32; 3]) -> Vec<u32> {
        let dims = self.dims;
        let mut around: Vec<u32> = (0..3)
            .flat_map(|dimension| [1, dims[dimension] - 1].map(|step| (dimension, step)))
            .map(|(dimension, step)| {
                let mut there = at;
                there[dimension] = (at[dimension] + step) % dims[dimension];
                (there[0] * dims[1] + there[1]) * dims[2] + there[2]
            })
            .collect();
        let own = (at[0] * dims[1] + at[1]) * dims[2] + at[2];
        around.sort_unstable();
        around.dedup();
        around.retain(|&neighbour| neighbour != own);
        around
    }
}

/// Five operations of three sizes, some in a region. Times are pseudo-random, and not the same on
/// any two ranks.
fn calls(rank: u32, communicator: CommId) -> impl Iterator<Item = (SlotKey, [u64; 6])> {
    let operations =
        [Operation::Allreduce, Operation::Bcast, Operation::Alltoallv, Operation::Barrier, Operation::Isend];
    let sizes = [0u64, 900, 70_000];
    let cells = operations.into_iter().flat_map(move |operation| sizes.map(|size| (operation, size)));
    cells.filter(|&(operation, size)| operation != Operation::Barrier || size == 0).map(
        move |(operation, size)| {
            let key = CallKey {
                communicator,
                region: if operation == Operation::Alltoallv { SOLVER } else { RegionId::OUTSIDE },
                operation: OperationAtSite::from_operation(operation),
                size_class: size_class(size),
                memory: Memory::Host,
            };
            let key = key.pack();
            let chance = mixed(mixed(rank.into()) ^ key.0);
            let calls = 100 + size % 7;
            let longest = 1000 + chance % 1_000_000;
            (key, [calls, calls * size, longest * calls / 3 + chance % 7, longest / 10 + 1, longest, 0])
        },
    )
}

/// Each neighbour sends as much as it receives.
fn messages(communicator: CommId, comm: &Comm) -> impl Iterator<Item = (SlotKey, [u64; 6])> {
    let sent = 300 + u64::from(comm.size % 5);
    let key = move |&peer: &u32| PeerKey { communicator, peer: CommRank::new(peer) }.pack();
    comm.neighbours.iter().map(move |peer| (key(peer), [sent, sent * 900, sent, sent * 900, 0, 0]))
}

/// S. Vigna's splitmix64.
fn mixed(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The sums over all ranks, and what these sent.
fn sum(program: &Program) -> Result<(Aggregate, Sent)> {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    let share = program.ranks.div_ceil(threads).next_power_of_two();
    let sum_from = |first: u32| -> Result<(Below, Sent)> {
        let mut tree = Tree::default();
        let end = first.saturating_add(share).min(program.ranks);
        for rank in first..end {
            let (snapshot, tables) = program.tables(rank)?;
            let aggregate = Aggregate::from_snapshot(&snapshot, &tables, &RankSet::default());
            tree.add(Below {
                ranks: 1,
                sums: Sums { aggregate, lost: Vec::new() },
                summary: RankSummary::of_one(RunSums::default(), true, node_number(rank)),
                traffic: Traffic::default(),
            })?;
        }
        tree.finish()
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let begins = (0..program.ranks).step_by(share as usize);
        let running: Vec<_> = begins.map(|first| scope.spawn(move || sum_from(first))).collect();
        running.into_iter().map(|thread| thread.join().expect("a thread that plays ranks")).collect()
    });
    let mut tree = Tree::default();
    for part in parts {
        let (below, sent) = part?;
        tree.sent.add(sent);
        tree.add(below)?;
    }
    let (root, mut sent) = tree.finish()?;
    sent.most = sent.most.most(root.traffic);
    Ok((root.sums.aggregate, sent))
}

/// A number as long as the hash of a host's name.
fn node_number(rank: u32) -> u64 {
    mixed((rank / PER_NODE).into())
}

/// Writes the aggregate profile of all ranks; returns where, and what the ranks sent.
fn write(program: &Program, folder: &Path) -> Result<(PathBuf, Sent)> {
    let (aggregate, sent) = sum(program)?;
    ensure!(aggregate.ranks() == u64::from(program.ranks), "{} ranks were folded", aggregate.ranks());
    let mut files = AggregateFiles::create(folder)?;
    files.merge(aggregate);
    Ok((files.finish(&program.run())?, sent))
}

/// Writes the profile with rows of each rank.
fn write_by_rank(program: &Program, folder: &Path) -> Result<PathBuf> {
    let nodes = Nodes::new((0..program.ranks).map(|rank| (WorldRank::new(rank), 1, rank / PER_NODE)));
    let mut files = ProfileFiles::create(folder, nodes)?;
    for rank in 0..program.ranks {
        let (_, mut tables) = program.tables(rank)?;
        files.append(&parts(&mut tables))?;
    }
    Ok(files.finish(&program.run())?)
}

/// Options of the simulated run.
#[derive(clap::Args)]
pub struct Played {
    /// How many ranks
    #[arg(long, default_value_t = 1_000_000)]
    ranks: u32,
    /// Communicators that each rank is in
    #[arg(long, default_value_t = 40)]
    communicators: u32,
    /// The directory to create (default: one below target/bench)
    #[arg(long, value_name = "NAME.mpisee")]
    folder: Option<PathBuf>,
    /// Write rows of each rank instead of sums over ranks
    #[arg(long)]
    by_rank: bool,
}

/// Plays the ranks, writes the profile, asks mpisee-through, and prints what all of it took.
pub fn measure(played: Played) -> Result<()> {
    let Played { ranks, communicators, folder, by_rank } = played;
    let program = Program::new(ranks, communicators)?;
    let scratch = root().join("target/bench");
    std::fs::create_dir_all(&scratch)?;
    let folder = folder.unwrap_or_else(|| scratch.join(format!("simulated-{ranks}.mpisee")));
    ensure!(!folder.exists(), "{} exists; remove it, or name another with --folder", folder.display());
    let start = Instant::now();
    let (folder, sent) = match by_rank {
        true => (write_by_rank(&program, &folder)?, None),
        false => write(&program, &folder).map(|(folder, sent)| (folder, Some(sent)))?,
    };
    let seconds = start.elapsed().as_secs_f64();
    let [first, second, third] = program.dims;
    println!("{ranks} ranks, {first} x {second} x {third}, {communicators} communicators each");
    println!(
        "  played, aggregate and written in {seconds:.1} s, {:.0} us a rank",
        1e6 * seconds / f64::from(ranks)
    );
    println!("  highest memory {} KiB", peak_kib()?);
    if let Some(Sent { all, most, longest }) = sent {
        println!(
            "  messages {}, of a rank at most {}; bytes {}, of a rank at most {}; the longest has {longest} before it is cut into \
             pieces",
            all.messages, most.messages, all.bytes, most.bytes
        );
    }
    let mut all = 0;
    for entry in std::fs::read_dir(&folder)? {
        let entry = entry?;
        all += entry.metadata()?.len();
        println!("  {:>12} bytes  {}", entry.metadata()?.len(), entry.file_name().display());
    }
    println!("  {all:>12} bytes  {}", folder.display());
    let mut build = Command::new("cargo");
    build.current_dir(root());
    ensure!(build.args(["build", "--quiet", "--release", "--package", "mpisee-through"]).status()?.success());
    for command in ["summary", "comms", "ops", "sizes", "regions", "efficiency", "ranks", "matrix", "check"] {
        let (seconds, kib, code) = asked(command, &folder)?;
        println!("  mpisee-through {command:<10} {seconds:7.3} s {kib:>8} KiB, exit code {code}");
    }
    Ok(())
}

/// The most memory that this process ever had.
fn peak_kib() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .context("no VmHWM in /proc/self/status")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}

/// The seconds, the highest memory and the exit code of a command.
fn asked(command: &str, folder: &Path) -> Result<(f64, i64, i32)> {
    let program = root().join("target/release/mpisee-through");
    let start = Instant::now();
    let child = Command::new(program).arg(command).arg(folder).stdout(Stdio::null()).spawn()?;
    let mut status = 0;
    // SAFETY: a usage of zeros is valid, and the call fills it.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are valid for writing, and the child is ours and was not waited for.
    let waited = unsafe { libc::wait4(child.id() as libc::pid_t, &raw mut status, 0, &raw mut usage) };
    ensure!(
        waited == child.id() as libc::pid_t,
        "waiting for mpisee-through: {}",
        std::io::Error::last_os_error()
    );
    Ok((
        start.elapsed().as_secs_f64(),
        usage.ru_maxrss,
        std::process::ExitStatus::from_raw(status).code().unwrap_or(-1),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mpisee_collect::wire::pieces::PIECE;
    use mpisee_profile::Profile;
    use mpisee_profile::comm_name::derived;
    use mpisee_profile::rows::{
        CallRow, CommRow, NodeRow, OffsetRow, PeerRow, RankRow, Row, Seconds, SpreadRow, TotalRow,
    };
    use std::collections::BTreeMap;

    fn all<R: Row>(profile: &Profile) -> Vec<R> {
        profile.rows::<R>().unwrap().map(Result::unwrap).collect()
    }

    fn ns(seconds: Seconds) -> u64 {
        (seconds.0 * 1e9).round() as u64
    }

    /// Calls, bytes, nanoseconds.
    type Sum = (u64, u64, u64);

    /// The row of the aggregate profile that stands for each communicator: that of its pattern and
    /// size, or its own. Asserts that the rows count all of them.
    fn rows_of<'r>(rows: &'r [CommRow], families: &'r [CommRow]) -> BTreeMap<&'r str, &'r str> {
        let known: BTreeMap<&str, &CommRow> = families.iter().map(|row| (row.comm.as_str(), row)).collect();
        let mut of: BTreeMap<&str, &str> = BTreeMap::new();
        let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
        for row in rows {
            let family = derived(&row.comm, |name| name.family(row.size));
            let name = known.get(family.as_str()).unwrap_or_else(|| &known[row.comm.as_str()]).comm.as_str();
            *counts.entry(name).or_default() += 1;
            of.insert(&row.comm, name);
        }
        assert_eq!(counts, families.iter().map(|row| (row.comm.as_str(), row.count)).collect());
        assert!(families.len() < rows.len() / 10, "{} of {}", families.len(), rows.len());
        of
    }

    /// Asserts that calls, bytes and times of operations are those of `calls`, and so are the
    /// slowest and the fastest rank.
    fn assert_calls_add_up(calls: Vec<CallRow>, aggregate: &Profile, of: &BTreeMap<&str, &str>) {
        let mut expected: BTreeMap<(&str, String, String, u64), Sum> = BTreeMap::new();
        let mut of_rank: BTreeMap<(&str, String), BTreeMap<u32, u64>> = BTreeMap::new();
        for row in calls {
            let comm = of[row.comm.as_str()];
            let sum = expected.entry((comm, row.region, row.call.clone(), row.size_min)).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.bytes, sum.2 + ns(row.time_s));
            *of_rank.entry((comm, row.call)).or_default().entry(row.rank).or_default() += ns(row.time_s);
        }
        let totals: Vec<TotalRow> = all(aggregate);
        let found = totals.iter().map(|row| {
            let key = (row.comm.as_str(), row.region.clone(), row.call.clone(), row.size_min);
            (key, (row.calls, row.bytes, ns(row.time_s)))
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), expected);
        let spreads: Vec<SpreadRow> = all(aggregate);
        for row in spreads.iter().filter(|row| !row.comm.is_empty() && !row.call.is_empty()) {
            let times = &of_rank[&(row.comm.as_str(), row.call.clone())];
            let most = times.iter().max_by_key(|&(rank, time)| (*time, std::cmp::Reverse(*rank))).unwrap();
            let least = times.iter().min_by_key(|&(rank, time)| (*time, *rank)).unwrap();
            let slowest = (row.ranks, row.time_max_rank, ns(row.time_max_s));
            assert_eq!(slowest, (times.len() as u64, *most.0, *most.1));
            assert_eq!((row.time_min_rank, ns(row.time_min_s)), (*least.0, *least.1));
        }
    }

    /// Pairs of ranks, messages, and bytes sent and received.
    fn assert_peers_add_up(by_rank: &Profile, aggregate: &Profile) {
        let sum = |rows: &mut dyn Iterator<Item = [u64; 4]>| {
            rows.fold([0; 4], |sums, row| std::array::from_fn(|place| sums[place] + row[place]))
        };
        let peers: Vec<PeerRow> = all(by_rank);
        let offsets: Vec<OffsetRow> = all(aggregate);
        let of_peer = |row: &PeerRow| [1, row.sent_messages, row.sent_bytes, row.received_bytes];
        let of_offset = |row: &OffsetRow| [row.pairs, row.sent_messages, row.sent_bytes, row.received_bytes];
        assert_eq!(sum(&mut peers.iter().map(of_peer)), sum(&mut offsets.iter().map(of_offset)));
    }

    #[test]
    fn messages_of_the_tree_are_counted() {
        // Each rank but the first has a parent, to and from which go a summary, two commands and
        // sums: each its length and a piece.
        let program = Program::new(13, 12).unwrap();
        let (_, sent) = sum(&program).unwrap();
        assert_eq!(sent.all.messages, 12 * 8);
        // Rank 0 has the children 1, 2, 4 and 8.
        assert_eq!(sent.most.messages, 4 * 8);
        assert!(sent.most.bytes < sent.all.bytes && sent.longest < PIECE);
    }

    #[test]
    fn sums_over_ranks_are_those_of_the_rows_by_rank() {
        let scratch = tempfile::tempdir().unwrap();
        let program = Program::new(1500, 24).unwrap();
        let by_rank =
            Profile::open(write_by_rank(&program, &scratch.path().join("a.mpisee")).unwrap()).unwrap();
        let aggregate = Profile::open(write(&program, &scratch.path().join("b.mpisee")).unwrap().0).unwrap();
        assert_eq!((by_rank.run().is_aggregate, aggregate.run().is_aggregate), (false, true));
        let (rows, families): (Vec<CommRow>, Vec<CommRow>) = (all(&by_rank), all(&aggregate));
        assert_calls_add_up(all(&by_rank), &aggregate, &rows_of(&rows, &families));
        assert_peers_add_up(&by_rank, &aggregate);
        let ranks: Vec<RankRow> = all(&by_rank);
        let nodes: Vec<NodeRow> = all(&aggregate);
        let mpi_ns = ranks.iter().map(|row| ns(row.mpi_s)).sum::<u64>();
        assert_eq!(mpi_ns, nodes.iter().map(|row| ns(row.mpi_s)).sum::<u64>());
        assert_eq!(nodes.iter().map(|row| row.ranks).sum::<u64>(), 1500);
    }
}
