"""Tensors that are not one run of elements, coalesced calls, large tensors, symmetric memory."""

import copy
import threading

import pytest
import torch
import torch.distributed as dist
from samples import is_shared

import tutti.torch


def strided(values):
    """The same values with gaps between them."""
    wide = torch.full((*values.shape, 2), -1, dtype=values.dtype)
    view = wide[..., 0]
    view.copy_(values)
    assert not view.is_contiguous() or view.numel() <= 1
    return view, wide


def non_contiguous(rank, size, asynchronous):
    def finish(work):
        if asynchronous:
            work.wait()

    total = size * (size + 1) / 2
    tensor, whole = strided(torch.full((4, 5), rank + 1.0))
    finish(dist.all_reduce(tensor, async_op=asynchronous))
    assert torch.equal(tensor, torch.full((4, 5), total)) and torch.all(whole[..., 1] == -1)
    tensor = torch.arange(12.0).reshape(3, 4).t() * (rank + 1)
    finish(dist.broadcast(tensor, size - 1, async_op=asynchronous))
    assert torch.equal(tensor, torch.arange(12.0).reshape(3, 4).t() * size)
    for count in [6, 40_000]:
        outputs = [strided(torch.zeros(count))[0] for _ in range(size)]
        finish(dist.all_gather(outputs, strided(torch.full((count,), float(rank)))[0], async_op=asynchronous))
        assert all(torch.equal(output, torch.full((count,), float(r))) for r, output in enumerate(outputs))
        outputs = [strided(torch.zeros(count))[0] for _ in range(size)]
        inputs = [strided(torch.full((count,), float(rank * size + c)))[0] for c in range(size)]
        finish(dist.all_to_all(outputs, inputs, async_op=asynchronous))
        assert all(torch.all(output == r * size + rank) for r, output in enumerate(outputs))
        output, _ = strided(torch.zeros(count))
        finish(dist.reduce_scatter(output, inputs, async_op=asynchronous))
        assert torch.all(output == sum(r * size + rank for r in range(size)))
        outputs = [strided(torch.zeros(count))[0] for _ in range(size)] if rank == 0 else None
        finish(dist.gather(inputs[0], outputs, dst=0, async_op=asynchronous))
        assert rank != 0 or all(torch.all(output == r * size) for r, output in enumerate(outputs))
        output, _ = strided(torch.zeros(count))
        finish(dist.scatter(output, inputs if rank == 0 else None, src=0, async_op=asynchronous))
        assert torch.all(output == rank)
    into = torch.zeros(5, size).t()
    finish(dist.all_gather_into_tensor(into, torch.full((1, 5), float(rank)), async_op=asynchronous))
    assert torch.equal(into, torch.arange(float(size)).reshape(size, 1).expand(size, 5))
    conjugate = torch.full((3,), 1.0 + rank + 2j).conj()
    dist.group.WORLD._get_backend(torch.device("cpu")).broadcast(conjugate, 0).wait()  # PyTorch refuses it elsewhere
    assert torch.equal(conjugate.resolve_conj(), torch.full((3,), 1 - 2j))
    leaf = torch.ones(3, requires_grad=True)
    finish(dist.all_reduce(leaf.t() if rank else leaf, async_op=asynchronous))
    with torch.inference_mode():
        tensor, _ = strided(torch.ones(3))
        finish(dist.all_reduce(tensor, async_op=asynchronous))
        assert torch.all(tensor == size)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_non_contiguous(ranks, asynchronous):
    ranks(3, non_contiguous, asynchronous)


def only_one_rank_is_odd(rank, size):
    """How a tensor lies in memory, and whether a rank waits, is that rank's business."""
    for count in [8, 40_000]:
        outputs = [torch.zeros(count) for _ in range(size)]
        if rank == 0:
            outputs = [strided(output)[0] for output in outputs]
        work = dist.all_gather(outputs, torch.full((count,), float(rank)), async_op=rank == 1)
        if rank == 1:
            work.wait()
        assert all(torch.all(output == r) for r, output in enumerate(outputs))
        tensors = [torch.ones(count), torch.ones(3), torch.ones(5), torch.ones(100_000)]
        if rank == 0:
            tensors[0] = strided(tensors[0])[0]
        work = dist.all_reduce_coalesced(tensors, async_op=rank == 1)
        if rank == 1:
            work.wait()
        assert all(torch.all(tensor == size) for tensor in tensors)


def test_only_one_rank_is_odd(ranks):
    ranks(3, only_one_rank_is_odd)


