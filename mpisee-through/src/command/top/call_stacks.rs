//! Where in the program the calls are made in which ranks are.

use crate::sites::{Wrappers, is_start};
use crate::stacks::StackReader;
use crate::symbols::{BETWEEN, SearchDirs, Symbols};
use mpisee_collect::process;
use mpisee_collect::segments::Segment;
use mpisee_profile::run::rfc3339;
use mpisee_profile::segment::Snapshot;
use mpisee_profile::segment::active_call::ActiveCall;
use std::collections::{BTreeSet, HashMap};

/// Reads and resolves the stacks of running ranks.
pub struct CallStacks {
    dirs: SearchDirs,
    reader: StackReader,
    /// By the start of the job: files that are newer are not those that run.
    symbols: HashMap<String, Symbols>,
    wrappers: Wrappers,
}

/// The stacks of a process.
#[derive(Default)]
pub struct Known {
    /// Of its calls.
    pub calls: Vec<(ActiveCall, ProgramStack)>,
    /// Why some are not known, or not resolved.
    pub problems: BTreeSet<String>,
}

/// Where in the program a call is made.
pub struct ProgramStack {
    /// `step at solver.c:301 < main at main.c:88`.
    pub text: String,
    /// The first frame outside of libraries that call MPI for programs, counted from 0; the innermost one if all are of these.
    pub outside: usize,
}

impl CallStacks {
    /// Nothing is read yet; `dirs` are searched for the files of the program.
    pub fn new(dirs: SearchDirs) -> Self {
        CallStacks {
            dirs,
            reader: StackReader::default(),
            symbols: HashMap::new(),
            wrappers: Wrappers::new(&[]),
        }
    }

    /// Those of a process whose segment was just read. Of a call that ends meanwhile none is known.
    pub fn of(&mut self, segment: &Segment, snapshot: &Snapshot) -> Known {
        let mut known = Known::default();
        if !segment.is_running || snapshot.active_calls.is_empty() {
            return known;
        }
        let mut read = Vec::new();
        let is_here = snapshot.namespace == process::namespace();
        let elsewhere = || Err("it runs in another container; ask inside of that".to_owned());
        match if is_here { self.reader.of(snapshot.pid) } else { elsewhere() } {
            Err(why) => {
                known.problems.insert(format!("rank {} has no stack: {why}", snapshot.world_rank));
            }
            Ok(mut stacks) => {
                for call in &snapshot.active_calls {
                    let Some(frame) = call.frame else { continue };
                    read.push((*call, stacks.read(frame)));
                }
            }
        }
        let still = segment.read_now().map(|now| now.active_calls).unwrap_or_default();
        read.retain(|(call, _)| still.contains(call));
        let began = rfc3339(snapshot.start_realtime_ns);
        let symbols = self.symbols.entry(began.clone());
        let symbols = symbols.or_insert_with(|| Symbols::of_running(self.dirs.clone(), &began));
        for (call, stack) in read {
            match stack {
                Ok(addresses) => {
                    let stack = resolve(&addresses, symbols, &self.wrappers, &mut known.problems);
                    known.calls.push((call, stack));
                }
                Err(why) => {
                    known.problems.insert(format!("rank {} has no stack: {why}", snapshot.world_rank));
                }
            }
        }
        known
    }
}

/// The functions and lines up to `main`, and why some are not known.
fn resolve(
    addresses: &[String],
    symbols: &mut Symbols,
    wrappers: &Wrappers,
    problems: &mut BTreeSet<String>,
) -> ProgramStack {
    let mut frames: Vec<String> = Vec::new();
    let mut outside = None;
    for address in addresses {
        let found = symbols.stack(address);
        problems.extend(symbols.problems([address]));
        // Once there are lines, the frame's text does not have the binary.
        if outside.is_none() && !wrappers.is_library(binary_of(address)) {
            outside = Some(frames.len());
        }
        frames.extend(found.split(BETWEEN).map(str::to_owned));
        if frames.last().is_some_and(|outermost| outermost.starts_with("main ")) {
            break;
        }
    }
    let is_of_program = |frame: &String| !frame.split(' ').next().is_some_and(is_start);
    let outermost = frames.iter().rposition(is_of_program).map_or(0, |last| last + 1);
    frames.truncate(outermost.max(1));
    ProgramStack { outside: outside.filter(|&at| at < frames.len()).unwrap_or(0), text: frames.join(BETWEEN) }
}

/// The binary of `app+0x1a2b`; nothing for an address in none.
fn binary_of(address: &str) -> &str {
    address.rsplit_once("+0x").map_or("", |(binary, _)| binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(addresses: &[&str]) -> ProgramStack {
        let addresses: Vec<String> = addresses.iter().map(|&address| address.to_owned()).collect();
        let mut symbols = Symbols::of_running(SearchDirs::default(), "");
        resolve(&addresses, &mut symbols, &Wrappers::new(&[]), &mut BTreeSet::new())
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
            assert_eq!((stack.text, stack.outside), (addresses.join(BETWEEN), outside));
        }
    }
}
