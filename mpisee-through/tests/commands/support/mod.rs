//! Builds small profiles, and runs the program on them.

pub mod gpus;
pub mod history;
pub mod runs;
pub mod time_line;

use mpisee_profile::operation::is_nccl;
use mpisee_profile::rows::{
    ArrivalRow, CallRow, CollectiveRow, CommRow, DeviceLinkRow, DeviceRow, Members, Memory, MessageRow,
    NicRow, OutsideRow, PathRow, PeerRow, RankRow, RegionRow, Row, Seconds, SiteRow, StackRow, StreamRow,
    VariableRow,
};
use mpisee_profile::run::MpiInfo;
use mpisee_profile::writer::{ProfileWriter, to_csv};
use mpisee_profile::{FORMAT_VERSION, PathId, RunInfo, SiteId};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// A profile that is put together row by row.
#[derive(Clone)]
pub struct Builder {
    pub run: RunInfo,
    pub ranks: Vec<RankRow>,
    pub comms: Vec<CommRow>,
    pub calls: Vec<CallRow>,
    pub peers: Vec<PeerRow>,
    /// Written if there are any.
    pub outside: Vec<OutsideRow>,
    pub regions: Vec<RegionRow>,
    /// Written if there are any.
    pub arrivals: Vec<ArrivalRow>,
    pub collectives: Vec<CollectiveRow>,
    /// Written if there are streams.
    pub messages: Vec<MessageRow>,
    pub streams: Vec<StreamRow>,
    /// Written if there are any.
    pub sites: Vec<SiteRow>,
    /// Written if there are any.
    pub paths: Vec<PathRow>,
    pub stacks: Vec<StackRow>,
    /// Written if there are any.
    pub variables: Vec<VariableRow>,
    /// GPUs of the nodes, and what is near them.
    pub devices: Vec<DeviceRow>,
    pub links: Vec<DeviceLinkRow>,
    pub nics: Vec<NicRow>,
}

/// A profile on disk, in a directory of its own.
pub struct Written {
    scratch: TempDir,
    pub directory: PathBuf,
}

impl Builder {
    /// A run of that many ranks on one node, with `W` and nothing on it; wall time is 10 s.
    pub fn new(ranks: u32) -> Self {
        let run = RunInfo {
            format_version: FORMAT_VERSION,
            mpisee_version: "0.1.0".to_owned(),
            mpi: MpiInfo {
                library: "Open MPI v5.0.3".to_owned(),
                flavour: "openmpi-5".to_owned(),
                thread_level: "funneled".to_owned(),
                ..MpiInfo::default()
            },
            command: vec!["./splatt".to_owned(), "cpd".to_owned(), "my tensor.tns".to_owned()],
            world_id: Some("1a2b".to_owned()),
            start: "2025-06-01T12:00:00Z".to_owned(),
            end: "2025-06-01T12:00:10Z".to_owned(),
            ranks,
            nodes: 1,
            complete: true,
            clock: "tsc".to_owned(),
            ..RunInfo::default()
        };
        let rank = |rank| RankRow {
            rank,
            host: "node0".to_owned(),
            pid: 1000 + rank,
            wall_s: Seconds(10.0),
            mpi_s: Seconds(0.0),
            ..RankRow::default()
        };
        let empty = Builder {
            run,
            ranks: (0..ranks).map(rank).collect(),
            comms: vec![],
            calls: vec![],
            peers: vec![],
            outside: vec![],
            regions: vec![],
            arrivals: vec![],
            collectives: vec![],
            messages: vec![],
            streams: vec![],
            sites: vec![],
            paths: vec![],
            stacks: vec![],
            variables: vec![],
            devices: vec![],
            links: vec![],
            nics: vec![],
        };
        empty.comm("W", "", "", &format!("0-{}", ranks - 1), |_| {})
    }