def coalesced(rank, size):
    tensors = [torch.full((n,), rank + 1.0) for n in [0, 1, 9, 70_000]]
    dist.all_reduce_coalesced(tensors)
    assert all(torch.all(tensor == size * (size + 1) // 2) for tensor in tensors)
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    assert all(torch.all(tensor == size * (size + 1) // 2) for tensor in tensors)
    # The backend itself takes several types at once.
    tensors = [torch.full((n,), rank + 1, dtype=t) for n in [0, 1, 9, 70_000] for t in [torch.float32, torch.int32]]
    dist.group.WORLD._get_backend(torch.device("cpu")).allreduce_coalesced(tensors).wait()
    assert all(torch.all(tensor == size * (size + 1) // 2) for tensor in tensors)
    inputs = [torch.full((n,), float(rank)) for n in [1, 5, 30_000]]
    outputs = [torch.empty(len(part) * size) for part in inputs]
    with dist._coalescing_manager(async_ops=True) as together:
        for output, part in zip(outputs, inputs):
            dist.all_gather_into_tensor(output, part)
    together.wait()
    for output, part in zip(outputs, inputs):
        assert torch.equal(output, torch.arange(float(size)).repeat_interleave(len(part)))
    sums = [torch.empty_like(part) for part in inputs]
    with dist._coalescing_manager():
        for summed, output in zip(sums, outputs):
            dist.reduce_scatter_tensor(summed, output)
    assert all(torch.all(summed == rank * size) for summed in sums)
    group = dist.group.WORLD
    lists = [[torch.zeros(4), torch.zeros(2)] for _ in range(size)]
    dist.all_gather_coalesced(lists, [torch.full((4,), float(rank)), torch.full((2,), rank + 0.5)])
    assert all(torch.all(a == r) and torch.all(b == r + 0.5) for r, (a, b) in enumerate(lists))
    # Calls of several kinds that end together.
    backend = group._get_backend(torch.device("cpu"))
    assert getattr(backend, "supports_coalescing", True)  # 2.4 does not show it
    backend._start_coalescing()
    a, b = torch.ones(3), torch.full((2,), float(rank))
    dist.all_reduce(a, async_op=True)
    dist.broadcast(b, 0, async_op=True)
    work = backend._end_coalescing()
    work.wait()
    assert torch.all(a == size) and torch.all(b == 0)
    backend._start_coalescing()
    assert backend._end_coalescing().wait()


def test_coalesced(ranks):
    ranks(3, coalesced)


def large(rank, size):
    tensor = torch.full((2**31 + 64,), rank + 1, dtype=torch.uint8)
    dist.broadcast(tensor, 1)
    assert all(torch.all(part == 2) for part in tensor.split(2**24))
    dist.all_reduce(tensor)
    assert all(torch.all(part == 2 * size) for part in tensor.split(2**24))


@pytest.mark.skipif(
    int(next(line.split()[1] for line in open("/proc/meminfo") if line.startswith("MemAvailable"))) < 16 << 20,
    reason="needs 16 GB of free memory",
)
def test_more_than_two_gib(ranks):
    ranks(2, large)


def symmetric(rank, size):
    for shape, dtype in [((1000,), torch.float32), ((3, 4), torch.int64), ((0,), torch.float32), ((), torch.bfloat16)]:
        tensor = tutti.torch.empty(shape, dtype=dtype)
        assert tensor.shape == shape and tensor.dtype == dtype and torch.all(tensor == 0)
        tensor.fill_(rank + 1)
        dist.all_reduce(tensor)
        assert torch.all(tensor == size * (size + 1) // 2)
        work = dist.all_reduce(tensor, async_op=True)
        del tensor
        work.wait()
    dist.barrier()
    group = dist.new_group([0, size - 1]) if size > 1 else dist.group.WORLD
    if rank in (0, size - 1):
        ours = tutti.torch.empty(5, group=group)
        ours.fill_(1)
        dist.all_reduce(ours, group=group)
        assert torch.all(ours == len({0, size - 1}))
    survivor = tutti.torch.empty(4)
    survivor.fill_(3)
    dist.destroy_process_group()
    assert torch.all(survivor == 3), "the memory of a tensor outlives its group"


def test_symmetric_memory(ranks):
    for size in [1, 2, 3]:
        ranks(size, symmetric)


def shared(rank, size):
    with tutti.torch.shared_tensors():
        large, small = torch.ones(1 << 16), torch.ones(16)
        with tutti.torch.shared_tensors(dist.new_group()):
            other = torch.ones(1 << 16)
        again = torch.arange(1 << 16, dtype=torch.float32)
        too_large = torch.empty((1 << 30) + 1, dtype=torch.uint8)
        threads_own = []
        thread = threading.Thread(target=lambda: threads_own.append(torch.ones(1 << 16)))
        thread.start()
        thread.join()
    ordinary = torch.ones(1 << 16)
    assert is_shared(large) and is_shared(other) and is_shared(again)
    assert not any(is_shared(tensor) for tensor in (small, too_large, ordinary, *threads_own))
    for tensor in (large, other, ordinary):
        dist.all_reduce(tensor)
        assert torch.all(tensor == size)
    large.resize_(1 << 20)  # by the allocator that it remembers
    large.fill_(2)
    place = again.data_ptr()
    assert again[5] == 5 and not is_shared(large)
    del again
    with tutti.torch.shared_tensors():
        assert torch.ones(1 << 16).data_ptr() <= place, "memory is used again"
    copy.deepcopy(other)
    with pytest.raises(ZeroDivisionError), tutti.torch.shared_tensors():
        1 / 0
    assert not is_shared(torch.ones(1 << 16))


def test_shared_tensors(ranks):
    ranks(2, shared)
