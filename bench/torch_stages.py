#!/usr/bin/env python3
"""A model cut over ranks beside PyTorch over gloo: a pipeline's step, and rows that go to experts and back.

  tests/torch/run.sh $PWD/build $PWD/bench/torch_stages.py pipeline
  tests/torch/run.sh $PWD/build $PWD/bench/torch_stages.py experts -n 8
  bench/torch_stages.py pipeline -n 4 --unit-ms 20 --bytes 1048576 --json out.json

pipeline: 1F1B with as many stages as ranks, over torch.distributed.pipelining and over train::Pipeline
(bench/pipeline_bubble.cc). Stages sleep in the place of computing, a unit forward and two backward, so that nobody
needs a core of its own, and hand on activations of so many bytes. The figure is what a step takes beyond the ideal of
its schedule, 3 (m + p - 1) units, the slowest rank's.

experts: every rank has tokens, and an expert for each rank; a token goes to its best few. Rows are sorted by expert,
exchanged, and come back as a sum by weights: all_to_all_single, index_select and index_add of PyTorch against
train::Experts (bench/experts_exchange.cc). Who goes where is decided before, at random. The figure is dispatch and
combine together, the slowest rank's. --backend says which of PyTorch's.

Jobs run in turns, every other round backwards; a figure is the median over rounds of a job's median. An idle machine
with a core for every rank gives honest numbers.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED = 77
SETTLING = 2  # steps at the beginning that do not count
ASKED = {"pipeline": 0.5, "experts": 3.0}


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("pipeline", "experts"))
    parser.add_argument("-n", "--ranks", type=int, default=4, help="on this host (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="jobs of each (default %(default)s)")
    parser.add_argument("--steps", type=int, default=7, help="timed, of a job (default %(default)s)")
    parser.add_argument("--unit-ms", type=float, default=20, help="of a stage's forward (default %(default)s)")
    parser.add_argument("--microbatches", type=int, default=8, help="of a step (default %(default)s)")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of an activation (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=4096, help="of a rank (default %(default)s)")
    parser.add_argument("--width", type=int, default=1024, help="floats of a token (default %(default)s)")
    parser.add_argument("--top-k", type=int, default=2, help="experts of a token (default %(default)s)")
    parser.add_argument("--backend", default="gloo", help="of PyTorch (default %(default)s)")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="of Tutti (default build)")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--rank-out", type=Path, help=argparse.SUPPRESS)  # we are one of its ranks
    return parser.parse_args()


# ---- In every rank of a job in Python.


def make_stage(options):
    import torch
    from torch import nn

    unit = options.unit_ms / 1e3

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(_, x, weight):
            time.sleep(unit)
            return x * 1

        @staticmethod
        def backward(_, gradient):
            time.sleep(2 * unit)
            return gradient.contiguous(), torch.zeros(1)

    class Stage(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1))

        def forward(self, x):
            return Sleep.apply(x, self.weight)

    return Stage()


def pipeline_step(options):
    """A step of a pipeline, as a function."""
    import torch
    import torch.distributed as dist
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, ranks = dist.get_rank(), dist.get_world_size()
    example = torch.zeros(1, options.bytes // 4)
    stage = PipelineStage(make_stage(options), rank, ranks, torch.device("cpu"), input_args=(example,))
    schedule = Schedule1F1B(stage, n_microbatches=options.microbatches, loss_fn=lambda output, _: output.sum())
    inputs = torch.zeros(options.microbatches, options.bytes // 4)
    targets = torch.zeros(options.microbatches, 1)

    def step():
        if rank == 0:
            schedule.step(inputs)
        elif rank == ranks - 1:
            schedule.step(target=targets, losses=[])
        else:
            schedule.step()

    return step


def experts_step(options):
    """Dispatch and combine, as a function."""
    import torch
    import torch.distributed as dist

    ranks = dist.get_world_size()
    torch.manual_seed(dist.get_rank())
    tokens = torch.randn(options.tokens, options.width)
    weights, chosen = torch.randn(options.tokens, ranks).softmax(1).topk(options.top_k, dim=1)
    order = chosen.flatten().argsort(stable=True)
    token_of = order // options.top_k
    sent = torch.bincount(chosen.flatten(), minlength=ranks)
    row_weights = weights.flatten()[order].unsqueeze(1)

    def step():
        came = torch.empty_like(sent)
        dist.all_to_all_single(came, sent)
        here, there = came.tolist(), sent.tolist()
        rows = tokens.new_empty(sum(here), options.width)
        dist.all_to_all_single(rows, tokens.index_select(0, token_of), here, there)
        back = torch.empty(len(order), options.width)
        dist.all_to_all_single(back, rows, there, here)
        result = torch.zeros_like(tokens)
        result.index_add_(0, token_of, back * row_weights)
        return result

    return step


def rank_main(options):
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    if options.backend != "gloo":
        import tutti.torch  # noqa: F401
    dist.init_process_group(options.backend)
    step = pipeline_step(options) if options.part == "pipeline" else experts_step(options)
    times = []
    for number in range(SETTLING + options.steps):
        dist.barrier()
        began = time.perf_counter()
        step()
        took = torch.tensor([1e3 * (time.perf_counter() - began)])
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        if number >= SETTLING:
            times.append(took.item())
    if dist.get_rank() == 0:
        options.rank_out.write_text(json.dumps(median(times)))
    dist.barrier()
    dist.destroy_process_group()


# ---- In the process that started them.


def run_job(options, ours, folder):
    """Milliseconds of a step."""
    start = [options.build / "bin/tutti", "run", "-n", str(options.ranks), "--no-prefix", "--"]
    out = Path(folder) / "figure.json"
    if not ours:
        command = [sys.executable, __file__, *sys.argv[1:], "--rank-out", out]
    elif options.part == "pipeline":
        command = [options.build / "bin/pipeline_bubble", "--schedule", "1f1b", "--json", out, "--unit-ms",
                   options.unit_ms, "--microbatches", options.microbatches, "--bytes", options.bytes]
    else:
        command = [options.build / "bin/experts_exchange", "--json", out, "--tokens", options.tokens, "--width",
                   options.width, "--top-k", options.top_k, "--steps", options.steps]
    environment = dict(os.environ, OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR")
    ended = subprocess.run([str(word) for word in (*start, *command)], env=environment, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if ended.returncode:
        sys.exit(f"{command}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")
    return json.loads(out.read_text())


def main():
    options = arguments()
    if options.rank_out:
        return rank_main(options)
    try:
        import torch.distributed  # noqa: F401
    except ImportError as error:
        print(f"skipped: {sys.executable}: {error}; TORCH_PYTHON names a python that has it")
        return SKIPPED
    rounds = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for ours in (True, False) if number % 2 == 0 else (False, True):
                print(f"round {number + 1} of {options.rounds}: {'tutti' if ours else options.backend}",
                      file=sys.stderr, flush=True)
                rounds[ours].append(run_job(options, ours, folder))
    ours, theirs = median(rounds[True]), median(rounds[False])
    if options.part == "pipeline":
        ideal = 3 * (options.microbatches + options.ranks - 1) * options.unit_ms
        figure, met = (ours - ideal) / (theirs - ideal), "<="
        print(f"# 1F1B, {options.ranks} stages, {options.microbatches} micro-batches, units of {options.unit_ms} ms, "
              f"activations of {options.bytes} bytes; ideal {ideal:.1f} ms")
        for name, took in (("train::Pipeline", ours), (f"pipelining over {options.backend}", theirs)):
            print(f"{name:32} {took:9.2f} ms a step, {took - ideal:8.2f} ms beyond the ideal")
    else:
        figure, met = theirs / ours, ">="
        print(f"# {options.ranks} ranks, {options.tokens} tokens of {options.width} floats each, top {options.top_k}")
        for name, took in (("train::Experts", ours), (f"all_to_all_single, {options.backend}", theirs)):
            print(f"{name:32} {took:9.2f} ms for dispatch and combine")
    asked = ASKED[options.part]
    good = figure <= asked if met == "<=" else figure >= asked
    print(f"{options.part}: {figure:.2f}, asked {met} {asked}: {'yes' if good else 'NO'}")
    if options.json:
        given = {key: value for key, value in vars(options).items() if not isinstance(value, Path)}
        options.json.write_text(json.dumps({**given, "cores": os.cpu_count(), "ours_ms": rounds[True],
                                            "theirs_ms": rounds[False], "figure": figure, "asked": asked}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
