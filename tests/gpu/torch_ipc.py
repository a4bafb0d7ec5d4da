"""A kernel that PyTorch launches on rank 1 reads a tensor of rank 0, by CUDA IPC. The argument is a file for what is expected:
the bytes, and the Python line that launches the kernel."""

import sys

import torch
from mpi4py import MPI

WORDS = 1 << 20

world = MPI.COMM_WORLD
torch.cuda.set_device(world.rank % torch.cuda.device_count())
cells = torch.ones(WORDS, device="cuda")
torch.cuda.synchronize()
shared = world.bcast(cells.untyped_storage()._share_cuda_() if world.rank == 0 else None)
if world.rank == 1:
    storage = torch.UntypedStorage._new_shared_cuda(*shared)
    theirs = torch.empty(0, device="cuda").set_(storage, 0, (WORDS,))
    line = sys._getframe().f_lineno + 1
    twice = theirs * 2
    torch.cuda.synchronize()
    with open(sys.argv[1], "w") as file:
        file.write(f"{4 * WORDS},{__file__.rpartition('/')[2]}:{line}\n")
    del theirs, storage
world.barrier()
