"""Communication hooks of DistributedDataParallel that send fewer bytes, for links that are slow.

    from tutti.torch import hooks

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, hooks.int8())

Registering is collective, and all ranks register the same hook with the same settings. A hook serves one model; its
exchanges run beside the backward pass, on a thread and over a group of its own, and
`tutti.torch.step_report(group=hook)` tells what they send.

What is lost on the way is kept, a float32 for each value, and added to the next gradient (`error_feedback`). Until
`from_step` steps were made, gradients go uncompressed. Gradients are float32, bfloat16 or float16; where one is not
finite, the backward pass raises an error on all ranks, or with `not_finite="pass"` all ranks get what is not finite
either (as GradScaler wants it), and keep the errors that they had.
"""

from . import _backend
from ._compression import Hook, Memory
from ._frozen_adamw import FrozenAdamW
from ._one_bit import OneBit
from ._power_sgd import PowerSGD
from ._topk import TopK

__all__ = ["FrozenAdamW", "int4", "int8", "one_bit", "power_sgd", "topk"]


class _Quantised(Hook):
    def __init__(self, name, block, error_feedback, from_step, not_finite):
        if not isinstance(block, int) or not 32 <= block <= 4096 or block & (block - 1):
            raise ValueError(f"{name}: a block of {block!r} values; give a power of two from 32 to 4096")
        super().__init__(name, from_step, not_finite, block=block, error_feedback=bool(error_feedback))
        self._block = block
        self._errors = Memory() if error_feedback else None

    def _attached(self):
        self._reducer = _backend.Quantised(self._backend, self.__name__, self._block, self._not_finite == "pass")

    def _exchange(self, buffer, parameters):
        residual = self._errors.of(parameters)[0] if self._errors is not None else None
        try:
            self._reducer.average(buffer, residual)
        except ValueError as error:
            name = self._culprit(buffer, parameters)  # where all ranks fail, gradients are left alone
            raise ValueError(f"{error}; here it is in the gradient of {name}") if name else error


def int8(block=128, error_feedback=True, from_step=0, not_finite="fail"):
    """A byte for each value and a float32 scale for `block` of them: all_to_all, a sum in float32, all_gather.

    With p ranks and n values that is p * (8 + e) bytes of all_to_all and p * e of all_gather, where c = n / p, rounded
    up, and e = c + 4 * ceil(c / block). All ranks get the same bits.
    """
    return _Quantised("int8", block, error_feedback, from_step, not_finite)


def int4(block=128, error_feedback=True, from_step=0, not_finite="fail"):
    """As int8 with half a byte for each value: -7 to 7 steps of the block's scale."""
    return _Quantised("int4", block, error_feedback, from_step, not_finite)


def topk(share=0.01, momentum=0.0, error_feedback=True, from_step=0, not_finite="fail"):
    """The `share` of each tensor's values that are largest, with their places: 8 bytes each, by all_gather.

    Every rank chooses its own; places that a rank does not send count as zero, and wait. Tensors of one dimension go
    uncompressed. With p ranks and k values chosen that is p * 8 * k bytes, so the share must be well below 1 / p.

    `momentum` is that of the training, which then belongs here and not into the optimizer: it is applied before values
    wait, so that those that waited come with the momentum that they would have had (Lin and others, 2018). It keeps
    another float32 for each value. Take SGD without momentum with it.
    """
    return TopK(share, momentum, error_feedback, from_step, not_finite)


def power_sgd(rank=2, error_feedback=True, from_step=0, not_finite="fail"):
    """Each matrix as the product of two thin ones of `rank` columns, beginning with those of the step before.

    A tensor of more dimensions is a matrix of its first one by all others. Two all_reduces for each bucket: of
    4 * rank * rows bytes, and of 4 * rank * columns. Tensors of one dimension, and matrices that would not become
    smaller, go uncompressed, in another one. Ranks get the same bits where their processors compute alike.
    """
    return PowerSGD(rank, error_feedback, from_step, not_finite)


def one_bit(error_feedback=True, from_step=0, not_finite="fail"):
    """Each value's sign, and the mean size of each tensor's values: all_to_all, an average at the owner, all_gather.

    What the owner's average loses by becoming signs is kept, too. Tensors of one dimension go uncompressed. With p
    ranks, n values in t tensors and c = n / p, rounded up to 32, that is p * (c / 8 + 4 * t) bytes each way.

    For SGD, with momentum or without. Adam's variances would be those of signs: 1-bit Adam (Tang and others, 2021)
    freezes them after a warm-up, which FrozenAdamW does; it sends signs of the momentum, this hook those of the
    gradient, of which the momentum is then made.

        optimizer = hooks.FrozenAdamW(model.parameters(), freeze_after=50, lr=1e-3)
        model.register_comm_hook(None, hooks.one_bit(from_step=50))
    """
    return OneBit(error_feedback, from_step, not_finite)
