"""Tensors of a GPU, several ranks on one: skipped, saying so, where PyTorch sees none."""

import gc

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no GPU here")
SIZES = [2, 4]


def one_object(rank, size):
    """The group has one backend object for both kinds of devices, and CPU tensors are served as ever."""
    cpu, gpu = (dist.group.WORLD._get_backend(torch.device(kind)) for kind in ("cpu", "cuda"))
    assert cpu is gpu or (cpu.name() == gpu.name() == "tutti" and cpu == gpu)
    tensor = torch.ones(3)
    dist.all_reduce(tensor)
    assert torch.all(tensor == size)


def test_one_object(ranks):
    ranks(2, one_object)


def on(values, **more):
    return torch.tensor(values, device="cuda", **more)


def collectives(rank, size):
    for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.float64):
        for count in (1, 1000, 300_001):
            tensor = torch.arange(count, device="cuda").remainder(50).to(dtype) + rank
            expected = size * (torch.arange(count).remainder(50)) + size * (size - 1) // 2
            for asynchronous in (False, True):
                mine = tensor.clone()
                work = dist.all_reduce(mine, async_op=asynchronous)
                if asynchronous:
                    work.wait()
                assert torch.equal(mine.cpu(), expected.to(dtype)), (dtype, count, asynchronous)
    mine = torch.full((1000,), float(rank), device="cuda")
    dist.broadcast(mine, size - 1)
    assert torch.all(mine == size - 1)
    mine = torch.full((1000,), float(rank), device="cuda")
    dist.reduce(mine, 0, op=dist.ReduceOp.MAX)
    assert rank != 0 or torch.all(mine == size - 1)
    outputs = [torch.empty(70, 3, device="cuda") for _ in range(size)]
    dist.all_gather(outputs, torch.full((70, 3), float(rank), device="cuda"))
    assert all(torch.all(output == i) for i, output in enumerate(outputs))
    outputs = [torch.empty(5 + i, device="cuda") for i in range(size)]  # of different lengths
    dist.all_gather(outputs, torch.full((5 + rank,), float(rank), device="cuda"))
    assert all(torch.all(output == i) for i, output in enumerate(outputs))
    whole = torch.empty(size * 1000, device="cuda")
    dist.all_gather_into_tensor(whole, torch.full((1000,), float(rank), device="cuda"))
    assert torch.equal(whole.cpu(), torch.arange(size).repeat_interleave(1000).float())
    part = torch.empty(1000, device="cuda")
    dist.reduce_scatter_tensor(part, whole + rank, op=dist.ReduceOp.SUM)
    assert torch.all(part == size * rank + size * (size - 1) / 2)
    source, target = torch.arange(size * 7, device="cuda") + 100 * rank, torch.empty(size * 7, device="cuda", dtype=torch.int64)
    dist.all_to_all_single(target, source)
    assert torch.equal(target.cpu().view(size, 7), torch.stack([torch.arange(7) + 7 * rank + 100 * i for i in range(size)]))
    if rank == 0:
        got = [torch.empty(3, device="cuda") for _ in range(size)]
        dist.gather(torch.zeros(3, device="cuda"), got)
        assert all(torch.all(each == i) for i, each in enumerate(got))
        dist.scatter(torch.empty(3, device="cuda"), [each + 1 for each in got])
    else:
        dist.gather(torch.full((3,), float(rank), device="cuda"))
        mine = torch.empty(3, device="cuda")
        dist.scatter(mine)
        assert torch.all(mine == rank + 1)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank, "there": on([rank]).cpu()})
    assert [each["rank"] for each in objects] == list(range(size))
    dist.barrier()


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_collectives(ranks, size):
    ranks(size, collectives)


def keep_busy(milliseconds):
    torch.cuda._sleep(int(milliseconds * 1.5e6))


def streams(rank, size):
    """A call begins after what the current stream holds, whichever that is, and its result is there for all streams."""
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream(), torch.cuda.Stream(priority=-1)):
        for asynchronous in (False, True):
            for _ in range(3):
                with torch.cuda.stream(stream):
                    tensor = torch.zeros(100_000, device="cuda")
                    keep_busy(5)
                    tensor += rank + 1
                    work = dist.all_reduce(tensor, async_op=asynchronous)
                    if asynchronous:
                        keep_busy(5)  # what comes behind it in the stream does not wait for it, nor it for that
                        work.wait()
                    doubled = tensor * 2
                with torch.cuda.stream(torch.cuda.Stream()):
                    again = tensor * 2
                torch.cuda.synchronize()
                assert torch.all(doubled == size * (size + 1)) and torch.all(again == size * (size + 1))
    # Parts that are not plain runs of elements go through copies, in and out.
    tensor = torch.zeros(1000, 2, device="cuda")
    tensor[:, 0] = rank + 1
    work = dist.all_reduce(tensor[:, 0], async_op=True)
    with torch.cuda.stream(torch.cuda.Stream()):
        work.wait()
        assert torch.all(tensor[:, 0] == size * (size + 1) / 2) and torch.all(tensor[:, 1] == 0)


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_streams(ranks, size):
    ranks(size, streams)