    /// Adds a communicator of all `members`; `change` may set what else it has.
    pub fn comm(
        mut self,
        comm: &str,
        parent: &str,
        created_by: &str,
        members: &str,
        change: impl FnOnce(&mut CommRow),
    ) -> Self {
        let members: Members = members.parse().unwrap();
        let mut row = CommRow {
            comm: comm.to_owned(),
            parent: parent.to_owned(),
            created_by: created_by.to_owned(),
            size: if comm.starts_with('S') { 1 } else { (members.all().len() + members.outsiders()) as u32 },
            count: 1,
            members,
            nodes: 1,
            ..CommRow::default()
        };
        change(&mut row);
        self.comms.push(row);
        self
    }

    /// Adds calls of a rank on a communicator, and their time to the rank's time in MPI.
    pub fn call(self, comm: &str, rank: u32, call: &str, calls: u64, bytes: u64, time_s: f64) -> Self {
        self.call_with(comm, rank, call, calls, bytes, time_s, |_| {})
    }

    /// The same; `change` may set what else the row has.
    #[expect(clippy::too_many_arguments, reason = "they are the columns of the table")]
    pub fn call_with(
        mut self,
        comm: &str,
        rank: u32,
        call: &str,
        calls: u64,
        bytes: u64,
        time_s: f64,
        change: impl FnOnce(&mut CallRow),
    ) -> Self {
        let size = bytes.checked_div(calls).unwrap_or(0);
        let mut row = CallRow {
            comm: comm.to_owned(),
            rank,
            region: String::new(),
            call: call.to_owned(),
            size_min: if size == 0 { 0 } else { 1 << size.ilog2() },
            size_max: if size == 0 { 0 } else { u64::MAX >> size.leading_zeros() },
            memory: Memory::Host,
            site: None,
            calls,
            bytes,
            time_s: Seconds(time_s),
            min_s: Seconds(0.0),
            max_s: Seconds(time_s),
            time_error_s: None,
        };
        change(&mut row);
        // As the recorder: the time of NCCL's calls is none in MPI.
        let of_mpi = self.ranks.iter_mut().find(|row| row.rank == rank && !is_nccl(call));
        if let Some(rank) = of_mpi {
            rank.mpi_s.0 += time_s;
        }
        self.calls.push(row);
        self
    }

    /// Adds a call site that is not resolved.
    pub fn site(&mut self, module: &str, build_id: &str, offset: u64) -> SiteId {
        let site = SiteId::new(module, build_id, 0, offset);
        self.sites.push(SiteRow::unresolved(site, module, build_id, "", offset));
        site
    }

    /// Adds a call site whose line is known, in a binary that is not there.
    pub fn line(&mut self, function: &str, file: &str, line: u32) -> SiteId {
        let site = self.site("/opt/app/bin/app", "ab12", u64::from(line) << 4);
        let row = self.sites.last_mut().unwrap();
        (row.function, row.file, row.line) = (function.to_owned(), format!("/src/app/{file}"), Some(line));
        site
    }

    /// Adds a line of Python, which is on paths.
    pub fn line_of_python(&mut self, function: &str, file: &str, line: u32) -> SiteId {
        let site = SiteId::of_line(file, function, line.into());
        self.sites.push(SiteRow::of_line(site, function, file, Some(line)));
        site
    }

    /// Adds calls of a rank that are on a path through these sites, the innermost first; they are
    /// in `calls.csv`, too.
    pub fn path(&mut self, comm: &str, rank: u32, call: &str, calls: u64, time_s: f64, sites: &[SiteId]) {
        let path = PathId::new(sites.iter().copied());
        if self.stacks.iter().all(|row| row.path != path) {
            let sites: Vec<String> = sites.iter().map(ToString::to_string).collect();
            self.stacks.push(StackRow { path, sites: sites.join(" ") });
        }
        let (comm, call) = (comm.to_owned(), call.to_owned());
        self.paths.push(PathRow { path, comm, rank, call, calls, time_s: Seconds(time_s) });
    }

