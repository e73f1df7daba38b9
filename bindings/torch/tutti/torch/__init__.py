"""Tutti as a backend of torch.distributed, for CPU tensors.

    import torch.distributed as dist
    import tutti.torch  # not needed with PyTorch 2.5 and newer, which find the backend by themselves

    dist.init_process_group("tutti")

`empty` makes a tensor in memory that all ranks of a host share: collectives on such tensors need no copies.
"""

import atexit
import datetime

import torch
import torch.distributed as dist

__all__ = ["empty", "register"]


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


def _create(options, backend_options):
    timeout = options.timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    return _backend.Backend(options.store, options.group_rank, options.group_size, options.group_id, timeout)


def register():
    """Registers the backend "tutti" with torch.distributed, once; importing this module does it."""
    if "TUTTI" not in dist.Backend._plugins:
        dist.Backend.register_backend("tutti", _create, extended_api=True, devices=["cpu"])


def _backend_of(group):
    group = group if group is not None else dist.group.WORLD
    if group is None:
        raise ValueError("there is no process group: call torch.distributed.init_process_group first")
    backend = group._get_backend(torch.device("cpu"))
    if not isinstance(backend, _backend.Backend):
        raise ValueError(f"the group's backend for CPU tensors is {backend.name()}, not tutti")
    return backend


def empty(*shape, dtype=None, group=None):
    """A tensor in symmetric memory, zeroed: collective, the same shape and type on every rank of the group.

    The memory goes with the tensor. Collectives of the group on such tensors run without copies inside a host.
    """
    if len(shape) == 1 and isinstance(shape[0], (tuple, list, torch.Size)):
        shape = tuple(shape[0])
    return _backend_of(group).empty(list(shape), dtype if dtype is not None else torch.get_default_dtype())


register()
