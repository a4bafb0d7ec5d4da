//! Where in the program the calls are made in which ranks are.

use super::most_called::MostCalled;
use crate::debug_info::{SearchDirs, Symbols};
use crate::sites::{Wrappers, file_name, is_start};
use crate::stacks::{MOST_FRAMES, StackReader};
use anyhow::Result;
use mpisee_collect::process;
use mpisee_collect::segments::Segment;
use mpisee_profile::Operation;
use mpisee_profile::run::rfc3339;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::active_call::ActiveCall;
use mpisee_profile::segment::key::{Meaning, OperationAtSite};
use mpisee_profile::segment::layout::call::CALLS;
use mpisee_profile::segment::log::Code;
use mpisee_profile::segment::snapshot::Module;
use mpisee_profile::site::layout_text;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

/// Reads and resolves the stacks of running ranks.
pub struct CallStacks {
    dirs: SearchDirs,
    reader: StackReader,
    /// By the start of the job: files that are newer are not those that run.
    symbols: HashMap<String, Symbols>,
    wrappers: Wrappers,
    /// Calls of each process so far, as the last look found them.
    counts: HashMap<PathBuf, CallCounts>,
}

/// In place of the functions around the last one whose frame is read.
const OUTER_NOT_READ: &str = "(outer functions not read)";

/// How often it is tried to read the stack of a thread that sleeps for short times.
const MOST_READINGS: usize = 4;

/// Calls of a process by operation and call site.
type CallCounts = HashMap<OperationAtSite, u64>;

/// The stacks of a process.
#[derive(Default)]
pub struct ProcessStacks {
    /// Of its calls; of those whose stack cannot be read the call site alone, if it is known.
    pub calls: Vec<(ActiveCall, ProgramStack)>,
    /// Of a process in no call, where its first thread sleeps.
    pub asleep: Option<ProgramStack>,
    /// Why some are not known, or not resolved.
    pub problems: BTreeSet<String>,
    /// The operation that the process called most since the last look; `None` at the first one, and
    /// if it made no call.
    pub most_called: Option<MostCalled>,
}

/// The stacks of a process as addresses. To resolve them takes many times as long as to read them.
#[derive(Default)]
pub struct StackAddresses {
    /// Of its calls, or why they cannot be read.
    calls: Vec<(ActiveCall, Result<Vec<String>, String>)>,
    asleep: Option<Vec<String>>,
    /// The build IDs of the files on its stacks, by their paths when they were mapped.
    build_ids: HashMap<String, Option<String>>,
    /// See [`ProcessStacks::most_called`].
    pub most_called: Option<MostCalledAt>,
}

/// The operation that a process called most since the last look, and the address of the site with
/// most of these calls.
pub struct MostCalledAt {
    operation: Operation,
    calls: u64,
    calls_there: u64,
    address: Option<String>,
}

impl StackAddresses {
    /// The number of calls whose stack was read, or cannot be.
    pub fn calls(&self) -> usize {
        self.calls.len()
    }

    /// Returns whether another look may find more: whether the process `is_calling` since the last
    /// one, but was in no call that lasted until its stack was read.
    pub fn may_grow(&self, snapshot: &Snapshot, is_calling: bool) -> bool {
        let of_frames = snapshot.active_calls.iter().filter(|call| call.frame.is_some()).count();
        let is_readable = self.calls.iter().all(|(_, stack)| stack.is_ok());
        is_readable && (self.calls.len() < of_frames || of_frames == 0 && is_calling)
    }
}

/// Where in the program a call is made.
pub struct ProgramStack {
    /// `step at solver.c:301` and `main at main.c:88`: the functions, the innermost first.
    pub frames: Vec<String>,
    /// The first frame outside of libraries that call MPI for programs, counted from 0; the
    /// innermost one if all are of these.
    pub outside: usize,
}