    /// Adds messages from one rank to another, on both sides.
    pub fn messages(self, comm: &str, from: u32, to: u32, messages: u64, bytes: u64) -> Self {
        self.peer(comm, from, to, (messages, bytes), (0, 0)).peer(comm, to, from, (0, 0), (messages, bytes))
    }

    /// Adds one side: messages and bytes sent to the peer, and received from it.
    pub fn peer(mut self, comm: &str, rank: u32, peer: u32, sent: (u64, u64), received: (u64, u64)) -> Self {
        self.peers.push(PeerRow {
            comm: comm.to_owned(),
            rank,
            peer,
            sent_messages: sent.0,
            sent_bytes: sent.1,
            received_messages: received.0,
            received_bytes: received.1,
            ..PeerRow::default()
        });
        self
    }

    /// Adds a region of a rank.
    pub fn region(mut self, region: &str, rank: u32, entries: u64, wall_s: f64, mpi_s: f64) -> Self {
        let (wall_s, mpi_s) = (Seconds(wall_s), Seconds(mpi_s));
        let (cpu_s, involuntary_switches) = (Some(Seconds(wall_s.0 / 2.0)), Some(1));
        let region = region.to_owned();
        let row = RegionRow {
            rank,
            region,
            wall_s,
            mpi_s,
            entries,
            cpu_s,
            involuntary_switches,
            mpi_threads: None,
            mpi_thread_s: None,
        };
        self.regions.push(row);
        self
    }

    /// Adds what a variable of MPI's grew by in a region, or had there: value, smallest and
    /// largest.
    pub fn variable(mut self, name: &str, rank: u32, region: &str, grew: Option<f64>, had: [f64; 3]) -> Self {
        let is_level = grew.is_none();
        self.variables.push(VariableRow {
            rank,
            region: region.to_owned(),
            name: name.to_owned(),
            class: if is_level { "level" } else { "counter" }.to_owned(),
            value: had[0],
            delta: grew,
            least: is_level.then_some(had[1]),
            most: is_level.then_some(had[2]),
            readings: 1,
        });
        self
    }

    /// Changes anything.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// Writes `app.mpisee`.
    pub fn write(&self) -> Written {
        let scratch = tempfile::tempdir().unwrap();
        let writer = ProfileWriter::create(&scratch.path().join("app.mpisee")).unwrap();
        write_table(&writer, &self.ranks);
        write_table(&writer, &self.comms);
        write_table(&writer, &self.calls);
        write_table(&writer, &self.peers);
        if !self.outside.is_empty() {
            write_table(&writer, &self.outside);
        }
        write_table(&writer, &self.regions);
        if !self.arrivals.is_empty() {
            write_table(&writer, &self.arrivals);
            write_table(&writer, &self.collectives);
        }
        if !self.streams.is_empty() {
            write_table(&writer, &self.messages);
            write_table(&writer, &self.streams);
        }
        if !self.sites.is_empty() {
            write_table(&writer, &self.sites);
        }
        if !self.paths.is_empty() {
            write_table(&writer, &self.paths);
            write_table(&writer, &self.stacks);
        }
        if !self.variables.is_empty() {
            write_table(&writer, &self.variables);
        }
        if !self.devices.is_empty() {
            write_table(&writer, &self.devices);
            write_table(&writer, &self.links);
            write_table(&writer, &self.nics);
        }
        let directory = writer.finish(&self.run).unwrap();
        Written { scratch, directory }
    }
}

fn write_table<R: Row>(writer: &ProfileWriter, rows: &[R]) {
    let mut table = writer.table::<R>().unwrap();
    table.append(&to_csv(rows)).unwrap();
    table.close().unwrap();
}

