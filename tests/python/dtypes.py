"""The element types of the library, as NumPy names them."""

import numpy as np

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

INTEGERS = [np.dtype(kind + str(size)) for kind in "iu" for size in (1, 2, 4, 8)]
FLOATS = [np.dtype(name) for name in ("f2", "f4", "f8")]
COMPLEX = [np.dtype(name) for name in ("c8", "c16")]
NUMBERS = INTEGERS + FLOATS + COMPLEX
# Types that move but have no operators.
MOVED = [np.dtype([("loss", "f4"), ("owner", "i8")]), np.dtype("M8[ns]"), np.dtype("S5"), np.dtype(">f4")]
if ml_dtypes is not None:
    NUMBERS.append(np.dtype(ml_dtypes.bfloat16))
    MOVED += [np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)]
ALL = NUMBERS + [np.dtype(bool)] + MOVED


def values(rank, dtype, shape=(6, 2)):
    """Small numbers that differ from rank to rank, exact in every type."""
    count = int(np.prod(shape))
    numbers = (np.arange(count) % 3 + rank).reshape(shape)
    if dtype.kind == "c":
        return (numbers + 1j * rank).astype(dtype)
    if dtype.names:
        made = np.zeros(shape, dtype)
        made["loss"], made["owner"] = numbers, rank
        return made
    if dtype.kind == "M":
        return numbers.astype("i8").view(dtype)
    return numbers.astype(dtype)


def same(left, right):
    """Bit for bit, whatever the type can compare."""
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


def joined(arrays):
    """One behind the other; NumPy alone would change the byte order."""
    return np.concatenate(arrays, dtype=arrays[0].dtype)
