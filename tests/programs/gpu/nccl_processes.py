"""nccl_processes.py METHOD PLUGIN: two processes of Python's multiprocessing, started by that method, communicate by NCCL, each alone."""

import ctypes
import multiprocessing
import sys


def communicate():
    sys.exit(ctypes.CDLL(sys.argv[2]).run_plugin())


if __name__ == "__main__":
    start = multiprocessing.get_context(sys.argv[1])
    processes = [start.Process(target=communicate) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
