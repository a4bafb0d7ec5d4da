//! The part of a core that an agent takes: `mpisee-through agent` beside played ranks, whose
//! segments change all the time.

use anyhow::{Context, Result, ensure};
use clap::Args;
use mpisee_collect::process;
use mpisee_collect::segments::own_user;
use mpisee_profile::rows::Memory;
use mpisee_profile::segment::fact::Fact;
use mpisee_profile::segment::layout::{Header, state};
use mpisee_profile::segment::log::{Created, Record, Runs};
use mpisee_profile::segment::words::{Owner, Words};
use mpisee_profile::segment::{CallKey, OperationAtSite, SlotKey, file_name};
use mpisee_profile::{CommId, CommRank, Operation, RegionId};
use std::fs::{File, OpenOptions};
use std::mem::offset_of;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use xtask::root;

/// The part of a core that an agent may take, in per cent, at an interval of a second.
const MOST_PERCENT: f64 = 0.1;

/// Operations on each communicator.
const OPERATIONS: [Operation; 3] = [Operation::Allreduce, Operation::Isend, Operation::Waitall];
/// Sizes of messages of each operation.
const SIZE_CLASSES: [u8; 2] = [4, 12];

/// Options of the measurement.
#[derive(Args)]
pub struct Watched {
    /// Ranks on the node
    #[arg(long, default_value_t = 64)]
    ranks: u32,
    /// Communicators of each rank, no two of one family
    #[arg(long, default_value_t = 100)]
    communicators: u32,
    /// Seconds between two readings
    #[arg(long, default_value_t = 1.0)]
    interval: f64,
    /// How long the agent runs, in seconds
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The program that is measured
    #[arg(long, default_value = "target/release/mpisee-through")]
    agent: PathBuf,
}

/// A process that sleeps, and the segment that it would have.
struct Played {
    process: Child,
    rank: u32,
    start: u64,
    file: File,
}

impl Drop for Played {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Measures an agent, and fails if it takes more than it may.
pub fn agent(watched: &Watched) -> Result<()> {
    let agent = root().join(&watched.agent);
    ensure!(
        agent.exists(),
        "there is no '{}'; cargo build --release -p mpisee-through makes it",
        agent.display()
    );
    let folder = tempfile::tempdir_in("/dev/shm").context("cannot make a folder for segments")?;
    let output = tempfile::tempdir()?;
    let played: Result<Vec<Played>> =
        (0..watched.ranks).map(|rank| Played::start(folder.path(), rank, watched)).collect();
    let played = played?;
    let mut command = Command::new(&agent);
    command.args(["agent", "--interval"]).arg(format!("{}s", watched.interval));
    command.arg("--output").arg(output.path().join("played.timeline")).arg(folder.path());
    let mut running = command.stdout(Stdio::null()).spawn().context("cannot start the agent")?;
    let begin = Instant::now();
    let mut round = 1;
    while begin.elapsed() < Duration::from_secs(watched.seconds) {
        std::thread::sleep(Duration::from_millis(500));
        round += 1;
        played.iter().try_for_each(|played| played.count(watched, round))?;
    }
    drop(played);
    ensure!(running.wait()?.success(), "the agent failed");
    report(&output.path().join("played.timeline"), watched)
}

/// Prints what the agent says of itself.
fn report(line: &Path, watched: &Watched) -> Result<()> {
    let text = std::fs::read(line.join("n1.json")).context("the agent has left nothing")?;
    let node: serde_json::Value = serde_json::from_slice(&text)?;
    let number = |name: &str| node[name].as_f64().unwrap_or(f64::NAN);
    let percent = 100.0 * number("cpu_s") / number("wall_s");
    let size = std::fs::metadata(line.join("n1.rates.csv.zst"))?.len();
    println!(
        "{} ranks with {} communicators and {} operations on each, every {} s: {:.3} % of a core, {:.0} µs for a reading, {} bytes for an interval",
        watched.ranks,
        watched.communicators,
        OPERATIONS.len(),
        watched.interval,
        percent,
        1e6 * number("cpu_s") / number("readings"),
        size / node["readings"].as_u64().unwrap_or(1).max(1),
    );
    let most = MOST_PERCENT / watched.interval.min(1.0);
    ensure!(percent <= most, "the agent takes {percent:.3} % of a core, and may take {most} %");
    Ok(())
}

impl Played {
    fn start(folder: &Path, rank: u32, watched: &Watched) -> Result<Played> {
        let process = Command::new("sleep").arg("3600").spawn().context("cannot start 'sleep'")?;
        let pid = process.id();
        let start = process::look_at(pid).context("the process is gone")?.start;
        let path = folder.join(file_name(own_user()?, pid, u64::from(rank) + 1));
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        let played = Played { process, rank, start, file };
        played.count(watched, 1)?;
        Ok(played)
    }

    /// Writes the counters after that many rounds.
    fn count(&self, watched: &Watched, round: u64) -> Result<()> {
        let owner =
            Owner { pid: self.process.id(), host: "n1", world_rank: self.rank, world_size: watched.ranks };
        let mut words = Words::new(owner).log(&log(watched)).counters(&counters(watched, round));
        words.set(offset_of!(Header, state), state::ACTIVE);
        words.set(offset_of!(Header, job), 0x1a2b);
        words.set(offset_of!(Header, boot), process::boot());
        words.set(offset_of!(Header, namespace), process::namespace());
        words.set(offset_of!(Header, process_start), self.start);
        words.set(offset_of!(Header, local_size), watched.ranks.into());
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos();
        words.set(offset_of!(Header, start_realtime_ns), u64::try_from(now)?);
        Ok(self.file.write_all_at(&words.bytes(), 0)?)
    }
}

/// The world, the process itself, and duplicates of the world.
fn log(watched: &Watched) -> Vec<Record> {
    let comm = |id: u32| {
        let world = Created::with_world(CommId::new(id), CommRank::FIRST, Runs::first(watched.ranks));
        Record::Created(match id {
            0 | 1 => world,
            _ => Created {
                parent: Some(CommId::WORLD),
                letter: b'd',
                n: id - 1,
                operation: Operation::CommDup as u32,
                ..world
            },
        })
    };
    let name = Record::Fact { which: Fact::Profile as u32, text: "played.mpisee".to_owned() };
    (0..watched.communicators + 1).map(comm).chain([name]).collect()
}

fn counters(watched: &Watched, round: u64) -> Vec<(SlotKey, [u64; 6])> {
    let mut slots = Vec::new();
    for comm in (0..=watched.communicators).filter(|&comm| comm != 1) {
        for operation in OPERATIONS {
            for size_class in SIZE_CLASSES {
                let (communicator, region) = (CommId::new(comm), RegionId::OUTSIDE);
                let operation = OperationAtSite::from_operation(operation);
                let key = CallKey { communicator, region, operation, size_class, memory: Memory::Host };
                slots.push((key.pack(), [round * 7, round * 56, round * 1_000_000, 1, 9, 0]));
            }
        }
    }
    slots
}
