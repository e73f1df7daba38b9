"""Tutti: collective communication for NumPy arrays, and for everything that is memory.

    import numpy, tutti

    comm = tutti.init()                       # whoever started it: tutti run, torchrun, mpirun, srun, nobody
    x = numpy.full(4, comm.rank, "f4")
    comm.all_reduce(x, "average")             # in place
    print(comm.rank, x)

`tutti run -n 4 -- python script.py` starts four ranks of it; tutti.spawn(function, 4) does so from inside a script.
"""

from ._errors import (AbortedError, ArgumentTypeError, Error, InvalidArgumentError, MismatchError, PeerFailedError,
                      PeerLostError, SystemRefusedError, TimeoutError, UnsupportedError)
from ._core import ANY_SOURCE, ANY_TAG, Op, Work, premul_sum, reduce_local
from ._core import version as __version__
from ._communicator import Batch, Communicator, StepReport, init
from ._device import DeviceArray
from ._paths import include_dir, library_dir
from ._plan import plan
from ._received import Received
from ._spawn import RankError, spawn
from ._trace import Trace, span
from ._works import test_any, wait_any, wait_some

__all__ = [
    "ANY_SOURCE", "ANY_TAG", "AbortedError", "ArgumentTypeError", "Batch", "Communicator", "DeviceArray", "Error",
    "InvalidArgumentError", "MismatchError", "Op", "PeerFailedError", "PeerLostError", "RankError", "Received",
    "StepReport", "SystemRefusedError", "TimeoutError", "Trace", "UnsupportedError", "Work", "__version__",
    "include_dir", "init", "library_dir", "plan", "premul_sum", "reduce_local", "span", "spawn", "test_any", "wait_any",
    "wait_some",
]
