//! At `MPI_Finalize`: every rank makes its rows, rank 0 writes them.
//!
//! Rows travel as CSV text, one rank after the other and in pieces of limited size, so that no rank holds
//! more than its own rows and one piece of another's.

use crate::abi::{Comm, Raw, STATUS_IGNORE, constant};
use crate::by_hand::FLAVOUR;
use crate::clock;
use crate::generated::pmpi;
use crate::message::say;
use crate::naming;
use crate::process::{self, Process};
use mpisee_profile::rows::{CallRow, CommRow, PeerRow, RankRow, RegionRow};
use mpisee_profile::run::{MpiInfo, RunInfo};
use mpisee_profile::segment::tables::{is_merged, merge};
use mpisee_profile::segment::{NotSeen, RankTables, Snapshot};
use mpisee_profile::writer::{ProfileWriter, TableWriter, from_csv, to_csv};
use mpisee_profile::{FORMAT_VERSION, ProfileError};
use std::collections::{BTreeMap, HashMap};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};

/// Bytes that travel at a time.
const PIECE: usize = 1 << 20;
/// The tables, in the order in which a rank's rows travel.
const TABLES: usize = 5;

/// Writes the profile, together with all other ranks.
pub fn write_profile() {
    let Some(process) = process::process() else { return };
    let end = clock::moment();
    let end_realtime_ns = clock::realtime_ns();
    naming::finish_duplications(process, true);
    let link = Link::open(process);
    let parts = own_rows(process, end);
    let header = process.segment.header();
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    let mut counts: Vec<u64> =
        NotSeen::ALL.iter().map(|&reason| header.not_seen[reason as usize].load(relaxed)).collect();
    counts.push(header.recording_was_off.load(relaxed));
    let counts = link.sum(process, &counts);
    let nodes = link.node_of_each_rank(process);
    if process.world_rank == 0 {
        write(process, &link, parts, &counts, &nodes, end_realtime_ns);
    } else {
        link.send(process, &parts);
    }
    link.close();
    process.segment.remove();
}

/// The own rows as CSV text, by table.
fn own_rows(process: &Process, end: mpisee_profile::segment::tables::Moment) -> [Vec<u8>; TABLES] {
    match Snapshot::read(&process.segment) {
        Ok(snapshot) => {
            let tables = RankTables::new(&snapshot, end);
            [
                to_csv(&[tables.rank]),
                to_csv(&tables.comms),
                to_csv(&tables.calls),
                to_csv(&tables.peers),
                to_csv(&tables.regions),
            ]
        }
        Err(error) => {
            say(format_args!("rank {}: {error}; its counts are lost", process.world_rank));
            Default::default()
        }
    }
}

/// Writes everything, on rank 0. An error is said once; the other ranks' rows are taken all the same, so
/// that nobody waits.
fn write(
    process: &Process,
    link: &Link,
    own: [Vec<u8>; TABLES],
    counts: &[u64],
    nodes: &[u32],
    end_realtime_ns: u64,
) {
    let command = command_line();
    let mut files = Files::create(&wanted_directory(process, &command), nodes);
    let mut add = |parts: &[Vec<u8>; TABLES]| {
        if let Ok(open) = &mut files
            && let Err(error) = open.append(parts)
        {
            files = Err(error);
        }
    };
    add(&own);
    drop(own);
    for rank in 1..process.world_size {
        add(&link.receive(process, rank));
    }
    let mut distinct = nodes.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let run = RunInfo {
        format_version: FORMAT_VERSION,
        mpisee_version: env!("CARGO_PKG_VERSION").to_owned(),
        mpi: MpiInfo {
            library: process.library_version.clone(),
            flavour: FLAVOUR.to_owned(),
            thread_level: process.thread_level.to_owned(),
        },
        command,
        start: rfc3339(process.start_realtime_ns),
        end: rfc3339(end_realtime_ns),
        ranks: process.world_size,
        nodes: distinct.len() as u32,
        complete: true,
        incomplete_because: None,
        clock: if process.ticks_are_tsc { "tsc" } else { "monotonic" }.to_owned(),
        recording_was_off: counts[NotSeen::ALL.len()] > 0,
        not_seen: not_seen(counts),
        notes: process.notes.clone(),
    };
    let ranks = process.world_size;
    match files.and_then(|files| files.finish(&run)) {
        Ok(directory) if !process.options.quiet => {
            let directory = directory.display();
            let plural = if ranks == 1 { "" } else { "s" };
            say(format_args!(
                "profile of {ranks} rank{plural} in {directory}; read it with: mpisee-through {directory}"
            ));
        }
        Ok(_) => {}
        Err(error) => {
            say(format_args!("no profile: {error}; set MPISEE_OUTPUT to a directory that can be made"))
        }
    }
}

fn not_seen(counts: &[u64]) -> BTreeMap<String, u64> {
    let named = NotSeen::ALL.iter().map(|reason| reason.name().to_owned()).zip(counts.iter().copied());
    named.filter(|&(_, count)| count > 0).collect()
}

