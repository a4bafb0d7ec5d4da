//! A fake MPI, for tests without one: communicators are lists of world ranks, and a thread is one
//! of these.

use super::world::{Settling, World};
use crate::generated::pmpi;
use crate::mpi::abi::{Comm, Group, Predefined, Raw, bits, constant, from_bits};
use crate::storage::segment::{self, Segment};
use mpisee_profile::WorldRank;
use mpisee_profile::options::Options;
use std::cell::Cell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, Once, PoisonError};

/// The members of each communicator or group by its handle, whose first one is [`FIRST_HANDLE`].
static LISTS: Mutex<Vec<Vec<u32>>> = Mutex::new(Vec::new());
const FIRST_HANDLE: u64 = 100;

thread_local! {
    /// The rank that this thread plays.
    static RANK: Cell<u32> = const { Cell::new(0) };
}

/// A rank, with a segment of its own.
pub struct FakeMpi {
    pub world: World,
    /// Removed after the segment.
    _folder: tempfile::TempDir,
}

impl FakeMpi {
    /// The rank `rank` of `size`, with options of its own. What this thread does from now on is
    /// done by it.
    pub fn new(rank: u32, size: u32, options: Options) -> FakeMpi {
        static INSTALL: Once = Once::new();
        INSTALL.call_once(install);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (segment, complaint) = Segment::create(folder.path()).expect("there is memory");
        assert_eq!(complaint, None);
        segment::publish(segment.header());
        let all: Vec<u32> = (0..size).collect();
        // SAFETY: handles are numbers or pointers that are never followed, so that zero is one.
        let mut predefined: Predefined = unsafe { MaybeUninit::zeroed().assume_init() };
        predefined.world = comm(&all);
        let fake = FakeMpi {
            world: World {
                options,
                predefined,
                segment,
                group: from_bits(bits(predefined.world)),
                rank: WorldRank::new(rank),
                size,
                start_realtime_ns: 0,
                library_version: String::new(),
                reports_isendrecv_status: true,
                settling: Settling::Plain,
                thread_level_of_init: "single",
                has_had_session: AtomicBool::new(false),
                ticks_are_tsc: false,
                notes: Vec::new(),
            },
            _folder: folder,
        };
        fake.become_current();
        fake
    }

    /// Makes this thread act as this rank from now on.
    pub fn become_current(&self) {
        RANK.set(self.world.rank.get());
    }
}

/// A communicator of these world ranks.
pub fn comm(members: &[u32]) -> Comm {
    let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    lists.push(members.to_vec());
    from_bits(FIRST_HANDLE + lists.len() as u64 - 1)
}

fn members(handle: u64) -> Vec<u32> {
    LISTS.lock().unwrap_or_else(PoisonError::into_inner)[(handle - FIRST_HANDLE) as usize].clone()
}

fn place_of(members: &[u32], world_rank: u32) -> c_int {
    members.iter().position(|&member| member == world_rank).map_or(constant::UNDEFINED, |at| at as c_int)
}

/// Puts the fake functions in the place of MPI's, for all tests of this process.
fn install() {
    pmpi::MPI_Comm_size.replace(comm_size);
    pmpi::MPI_Comm_rank.replace(comm_rank);
    pmpi::MPI_Comm_test_inter.replace(comm_test_inter);
    pmpi::MPI_Comm_group.replace(comm_group);
    pmpi::MPI_Group_free.replace(group_free);
    pmpi::MPI_Group_size.replace(group_size);
    pmpi::MPI_Group_translate_ranks.replace(group_translate_ranks);
}

unsafe extern "C-unwind" fn comm_size(comm: Raw<Comm>, size: *mut c_int) -> c_int {
    // SAFETY: the caller's place for a number.
    unsafe { *size = members(bits(comm.get())).len() as c_int };
    constant::SUCCESS
}

unsafe extern "C-unwind" fn comm_rank(comm: Raw<Comm>, rank: *mut c_int) -> c_int {
    // SAFETY: the caller's place for a number.
    unsafe { *rank = place_of(&members(bits(comm.get())), RANK.get()) };
    constant::SUCCESS
}

unsafe extern "C-unwind" fn comm_test_inter(_comm: Raw<Comm>, flag: *mut c_int) -> c_int {
    // SAFETY: the caller's place for a number.
    unsafe { *flag = 0 };
    constant::SUCCESS
}

unsafe extern "C-unwind" fn comm_group(comm: Raw<Comm>, group: *mut Group) -> c_int {
    // SAFETY: the caller's place for a handle.
    unsafe { group.write(from_bits(bits(comm.get()))) };
    constant::SUCCESS
}

unsafe extern "C-unwind" fn group_free(_group: *mut Group) -> c_int {
    constant::SUCCESS
}

unsafe extern "C-unwind" fn group_size(group: Raw<Group>, size: *mut c_int) -> c_int {
    // SAFETY: the caller's place for a number.
    unsafe { *size = members(bits(group.get())).len() as c_int };
    constant::SUCCESS
}

unsafe extern "C-unwind" fn group_translate_ranks(
    from: Raw<Group>,
    count: c_int,
    ranks: *const c_int,
    to: Raw<Group>,
    translated: *mut c_int,
) -> c_int {
    let (from, to) = (members(bits(from.get())), members(bits(to.get())));
    for at in 0..count as usize {
        // SAFETY: the caller's lists have so many numbers.
        unsafe { *translated.add(at) = place_of(&to, from[*ranks.add(at) as usize]) };
    }
    constant::SUCCESS
}
