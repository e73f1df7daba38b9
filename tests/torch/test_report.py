"""What a training step calls and waits for, as tutti.torch.step_report tells it."""

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import tutti.torch

WIDTH = 64
STEPS = 4


def train(model, steps, examples=8):
    for _ in range(steps):
        model(torch.randn(examples, WIDTH)).square().mean().backward()
        model.zero_grad()


def said_by(report):
    return {phrase["verb"]: phrase for phrase in report.json()["each_step"]}


def report_ddp(rank, size):
    model = DistributedDataParallel(nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)))
    train(model, 2)  # buckets are made anew after the first
    with tutti.torch.step_report(steps=STEPS) as report:
        train(model, STEPS, 8 if rank == 0 else 20_000)  # so that rank 0 waits
    numbers = 2 * (WIDTH * WIDTH + WIDTH)
    said = said_by(report)
    assert list(said) == ["all_reduce"], said
    reduced = said["all_reduce"]
    assert reduced["bytes"] * reduced["times"] == 4 * numbers and reduced["ranks"] == size, reduced
    # DDP waits for a future, which the report must not overlook.
    assert reduced["exposed_us"] <= reduced["under_way_us"] and (rank > 0 or reduced["exposed_us"] > 0), reduced
    whole = report.json()
    assert whole["total_us"] >= whole["computing_us"] > 0 and whole["gamma_raw"] >= whole["gamma_exposed"], whole
    assert "calls of this rank, 2 ranks, after 4 steps" in str(report) and "exposed" in str(report)


def test_ddp(ranks):
    ranks(2, report_ddp)


def report_fsdp(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    model = nn.Sequential(*(fully_shard(nn.Linear(WIDTH, WIDTH), mesh=mesh) for _ in range(3)))
    fully_shard(model, mesh=mesh)
    train(model, 1)
    with tutti.torch.step_report(steps=STEPS, group=mesh.get_group()) as report:
        train(model, STEPS)
    said = said_by(report)
    assert said["all_gather"]["times"] >= 3 and said["reduce_scatter"]["times"] == 3, said
    assert said["reduce_scatter"]["under_way_us"] > 0, said


def test_fsdp2(ranks):
    ranks(2, report_fsdp)


def report_mistakes(rank, size):
    with tutti.torch.step_report() as report:
        dist.all_reduce(torch.ones(3))
        report.steps = 0
    with pytest.raises(ValueError, match="0 steps"):
        str(report)
    with pytest.raises(ValueError, match="once the `with` has ended"):
        str(tutti.torch.step_report())
    with pytest.raises(ValueError, match="not tutti"):
        tutti.torch.step_report(group=dist.new_group(backend="gloo"))


def test_mistakes(ranks):
    ranks(2, report_mistakes)
