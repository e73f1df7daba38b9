"""tutti.torch.hooks: gradients in fewer bytes, the same bits on every rank, and what was lost is made up for."""

import functools

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
LOSSY = [
    ("int8", {}, 0.02),
    ("int4", {}, 0.3),
    ("topk", {"share": 0.25}, 3),
    ("power_sgd", {"rank": 8}, 3),
    ("one_bit", {}, 3),
]


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


@pytest.mark.parametrize("name, settings, most", [LOSSY[0], LOSSY[4]])
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


def bytes_of(name, size):
    """Of a layer's step, by the formulas of the hooks' documentation."""
    matrix, bias = WIDTH * WIDTH, 4 * WIDTH
    if name == "int8":
        chunk = -(-(matrix + WIDTH) // size)
        encoded = chunk + 4 * -(-chunk // 128)
        return {"all_to_all": size * (8 + encoded), "all_gather": size * encoded}
    if name == "topk":
        return {"all_reduce": bias, "all_gather": size * 8 * round(0.01 * matrix)}
    if name == "power_sgd":
        return {"all_reduce": bias + 4 * 2 * WIDTH + 4 * 2 * WIDTH}
    piece = -(-matrix // (32 * size)) * 32
    return {"all_reduce": bias, "all_to_all": size * (piece // 8 + 4), "all_gather": size * (piece // 8 + 4)}


def counted(rank, size, name):
    model, hook = wrap(layers=1), made(name)
    model.register_comm_hook(None, hook)
    assert said_by(model, hook, rank) == bytes_of(name, size)


@pytest.mark.parametrize("name", ["int8", "topk", "power_sgd", "one_bit"])
def test_bytes(ranks, name):
    ranks(2, counted, name)
    ranks(3, counted, name)


def not_finite(rank, size, name, settings):
    model = wrap()
    model.register_comm_hook(None, made(name, **settings))
    gradients(model, rank)
    model.zero_grad()
    inputs = torch.randn(16, WIDTH)
    if rank == 1:
        inputs[3, 5] = float("inf")
    with pytest.raises(RuntimeError, match="not finite") as caught:
        model(inputs).square().mean().backward()
    if rank == 1:
        assert "rank 1: " in str(caught.value) and "the gradient of 2." in str(caught.value), caught.value
    elif not name.startswith("int"):
        assert "a gradient of another rank is not finite" in str(caught.value), caught.value


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
    assert torch.isfinite(after).all() and distance(after, before) < 5


@pytest.mark.parametrize("name, settings", [row[:2] for row in LOSSY])
def test_not_finite(ranks, name, settings):
    ranks(2, not_finite, name, settings)
    ranks(2, passed_on, name, settings)


def moving(rank, size):
    """topk's momentum is that of SGD where nothing waits: in the first steps, and of tensors that go uncompressed."""
    plain, model = wrap(), wrap()
    model.register_comm_hook(None, hooks.topk(momentum=0.9, from_step=3))
    velocity = 0
    biases = torch.cat([torch.full((each.numel(),), each.dim() == 1) for each in plain.parameters()])
    for step in range(6):
        velocity = 0.9 * velocity + gradients(plain, rank, step)
        found = gradients(model, rank, step)
        assert torch.allclose(found[biases], velocity[biases], atol=1e-6), step
        assert torch.allclose(found, velocity, atol=1e-6) == (step < 3), step


def test_momentum(ranks):
    ranks(2, moving)


def test_frozen_adamw():
    """AdamW to the bit until variances are frozen, and its formula with those variances afterwards."""
    torch.manual_seed(1)
    ours = [torch.randn(5, 3, requires_grad=True), torch.randn(3, requires_grad=True)]
    theirs = [each.detach().clone().requires_grad_() for each in ours]
    frozen, plain = hooks.FrozenAdamW(ours, freeze_after=4, lr=0.01), torch.optim.AdamW(theirs, lr=0.01)
    for step in range(8):
        for one, other in zip(ours, theirs):
            one.grad = torch.randn_like(one) * (step + 1)
            other.grad = one.grad.clone()
        before = [each.detach().clone() for each in ours]
        frozen.step()
        plain.step()
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs)) == (step < 4), step
        if step == 3:
            variances = [frozen.state[each]["exp_avg_sq"].clone() for each in ours]
        if step > 3:
            for one, was, variance in zip(ours, before, variances):
                mean = plain.state[theirs[0 if one is ours[0] else 1]]["exp_avg"] / (1 - 0.9 ** (step + 1))
                moved = mean / ((variance / (1 - 0.999**4)).sqrt() + 1e-8)
                assert torch.allclose(one, was * (1 - 0.01 * 0.01) - 0.01 * moved, atol=1e-6), step


# A task on which what a hook loses matters: ranks see different data, so that their gradients are large where the
# average is small, and what there is to learn has no few directions that matter.
FEATURES, STEPS = 64, 300


def rotation(seed):
    return torch.linalg.qr(torch.randn(FEATURES, FEATURES, generator=torch.Generator().manual_seed(seed))).Q


def examples(count, seed, bias):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, FEATURES, generator=generator)
    noise = 0.7 * torch.randn(count, FEATURES, generator=generator)
    return inputs, inputs @ (rotation(1) + bias * rotation(2)) + noise


@functools.cache
def trained(rank, name, feedback):
    """The loss, on examples of all ranks' mean, of a network of 10^5 weights after 300 steps."""
    torch.manual_seed(3)
    hidden = 4 * FEATURES
    layers = (nn.Linear(FEATURES, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, FEATURES))
    model = DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.2)
    if name is not None:
        model.register_comm_hook(None, made(name, error_feedback=feedback, from_step=50))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.8)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.02, STEPS)
    for step in range(STEPS):
        inputs, targets = examples(64, 10 * step + rank, bias=1 - 2 * rank)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(inputs), targets).backward()
        optimizer.step()
        decay.step()
    with torch.no_grad():
        inputs, targets = examples(4096, 10**6, bias=0)
        return nn.functional.mse_loss(model.module(inputs), targets).item()


def learns(rank, size, name):
    plain, found = trained(rank, None, None), trained(rank, name, True)
    assert abs(found / plain - 1) < 0.02, (found, plain)
    if not name.startswith("int"):
        without = trained(rank, name, False)
        assert abs(without / plain - 1) > 0.02, (without, plain)


@pytest.mark.parametrize("name", ["int8", "int4", "topk", "power_sgd", "one_bit"])
def test_learns(ranks, name):
    ranks(2, learns, name)


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
    with pytest.raises(ValueError, match=r"different hooks: rank 0 int8.*rank 1 topk\(error_feedback=True, share=0.01"):
        wrap().register_comm_hook(None, hooks.topk() if rank else hook)
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
        ("topk", {"share": 0}, "topk: a share of 0; give one above 0 and up to 1"),
        ("topk", {"share": 1.5}, "topk: a share of 1.5"),
        ("topk", {"momentum": 1}, "topk: a momentum of 1; give one from 0 to below 1"),
        ("power_sgd", {"rank": 0}, "power_sgd: a rank of 0; give a whole number from 1 on"),
        ("one_bit", {"from_step": 0.5}, "one_bit: from_step is how many steps"),
        ("FrozenAdamW", {"params": [], "freeze_after": 0}, "freeze_after=0; give a whole number of steps"),
    ],
)
def test_settings(name, settings, words):
    with pytest.raises(ValueError, match=words):
        made(name, **settings)
