"""What trains over the backend: DDP, FSDP2, DTensor, pipelines, ZeRO, SyncBatchNorm, Join, against one process alone."""

import copy
import os
import pickle
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from samples import is_shared
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tutti.torch


class Net(nn.Module):
    def __init__(self, unused=False):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.second = nn.Linear(32, 4)
        if unused:
            self.spare = nn.Linear(8, 4)

    def forward(self, x, spare=False):
        y = self.second(torch.relu(self.first(x)))
        return y + self.spare(x) if spare else y


def make(unused=False):
    torch.manual_seed(1)
    return Net(unused)


def batch(step, rank, size, rows=4):
    """Rank r's rows of a batch that one process could take whole."""
    generator = torch.Generator().manual_seed(step)
    x, y = torch.randn(rows * size, 8, generator=generator), torch.randn(rows * size, 4, generator=generator)
    return x[rank * rows : (rank + 1) * rows], y[rank * rows : (rank + 1) * rows]


def train_alone(steps, size, lr=0.05):
    model = make()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    for step in range(steps):
        x, y = (torch.cat(parts) for parts in zip(*[batch(step, r, size) for r in range(size)]))
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def close(model, expected, tolerance=1e-5):
    got = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return all(torch.allclose(a.detach(), b, atol=tolerance) for a, b in zip(got, expected))


def train(model, optimizer, rank, size):
    for step in range(5):
        x, y = batch(step, rank, size)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()


def ddp(rank, size, settings, hook):
    model = DistributedDataParallel(make(), bucket_cap_mb=0.0005, **settings)
    if hook is not None:
        model.register_comm_hook(None, getattr(default_hooks, hook))
    train(model, torch.optim.SGD(model.parameters(), lr=0.05), rank, size)
    assert close(model, train_alone(5, size), 1e-5 if hook in (None, "allreduce_hook") else 1e-2)


@pytest.mark.parametrize(
    "settings, hook",
    [
        ({}, None),
        ({"gradient_as_bucket_view": True}, None),
        ({"static_graph": True}, None),
        ({"find_unused_parameters": True}, None),
        ({}, "allreduce_hook"),
        ({}, "fp16_compress_hook"),
        ({"gradient_as_bucket_view": True}, "bf16_compress_hook"),
    ],
)
def test_ddp(ranks, settings, hook):
    ranks(2, ddp, settings, hook)