/// The files of the profile, being written.
struct Files<'n> {
    directory: ProfileWriter,
    ranks: TableWriter,
    comms: TableWriter,
    calls: TableWriter,
    peers: TableWriter,
    regions: TableWriter,
    /// Communicators that several ranks report, by name; with the order in which they came.
    merged: HashMap<String, (usize, CommRow)>,
    nodes: &'n [u32],
}

impl<'n> Files<'n> {
    fn create(wanted: &Path, nodes: &'n [u32]) -> Result<Self, ProfileError> {
        let directory = ProfileWriter::create(wanted)?;
        Ok(Files {
            ranks: directory.table::<RankRow>()?,
            comms: directory.table::<CommRow>()?,
            calls: directory.table::<CallRow>()?,
            peers: directory.table::<PeerRow>()?,
            regions: directory.table::<RegionRow>()?,
            directory,
            merged: HashMap::new(),
            nodes,
        })
    }

    fn append(&mut self, parts: &[Vec<u8>; TABLES]) -> Result<(), ProfileError> {
        let [ranks, comms, calls, peers, regions] = parts;
        self.ranks.append(ranks)?;
        self.append_comms(comms)?;
        self.calls.append(calls)?;
        self.peers.append(peers)?;
        self.regions.append(regions)
    }

    fn append_comms(&mut self, text: &[u8]) -> Result<(), ProfileError> {
        let rows: Vec<CommRow> = from_csv(text).map_err(|error| ProfileError::Segment {
            why: format!("a rank's communicators did not arrive whole: {error}"),
        })?;
        let mut ready = Vec::new();
        for mut row in rows {
            if is_merged(&row.comm, &row.topology) {
                let order = self.merged.len();
                self.merged
                    .entry(row.comm.clone())
                    .and_modify(|(_, known)| merge(known, &row))
                    .or_insert((order, row));
            } else {
                row.nodes = self.count_nodes(&row);
                ready.push(row);
            }
        }
        self.comms.append(&to_csv(&ready))
    }

