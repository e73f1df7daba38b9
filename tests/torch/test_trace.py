"""What torch.profiler exports, over any backend, and what TUTTI_TRACE records, as `tutti trace` tells it."""

import json
import os
import pathlib
import subprocess
import threading
import time

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


# A rank that is late holds the other one up: DDP waits for its buckets' futures by itself, and not in a call of Tutti's.
def trained(rank, size):
    model = torch.nn.Sequential(*(torch.nn.Linear(500, 500) for _ in range(4)))
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(STEPS):
        loss = model(torch.ones(8, 500)).sum()
        if rank == 1:
            time.sleep(0.05)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


# Two threads that wait for two works: one of them drives, and the other one sleeps until the work has ended.
def waited_for_by_two(rank, size):
    gradients = [torch.ones(ELEMENTS) for _ in range(2)]
    if rank == 1:
        time.sleep(0.2)
    first, second = (dist.all_reduce(gradient, async_op=True) for gradient in gradients)
    driver = threading.Thread(target=first.wait)
    driver.start()
    time.sleep(0.05)
    second.wait()
    driver.join()


def recorded(ranks, tmp_path, monkeypatch, program):
    """The trace of processes that end: the last of them makes the file."""
    file = tmp_path / "run.json"
    monkeypatch.setenv("TUTTI_TRACE", str(file))
    own = type(ranks)()
    try:
        own(2, program)
        for _, connection in own._workers:
            connection.send(None)
        for process, _ in own._workers:
            process.wait(60)
    finally:
        own.stop()
    return json.loads(file.read_text())


def test_trace_of_ddp_has_what_it_waits_for(ranks, tmp_path, monkeypatch):
    trace = recorded(ranks, tmp_path, monkeypatch, trained)
    waits = [event for event in trace["traceEvents"] if event.get("cat") == "wait" and event["args"]["on"] == "work"]
    # tid % ranks is the rank, and row 0 the program's.
    long = [event for event in waits if event["tid"] == 0 and event["dur"] > 20_000]
    assert len(long) >= STEPS - 1, waits


@pytest.mark.skipif(not TOOL.exists(), reason="the tutti command is not built")
def test_gamma_of_ddp_is_not_nothing(ranks, tmp_path, monkeypatch):
    recorded(ranks, tmp_path, monkeypatch, trained)
    command = [TOOL, "trace", "--json", tmp_path / "run.json"]
    told = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    mean = told["mean"]["mean"]
    assert mean["communication_us"] > 0 and mean["exposed_us"] > 0, mean
    first = told["mean"]["ranks"][0]
    assert first["waiting_us"] > 20_000 * (STEPS - 1), first


def test_trace_of_a_second_waiter(ranks, tmp_path, monkeypatch):
    trace = recorded(ranks, tmp_path, monkeypatch, waited_for_by_two)
    waits = [event for event in trace["traceEvents"] if event.get("cat") == "wait" and event["tid"] == 0]
    assert any(event["args"] == {"on": "work"} and event["dur"] > 50_000 for event in waits), waits