impl CallStacks {
    /// Nothing is read yet; `dirs` are searched for the files of the program.
    ///
    /// # Errors
    /// Of a list of frames to skip that cannot be read.
    pub fn new(dirs: SearchDirs) -> Result<Self> {
        Ok(CallStacks {
            dirs,
            reader: StackReader::default(),
            symbols: HashMap::new(),
            wrappers: Wrappers::from_environment(&[])?,
            counts: HashMap::new(),
        })
    }

    /// The operation that a process called most since the last look, of which the counts are kept
    /// for the next one.
    pub fn most_called(&mut self, segment: &Segment, snapshot: &Snapshot) -> Option<MostCalledAt> {
        let counts = call_counts(snapshot);
        let before = self.counts.insert(segment.path.clone(), counts.clone())?;
        let (operation, calls, at, calls_there) = most_called(snapshot, &before, &counts)?;
        let address = at.site_number().and_then(|number| snapshot.sites.get(number as usize));
        let address = address.and_then(|site| address_of(snapshot, site.code));
        Some(MostCalledAt { operation, calls, calls_there, address })
    }

    /// Reads the stacks of a process whose segment was just read. Of a call that ends meanwhile
    /// none is known.
    pub fn read(&mut self, segment: &Segment, snapshot: &Snapshot) -> StackAddresses {
        let mut read = StackAddresses::default();
        if !segment.is_running {
            return read;
        }
        let is_here = snapshot.namespace == process::namespace();
        let elsewhere = || Err("it runs in another container; ask inside of that".to_owned());
        match if is_here { self.reader.read(snapshot.pid) } else { elsewhere() } {
            Err(why) => read.calls.extend(snapshot.active_calls.iter().map(|call| (*call, Err(why.clone())))),
            Ok(mut stacks) => {
                if snapshot.active_calls.is_empty() {
                    read.asleep = (0..MOST_READINGS).find_map(|_| stacks.read_asleep());
                }
                for call in &snapshot.active_calls {
                    let Some(frame) = call.frame else { continue };
                    read.calls.push((*call, stacks.read(frame)));
                }
                read.build_ids = stacks.build_ids;
            }
        }
        let still = segment.read_now().map(|now| now.active_calls).unwrap_or_default();
        read.calls.retain(|(call, _)| still.contains(call));
        read.asleep = read.asleep.filter(|_| still.is_empty());
        read
    }

    /// The functions and lines of stacks that were read with this snapshot.
    pub fn resolve(&mut self, snapshot: &Snapshot, read: StackAddresses) -> ProcessStacks {
        let mut known = ProcessStacks::default();
        let StackAddresses { calls, asleep, build_ids, most_called } = read;
        let symbols = symbols_of(&mut self.symbols, &self.dirs, snapshot);
        for (path, build_id) in build_ids {
            build_id.iter().for_each(|build_id| symbols.add_build_id(&path, build_id));
        }
        known.most_called = most_called.map(|most| MostCalled {
            operation: most.operation,
            calls: most.calls,
            calls_there: most.calls_there,
            stack: most.address.map(|address| functions(&address, symbols)).unwrap_or_default(),
        });
        if let Some(addresses) = asleep {
            let is_between = |binary: &str| self.wrappers.is_library(binary) || is_of_system(binary);
            known.asleep = Some(resolve(&addresses, symbols, is_between, &mut known.problems));
        }
        for (call, stack) in calls {
            match stack {
                Ok(addresses) => {
                    let is_between = |binary: &str| self.wrappers.is_library(binary);
                    let stack = resolve(&addresses, symbols, is_between, &mut known.problems);
                    known.calls.push((call, stack));
                }
                // The segment has the call site.
                Err(why) => {
                    known.problems.insert(format!("rank {} has no stack: {why}", snapshot.world_rank));
                    let site = snapshot.code_of(&call).and_then(|code| address_of(snapshot, code));
                    let frames = site.map(|address| functions(&address, symbols)).unwrap_or_default();
                    known.calls.push((call, ProgramStack { frames, outside: 0 }));
                }
            }
        }
        known
    }
}

