"""Tutti as a backend of torch.distributed, for tensors of CPUs and of CUDA GPUs.

    import torch.distributed as dist
    import tutti.torch  # not needed with PyTorch 2.5 and newer, which find the backend by themselves

    dist.init_process_group("tutti")

`empty` makes a tensor in memory that all ranks of a host share: collectives on such tensors need no copies. Large
tensors that are made inside `with shared_tensors():` lie there too, and so do the gradient buckets of
DistributedDataParallel, unless TUTTI_SHARED_BUCKETS=0.

`step_report` tells what the steps of a training loop call, what of that compute did not hide, and where the time went.
`tuned` tells by which costs a group chooses its algorithms. `in_order` is for communication hooks of one's own whose
callbacks make collectives. `tutti.torch.hooks` has hooks that send gradients in fewer bytes.
"""

import atexit
import contextlib
import datetime
import json
import os

import torch
import torch.distributed as dist

from . import _compression, _reducer
from ._hooks import in_order

__all__ = ["StepReport", "empty", "hooks", "in_order", "register", "shared_tensors", "step_report", "tuned"]


def _load():
    built_for = None
    try:
        from . import _built

        built_for = _built.TORCH_VERSION
    except ImportError:
        pass
    if built_for is not None and built_for != torch.__version__:
        raise ImportError(
            f"tutti-torch was built for PyTorch {built_for}, but this is PyTorch {torch.__version__}, whose classes may "
            "differ; build it again with: pip install --no-build-isolation --force-reinstall --no-deps ./bindings/torch"
        )
    from . import _backend

    atexit.register(_backend.leave_all)
    return _backend


_backend = _load()

import tutti_torch_autoload  # noqa: E402, after the check that all of this was built for this PyTorch

from . import hooks  # noqa: E402, as above


def _create(options, backend_options):
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    backend = _backend.Backend(options.store, options.group_rank, options.group_size, options.group_id, timeout)
    # Newer versions of PyTorch look for these there.
    if hasattr(backend.options, "group_name"):
        backend.options.group_name = options.group_id
        backend.options.global_ranks_in_group = options.global_ranks_in_group
    return backend


def _want_recorder_only_if_asked():
    """PyTorch 2.15 notes every call of every plugin in its flight recorder, to tell later what hung.

    That takes as long as a small call takes altogether, and what hangs here is told by an error. So calls are recorded
    where the size of the recorder is set, and not by default.
    """
    unrecorded = getattr(dist.distributed_c10d, "_FR_SELF_RECORDING_BACKENDS", None)
    asked = any(os.environ.get(name) for name in ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"))
    if isinstance(unrecorded, set) and not asked:
        unrecorded.add("tutti")


def register():
    """Registers the backend "tutti" with torch.distributed, once; importing this module does it."""
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu", "cuda"])


def _backend_of(group, device="cpu"):
    if isinstance(group, _compression.Hook):
        return group.backend
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise ValueError("there is no process group: call torch.distributed.init_process_group first")
    backend = group._get_backend(torch.device(device))
    backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL puts its checks around it
    if not isinstance(backend, _backend.Backend):
        raise ValueError(f"the group's backend for {device.upper()} tensors is {backend.name()}, not tutti")
    return backend


def empty(*shape, dtype=None, group=None):
    """A tensor in symmetric memory, zeroed: collective, the same shape and type on every rank of the group.

    The memory goes with the tensor. Collectives of the group on such tensors run without copies inside a host.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, torch.Size)):
        shape = tuple(shape[0])
    return _backend_of(group).empty(list(shape), dtype if dtype is not None else torch.get_default_dtype())


@contextlib.contextmanager
def shared_tensors(group=None):
    """Large CPU tensors that this thread makes inside lie in symmetric memory, as long as 1 GiB per group lasts.

    The first time for a group is collective. Collectives are as fast as with `empty` where the tensors of all ranks lie
    there; the ranks need not make the same ones.
    """
    _backend_of(group).begin_pool()
    try:
        yield
    finally:
        _backend.end_pool()


class StepReport:
    """What a group was called for while `with` lasts, in `steps` steps: str() is a table, json() the same for scripts."""

    def __init__(self, backend, steps):
        self._backend, self.steps = backend, steps
        self._begin = self._end = None

    def __enter__(self):
        self._begin = self._backend.mark()
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self._end = self._backend.mark()

    def _told(self, as_json):
        if self._end is None:
            raise ValueError("step_report: there is something to tell once the `with` has ended well")
        return _backend.report(self._begin, self._end, self.steps, as_json)

    def __str__(self):
        return self._told(False)

    def json(self):
        return json.loads(self._told(True))


def step_report(steps=1, group=None):
    """What a step calls on the group, what of it was exposed, and where the time of the step went.

        with tutti.torch.step_report(steps=10) as report:
            for batch in batches:
                ...
        print(report)

    `report.steps` may be set inside, where their number is known late. Other groups have reports of their own, and so
    has a hook of tutti.torch.hooks, which is passed as the group.
    """
    return StepReport(_backend_of(group), steps)


def tuned(group=None):
    """Whether the group chooses algorithms by costs that `tutti tune` has measured; by built-in ones otherwise."""
    return _backend_of(group).tuned()


register()
tutti_torch_autoload.heed_timeouts()
_want_recorder_only_if_asked()
_reducer.install(_backend_of, shared_tensors)
