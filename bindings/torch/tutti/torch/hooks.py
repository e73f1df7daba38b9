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

__all__ = ["int4", "int8"]


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
