"""The communicator: a group of ranks that call the same verbs in the same order."""

import atexit
import json
import math
import os
import pickle
import weakref

import numpy

from . import _core
from ._device import DeviceArray, address_of_stream
from ._errors import InvalidArgumentError
from ._trace import Trace

_PICKLE = pickle.HIGHEST_PROTOCOL
_open = weakref.WeakSet()


# A rank that ends leaves its group in good order, so that the others learn of it at once; nothing is waited for then.
@atexit.register
def _close_all():
    for communicator in list(_open):
        try:
            communicator._give_up()
        except InvalidArgumentError:
            pass  # a thread is still in it; the end of the process ends that


class StepReport:
    """What was called while `with` lasts, in `steps` steps: str() is a table, json() the same for scripts."""

    def __init__(self, communicator, steps):
        self._communicator, self.steps = communicator, steps
        self._begin = self._end = None

    def __enter__(self):
        self._begin = self._communicator._mark()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._end = self._communicator._mark()

    def _told(self, as_json):
        if self._end is None:
            raise InvalidArgumentError("step_report: there is something to tell once the `with` has ended well")
        return _core._report(self._begin, self._end, self.steps, as_json)

    def __str__(self):
        return self._told(False)

    def json(self):
        return json.loads(self._told(True))


class Communicator(_core.Communicator):
    """A group of ranks. Made by tutti.init(), split(), subgroup(), duplicate(), create_group() and self(); closed by close()
    or `with`.

    Verbs on vectors (all_reduce, broadcast, reduce, scan, exclusive_scan) work in place and return the array; verbs on
    chunks (all_gather, gather, scatter, reduce_scatter, all_to_all and their _v variants) return a new array; out= says
    otherwise. async_op=True returns a Work. Arrays are NumPy arrays or anything with the buffer protocol, DLPack or
    __cuda_array_interface__; they are used where they are, so they must be C-contiguous. One thread at a time.
    """

    def __init__(self, group):
        super().__init__(group)
        self._stream_object = None
        _open.add(self)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.close()
        else:
            self._give_up()  # the others must not wait for what will not come

    def __repr__(self):
        if self.closed:
            return "<tutti.Communicator, closed>"
        return f"<tutti.Communicator: rank {self.rank} of {self.size}>"

    def __reduce__(self):
        raise TypeError("a communicator belongs to its process; other processes join by tutti.init()")

    def close(self):
        """Leaves the group; symmetric arrays stay readable. Again is fine.

        Calls under way go on: their Works are waited for as before, and those that were dropped are waited for here.
        """
        super().close()
        self._stream_object = None

    # ---- Groups: calls like others, which all ranks of this communicator make.

    def split(self, color, key=0):
        """One group per color, ranked by (key, rank). A negative color joins none, and gets None."""
        return _child(self._split(color, key))

    def subgroup(self, ranks):
        """The group of these ranks, in this order; all ranks pass the same list. None on ranks outside it."""
        return _child(self._subgroup(list(ranks)))

    def duplicate(self):
        """The same ranks again, with calls of their own: for another thread, or for a library of yours."""
        return _child(self._duplicate())

    # ---- Groups that not all ranks of this communicator call for.

    def create_group(self, ranks, tag=0):
        """As subgroup(), but only the ranks of the list call, each with the same list and tag.

        Tags keep apart groups that are being made at the same time, and have nothing to do with those of messages.
        """
        return _child(self._create_group(list(ranks), tag))

    def self(self):
        """A group of this rank alone, without a word to any other; also where this communicator has failed."""
        return _child(self._self())

    # ---- What was called.

    def step_report(self, steps=1):
        """What a step calls on this communicator, what of it was exposed, and where the time of the step went.

            with comm.step_report(steps=10) as report:
                for batch in batches:
                    ...
            print(report)

        `report.steps` may be set inside, where their number is known late.
        """
        return StepReport(self, steps)

    def trace(self):
        """Recording where the time goes, from here on: comm.trace().start("run.json"), and stop()."""
        return Trace(self)

    # ---- Memory.

    def empty(self, shape, dtype=float, *, device=None):
        """A zeroed array in symmetric memory, which all ranks of a host can reach: verbs on it run without copies.

        device=0 makes a DeviceArray on that CUDA device instead, which the ranks that share the device have opened.

        Collective: every rank asks for the same shape and dtype at the same point. The memory lasts as long as the array
        and views of it do, also when the communicator is closed.
        """
        dtype = numpy.dtype(dtype)
        if dtype.hasobject:
            raise InvalidArgumentError("empty: Python objects have no place in memory that ranks share")
        shape = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
        if any(length < 0 for length in shape):
            raise InvalidArgumentError(f"empty: the shape {shape} has a negative length")
        if device is not None:
            memory, address = self._allocate_device(list(shape), dtype.kind, dtype.itemsize, device)
            return DeviceArray(memory, address, shape, dtype, device)
        return self._allocate(math.prod(shape) * dtype.itemsize).view(dtype).reshape(shape)

    @property
    def stream(self):
        """The CUDA stream that the calls which follow are ordered with, as a number; None where there is none.

        Calls on arrays of a device come after what it holds, and what comes into it after an async call waits until that
        has ended. Takes streams of PyTorch and CuPy, which are kept until another one is set or the communicator is
        closed, numbers (cudaStream_t), and None. Calls also come after the streams that their arrays name in their
        __cuda_array_interface__; without either, after the default stream.
        """
        return self._stream or None

    @stream.setter
    def stream(self, stream):
        self._stream = address_of_stream(stream)
        self._stream_object = stream  # many destroy their stream when they go

    # ---- Several arrays, several messages.

    def all_reduce_coalesced(self, arrays, op="sum"):
        """all_reduce of every array of the list, in place, with one operation per dtype; returns the list.

        All ranks pass the same shapes in the same order.
        """
        by_dtype = {}
        for array in arrays:
            by_dtype.setdefault(str(getattr(array, "dtype", type(array))), []).append(array)
        for same in by_dtype.values():
            self._all_reduce_many(same, op)
        return arrays

    def batch(self):
        """Messages that start together, whoever sends first.

            with comm.batch() as batch:
                batch.send(border, right)
                batch.recv(halo, left)
        """
        return Batch(self)

    # ---- Python objects, pickled. Unpickling runs code: only for ranks that trust each other, as those of a job do.

    def broadcast_object(self, value=None, root=0):
        """Every rank gets the root's object; what other ranks pass is not looked at."""
        data = _pickled(value) if self.rank == root else numpy.empty(0, numpy.uint8)
        length = self.broadcast(numpy.array([data.size], numpy.int64), root)
        if self.rank != root:
            data = numpy.empty(int(length[0]), numpy.uint8)
        self.broadcast(data, root)
        return value if self.rank == root else pickle.loads(data)

    def all_gather_object(self, value):
        """The list of all ranks' objects."""
        data = _pickled(value)
        counts = self.all_gather(numpy.array([data.size], numpy.int64))
        return _unpickled(self.all_gather_v(data, counts.tolist()), counts)

    def gather_object(self, value, root=0):
        """The list of all ranks' objects at the root; None elsewhere."""
        data = _pickled(value)
        counts = self.gather(numpy.array([data.size], numpy.int64), root)
        everything = self.gather_v(data, [] if counts is None else counts.tolist(), root)
        return None if counts is None else _unpickled(everything, counts)

    def scatter_object(self, values=None, root=0):
        """Every rank gets its object of the root's list, which has one per rank."""
        count = numpy.empty(1, numpy.int64)
        if self.rank != root:
            data = numpy.empty(int(self.scatter(None, count, root)[0]), numpy.uint8)
            return pickle.loads(self.scatter_v(None, None, data, root))
        values = list(values)
        if len(values) != self.size:
            raise InvalidArgumentError(f"scatter_object: {len(values)} objects for {self.size} ranks")
        parts = [_pickled(value) for value in values]
        counts = [part.size for part in parts]
        self.scatter(numpy.array(counts, numpy.int64), count, root)
        self.scatter_v(numpy.concatenate(parts), counts, root=root)
        return values[root]

    def send_object(self, value, peer, tag=0):
        """Sends an object, which the peer takes with recv_object."""
        self.send(_pickled(value), peer, tag)

    def recv_object(self, source=_core.ANY_SOURCE, tag=0):
        """Receives an object; probe() says beforehand whose it is."""
        found = self.probe(source, tag)
        data = numpy.empty(found.count, numpy.uint8)
        self.recv(data, found.source, found.tag)
        return pickle.loads(data)


