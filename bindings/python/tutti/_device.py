"""Arrays and streams of CUDA devices."""

import math

from ._errors import InvalidArgumentError


class DeviceArray:
    """A zeroed array on a CUDA device, made by Communicator.empty(device=).

    It shows its memory by __cuda_array_interface__ and DLPack, so that cupy.asarray(), torch.from_dlpack() and
    jax.dlpack.from_dlpack() make theirs of it without a copy; the memory lasts as long as one of them does.
    """

    def __init__(self, memory, address, shape, dtype, device):
        self._memory, self._address = memory, address
        self.shape, self.dtype, self.device = shape, dtype, device

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def nbytes(self):
        return self.size * self.dtype.itemsize

    def __len__(self):
        if not self.shape:
            raise TypeError("an array without axes has no length")
        return self.shape[0]

    def __repr__(self):
        return f"<tutti.DeviceArray: {self.shape} of {self.dtype} on device {self.device}>"

    @property
    def __cuda_array_interface__(self):
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self._address, False),
                "strides": None, "stream": None}

    def __dlpack_device__(self):
        return self._memory.__dlpack_device__()

    def __dlpack__(self, **options):
        # Nothing of this array's is under way when somebody asks: there is no stream to wait for.
        known = ("max_version", "copy", "dl_device")  # refused where they cannot be had
        return self._memory.__dlpack__(**{name: value for name, value in options.items() if name in known})


_LEGACY = 1  # cudaStreamLegacy, the default stream: 0 would be none


def address_of_stream(stream):
    """The driver's handle of a stream: a number, or a stream of torch, CuPy, or anything with __cuda_stream__."""
    if stream is None:
        return 0
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "__cuda_stream__"):
        shown = stream.__cuda_stream__() if callable(stream.__cuda_stream__) else stream.__cuda_stream__
        return shown[1] or _LEGACY
    for name in ("cuda_stream", "ptr"):  # PyTorch's, CuPy's
        if hasattr(stream, name):
            return int(getattr(stream, name)) or _LEGACY
    raise InvalidArgumentError(f"stream: a {type(stream).__name__} is no stream; pass one of PyTorch or CuPy, or the "
                               "handle of one (cudaStream_t) as a number")
