"""Communicators, point-to-point communication and collectives of buffers, each with a size of its own; 2 ranks."""

from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
assert world.size == 2
other = 1 - world.rank

copy = world.Dup()
copy.Set_name("copy")
if world.rank == 0:
    copy.Send(bytearray(1009), dest=1)
else:
    room = bytearray(2003)
    status = MPI.Status()
    copy.Recv(room, source=MPI.ANY_SOURCE, status=status)
    assert status.Get_count(MPI.BYTE) == 1009 and status.Get_source() == 0

requests = [world.Irecv(bytearray(4001), source=other), world.Isend(bytearray(4001), dest=other)]
MPI.Request.Waitall(requests)

total = array("d", [0.0] * 5)
world.Allreduce(array("d", [1.0] * 5), total)
assert list(total) == [2.0] * 5

alone = world.Split(color=world.rank, key=0)
alone.Bcast(bytearray(77), root=0)
own = MPI.COMM_SELF.allgather("an object")
assert own == ["an object"]

grid = world.Create_cart([2], periods=[True])
grid.Neighbor_allgather(bytearray(13), bytearray(26))

for communicator in (grid, alone, copy):
    communicator.Free()
