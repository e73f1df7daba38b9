#!/usr/bin/env python3
"""Training in C++ over Tutti beside PyTorch: a step of one GPT under data parallel, with everything sharded, and with
its layers cut.

  tests/torch/run.sh $PWD/build $PWD/bench/torch_train.py        two ranks; `make bench-train` does that
  bench/torch_train.py -n 4 --threads 3 --rounds 5 --json out.json

The model is that of examples/cpp_torch/gpt.cc, here of 25 million numbers, and once more in Python below: the same
layers, attention by scaled_dot_product_attention, float32, no dropout, AdamW. Contenders:

  C++ dp              gpt --strategy dp: hooks, buckets, AdamW of Tutti
  DDP/gloo, DDP/tutti DistributedDataParallel over each backend; `view` with gradient_as_bucket_view
  C++ zero3, FSDP2    gpt --strategy zero3; fully_shard of every block over gloo and over tutti
  C++ tp, TP          gpt --mesh tpN, where all ranks have the batch of all; parallelize_module of every block, of the
                      embedding and of the output layer, with loss_parallel(), over gloo and over tutti

Each contender is a job of its own, started by `tutti run` with as many threads per rank; in a round each runs once,
every other round backwards. A job's time is the median of its steps but for the first ones, a figure the median over
rounds of that. AdamW of PyTorch is taken as it is by default and with fused=True, in turns within one job.
Exposed communication of C++ is what a step waited for others, by its report; that of DDP what a step takes longer
than one under no_sync, which is made in turns with the others. An idle machine gives honest numbers.
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
CHARACTERS = 128  # of gpt.cc
SETTLING = 3  # steps at the beginning that do not count, as in gpt.cc
RATE = 2e-3

CPP = {"C++ dp": ["--strategy", "dp"], "C++ dp, no overlap": ["--strategy", "dp", "--no-overlap"],
       "C++ zero3": ["--strategy", "zero3"], "C++ tp": ["--mesh", "tp{ranks}"],
       "C++ tp, tokens cut": ["--mesh", "tp{ranks}", "--sequence-parallel"],
       "C++ tp, 4 pieces": ["--mesh", "tp{ranks}", "--pieces", "4"]}
PYTHON = ("DDP/gloo", "DDP/tutti", "DDP/tutti view", "FSDP2/gloo", "FSDP2/tutti", "TP/gloo", "TP/tutti")
# (ours, theirs, at least so many times as fast); by default only 2 ranks have been promised something.
ASKED = (("C++ dp", "DDP/gloo", 1.3), ("C++ dp", "DDP/tutti", 1.1), ("C++ dp", "DDP/tutti view", 1.0),
         ("C++ zero3", "FSDP2/gloo", 1.3), ("C++ tp", "TP/gloo", 1.2))
ASKED_OF_MANY = (("C++ zero3", "FSDP2/gloo", 1.5),)
OPTIMIZERS = ("default", "fused")


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks on this host (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of each rank (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="jobs of each contender (default %(default)s)")
    parser.add_argument("--steps", type=int, default=13, help="timed steps of a job (default %(default)s)")
    parser.add_argument("--layers", type=int, default=8, help="of the model (default %(default)s)")
    parser.add_argument("--width", type=int, default=512, help="of its layers (default %(default)s)")
    parser.add_argument("--heads", type=int, default=8, help="of attention (default %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="examples of each rank in a step (default %(default)s)")
    parser.add_argument("--context", type=int, default=64, help="characters of an example (default %(default)s)")
    parser.add_argument("--clip", action="store_true", help="clip gradients to norm 1, everywhere")
    parser.add_argument("--only", nargs="*", default=[""], help="contenders with one of these in their name")
    parser.add_argument("--build", type=Path, default=ROOT / "build", help="of Tutti (default build)")
    parser.add_argument("--json", type=Path, help="write all figures there")
    parser.add_argument("--contender", help=argparse.SUPPRESS)  # we are one of its ranks
    parser.add_argument("--rank-out", type=Path, help=argparse.SUPPRESS)
    return parser.parse_args()


# ---- In every rank of a job in Python.


def make_model(options):
    """As gpt.cc makes it."""
    import torch
    from torch import nn
    from torch.nn import functional

    width, heads = options.width, options.heads

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_feed = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attention, self.joined = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            batch, length, _ = x.shape
            if options.contender.startswith("TP"):  # a part of its rows is the three of some heads
                parts = self.attention(self.before_attention(x)).view(batch, length, -1, 3, width // heads)
                seen = functional.scaled_dot_product_attention(*parts.permute(3, 0, 2, 1, 4), is_causal=True)
            else:
                parts = self.attention(self.before_attention(x)).view(batch, length, 3, heads, width // heads)
                seen = functional.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
            x = x + self.joined(seen.transpose(1, 2).reshape(batch, length, -1))
            return x + self.down(functional.gelu(self.up(self.before_feed(x))))

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.characters, self.places = nn.Embedding(CHARACTERS, width), nn.Embedding(options.context, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(options.layers)))
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, CHARACTERS)

        def forward(self, text):
            x = self.characters(text) + self.places(torch.arange(text.shape[1]))
            return self.head(self.last(self.blocks(x)))

    torch.manual_seed(1)
    return Gpt()


def cut_layers(model, mesh):
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    for block in model.blocks:
        parallelize_module(block, mesh, {"attention": ColwiseParallel(), "joined": RowwiseParallel(),
                                         "up": ColwiseParallel(), "down": RowwiseParallel()})
    return parallelize_module(model, mesh, {
        "characters": RowwiseParallel(input_layouts=Replicate()),
        "head": ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)})


def make_parallel(contender, options):
    """The model under the contender's strategy, and whether there is a step without communication."""
    model = make_model(options)
    if contender.startswith("DDP"):
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model, gradient_as_bucket_view=contender.endswith("view")), True
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (options.ranks,))
    if contender.startswith("TP"):
        return cut_layers(model, mesh), False
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh), False


