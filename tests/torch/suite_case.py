"""PyTorch's own tests of torch.distributed, as a class that runs them over the backend that $BACKEND names.

The tests lie inside PyTorch (torch.testing._internal.distributed.distributed_test) and are used as they are. Only
how their processes start is ours: they fork from a server that has imported everything, instead of importing
PyTorch anew in each of three processes per test (SUITE_START=spawn for the original way).

A module of its own because the processes find the class by importing it: that is when the backend is registered.
"""

import importlib
import os
import sys

import torch
import torch.multiprocessing
from torch.testing._internal.common_distributed import DistTestCases

BACKEND = os.environ["BACKEND"]
OURS = "tutti"

if BACKEND == OURS:
    importlib.import_module("tutti.torch")
    for feature in ("ddp", "subgroup", "plugin"):  # what backends have by name; a name that is missing skips its tests
        DistTestCases.backend_feature[feature].add(OURS)

from torch.testing._internal.distributed import distributed_test  # noqa: E402  (decides by the name as it is imported)


def _in_child(environment, target, arguments, named):
    """The server was started before the test set its variables."""
    os.environ.clear()
    os.environ.update(environment)
    torch.set_num_threads(1)
    target(*arguments, **named)


def _context():
    if os.environ.get("SUITE_START", "forkserver") == "spawn":
        return torch.multiprocessing.get_context("spawn")
    context = torch.multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


class PytorchSuite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def _spawn_processes(self):
        context = _context()

        def process(target, name, args, kwargs):
            return context.Process(target=_in_child, name=name, args=(dict(os.environ), target, args, kwargs))

        self._start_processes(process)


def names():
    return sorted(name for name in dir(PytorchSuite) if name.startswith("test_"))


if __name__ == "__main__":
    sys.exit("this is a part of pytorch_suite.py")
