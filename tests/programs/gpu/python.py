"""Kernels that Python launches, with and without the interpreter's lock. The GPU is fake, see gpu-tracer/tests/fake.

python.py LIBRARY held|released
"""

import ctypes
import sys

# Of tests/programs/gpu/python.c; what it is linked with has its symbols found by it.
library = (ctypes.PyDLL if sys.argv[2] == "held" else ctypes.CDLL)(sys.argv[1])
NUMBER, TEXT, ANY = ctypes.c_uint64, ctypes.c_char_p, ctypes.c_void_p
for name, result, arguments in [
        ("fake_alloc", NUMBER, [NUMBER, ctypes.c_int, ctypes.c_size_t, ctypes.c_uint32]),
        ("fake_context", None, [NUMBER, ctypes.c_int]),
        ("fake_module", None, [NUMBER, NUMBER, ANY, ctypes.c_size_t]),
        ("fake_launch", None, [NUMBER, NUMBER, NUMBER, TEXT, ANY, ctypes.c_size_t]),
        ("fake_context_wait", None, [NUMBER]),
        ("launch_in_thread", ctypes.c_int, [ANY])]:
    function = getattr(library, name)
    function.restype, function.argtypes = result, arguments


class Access(ctypes.Structure):
    _fields_ = [("offset", NUMBER), ("address", NUMBER), ("lanes", ctypes.c_uint32),
                ("bytes", ctypes.c_uint32), ("flags", ctypes.c_uint32), ("warps", ctypes.c_uint32)]


rank = library.begin()
library.cuInit(0)
library.fake_context(1, 0)
library.fake_context(2, 1)
library.fake_module(1, 7, None, 0)
peer = library.fake_alloc(1, 1, 1 << 20, 0)


def store(warps):
    return ctypes.byref(Access(0xE0, peer, 0xFFFFFFFF, 8, 2, warps))


# What a package runs is of the line that called the package.
package = {"library": library}
exec(compile("def all_reduce(data):\n    library.fake_launch(1, 1, 7, b'copy', data, 1)\n",
             "/opt/lib/python3.0/site-packages/package.py", "exec"), package)

library.fake_launch(1, 1, 7, b"copy", store(3 + rank), 1)  # first
for turn in range(2):
    library.fake_launch(1, 1, 7, b"copy", store(5 + rank), 1)  # second
package["all_reduce"](store(7))  # package
assert library.launch_in_thread(store(11)) == 0
library.fake_context_wait(1)
assert library.end() == 0
