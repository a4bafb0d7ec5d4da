"""Ends while a thread launches kernels.

outlives.py LIBRARY THREAD-LIBRARY
"""

import ctypes
import sys
import threading
import time


class Access(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("address", ctypes.c_uint64), ("lanes", ctypes.c_uint32),
                ("bytes", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("warps", ctypes.c_uint32)]


driver, in_thread = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
driver.fake_alloc.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint32]
driver.fake_alloc.restype = ctypes.c_uint64
CONTEXT, MODULE = ctypes.c_uint64(1), ctypes.c_uint64(7)
driver.cuInit(0)
driver.fake_context(CONTEXT, 0)
driver.fake_context(ctypes.c_uint64(2), 1)
driver.fake_module(CONTEXT, MODULE, None, ctypes.c_size_t(0))
access = Access(0xE0, driver.fake_alloc(1, 1, 1 << 20, 0), 1, 8, 2, 1)


def launch():
    in_thread.launch_until_exit(
        CONTEXT, ctypes.c_uint64(1), MODULE, b"copy", ctypes.byref(access), ctypes.c_size_t(1))


threading.Thread(target=launch, daemon=True).start()
time.sleep(0.1)
