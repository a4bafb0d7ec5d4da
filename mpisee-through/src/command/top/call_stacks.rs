//! Where in the program the calls are made in which ranks are.

use crate::sites::is_start;
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
}

/// The stacks of a process.
#[derive(Default)]
pub struct Known {
    /// Of its calls, each as `step at solver.c:301 < main at main.c:88`.
    pub calls: Vec<(ActiveCall, String)>,
    /// Why some are not known, or not resolved.
    pub problems: BTreeSet<String>,
}

impl CallStacks {
    /// Nothing is read yet; `dirs` are searched for the files of the program.
    pub fn new(dirs: SearchDirs) -> Self {
        CallStacks { dirs, reader: StackReader::default(), symbols: HashMap::new() }
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
                Ok(addresses) => known.calls.push((call, resolve(&addresses, symbols, &mut known.problems))),
                Err(why) => {
                    known.problems.insert(format!("rank {} has no stack: {why}", snapshot.world_rank));
                }
            }
        }
        known
    }
}

/// The functions and lines up to `main`, and why some are not known.
fn resolve(addresses: &[String], symbols: &mut Symbols, problems: &mut BTreeSet<String>) -> String {
    let mut frames = Vec::new();
    for address in addresses {
        let found = symbols.stack(address);
        problems.extend(symbols.problems([address]));
        let is_main = found.rsplit(BETWEEN).next().is_some_and(|outermost| outermost.starts_with("main "));
        frames.push(found);
        if is_main {
            break;
        }
    }
    let is_of_program = |frame: &String| !frame.split(' ').next().is_some_and(is_start);
    let outermost = frames.iter().rposition(is_of_program).map_or(0, |last| last + 1);
    frames.truncate(outermost.max(1));
    frames.join(BETWEEN)
}
