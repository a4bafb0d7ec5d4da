//! Communication between ranks while the profile is collected, through the program's own MPI.
//!
//! Waits poll a request and pause between polls, so that a waiting rank yields the processor.

use crate::generated::pmpi;
use crate::mpi::abi::{
    Comm, Datatype, Errhandler, Raw, Request, STATUS_IGNORE, Status, bits, constant, is_fault_tolerant,
    received_bytes,
};
use crate::mpi::query;
use crate::naming::Groups;
use crate::state::request::REQUESTS;
use crate::state::world::World;
use mpisee_collect::wire::Ranks;
use mpisee_collect::wire::pieces::PIECE;
use mpisee_profile::segment::log::Runs;
use mpisee_profile::{CommRank, RankSet, WorldRank};
use std::cell::Cell;
use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A communicator on which errors are returned.
pub struct Channel {
    comm: Comm,
    hold: Hold,
    /// The own rank in the channel.
    pub rank: CommRank,
    /// The world ranks of its processes, in its order: of all, but in a run that outlives some.
    members: Runs,
    /// The longest wait for the others.
    wait: Duration,
    byte: Raw<Datatype>,
    null: Request,
    /// True if a message failed.
    is_broken: Cell<bool>,
}

/// The owner of the communicator.
enum Hold {
    /// Ours.
    Own,
    /// The program's, with the error handler that it set.
    Lent(Errhandler),
}

/// The message that a rank prints after a long wait.
pub type Sentence<'s> = &'s dyn Fn() -> String;

impl Channel {
    /// The world, where no rank has a receive open that could take what is not meant for it:
    /// another communicator would be one that the program did not ask for. Open MPI 4.1 may hang
    /// when it makes one after `MPI_Comm_idup`, whoever asks for it, and which programs it hangs in
    /// depends on how many there are: so none is made at init, either.
    ///
    /// Where a receive may be open the world's processes get a communicator of their own; where the
    /// run may go on without some processes, those that are still there. `None` if not all ranks
    /// came.
    ///
    /// The ranks meet twice. The last one to come completes the first meeting even if the others
    /// have given it up, since their part of it is under way; the second it completes only with
    /// ranks that are still there. A message to one that is not would keep MPICH before 4.2 in
    /// `MPI_Finalize` for ever.
    pub fn open(world: &World) -> Option<Channel> {
        let all = world.predefined.world;
        if is_fault_tolerant() {
            let shrink = |all: Raw<Comm>, comm: *mut Comm| {
                // SAFETY: the communicator is valid, the new one is written.
                unsafe { pmpi::MPIX_Comm_shrink.get()(all, comm) }
            };
            let lent = Channel::lent(world, all);
            return Some(lent.made(world, shrink).unwrap_or(lent));
        }
        let channel = Channel::lent(world, all);
        // What was started while recording was off is not known.
        let header = world.segment.header();
        let may_receive = !REQUESTS.is_empty()
            || header.switches.load(Ordering::Relaxed) > 0
            || header.not_seen.iter().any(|count| count.load(Ordering::Relaxed) > 0);
        let first = channel.most(world, c_int::from(may_receive));
        let Some(one_receives) = first.and_then(|one_receives| channel.most(world, one_receives)) else {
            channel.give_back();
            return None;
        };
        if one_receives == 0 {
            return Some(channel);
        }
        let create = |all: Raw<Comm>, comm: *mut Comm| {
            // SAFETY: communicator and group are valid, the new communicator is written. Unlike a
            // duplicate it has none of the attributes that the program gave the world, which would
            // run code of the program.
            unsafe { pmpi::MPI_Comm_create.get()(all, Raw::new(world.group), comm) }
        };
        Some(channel.made(world, create).unwrap_or(channel))
    }

