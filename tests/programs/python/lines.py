"""Slow calls at lines that the test finds by the remarks; 2 ranks, of which rank 1 comes late."""

import threading
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
own = world.Dup()
TIMES = 10


def come_late():
    if world.rank == 1:
        time.sleep(0.05)


class Solver:
    def step(self):
        self.exchange()  # step calls

    def exchange(self):
        come_late()
        own.Barrier()  # exchange calls


def reduce_object():
    come_late()
    return own.allreduce(1)  # reduce_object calls


def gather(parts):
    come_late()
    return [own.allgather(part) for part in parts]  # gather calls


def main():
    solver = Solver()
    for _ in range(TIMES):
        solver.step()  # main calls
        assert reduce_object() == 2
        assert gather(["ä"]) == [["ä", "ä"]]


main()  # all of it
if MPI.Query_thread() == MPI.THREAD_MULTIPLE:
    thread = threading.Thread(target=Solver().step)
    thread.start()
    thread.join()
own.Free()
