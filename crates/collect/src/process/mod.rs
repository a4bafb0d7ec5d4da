//! Process identity: job and liveness.
//!
//! MPI is not queried here: the launcher's variables in the environment, or the launcher's own
//! process, identify the job.

use mpisee_profile::own_process;
use std::ffi::CString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

mod batch;
pub mod begin_socket;
pub mod cpu;
pub mod gpu;
pub mod linked_mpi;
pub mod mapped_files;
pub mod pci;

pub use batch::batch_job;

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its parent.
    pub parent: u32,
    /// When it was started, in ticks of the kernel since the system was: another process with the
    /// number has another.
    pub start: u64,
    /// True if it is a zombie.
    pub ended: bool,
    /// True if it is stopped, by a signal or a debugger.
    pub stopped: bool,
    /// True if its first thread is ready to run, or cannot be interrupted, as one that is frozen
    /// with its control group.
    pub wants_core: bool,
}

/// The process with that number; `None` if there is none.
pub fn look_at(pid: u32) -> Option<Seen> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Returns whether the process with that number, which was started at `start` as [`Seen::start`]
/// has it, runs, as far as it can be seen from here.
pub fn runs(pid: u32, start: u64) -> bool {
    look_at(pid).is_some_and(|seen| !seen.ended && seen.start == start)
}

/// From `/proc/PID/stat` (proc(5)). The second field is the program's name in parentheses, with any
/// bytes in it.
fn parse_stat(stat: &[u8]) -> Option<Seen> {
    let end_of_name = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = String::from_utf8_lossy(&stat[end_of_name + 1..]).into_owned();
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    Some(Seen {
        parent: fields.get(1)?.parse().ok()?,
        start: fields.get(19)?.parse().ok()?,
        // A first thread that ended shows like this, too, while others run.
        ended: ["Z", "X"].contains(fields.first()?)
            && fields.get(17)?.parse().is_ok_and(|threads: u32| threads < 2),
        stopped: ["T", "t"].contains(fields.first()?),
        wants_core: ["R", "D"].contains(fields.first()?),
    })
}

/// A hash of the boot id, which differs after each boot and on each machine; 0 if it is unknown.
pub fn boot() -> u64 {
    std::fs::read("/proc/sys/kernel/random/boot_id").map_or(0, |id| hash([id.as_slice()]))
}

/// The number of this process's PID namespace, pid_namespaces(7): a container may have its own. 0
/// if it is unknown.
pub fn namespace() -> u64 {
    std::fs::metadata(own_process::folder().join("ns/pid")).map_or(0, |file| file.ino())
}

