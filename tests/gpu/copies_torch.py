"""Copies of PyTorch between host and GPU, and messages of mpi4py with what they copied. The argument is the folder for what is expected
of copies.csv and staged.csv, with the lines that copy."""

import sys

import torch
from mpi4py import MPI

world = MPI.COMM_WORLD
comm = world.Dup()
torch.cuda.set_device(world.rank % torch.cuda.device_count())
rows = []


def line():
    return sys._getframe(1).f_lineno + 1


words = torch.ones(5003)
torch.cuda.synchronize()
at = line()
there = words.cuda()
rows.append(f"copies,,,*,host,device,1,{4 * 5003},{at}")
at = line()
back = there.cpu()
rows.append(f"copies,,,*,device,host,1,{4 * 5003},{at}")
pinned = torch.empty(5011, pin_memory=True)
longer = torch.zeros(5011, device="cuda")
at = line()
pinned.copy_(longer, non_blocking=True)
rows.append(f"copies,,,*,device,pinned,1,{4 * 5011},{at}")
torch.cuda.synchronize()
if world.rank == 0:
    comm.Send(back.numpy(), 1)
    rows.append(f"staged,W_d1,sent,*,host,,1,{4 * 5003},")
else:
    comm.Recv(words.numpy(), 0)
    at = line()
    there.copy_(words)
    rows.append(f"copies,,,*,host,device,1,{4 * 5003},{at}")
    rows.append(f"staged,W_d1,received,*,host,,1,{4 * 5003},")
with open(f"{sys.argv[1]}/{world.rank}.csv", "w") as file:
    file.write("rank,table,comm,direction,mode,from,to,calls,bytes,line\n")
    for row in rows:
        file.write(f"{world.rank},{row}\n")