/// The reader of the job's symbols: files that are newer than its begin are not those that run.
fn symbols_of<'s>(
    symbols: &'s mut HashMap<String, Symbols>,
    dirs: &SearchDirs,
    snapshot: &Snapshot,
) -> &'s mut Symbols {
    let began = rfc3339(snapshot.start_realtime_ns);
    let symbols = symbols.entry(began.clone()).or_insert_with(|| Symbols::of_running(dirs.clone(), &began));
    for module in &snapshot.modules {
        if let Module::Binary { path, build_id, layout } = module {
            if !build_id.is_empty() {
                symbols.add_build_id(path, build_id);
            }
            symbols.add_layout(path, &layout_text(*layout));
        }
    }
    symbols
}

fn call_counts(snapshot: &Snapshot) -> CallCounts {
    let mut counts = CallCounts::new();
    for (key, values) in &snapshot.counters {
        if let Some(Meaning::Call(key)) = key.meaning() {
            let calls = counts.entry(key.operation).or_default();
            *calls = calls.wrapping_add(values[CALLS]);
        }
    }
    counts
}

/// The operation with most calls between two looks, how many they are, the site with most of them,
/// and how many these are.
fn most_called(
    snapshot: &Snapshot,
    before: &CallCounts,
    now: &CallCounts,
) -> Option<(Operation, u64, OperationAtSite, u64)> {
    let mut sums: BTreeMap<Operation, (u64, OperationAtSite, u64)> = BTreeMap::new();
    for (&at, &calls) in now {
        let more = calls.saturating_sub(before.get(&at).copied().unwrap_or(0));
        let Some((operation, _)) = snapshot.operation_at(at).filter(|_| more > 0) else { continue };
        let (sum, most_at, most) = sums.entry(operation).or_insert((0, at, 0));
        *sum += more;
        // Of equal ones the first, whatever the order of the map is.
        if (more, *most_at) > (*most, at) {
            (*most_at, *most) = (at, more);
        }
    }
    let (operation, (sum, at, calls)) = sums.into_iter().max_by_key(|(_, (sum, ..))| *sum)?;
    Some((operation, sum, at, calls))
}

/// `app+0x1a2b`; `None` for code of no file. Lines of Python are on paths alone.
fn address_of(snapshot: &Snapshot, code: Code) -> Option<String> {
    match snapshot.modules.get(code.module as usize)? {
        Module::Binary { path, .. } if path.is_empty() => None,
        Module::Binary { path, .. } => Some(format!("{path}+{:#x}", code.offset)),
        Module::Function { .. } => None,
    }
}

/// The functions and lines up to `main`, and why some are not known. `is_between` says which
/// binaries call MPI, or the kernel, for others.
fn resolve(
    addresses: &[String],
    symbols: &mut Symbols,
    is_between: impl Fn(&str) -> bool,
    problems: &mut BTreeSet<String>,
) -> ProgramStack {
    let mut frames: Vec<String> = Vec::new();
    let mut outside = None;
    let function = |frame: &String| frame.split([' ', '+']).next().unwrap_or_default().to_owned();
    let is_main = |frame: &String| function(frame) == "main";
    let mut goes_on = addresses.len() == MOST_FRAMES;
    for address in addresses {
        // Further out are functions of the interpreter alone, which are the same for all lines of a
        // script.
        if !frames.is_empty() && is_interpreter(binary_of(address)) {
            goes_on = false;
            break;
        }
        // The binary is in the address alone: functions with lines are shown without it.
        if outside.is_none() && !is_between(binary_of(address)) {
            outside = Some(frames.len());
        }
        frames.extend(functions(address, symbols));
        problems.extend(symbols.problems([address]));
        if frames.last().is_some_and(is_main) {
            goes_on = false;
            break;
        }
    }
    let outermost = frames.iter().position(|frame| is_start(&function(frame))).unwrap_or(frames.len());
    goes_on &= outermost == frames.len();
    frames.truncate(outermost.max(1));
    let outside = outside.filter(|&at| at < frames.len()).unwrap_or(0);
    if goes_on {
        frames.push(OUTER_NOT_READ.to_owned());
    }
    ProgramStack { outside, frames }
}

