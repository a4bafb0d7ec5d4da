"""nccl_lines.py PLUGIN: calls NCCL from two lines of Python, by a library that is linked with it, and has a region, without MPI."""

import ctypes
import sys

plugin = ctypes.CDLL(sys.argv[1])
plugin.plugin_comm.restype = ctypes.c_void_p
comm = ctypes.c_void_p(plugin.plugin_comm())
mpisee = ctypes.CDLL(None)


def gradients():
    assert plugin.plugin_reduce(comm, 83) == 0  # line 13


def loss():
    assert plugin.plugin_reduce(comm, 89) == 0  # line 17


for step in range(12):
    mpisee.MPI_Pcontrol(0x4D505300, b"step")
    gradients()
    mpisee.MPI_Pcontrol(0x4D505301)
    if step % 3 == 0:
        loss()
assert plugin.plugin_end(comm) == 0