def rank_main(options):
    from contextlib import nullcontext

    import torch
    import torch.distributed as dist
    import tutti.torch  # noqa: F401
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import loss_parallel

    torch.set_num_threads(options.threads)
    dist.init_process_group("tutti" if "tutti" in options.contender else "gloo")
    model, pauses = make_parallel(options.contender, options)
    text = torch.tensor(list((ROOT / "examples/torch/text.txt").read_bytes())).clamp(max=CHARACTERS - 1)
    cut = options.contender.startswith("TP")  # all ranks have the batch of all
    # Cut parameters and others are groups of their own, as the fused kernel wants them.
    groups = [[each for each in model.parameters() if isinstance(each, DTensor) == is_cut] for is_cut in (True, False)]
    optimizers = {name: torch.optim.AdamW([{"params": group} for group in groups if group], lr=RATE,
                                          fused=name == "fused") for name in OPTIMIZERS}
    kinds = [*OPTIMIZERS, *(["quiet"] if pauses else [])]
    chance = torch.Generator().manual_seed(0 if cut else dist.get_rank())
    batch = options.batch * (options.ranks if cut else 1)

    def step(kind):
        begins = torch.randint(len(text) - options.context - 1, (batch,), generator=chance).tolist()
        samples = torch.stack([text[begin:begin + options.context + 1] for begin in begins])
        with model.no_sync() if kind == "quiet" else loss_parallel() if cut else nullcontext():
            logits = model(samples[:, :-1])
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), samples[:, 1:].flatten())
            loss.backward()
        if options.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer = optimizers["default" if kind == "quiet" else kind]
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    times = {kind: [] for kind in kinds}
    for number in range(SETTLING + options.steps):
        for kind in kinds:
            began = time.perf_counter()
            loss = step(kind)
            if number >= SETTLING:
                times[kind].append(1e3 * (time.perf_counter() - began))
    if dist.get_rank() == 0:
        row = {f"{kind}_ms": median(values) for kind, values in times.items()}
        row["numbers"] = sum(parameter.numel() for parameter in model.parameters())
        if pauses:
            row["exposed_ms"] = median([a - b for a, b in zip(times["default"], times["quiet"], strict=True)])
        options.rank_out.write_text(json.dumps({**row, "loss": loss}))
    dist.barrier()
    dist.destroy_process_group()


# ---- In the process that started them.


def run(command, **more):
    ended = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
    if ended.returncode:
        sys.exit(f"{' '.join(map(str, command))}: exit code {ended.returncode}\n{ended.stdout}{ended.stderr}")


