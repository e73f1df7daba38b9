"""What torch.profiler exports, over any backend, as `tutti trace` tells it."""

import json
import os
import pathlib
import subprocess

import pytest
import torch
import torch.distributed as dist

STEPS = 3
ELEMENTS = 100_000
TOOL = pathlib.Path(os.environ["TUTTI_TOOL"])


def profiled(rank, size, folder):
    from torch.profiler import ProfilerActivity, profile, schedule

    weight, gradient = torch.randn(300, 300), torch.ones(ELEMENTS)
    path = str(pathlib.Path(folder) / f"{rank}.json")
    with profile(
        activities=[ProfilerActivity.CPU], record_shapes=True,
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(path),
    ) as profiler:
        for _ in range(1 + STEPS):
            for _ in range(20 if rank == 1 else 1):
                weight @ weight
            dist.all_reduce(gradient)
            profiler.step()


@pytest.mark.skipif(not TOOL.exists(), reason="the tutti command is not built")
@pytest.mark.parametrize("backend", ["tutti", "gloo"])
def test_trace_of_a_profile(ranks, tmp_path, backend):
    ranks(2, profiled, str(tmp_path), backend=backend)
    command = [TOOL, "trace", "--json", tmp_path / "0.json", tmp_path / "1.json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert (told["recorder"], told["ranks"], told["notes"]) == ("torch.profiler", 2, [])
    assert len(told["steps"]) == STEPS
    verbs = {row["verb"]: row for row in told["verbs"]}
    assert verbs["all_reduce"]["calls"] == STEPS and verbs["all_reduce"]["bytes"] == STEPS * ELEMENTS * 4
    assert verbs["all_reduce"]["busbw"] > 0
    mean = told["mean"]["mean"]
    assert mean["compute_us"] > 0 and 0 < mean["gamma_exposed"] <= mean["gamma_raw"]
    parts = mean["compute_us"] + mean["exposed_us"] + mean["waiting_us"] + mean["other_us"]
    assert parts == pytest.approx(mean["span_us"])