def ddp_variants(rank, size):
    # Ranks use different parameters; what nobody used keeps no gradient.
    model = DistributedDataParallel(make(unused=True), find_unused_parameters=True)
    x, y = batch(0, rank, size)
    nn.functional.mse_loss(model(x, spare=rank == 0), y).backward()
    assert model.module.spare.weight.grad is not None
    gathered = [torch.empty_like(model.module.spare.weight) for _ in range(size)]
    dist.all_gather(gathered, model.module.spare.weight.grad)
    assert all(torch.equal(part, gathered[0]) for part in gathered)
    # no_sync: gradients of two batches, exchanged once.
    alone, model = make(), DistributedDataParallel(make())
    with model.no_sync():
        nn.functional.mse_loss(model(batch(1, rank, size)[0]), batch(1, rank, size)[1]).backward()
    nn.functional.mse_loss(model(batch(2, rank, size)[0]), batch(2, rank, size)[1]).backward()
    for step in (1, 2):
        for r in range(size):
            (nn.functional.mse_loss(alone(batch(step, r, size)[0]), batch(step, r, size)[1]) / size).backward()
    for a, b in zip(model.module.parameters(), alone.parameters()):
        assert torch.allclose(a.grad, b.grad, atol=1e-6)
    # A hook in Python that chains futures.
    model = DistributedDataParallel(make())

    def doubled(state, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        return work.get_future().then(lambda done: done.value()[0] * (2 / size))

    model.register_comm_hook(None, doubled)
    nn.functional.mse_loss(model(x), y).backward()
    plain = DistributedDataParallel(make())
    nn.functional.mse_loss(plain(x), y).backward()
    for a, b in zip(model.parameters(), plain.parameters()):
        assert torch.allclose(a.grad, 2 * b.grad, atol=1e-6)


def buckets(wanted):
    return mock.patch.dict(os.environ, TUTTI_SHARED_BUCKETS=wanted)


def shared_buckets(rank, size):
    """As without, bit for bit; and the buckets, which gradients are views of here, are where they should be."""
    settings = {"gradient_as_bucket_view": True, "bucket_cap_mb": 1}
    trained = []
    for wanted in ("0", "1"):
        torch.manual_seed(1)
        layers = nn.Sequential(*(nn.Linear(300, 300) for _ in range(6)))
        with buckets(wanted):
            model = DistributedDataParallel(layers, **settings)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        for step in range(4):
            optimizer.zero_grad()
            model(torch.full((2, 300), (step + rank) / 4)).square().mean().backward()
            optimizer.step()
        trained.append(model)
    plain, ours = trained
    assert not any(is_shared(parameter.grad) for parameter in plain.parameters())
    assert all(is_shared(parameter.grad) for parameter in ours.parameters())
    assert all(torch.equal(a, b) for a, b in zip(plain.parameters(), ours.parameters(), strict=True))
    again = pickle.loads(pickle.dumps(ours))
    again(torch.ones(2, 300)).mean().backward()
    assert all(is_shared(parameter.grad) for parameter in again.parameters())
    # Other groups' buckets are left alone, and what the variable may be is said.
    gloo = dist.new_group(backend="gloo")
    other = DistributedDataParallel(nn.Linear(300, 300), process_group=gloo, gradient_as_bucket_view=True)
    other(torch.ones(2, 300)).mean().backward()
    assert not is_shared(other.module.weight.grad)
    with buckets("yes"), pytest.raises(ValueError, match="TUTTI_SHARED_BUCKETS=yes: must be 0 or 1"):
        DistributedDataParallel(nn.Linear(300, 300))


def test_ddp_shared_buckets(ranks):
    ranks(2, shared_buckets)


def compiled_ddp(rank, size):
    """torch.compile meets the Reducer of ours as it meets torch's."""
    model = torch.compile(DistributedDataParallel(make()), backend="eager")
    train(model, torch.optim.SGD(model.parameters(), lr=0.05), rank, size)
    assert close(model, train_alone(5, size))


def test_ddp_compiled(ranks):
    ranks(2, compiled_ddp)


def sparse_gradients(rank, size):
    torch.manual_seed(1)
    table = nn.EmbeddingBag(10, 3, sparse=True)
    alone = copy.deepcopy(table)
    wanted = [torch.tensor([[r, 2], [2, 9 - r]]) for r in range(size)]
    model = DistributedDataParallel(table)
    model(wanted[rank]).square().sum().backward()
    (sum(alone(words).square().sum() for words in wanted) / size).backward()
    assert table.weight.grad.is_sparse
    assert torch.allclose(table.weight.grad.to_dense(), alone.weight.grad.to_dense())


def test_ddp_sparse_gradients(ranks):
    ranks(3, sparse_gradients)


def test_ddp_variants(ranks):
    ranks(3, ddp_variants)


def uneven_inputs(rank, size):
    model = DistributedDataParallel(make())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05)
    with Join([model, optimizer]):
        for step in range(3 + rank):
            x, y = batch(step, rank, size)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    first = [parameter.detach().clone() for parameter in model.parameters()]
    for parameter in first:
        dist.broadcast(parameter, 0)
    assert close(model, first, 0)


def test_join_and_zero(ranks):
    ranks(2, uneven_inputs)


def zero(rank, size):
    model = DistributedDataParallel(make())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.05)
    train(model, optimizer, rank, size)
    assert close(model, train_alone(5, size))
    optimizer.consolidate_state_dict(0)


def test_zero(ranks):
    ranks(3, zero)


def fsdp(rank, size, from_group):
    from torch.distributed.fsdp import fully_shard

    model = make()
    for layer in (model.first, model.second):
        fully_shard(layer)
    fully_shard(model)
    if from_group:
        model.set_allocate_memory_from_process_group_for_comm(True)
    train(model, torch.optim.SGD(model.parameters(), lr=0.05), rank, size)
    assert close(model, train_alone(5, size))


