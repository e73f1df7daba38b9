"""DistributedDataParallel's gradient buckets lie in symmetric memory where Tutti reduces them: that takes no copies.

DDP makes its buckets in torch.distributed.Reducer, first when the model is wrapped and once more after the first
backward pass, in the order in which gradients came. The Reducer here does the same while the group's pool is open, for
models in host memory, and gets PyTorch's communication hooks in a form that keeps the order of calls, for all models.
"""

import contextlib
import os

import torch
import torch.distributed as dist

from . import _compression, _hooks


def _wanted():
    value = os.environ.get("TUTTI_SHARED_BUCKETS") or "1"
    if value not in ("0", "1"):
        raise ValueError(f"TUTTI_SHARED_BUCKETS={value}: must be 0 or 1")
    return value == "1"


def install(backend_of, shared_tensors):
    """DDP uses the Reducer here from now on, which differs from torch's where the model's tensors are Tutti's."""
    plain = dist.Reducer
    if plain.__module__ == __name__:
        return

    def is_ours(parameters, group):
        if group is None:
            return False
        try:
            for device in {parameter.device.type for parameter in parameters}:
                backend_of(group, device)
        except (ValueError, RuntimeError):  # another backend, or none for such a device
            return False
        return True

    class Reducer(plain):
        def __init__(self, params, *arguments, **settings):
            given = (*arguments, *settings.values())
            group = next((value for value in given if isinstance(value, dist.ProcessGroup)), None)
            self.is_ours = is_ours(params, group)
            self.is_in_host_memory = self.is_ours and all(each.device.type == "cpu" for each in params)
            names = next((value for value in given if isinstance(value, dict)), {})
            self._facts = group, params, {id(each): names[i] for i, each in enumerate(params) if i in names}
            shares = self.is_in_host_memory and _wanted()
            self._memory = (lambda: shared_tensors(group)) if shares else contextlib.nullcontext
            with self._memory():
                super().__init__(params, *arguments, **settings)

        def attach(self, hook):
            """To a hook of tutti.torch.hooks: it has a part in registering."""
            group, parameters, names = self._facts
            if not self.is_in_host_memory:
                devices = {parameter.device.type for parameter in parameters}
                raise ValueError(
                    f"{hook.__name__} is for models whose group is of the backend tutti and whose parameters lie in "
                    f"CPU memory; here the backend is {dist.get_backend(group)} and the device {', '.join(devices)}"
                )
            hook.attach(backend_of(group), group, parameters, names)

        # torch.compile must not look inside, as it cannot look inside torch's own: it stops at the pool with an error.
        @torch._disable_dynamo
        def _rebuild_buckets(self):
            with self._memory():
                rebuilt = super()._rebuild_buckets()
            if rebuilt:  # it happens once
                self._memory = contextlib.nullcontext
            return rebuilt

    plain_register = dist._register_comm_hook

    def register_comm_hook(reducer, state, hook):
        ours = isinstance(reducer, Reducer) and reducer.is_ours
        if isinstance(hook, _compression.Hook) and isinstance(reducer, Reducer):
            reducer.attach(hook)
        plain_register(reducer, state, _hooks.ordered_where_needed(hook) if ours else hook)

    dist.Reducer = Reducer
    dist._register_comm_hook = register_comm_hook
