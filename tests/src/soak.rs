//! Runs of `tests/programs/random/soak.c`, which keeps books of what it does, and the comparison of
//! its profile with them.

use crate::signal::{self, SIGKILL};
use crate::{Mpi, Tables, dist, through};
use mpisee_collect::process;
use mpisee_profile::rows::CommRow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// The number of ranks.
pub const RANKS: u32 = 8;

/// One run to be made.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Seed of the random numbers.
    pub seed: u64,
    /// The time for which the ranks communicate; where one is killed, at most.
    pub milliseconds: u64,
    /// The rank to kill, and how long after all have begun.
    pub kill: Option<(u32, u64)>,
}

/// Outcome of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Balance {
    /// Communicators in the profile.
    pub communicators: usize,
    /// Calls in the books of all ranks.
    pub calls: u64,
    /// Calls in the profile.
    pub recorded: u64,
}

const LIMIT: Duration = Duration::from_secs(180);

impl Soak {
    /// The run that a seed stands for: in every second one a rank is killed.
    pub fn drawn(seed: u64, most_seconds: f64) -> Soak {
        let mut state = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) % below
        };
        let most = (most_seconds * 1000.0) as u64;
        let milliseconds = most / 3 + draw(most.max(3) * 2 / 3);
        let (rank, after) = (draw(RANKS.into()) as u32, draw(milliseconds.max(1)));
        Soak { seed, milliseconds, kill: seed.is_multiple_of(2).then_some((rank, after)) }
    }

    /// Runs it in `folder`, which must be empty, and compares. The error is the first difference.
    pub fn run(&self, mpi: &Mpi, folder: &Path) -> Result<Balance, String> {
        let segments = folder.join("segments");
        std::fs::create_dir(&segments).map_err(|error| format!("{}: {error}", segments.display()))?;
        let mut running = self.start(mpi, folder)?;
        let ended = match self.kill {
            Some((rank, after)) => kill(&mut running, folder, rank, after),
            None => running.wait(),
        };
        let said = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        let code = ended.map_err(|why| format!("{why}\n{said}"))?;
        match self.kill {
            None if code != Some(0) => return Err(format!("exit code {code:?}\n{said}")),
            None => {}
            Some(_) if said.contains("not so:") => return Err(said),
            Some(_) => recover(folder, &segments)?,
        }
        let balance = compare(folder, self.kill.is_some()).map_err(|why| format!("{why}\n{said}"))?;
        nothing_is_left(folder, &segments)?;
        Ok(balance)
    }

    fn start(&self, mpi: &Mpi, folder: &Path) -> Result<Running, String> {
        let file =
            |name: &str| std::fs::File::create(folder.join(name)).map_err(|error| format!("{name}: {error}"));
        let mut command = mpi.launcher(RANKS, &[]);
        command.arg(dist().join("bin/mpisee")).arg("--segments").arg(folder.join("segments"));
        command.args(["--output", "soak.mpisee"]).arg(mpi.compile("random/soak"));
        let milliseconds = if self.kill.is_some() { 0 } else { self.milliseconds };
        command.args([self.seed.to_string(), milliseconds.to_string()]).arg(folder);
        command.current_dir(folder).stdout(file("stdout")?).stderr(file("stderr")?).stdin(Stdio::null());
        // Leftovers in the folder for temporary files are found there.
        command.env("TMPDIR", folder).process_group(0);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Running { child, folder: folder.to_owned() })
    }
}

/// A launcher and its ranks; none outlives this.
struct Running {
    child: Child,
    folder: PathBuf,
}

impl Running {
    fn wait(&mut self) -> Result<Option<i32>, String> {
        let begin = Instant::now();
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Ok(status.code()),
                Ok(None) if begin.elapsed() < LIMIT => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => return Err(format!("it did not end within {LIMIT:?}")),
                Err(error) => return Err(error.to_string()),
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            signal::send_to_group(SIGKILL, self.child.id());
            let _ = self.child.wait();
        }
        for pid in processes_of(&self.folder) {
            signal::send(SIGKILL, pid);
        }
    }
}

/// The processes with the folder among their arguments, and not ended.
fn processes_of(folder: &Path) -> Vec<u32> {
    let text = folder.as_os_str().as_encoded_bytes();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|&pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        pid != std::process::id()
            && command.split(|&byte| byte == 0).any(|word| word == text)
            && process::look_at(pid).is_some_and(|seen| !seen.ended)
    })
    .collect()
}