class Batch:
    """Messages that start together; see Communicator.batch()."""

    def __init__(self, communicator):
        self._communicator = communicator
        self._messages = []

    def send(self, array, peer, tag=0):
        """Adds a send; returns the batch."""
        self._messages.append((True, array, peer, tag, False))
        return self

    def recv(self, array, source, tag=0, *, up_to=False):
        """Adds a receive; returns the batch."""
        self._messages.append((False, array, source, tag, up_to))
        return self

    def start(self):
        """Starts all that was added, and forgets it: one Work each, in the order they were added."""
        messages, self._messages = self._messages, []
        return self._communicator._start_batch(messages)

    def run(self):
        """Starts all that was added, and waits for it; returns what each has received, None for sends."""
        return [work.wait() for work in self.start()]

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.run()


def _child(group):
    return None if group is None else Communicator(group)


def _pickled(value):
    return numpy.frombuffer(pickle.dumps(value, _PICKLE), numpy.uint8)


def _unpickled(everything, counts):
    ends = numpy.cumsum(counts)
    return [pickle.loads(everything[end - count:end]) for end, count in zip(ends, counts)]


def init(*, timeout=None, deterministic=True, algorithm=None, check="quick", transport="auto", rank=None,
         world_size=None, rendezvous=None, job=None, token_file=None, network_interface=None):
    """Meets the ranks that were started together with this one, by tutti run, torchrun, mpirun or srun.

    A process that nobody launched is a group of one. Environment variables come before these options (`tutti env`):

    timeout            seconds after which a call fails if nothing has moved; 60
    deterministic      the same bits whatever the size, the algorithm or the transport
    algorithm          run this one wherever a verb has it (`tutti list`)
    check              "full": all ranks compare each call before any array is touched
    transport          what carries the bytes: a word that TUTTI_TRANSPORT takes (`tutti env`), such as "shm" or "tcp"
    rank, world_size   where no launcher says them; they need a rendezvous ("host:port", or "unix:@name" on one host),
                       a token_file made by `tutti token` unless it is a UNIX socket, and may have a job name
    network_interface  address or interface that TCP binds
    """
    try:
        return Communicator(_core.join(deterministic, timeout, algorithm, check, transport, rank, world_size, rendezvous,
                                       job, token_file, network_interface))
    finally:
        os.environ.pop("TUTTI_TOKEN", None)  # Python's copy: what this process starts need not have it
