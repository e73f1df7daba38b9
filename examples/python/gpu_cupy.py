"""Gradients in CuPy arrays, on a GPU that the ranks may share: verbs take them as they take NumPy's.

A call comes after what the stream of its arrays holds, so nothing has to be waited for before it; what comes into the
stream behind an async call waits for that. Says so, and ends well, where there is no CuPy or no GPU.

    tutti run -n 4 -- python examples/python/gpu_cupy.py
"""

import sys

import tutti

try:
    import cupy
    GPUS = cupy.cuda.runtime.getDeviceCount()
except ImportError:
    print("skipped: this Python has no CuPy (pip install cupy-cuda13x)")
    sys.exit(0)
except Exception as error:  # CuPy has a class of its own for each version of CUDA
    print(f"skipped: CuPy finds no GPU here: {error}")
    sys.exit(0)

COUNT = 1 << 20
comm = tutti.init()
cupy.cuda.Device(comm.rank % GPUS).use()

with cupy.cuda.Stream(non_blocking=True) as stream:
    comm.stream = stream
    gradients = cupy.full(COUNT, comm.rank + 1, "f4")
    comm.all_reduce(gradients, "average")
    way = comm.last_algorithm
    shards = cupy.empty((comm.size, 4), "f4")
    work = comm.all_gather(gradients[:4] * comm.rank, out=shards, async_op=True)
    totals = shards.sum(axis=1)  # in the stream, behind the call
    work.wait()
    stream.synchronize()

mean = (comm.size + 1) / 2
right = bool((gradients == mean).all()) and totals.tolist() == [4 * mean * rank for rank in range(comm.size)]
if comm.rank == 0 or not right:
    print(f"{comm.size} ranks on {GPUS} GPU: {float(gradients[-1])} everywhere, by {way}{'' if right else ', WRONG'}")
sys.exit(0 if right else 1)