    fn lent(world: &World, comm: Comm) -> Channel {
        let mut handler = MaybeUninit::uninit();
        let returning = Raw::new(world.predefined.errors_return);
        // SAFETY: the communicator is valid; its handler is written, and put back when the channel
        // ends.
        let handler = unsafe {
            pmpi::MPI_Comm_get_errhandler.get()(Raw::new(comm), handler.as_mut_ptr());
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm), returning);
            handler.assume_init()
        };
        Channel::between(world, comm, Hold::Lent(handler))
    }

    /// A communicator made of this one; `None` if that fails.
    fn made(&self, world: &World, create: impl FnOnce(Raw<Comm>, *mut Comm) -> c_int) -> Option<Channel> {
        let null = world.predefined.comm_null;
        let mut comm = null;
        if create(Raw::new(self.comm), &raw mut comm) != constant::SUCCESS || bits(comm) == bits(null) {
            return None;
        }
        // SAFETY: the communicator was just made.
        unsafe {
            pmpi::MPI_Comm_set_errhandler.get()(Raw::new(comm), Raw::new(world.predefined.errors_return));
        }
        self.give_back();
        Some(Channel::between(world, comm, Hold::Own))
    }

    fn between(world: &World, comm: Comm, hold: Hold) -> Channel {
        let is_whole = query::size(comm) == world.size;
        let members = if is_whole {
            Runs::first(world.size)
        } else {
            Groups::from_communicator(world, comm, false).own
        };
        let wait = Duration::from_secs(world.options.wait_s);
        Channel {
            comm,
            hold,
            rank: query::rank(comm),
            members,
            wait,
            byte: Raw::new(world.predefined.byte),
            null: world.predefined.request_null,
            is_broken: Cell::new(false),
        }
    }

    /// The maximum of a number over all ranks; `None` on failure. Ranks meet here first, since no
    /// receive of the program can match a collective operation.
    pub fn most(&self, world: &World, own: c_int) -> Option<c_int> {
        // Boxed, since the library may hold on to the addresses if it fails.
        let (own, most) = (Box::leak(Box::new(own)), Box::leak(Box::new(0)));
        let (int, max) = (Raw::new(world.predefined.int), Raw::new(world.predefined.max));
        let (mut request, comm) = (self.null, Raw::new(self.comm));
        let (from, to) = ((&raw const *own).cast(), (&raw mut *most).cast());
        // SAFETY: both numbers are there for good.
        let code = unsafe { pmpi::MPI_Iallreduce.get()(from, to, 1, int, max, comm, &raw mut request) };
        let sentence = || {
            let rank = world.rank;
            format!(
                "rank {rank} has waited in MPI_Finalize for {} s: not all ranks have come; the profile is written when \
                 they do, or, for each node by itself, after {} s (MPISEE_WAIT)",
                PATIENCE.as_secs(),
                self.wait.as_secs()
            )
        };
        // The first and the last rank may print it, in case one of them is missing.
        let says = self.rank == CommRank::FIRST || self.rank.get() == self.size() - 1;
        let sentence: Sentence = &sentence;
        if !(self.note(code) && self.wait(&mut request, STATUS_IGNORE, says.then_some(sentence))) {
            return None;
        }
        // SAFETY: the request is complete, and the boxes were leaked for it.
        unsafe {
            drop(Box::from_raw(own));
            Some(*Box::from_raw(most))
        }
    }

    /// The number of ranks that it connects.
    pub fn size(&self) -> u32 {
        self.members.len() as u32
    }

    /// The own rank alone.
    pub fn itself(&self) -> Ranks {
        self.rank.get()..self.rank.get() + 1
    }

    /// The processes in the world, in its order.
    pub fn world_ranks(&self) -> impl Iterator<Item = WorldRank> + '_ {
        self.members.iter()
    }

    /// The ranks in the world of `count` processes of the channel from `first` on.
    pub fn in_world(&self, first: CommRank, count: u32) -> RankSet {
        self.world_ranks().skip(first.index()).take(count as usize).collect()
    }

    /// The ranks of the world that are not in it.
    pub fn absent(&self, world: &World) -> RankSet {
        if self.size() == world.size {
            return RankSet::default();
        }
        let there = self.members.to_set();
        (0..world.size).filter(|&rank| !there.contains(rank)).collect()
    }

    /// Returns whether all messages arrived on all surviving ranks. Without fault tolerance a
    /// failed rank ends the job, so no agreement is needed.
    pub fn is_whole(&self) -> bool {
        let mut whole = c_int::from(!self.is_broken.get());
        if is_fault_tolerant() {
            // SAFETY: the communicator is valid, the number is read and written.
            let code = unsafe { pmpi::MPIX_Comm_agree.get()(Raw::new(self.comm), &raw mut whole) };
            return code == constant::SUCCESS && whole != 0;
        }
        true
    }

    /// Ends it.
    pub fn close(mut self) {
        match self.hold {
            // SAFETY: the communicator is ours.
            Hold::Own => unsafe {
                pmpi::MPI_Comm_free.get()(&raw mut self.comm);
            },
            Hold::Lent(_) => self.give_back(),
        }
    }

    fn give_back(&self) {
        if let Hold::Lent(mut handler) = self.hold {
            // SAFETY: communicator and handler are valid.
            unsafe {
                pmpi::MPI_Comm_set_errhandler.get()(Raw::new(self.comm), Raw::new(handler));
                pmpi::MPI_Errhandler_free.get()(&raw mut handler);
            }
        }
    }

    /// Starts to receive a number into `place`.
    fn expect_number(&self, from: CommRank, tag: c_int, place: *mut u64) -> Request {
        let (mut request, comm) = (self.null, Raw::new(self.comm));
        // SAFETY: there is room for the 8 bytes until the request is complete, which the caller
        // sees to.
        let code = unsafe {
            pmpi::MPI_Irecv.get()(place.cast(), 8, self.byte, from.to_mpi(), tag, comm, &raw mut request)
        };
        self.note(code);
        request
    }

    /// Sends `bytes` synchronously, so that messages do not pile up at the receiver; `false` on
    /// failure.
    pub fn send(&self, to: CommRank, tag: c_int, bytes: &[u8]) -> bool {
        self.send_or_say(to, tag, bytes, None)
    }

    fn send_or_say(&self, to: CommRank, tag: c_int, bytes: &[u8], sentence: Option<Sentence>) -> bool {
        let (mut request, comm, count) = (self.null, Raw::new(self.comm), bytes.len() as c_int);
        // An abandoned request may still read them later.
        let bytes = Box::<[u8]>::from(bytes);
        // SAFETY: the bytes are there until the request is complete, and for good if that does not
        // come.
        let code = unsafe {
            let place = bytes.as_ptr().cast();
            pmpi::MPI_Issend.get()(place, count, self.byte, to.to_mpi(), tag, comm, &raw mut request)
        };
        let went = self.note(code) && self.wait(&mut request, STATUS_IGNORE, sentence);
        if !went {
            mem::forget(bytes);
        }
        went
    }

    /// Receives at most [`PIECE`] bytes into `place`.
    pub fn receive(&self, from: CommRank, tag: c_int, place: &mut Vec<u8>) -> bool {
        place.resize(PIECE, 0);
        let mut status = MaybeUninit::<Status>::zeroed();
        let (mut request, comm) = (self.null, Raw::new(self.comm));
        // SAFETY: there is room for as many bytes as are said until the request is complete, and
        // for good if that does not come.
        let code = unsafe {
            let (to, count) = (place.as_mut_ptr().cast(), PIECE as c_int);
            pmpi::MPI_Irecv.get()(to, count, self.byte, from.to_mpi(), tag, comm, &raw mut request)
        };
        let came = self.note(code) && self.wait(&mut request, status.as_mut_ptr(), None);
        if !came {
            // The abandoned request may still write to them later.
            mem::forget(mem::take(place));
            return false;
        }
        // SAFETY: a status consists of plain integers, and is zero where the call did not write it.
        let length = received_bytes(unsafe { status.assume_init_ref() });
        place.truncate(length as usize);
        true
    }

    /// Sends any number of bytes, for [`Expected::take`].
    pub fn send_all(&self, to: CommRank, tag: c_int, bytes: &[u8], sentence: Option<Sentence>) -> bool {
        let length = (bytes.len() as u64).to_le_bytes();
        self.send_or_say(to, tag, &length, sentence)
            && bytes.chunks(PIECE).all(|piece| self.send(to, tag, piece))
    }

    /// Posts receives for what [`Channel::send_all`] sends from each of the ranks.
    pub fn expect(&self, from: impl Iterator<Item = CommRank>, tag: c_int) -> Vec<Expected<'_>> {
        let expect = |from| {
            // Leaked, since a failed request may still write to it later.
            let length = Box::leak(Box::new(0u64));
            let request = self.expect_number(from, tag, length);
            Expected { channel: self, from, tag, length, request }
        };
        from.map(expect).collect()
    }

    /// Waits for a request; `false` if it failed.
    fn wait(&self, request: &mut Request, status: *mut Status, mut sentence: Option<Sentence>) -> bool {
        let begun = Instant::now();
        let mut pause = Pause::default();
        loop {
            let mut is_complete = 0;
            // SAFETY: the request is ours; flag and status are written.
            let code = unsafe { pmpi::MPI_Test.get()(request, &raw mut is_complete, status) };
            if !self.note(code) {
                return false;
            }
            if is_complete != 0 {
                return true;
            }
            pause.once();
            if pause.is_long() && begun.elapsed() > self.wait {
                // The request is abandoned: the missing rank may never arrive.
                self.is_broken.set(true);
                return false;
            }
            if pause.is_long()
                && begun.elapsed() > PATIENCE
                && let Some(sentence) = sentence.take()
            {
                crate::storage::message::say(format_args!("{}", sentence()));
            }
        }
    }

    fn note(&self, code: c_int) -> bool {
        if code != constant::SUCCESS {
            self.is_broken.set(true);
        }
        code == constant::SUCCESS
    }
}

