"""Communication hooks of DistributedDataParallel whose callbacks make collectives: bucket after bucket.

A callback of a future runs once its call has ended, which is at another moment on every rank, while the backward pass
goes on to the next bucket. So what a callback calls and what the hook calls for the next bucket would come in another
order on every rank. Several of PyTorch's own hooks do that: those of PowerSGD, of quantization, and ZeRO's interleaved.
"""

import functools

from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

_ONE_CALL = (default_hooks.allreduce_hook, default_hooks.fp16_compress_hook, default_hooks.bf16_compress_hook)


def in_order(hook):
    """A hook that begins with a bucket when all that `hook` does about the one before has ended, callbacks included.

    Compute goes on meanwhile: the next gradients, up to the moment when they are to be exchanged. `hook` must not
    leave a bucket's future to be completed by its call for a later bucket.
    """
    last = None

    @functools.wraps(hook)
    def ordered(state, bucket):
        nonlocal last
        before, last = last, None
        if before is not None:
            before.wait()
        future = hook(state, bucket)
        if bucket.is_last():  # DDP may have calls of its own to make behind it
            future.wait()
        else:
            last = future
        return future

    return ordered


def ordered_where_needed(hook):
    """PyTorch's own hooks in order, but for those that make one call; others as they are."""
    module = getattr(hook, "__module__", None) or ""
    theirs = module.startswith("torch.distributed.algorithms.ddp_comm_hooks.")
    return in_order(hook) if theirs and hook not in _ONE_CALL else hook
