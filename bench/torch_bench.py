#!/usr/bin/env python3
"""Tutti as a backend of PyTorch, beside PyTorch's gloo and beside `fake`, which does nothing: what a call costs anyway.

  bench/torch_bench.py                    two ranks; starts them itself
  bench/torch_bench.py -n 8 --json out.json
  bench/torch_bench.py --only all_reduce  cells and steps whose line has this in its name

All three backends are groups of the same processes and take turns, round by round; a time is the median over rounds
of the slowest rank's mean per call, the first calls of a turn left out. Rank r is pinned to the r-th core unless
--no-pin is given. Then one training step of a GPT of 25 million weights under DistributedDataParallel, and the same
step without communication (no_sync): the difference, the median of those of all rounds, is communication that compute
does not hide. `raw` is the time that its buckets take by themselves, `ordinary` Tutti with TUTTI_SHARED_BUCKETS=0,
which shows what it brings that buckets lie in symmetric memory. gamma is communication over compute. The last table
holds the figures against their targets. The first line tells by which costs Tutti chose its algorithms; TUTTI_COSTS is
`built-in`, or a file of `tutti tune`. An idle machine gives honest numbers.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BACKENDS = ("tutti", "gloo", "fake")
TRAINED = ("tutti", "ordinary", "gloo")  # DDP refuses the results of fake; ordinary: tutti, buckets in ordinary memory
SKIPPED = 77
UNMEASURED = 5  # calls at the start of a turn, when caches hold what the last backend needed and one rank is late

KB, MB = 1 << 10, 1 << 20
TINY = [4, 256, KB, 4 * KB, 16 * KB, 32 * KB]
LARGE = [MB, 4 * MB, 16 * MB, 64 * MB]
CHUNKED = [4 * KB, 64 * KB, MB, 16 * MB]
# (verb, bytes of the whole vector, memory of ours)
CELLS = ([("all_reduce", size, "ordinary") for size in TINY + LARGE] +
         [("all_reduce", size, "symmetric") for size in LARGE] +
         [(verb, size, "ordinary") for verb in ("reduce_scatter_tensor", "all_gather_into_tensor", "all_to_all_single")
          for size in CHUNKED])


def name_of(cell):
    verb, size, memory = cell
    words = f"{size // MB} MB" if size >= MB else f"{size // KB} KB" if size >= KB else f"{size} B"
    return f"{verb} {words}" + (" symmetric" if memory == "symmetric" else "")


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def geometric_mean(values):
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else float("nan")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks on this host (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="turns of each backend (default %(default)s)")
    parser.add_argument("--batch-ms", type=float, default=4, help="a turn repeats calls for this long (%(default)s)")
    parser.add_argument("--steps", type=int, default=15, help="training steps of each backend, 0 for none (%(default)s)")
    parser.add_argument("--only", default="", help="a part of the names to measure")
    parser.add_argument("--no-pin", action="store_true", help="let the system choose the cores")
    parser.add_argument("--tutti", default=str(ROOT / "build/bin/tutti"), metavar="COMMAND",
                        help="the command that times the same calls in C++ (default build/bin/tutti)")
    parser.add_argument("--json", type=Path, help="write all rows there")
    parser.add_argument("--rank-out", help=argparse.SUPPRESS)  # we are one of the ranks
    return parser.parse_args()


# ---- In every rank.


class Ranks:
    """The three groups, and turns among them."""

    def __init__(self, options):
        rank = int(os.environ["RANK"])
        if not options.no_pin:
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[rank % len(cores)]})  # before threads are made, so that they inherit it
        import torch
        import torch.distributed as dist
        import tutti.torch
        from torch.testing._internal.distributed import fake_pg  # noqa: F401  (registers it)

        torch.set_num_threads(1)
        dist.init_process_group("gloo")
        self.torch, self.dist, self.empty = torch, dist, tutti.torch.empty
        self.rank, self.size, self.options = rank, dist.get_world_size(), options
        self.groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}
        self.groups["ordinary"] = dist.new_group(backend="tutti")
        self.tuned = tutti.torch.tuned(self.groups["tutti"])

    def say(self, words):
        if self.rank == 0:
            print(f"\r\033[K{words}" if sys.stderr.isatty() else words, file=sys.stderr,
                  end="" if sys.stderr.isatty() else "\n", flush=True)

    def agree(self, values):
        """The slowest rank's."""
        tensor = self.torch.tensor(values, dtype=self.torch.float64)
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return tensor.tolist()

    def time(self, call, count, unmeasured=0):
        self.dist.barrier()
        for _ in range(unmeasured):
            call()
        began = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - began) / count

    def count_for(self, call, batch_ms):
        """How many calls take about that long, once they are warm."""
        count, most = 2, 2000
        while count < most:
            spent_ms = 1e3 * count * self.agree([self.time(call, count, UNMEASURED)])[0]
            if spent_ms >= batch_ms / 4:
                return max(1, min(most, int(count * batch_ms / spent_ms)))
            count *= 4
        return most

    def turns(self, calls, rounds, counts, unmeasured):
        """{name: [seconds of every round]} of the slowest rank: the calls take turns, every other round backwards."""
        for call in calls.values():
            self.time(call, 2)
        names = list(calls)
        times = {name: [] for name in names}
        for number in range(rounds):
            for name in names if number % 2 == 0 else reversed(names):
                times[name].append(self.time(calls[name], counts[name], unmeasured))
        return {name: self.agree(values) for name, values in times.items()}


