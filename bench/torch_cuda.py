#!/usr/bin/env python3
"""PyTorch on tensors of one GPU that all ranks share: Tutti beside gloo, and a training step of a GPT under DDP.

  bench/torch_cuda.py -n 4                 starts the ranks itself
  bench/torch_cuda.py -n 2 --transport tcp  Tutti over TCP: through host memory, as gloo
  bench/torch_cuda.py -n 4 --steps 10      a GPT of 124 million weights in bfloat16, 4 x 1024 tokens a rank

Both backends are groups of the same processes and take turns, round by round; a time is the median over rounds of the
slowest rank's mean per call. Calls are `dist.all_reduce` of float32 in place, made when the GPU is idle, one after the
other; beside them, up to 1 MB, stands what the same call takes on a tensor in host memory, which is what PyTorch itself
takes and little more. With --busy every rank keeps some 400 us of kernels of its own in a stream of its own meanwhile,
from a thread that adds one whenever one has ended: those of one block each leave the multiprocessors free, and only the
turns of the ranks' contexts are in the way; matrix products take all of the GPU. Those times are of single calls. NCCL
refuses several ranks on one GPU.
"""

import argparse
import collections
import json
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KB, MB = 1 << 10, 1 << 20
SIZES = [64, KB, 64 * KB, MB, 16 * MB, 64 * MB, 256 * MB]
BACKENDS = ("tutti", "gloo")


