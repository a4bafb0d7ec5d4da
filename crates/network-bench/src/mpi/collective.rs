//! Collective operations on a communicator of their own.

use super::border::{Memory, byte, done};
use mpi::ffi;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::*;
use mpisee_bench::collective::Collective;
use mpisee_bench::memory::MemoryKind;
use mpisee_bench::pattern::CollectiveCall;
use mpisee_bench::verification::{Element, View};
use std::os::raw::c_int;
use std::rc::Rc;

/// The buffers of an operation, with what this rank has to hand over and to get.
pub struct Buffers {
    /// The operation as this rank sees it.
    pub view: View,
    /// The buffer that it hands over.
    pub given: Memory,
    /// The buffer that it gets.
    pub got: Memory,
}

impl Buffers {
    /// Zeroed buffers.
    pub fn new(view: View, kind: MemoryKind) -> Result<Buffers, String> {
        let (given, got) = view.buffers();
        Ok(Buffers { view, given: Memory::allocate(kind, given)?, got: Memory::allocate(kind, got)? })
    }

    /// Fills them for a verification.
    pub fn fill(&mut self) {
        let copy = |memory: &mut Memory, bytes: &[u8]| {
            memory.fill(bytes.len(), |place| place.copy_from_slice(bytes));
        };
        copy(&mut self.given, &self.view.given());
        copy(&mut self.got, &self.view.before());
    }

    /// Returns whether the operation has left what it has to.
    pub fn is_correct(&mut self) -> bool {
        let (_, bytes) = self.view.buffers();
        self.view.is_correct(&self.got.contents(bytes as usize))
    }
}

/// The operation of a step that this rank is a member of: its number, and how this rank sees it.
pub fn own(calls: &[CollectiveCall], rank: u32) -> Option<(usize, View)> {
    calls.iter().enumerate().find_map(|(number, call)| {
        let member = call.members.iter().position(|&member| member == rank)?;
        let view = View {
            collective: call.collective,
            member: member as u32,
            members: call.members.len() as u32,
            bytes: call.bytes,
            root: call.root,
        };
        Some((number, view))
    })
}

/// A collective operation of MPI that this rank is a member of.
pub struct Operation {
    /// The buffers.
    pub buffers: Buffers,
    /// Steps of the same members share it.
    members: Rc<OperationComm>,
    arguments: Arguments,
}

/// Counts and places of blocks, as the variants with vectors take them.
struct Arguments {
    /// Of a block, in elements.
    count: c_int,
    element: ffi::MPI_Datatype,
    counts: Vec<c_int>,
    places: Vec<c_int>,
    byte_places: Vec<c_int>,
    addresses: Vec<ffi::MPI_Aint>,
    kinds: Vec<ffi::MPI_Datatype>,
}

/// The communicator of the members of an operation.
pub struct OperationComm {
    comm: SimpleCommunicator,
    /// Of operations on neighbours, the ring.
    ring: Option<ffi::MPI_Comm>,
}

impl OperationComm {
    /// Makes the communicators of a step's operations, together with all ranks; the one of this
    /// rank, if it is a member.
    pub fn new(world: &SimpleCommunicator, calls: &[CollectiveCall]) -> Option<Rc<OperationComm>> {
        let own = own(calls, world.rank() as u32);
        let (comm, (_, view)) = members(world, own).zip(own)?;
        let ring = view.collective.is_of_neighbours().then(|| ring(comm.as_raw(), view.members));
        Some(Rc::new(OperationComm { comm, ring }))
    }
}

impl Operation {
    /// The operation of a step that this rank is a member of.
    pub fn new(
        members: Rc<OperationComm>,
        rank: u32,
        calls: &[CollectiveCall],
        kind: MemoryKind,
    ) -> Result<Operation, String> {
        let (_, view) = own(calls, rank).expect("members have an operation");
        let arguments = Arguments::from_view(&view);
        let buffers = Buffers::new(view, kind)?;
        Ok(Operation { buffers, members, arguments })
    }