def futures(rank, size):
    """Results of futures are right on streams of any priority, also where many are under way."""
    tensors = [torch.full((n * 1000,), float(rank + n), device="cuda") for n in range(1, 20)]
    many = [dist.all_reduce(tensor, async_op=True).get_future() for tensor in tensors]
    with torch.cuda.stream(torch.cuda.Stream(priority=-1)):
        for n, future in enumerate(many, 1):
            result = future.wait()[0] + 1
            assert torch.all(result == size * n + size * (size - 1) / 2 + 1)
    chained = dist.all_reduce(torch.ones(5, device="cuda"), async_op=True).get_future().then(lambda done: done.value()[0] * 2)
    assert torch.all(chained.wait() == 2 * size)
    # A part with gaps, whose copy back is made by the thread that completes futures.
    gaps = torch.zeros(1000, 2, device="cuda")
    gaps[:, 0] = 1
    future = dist.all_reduce(gaps[:, 0], async_op=True).get_future()
    with torch.cuda.stream(torch.cuda.Stream()):
        assert torch.all(future.wait()[0] == size)
    # Works that nobody asks about keep their memory until they end: rank 0 drops them and their inputs at once, and the
    # others have the sums of what was in them.
    kept = []
    for call in range(30):
        tensor = torch.full((200_000,), float(rank + call), device="cuda")
        work = dist.all_reduce(tensor, async_op=True)
        if rank != 0:
            kept.append((work, tensor))
        del work, tensor
        torch.full((200_000,), float("nan"), device="cuda")  # takes the memory that was given back
    gc.collect()
    torch.cuda.empty_cache()
    for call, (work, tensor) in enumerate(kept):
        work.wait()
        assert torch.all(tensor == size * call + size * (size - 1) / 2), call
    dist.barrier()


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_futures(ranks, size):
    ranks(size, futures)


def messages(rank, size):
    left, right = (rank - 1) % size, (rank + 1) % size
    for count in (1, 1000, 500_000):
        sent, got = torch.full((count,), float(rank), device="cuda"), torch.empty(count, device="cuda")
        work = dist.isend(sent, right)
        dist.recv(got, left)
        work.wait()
        assert torch.all(got == left)
        got.zero_()
        batch = [dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, got, left)]
        for each in dist.batch_isend_irecv(batch):
            each.wait()
        assert torch.all(got == left)
    tensors = [torch.full((100 * n,), float(rank), device="cuda") for n in range(1, 5)]
    with dist._coalescing_manager(device=torch.device("cuda"), async_ops=True) as together:
        for tensor in tensors:
            dist.all_reduce(tensor)
    together.wait()
    assert all(torch.all(tensor == size * (size - 1) / 2) for tensor in tensors)


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_messages(ranks, size):
    ranks(size, messages)


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 8))


def ddp(rank, size):
    """The gradients of DDP are the means of those that each rank computes by itself."""
    plain, wrapped = network().cuda(), DistributedDataParallel(network().cuda(), bucket_cap_mb=0.1)
    for step in range(3):
        torch.manual_seed(step)
        x, y = torch.randn(size * 8, 64, device="cuda"), torch.randn(size * 8, 8, device="cuda")
        plain.zero_grad()
        nn.functional.mse_loss(plain(x), y).backward()
        wrapped.zero_grad()
        part = slice(8 * rank, 8 * rank + 8)
        nn.functional.mse_loss(wrapped(x[part]), y[part]).backward()
        for one, other in zip(plain.parameters(), wrapped.parameters(), strict=True):
            assert torch.allclose(one.grad, other.grad, atol=1e-5)


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_ddp(ranks, size):
    ranks(size, ddp)


def sharded(rank, size):
    """FSDP2 and DTensor on a mesh of the GPU."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (size,))
    plain, model = network().cuda(), network().cuda()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    x, y = torch.randn(size * 8, 64, device="cuda"), torch.randn(size * 8, 8, device="cuda")
    dist.broadcast(x, 0)
    dist.broadcast(y, 0)
    nn.functional.mse_loss(plain(x), y).backward()
    part = slice(8 * rank, 8 * rank + 8)
    nn.functional.mse_loss(model(x[part]), y[part]).backward()
    for one, other in zip(plain.parameters(), model.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad.full_tensor(), atol=1e-5)
    whole = torch.arange(size * 6.0, device="cuda").view(size * 2, 3)
    cut = distribute_tensor(whole, mesh, [Shard(0)])
    assert torch.equal((cut * 2).redistribute(mesh, [Replicate()]).to_local(), whole * 2)


@needs_gpu
@pytest.mark.parametrize("size", SIZES)
def test_sharded(ranks, size):
    ranks(size, sharded)


def refused(rank, size):
    """What cannot be is told, and the group goes on."""
    tensor = torch.ones(1000, device="cuda")
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph, other = torch.cuda.CUDAGraph(), torch.ones(1000, device="cuda")
    with pytest.raises(Exception, match="captured into a CUDA graph"):
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            dist.all_reduce(other)
    torch.cuda.synchronize()
    quantised = tutti.torch._backend.Quantised(tutti.torch._backend_of(None), "int8", 64, False)
    with pytest.raises(ValueError, match="values is on cuda.*lies in CPU memory"):
        quantised.average(tensor, None)
    with pytest.raises(ValueError, match="different devices"):
        dist.all_gather([torch.ones(3)] + [torch.ones(3, device="cuda")] * (size - 1), torch.ones(3))
    dist.all_reduce(other)
    assert torch.all(other == size)


@needs_gpu
def test_refused(ranks):
    ranks(2, refused)