/// Variables that launchers with PMIx, as Open MPI's, set for all processes of a job: its number,
/// and the address of the launcher, since numbers are reused.
const PMIX: [&str; 3] = ["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "OMPI_MCA_orte_hnp_uri"];
/// The same by Slurm, which sets its PMI-2 job in one variable.
const SLURM_PMI: [&str; 1] = ["PMI_JOBID"];
/// A step of Slurm; with PMI_FD another launcher runs in it, and may run more than once.
const SLURM: [&str; 2] = ["SLURM_JOB_ID", "SLURM_STEP_ID"];
/// Variables in which launchers report the process's rank.
const RANKS: [&str; 3] = ["PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];

/// Options of Hydra's proxy on a node: the address of the launcher, and the number of the world.
/// MPICH's launcher sets no such variables for the ranks; the number of the port may be reused.
const HYDRA: [&str; 2] = ["--control-port", "--pgid"];

/// A number shared by the processes of this world on all nodes, and by no others: a hash of the
/// launcher's variables, or of the command line of its proxy on the node, else of the process that
/// started the ranks of the node.
pub fn job(world_size: u32) -> u64 {
    if world_size == 1 {
        return process_hash("itself", std::process::id());
    }
    let given = |name: &&str| std::env::var_os(name).map(|value| value.into_encoded_bytes());
    let of_variables = |names: &[&str]| {
        let values: Vec<Vec<u8>> = names.iter().filter_map(given).collect();
        (!values.is_empty()).then(|| hash(values.iter().map(Vec::as_slice)))
    };
    let step =
        || if given(&"PMI_FD").is_none() && given(&SLURM[1]).is_some() { of_variables(&SLURM) } else { None };
    let launcher = launcher();
    // Hydra hands on what another launcher, such as srun, has set for its own processes.
    let run = hydra(&command_of(launcher))
        .or_else(|| of_variables(&PMIX))
        .or_else(|| of_variables(&SLURM_PMI))
        .or_else(step);
    // Torchrun starts all processes of a node anew where one has failed.
    let attempt = std::env::var(ATTEMPT).unwrap_or_default();
    run.unwrap_or_else(|| started_by(launcher, &attempt))
}

/// The number of the job for which a launcher has started this process, before the size of the
/// world is known; without a launcher, that of a world of this process.
pub fn job_to_launch() -> u64 {
    let names = ["OMPI_COMM_WORLD_RANK"].into_iter().chain(RANKS);
    let is_launched = names.into_iter().any(|name| std::env::var_os(name).is_some());
    job(if is_launched { u32::MAX } else { 1 })
}

/// The number of a job of processes that were started by this one at that attempt.
fn started_by(launcher: u32, attempt: &str) -> u64 {
    process_hash(&format!("started by{attempt}"), launcher)
}

/// A number for the run of MPICH's launcher, from the command line of its proxy on a node.
fn hydra(command: &[u8]) -> Option<u64> {
    let value = |option: &str| {
        let mut words = command.split(|&byte| byte == 0);
        words.find(|&word| word == option.as_bytes())?;
        words.next()
    };
    let [place, world] = HYDRA.map(value);
    Some(hash([b"hydra".as_slice(), place?, world?]))
}

/// Returns whether this process prints messages for the job: true on rank 0, and if the launcher
/// does not report a rank.
pub fn speaks() -> bool {
    is_first(|name| std::env::var(name).ok())
}

fn is_first(variable: impl Fn(&str) -> Option<String>) -> bool {
    // Within a job of Slurm, every process that Open MPI's launcher or torchrun starts on a node
    // inherits its rank.
    let of_torchrun = || variable(STATED[0]).filter(|_| variable(LOCAL_RANK).is_some());
    let of_others = || RANKS.into_iter().find_map(&variable);
    let rank = variable("OMPI_COMM_WORLD_RANK").or_else(of_torchrun).or_else(of_others);
    rank.is_none_or(|rank| rank == "0")
}

/// Variables in which launchers report the number of ranks of a process's world on its node.
const LOCAL_SIZES: [&str; 3] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE"];

/// Variables in which launchers report the process's rank, and the number of ranks, to any program:
/// torchrun, which launchers of MPI may start, and these. The third one is set as well: the script
/// of a batch job has Slurm's, too, and is no task of a step.
const LAUNCHED: [[&str; 3]; 4] = [
    [STATED[0], STATED[1], LOCAL_RANK],
    ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"],
    ["PMI_RANK", "PMI_SIZE", "PMI_RANK"],
    ["SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"],
];

/// Rank and number of ranks as PyTorch reads them: torchrun sets them, and so may a user.
const STATED: [&str; 2] = ["RANK", "WORLD_SIZE"];

/// More processes than a launcher has, of which readers of segments would take the list for a
/// broken one.
const MOST_LAUNCHED: u32 = 1 << 24;

/// The variable in which torchrun counts how often it has started the processes anew.
const ATTEMPT: &str = "TORCHELASTIC_RESTART_COUNT";

/// The variable by which torchrun numbers the processes of a node.
const LOCAL_RANK: &str = "LOCAL_RANK";

/// The variable in which torchrun reports how many processes it has started on the node.
const LOCAL_WORLD_SIZE: &str = "LOCAL_WORLD_SIZE";

/// Returns whether torchrun started the process, or what sets its variables, and no launcher of an
/// MPI.
pub fn is_of_torchrun() -> bool {
    let is_set = |name: &str| std::env::var_os(name).is_some();
    let of_mpi = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
    STATED.into_iter().chain([LOCAL_RANK]).all(is_set) && !of_mpi.into_iter().any(is_set)
}

/// Returns whether this process is one that torchrun started itself, and none that such a one
/// started.
pub fn is_child_of_torchrun() -> bool {
    is_of_torchrun() && !RankEnvironment::own().is_of(std::os::unix::process::parent_id())
}

/// The rank of this process and the number of ranks, if the launcher's variables report both.
pub fn launched_rank() -> Option<(u32, u32)> {
    launched_by(|name| std::env::var(name).ok())
}

/// The same, or what a user has set for PyTorch: a shell may have it left.
pub fn stated_rank() -> Option<(u32, u32)> {
    stated_by(|name| std::env::var(name).ok())
}

fn launched_by(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let mut known = LAUNCHED.iter().filter(|[.., needed]| variable(needed).is_some());
    known.find_map(|[rank, size, _]| rank_in(&variable, rank, size))
}

fn stated_by(variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    launched_by(&variable).or_else(|| rank_in(&variable, STATED[0], STATED[1]))
}

/// Rank and number of ranks of two variables, if they can be right.
fn rank_in(variable: impl Fn(&str) -> Option<String>, rank: &str, size: &str) -> Option<(u32, u32)> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let (rank, size) = (number(rank)?, number(size)?);
    (rank < size && size <= MOST_LAUNCHED).then_some((rank, size))
}

/// Returns whether a job of that many processes without MPI has some on other nodes, as its
/// launcher reports; `None` if it does not.
pub fn is_on_several_nodes(size: u32) -> Option<bool> {
    let number = |name: &str| std::env::var(name).ok()?.trim().parse::<u32>().ok();
    let local_size = [LOCAL_WORLD_SIZE].into_iter().chain(LOCAL_SIZES).find_map(number);
    let nodes = || number(SLURM_NODES).filter(|_| number("SLURM_PROCID").is_some());
    local_size.map(|here| here < size).or_else(|| Some(nodes()? > 1))
}

/// The variable in which Slurm reports the number of nodes of a step.
const SLURM_NODES: &str = "SLURM_STEP_NUM_NODES";

/// Variables in which Slurm reports the tasks on each node of a step, `2(x3),1`, and the number of
/// the own node in that list.
const SLURM_TASKS: [&str; 2] = ["SLURM_STEP_TASKS_PER_NODE", "SLURM_NODEID"];

/// The begin of the command of the process that starts the tasks of a step of Slurm on a node.
const SLURM_DAEMON: &[u8] = b"slurmstepd";

/// Ranks of the own world on this node, as the launcher reports. `None` if it does not, or where it
/// cannot be seen from here, as from a container: then other ranks of the node may be out of sight
/// as well.
pub fn local_size() -> Option<u32> {
    let variable = |name: &str| std::env::var(name).ok();
    let launcher = launcher();
    let of_launcher = || LOCAL_SIZES.iter().find_map(|name| variable(name)?.parse().ok());
    // Launchers that Slurm starts hand on the variables of their own step.
    let of_slurm = || {
        let [tasks, node] = SLURM_TASKS.map(variable);
        command_of(launcher).starts_with(SLURM_DAEMON).then(|| tasks_on(&tasks?, node?.parse().ok()?))?
    };
    let size = of_launcher().or_else(of_slurm)?;
    let is_in_sight = !RankEnvironment::own().is_of(launcher);
    is_in_sight.then_some(size)
}

/// The tasks on a node, of a list as Slurm writes it.
fn tasks_on(list: &str, node: usize) -> Option<u32> {
    let mut nodes = list.split(',').map(|entry| match entry.split_once("(x") {
        Some((tasks, nodes)) => Some((tasks.parse().ok()?, nodes.strip_suffix(')')?.parse().ok()?)),
        None => Some((entry.parse().ok()?, 1)),
    });
    let mut before = 0;
    nodes.find_map(|entry| match entry {
        None => Some(None),
        Some((tasks, nodes)) => {
            before += nodes;
            (node < before).then_some(Some(tasks))
        }
    })?
}

/// The process that started the ranks of this node: the nearest ancestor without the variables of
/// this rank, which scripts around the program have.
fn launcher() -> u32 {
    let own = RankEnvironment::own();
    const MOST_STEPS: u32 = 16;
    let mut pid = std::os::unix::process::parent_id();
    for _ in 0..MOST_STEPS {
        match look_at(pid) {
            Some(seen) if seen.parent > 1 && own.is_of(pid) => pid = seen.parent,
            _ => break,
        }
    }
    pid
}

/// The variables by which the launcher distinguishes a rank from others.
struct RankEnvironment(Vec<(&'static str, Vec<u8>)>);

impl RankEnvironment {
    fn own() -> Self {
        let set = |name: &'static str| Some((name, std::env::var_os(name)?.into_encoded_bytes()));
        let of_mpi: Vec<_> = RANKS.into_iter().chain(PMIX).chain(SLURM_PMI).filter_map(set).collect();
        if !of_mpi.is_empty() || std::env::var_os(LOCAL_RANK).is_none() {
            return RankEnvironment(of_mpi);
        }
        // Torchrun itself may have a rank, that of a node, but no local one.
        RankEnvironment([STATED[0], LOCAL_RANK].into_iter().filter_map(set).collect())
    }

    /// Returns whether a process is one of this rank.
    fn is_of(&self, pid: u32) -> bool {
        is_of_rank(&self.0, &environment_of(pid), || command_of(pid))
    }
}

/// Returns whether a process with that environment and command is one of the rank with the
/// variables `own`. Where launchers start each other, the inner one has a rank from the outer one,
/// and its ranks inherit the variables that it does not set itself.
fn is_of_rank(own: &[(&str, Vec<u8>)], environment: &[u8], command: impl FnOnce() -> Vec<u8>) -> bool {
    let mut all = own.iter();
    !own.is_empty()
        && all.all(|(name, value)| value_in(environment, name) == Some(value.as_slice()))
        && hydra(&command()).is_none()
}

/// The words of the command of a process, each ended by 0; empty if it is gone.
fn command_of(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()
}

/// The environment with which a process was started; empty if it may not be looked at.
fn environment_of(pid: u32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// The value of a variable.
fn value_in<'e>(environment: &'e [u8], name: &str) -> Option<&'e [u8]> {
    let mut all = environment.split(|&byte| byte == 0);
    all.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// The kind of file systems in memory, see [`file_system`].
pub const TMPFS: u64 = 0x0102_1994;

/// The kind of the file system on which a folder is, by the numbers of statfs(2); `None` where it
/// is not known.
pub fn file_system(folder: &Path) -> Option<u64> {
    let name = CString::new(folder.as_os_str().as_bytes()).ok()?;
    let mut about = MaybeUninit::<libc::statfs>::zeroed();
    // SAFETY: the name ends in a zero, and the place is valid for writing; all zeros are a valid
    // value if nothing is written.
    let (code, about) = unsafe { (libc::statfs(name.as_ptr(), about.as_mut_ptr()), about.assume_init()) };
    (code == 0).then_some(about.f_type as u64 & 0xffff_ffff)
}

fn process_hash(how: &str, pid: u32) -> u64 {
    let start = look_at(pid).map_or(0, |seen| seen.start);
    hash([how.as_bytes(), &pid.to_le_bytes(), &start.to_le_bytes(), &boot().to_le_bytes()])
}

/// A number for the host of this name, whatever zeros follow it; never 0.
pub fn host_number(name: impl Iterator<Item = u8>) -> u64 {
    let name: Vec<u8> = name.take_while(|&byte| byte != 0).collect();
    hash([name.as_slice()]).max(1)
}

/// FNV-1a of 64 bits (G. Fowler, L. C. Noll, K.-P. Vo), each part ended by a byte that is in no
/// text.
fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    let bytes = parts.into_iter().flat_map(|part| part.iter().copied().chain([0xff]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Lets this process have as many descriptors as the system allows, 65,536 at most; returns how
/// many.
pub fn raise_descriptor_limit() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: the place for the limit is valid, in both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            let more = libc::rlimit { rlim_cur: limit.rlim_max.min(65_536).max(limit.rlim_cur), ..limit };
            if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const more) == 0 {
                limit = more;
            }
        }
    }
    usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = b"4711 (a) Z 9 (b) S 12 4711 4711 0 -1 4194560 1 0 0 0 33 9 0 0 20 0 1 0 987654 1 2";
        assert_eq!(
            parse_stat(stat),
            Some(Seen { parent: 12, start: 987_654, ended: false, stopped: false, wants_core: false })
        );
        let waits = String::from_utf8_lossy(stat).replace(") S ", ") R ");
        assert!(parse_stat(waits.as_bytes()).is_some_and(|seen| seen.wants_core));
        let stopped = String::from_utf8_lossy(stat).replace(") S ", ") T ");
        assert!(parse_stat(stopped.as_bytes()).is_some_and(|seen| seen.stopped));
        assert_eq!(parse_stat(b"4711 (cut) S 12"), None);
        assert_eq!(parse_stat(b""), None);
    }

    #[test]
    fn this_process_is_seen_and_has_its_parent() {
        let seen = look_at(std::process::id()).unwrap();
        assert_eq!(seen.parent, std::os::unix::process::parent_id());
        assert!(!seen.ended && seen.start >= look_at(seen.parent).unwrap().start);
        assert_ne!(boot(), 0);
        assert_eq!((job(1), job(2)), (job(1), job(2)));
        assert_ne!(job(1), job(2));
    }

    #[test]
    fn a_run_of_hydra_is_known_on_each_of_its_nodes() {
        let of = |port: &str, id: u32, world: u32| {
            let words = format!(
                "proxy --control-port {port} --rmk user --pgid {world} --retries 10 --proxy-id {id} "
            );
            hydra(words.replace(' ', "\0").as_bytes())
        };
        assert!(of("n1:43227", 0, 0).is_some());
        assert_eq!(of("n1:43227", 0, 0), of("n1:43227", 2, 0));
        assert_ne!(of("n1:43227", 0, 0), of("n1:43227", 0, 1));
        assert_ne!(of("n1:43227", 0, 0), of("n1:43228", 0, 0));
        assert_eq!(hydra(b"mpirun\0-n\x004\0--control-port"), None);
    }

    #[test]
    fn a_launcher_that_another_one_started_is_of_no_rank() {
        let separated = |text: &str| -> Vec<u8> { text.replace(' ', "\0").into_bytes() };
        let own =
            [("PMI_RANK", b"1".to_vec()), ("SLURM_PROCID", b"1".to_vec()), ("PMI_JOBID", b"7.0".to_vec())];
        let is_of_it = |environment: &str, command: &str| {
            is_of_rank(&own, &separated(environment), || separated(command))
        };
        assert!(is_of_it("A=1 PMI_RANK=1 PMI_JOBID=7.0 SLURM_PROCID=1", "sh script"));
        assert!(!is_of_it("A=1 PMI_RANK=0 PMI_JOBID=7.0 SLURM_PROCID=1", "proxy"));
        assert!(!is_of_it("A=1 PMI_JOBID=7.0 SLURM_PROCID=1", "proxy"));
        assert!(!is_of_it("", ""));
        // By chance both are the same.
        let proxy = "proxy --control-port n1:43227 --pgid 0 --proxy-id 1 ";
        assert!(!is_of_it("A=1 PMI_RANK=1 PMI_JOBID=7.0 SLURM_PROCID=1", proxy));
        assert!(!is_of_rank(&[], &separated("A=1"), Vec::new));
    }

    #[test]
    fn launchers_report_ranks_to_programs_without_mpi() {
        let value = |variables: &[(&str, &str)], name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let launched = |variables: &[(&str, &str)]| launched_by(|name| value(variables, name));
        let stated = |variables: &[(&str, &str)]| stated_by(|name| value(variables, name));
        assert_eq!((launched(&[]), stated(&[])), (None, None));
        let script = [("SLURM_PROCID", "0"), ("SLURM_NTASKS", "2")];
        let task = [&script[..], &[("SLURM_STEP_ID", "0")]].concat();
        assert_eq!((launched(&script), launched(&task)), (None, Some((0, 2))));
        let by_hand = [("RANK", "3"), ("WORLD_SIZE", "8")];
        let torchrun = [&by_hand[..], &[("LOCAL_RANK", "1")]].concat();
        assert_eq!((launched(&by_hand), stated(&by_hand)), (None, Some((3, 8))));
        assert_eq!(launched(&[&torchrun[..], &task].concat()), Some((3, 8)));
        assert_eq!(stated(&[&by_hand[..], &task].concat()), Some((0, 2)));
        let mpi = [("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(stated(&[&by_hand[..], &mpi].concat()), Some((0, 4)));
        assert_eq!(stated(&[("RANK", "0"), ("PMI_RANK", "1"), ("PMI_SIZE", "2")]), Some((1, 2)));
        assert_eq!(stated(&[("RANK", "8"), ("WORLD_SIZE", "8")]), None, "it cannot be right");
        assert_eq!(stated(&[("RANK", "0"), ("WORLD_SIZE", "20000000")]), None, "no launcher has as many");
    }

    #[test]
    fn rank_0_speaks_and_so_does_a_process_without_a_rank() {
        let speaks = |variables: &[(&str, &str)]| {
            let value = |name: &str| variables.iter().find(|(known, _)| *known == name);
            is_first(|name| value(name).map(|(_, rank)| (*rank).to_owned()))
        };
        assert!(speaks(&[]) && speaks(&[("PMI_RANK", "0")]) && !speaks(&[("PMIX_RANK", "3")]));
        assert!(!speaks(&[("SLURM_PROCID", "0"), ("OMPI_COMM_WORLD_RANK", "1")]));
        assert!(!speaks(&[("SLURM_PROCID", "0"), ("RANK", "3"), ("LOCAL_RANK", "3")]));
    }

    #[test]
    fn tasks_of_a_node_are_found_in_slurms_list() {
        let of = |node| tasks_on("2(x3),1,16(x2)", node);
        assert_eq!([0, 2, 3, 4, 5, 6].map(of), [Some(2), Some(2), Some(1), Some(16), Some(16), None]);
        assert_eq!(["", "two", "2(x", "2(xN)"].map(|list| tasks_on(list, 0)), [None; 4]);
    }

    #[test]
    fn parts_are_kept_apart() {
        assert_ne!(hash([b"ab".as_slice(), b"c"]), hash([b"a".as_slice(), b"bc"]));
    }
}