impl Written {
    /// Runs `mpisee-through` beside the profile, `app.mpisee`.
    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::new(self.command(arguments))
    }

    /// Expects the output that `snapshots` has under the name, and no line of it wider than the
    /// page.
    #[track_caller]
    pub fn golden_at(&self, width: usize, name: &str, arguments: &[&str]) {
        let columns = width.to_string();
        let ran = self.run(&[arguments, &["--width", &columns]].concat());
        for line in ran.exits(0).stdout.lines() {
            assert!(line.chars().count() <= width, "wider than {width}: {line}\n{}", ran.stdout);
        }
        ran.golden(&format!("{name}-{width}"));
    }

    /// The command that [`Written::run`] runs.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpisee-through"));
        command.args(arguments).current_dir(self.beside()).env("MPISEE_SEGMENTS", self.beside());
        command
    }

    /// The directory in which the profile lies.
    pub fn beside(&self) -> &Path {
        self.scratch.path()
    }

    /// Replaces text in a file of the profile, which has to be there.
    pub fn replace(&self, file: &str, from: &str, to: &str) {
        let path = self.directory.join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no '{from}':\n{text}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
    }
}

impl Written {
    /// Removes a column, which has to be there, from a table.
    pub fn remove_column(&self, file: &str, column: &str) {
        let path = self.directory.join(file);
        let mut table = csv::ReaderBuilder::new().has_headers(false).from_path(&path).unwrap();
        let rows: Vec<csv::StringRecord> = table.records().map(Result::unwrap).collect();
        let place = rows[0].iter().position(|name| name == column).unwrap();
        let mut writer = csv::Writer::from_path(&path).unwrap();
        for row in rows {
            let others = row.iter().enumerate().filter(|&(at, _)| at != place);
            writer.write_record(others.map(|(_, field)| field)).unwrap();
        }
        writer.flush().unwrap();
    }

    /// Removes what `run.json` says under a name, which has to be there.
    pub fn remove_from_run(&self, name: &str) {
        let path = self.directory.join("run.json");
        let mut run: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(run.as_object_mut().unwrap().remove(name).is_some(), "{run}");
        std::fs::write(&path, run.to_string()).unwrap();
    }
}

/// The result of a run of the program.
pub struct Ran {
    what: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn new(mut command: Command) -> Self {
        let Output { status, stdout, stderr } = command.output().unwrap();
        Ran {
            what: format!("{command:?}"),
            code: status.code(),
            stdout: String::from_utf8(stdout).unwrap(),
            stderr: String::from_utf8(stderr).unwrap(),
        }
    }

    /// Runs `mpisee-through` in a folder.
    pub fn beside(folder: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mpisee-through"));
        command.args(arguments).current_dir(folder).env("MPISEE_SEGMENTS", folder);
        Ran::new(command)
    }

    /// Expects success and this output.
    #[track_caller]
    pub fn prints(&self, expected: &str) {
        self.exits(0);
        assert_eq!(self.stderr, "", "{}", self.what);
        assert!(
            self.stdout == expected,
            "{}\n--- expected:\n{expected}\n--- printed:\n{}",
            self.what,
            self.stdout
        );
    }

    /// Expects success and the output that `snapshots` has under the name; `INSTA_UPDATE=always`
    /// writes it.
    #[track_caller]
    pub fn golden(&self, name: &str) {
        self.golden_exiting(0, name);
    }

    /// The same with another exit code.
    #[track_caller]
    pub fn golden_exiting(&self, code: i32, name: &str) {
        self.exits(code);
        assert_eq!(self.stderr, "", "{}", self.what);
        golden(name, &self.stdout);
    }

