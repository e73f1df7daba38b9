"""Numbers that every rank can work out for every rank, what their reductions must be, and where tensors lie."""

import pathlib

import torch
import torch.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
ODD = [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.uint32, torch.uint64]
MOVABLE = FLOATS + INTEGERS + COMPLEX + [torch.bool] + ODD

SHAPES = [(), (0,), (1,), (7,), (3, 5), (2, 3, 4), (40_001,)]


def sample(rank, shape, dtype):
    """Small numbers, so that sums are exact in every type, different for every rank and place."""
    count = 1
    for length in shape:
        count *= length
    numbers = (torch.arange(count, dtype=torch.int64) * 7 + rank * 3) % 5 + 1
    if dtype == torch.bool:
        return (numbers % 2 == 0).reshape(shape)
    if dtype.is_complex:
        return torch.complex(numbers.double(), (numbers + rank).double()).to(dtype).reshape(shape)
    return numbers.to(torch.float32).to(dtype).reshape(shape) if dtype in ODD else numbers.to(dtype).reshape(shape)


def same(one, other):
    """Bit for bit, for types that cannot be compared, too."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    return torch.equal(one.contiguous().view(-1).view(torch.uint8), other.contiguous().view(-1).view(torch.uint8))


def reduced(parts, op, factors=None):
    """In 64 bits, then as the type of the parts."""
    dtype = parts[0].dtype
    if dtype == torch.bool:
        wide = torch.stack([part.to(torch.int64) for part in parts])
    elif dtype.is_complex:
        wide = torch.stack([part.to(torch.complex128) for part in parts])
    elif dtype.is_floating_point:
        wide = torch.stack([part.double() for part in parts])
    else:
        wide = torch.stack([part.to(torch.int64) for part in parts])
    if op == dist.ReduceOp.SUM:
        result = wide.sum(0)
    elif op == dist.ReduceOp.AVG:
        result = wide.sum(0) / len(parts) if wide.dtype != torch.int64 else wide.sum(0) // len(parts)
    elif op == dist.ReduceOp.PRODUCT:
        result = wide.prod(0)
    elif op == dist.ReduceOp.MIN:
        result = wide.amin(0)
    elif op == dist.ReduceOp.MAX:
        result = wide.amax(0)
    else:
        result = wide[0].clone()
        for part in wide[1:]:
            if op == dist.ReduceOp.BAND:
                result &= part
            elif op == dist.ReduceOp.BOR:
                result |= part
            else:
                result ^= part
    return (result != 0) if dtype == torch.bool else result.to(dtype)


def is_shared(tensor):
    """Whether its memory is mapped for other processes, too."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        span, flags = line.split()[:2]
        begin, end = (int(part, 16) for part in span.split("-"))
        if begin <= tensor.data_ptr() < end:
            return flags.endswith("s")
    return False
