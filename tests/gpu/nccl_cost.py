"""An all-reduce by NCCL's ring from PyTorch, on two ranks with a GPU each; what is printed is as of tools/overhead/gpu_cost.cu."""

import os
import statistics
import time

import torch
import torch.distributed as dist
from mpi4py import MPI

STEPS = 20
WORDS = 16 << 20

world = MPI.COMM_WORLD
started = time.perf_counter()
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29533", NCCL_ALGO="Ring")
torch.cuda.set_device(world.rank)
dist.init_process_group("nccl", rank=world.rank, world_size=world.size)
data = torch.ones(WORDS, device="cuda")
dist.all_reduce(data)
torch.cuda.synchronize()
start = time.perf_counter() - started

kernel = []
started = time.perf_counter()
for _ in range(STEPS):
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    dist.all_reduce(data)
    end.record()
    torch.cuda.synchronize()
    kernel.append(1e3 * begin.elapsed_time(end))
step = 1e6 * (time.perf_counter() - started) / STEPS
kernel_us, mean_us, step_us, start_us = (
    world.allreduce(it, MPI.MAX) for it in (statistics.median(kernel), statistics.mean(kernel), step, 1e6 * start)
)
if world.rank == 0:
    print(f"workload,kernel_us,mean_kernel_us,step_us\nstart of NCCL,,,{start_us:.0f}")
    print(f"NCCL ring,{kernel_us:.2f},{mean_us:.2f},{step_us:.2f}")
dist.destroy_process_group()
