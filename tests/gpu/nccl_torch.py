"""PyTorch's collectives by NCCL, on a communicator of one rank in each process, since NCCL takes a GPU for one rank alone. The
argument is the folder for what is expected of calls.csv."""

import os
import sys

import torch
import torch.distributed as dist
from mpi4py import MPI

world = MPI.COMM_WORLD
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(29533 + world.rank))
torch.cuda.set_device(world.rank % torch.cuda.device_count())
dist.init_process_group("nccl", rank=0, world_size=1)
words = torch.ones(73, device="cuda")
for _ in range(4):
    dist.all_reduce(words)
parts = torch.empty(79, device="cuda")
dist.all_gather_into_tensor(parts, torch.ones(79, device="cuda"))
torch.cuda.synchronize()
dist.destroy_process_group()
with open(f"{sys.argv[1]}/{world.rank}.csv", "w") as file:
    file.write("rank,comm,call,memory,calls,bytes\n")
    file.write(f"{world.rank},N1-*,ncclAllReduce,device,4,{4 * 4 * 73}\n")
    file.write(f"{world.rank},N1-*,ncclAllGather,device,1,{4 * 79}\n")
    for call in ("ncclCommInitRankConfig", "ncclCommFinalize", "ncclCommDestroy"):
        file.write(f"{world.rank},N1-*,{call},*,1,0\n")
