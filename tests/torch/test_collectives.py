"""Every operation of the whole group, against what the ranks can work out alone."""

import pytest
import torch
import torch.distributed as dist
from samples import COMPLEX, FLOATS, INTEGERS, MOVABLE, SHAPES, reduced, same, sample

SIZES = [1, 2, 3, 4]
OPS = [dist.ReduceOp.SUM, dist.ReduceOp.AVG, dist.ReduceOp.PRODUCT, dist.ReduceOp.MIN, dist.ReduceOp.MAX]
BITS = [dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR]


def ops_for(dtype):
    if dtype in COMPLEX:
        return OPS[:2]
    if dtype == torch.bool:
        return [OPS[0], *OPS[2:], *BITS]
    return OPS + (BITS if dtype in INTEGERS else [])


def exact(dtype, op, size):
    """Where the result fits the type whatever the order."""
    return not (op == dist.ReduceOp.PRODUCT and dtype in (torch.int8, torch.uint8) and size > 3)


def all_reduce(rank, size, asynchronous):
    for dtype in FLOATS + INTEGERS + COMPLEX + [torch.bool]:
        for shape in SHAPES:
            parts = [sample(r, shape, dtype) for r in range(size)]
            for op in ops_for(dtype):
                if not exact(dtype, op, size):
                    continue
                tensor = parts[rank].clone()
                work = dist.all_reduce(tensor, op, async_op=asynchronous)
                if asynchronous:
                    assert work.wait() and work.is_completed() and work.is_success()
                expected = reduced(parts, op)
                assert same(tensor, expected) or torch.allclose(tensor, expected), (dtype, shape, op, tensor, expected)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("size", SIZES)
def test_all_reduce(ranks, size, asynchronous):
    ranks(size, all_reduce, asynchronous)


def premultiplied(rank, size):
    for factor in [0.5, torch.tensor([0.25])]:
        for dtype in FLOATS:
            op = dist._make_nccl_premul_sum(factor)
            tensor = torch.full((9,), float(rank + 1), dtype=dtype)
            dist.all_reduce(tensor, op)
            assert torch.equal(tensor, torch.full((9,), float(factor) * size * (size + 1) / 2, dtype=dtype))
            chunk = torch.zeros(3, dtype=dtype)
            dist.reduce_scatter_tensor(chunk, torch.full((3 * size,), rank + 1.0, dtype=dtype), op)
            assert torch.equal(chunk, tensor[:3])


def test_premultiplied_sum(ranks):
    ranks(3, premultiplied)


def broadcast_and_reduce(rank, size):
    for dtype in MOVABLE:
        for shape in SHAPES:
            for root in range(size):
                tensor = sample(rank, shape, dtype)
                dist.broadcast(tensor, root)
                assert same(tensor, sample(root, shape, dtype)), (dtype, shape)
    for dtype in FLOATS + INTEGERS:
        for shape in SHAPES:
            parts = [sample(r, shape, dtype) for r in range(size)]
            root = size - 1
            tensor = parts[rank].clone()
            dist.reduce(tensor, root)
            assert same(tensor, reduced(parts, dist.ReduceOp.SUM) if rank == root else parts[rank])


@pytest.mark.parametrize("size", SIZES)
def test_broadcast_and_reduce(ranks, size):
    ranks(size, broadcast_and_reduce)


def all_gather(rank, size):
    for dtype in MOVABLE:
        for shape in SHAPES:
            parts = [sample(r, shape, dtype) for r in range(size)]
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_gather(outputs, parts[rank])
            assert all(same(output, part) for output, part in zip(outputs, parts)), (dtype, shape)
            if shape == ():
                continue
            together = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
            dist.all_gather_into_tensor(together, parts[rank])
            assert same(together, torch.cat([part.view(torch.uint8) for part in parts]).view(dtype)), (dtype, shape)
    # The input may be the own part of the list; lengths may differ; parts may lie one behind the other.
    for count in [3, 50_000]:
        flat = torch.zeros(count * size)
        views = list(flat.chunk(size))
        views[rank].fill_(rank + 1)
        dist.all_gather(views, views[rank])
        assert torch.equal(flat, torch.arange(1, size + 1).repeat_interleave(count).float())
        uneven = [torch.zeros(count + r) for r in range(size)]
        dist.all_gather(uneven, torch.full((count + rank,), float(rank)))
        assert all(torch.equal(part, torch.full((count + r,), float(r))) for r, part in enumerate(uneven))


@pytest.mark.parametrize("size", SIZES)
def test_all_gather(ranks, size):
    ranks(size, all_gather)


