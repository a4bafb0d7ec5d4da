"""Launches kernels in many ways, each with as many accesses as its line is said to make.

launches.py LIBRARY held|released WARPS-FILE
"""

import ctypes
import os
import sys
import threading

import helper  # of site-packages
import installed  # the same once more

driver = (ctypes.PyDLL if sys.argv[2] == "held" else ctypes.CDLL)(sys.argv[1])


class Access(ctypes.Structure):
    _fields_ = [("offset", ctypes.c_uint64), ("address", ctypes.c_uint64), ("lanes", ctypes.c_uint32),
                ("bytes", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("warps", ctypes.c_uint32)]


driver.fake_alloc.argtypes = [ctypes.c_uint64, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint32]
driver.fake_alloc.restype = ctypes.c_uint64
CONTEXT, MODULE = ctypes.c_uint64(1), ctypes.c_uint64(7)
driver.cuInit(0)
driver.fake_context(CONTEXT, 0)
driver.fake_context(ctypes.c_uint64(2), 1)
driver.fake_module(CONTEXT, MODULE, None, ctypes.c_size_t(0))
peer = driver.fake_alloc(1, 1, 1 << 20, 0)
expected = {}


def arguments(warps):
    access = Access(0xE0, peer, 0xFFFFFFFF, 8, 2, warps)
    return CONTEXT, ctypes.c_uint64(1), MODULE, b"copy", ctypes.byref(access), ctypes.c_size_t(1)


def here(warps, line=None):
    """Says that the caller's line, or another place, makes so many accesses."""
    if line is None:
        frame = sys._getframe(1)
        line = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    expected[line] = expected.get(line, 0) + 32 * warps
    return arguments(warps)


driver.fake_launch(*here(1))
driver.fake_launch(*here(2))
for turn in range(3):
    driver.fake_launch(*here(3))


def in_function():
    x = [turn * 2 for turn in range(5)]
    driver.fake_launch(*here(4)); return x


in_function()
# What a package launches is of the line that called the package, also through C.
helper.call(driver.fake_launch, here(5))
helper.deep(300, driver.fake_launch, here(6))
list(map(helper.caller(driver.fake_launch), [here(7)]))
helper.Layer()(driver.fake_launch, here(8))


def generator():
    driver.fake_launch(*here(9))
    yield 1
    driver.fake_launch(*here(10))


list(generator())
exec("driver.fake_launch(*here(11))")
exec("\n\ndriver.fake_launch(*here(12))")
(lambda: driver.fake_launch(*here(13)))()

# A thread of which all is of packages, and one without Python.
place = f"{helper.__file__}:{helper.call.__code__.co_firstlineno + 1}"
thread = threading.Thread(target=helper.call, args=(driver.fake_launch, here(14, place)))
thread.start()
thread.join()
# A program that is installed itself, and a package that it calls.
place = f"{installed.__file__}:{installed.call.__code__.co_firstlineno + 1}"
thread = threading.Thread(target=installed.call, args=(helper.call, (driver.fake_launch, here(18, place))))
thread.start()
thread.join()
in_thread = ctypes.CDLL(sys.argv[3])
in_thread.launch_in_thread(*here(15, ""))


async def asynchronous():
    await inner()


async def inner():
    driver.fake_launch(*here(16))


try:
    asynchronous().send(None)
except StopIteration:
    pass


class Large:
    """A function whose code is long."""
    exec("def method(self):\n" + "    self.x = [1, 2, 3]\n" * 3000 + "    driver.fake_launch(*here(17))\n", globals())


method(Large())
# Code that was freed: what comes next may be at its place.
for turn in range(50):
    text = "\n" * turn + f"driver.fake_launch(*here(1, '<string>:{turn + 100}'))"
    exec("\n" * 99 + text)

driver.fake_context_wait(CONTEXT)
driver.fake_module_unload(CONTEXT, MODULE)
driver.fake_context_destroy(CONTEXT)
for line, accesses in expected.items():
    print(accesses, line)
sys.stdout.flush()
os._exit(0)