/// The time that a rank waits before it prints a message.
const PATIENCE: Duration = Duration::from_secs(30);

/// A message expected from another rank.
pub struct Expected<'l> {
    channel: &'l Channel,
    /// The other rank.
    pub from: CommRank,
    tag: c_int,
    length: &'static mut u64,
    request: Request,
}

impl Expected<'_> {
    /// Waits for it; `None` if it does not get through.
    pub fn take(mut self, sentence: Option<Sentence>) -> Option<Vec<u8>> {
        if !self.channel.wait(&mut self.request, STATUS_IGNORE, sentence) {
            return None;
        }
        // SAFETY: the length was leaked for this request, which is over.
        let length = unsafe { *Box::from_raw(self.length) };
        let (mut all, mut piece) = (Vec::new(), Vec::new());
        while (all.len() as u64) < u64::from_le(length) {
            if !self.channel.receive(self.from, self.tag, &mut piece) {
                return None;
            }
            all.extend(&piece);
        }
        Some(all)
    }
}

/// Backoff between two polls: none at first, then increasing.
#[derive(Default)]
struct Pause {
    looks: u32,
}

impl Pause {
    /// Polls without a pause.
    const EAGER: u32 = 64;
    /// Polls that yield the processor.
    const POLITE: u32 = 128;
    /// The first and the longest sleep.
    const SLEEPS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(2)];

    fn once(&mut self) {
        self.looks = self.looks.saturating_add(1);
        match self.looks {
            ..Self::EAGER => std::hint::spin_loop(),
            Self::EAGER..Self::POLITE => std::thread::yield_now(),
            looks => {
                let doublings = ((looks - Self::POLITE) / 4).min(16);
                std::thread::sleep((Self::SLEEPS[0] * (1 << doublings)).min(Self::SLEEPS[1]));
            }
        }
    }

    fn is_long(&self) -> bool {
        self.looks > Self::POLITE
    }
}