def call_of(ranks, cell, backend):
    """A call without arguments, and its result, for one backend."""
    torch, dist = ranks.torch, ranks.dist
    verb, size, memory = cell
    count = size // 4
    group = ranks.groups[backend]

    def tensor(length):
        if memory == "symmetric" and backend == "tutti":
            return ranks.empty(length, dtype=torch.float32, group=group)
        return torch.zeros(length)

    if verb == "all_reduce":
        buffer = tensor(count)
        buffer.copy_(torch.arange(count) % 251 + ranks.rank)
        # Averaging would keep the numbers small, but gloo has none: the sums of many calls become infinite, which takes
        # as long to add as any other.
        return (lambda: dist.all_reduce(buffer, group=group)), buffer
    share = count // ranks.size
    whole = share * ranks.size
    lengths = {"reduce_scatter_tensor": (whole, share), "all_gather_into_tensor": (share, whole),
               "all_to_all_single": (whole, whole)}[verb]
    source, result = tensor(lengths[0]), tensor(lengths[1])
    source.copy_(torch.arange(lengths[0]) % 251 + ranks.rank)
    function = getattr(dist, verb)
    return (lambda: function(result, source, group=group)), result


def measure_cells(ranks):
    rows = []
    chosen = [cell for cell in CELLS if ranks.options.only in name_of(cell)]
    for number, cell in enumerate(chosen):
        ranks.say(f"{number + 1} of {len(chosen)}: {name_of(cell)}")
        pairs = {backend: call_of(ranks, cell, backend) for backend in BACKENDS}
        for call, _ in pairs.values():
            call()
        same = ranks.torch.equal(pairs["tutti"][1], pairs["gloo"][1])
        if ranks.agree([0.0 if same else 1.0])[0]:
            raise SystemExit(f"{name_of(cell)}: tutti and gloo have different results")
        calls = {backend: pair[0] for backend, pair in pairs.items()}
        counts = {backend: ranks.count_for(call, ranks.options.batch_ms) for backend, call in calls.items()}
        rounds = ranks.turns(calls, ranks.options.rounds, counts, UNMEASURED)
        times = {backend: median(values) for backend, values in rounds.items()}
        rows.append({"cell": name_of(cell), "verb": cell[0], "bytes": cell[1], "memory": cell[2],
                     **{f"{backend}_us": 1e6 * seconds for backend, seconds in times.items()},
                     "gloo_over_tutti": times["gloo"] / times["tutti"]})
    return rows


def ddp_models(ranks):
    """A GPT of 25 million weights under each backend, with the same weights."""
    sys.path.insert(0, str(ROOT / "examples/torch"))
    from gpt import GPT, Shape
    from torch.nn.parallel import DistributedDataParallel

    models = {}
    for backend in TRAINED:
        ranks.torch.manual_seed(1)
        os.environ["TUTTI_SHARED_BUCKETS"] = "0" if backend == "ordinary" else "1"
        models[backend] = DistributedDataParallel(GPT(256, Shape(layers=8, heads=8, width=512)),
                                                  process_group=ranks.groups[backend])
    return models