def reduce_scatter(rank, size):
    for dtype in FLOATS + INTEGERS:
        for shape in [(0,), (1,), (3, 5), (20_001,)]:
            inputs = [[sample(r * size + c, shape, dtype) for c in range(size)] for r in range(size)]
            expected = reduced([inputs[r][rank] for r in range(size)], dist.ReduceOp.SUM)
            output = torch.empty(shape, dtype=dtype)
            dist.reduce_scatter(output, [part.clone() for part in inputs[rank]])
            assert same(output, expected), (dtype, shape)
            output.zero_()
            dist.reduce_scatter_tensor(output, torch.cat(inputs[rank]))
            assert same(output, expected), (dtype, shape)
    # Chunks of different lengths.
    output = torch.empty(rank + 1)
    dist.reduce_scatter(output, [torch.full((c + 1,), float(rank)) for c in range(size)])
    assert torch.equal(output, torch.full((rank + 1,), float(sum(range(size)))))


@pytest.mark.parametrize("size", SIZES)
def test_reduce_scatter(ranks, size):
    ranks(size, reduce_scatter)


def gather_and_scatter(rank, size):
    for dtype in MOVABLE:
        for shape in [(), (0,), (4,), (2, 3), (20_001,)]:
            for root in {0, size - 1}:
                parts = [sample(r, shape, dtype) for r in range(size)]
                outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)] if rank == root else None
                dist.gather(parts[rank], outputs, dst=root)
                if rank == root:
                    assert all(same(output, part) for output, part in zip(outputs, parts)), (dtype, shape)
                output = torch.empty(shape, dtype=dtype)
                dist.scatter(output, parts if rank == root else None, src=root)
                assert same(output, parts[rank]), (dtype, shape)


@pytest.mark.parametrize("size", SIZES)
def test_gather_and_scatter(ranks, size):
    ranks(size, gather_and_scatter)


def all_to_all(rank, size):
    for dtype in MOVABLE:
        for shape in [(0,), (1,), (2, 3), (9_001,)]:
            inputs = [sample(rank * size + c, shape, dtype) for c in range(size)]
            expected = [sample(r * size + rank, shape, dtype) for r in range(size)]
            outputs = [torch.empty(shape, dtype=dtype) for _ in range(size)]
            dist.all_to_all(outputs, inputs)
            assert all(same(output, part) for output, part in zip(outputs, expected)), (dtype, shape)
            together = torch.empty((size * shape[0], *shape[1:]), dtype=dtype)
            dist.all_to_all_single(together, torch.cat([part.view(torch.uint8) for part in inputs]).view(dtype))
            assert same(together, torch.cat([part.view(torch.uint8) for part in expected]).view(dtype)), (dtype, shape)
    # Rank a sends a + b rows to rank b.
    splits = [rank + other for other in range(size)]
    sent = torch.cat([torch.full((count, 3), float(rank * 10 + other)) for other, count in enumerate(splits)])
    received = torch.empty(sum(splits), 3)
    dist.all_to_all_single(received, sent, splits, splits)
    expected = torch.cat([torch.full((count, 3), float(other * 10 + rank)) for other, count in enumerate(splits)])
    assert torch.equal(received, expected)
    outputs = [torch.empty(count, 3) for count in splits]
    dist.all_to_all(outputs, list(sent.split(splits)))
    assert torch.equal(torch.cat(outputs), expected)


@pytest.mark.parametrize("size", SIZES)
def test_all_to_all(ranks, size):
    ranks(size, all_to_all)


def barrier(rank, size):
    for _ in range(10):
        dist.barrier()
        dist.barrier(async_op=True).wait()


@pytest.mark.parametrize("size", SIZES)
def test_barrier(ranks, size):
    ranks(size, barrier)


def sparse(rank, size):
    """Entries at places that some ranks share, whole rows of them, and ranks without any."""
    generator = torch.Generator().manual_seed(rank)
    for shape, dense_dimensions, kind in [((50,), 0, torch.float32), ((9, 7), 0, torch.float64),
                                          ((30, 4, 3), 2, torch.float32), ((40,), 0, torch.int64)]:
        full = torch.randint(-9, 9, shape, generator=generator).to(kind)
        full[torch.randint(0, 3, shape[:1], generator=generator) > 0] = 0
        if rank == size - 1:
            full.zero_()
        expected = full.clone()
        dist.all_reduce(expected)
        for asynchronous in (False, True):
            tensor = full.to_sparse(len(shape) - dense_dimensions)
            work = dist.all_reduce(tensor, async_op=asynchronous)
            if asynchronous:
                work.wait()
            assert tensor.is_sparse and tensor.is_coalesced() and torch.equal(tensor.to_dense(), expected)
            assert tensor.dense_dim() == dense_dimensions
    tensor = torch.sparse_coo_tensor([[1, 1, rank]], [1.0, 2.0, 3.0], (size + 2,))  # twice at one place
    dist.all_reduce(tensor, dist.ReduceOp.AVG)
    expected = torch.zeros(size + 2)
    expected[:size] = 3.0 / size
    expected[1] += 3.0
    assert torch.allclose(tensor.to_dense(), expected)


@pytest.mark.parametrize("size", [1, 3])
def test_sparse(ranks, size):
    ranks(size, sparse)