/// Kills a rank at its time; the launcher is to end the others.
fn kill(running: &mut Running, folder: &Path, rank: u32, after: u64) -> Result<Option<i32>, String> {
    let begin = Instant::now();
    let ready = || (0..RANKS).all(|rank| Books::read(folder, rank).is_ok_and(|books| books.is_ready));
    while !ready() {
        if begin.elapsed() > LIMIT || !matches!(running.child.try_wait(), Ok(None)) {
            return Err("the ranks did not begin".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(after));
    let victim = Books::read(folder, rank)?.pid;
    signal::send(SIGKILL, u32::try_from(victim).map_err(|_| "the books name no process".to_owned())?);
    let code = running.wait()?;
    let begin = Instant::now();
    while !processes_of(folder).is_empty() {
        if begin.elapsed() > LIMIT {
            return Err("ranks go on without their launcher".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(code)
}

fn recover(folder: &Path, segments: &Path) -> Result<(), String> {
    let profile = folder.join("soak.mpisee");
    let of = |path: &Path| path.display().to_string();
    let output = through(&["recover", &of(segments), "--clean", "--output", &of(&profile)]);
    if output.status.success() {
        return Ok(());
    }
    Err(format!("recover: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Everything that a profile and the books have in common.
type Key = (u64, String, String);

/// The books of a rank: the layout is that of soak.c.
struct Books {
    pid: u64,
    is_ready: bool,
    /// The operation on its way, and how many bytes it may add.
    doing: Option<(String, u64)>,
    /// By communicator, region and operation: calls and bytes.
    calls: BTreeMap<Key, (u64, u64)>,
    /// By communicator and peer: messages and bytes sent, messages and bytes received.
    traffic: BTreeMap<(u64, u64), [u64; 4]>,
}

impl Books {
    fn read(folder: &Path, rank: u32) -> Result<Books, String> {
        const NAMES: usize = 6 * 8;
        const ENTRIES: usize = NAMES + 64 * 32;
        const ENTRY: usize = 2 * 32 + 3 * 8;
        const TRAFFIC: usize = ENTRIES + (1 << 15) * ENTRY;
        let path = folder.join(format!("books.{rank}"));
        let bytes = std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if bytes.len() < TRAFFIC {
            return Err(format!("{} is not whole", path.display()));
        }
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let text = |at: usize| {
            let text = bytes[at..at + 32].split(|&byte| byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).into_owned()
        };
        let doing = word(16).checked_sub(1).map(|at| (text(NAMES + at as usize * 32), word(24)));
        let mut calls = BTreeMap::new();
        for at in (0..word(32) as usize).map(|k| ENTRIES + k * ENTRY) {
            calls.insert((word(at + 64), text(at + 32), text(at)), (word(at + 72), word(at + 80)));
        }
        let mut traffic = BTreeMap::new();
        for at in (0..word(40) as usize).map(|k| TRAFFIC + k * 48) {
            let values = std::array::from_fn(|which| word(at + 16 + which * 8));
            traffic.insert((word(at), word(at + 8)), values);
        }
        Ok(Books { pid: word(0), is_ready: word(8) != 0, doing, calls, traffic })
    }
}

/// The number of a communicator that was killed before anybody named it.
const UNNAMED: u64 = u64::MAX;

/// Compares the profile with the books of all ranks.
fn compare(folder: &Path, killed: bool) -> Result<Balance, String> {
    let directory = folder.join("soak.mpisee");
    if !directory.join("run.json").exists() {
        return Err("there is no profile".to_owned());
    }
    let tables = Tables::read(&directory, "");
    if tables.run.complete == killed || !tables.run.not_seen.is_empty() {
        return Err(format!("complete {}, not seen {:?}", tables.run.complete, tables.run.not_seen));
    }
    let check = through(&["check", &directory.display().to_string()]);
    if !check.status.success() {
        return Err(format!("check: {}", String::from_utf8_lossy(&check.stdout)));
    }
    // A rank killed before the agreement on the number of an idup ends names the communicator
    // without a number: `W_i?`.
    let whole = |row: &&CommRow| !killed || !(row.label.is_empty() || row.comm.contains('?'));
    let labels: BTreeSet<&str> = tables.comms.iter().filter(whole).map(|row| row.label.as_str()).collect();
    if labels.contains("") || labels.len() != tables.comms.iter().filter(whole).count() {
        return Err("a communicator has no label, or two have the same".to_owned());
    }
    let mut balance = Balance { communicators: tables.comms.len(), ..Balance::default() };
    let profiled = Profiled::new(&tables);
    for rank in 0..RANKS {
        let books = Books::read(folder, rank)?;
        let doing = books.doing.as_ref().filter(|_| killed);
        profiled
            .compare_calls(rank, &books, doing, &mut balance)
            .and_then(|()| profiled.compare_traffic(rank, &books, doing))
            .map_err(|why| format!("rank {rank}: {why}"))?;
    }
    Ok(balance)
}

/// A profile, and the numbers that the program gave its communicators.
struct Profiled<'t> {
    tables: &'t Tables,
    numbers: BTreeMap<&'t str, u64>,
    named: BTreeSet<u64>,
}

impl<'t> Profiled<'t> {
    fn new(tables: &'t Tables) -> Self {
        let numbers: BTreeMap<&str, u64> =
            tables.comms.iter().map(|row| (row.comm.as_str(), number(&row.label))).collect();
        let named = numbers.values().copied().filter(|&id| id != UNNAMED).collect();
        Profiled { tables, numbers, named }
    }

    fn number_of(&self, comm: &str) -> Result<u64, String> {
        self.numbers.get(comm).copied().ok_or_else(|| format!("no row of {comm}"))
    }

    /// The number in the profile of a communicator in the books. Another rank may have been first
    /// to report it, and killed before it named it.
    fn booked(&self, id: u64) -> u64 {
        if self.named.contains(&id) { id } else { UNNAMED }
    }

    fn compare_calls(
        &self,
        rank: u32,
        books: &Books,
        doing: Option<&(String, u64)>,
        balance: &mut Balance,
    ) -> Result<(), String> {
        let mut own: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for ((id, region, operation), (calls, bytes)) in &books.calls {
            let sum = own.entry((self.booked(*id), region.clone(), operation.clone())).or_default();
            *sum = (sum.0 + calls, sum.1 + bytes);
            balance.calls += calls;
        }
        let mut theirs: BTreeMap<Key, (u64, u64)> = BTreeMap::new();
        for row in self.tables.calls.iter().filter(|row| row.rank == rank) {
            let key = (self.number_of(&row.comm)?, row.region.clone(), row.call.clone());
            let sum = theirs.entry(key).or_default();
            *sum = (sum.0 + row.calls, sum.1 + row.bytes);
            balance.recorded += row.calls;
        }
        compare_calls(&own, &theirs, doing)
    }

    /// Compares messages; of the operation on its way some may be more than in the books.
    fn compare_traffic(&self, rank: u32, books: &Books, doing: Option<&(String, u64)>) -> Result<(), String> {
        let mut more: BTreeMap<(u64, u64), [u64; 4]> = BTreeMap::new();
        let mut add = |key: (u64, u64), values: [u64; 4], sign: i64| {
            let sum = more.entry(key).or_default();
            *sum = std::array::from_fn(|k| sum[k].wrapping_add_signed(sign * values[k] as i64));
        };
        for row in self.tables.peers.iter().filter(|row| row.rank == rank) {
            let values = [row.sent_messages, row.sent_bytes, row.received_messages, row.received_bytes];
            add((self.number_of(&row.comm)?, row.peer.into()), values, 1);
        }
        for (&(id, peer), &values) in &books.traffic {
            add((self.booked(id), peer), values, -1);
        }
        let most_bytes = doing.map_or(0, |(_, bytes)| *bytes);
        let most_messages = if doing.is_some() { 48 } else { 0 };
        for (key, values) in more {
            let fits = |messages: u64, bytes: u64| messages <= most_messages && bytes <= most_bytes;
            if !fits(values[0], values[1]) || !fits(values[2], values[3]) {
                let values = values.map(|value| value as i64);
                return Err(format!("communicator and peer {key:?}: {values:?} more, doing {doing:?}"));
            }
        }
        Ok(())
    }
}

/// Every call of the books is in the profile; of the operation on its way one more may be, on each
/// communicator.
fn compare_calls(
    own: &BTreeMap<Key, (u64, u64)>,
    theirs: &BTreeMap<Key, (u64, u64)>,
    doing: Option<&(String, u64)>,
) -> Result<(), String> {
    let keys: BTreeSet<&Key> = own.keys().chain(theirs.keys()).collect();
    let mut added = 0;
    for key in keys {
        let of = |map: &BTreeMap<Key, (u64, u64)>| map.get(key).copied().unwrap_or_default();
        let (booked, recorded) = (of(own), of(theirs));
        let on_its_way = doing.is_some_and(|(operation, _)| *operation == key.2);
        let calls = recorded.0.wrapping_sub(booked.0);
        let bytes = recorded.1.wrapping_sub(booked.1);
        let fits = calls <= u64::from(on_its_way) && doing.map_or(bytes == 0, |(_, most)| bytes <= *most);
        added += bytes;
        if !fits || doing.is_some_and(|(_, most)| added > *most) {
            return Err(format!(
                "communicator c{}, region '{}', {}: {booked:?} in the books, {recorded:?} in the profile, doing {doing:?}",
                key.0 as i64, key.1, key.2
            ));
        }
    }
    Ok(())
}

fn number(label: &str) -> u64 {
    label.strip_prefix('c').and_then(|number| number.parse().ok()).unwrap_or(UNNAMED)
}

fn nothing_is_left(folder: &Path, segments: &Path) -> Result<(), String> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let left = list(segments);
    if !left.is_empty() {
        return Err(format!("segments are left: {left:?}"));
    }
    let ours =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("mpisee"));
    let mut profiles: Vec<PathBuf> = list(folder).into_iter().filter(ours).collect();
    profiles.retain(|path| *path != folder.join("soak.mpisee"));
    if !profiles.is_empty() {
        return Err(format!("files are left: {profiles:?}"));
    }
    match processes_of(folder) {
        processes if processes.is_empty() => Ok(()),
        processes => Err(format!("processes are left: {processes:?}")),
    }
}
