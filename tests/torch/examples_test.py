#!/usr/bin/env python3
"""Runs one of examples/torch as a user would, by torchrun, and holds it to what it says of itself.

  tests/torch/examples_test.py moe                    over Tutti
  tests/torch/examples_test.py moe --backend gloo     to see whether the example itself is right
  tests/torch/examples_test.py ddp_gpt                several runs, which are compared

Exits with 77 and a word where PyTorch, the backend or what else the example needs is missing.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples/torch"
SKIPPED = 77
# How many ranks, and how many things each checks of itself.
RANKS_AND_CHECKS = {"ddp_gpt": (4, 2), "fsdp2_gpt": (4, 2), "tensor_parallel": (2, 2), "pipeline": (4, 2),
                    "moe": (4, 4), "zero_optimizer": (2, 3), "accelerated_gpt": (2, 4)}
NEEDS = {"accelerated_gpt": ["accelerate"]}


def run(name, *arguments):
    ranks, checks = RANKS_AND_CHECKS[name]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
               str(EXAMPLES / f"{name}.py"), *arguments]
    ended = subprocess.run(command, env=dict(os.environ, OMP_NUM_THREADS="1"), text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    words = " ".join(command[5:])
    right = ended.stdout.count("right: ")
    if ended.returncode or right != checks:
        sys.exit(f"{words}: exit code {ended.returncode}, {right} of {checks} checks are right\n{ended.stdout}")
    print(f"{words}: {checks} checks are right", flush=True)
    return ended.stdout


def last_loss(output):
    return float(re.findall(r"loss ([0-9.]+)", output)[-1])


def hash_of(output):
    return re.search(r"sha256 ([0-9a-f]+)", output).group(1)


def compare_ddp_runs():
    """The same bits in every run and over every transport; the same loss as over gloo."""
    runs = {words: run("ddp_gpt", *words.split()) for words in
            ("--transport shm", "--transport shm --backend tutti", "--transport tcp", "--backend gloo")}
    over_gloo = runs.pop("--backend gloo")
    hashes = {words: hash_of(output) for words, output in runs.items()}
    if len(set(hashes.values())) != 1:
        sys.exit(f"runs differ: {hashes}")
    ours, theirs = last_loss(runs["--transport shm"]), last_loss(over_gloo)
    if abs(ours - theirs) > 1e-5 * theirs:
        sys.exit(f"the loss after 100 steps is {ours} over tutti and {theirs} over gloo")
    print(f"the same bits in {len(hashes)} runs; loss {ours}, over gloo {theirs}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("example", choices=sorted(RANKS_AND_CHECKS))
    parser.add_argument("--backend", choices=["tutti", "gloo"], default="tutti")
    options = parser.parse_args()
    try:
        ours = ["tutti.torch"] * (options.backend == "tutti")
        for module in ["torch.distributed", *ours, *NEEDS.get(options.example, [])]:
            importlib.import_module(module)
    except ImportError as error:
        print(f"skipped: {sys.executable}: {error}; TORCH_PYTHON names a python that has it")
        return SKIPPED
    if options.example == "ddp_gpt" and options.backend == "tutti":
        compare_ddp_runs()
    else:
        run(options.example, "--backend", options.backend)
    return 0


if __name__ == "__main__":
    sys.exit(main())