def build_gpt(build):
    """The example, against an installed Tutti and this PyTorch, as a user builds it."""
    import torch

    folder = build / "torch_train"
    run(["cmake", "--install", build, "--prefix", folder / "tutti"])
    run(["cmake", "-S", ROOT / "examples/cpp_torch", "-B", folder, "-DCMAKE_BUILD_TYPE=Release",
         f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path};{folder / 'tutti'}"])
    run(["cmake", "--build", folder, "--target", "gpt"])
    return folder / "gpt"


def run_job(contender, options, gpt, folder):
    """The figures of one job, or the sentence by which it failed."""
    start = [options.build / "bin/tutti", "run", "-n", str(options.ranks), "--no-prefix", "--"]
    environment = dict(os.environ, OMP_NUM_THREADS=str(options.threads), TORCH_CPP_LOG_LEVEL="ERROR")
    out = Path(folder) / "figures.json"
    out.unlink(missing_ok=True)
    if contender in CPP:
        sizes = [word for name in ("layers", "width", "heads", "context", "threads")
                 for word in (f"--{name}", str(getattr(options, name)))]
        how = [word.format(ranks=options.ranks) for word in CPP[contender]]
        command = [gpt, *how, *sizes, "--batch", str(options.batch * options.ranks), "--steps",
                   str(SETTLING + options.steps), "--json", *([] if options.clip else ["--no-clip"])]
    else:
        command = [sys.executable, __file__, *sys.argv[1:], "--contender", contender, "--rank-out", out]
    ended = subprocess.run([*start, *command], env=environment, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE)
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("tutti run:")]
        return None, said[-1] if said else f"exit code {ended.returncode}"
    if contender not in CPP:
        return json.loads(out.read_text()), None
    figures = json.loads(ended.stdout.splitlines()[-1])
    return {**figures, "exposed_ms": figures["waiting_ms"]}, None


def measure(options):
    gpt = build_gpt(options.build)
    names = [name for name in (*CPP, *PYTHON) if any(part in name for part in options.only)]
    rounds, failed = {name: [] for name in names}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                if name in failed:
                    continue
                print(f"round {number + 1} of {options.rounds}: {name}", file=sys.stderr, flush=True)
                figures, words = run_job(name, options, gpt, folder)
                if figures is None:
                    failed[name] = words
                else:
                    rounds[name].append(figures)
    rows = {}
    for name in names:
        if name not in failed:
            parts = [part for part in rounds[name][0] if part.endswith("_ms")]
            rows[name] = {part: median([figures[part] for figures in rounds[name]]) for part in parts}
            rows[name]["numbers"] = rounds[name][0]["numbers"]
    return rows, failed


def targets(rows, ranks):
    """(ours, theirs, optimizer, ratio, asked or None)"""
    lines = []
    for ours, theirs, asked in ASKED if ranks < 8 else ASKED_OF_MANY:
        if ours in rows and theirs in rows:
            lines += [(ours, theirs, optimizer, rows[theirs][f"{optimizer}_ms"] / rows[ours]["step_ms"], asked)
                      for optimizer in OPTIMIZERS]
    return lines


def print_rows(rows, failed):
    print(f"{'milliseconds of a step':22} {'AdamW':>10} {'fused':>10} {'exposed':>10} {'updating':>10}")

    def cell(row, part):
        return f"{row[part]:10.1f}" if part in row else f"{'-':>10}"

    for name, row in rows.items():
        own = "step_ms" in row  # Tutti's AdamW is one kernel anyway
        print(f"{name:22} {cell(row, 'default_ms')} {cell(row, 'step_ms' if own else 'fused_ms')} "
              f"{cell(row, 'exposed_ms')} {cell(row, 'updating_ms')}")
    for name, words in failed.items():
        print(f"{name:22} left out: {words}")


def main():
    options = arguments()
    if options.contender:
        return rank_main(options)
    try:
        import torch.distributed  # noqa: F401
        import tutti.torch  # noqa: F401
    except ImportError as error:
        print(f"skipped: {sys.executable}: {error}; TORCH_PYTHON names a python that has it")
        return SKIPPED
    rows, failed = measure(options)
    numbers = next((row["numbers"] for row in rows.values()), 0)
    print(f"# {numbers / 1e6:.1f} million numbers, {options.ranks} ranks x {options.threads} threads, {options.batch} x "
          f"{options.context} characters per rank, {options.rounds} rounds of {options.steps} steps\n")
    print_rows(rows, failed)
    lines = targets(rows, options.ranks)
    print(f"\n{'times as fast as':40} {'AdamW':8} {'measured':>9} {'asked':>9}  met")
    for ours, theirs, optimizer, ratio, asked in lines:
        print(f"{ours + ' against ' + theirs:40} {optimizer:8} {ratio:8.2f}x {f'>= {asked}x':>9}  "
              f"{'yes' if ratio >= asked else 'NO'}")
    if "C++ dp" in rows and "C++ dp, no overlap" in rows:
        part = rows["C++ dp"]["exposed_ms"] / rows["C++ dp, no overlap"]["exposed_ms"]
        print(f"\nexposed communication of C++ dp against the same without overlap: {part:.2f} (asked on 16 cores: 0.5)")
    if options.json:
        options.json.write_text(json.dumps(
            {"ranks": options.ranks, "threads": options.threads, "batch": options.batch, "context": options.context,
             "clip": options.clip, "cores": os.cpu_count(), "rows": rows, "failed": failed,
             "figures": [dict(zip(("ours", "theirs", "optimizer", "ratio", "asked"), line, strict=True))
                         for line in lines]}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