    /// Expects the exit code.
    #[track_caller]
    pub fn exits(&self, code: i32) -> &Self {
        let Ran { what, stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{what}\n--- stdout:\n{stdout}\n--- stderr:\n{stderr}");
        self
    }

    /// Expects exit code 2, nothing on stdout, and one line on stderr with all of these words.
    #[track_caller]
    pub fn fails_with(&self, words: &[&str]) {
        self.exits(2);
        assert_eq!(self.stdout, "", "{}", self.what);
        self.says(words);
    }

    /// Expects one line on stderr with all of these words.
    #[track_caller]
    pub fn says(&self, words: &[&str]) {
        assert!(self.stderr.starts_with("mpisee-through: "), "{}\n{}", self.what, self.stderr);
        assert_eq!(self.stderr.lines().count(), 1, "{}\n{}", self.what, self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "{} says no '{word}':\n{}", self.what, self.stderr);
        }
    }
}

/// Expects the text that `snapshots` has under the name.
#[track_caller]
pub fn golden(name: &str, text: &str) {
    insta::with_settings!({
        prepend_module_to_snapshot => false,
        snapshot_path => "../snapshots",
        omit_expression => true,
    }, { insta::assert_snapshot!(name, text) });
}

/// A run of 8 ranks on 2 nodes with a Cartesian grid, its rows, a label, a point-to-point pair and
/// `S`.
pub fn splatt() -> Builder {
    let mut profile = Builder::new(8)
        .with(|profile| {
            profile.run.nodes = 2;
            profile.comms[0].nodes = 2;
            profile.ranks[3].wall_s.0 = 12.5;
        })
        .comm("S", "", "", "0-7", |_| {})
        .comm("W_a1", "W", "MPI_Cart_create", "0-7", |row| {
            row.topology = "cart dims=4x2 periods=1x0".to_owned();
            row.reorder = Some(1);
            row.nodes = 2;
        })
        .comm("W_a1_s2.0", "W_a1", "MPI_Comm_split", "0,2,4,6", |row| {
            row.label = "rows".to_owned();
            row.freed = 1;
            row.nodes = 2;
        })
        .comm("W_a1_s2.1", "W_a1", "MPI_Comm_split", "1,3,5,7", |row| row.nodes = 2)
        .comm("W_x2", "W", "MPI_Intercomm_create", "0-3|4-7", |row| row.nodes = 2);
    for rank in 0..8 {
        profile = profile
            .call("W", rank, "MPI_Allreduce", 10, 80, 0.25)
            .call("W_a1", rank, "MPI_Alltoallv", 3, 3_000_017, 1.0 + f64::from(rank) / 8.0)
            .call("S", rank, "MPI_Comm_dup", 1, 0, 0.000_25);
    }
    for rank in [0, 2, 4] {
        profile = profile.call("W_a1_s2.0", rank, "MPI_Bcast", 2, 202, 0.5);
    }
    profile
        .call("W", 1, "MPI_Send", 4, 404, 0.125)
        .call("W", 5, "MPI_Recv", 4, 404, 0.75)
        .messages("W", 1, 5, 4, 404)
}