def measure_ddp(ranks):
    from contextlib import nullcontext

    torch, dist = ranks.torch, ranks.dist
    models = ddp_models(ranks)
    tokens = torch.randint(256, (1, 64))

    def step(model, quiet):
        with model.no_sync() if quiet else nullcontext():
            model(tokens).square().mean().backward()
        model.zero_grad(set_to_none=False)  # what DDP's buckets point to stays

    weights = sum(parameter.numel() for parameter in models["tutti"].parameters())
    calls = {}
    for backend, model in models.items():
        calls[backend, "step"] = lambda model=model: step(model, False)
        calls[backend, "compute"] = lambda model=model: step(model, True)
    # The buckets as DDP cuts them: one of 1 MiB, then 25 MiB each.
    lengths = [MB // 4]
    while sum(lengths) < weights:
        lengths.append(min(25 * MB // 4, weights - sum(lengths)))
    buckets = {backend: [torch.zeros(length) for length in lengths] for backend in TRAINED}
    buckets["tutti"] = [ranks.empty(length, group=ranks.groups["tutti"]) for length in lengths]

    def communicate(backend):
        for bucket in buckets[backend]:
            dist.all_reduce(bucket, group=ranks.groups[backend])

    for backend in TRAINED:
        calls[backend, "raw"] = lambda backend=backend: communicate(backend)
    ranks.say(f"a step of a model of {weights / 1e6:.1f} million weights")
    times = ranks.turns(calls, ranks.options.steps, dict.fromkeys(calls, 1), 0)
    rows = []
    for backend in TRAINED:
        row = {part: 1e3 * median(times[backend, part]) for part in ("step", "compute", "raw")}
        # Within a round, so that a machine that is slower for a while is so for both.
        row["exposed"] = 1e3 * median([step - compute for step, compute in
                                       zip(times[backend, "step"], times[backend, "compute"], strict=True)])
        rows.append({"backend": backend, "weights": weights, **{f"{part}_ms": value for part, value in row.items()},
                     "gamma_raw": row["raw"] / row["compute"], "gamma_exposed": row["exposed"] / row["compute"]})
    return rows


def rank_main(options):
    ranks = Ranks(options)
    result = {"tuned": ranks.tuned, "cells": measure_cells(ranks),
              "ddp": measure_ddp(ranks) if options.steps and options.only in "ddp step" else []}
    ranks.say("")
    if ranks.rank == 0:
        Path(options.rank_out).write_text(json.dumps(result))
    ranks.dist.barrier()
    ranks.dist.destroy_process_group()


# ---- In the process that started them.


def cpp_times(options, sizes):
    """{bytes: us} of all_reduce in C++, without PyTorch; empty where the command is missing."""
    times = {}
    if not Path(options.tutti).exists():
        print(f"there is no {options.tutti}: without times of C++", file=sys.stderr)
        return times
    with tempfile.TemporaryDirectory() as folder:
        for size in sizes:
            file = Path(folder) / "cpp.json"
            command = [options.tutti, "bench", "all_reduce", "-n", str(options.ranks), "-b", str(size), "-e", str(size),
                       "--buffers", "ordinary", "--json", str(file)] + (["--no-pin"] if options.no_pin else [])
            if subprocess.run(command, stdout=subprocess.DEVNULL).returncode == 0:
                times[size] = min(row["time_us_median"] for row in json.loads(file.read_text()) if row["in_place"])
    return times


def print_cells(rows, cpp):
    print(f"{'':40} {'tutti us':>10} {'gloo us':>10} {'fake us':>8} {'c++ us':>8} {'gloo/tutti':>10}")
    for row in rows:
        alone = cpp.get(row["bytes"]) if row["verb"] == "all_reduce" and row["memory"] == "ordinary" else None
        print(f"{row['cell']:40} {row['tutti_us']:10.1f} {row['gloo_us']:10.1f} {row['fake_us']:8.1f} "
              f"{'' if alone is None else f'{alone:.1f}':>8} {row['gloo_over_tutti']:10.2f}")


def print_ddp(rows):
    if not rows:
        return
    print(f"\nDDP, {rows[0]['weights'] / 1e6:.1f} million weights: milliseconds of a step")
    print(f"{'':8} {'step':>9} {'compute':>9} {'exposed':>9} {'raw':>9} {'gamma raw':>10} {'gamma exposed':>14}")
    for row in rows:
        print(f"{row['backend']:8} " + " ".join(f"{row[part + '_ms']:9.1f}" for part in
                                                ("step", "compute", "exposed", "raw")) +
              f" {row['gamma_raw']:10.3f} {row['gamma_exposed']:14.3f}")


def targets(result, cpp, ranks):
    """(figure, value, target, met) by lines; a target is of two ranks, or of eight and more."""
    many = ranks >= 8
    cells, ddp = result["cells"], {row["backend"]: row for row in result["ddp"]}

    def ratios(verb, sizes, memory="ordinary"):
        return [row["gloo_over_tutti"] for row in cells
                if row["verb"] == verb and row["bytes"] in sizes and row["memory"] == memory]

    lines = []

    def at_least(words, values, target):
        if values:
            mean = geometric_mean(values)
            lines.append((words, f"{mean:.2f}x", f">= {target}x", mean >= target))

    tiny = [row for row in cells if row["verb"] == "all_reduce" and row["bytes"] in TINY]
    if tiny:
        mean, target = geometric_mean([row["gloo_over_tutti"] for row in tiny]), 50 if many else 20
        floors = [row["tutti_us"] / (row["fake_us"] + cpp[row["bytes"]]) for row in tiny if row["bytes"] in cpp]
        near = geometric_mean(floors)
        lines.append(("all_reduce up to 32 KB, gloo over ours", f"{mean:.1f}x; {near:.2f} x floor",
                      f">= {target}x, or <= 1.5 x (fake + c++)", mean >= target or near <= 1.5))
    at_least("all_reduce 1-64 MB, ordinary memory", ratios("all_reduce", LARGE), 1.4 if many else 3)
    at_least("all_reduce 1-64 MB, symmetric memory", ratios("all_reduce", LARGE, "symmetric"), 2.5 if many else 5)
    for verb in ("reduce_scatter_tensor", "all_gather_into_tensor", "all_to_all_single"):
        values = ratios(verb, CHUNKED)
        at_least(verb, values, 2 if many else 3)
        if values:
            lines.append((f"{verb}, worst cell", f"{min(values):.2f}x", ">= 1x", min(values) >= 1))
    if ddp:
        gloo = ddp["gloo"]
        ours = ddp["tutti"]
        faster = gloo["step_ms"] / ours["step_ms"]
        lines.append(("DDP step, gloo over ours", f"{faster:.2f}x", ">= 1.1x", faster >= 1.1))
        part = ours["exposed_ms"] / gloo["exposed_ms"] if gloo["exposed_ms"] > 0 else float("inf")
        lines.append(("DDP exposed, ours over gloo", f"{part:.2f}", "<= 0.5", part <= 0.5))
    for row in tiny:
        if row["bytes"] == 4 and 4 in cpp:
            limit = row["fake_us"] + 4 + cpp[4]
            lines.append(("all_reduce of 4 bytes", f"{row['tutti_us']:.1f} us", f"<= {limit:.1f} us (fake + 4 + c++)",
                          row["tutti_us"] <= limit))
    return lines


def main():
    options = arguments()
    if options.rank_out:
        return rank_main(options)
    try:
        import torch.distributed  # noqa: F401
        import tutti.torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {sys.executable}: {error}; TORCH_PYTHON names a python that has it")
        return SKIPPED
    chosen = [cell for cell in CELLS if options.only in name_of(cell)]
    cpp = cpp_times(options, [size for verb, size, _ in chosen if verb == "all_reduce" and size in TINY])
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder) / "rows.json")
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone",
                   "--nproc-per-node", str(options.ranks), __file__, *sys.argv[1:], "--rank-out", out]
        ended = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1", TORCH_CPP_LOG_LEVEL="ERROR"))
        if ended.returncode:
            return ended.returncode
        result = json.loads(Path(out).read_text())
    lines = targets(result, cpp, options.ranks)
    print(f"# Tutti's costs: {'measured by tutti tune' if result['tuned'] else 'built in (nothing was tuned)'}\n")
    print_cells(result["cells"], cpp)
    print_ddp(result["ddp"])
    print(f"\n{'figure':45} {'measured':>22}   {'target':36} met")
    for words, value, target, met in lines:
        print(f"{words:45} {value:>22}   {target:36} {'yes' if met else 'NO'}")
    if options.json:
        result.update(ranks=options.ranks, cores=os.cpu_count(), cpp_us=cpp,
                      figures=[dict(zip(("figure", "value", "target", "met"), line, strict=True)) for line in lines])
        options.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
