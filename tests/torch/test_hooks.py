"""Hooks of DDP whose callbacks make collectives: every rank makes them in the same order, bucket after bucket."""

import contextlib
import inspect
import types
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import ddp_zero_hook, default_hooks, powerSGD_hook, quantization_hooks
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tutti.torch
from tutti.torch import _reducer

LAYERS = 12
STEPS = 6


def make():
    """Layers of different lengths, so that a tensor's length says which layer it is of: each is a bucket of DDP."""
    torch.manual_seed(1)
    widths = [9 + i for i in range(LAYERS + 1)]
    layers = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in zip(widths, widths[1:])))
    with mock.patch.object(dist, "_DEFAULT_FIRST_BUCKET_BYTES", 1):
        return DistributedDataParallel(layers, bucket_cap_mb=1e-6)


def loss_of(model, step, rank):
    generator = torch.Generator().manual_seed(100 * step + rank)
    return model(torch.randn(4, 9, generator=generator)).square().mean()


@contextlib.contextmanager
def noted(calls):
    """Notes the collectives of this process in `calls` while it lasts: (name, number of elements)."""

    def noting(name, tensor_at):
        function = getattr(dist, name)

        def call(*arguments, **settings):
            calls.append((name, arguments[tensor_at].numel()))
            return function(*arguments, **settings)

        return mock.patch.object(dist, name, call)

    with noting("all_reduce", 0), noting("broadcast", 0), noting("all_gather", 1):
        yield


def agree(calls):
    everyones = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, calls)
    return all(each == calls for each in everyones)


def train(model, hook, state, optimizer, rank):
    model.register_comm_hook(state, hook)
    calls = []
    with noted(calls):
        for step in range(STEPS):
            optimizer.zero_grad()
            loss_of(model, step, rank).backward()
            optimizer.step()
    return calls


def gradients(model, rank, hook=None, state=None):
    """Of STEPS backward passes, and the calls that they took."""
    if hook is not None:
        model.register_comm_hook(state, hook)
    calls, found = [], []
    with noted(calls):
        for step in range(STEPS):
            model.zero_grad()
            loss_of(model, step, rank).backward()
            found.append([parameter.grad.clone() for parameter in model.parameters()])
    return found, calls


def weights(model):
    return [parameter.detach() for parameter in model.parameters()]


def overlapped(rank, size, name):
    """ZeRO's steps inside the backward pass train as steps behind it do. The first two passes only gather facts."""
    plain = make()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.05)
    for step in range(STEPS):
        optimizer.zero_grad()
        loss_of(plain, step, rank).backward()
        if step >= 2:
            optimizer.step()
    model = make()
    zero = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, overlap_with_ddp=True, lr=0.05)
    hook = getattr(ddp_zero_hook, name)(default_hooks.allreduce_hook, model, zero)
    calls = train(model, hook, None, zero, rank)
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(weights(model), weights(plain), strict=True))
    assert agree(calls)
    if name.endswith("interleaved"):
        assert [name for name, _ in calls[-2 * LAYERS :]] == ["all_reduce", "broadcast"] * LAYERS, calls


@pytest.mark.skipif(
    tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 9),
    reason="this PyTorch keeps these hooks for backends of other names",
)
@pytest.mark.parametrize("name", ["hook_with_zero_step", "hook_with_zero_step_interleaved"])
def test_zero_overlapped(ranks, name):
    ranks(2, overlapped, name)
    ranks(3, overlapped, name)


def compressed(rank, size, hook, per_bucket, tolerance):
    """A bucket's calls come together: those of the next begin when they have ended."""
    if hook == "powerSGD_hook":  # of full rank, so that nothing is lost
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=21, min_compression_rate=0.01,
                                            start_powerSGD_iter=2, use_error_feedback=False, warm_start=False)
        function = powerSGD_hook.powerSGD_hook
    else:
        state, function = None, getattr(quantization_hooks, hook)
    expected, _ = gradients(make(), rank)
    found, calls = gradients(make(), rank, function, state)
    for one, other in zip(found, expected, strict=True):
        assert all(torch.allclose(a, b, atol=tolerance) for a, b in zip(one, other, strict=True))
    assert agree(calls)
    last = calls[-per_bucket * LAYERS :]
    buckets = [last[i : i + per_bucket] for i in range(0, len(last), per_bucket)]
    assert len(set(map(tuple, buckets))) == LAYERS, calls


@pytest.mark.parametrize(
    "hook, per_bucket, tolerance", [("powerSGD_hook", 3, 1e-5), ("quantization_pertensor_hook", 2, 2e-2)]
)
def test_compressed(ranks, hook, per_bucket, tolerance):
    if "quantization" in hook and "fut.wait()[0]" in inspect.getsource(quantization_hooks):
        pytest.skip("this PyTorch has written the hook for what NCCL's futures hold")
    ranks(2, compressed, hook, per_bucket, tolerance)


class OfAnyDevice:
    """Stands in for torch's Reducer, which takes no parameters of a GPU where there is none."""

    def __init__(self, params, *arguments):
        pass


def hook_of(device, group, hook):
    """What DDP would register for a model on such a device."""
    registered = []

    def register(reducer, state, hook):
        registered.append(hook)

    with mock.patch.object(dist, "Reducer", OfAnyDevice), mock.patch.object(dist, "_register_comm_hook", register):
        _reducer.install(tutti.torch._backend_of, tutti.torch.shared_tensors)
        reducer = dist.Reducer([types.SimpleNamespace(device=torch.device(device))], group)
        dist._register_comm_hook(reducer, None, hook)
        if device != "cpu":
            with pytest.raises(ValueError, match="whose parameters lie in CPU memory.*the device cuda"):
                reducer.attach(tutti.torch.hooks.int8())
    return registered[0]


def wrapped(rank, size):
    """Hooks are kept in order for models on every device whose tensors are Tutti's, and for no others."""
    both, mixed = dist.group.WORLD, dist.new_group(backend="cpu:tutti,cuda:gloo")
    theirs, one_call = powerSGD_hook.powerSGD_hook, default_hooks.allreduce_hook
    for device, group, ordered in (("cpu", both, True), ("cuda", both, True), ("cpu", mixed, True), ("cuda", mixed, False)):
        registered = hook_of(device, group, theirs)
        assert (registered is not theirs and registered.__wrapped__ is theirs) if ordered else registered is theirs
        assert hook_of(device, group, one_call) is one_call


def test_wrapped(ranks):
    ranks(2, wrapped)


def of_ones_own(rank, size):
    def twice(state, bucket):
        """Sums the sums of all ranks: a call, and another one in its callback."""
        first = dist.all_reduce(bucket.buffer().div_(size), async_op=True).get_future()
        return first.then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])

    expected, _ = gradients(make(), rank)
    found, calls = gradients(make(), rank, tutti.torch.in_order(twice))
    for one, other in zip(found, expected, strict=True):
        assert all(torch.allclose(a, size * b, atol=1e-6) for a, b in zip(one, other, strict=True))
    lengths = [length for _, length in calls]
    assert lengths[::2] == lengths[1::2] and agree(calls), calls

    def broken(state, bucket):
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda done: 1 / 0)

    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        gradients(make(), rank, tutti.torch.in_order(broken))
    dist.barrier()


def test_in_order(ranks):
    ranks(2, of_ones_own)
