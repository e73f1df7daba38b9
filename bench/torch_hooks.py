#!/usr/bin/env python3
"""DDP hooks that send fewer bytes: Tutti's over Tutti, and PyTorch's own over gloo, on slow links.

One rank on each of several hosts, which are network namespaces whose links are limited; needs root:

  RATE=100mbit tests/acceptance/hosts.sh 2 bench/on_each_host.sh tests/torch/run.sh $PWD/build $PWD/bench/torch_hooks.py

A step is forward, backward, SGD of a GPT of examples/torch; contenders have the same weights and examples, and take
turns step by step, every other round backwards, in the same processes. A figure is the median over rounds of the
slowest rank's step, and of what it takes of a core. `alone` is the step without communication (no_sync). Gradients are
a few buckets, and exchanges of PyTorch's hooks are kept in order (tutti.torch.in_order), which over gloo they need as
much. PyTorch has no hook that sends signs: one_bit stands beside its bf16.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SETTLING = 3  # steps at the beginning that do not count: PyTorch's PowerSGD begins with two plain ones
ASKED = 1.2
# (ours, theirs)
PAIRS = (("power_sgd/tutti", "powerSGD/gloo"), ("int8/tutti", "quantization/gloo"), ("one_bit/tutti", "bf16/gloo"))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9, help="timed steps of each (default %(default)s)")
    parser.add_argument("--layers", type=int, default=4, help="of the model (default %(default)s)")
    parser.add_argument("--width", type=int, default=384, help="of its layers (default %(default)s)")
    parser.add_argument("--batch", type=int, default=1, help="examples of a rank (default %(default)s)")
    parser.add_argument("--rank", type=int, default=2, help="of PowerSGD (default %(default)s)")
    parser.add_argument("--bucket-mb", type=float, default=8, help="of DDP (default %(default)s)")
    parser.add_argument("--only", nargs="*", default=[""], help="contenders with one of these in their name")
    parser.add_argument("--json", type=Path, help="the first rank writes all figures there")
    return parser.parse_args()


def join():
    """The process group of all hosts, gloo's; what on_each_host.sh says is enough for it."""
    import torch
    import torch.distributed as dist

    names = {"TUTTI_RANK": "RANK", "TUTTI_SIZE": "WORLD_SIZE"}
    for theirs, name in names.items():
        if theirs not in os.environ:
            sys.exit(f"there is no {theirs}: start it on each host, as --help says")
        os.environ[name] = os.environ[theirs]
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = os.environ["TUTTI_RENDEZVOUS"].split(":")
    for name in ("TUTTI_RANK", "TUTTI_SIZE", "TUTTI_RENDEZVOUS", "TUTTI_JOB", "TUTTI_TOKEN"):
        os.environ.pop(name, None)
    os.environ["GLOO_SOCKET_IFNAME"] = "eth0"
    torch.set_num_threads(1)
    dist.init_process_group("gloo")


def register(name, model, group, options):
    """The contender's hook; None for plain all_reduce."""
    import tutti.torch
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook, quantization_hooks
    from tutti.torch import hooks

    hook = name.split("/")[0]
    ours = {"int8": hooks.int8, "one_bit": hooks.one_bit, "power_sgd": lambda: hooks.power_sgd(rank=options.rank)}
    if hook in ours:
        model.register_comm_hook(None, ours[hook]())
    elif hook == "powerSGD":
        state = powerSGD_hook.PowerSGDState(group, matrix_approximation_rank=options.rank, start_powerSGD_iter=2,
                                            min_compression_rate=1)
        model.register_comm_hook(state, tutti.torch.in_order(powerSGD_hook.powerSGD_hook))
    elif hook == "quantization":
        model.register_comm_hook(group, tutti.torch.in_order(quantization_hooks.quantization_pertensor_hook))
    elif hook == "bf16":
        model.register_comm_hook(group, default_hooks.bf16_compress_hook)


