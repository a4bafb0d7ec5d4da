"""PyTorch's collectives by NCCL in processes of torchrun, without MPI: each has a communicator of its own, since NCCL takes a GPU for one
rank alone. The argument is the folder for what is expected of calls.csv."""

import os
import sys

import torch
import torch.distributed as dist

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank % torch.cuda.device_count())
dist.init_process_group("gloo")
groups = [dist.new_group([it], backend="nccl") for it in range(dist.get_world_size())]
words = torch.ones(83, device="cuda")
for _ in range(6):
    dist.all_reduce(words, group=groups[rank])
parts = torch.empty(89, device="cuda")
dist.all_gather_into_tensor(parts, torch.ones(89, device="cuda"), group=groups[rank])
torch.cuda.synchronize()
# Each communicator is of one process, so that NCCL has let none wait for the other.
dist.barrier()
dist.destroy_process_group()
with open(f"{sys.argv[1]}/{rank}.csv", "w") as file:
    file.write("rank,comm,call,memory,calls,bytes\n")
    file.write(f"{rank},N1-*,ncclAllReduce,device,6,{6 * 4 * 83}\n")
    file.write(f"{rank},N1-*,ncclAllGather,device,1,{4 * 89}\n")
    for call in ("ncclCommInitRankConfig", "ncclCommFinalize", "ncclCommDestroy"):
        file.write(f"{rank},N1-*,{call},*,1,0\n")