/// A run of 8 ranks in two pools, which make the same communicators by calls of other numbers, as
/// Quantum ESPRESSO does: one makes more of them.
pub fn pools() -> Builder {
    let mut profile = Builder::new(8)
        .comm("W_s1.0", "W", "MPI_Comm_split", "0-3", |_| {})
        .comm("W_s1.4", "W", "MPI_Comm_split", "4-7", |_| {})
        .comm("W_s1.0_s5.0", "W_s1.0", "MPI_Comm_split", "0-1", |_| {})
        .comm("W_s1.0_s5.2", "W_s1.0", "MPI_Comm_split", "2-3", |_| {})
        .comm("W_s1.4_s5.0", "W_s1.4", "MPI_Comm_split", "4-5", |_| {})
        .comm("W_s1.4_s5.2", "W_s1.4", "MPI_Comm_split", "6-7", |_| {})
        .comm("W_s1.0_d21", "W_s1.0", "MPI_Comm_dup", "0-3", |row| row.label = "fft of pool 0".to_owned())
        .comm("W_s1.4_d25", "W_s1.4", "MPI_Comm_dup", "4-7", |row| row.label = "fft of pool 1".to_owned())
        .comm("W_s2.0", "W", "MPI_Comm_split", "0,2,4,6", |_| {});
    for rank in 0..8 {
        let (pool, part) = (rank / 4, rank % 4 / 2);
        let late_s = 0.001 * f64::from(rank * rank);
        let fft = ["W_s1.0_d21", "W_s1.4_d25"][pool as usize];
        profile = profile
            .call("W", rank, "MPI_Barrier", 4, 0, 0.25 - late_s)
            .call(&format!("W_s1.{}", 4 * pool), rank, "MPI_Allreduce", 1_000, 800_000, 1.5 - late_s)
            .call(&format!("W_s1.{}", 4 * pool), rank, "MPI_Bcast", 10, 4_000, 0.000_012)
            .call(&format!("W_s1.{}", 4 * pool), rank, "MPI_Comm_dup", 1, 0, 0.000_3)
            .call(
                &format!("W_s1.{}_s5.{}", 4 * pool, 2 * part),
                rank,
                "MPI_Sendrecv",
                64,
                1 << 20,
                0.1 + late_s,
            )
            .call(fft, rank, "MPI_Alltoall", 3_600, 450 << 20, 3.0 + late_s)
            .region("scf", rank, 3, 8.0, 4.5);
    }
    for rank in [0, 2, 4, 6] {
        profile = profile.call("W_s2.0", rank, "MPI_Gather", 2, 2_000_000_000, 0.001);
    }
    profile
}

/// A run of 4 ranks, in which a solver waits for messages at two places, reduces by a wrapper of
/// its own, and writes by HDF5; of some calls the path is known, of some not even the site.
pub fn solver() -> Builder {
    let mut profile = Builder::new(4).comm("W_s1.0", "W", "MPI_Comm_split", "0-1", |_| {}).comm(
        "W_s1.2",
        "W",
        "MPI_Comm_split",
        "2-3",
        |_| {},
    );
    let main = profile.line("main", "main.c", 88);
    let output = profile.line("write_results", "io.c", 41);
    let step = profile.line("step", "solver.c", 301);
    let waits = [profile.line("exchange", "halo.c", 57), profile.line("exchange_corners", "halo.c", 93)];
    let reduce = profile.line("Comm::sum", "comm.cpp", 12);
    let hdf5 = profile.site("/usr/lib/x86_64-linux-gnu/libhdf5_openmpi.so.103", "cd34", 0x1a2b0);
    let stripped = profile.site("/opt/app/lib/libtools.so", "ef56", 0x4d20);
    for rank in 0..4 {
        let late_s = 0.125 * f64::from(rank);
        let rows = ["W_s1.0", "W_s1.2"][rank as usize / 2];
        profile = profile
            .call_with(rows, rank, "MPI_Waitall", 1000, 0, 2.0 + late_s, |row| row.site = Some(waits[0]))
            .call_with("W", rank, "MPI_Waitall", 500, 0, 0.5, |row| row.site = Some(waits[1]))
            .call_with("W", rank, "MPI_Allreduce", 2000, 16_000, 1.0, |row| row.site = Some(reduce))
            .call_with("W", rank, "MPI_File_write_at_all", 10, 1 << 30, 0.75, |row| row.site = Some(hdf5))
            .call_with("W", rank, "MPI_Barrier", 3, 0, 0.25, |row| row.site = Some(stripped))
            .call("W", rank, "MPI_Comm_split", 1, 0, 0.0625);
        profile.path(rows, rank, "MPI_Waitall", 20, 1.5, &[waits[0], step, main]);
        profile.path("W", rank, "MPI_Waitall", 2, 0.125, &[waits[1], step, main]);
        profile.path("W", rank, "MPI_Allreduce", 7, 0.25, &[reduce, step, main]);
        profile.path("W", rank, "MPI_File_write_at_all", 9, 0.7, &[hdf5, output, main]);
    }
    profile
}
