"""Launches kernels by Numba; says how many accesses its lines make: 32 in each launch, see driver.c.

numba_launches.py leave|return
"""

import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
from numba import cuda, float64, vectorize

expected = {}


def here(launches):
    frame = sys._getframe(1)
    place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
    expected[place] = expected.get(place, 0) + 32 * launches
    return data


@cuda.jit
def kernel(numbers):
    numbers[cuda.grid(1)] += 1


@vectorize([float64(float64)], target="cuda")
def twice(number):
    return number * 2


data = cuda.to_device(numpy.zeros(64))
kernel[2, 32](here(1))
for turn in range(3):
    kernel[2, 32](here(1))
kernel[2, 32](here(1)); kernel[2, 32](here(1))
twice(here(1))


def in_pool(turns):
    frame = sys._getframe(0)
    for turn in range(turns):
        kernel[2, 32](data); line = frame.f_lineno
    return f"{frame.f_code.co_filename}:{line}"


with ThreadPoolExecutor(4) as pool:
    for place in pool.map(in_pool, [5] * 8):
        expected[place] = expected.get(place, 0) + 32 * 5
thread = threading.Thread(target=in_pool, args=(2,))
thread.start()
thread.join()
expected[place] += 32 * 2
cuda.synchronize()
for place, accesses in expected.items():
    print(accesses, place)
sys.stdout.flush()
if sys.argv[1] == "leave":
    os._exit(0)
