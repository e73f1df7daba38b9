"""What every example of this folder begins and ends with: its arguments, the meeting of the ranks, and comparing them.

    torchrun --nproc-per-node 4 examples/torch/ddp_gpt.py --backend tutti

`--backend gloo` runs the same over PyTorch's own backend. Every example checks itself: it exits with 1, and says
what is wrong, where a result is not what it must be.
"""

import argparse
import hashlib
import importlib
import os
import sys

import torch
import torch.distributed as dist


def arguments(description, steps, **more):
    """The options that all examples have; `more` are others: name=(default, help)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["tutti", "gloo"], default="tutti",
                        help="who carries the tensors (default %(default)s)")
    parser.add_argument("--steps", type=int, default=steps, help="training steps (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and batches (default %(default)s)")
    parser.add_argument("--transport", choices=["auto", "shm", "tcp"], default="auto",
                        help="Tutti only: what carries the bytes; auto is shared memory within a host")
    for name, (default, words) in more.items():
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default,
                            help=f"{words} (default {default})")
    return parser.parse_args()


class Job:
    """The ranks that torchrun started, met. Leaves them when the `with` block ends."""

    def __init__(self, options):
        if "RANK" not in os.environ:
            sys.exit(f"start it with torchrun: torchrun --nproc-per-node 4 {sys.argv[0]}")
        torch.set_num_threads(1)  # ranks share the cores
        torch.manual_seed(options.seed)
        if options.backend == "tutti":
            os.environ["TUTTI_TRANSPORT"] = options.transport
            importlib.import_module("tutti.torch")  # registers the backend
        dist.init_process_group(options.backend)
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.device = torch.device(getattr(options, "device", "cpu"))
        if self.device.type == "cuda":  # ranks share the GPUs there are
            self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)) % torch.cuda.device_count())
            torch.cuda.set_device(self.device)
        self.wrong = 0

    def __enter__(self):
        self.say(f"{self.size} ranks over {dist.get_backend()}")
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            dist.destroy_process_group()
            if self.wrong:
                sys.exit(1)

    def say(self, words):
        if self.rank == 0:
            print(words, flush=True)

    def check(self, right, words):
        """Every rank says so where it is wrong; rank 0 where it is right."""
        if right:
            self.say(f"right: {words}")
        else:
            self.wrong += 1
            print(f"WRONG on rank {self.rank}: {words}", file=sys.stderr, flush=True)

    def mean(self, value):
        """Of all ranks' tensors of one element. (Summed here, because not every backend has an average.)"""
        total = value.detach().clone()
        dist.all_reduce(total)
        return total.item() / self.size

    def check_same(self, tensors, words):
        """That all ranks have the same bits."""
        mine = digest(tensors)
        all_of_them = [None] * self.size
        dist.all_gather_object(all_of_them, mine)
        self.check(set(all_of_them) == {mine}, f"{words}: the same bits on all ranks, sha256 {mine[:16]}")


def digest(tensors):
    """A hash of all bits."""
    summary = hashlib.sha256()
    for tensor in tensors:
        summary.update(tensor.detach().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes())
    return summary.hexdigest()