class Contender:
    def __init__(self, name, groups, text, options):
        import torch
        from gpt import GPT, Shape
        from torch.nn.parallel import DistributedDataParallel

        torch.manual_seed(1)
        group = groups["tutti" if name.endswith("tutti") else "gloo"]
        model = GPT(text.vocabulary, Shape(layers=options.layers, heads=options.width // 64, width=options.width))
        self.model = DistributedDataParallel(model, process_group=group, bucket_cap_mb=options.bucket_mb)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.text, self.batch, self.steps = text, options.batch, 0
        register(name, self.model, group, options)

    def step(self, quiet=False):
        from contextlib import nullcontext

        import torch.distributed as dist
        from gpt import loss_of

        inputs, targets = self.text.batch(1, self.steps, self.batch, dist.get_rank(), dist.get_world_size())
        with self.model.no_sync() if quiet else nullcontext():
            loss = loss_of(self.model(inputs), targets)
            loss.backward()
        if not quiet:
            self.optimizer.step()
            self.steps += 1
        self.optimizer.zero_grad()
        return loss.item()


def measure(options):
    """({name: {"step_ms", "loss"}}, numbers of the model)"""
    import statistics

    import torch
    import torch.distributed as dist

    sys.path.insert(0, str(ROOT / "examples/torch"))
    from gpt import Text

    groups = {backend: dist.new_group(backend=backend) for backend in ("tutti", "gloo")}
    names = ["none/tutti", "none/gloo", *dict.fromkeys(name for pair in PAIRS for name in pair), "bf16/tutti"]
    names = [name for name in names if any(part in name for part in options.only)]
    text = Text()
    contenders = {name: Contender(name, groups, text, options) for name in names}
    turns = {name: contender.step for name, contender in contenders.items()}
    first = next(iter(contenders.values()))
    turns["alone"] = lambda: first.step(quiet=True)
    times, cores, losses = {name: [] for name in turns}, {name: [] for name in turns}, {}
    for number in range(SETTLING + options.rounds):
        for name in turns if number % 2 == 0 else reversed(turns):
            dist.barrier()
            began, of_core = time.perf_counter(), time.process_time()
            losses[name] = turns[name]()
            if number >= SETTLING:
                times[name].append(1e3 * (time.perf_counter() - began))
                cores[name].append(1e3 * (time.process_time() - of_core))
        if dist.get_rank() == 0:
            print(f"step {number + 1} of {SETTLING + options.rounds}", file=sys.stderr, flush=True)
    rows = {}
    for name, values in times.items():
        slowest = torch.tensor([values, cores[name]], dtype=torch.float64)
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        step_ms, core_ms = map(statistics.median, slowest.tolist())
        rows[name] = {"step_ms": step_ms, "core_ms": core_ms, "loss": losses[name]}
    return rows, sum(each.numel() for each in first.model.parameters())


def main():
    options = arguments()
    join()
    import torch.distributed as dist
    import tutti.torch  # noqa: F401  registers the backend

    rows, numbers = measure(options)
    rank, size = dist.get_rank(), dist.get_world_size()
    dist.barrier()
    dist.destroy_process_group()
    if rank > 0:
        return
    print(f"# {numbers / 1e6:.1f} million numbers, {size} hosts, {options.batch} x 64 characters per rank, PowerSGD of "
          f"rank {options.rank}, {options.rounds} rounds\n\n{'':20} {'ms a step':>10} {'beyond alone':>13} "
          f"{'of a core':>10} {'loss':>7}")
    for name, row in rows.items():
        beyond = row["step_ms"] - rows["alone"]["step_ms"]
        print(f"{name:20} {row['step_ms']:10.1f} {beyond:13.1f} {row['core_ms']:10.1f} {row['loss']:7.3f}")
    print(f"\n{'times as fast':42} {'measured':>9} {'asked':>8}  met")
    for ours, theirs in PAIRS:
        if ours in rows and theirs in rows:
            ratio = rows[theirs]["step_ms"] / rows[ours]["step_ms"]
            print(f"{ours + ' against ' + theirs:42} {ratio:8.2f}x {f'>= {ASKED}x':>8}  "
                  f"{'yes' if ratio >= ASKED else 'NO'}")
    if options.json:
        options.json.write_text(json.dumps({"hosts": size, "cores": os.cpu_count(), "rate": os.environ.get("RATE"),
                                            "numbers": numbers, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
