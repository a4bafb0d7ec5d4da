//! The measurements of `examples/joins.rs`: joins of very many arrivals.

use super::arrivals::{self, NO_ROOT, Point, Rows};
use anyhow::{Context, Result, ensure};
use mpisee_profile::segment::instances::is_kept;
use mpisee_profile::{FORMAT_VERSION, Profile, RunInfo};
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// All ranks.
const RANKS: u32 = 10_000;

/// Communicators of one operation each.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Their number.
    pub comms: u32,
    /// The members of each.
    pub members: u32,
    /// The sampled instances of each.
    pub instances: usize,
}

impl Shape {
    fn ranks(&self, comm: u32) -> Vec<u32> {
        (0..self.members).map(|member| (comm * self.members + member) % RANKS).collect()
    }

    /// The sampled numbers.
    fn numbers(&self) -> Vec<u64> {
        (0..).filter(|&number| is_kept(number, 63)).take(self.instances).collect()
    }

    /// The rows of a communicator, rank by rank as they are in `arrivals.csv`.
    fn points(&self, comm: u32) -> Vec<Point> {
        let numbers = self.numbers();
        let of_rank = |rank: u32| {
            let point = move |&instance: &u64| {
                let arrival_ns = 1_000_000 * instance + u64::from(rank % 977);
                Point { instance, arrival_ns, departure_ns: arrival_ns + 2_000, rank, root: NO_ROOT }
            };
            numbers.iter().map(point).collect::<Vec<Point>>()
        };
        self.ranks(comm).into_iter().flat_map(of_rank).collect()
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        (self.comms * self.members) as usize * self.instances
    }
}

/// Makes the rows in memory, and returns how long joining them takes.
pub fn join_from_memory(shape: Shape) -> Result<Duration> {
    let all: Vec<Vec<Rows>> =
        (0..shape.comms).map(|comm| vec![Rows { points: shape.points(comm), ..Rows::default() }]).collect();
    let start = Instant::now();
    for (comm, rows) in (0..).zip(&all) {
        ensure!(arrivals::join(rows, &shape.ranks(comm)).instances.len() == shape.instances);
    }
    Ok(start.elapsed())
}

/// Writes `arrivals.csv` into a directory, and `run.json`.
pub fn write(shape: Shape, directory: &Path) -> Result<()> {
    let run = RunInfo { format_version: FORMAT_VERSION, ..RunInfo::default() };
    std::fs::write(directory.join("run.json"), serde_json::to_vec(&run)?)?;
    let file = std::fs::File::create(directory.join("arrivals.csv"))?;
    let mut file = std::io::BufWriter::with_capacity(1 << 20, file);
    writeln!(file, "comm,call,instance,rank,root,arrival_s,departure_s,started_s,completed")?;
    let mut line = String::new();
    for comm in 0..shape.comms {
        for point in shape.points(comm) {
            let seconds = |ns: u64| (ns / 1_000_000_000, ns % 1_000_000_000);
            let (arrival, departure) = (seconds(point.arrival_ns), seconds(point.departure_ns));
            line.clear();
            writeln!(
                line,
                "W_s1.{comm},MPI_Allreduce,{},{},,{}.{:09},{}.{:09},,",
                point.instance, point.rank, arrival.0, arrival.1, departure.0, departure.1
            )?;
            file.write_all(line.as_bytes())?;
        }
    }
    Ok(file.flush()?)
}

/// Reads and joins the rows that [`write()`] wrote, and returns how long each takes.
pub fn join_from_table(shape: Shape, directory: &Path) -> Result<[Duration; 2]> {
    let profile = Profile::open(directory)?;
    let start = Instant::now();
    let (mut points, cut_off) = arrivals::read(&profile)?;
    ensure!(cut_off.is_none(), "{cut_off:?}");
    let read = start.elapsed();
    let start = Instant::now();
    for comm in 0..shape.comms {
        let key = (format!("W_s1.{comm}"), "MPI_Allreduce".to_owned());
        let rows = points.remove(&key).context("a communicator has no rows")?;
        ensure!(arrivals::join(&rows, &shape.ranks(comm)).instances.len() == shape.instances);
    }
    Ok([read, start.elapsed()])
}
