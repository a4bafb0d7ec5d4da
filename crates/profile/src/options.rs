//! The profiler's options: one table, read by the library from the environment and offered by the
//! launcher on its command line.

use crate::own_process;
use crate::path_text::{from_text, to_text};
use crate::segment::OperationAtSite;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// One option.
#[derive(Debug)]
pub struct Setting {
    /// The environment variable: `MPISEE_OUTPUT`.
    pub variable: &'static str,
    /// The launcher's option without the dashes: `output`.
    pub option: &'static str,
    /// The form of a value: `DIR`, `on|off`.
    pub value: &'static str,
    /// The default as a user reads it.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    apply: fn(&mut Options, &str) -> Result<(), String>,
}

/// The clock that measures time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockChoice {
    /// The time-stamp counter where CPU and kernel vouch for it, else the monotonic clock.
    #[default]
    Auto,
    /// `clock_gettime(CLOCK_MONOTONIC)`.
    Monotonic,
}

/// The tool that instruments GPU kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GpuBackend {
    /// NVIDIA's Sanitizer API, which comes with CUDA.
    #[default]
    Sanitizer,
    /// NVIDIA's NVBit.
    Nvbit,
}

/// The programs in which the functions of NCCL are interposed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Nccl {
    /// Those that are linked with NCCL, or with RCCL if experimental parts are used.
    #[default]
    Auto,
    /// Every one, as one of Python, which loads NCCL while it runs.
    On,
    /// None.
    Off,
}

/// The method by which the rows of all ranks get into the profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collect {
    /// On one node the last rank to arrive reads them from the segments; on several nodes as
    /// `Tree`.
    #[default]
    Auto,
    /// Through a tree of ranks to rank 0, which writes them.
    Tree,
}

/// The values in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The profile directory wanted; `None` is the program's name in the working directory.
    pub output: Option<PathBuf>,
    /// True if recording is on from the start.
    pub record: bool,
    /// The directory of the segments of this node's ranks.
    pub segments: PathBuf,
    /// The clock.
    pub clock: ClockChoice,
    /// Of communicators with the same parent, creating call and members, how many have a row each.
    pub alike: u32,
    /// Runs, see [`crate::segment::log::Runs`], up to which each member stores the list of a
    /// communicator's members.
    pub listed: u32,
    /// Ranks above which the profile is aggregated over ranks.
    pub fold: u32,
    /// Instances of each collective operation on a communicator of which arrival and departure are
    /// kept.
    pub instances: u64,
    /// Messages of each stream of which the times at both ends are kept.
    pub messages: u64,
    /// True if the order of calls is kept.
    pub order: bool,
    /// Call sites that are told apart; 0: none are.
    pub sites: u32,
    /// The method by which rows are collected.
    pub collect: Collect,
    /// True if rank 0 says at the end where the profile is.
    pub quiet: bool,
    /// True if accesses of GPU kernels are counted.
    pub gpu: bool,
    /// The tool that instruments kernels.
    pub gpu_backend: GpuBackend,
    /// A pattern for the names of the kernels to count.
    pub gpu_kernels: String,
    /// N, where one warp in N is counted.
    pub gpu_sample: u32,
    /// N, where of the intervals between waits of the program for the GPU one in N is counted.
    pub gpu_intervals: u32,
    /// The folder for records of every access; `None`: there are none.
    pub gpu_records: Option<PathBuf>,
    /// `libsanitizer-public.so` of CUDA; `None` is where the launcher finds it.
    pub gpu_sanitizer: Option<PathBuf>,
    /// True if copies between host and GPUs, and launches, are counted.
    pub gpu_copies: bool,
    /// CUPTI's library, as an absolute path; `None`: the one that the process has loaded, or that
    /// is found.
    pub gpu_cupti: Option<PathBuf>,
    /// Patterns for the names of MPI's variables that are read, `pml_*,coll_*`; empty: none are,
    /// and MPI is not asked.
    pub variables: String,
    /// The programs in which the functions of NCCL are interposed; the launcher acts by it.
    pub nccl: Nccl,
    /// True if the GPU's time in calls of NCCL is measured.
    pub nccl_gpu_time: bool,
    /// Seconds that a rank waits in `MPI_Finalize` for ranks that may run without the profiler.
    pub wait_s: u64,
    /// True if parts are used that have never run on their hardware.
    pub experimental: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            output: None,
            record: true,
            segments: PathBuf::from("/dev/shm"),
            clock: ClockChoice::Auto,
            alike: 1000,
            listed: 1024,
            fold: 4096,
            instances: 256,
            messages: 256,
            order: false,
            sites: 4096,
            collect: Collect::Auto,
            quiet: false,
            gpu: false,
            gpu_backend: GpuBackend::Sanitizer,
            gpu_kernels: "*".to_owned(),
            gpu_sample: 1,
            gpu_intervals: 1,
            gpu_records: None,
            gpu_sanitizer: None,
            gpu_copies: false,
            gpu_cupti: None,
            variables: String::new(),
            nccl: Nccl::Auto,
            nccl_gpu_time: false,
            experimental: false,
            wait_s: 300,
        }
    }
}

