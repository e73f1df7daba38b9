"""A rank of the tests: carries out functions of the test modules, each in a process group of its own."""

import importlib
import multiprocessing.connection
import sys
import traceback
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch  # noqa: F401  registers the backend


def carry_out(order, store):
    """One order: a function, called as function(rank, size, *arguments) by every rank of a fresh default group."""
    module, name, rank, size, prefix, arguments, backend = order
    dist.init_process_group(
        backend, store=dist.PrefixStore(prefix, store), rank=rank, world_size=size, timeout=timedelta(seconds=60)
    )
    try:
        getattr(importlib.import_module(module), name)(rank, size, *arguments)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def main():
    descriptor, port = int(sys.argv[1]), int(sys.argv[2])
    torch.set_num_threads(1)
    parent = multiprocessing.connection.Connection(descriptor)
    store = dist.TCPStore("127.0.0.1", port, is_master=False)
    while True:
        order = parent.recv()
        if order is None:
            return
        try:
            carry_out(order, store)
            parent.send(None)
        except BaseException:
            parent.send(traceback.format_exc())


if __name__ == "__main__":
    main()