def median(values):
    return sorted(values)[len(values) // 2]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks, all on the first GPU (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each backend (default %(default)s)")
    parser.add_argument("--transport", choices=["auto", "tcp"], default="auto", help="of Tutti (default %(default)s)")
    parser.add_argument("--most-mb", type=int, default=256, help="the largest size (default %(default)s)")
    parser.add_argument("--steps", type=int, default=0, help="training steps of each backend instead (default: none)")
    parser.add_argument("--busy", nargs="?", const="block", choices=["block", "products"],
                        help="kernels of the ranks' own beside the calls, of one block or matrix products")
    parser.add_argument("--json", type=Path, help="write all rows there")
    return parser.parse_args()


class Ranks:
    def __init__(self, options):
        os.environ["TUTTI_TRANSPORT"] = options.transport
        import torch
        import torch.distributed as dist
        import tutti.torch  # noqa: F401  registers the backend

        torch.set_num_threads(1)
        torch.cuda.set_device(0)
        dist.init_process_group("gloo")
        self.torch, self.dist, self.options = torch, dist, options
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.groups = {backend: dist.new_group(backend=backend) for backend in BACKENDS}

    def slowest(self, seconds):
        tensor = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(tensor, op=self.dist.ReduceOp.MAX)
        return tensor.item()

    def time(self, call, count):
        self.torch.cuda.synchronize()
        self.dist.barrier()
        began = time.perf_counter()
        for _ in range(count):
            call()
        self.torch.cuda.synchronize()
        return self.slowest((time.perf_counter() - began) / count)


def measure_calls(ranks):
    torch, dist, rows = ranks.torch, ranks.dist, []
    for size in [size for size in SIZES if size <= ranks.options.most_mb * MB]:
        tensors = {backend: torch.ones(size // 4, device="cuda") for backend in BACKENDS}
        calls = {backend: lambda backend=backend: dist.all_reduce(tensors[backend], group=ranks.groups[backend])
                 for backend in BACKENDS}
        for backend in BACKENDS:
            calls[backend]()
        if not torch.equal(tensors["tutti"], tensors["gloo"]):
            raise SystemExit(f"{size} bytes: tutti and gloo have different results")
        times = {backend: [] for backend in BACKENDS}
        counts = {backend: max(2, min(500, int(0.05 / ranks.time(calls[backend], 2)))) for backend in BACKENDS}
        host = torch.ones(size // 4)
        on_host = [ranks.time(lambda: dist.all_reduce(host, group=ranks.groups["tutti"]), 500)
                   for _ in range(ranks.options.rounds)] if size <= MB else []
        for _ in range(ranks.options.rounds):
            for backend in BACKENDS:
                times[backend].append(ranks.time(calls[backend], counts[backend]))
        row = {"bytes": size, **{f"{backend}_us": 1e6 * median(times[backend]) for backend in BACKENDS}}
        if on_host:
            row["tutti_host_us"] = 1e6 * median(on_host)
        row["gloo_over_tutti"] = row["gloo_us"] / row["tutti_us"]
        rows.append(row)
        if ranks.rank == 0:
            print(f"{ranks.size} ranks  all_reduce {size:>10} B  tutti {row['tutti_us']:10.1f} us  "
                  f"gloo {row['gloo_us']:10.1f} us  {row['gloo_over_tutti']:7.1f} x"
                  + (f"  (in host memory {row['tutti_host_us']:.1f} us)" if on_host else ""), flush=True)
    if ranks.rank == 0:
        for words, chosen in (("up to 1 MB", [r for r in rows if r["bytes"] <= MB]),
                              ("16 MB and more", [r for r in rows if r["bytes"] >= 16 * MB])):
            if chosen:
                mean = math.exp(sum(math.log(r["gloo_over_tutti"]) for r in chosen) / len(chosen))
                print(f"{ranks.size} ranks  geometric mean, {words}: {mean:.1f} x", flush=True)
    return rows


class OwnKernels:
    """Kernels of the rank's own, from a thread: always some in the queue, as many on every rank, never more."""

    AHEAD, SLEEP_CYCLES = 4, 200_000  # some 100 us each

    def __init__(self, torch, kind):
        self.torch, self.kind, self.stopped = torch, kind, threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stopped.set()
        self.thread.join()

    def run(self):
        torch = self.torch
        matrix = torch.randn(1024, 1024, device="cuda")
        ends = collections.deque(torch.cuda.Event(blocking=True) for _ in range(self.AHEAD))
        with torch.cuda.stream(torch.cuda.Stream()):
            while not self.stopped.is_set():
                ends[0].synchronize()  # of the kernel that was put there so many before this one
                if self.kind == "block":
                    torch.cuda._sleep(self.SLEEP_CYCLES)  # on one multiprocessor
                else:
                    torch.matmul(matrix, matrix)  # on all
                ends[0].record()
                ends.rotate(-1)


def measure_busy(ranks):
    """All_reduce of 64 MB, call after call, alone and while every rank has kernels of its own on the GPU."""
    torch, dist, group = ranks.torch, ranks.dist, ranks.groups["tutti"]
    tensor = torch.ones(16 * MB, device="cuda")

    def times(rounds=300, warm_up=20):
        found = []
        torch.cuda.current_stream().synchronize()
        dist.barrier()
        for _ in range(rounds):
            began = time.perf_counter()
            dist.all_reduce(tensor, group=group)
            found.append(time.perf_counter() - began)
        dist.barrier()
        found = sorted(found[warm_up:])
        return [1e6 * ranks.slowest(found[int(len(found) * at)]) for at in (0.5, 0.9, 0.99)]

    rows = {"idle": times()}
    with OwnKernels(torch, ranks.options.busy):
        rows["busy"] = times()
    if ranks.rank == 0:
        words = {name: " / ".join(f"{us:.0f}" for us in row) for name, row in rows.items()}
        print(f"{ranks.size} ranks  all_reduce 64 MB, p50 / p90 / p99 us: idle {words['idle']}, "
              f"busy ({ranks.options.busy}) {words['busy']}, "
              f"medians {rows['busy'][0] / rows['idle'][0]:.2f}", flush=True)
    return rows


def measure_steps(ranks):
    sys.path.insert(0, str(ROOT / "examples/torch"))
    import gpt
    from torch.nn.parallel import DistributedDataParallel

    torch = ranks.torch
    gpt.CONTEXT = 1024
    shape = gpt.Shape(layers=12, heads=12, width=768)
    tokens = torch.randint(50257, (4, 1025), device="cuda")
    rows = {}
    for backend in ("none", *BACKENDS):
        torch.manual_seed(1)
        model = gpt.GPT(50257, shape).to("cuda", torch.bfloat16)
        model.out.weight = model.embedding.characters.weight  # one matrix for both, as GPT-2 has it
        weights = sum(each.numel() for each in model.parameters())
        if backend != "none":
            model = DistributedDataParallel(model, process_group=ranks.groups[backend])
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

        def step():
            loss = gpt.loss_of(model(tokens[:, :-1]), tokens[:, 1:])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()

        for _ in range(3):
            step()
        times = [ranks.time(step, 1) for _ in range(ranks.options.steps)]
        rows[backend] = 1e3 * median(times)
        if ranks.rank == 0:
            print(f"{ranks.size} ranks  a step of {weights / 1e6:.1f} million weights, 4 x 1024 tokens a rank, "
                  f"{backend}: {rows[backend]:.1f} ms", flush=True)
        del model, optimizer
        torch.cuda.empty_cache()
    if ranks.rank == 0:
        print(f"{ranks.size} ranks  gloo over tutti {rows['gloo'] / rows['tutti']:.2f}, tutti over none "
              f"{rows['tutti'] / rows['none']:.2f}", flush=True)
    return rows


def main():
    options = arguments()
    if "RANK" in os.environ:
        ranks = Ranks(options)
        measure = measure_steps if options.steps else measure_busy if options.busy else measure_calls
        rows = measure(ranks)
        if options.json and ranks.rank == 0:
            options.json.write_text(json.dumps(rows))
        ranks.dist.barrier()
        ranks.dist.destroy_process_group()
        return 0
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(options.ranks)]
    return subprocess.call([*command, *sys.argv], env={**os.environ, "OMP_NUM_THREADS": "1"})


if __name__ == "__main__":
    sys.exit(main())
