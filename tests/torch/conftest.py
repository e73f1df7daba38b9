"""`ranks(n, function, *arguments)`: calls function(rank, n, *arguments) on n processes, which last for all tests."""

import itertools
import multiprocessing
import os
import pathlib
import subprocess
import sys
import time

import pytest
import torch.distributed as dist

HERE = pathlib.Path(__file__).parent
PATIENCE_S = 300  # on a machine that does much else


class Ranks:
    def __init__(self):
        self._store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        self._numbers = itertools.count()
        self._workers = []  # (process, connection)

    def _start(self, count):
        while len(self._workers) < count:
            ours, theirs = multiprocessing.Pipe()
            command = [sys.executable, str(HERE / "worker.py"), str(theirs.fileno()), str(self._store.port)]
            environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
            process = subprocess.Popen(command, env=environment, pass_fds=[theirs.fileno()])
            theirs.close()
            self._workers.append((process, ours))

    def stop(self):
        for process, connection in self._workers:
            connection.close()
            process.kill()
            process.wait()
        self._workers = []

    def __call__(self, size, function, *arguments, backend="tutti", deaths=()):
        """`deaths`: ranks that are expected to end themselves."""
        self._start(size)
        workers = self._workers[:size]
        prefix = f"{function.__module__}.{function.__name__}.{next(self._numbers)}"
        for rank, (_, connection) in enumerate(workers):
            connection.send((function.__module__, function.__name__, rank, size, prefix, arguments, backend))
        complaints = self._collect(workers, deaths)
        if deaths or any("did not answer" in complaint for complaint in complaints):
            self.stop()
        if complaints:
            pytest.fail("\n".join(complaints), pytrace=False)

    def _collect(self, workers, deaths):
        until = time.monotonic() + PATIENCE_S
        complaints = []
        for rank, (process, connection) in enumerate(workers):
            if rank in deaths:
                continue
            try:
                if not connection.poll(max(0, until - time.monotonic())):
                    complaints.append(f"rank {rank} did not answer within {PATIENCE_S} s")
                elif (words := connection.recv()) is not None:
                    complaints.append(f"rank {rank}: {words}")
            except (EOFError, OSError):
                complaints.append(f"rank {rank} did not answer: it ended with {process.wait()}")
        return complaints


@pytest.fixture(scope="session")
def ranks():
    pool = Ranks()
    yield pool
    pool.stop()


@pytest.fixture
def new_ranks(ranks, monkeypatch):
    """Ranks of this test alone: they start in the environment that it has set by monkeypatch."""
    ranks.stop()
    yield ranks
    ranks.stop()
