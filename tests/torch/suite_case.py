"""PyTorch's own tests of torch.distributed, as a class that runs them over the backend that $BACKEND names.

The tests lie inside PyTorch (torch.testing._internal.distributed.distributed_test) and are used as they are. Only
how their processes start is ours: they fork from a server that has imported everything, instead of importing
PyTorch anew in each of three processes per test (SUITE_START=spawn for the original way).

With SUITE_OPEN=1 the tests that PyTorch keeps for a backend of another name ("only gloo supports ...") run, too.

A module of its own because the processes find the class by importing it: that is when the backend is registered.
"""

import importlib
import os
import sys

import torch
import torch.multiprocessing
from pytorch_suite import KEPT_BY_NAME
from torch.testing._internal.common_distributed import DistTestCases

BACKEND = os.environ["BACKEND"]
OURS = "tutti"

if BACKEND == OURS:
    importlib.import_module("tutti.torch")
    for feature in ("ddp", "subgroup", "plugin"):  # what backends have by name; a name that is missing skips its tests
        DistTestCases.backend_feature[feature].add(OURS)

OPEN = os.environ.get("SUITE_OPEN") == "1"


def _open_gates():
    """Before the tests are imported: their decorators skip by name as they are."""
    theirs = importlib.import_module("torch.testing._internal.common_utils")
    skip_if, skip = theirs.skip_but_pass_in_sandcastle_if, theirs.skip_but_pass_in_sandcastle
    theirs.skip_but_pass_in_sandcastle_if = lambda condition, reason: skip_if(
        condition and not KEPT_BY_NAME.search(reason), reason)
    theirs.skip_but_pass_in_sandcastle = lambda reason: (
        (lambda test: test) if KEPT_BY_NAME.search(reason) else skip(reason))


class _AlsoGloo(str):
    """Our name, for the questions that tests ask while they run: `if BACKEND == "gloo"` means "on the CPU"."""

    def __eq__(self, other):
        return str.__eq__(self, other) or other == "gloo"

    __hash__ = str.__hash__


if OPEN:
    _open_gates()
from torch.testing._internal.distributed import distributed_test  # noqa: E402

if OPEN:
    distributed_test.BACKEND = _AlsoGloo(BACKEND)


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
