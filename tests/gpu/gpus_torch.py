"""Rank 0 uses a GPU by PyTorch, and NVML as NCCL does; rank 1 only asks PyTorch whether there is one."""

import ctypes

import torch
from mpi4py import MPI

rank = MPI.COMM_WORLD.rank
print(f"rank {rank}: CUDA is available: {torch.cuda.is_available()}", flush=True)
if rank == 0:
    ctypes.CDLL("libnvidia-ml.so.1").nvmlInit_v2()
    print(torch.ones(101, device="cuda").sum().item(), flush=True)
MPI.COMM_WORLD.Barrier()
