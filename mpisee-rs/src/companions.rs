//! Worlds of which only some ranks have the profiler: parts of an MPMD run, or what a script around each rank leaves out.
//!
//! A rank without it takes no part in what is agreed or collected, and nothing that a rank could send it may be sent. So
//! it must be known before the first agreement who has the profiler, and all who have it must know the same. On one node
//! each rank sees the others' processes in `/proc`: at the end of `MPI_Init` all of them are there. Of other nodes nobody
//! knows; there all are believed to have it, and the first thing that they do together is a barrier, in which a rank that
//! waits long says so. Whoever sets `MPISEE_PARTIAL` believes nothing of other nodes.
//!
//! Communicators with ranks that have no profiler, or may have none, are named as those with processes of other worlds
//! are: each member counts (`Communicator::next_number`). The profile is collected by those that know each other.

use crate::abi::{Comm, Group, Raw, bits, constant, from_bits};
use crate::generated::pmpi;
use crate::message::say;
use crate::process::Process;
use mpisee_profile::RankSet;
use mpisee_profile::options::Options;
use mpisee_profile::process::neighbours;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The file of this library.
const LIBRARY: &str = "libmpisee.so";
/// A tag of our own, should the program make a communicator from a group in another thread.
const TAG: c_int = 0x6d70;
/// After so long a rank says that it waits.
const LONG: Duration = Duration::from_secs(10);

/// What a rank knows of the others of its world at the end of `MPI_Init`.
pub struct Companions {
    world_size: u32,
    /// The ranks that have the profiler, as far as is known; the own one is among them.
    having: RankSet,
    /// Those that are known to have none.
    lacking: RankSet,
    /// Whether others than these count as having none.
    is_partial: bool,
    /// The communicator of those that have it, where others have not: the bits of its handle.
    comm: OnceLock<u64>,
}

impl Companions {
    /// Looks around on the node.
    pub fn find(options: &Options, world_rank: u32, world_size: u32) -> Companions {
        let seen = if world_size > 1 { neighbours(world_rank, LIBRARY) } else { [(world_rank, true)].into() };
        let those = |with: bool| {
            let ranks = seen.iter().filter(|&(&rank, &has)| has == with && rank < world_size);
            ranks.map(|(&rank, _)| rank).collect::<RankSet>()
        };
        let (having, lacking) = (those(true), those(false));
        let sees_all = having.len() + lacking.len() == u64::from(world_size);
        let is_partial = !lacking.is_empty() || options.partial && !sees_all;
        Companions { world_size, having, lacking, is_partial, comm: OnceLock::new() }
    }

    /// Whether something may be agreed with a rank of the world.
    pub fn has(&self, rank: u32) -> bool {
        !self.is_partial || self.having.contains(rank)
    }

    /// Whether some of the world's ranks have no profiler, or may have none.
    pub fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// Whether the rank speaks for those on its node.
    fn is_first(&self, process: &Process) -> bool {
        self.having.iter().next() == Some(process.world_rank)
    }

    /// Why a profile of these ranks alone is incomplete; `None` if they are all.
    pub fn why_incomplete(&self) -> Option<String> {
        self.is_partial.then(|| self.others(|_| "ran"))
    }

    /// Where the ranks are that do not take part, in the tense of the verb.
    fn others(&self, verb: impl Fn(&RankSet) -> &'static str) -> String {
        let elsewhere: RankSet = (0..self.world_size)
            .filter(|&rank| !self.having.contains(rank) && !self.lacking.contains(rank))
            .collect();
        let those = [(&self.lacking, "without the profiler"), (&elsewhere, "on other nodes")];
        let those = those.into_iter().filter(|(ranks, _)| !ranks.is_empty());
        those
            .map(|(ranks, how)| format!("{} {} {how}", ranks.named(), verb(ranks)))
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// At the end of `MPI_Init`, before anything is agreed: those that have the profiler come together.
    pub fn meet(&self, process: &Process) {
        if self.is_partial {
            if self.is_first(process) {
                self.tell_partial(process);
            }
            if let Some(comm) = self.create(process) {
                let _ = self.comm.set(bits(comm));
            }
        } else if self.having.len() < u64::from(self.world_size) {
            self.wait_for_all(process);
        }
    }

    /// The communicator of those that have the profiler, where not all have it. Open MPI 4.1 may hang in making one at
    /// the end, so it is there from the begin.
    pub fn communicator(&self) -> Option<Comm> {
        self.comm.get().copied().map(from_bits)
    }

    fn tell_partial(&self, process: &Process) {
        let why = self.others(|ranks| if ranks.len() == 1 { "runs" } else { "run" });
        if !process.options.quiet {
            say(format_args!(
                "{why}: the profile will be of {} of {} ranks",
                self.having.len(),
                self.world_size
            ));
        }
    }

    fn create(&self, process: &Process) -> Option<Comm> {
        let ranks: Vec<c_int> = self.having.iter().map(|rank| rank as c_int).collect();
        let world = Raw::new(process.predefined.world);
        let returning = Raw::new(process.predefined.errors_return);
        let mut handler = MaybeUninit::uninit();
        let mut group = MaybeUninit::<Group>::uninit();
        let mut comm = MaybeUninit::<Comm>::uninit();
        // SAFETY: the world and its group are valid, the ranks are of it; what the calls write is used if they succeed,
        // and the handler that the application set is put back as it was.
        unsafe {
            let all = Raw::new(process.world_group);
            let code =
                pmpi::MPI_Group_incl.get()(all, ranks.len() as c_int, ranks.as_ptr(), group.as_mut_ptr());
            if code != constant::SUCCESS {
                return None;
            }
            pmpi::MPI_Comm_get_errhandler.get()(world, handler.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(world, returning);
            let code = pmpi::MPI_Comm_create_group.get()(
                world,
                Raw::new(group.assume_init()),
                TAG,
                comm.as_mut_ptr(),
            );
            pmpi::MPI_Comm_set_errhandler.get()(world, Raw::new(handler.assume_init()));
            pmpi::MPI_Errhandler_free.get()(handler.as_mut_ptr());
            pmpi::MPI_Group_free.get()(group.as_mut_ptr());
            if code != constant::SUCCESS {
                return None;
            }
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm.assume_init()), returning);
            Some(comm.assume_init())
        }
    }

    /// Waits for every rank of the world, on whatever node. One without the profiler never comes: it is not in here, and
    /// nothing of it can be seen.
    fn wait_for_all(&self, process: &Process) {
        let mut request = process.predefined.request_null;
        let mut is_complete = 0;
        // SAFETY: the world is valid, the request is written.
        unsafe { pmpi::MPI_Ibarrier.get()(Raw::new(process.predefined.world), &raw mut request) };
        let begin = Instant::now();
        let mut has_spoken = !self.is_first(process);
        loop {
            // SAFETY: the request is ours and null once it is complete, which the call takes for complete.
            unsafe {
                pmpi::MPI_Test.get()(&raw mut request, &raw mut is_complete, crate::abi::STATUS_IGNORE)
            };
            if is_complete != 0 {
                return;
            }
            if begin.elapsed() > LONG && !has_spoken {
                has_spoken = true;
                say(format_args!(
                    "rank {} has waited {} s in MPI_Init for ranks on other nodes; those that run without the profiler \
                     never come: start them with it (LD_PRELOAD may not reach other nodes), or set MPISEE_PARTIAL=on",
                    process.world_rank,
                    LONG.as_secs()
                ));
            }
            match begin.elapsed() {
                short if short < Duration::from_millis(2) => std::thread::yield_now(),
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
    }
}