/// Every option.
pub const SETTINGS: &[Setting] = &[
    Setting {
        variable: "MPISEE_OUTPUT",
        option: "output",
        value: "DIR",
        default: "PROGRAM.mpisee",
        help: "Profile directory to write, or the folder for it (ending in /); a number is added \
               if it exists; with Python, PROGRAM is the script or module",
        apply: |options, text| {
            if text.is_empty() {
                return Err("is empty".to_owned());
            }
            let path = from_text(text);
            // A slash at the end stands for the folder in which the profile shall be.
            options.output = Some(if path.file_name().is_none() { path.join("") } else { path });
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_RECORD",
        option: "record",
        value: "on|off",
        default: "on",
        help: "Record from the start; if off, from MPI_Pcontrol(1) or mpisee-through record on",
        apply: |options, text| on_or_off(text).map(|on| options.record = on),
    },
    Setting {
        variable: "MPISEE_SEGMENTS",
        option: "segments",
        value: "DIR",
        default: "/dev/shm",
        help: "Directory for the counters of each rank while it runs, on a file system in memory",
        apply: |options, text| {
            let path = from_text(text);
            if !path.is_absolute() {
                return Err("is not an absolute path".to_owned());
            }
            options.segments = path;
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_CLOCK",
        option: "clock",
        value: "auto|monotonic",
        default: "auto",
        help: "Clock for times; auto is the time-stamp counter if it is reliable, else the \
               monotonic clock",
        apply: |options, text| {
            options.clock = match text {
                "auto" => ClockChoice::Auto,
                "monotonic" => ClockChoice::Monotonic,
                _ => return Err("is neither auto nor monotonic".to_owned()),
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_ALIKE",
        option: "alike",
        value: "N",
        default: "1000",
        help: "Communicators of one kind (parent, creating call, group) that get a row each; \
               further ones share a row",
        apply: |options, text| match text.parse() {
            Ok(alike @ 1..=1_000_000) => {
                options.alike = alike;
                Ok(())
            }
            _ => Err("is not a number from 1 to 1000000".to_owned()),
        },
    },
    Setting {
        variable: "MPISEE_LISTED",
        option: "listed",
        value: "N",
        default: "1024",
        help: "Store a communicator's members on each rank up to N rank ranges (a:b:stride)",
        apply: |options, text| {
            options.listed = text.parse().map_err(|_| "is not a number of runs".to_owned())?;
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_FOLD",
        option: "fold",
        value: "N",
        default: "4096",
        help: "Aggregate over ranks, and over communicators of one shape, in jobs with more than \
               N ranks",
        apply: |options, text| {
            options.fold = text.parse().map_err(|_| "is not a number of ranks".to_owned())?;
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_INSTANCES",
        option: "instances",
        value: "N|all",
        default: "256",
        help: "Keep the begin and end of N calls of each collective on each communicator, for \
               `waits`; 0 keeps none",
        apply: |options, text| {
            options.instances = match text {
                "all" => u64::MAX,
                _ => text.parse().map_err(|_| "is neither a number of calls nor all".to_owned())?,
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_MESSAGES",
        option: "messages",
        value: "N|all",
        default: "256",
        help: "Keep the send and receive times of N messages per sender, receiver and tag, for \
               `waits`; 0 keeps none",
        apply: |options, text| {
            options.messages = match text {
                "all" => u64::MAX,
                _ => text.parse().map_err(|_| "is neither a number of messages nor all".to_owned())?,
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_ORDER",
        option: "order",
        value: "on|off",
        default: "off",
        help: "Keep the order of calls, compressed while the program runs, in order.csv",
        apply: |options, text| on_or_off(text).map(|on| options.order = on),
    },
    Setting {
        variable: "MPISEE_SITES",
        option: "sites",
        value: "N",
        default: "4096",
        help: "Count calls per call site, for up to N sites; 0 does not distinguish sites",
        apply: |options, text| match text.parse() {
            Ok(sites @ 0..=OperationAtSite::MOST_SITES) => {
                options.sites = sites;
                Ok(())
            }
            _ => Err(format!("is not a number from 0 to {}", OperationAtSite::MOST_SITES)),
        },
    },
    Setting {
        variable: "MPISEE_COLLECT",
        option: "collect",
        value: "auto|tree",
        default: "auto",
        help: "Collect rows from the segments on one node and by a tree across nodes (auto), or \
               always by a tree",
        apply: |options, text| {
            options.collect = match text {
                "auto" => Collect::Auto,
                "tree" => Collect::Tree,
                _ => return Err("is neither auto nor tree".to_owned()),
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_QUIET",
        option: "quiet",
        value: "on|off",
        default: "off",
        help: "Print nothing on success",
        apply: |options, text| on_or_off(text).map(|on| options.quiet = on),
    },
    Setting {
        variable: "MPISEE_GPU",
        option: "gpu",
        value: "on|off",
        default: "off",
        help: "Count accesses of GPU kernels to other devices, other ranks and the host; \
               experimental: tested on H100 and H200 only",
        apply: |options, text| on_or_off(text).map(|on| options.gpu = on),
    },
    Setting {
        variable: "MPISEE_GPU_BACKEND",
        option: "gpu-backend",
        value: "sanitizer|nvbit",
        default: "sanitizer",
        help: "Tool that instruments kernels: CUDA's Sanitizer, or NVBit if mpisee was built with \
               it; experimental: NVBit tested on H200 only",
        apply: |options, text| {
            options.gpu_backend = match text {
                "sanitizer" => GpuBackend::Sanitizer,
                "nvbit" => GpuBackend::Nvbit,
                _ => return Err("is neither sanitizer nor nvbit".to_owned()),
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_GPU_KERNELS",
        option: "gpu-kernels",
        value: "PATTERN",
        default: "*",
        help: "Kernels that --gpu counts, by mangled name; * and ? as in file names",
        apply: |options, text| {
            text.clone_into(&mut options.gpu_kernels);
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_GPU_SAMPLE",
        option: "gpu-sample",
        value: "N",
        default: "1",
        help: "Count one warp in N and scale; gpu.csv has the error",
        apply: |options, text| one_in(text).map(|n| options.gpu_sample = n),
    },
    Setting {
        variable: "MPISEE_GPU_INTERVALS",
        option: "gpu-intervals",
        value: "N",
        default: "1",
        help: "Count one in N of the intervals between the program's waits for the GPU, and \
               scale; kernels of other intervals run unpatched",
        apply: |options, text| one_in(text).map(|n| options.gpu_intervals = n),
    },
    Setting {
        variable: "MPISEE_GPU_RECORDS",
        option: "gpu-records",
        value: "DIR",
        default: "off",
        help: "Write a record of every access to DIR, one file per process; large, slow and \
               experimental",
        apply: |options, text| {
            if text.is_empty() {
                return Err("is neither off nor the name of a directory".to_owned());
            }
            options.gpu_records = (text != "off").then(|| from_text(text));
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_GPU_SANITIZER",
        option: "gpu-sanitizer",
        value: "FILE",
        default: "auto",
        help: "libsanitizer-public.so of CUDA 13.0 or later; auto: below CUDA_HOME or where CUDA \
               is installed",
        apply: |options, text| {
            let path = from_text(text);
            if text != "auto" && !path.is_absolute() {
                return Err("is neither auto nor an absolute path".to_owned());
            }
            options.gpu_sanitizer = (text != "auto").then_some(path);
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_GPU_COPIES",
        option: "gpu-copies",
        value: "on|off",
        default: "off",
        help: "Count copies between host and GPUs, launches, and copies made for MPI alone; not \
               with --gpu",
        apply: |options, text| on_or_off(text).map(|on| options.gpu_copies = on),
    },
    Setting {
        variable: "MPISEE_GPU_CUPTI",
        option: "gpu-cupti",
        value: "FILE",
        default: "auto",
        help: "libcupti.so.13 or .12 for --gpu-copies; auto: the program's own, else below \
               CUDA_HOME, where CUDA is installed, or of Python's packages",
        apply: |options, text| {
            let path = from_text(text);
            if text != "auto" && !path.is_absolute() {
                return Err("is neither auto nor an absolute path".to_owned());
            }
            options.gpu_cupti = (text != "auto").then_some(path);
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_MPI_T",
        option: "mpi-t",
        value: "PATTERNS|list",
        default: "off",
        help: "Read performance variables of the MPI library by name, such as 'pml_*,coll_*'; \
               list shows them without a program",
        apply: |options, text| {
            if text.split(',').any(|pattern| pattern.trim().is_empty()) {
                return Err("has an empty pattern".to_owned());
            }
            options.variables = if text == "off" { String::new() } else { text.to_owned() };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_NCCL",
        option: "nccl",
        value: "auto|on|off",
        default: "auto",
        help: "Count communicators of NCCL in programs linked with them (auto), or also \
               if they are loaded later, as by Python (on); untested between GPUs",
        apply: |options, text| {
            options.nccl = match (text, on_or_off(text)) {
                ("auto", _) => Nccl::Auto,
                (_, Ok(true)) => Nccl::On,
                (_, Ok(false)) => Nccl::Off,
                (_, Err(_)) => return Err("is none of auto, on and off".to_owned()),
            };
            Ok(())
        },
    },
    Setting {
        variable: "MPISEE_NCCL_GPU_TIME",
        option: "nccl-gpu-time",
        value: "on|off",
        default: "off",
        help: "Measure the GPU's time in each NCCL call by two CUDA events, and count these calls \
               (--nccl on); experimental: tested on H200 only",
        apply: |options, text| on_or_off(text).map(|on| options.nccl_gpu_time = on),
    },
    Setting {
        variable: "MPISEE_EXPERIMENTAL",
        option: "experimental",
        value: "on|off",
        default: "off",
        help: "Use parts that have never run on their hardware: memory of AMD's GPUs (HSA), and \
               communicators of RCCL",
        apply: |options, text| on_or_off(text).map(|on| options.experimental = on),
    },
    Setting {
        variable: "MPISEE_WAIT",
        option: "wait",
        value: "SECONDS",
        default: "300",
        help: "Time that MPI_Finalize waits for ranks on other nodes, which may lack the \
               profiler; then each node writes its own profile",
        apply: |options, text| {
            options.wait_s = text.parse().map_err(|_| "is not a number of seconds".to_owned())?;
            Ok(())
        },
    },
];

/// Options that may be given without a value, with the value that is implied.
pub const ALONE: &[(&str, &str)] = &[
    ("experimental", "on"),
    ("gpu", "on"),
    ("gpu-copies", "on"),
    ("nccl-gpu-time", "on"),
    ("order", "on"),
    ("quiet", "on"),
];

/// N of "one in N".
fn one_in(text: &str) -> Result<u32, String> {
    text.parse()
        .ok()
        .filter(|n| (1..=1_000_000).contains(n))
        .ok_or("is no number from 1 to 1000000".to_owned())
}

fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "1" | "yes" | "true" => Ok(true),
        "off" | "0" | "no" | "false" => Ok(false),
        _ => Err("is neither on nor off".to_owned()),
    }
}

/// The environment of this process, as far as names are text; of values that are none as
/// [`to_text`] has them.
pub fn variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, to_text(&value))))
}

impl Setting {
    /// Checks a value; the error says what is wrong with it.
    pub fn check(&self, value: &str) -> Result<(), String> {
        (self.apply)(&mut Options::default(), value)
    }
}

/// Variables of the initial environment that are missing from `now`: a program may clear its
/// environment, and ranks must agree on where their segments are.
fn cleared(now: &[(String, String)]) -> Vec<(String, String)> {
    let started = std::fs::read(own_process::folder().join("environ")).unwrap_or_default();
    let pairs = started.split(|&byte| byte == 0).filter_map(|pair| {
        let end = pair.iter().position(|&byte| byte == b'=')?;
        let name = std::str::from_utf8(&pair[..end]).ok()?.to_owned();
        Some((name, to_text(OsStr::from_bytes(&pair[end + 1..]))))
    });
    pairs.filter(|(name, _)| !now.iter().any(|(known, _)| known == name)).collect()
}

/// Set by the launcher: the number of the process that becomes the program.
pub const LAUNCHED: &str = "MPISEE_LAUNCHED";

/// Set by the launcher: the folder in which it was started, where the profile goes.
pub const START_FOLDER: &str = "MPISEE_START_FOLDER";

/// Set by the launcher: sentences for the profile, a line each, on what cannot be counted in this
/// run.
pub const NOT_COUNTED: &str = "MPISEE_NOT_COUNTED";

/// Set by the launcher: the socket of its standby, which a process that begins to record notifies.
pub const BEGIN_SOCKET: &str = "MPISEE_BEGIN_SOCKET";

/// The folders in which `mpisee-through` looks for debug information, as in PATH.
pub const DEBUG_DIRS: &str = "MPISEE_DEBUGINFO";

/// The file with the user's libraries and functions that call MPI for programs: `mpisee-through`
/// shows their callers.
pub const SKIP_FRAMES: &str = "MPISEE_SKIP_FRAMES";

/// Where agents send what they read: `HOST:PORT` of `mpisee-through serve`.
pub const SERVER: &str = "MPISEE_SERVE";

/// The token that `mpisee-through serve` asks of its clients.
pub const TOKEN: &str = "MPISEE_TOKEN";

/// Variables that are no options: those of the launcher and of `mpisee-through`, and two for
/// developers of the GPU tracer, of which docs/explanation/gpu-tracing.md has the one,
/// tools/overhead/gpu_cost.cu the other.
const NO_OPTIONS: [&str; 10] = [
    LAUNCHED,
    START_FOLDER,
    NOT_COUNTED,
    BEGIN_SOCKET,
    DEBUG_DIRS,
    SKIP_FRAMES,
    SERVER,
    TOKEN,
    "MPISEE_GPU_TRACE",
    "MPISEE_GPU_EMPTY",
];

impl Options {
    /// The values for this process; see [`Options::from_environment`].
    pub fn of_process() -> (Self, Vec<String>) {
        let now: Vec<_> = variables().collect();
        Options::from_environment(cleared(&now).into_iter().chain(now))
    }

    /// Reads the `MPISEE_…` variables among `environment`. Each complaint is a whole sentence; the
    /// default holds where there is one.
    pub fn from_environment(environment: impl Iterator<Item = (String, String)>) -> (Self, Vec<String>) {
        let mut options = Options::default();
        let mut complaints = Vec::new();
        let is_one = |name: &str| name.starts_with("MPISEE_") && !NO_OPTIONS.contains(&name);
        for (name, value) in environment.filter(|(name, _)| is_one(name)) {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.variable == name) else {
                let known: Vec<_> = SETTINGS.iter().map(|setting| setting.variable).collect();
                complaints.push(format!("{name} is not an option; there are {}", known.join(", ")));
                continue;
            };
            if let Err(why) = (setting.apply)(&mut options, &value) {
                complaints.push(format!("{name}='{value}' {why}; the default {} is used", setting.default));
            }
        }
        if options.gpu_intervals > 1 && (options.gpu_sample > 1 || options.gpu_records.is_some()) {
            options.gpu_intervals = 1;
            let why =
                "goes neither with MPISEE_GPU_SAMPLE nor with MPISEE_GPU_RECORDS; all intervals are counted";
            complaints.push(format!("MPISEE_GPU_INTERVALS {why}"));
        }
        (options, complaints)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cleared_environment_is_that_of_the_start() {
        let now: Vec<_> = variables().collect();
        assert_eq!(cleared(&now), []);
        assert!(cleared(&[]).contains(&("PATH".to_owned(), std::env::var("PATH").unwrap())));
    }

    fn read(pairs: &[(&str, &str)]) -> (Options, Vec<String>) {
        Options::from_environment(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())))
    }

    #[test]
    fn values_are_taken_and_others_variables_left_alone() {
        let (options, complaints) =
            read(&[("MPISEE_OUTPUT", "out/a.mpisee"), ("MPISEE_RECORD", "off"), ("PATH", "/bin")]);
        assert_eq!(options.output, Some(PathBuf::from("out/a.mpisee")));
        assert!(!options.record);
        assert_eq!(complaints, Vec::<String>::new());
    }

    #[test]
    fn a_bad_value_and_an_unknown_name_are_said_and_the_default_holds() {
        assert!(
            read(&[("MPISEE_GPU_TRACE", "trace"), (DEBUG_DIRS, "/debug"), (SKIP_FRAMES, "/x"), (TOKEN, "x")])
                .1
                .is_empty()
        );
        let (options, complaints) = read(&[("MPISEE_RECORD", "maybe"), ("MPISEE_OUTPT", "x")]);
        assert_eq!(options, Options::default());
        let (both, complained) = read(&[("MPISEE_GPU_INTERVALS", "100"), ("MPISEE_GPU_SAMPLE", "100")]);
        assert_eq!((both.gpu_intervals, both.gpu_sample), (1, 100));
        assert!(complained[0].starts_with("MPISEE_GPU_INTERVALS goes neither"), "{complained:?}");
        let nccl = Options::from_environment([("MPISEE_NCCL".to_owned(), "maybe".to_owned())].into_iter()).1;
        assert_eq!(nccl, ["MPISEE_NCCL='maybe' is none of auto, on and off; the default auto is used"]);
        assert_eq!(complaints[0], "MPISEE_RECORD='maybe' is neither on nor off; the default on is used");
        assert!(complaints[1].starts_with("MPISEE_OUTPT is not an option; there are MPISEE_OUTPUT, "));
    }

    /// A program may change its folder before `MPI_Init`, so that each rank would have another one.
    #[test]
    fn segments_in_a_relative_folder_are_refused() {
        let (options, complaints) = read(&[("MPISEE_SEGMENTS", "segments")]);
        assert_eq!(options.segments, PathBuf::from("/dev/shm"));
        let said = "MPISEE_SEGMENTS='segments' is not an absolute path; the default /dev/shm is used";
        assert_eq!(complaints, [said]);
    }

    #[test]
    fn the_stated_defaults_are_the_defaults() {
        for setting in SETTINGS.iter().filter(|setting| setting.variable != "MPISEE_OUTPUT") {
            let mut options = Options::default();
            (setting.apply)(&mut options, setting.default).unwrap();
            assert_eq!(options, Options::default(), "{}", setting.variable);
        }
    }
}
