"""tutti.torch.hooks: gradients in fewer bytes, the same bits on every rank, and what was lost is made up for."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch
from tutti.torch import hooks

WIDTH = 48


def wrap(layers=3, dtype=torch.float32, group=None):
    """Layers that are a bucket each."""
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))).to(dtype)
    return DistributedDataParallel(model, bucket_cap_mb=1e-3, process_group=group)


def gradients(model, rank, step=0):
    model.zero_grad()
    generator = torch.Generator().manual_seed(100 * step + rank)
    inputs = torch.randn(16, WIDTH, generator=generator).to(next(model.parameters()).dtype)
    model(inputs).float().square().mean().backward()
    return torch.cat([parameter.grad.reshape(-1) for parameter in model.parameters()]).float()


def everyones(tensor):
    rows = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(rows, tensor)
    return rows


def distance(one, other):
    return ((one - other).norm() / other.norm()).item()


def made(name, **settings):
    return getattr(hooks, name)(**settings)


# Hooks with settings by which a gradient loses something, but not all, and how much at most in a single call.
LOSSY = [("int8", {}, 0.02), ("int4", {}, 0.3)]


def approximate(rank, size, name, settings, most, dtype):
    """A gradient is near the plain average and alike on all ranks, and the mean of many comes nearer with feedback."""
    plain = gradients(wrap(dtype=dtype), rank)
    nearest = 2e-2 if dtype == torch.bfloat16 else 1e-3
    off = {}
    for feedback in (True, False):
        model = wrap(dtype=dtype)
        model.register_comm_hook(None, made(name, error_feedback=feedback, **settings))
        total = torch.zeros_like(plain)
        for _ in range(40):
            found = gradients(model, rank)
            assert all(torch.equal(found, other) for other in everyones(found))
            total += found
        once, off[feedback] = distance(found, plain), distance(total / 40, plain)
        assert nearest / 20 < once < most, once
    assert off[True] < max(off[False] / 3, nearest), off


@pytest.mark.parametrize("name, settings, most", LOSSY)
def test_approximate(ranks, name, settings, most):
    for size in (2, 3):
        ranks(size, approximate, name, settings, most, torch.float32)


@pytest.mark.parametrize("name, settings, most", LOSSY[:1])
def test_bfloat16(ranks, name, settings, most):
    ranks(2, approximate, name, settings, most, torch.bfloat16)


def late(rank, size, name, settings):
    """The first steps are as without a hook, to the bit."""
    plain, model = wrap(), wrap()
    model.register_comm_hook(None, made(name, from_step=2, **settings))
    for step in range(4):
        same = torch.equal(gradients(model, rank, step), gradients(plain, rank, step))
        assert same == (step < 2), step


@pytest.mark.parametrize("name, settings", [row[:2] for row in LOSSY])
def test_from_step(ranks, name, settings):
    ranks(2, late, name, settings)


def said_by(model, hook, rank):
    for step in range(2):  # buckets are made anew after the first
        gradients(model, rank, step)
    with tutti.torch.step_report(steps=3, group=hook) as report:
        for step in range(3):
            gradients(model, rank, step)
    return {phrase["verb"]: phrase["bytes"] * phrase["times"] for phrase in report.json()["each_step"]}


def int8_bytes(rank, size):
    model, hook = wrap(layers=1), hooks.int8(block=64)
    model.register_comm_hook(None, hook)
    chunk = -(-(WIDTH * WIDTH + WIDTH) // size)
    encoded = chunk + 4 * -(-chunk // 64)
    assert said_by(model, hook, rank) == {"all_to_all": size * (8 + encoded), "all_gather": size * encoded}


def test_bytes_of_int8(ranks):
    ranks(2, int8_bytes)
    ranks(3, int8_bytes)


def not_finite(rank, size, name, settings):
    model = wrap()
    model.register_comm_hook(None, made(name, **settings))
    gradients(model, rank)
    model.zero_grad()
    inputs = torch.randn(16, WIDTH)
    if rank == 1:
        inputs[3, 5] = float("inf")
    words = r"rank 1.*not finite.*of 2\.(weight|bias)" if rank == 1 else "not finite"
    words = words if name.startswith("int") or rank == 0 else r"rank 1.*of 2\.(weight|bias) is not finite"
    with pytest.raises(RuntimeError, match=words):
        model(inputs).square().mean().backward()


def passed_on(rank, size, name, settings):
    model = wrap()
    model.register_comm_hook(None, made(name, not_finite="pass", **settings))
    before = gradients(model, rank)
    model.zero_grad()
    inputs = torch.randn(16, WIDTH)
    if rank == 1:
        inputs[3, 5] = float("nan")
    model(inputs).square().mean().backward()
    assert not torch.isfinite(model.module[0].weight.grad).all()
    after = gradients(model, rank)
    assert torch.isfinite(after).all() and distance(after, before) < 2


@pytest.mark.parametrize("name, settings", [row[:2] for row in LOSSY])
def test_not_finite(ranks, name, settings):
    ranks(2, not_finite, name, settings)
    ranks(2, passed_on, name, settings)


def refused(rank, size):
    hook = hooks.int8()
    with pytest.raises(ValueError, match="int8 serves no model"):
        tutti.torch.step_report(group=hook)
    with pytest.raises(ValueError, match="here the backend is gloo"):
        wrap(group=dist.new_group(backend="gloo")).register_comm_hook(None, hook)
    with pytest.raises(ValueError, match=r"0\.weight is torch\.float64, which cannot be compressed"):
        wrap(dtype=torch.float64).register_comm_hook(None, hook)
    with pytest.raises(ValueError, match=r"different hooks: rank 0 int8\(block=32.*rank 1 int8\(block=64"):
        wrap().register_comm_hook(None, hooks.int8(block=32 << rank))
    with pytest.raises(ValueError, match=r"different hooks: rank 0 int8.*rank 1 int4"):
        wrap().register_comm_hook(None, hooks.int4() if rank else hook)
    wrap().register_comm_hook(None, hook)
    with pytest.raises(ValueError, match="this int8 serves another model"):
        wrap().register_comm_hook(None, hook)
    sparse = DistributedDataParallel(nn.Embedding(10, 4, sparse=True))
    sparse.register_comm_hook(None, hooks.int8())
    with pytest.raises(ValueError, match="sparse gradients cannot be compressed"):
        sparse(torch.tensor([1, 2])).sum().backward()
    dist.barrier()


def test_refused(ranks):
    ranks(2, refused)


@pytest.mark.parametrize(
    "name, settings, words",
    [
        ("int8", {"block": 100}, "int8: a block of 100 values; give a power of two from 32 to 4096"),
        ("int8", {"from_step": -1}, "int8: from_step is how many steps"),
        ("int4", {"not_finite": "skip"}, 'not_finite is "fail" or "pass"'),
    ],
)
def test_settings(name, settings, words):
    with pytest.raises(ValueError, match=words):
        made(name, **settings)