@pytest.mark.parametrize("from_group", [False, True])
def test_fsdp2(ranks, from_group):
    if from_group:
        from torch.distributed.fsdp import FSDPModule

        if not hasattr(FSDPModule, "set_allocate_memory_from_process_group_for_comm"):
            pytest.skip("this PyTorch does not ask the group for memory")
    ranks(2, fsdp, from_group)


def dtensor(rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    mesh = init_device_mesh("cpu", (size,))
    full = torch.arange(size * 6.0).reshape(size * 2, 3)
    cut = distribute_tensor(full, mesh, [Shard(0)])
    assert torch.equal(cut.full_tensor(), full)
    assert torch.equal(cut.redistribute(mesh, [Shard(1)]).full_tensor(), full)
    assert torch.equal(cut.redistribute(mesh, [Replicate()]).to_local(), full)
    partial = DTensor.from_local(torch.full((3,), rank + 1.0), mesh, [Partial()])
    assert torch.all(partial.full_tensor() == size * (size + 1) / 2)
    model = parallelize_module(make(), mesh, {"first": ColwiseParallel(), "second": RowwiseParallel()})
    x, _ = batch(0, 0, 1)
    assert torch.allclose(model(x), make()(x), atol=1e-6)
    grid = init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("rows", "columns")) if size % 2 == 0 else None
    if grid is not None:
        tensor = torch.ones(2)
        dist.all_reduce(tensor, group=grid.get_group("columns"))
        assert torch.all(tensor == size // 2)


def test_dtensor(ranks):
    ranks(2, dtensor)
    ranks(4, dtensor)


def functional(rank, size):
    import torch.distributed._functional_collectives as functional

    group = dist.group.WORLD
    assert torch.all(functional.all_reduce(torch.ones(3), "sum", group) == size)
    gathered = functional.all_gather_tensor(torch.full((2,), float(rank)), 0, group)
    assert torch.equal(gathered, torch.arange(float(size)).repeat_interleave(2))
    assert torch.all(functional.reduce_scatter_tensor(torch.ones(2 * size), "avg", 0, group) == 1)
    moved = functional.all_to_all_single(torch.full((size,), float(rank)), None, None, group)
    assert torch.equal(moved, torch.arange(float(size)))
    several = functional.all_reduce_coalesced([torch.ones(2), torch.ones(5)], "sum", group)
    assert all(torch.all(part == size) for part in several)
    several = functional.all_gather_into_tensor_coalesced([torch.ones(2), torch.ones(5)], group)
    assert [len(part) for part in several] == [2 * size, 5 * size]
    assert torch.all(functional.broadcast(torch.full((2,), float(rank)), 1, group) == 1)


def test_functional_collectives(ranks):
    ranks(2, functional)


def pipeline(rank, size):
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(3)
    layers = [nn.Linear(6, 6) for _ in range(size)]
    whole = copy.deepcopy(nn.Sequential(*layers))
    x, y = torch.randn(8, 6), torch.randn(8, 6)
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    arguments = (x,) if rank == 0 else ()
    output = schedule.step(*arguments, **({"target": y, "losses": []} if rank == size - 1 else {}))
    expected = whole(x)
    if rank == size - 1:
        assert torch.allclose(output, expected, atol=1e-6)
    parts = [nn.functional.mse_loss(e, t) / 4 for e, t in zip(expected.chunk(4), y.chunk(4))]
    sum(parts).backward()
    assert torch.allclose(layers[rank].weight.grad, whole[rank].weight.grad, atol=1e-6)


def test_pipeline(ranks):
    ranks(2, pipeline)
    ranks(3, pipeline)


def sync_batch_norm(rank, size):
    torch.manual_seed(2)
    whole = torch.randn(4 * size, 3, 5)
    try:
        synced = nn.SyncBatchNorm(3)
        got = synced(whole[4 * rank : 4 * rank + 4])
    except ValueError as error:
        assert "GPU" in str(error) or "cuda" in str(error).lower(), error
        return  # this PyTorch has it for GPUs alone
    assert torch.allclose(got, nn.BatchNorm1d(3)(whole)[4 * rank : 4 * rank + 4], atol=1e-5)


def test_sync_batch_norm(ranks):
    ranks(2, sync_batch_norm)