    /// Carries it out.
    pub fn run(&mut self) {
        use Collective::*;
        let Arguments { count, element, counts, places, byte_places, addresses, kinds } = &self.arguments;
        let Buffers { view, given, got } = &self.buffers;
        let (count, kind, root) = (*count, *element, view.root as c_int);
        let (given, got) = (given.at(0), got.at(0));
        let (counts, places, comm) = (counts.as_ptr(), places.as_ptr(), self.members.comm.as_raw());
        let (byte_places, addresses, kinds) = (byte_places.as_ptr(), addresses.as_ptr(), kinds.as_ptr());
        let ring = self.members.ring.unwrap_or(comm);
        // SAFETY: the buffers have the bytes that `View::buffers` says, and the vectors an entry
        // for each block; all members carry out their operations in one order, that of the
        // pattern's steps.
        done(unsafe {
            let sum = ffi::RSMPI_SUM;
            match view.collective {
                Barrier => ffi::MPI_Barrier(comm),
                Bcast => ffi::MPI_Bcast(got, count, kind, root, comm),
                Gather => ffi::MPI_Gather(given, count, kind, got, count, kind, root, comm),
                Gatherv => ffi::MPI_Gatherv(given, count, kind, got, counts, places, kind, root, comm),
                Scatter => ffi::MPI_Scatter(given, count, kind, got, count, kind, root, comm),
                Scatterv => ffi::MPI_Scatterv(given, counts, places, kind, got, count, kind, root, comm),
                Allgather => ffi::MPI_Allgather(given, count, kind, got, count, kind, comm),
                Allgatherv => ffi::MPI_Allgatherv(given, count, kind, got, counts, places, kind, comm),
                Alltoall => ffi::MPI_Alltoall(given, count, kind, got, count, kind, comm),
                Alltoallv => ffi::MPI_Alltoallv(given, counts, places, kind, got, counts, places, kind, comm),
                Alltoallw => ffi::MPI_Alltoallw(
                    given,
                    counts,
                    byte_places,
                    kinds,
                    got,
                    counts,
                    byte_places,
                    kinds,
                    comm,
                ),
                Reduce => ffi::MPI_Reduce(given, got, count, kind, sum, root, comm),
                Allreduce => ffi::MPI_Allreduce(given, got, count, kind, sum, comm),
                ReduceScatterBlock => ffi::MPI_Reduce_scatter_block(given, got, count, kind, sum, comm),
                ReduceScatter => ffi::MPI_Reduce_scatter(given, got, counts, kind, sum, comm),
                Scan => ffi::MPI_Scan(given, got, count, kind, sum, comm),
                Exscan => ffi::MPI_Exscan(given, got, count, kind, sum, comm),
                NeighborAllgather => ffi::MPI_Neighbor_allgather(given, count, kind, got, count, kind, ring),
                NeighborAllgatherv => {
                    ffi::MPI_Neighbor_allgatherv(given, count, kind, got, counts, places, kind, ring)
                }
                NeighborAlltoall => ffi::MPI_Neighbor_alltoall(given, count, kind, got, count, kind, ring),
                NeighborAlltoallv => {
                    ffi::MPI_Neighbor_alltoallv(given, counts, places, kind, got, counts, places, kind, ring)
                }
                NeighborAlltoallw => ffi::MPI_Neighbor_alltoallw(
                    given, counts, addresses, kinds, got, counts, addresses, kinds, ring,
                ),
            }
        });
    }
}

impl Drop for OperationComm {
    fn drop(&mut self) {
        if let Some(mut ring) = self.ring {
            // SAFETY: the communicator was made here, and nothing is under way on it.
            done(unsafe { ffi::MPI_Comm_free(&mut ring) });
        }
    }
}

impl Arguments {
    fn from_view(view: &View) -> Arguments {
        let element = if view.collective.reduces() { Element::of_block(view.bytes) } else { Element::Byte };
        // SAFETY: rsmpi's shim initialises its constants statically.
        let kind = unsafe {
            match element {
                Element::Double => ffi::RSMPI_DOUBLE,
                Element::Float => ffi::RSMPI_FLOAT,
                Element::Byte => byte(),
            }
        };
        let blocks = view.members.max(2) as usize;
        let count = (view.bytes / element.bytes()) as c_int;
        let place = |at: usize| at as u64 * view.bytes;
        Arguments {
            count,
            element: kind,
            counts: vec![count; blocks],
            places: (0..blocks).map(|at| (place(at) / element.bytes()) as c_int).collect(),
            byte_places: (0..blocks).map(|at| place(at) as c_int).collect(),
            addresses: (0..blocks).map(|at| place(at) as ffi::MPI_Aint).collect(),
            kinds: vec![kind; blocks],
        }
    }
}

/// Makes the communicators of a step's operations, together with all ranks; the one of this rank's
/// operation, if it has one.
pub fn members(world: &SimpleCommunicator, own: Option<(usize, View)>) -> Option<SimpleCommunicator> {
    match own {
        Some((number, view)) => {
            world.split_by_color_with_key(Color::with_value(number as c_int), view.member as c_int)
        }
        None => world.split_by_color(Color::undefined()),
    }
}

/// A ring of all members, in their order.
fn ring(comm: ffi::MPI_Comm, members: u32) -> ffi::MPI_Comm {
    let (length, periodic) = (members as c_int, 1);
    // SAFETY: all members make it; there is one dimension.
    unsafe {
        let mut ring = ffi::RSMPI_COMM_NULL;
        done(ffi::MPI_Cart_create(comm, 1, &length, &periodic, 0, &mut ring));
        ring
    }
}