    /// The nodes of a communicator. One that each process has for itself is on one node.
    fn count_nodes(&self, row: &CommRow) -> u32 {
        if row.size == 1 {
            return 1;
        }
        let node = |rank: u32| self.nodes.get(rank as usize).copied();
        let mut nodes: Vec<u32> = row.members.all().iter().filter_map(node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len() as u32
    }

    fn finish(mut self, run: &RunInfo) -> Result<PathBuf, ProfileError> {
        let mut merged: Vec<(usize, CommRow)> = self.merged.drain().map(|(_, row)| row).collect();
        merged.sort_by_key(|&(order, _)| order);
        for (_, row) in &mut merged {
            row.nodes = self.count_nodes(row);
        }
        let rows: Vec<CommRow> = merged.into_iter().map(|(_, row)| row).collect();
        self.comms.append(&to_csv(&rows))?;
        for table in [self.ranks, self.comms, self.calls, self.peers, self.regions] {
            table.close()?;
        }
        self.directory.finish(run)
    }
}

/// What connects the ranks: a communicator of our own, on which errors are returned.
struct Link {
    comm: Comm,
    owned: bool,
}

impl Link {
    /// A duplicate of the world; or the world itself, where there is no room for another communicator.
    fn open(process: &Process) -> Link {
        let world = Raw::new(process.predefined.world);
        let returning = Raw::new(process.predefined.errors_return);
        let mut handler = MaybeUninit::uninit();
        let mut comm = MaybeUninit::uninit();
        // SAFETY: the world is valid; the handler that the application set is put back as it was.
        unsafe {
            pmpi::MPI_Comm_get_errhandler.get()(world, handler.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, returning);
            let code = pmpi::MPI_Comm_dup.get()(world, comm.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, Raw::new(handler.assume_init()));
            pmpi::MPI_Errhandler_free.get()(handler.as_mut_ptr());
            if code != constant::SUCCESS {
                return Link { comm: process.predefined.world, owned: false };
            }
            let comm = comm.assume_init();
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm), returning);
            Link { comm, owned: true }
        }
    }

    fn close(mut self) {
        if self.owned {
            // SAFETY: the communicator is ours.
            unsafe { pmpi::MPI_Comm_free.get()(&raw mut self.comm) };
        }
    }

    /// The sums of `own` over all ranks, on rank 0.
    fn sum(&self, process: &Process, own: &[u64]) -> Vec<u64> {
        let mut sums = own.to_vec();
        let (datatype, op) = (Raw::new(process.predefined.u64), Raw::new(process.predefined.sum));
        let comm = Raw::new(self.comm);
        let (from, to) = (own.as_ptr().cast(), sums.as_mut_ptr().cast());
        // SAFETY: both buffers have as many elements as are said.
        unsafe { pmpi::MPI_Reduce.get()(from, to, own.len() as c_int, datatype, op, 0, comm) };
        sums
    }

    /// For each rank the number of its node, on rank 0; ranks with one host name are on one node.
    fn node_of_each_rank(&self, process: &Process) -> Vec<u32> {
        const WORDS: usize = mpisee_profile::segment::layout::HOST_BYTES / 8;
        let load = |word: &std::sync::atomic::AtomicU64| word.load(std::sync::atomic::Ordering::Relaxed);
        let own: Vec<u64> = process.segment.header().host.iter().map(load).collect();
        let is_root = process.world_rank == 0;
        let mut all = vec![0u64; if is_root { process.world_size as usize * WORDS } else { 0 }];
        let (datatype, comm) = (Raw::new(process.predefined.u64), Raw::new(self.comm));
        let (from, to) = (own.as_ptr().cast(), all.as_mut_ptr().cast());
        let count = WORDS as c_int;
        // SAFETY: rank 0 has room for the words of every rank, the others receive nothing.
        unsafe { pmpi::MPI_Gather.get()(from, count, datatype, to, count, datatype, 0, comm) };
        let mut numbers = HashMap::new();
        all.chunks_exact(WORDS)
            .map(|host| {
                let next = numbers.len() as u32;
                *numbers.entry(host.to_vec()).or_insert(next)
            })
            .collect()
    }

    /// Sends the own rows to rank 0, when it asks for them.
    fn send(&self, process: &Process, parts: &[Vec<u8>; TABLES]) {
        let mut lengths = [0u64; TABLES];
        lengths.iter_mut().zip(parts).for_each(|(length, part)| *length = part.len() as u64);
        let (byte, u64s) = (Raw::new(process.predefined.byte), Raw::new(process.predefined.u64));
        let comm = Raw::new(self.comm);
        // SAFETY: each buffer has as many elements as are said.
        unsafe {
            pmpi::MPI_Recv.get()(std::ptr::dangling_mut(), 0, byte, 0, 0, comm, STATUS_IGNORE);
            pmpi::MPI_Send.get()(lengths.as_ptr().cast(), TABLES as c_int, u64s, 0, 0, comm);
            for piece in parts.iter().flat_map(|part| part.chunks(PIECE)) {
                pmpi::MPI_Send.get()(piece.as_ptr().cast(), piece.len() as c_int, byte, 0, 0, comm);
            }
        }
    }

    /// The rows of another rank.
    fn receive(&self, process: &Process, rank: u32) -> [Vec<u8>; TABLES] {
        let (byte, u64s) = (Raw::new(process.predefined.byte), Raw::new(process.predefined.u64));
        let (comm, rank) = (Raw::new(self.comm), rank as c_int);
        let mut lengths = [0u64; TABLES];
        let places = lengths.as_mut_ptr().cast();
        // SAFETY: each buffer has as many elements as are said.
        unsafe {
            pmpi::MPI_Send.get()(std::ptr::dangling(), 0, byte, rank, 0, comm);
            pmpi::MPI_Recv.get()(places, TABLES as c_int, u64s, rank, 0, comm, STATUS_IGNORE);
        }
        lengths.map(|length| {
            let mut part = vec![0u8; length as usize];
            for piece in part.chunks_mut(PIECE) {
                let (place, count) = (piece.as_mut_ptr().cast(), piece.len() as c_int);
                // SAFETY: as above.
                unsafe { pmpi::MPI_Recv.get()(place, count, byte, rank, 0, comm, STATUS_IGNORE) };
            }
            part
        })
    }
}

/// The arguments of the process. Those of a Rust library preloaded into another program are not in
/// `std::env::args` on every system, so the kernel is asked.
fn command_line() -> Vec<String> {
    let text = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words = text.strip_suffix(b"\0").unwrap_or(&text).split(|&byte| byte == 0);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// `MPISEE_OUTPUT`, or the program's name in the working directory; always `NAME.mpisee`.
fn wanted_directory(process: &Process, command: &[String]) -> PathBuf {
    let program = command.first().map_or("profile", String::as_str);
    let name = Path::new(program).file_name().unwrap_or_else(|| "profile".as_ref());
    let wanted = process.options.output.clone().unwrap_or_else(|| PathBuf::from(name));
    if wanted.extension().is_some_and(|extension| extension == "mpisee") {
        return wanted;
    }
    let mut with_extension = wanted.into_os_string();
    with_extension.push(".mpisee");
    PathBuf::from(with_extension)
}

/// `2026-01-31T12:00:00Z`, from nanoseconds since 1970.
fn rfc3339(nanoseconds: u64) -> String {
    let seconds = nanoseconds / 1_000_000_000;
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil_from_days(days as i64);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// The Gregorian date of a day counted from 1970-01-01, after H. Hinnant, "chrono-compatible low-level date
/// algorithms": years begin in March, so that the leap day is the last.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}
