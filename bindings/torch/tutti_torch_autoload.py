"""What PyTorch (2.5 and newer) calls at the end of `import torch`: registers the backend "tutti" without loading it.

Never raises: an error here would break `import torch`.
"""

import functools


def create(options, backend_options):
    """Called by torch.distributed for every group; loads the extension with the first one."""
    from tutti.torch import _create

    return _create(options, backend_options)


def heed_timeouts():
    """Up to 2.13 torch.distributed sets timeouts of backends that it knows by class; from now on also of ours."""
    import torch
    from torch.distributed import distributed_c10d

    if hasattr(distributed_c10d, "set_timeout") or distributed_c10d._set_pg_timeout.__module__ == __name__:
        return
    theirs = distributed_c10d._set_pg_timeout
    cpu = torch.device("cpu")

    @functools.wraps(theirs, assigned=("__name__", "__doc__"))
    def _set_pg_timeout(timeout, group=None):
        group = group if group is not None else distributed_c10d._get_default_group()
        devices = getattr(group, "_device_types", [])  # no group has none: theirs says so
        backend = group._get_backend(cpu) if cpu in devices else None
        backend = getattr(backend, "wrapped_pg", backend)  # TORCH_DISTRIBUTED_DEBUG=DETAIL puts its checks around it
        if backend is None or backend.name() != "tutti":
            return theirs(timeout, group)
        backend._set_default_timeout(timeout)
        if any(group._get_backend(device).name() != "tutti" for device in devices):
            theirs(timeout, group)

    distributed_c10d._set_pg_timeout = _set_pg_timeout


def register():
    try:
        from torch import distributed

        if distributed.is_available() and "TUTTI" not in distributed.Backend._plugins:
            distributed.Backend.register_backend("tutti", create, extended_api=True, devices=["cpu", "cuda"])
            heed_timeouts()
    except Exception:  # `import tutti.torch` says what is wrong
        pass