/// The functions of an address, the innermost first. One that cannot be resolved has the file name
/// of its binary, as in the tables of `sites`.
fn functions(address: &str, symbols: &mut Symbols) -> Vec<String> {
    match symbols.functions(address) {
        [only] if only == address => vec![file_name(address).to_owned()],
        resolved => resolved.to_vec(),
    }
}

/// The binary of `app+0x1a2b`; nothing for an address in none.
fn binary_of(address: &str) -> &str {
    address.rsplit_once("+0x").map_or("", |(binary, _)| binary)
}

/// Returns whether a binary is of the system's own libraries, through which programs call the
/// kernel, or the kernel's.
fn is_of_system(binary: &str) -> bool {
    const BEGINS: [&str; 9] = [
        "ld-linux",
        "libc-",
        "libc.so",
        "libgcc_s",
        "libgfortran",
        "libpthread",
        "libquadmath",
        "librt",
        "libstdc++",
    ];
    let file = binary.rsplit('/').next().unwrap_or_default();
    file.is_empty() || BEGINS.iter().any(|begin| file.starts_with(begin))
}

/// Returns whether a binary is Python's interpreter.
fn is_interpreter(binary: &str) -> bool {
    let file = binary.rsplit('/').next().unwrap_or_default();
    ["python3", "libpython3"].iter().any(|begin| file.starts_with(begin))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(addresses: &[&str]) -> ProgramStack {
        let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        let mut symbols = Symbols::of_running(SearchDirs::default(), "");
        let wrappers = Wrappers::new(&[], "");
        resolve(&addresses, &mut symbols, |binary| wrappers.is_library(binary), &mut BTreeSet::new())
    }

    #[test]
    fn frames_of_the_interpreter_and_further_out_are_left_out() {
        let [mpi4py, python] = ["/no/MPI.cpython-311-x86_64-linux-gnu.so+0x1", "/no/bin/python3.11+0x2"];
        let frames = resolved(&[mpi4py, python, "/no/libc.so.6+0x3"]).frames;
        assert_eq!(frames, ["MPI.cpython-311-x86_64-linux-gnu.so+0x1"]);
        assert_eq!(resolved(&[python, "/no/libpython3.12.so.1.0+0x4"]).frames, ["python3.11+0x2"]);
    }

    #[test]
    fn a_stack_that_is_cut_off_says_so() {
        let outermost = |levels: usize| resolved(&vec!["/no/app+0x1"; levels]).frames.pop().unwrap();
        assert_eq!(outermost(MOST_FRAMES - 1), "app+0x1");
        assert_eq!(outermost(MOST_FRAMES), OUTER_NOT_READ);
        let python = [&["/no/app+0x1"][..], &["/no/bin/python3.11+0x2"; MOST_FRAMES - 1]].concat();
        assert_eq!(resolved(&python).frames, ["app+0x1"]);
    }

    #[test]
    fn the_first_frame_outside_of_wrappers_is_marked() {
        let [hdf5, petsc, app] = ["/no/libhdf5.so.103+0x1", "/no/libpetsc.so.3+0x2", "/no/app+0x3"];
        for (addresses, outside) in [
            (&[app, app][..], 0),
            (&[hdf5, petsc, app, hdf5], 2),
            (&[hdf5, petsc], 0),
            (&[hdf5, "0x7f0000001234", app], 1),
            (&["/no/libhdf5.so.103 (deleted)+0x1", app], 1),
        ] {
            let stack = resolved(addresses);
            let shown: Vec<&str> = addresses.iter().map(|at| at.trim_start_matches("/no/")).collect();
            assert_eq!(
                (stack.frames, stack.outside),
                (shown.into_iter().map(str::to_owned).collect(), outside)
            );
        }
    }
}
