"""Ranks started from a script."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tutti

SCRIPT = """
import sys, numpy, tutti

def job(comm, factor):
    return comm.all_reduce(numpy.array([comm.rank * factor])).tolist(), comm.size

if __name__ == "__main__":
    print(tutti.spawn(job, 3, 10))
"""


def total(comm, start):
    return comm.all_reduce(np.array([start + comm.rank])).item()


@pytest.fixture(params=[{"threads": True}, {"method": "fork"}, {"method": "spawn"}], ids=["threads", "fork", "spawn"])
def how(request):
    return request.param


def test_results_come_back_in_order(how):
    assert tutti.spawn(total, 4, 10, **how) == [46] * 4


def raises(comm):
    if comm.rank == 1:
        raise LookupError("nothing there")
    comm.barrier()


def test_the_rank_that_raised_is_named(how):
    began = time.monotonic()
    with pytest.raises(tutti.RankError) as caught:
        tutti.spawn(raises, 3, **how)
    error = caught.value
    assert error.rank == 1 and "in raises" in error.traceback and isinstance(error.__cause__, LookupError)
    assert "rank 1 failed" in str(error) and "LookupError: nothing there" in str(error)
    assert sorted(rank for rank, _ in error.others) == [0, 2]
    assert time.monotonic() - began < 30


def raises_alone(comm):
    if comm.rank == 1:
        raise LookupError("nothing there")
    signal.pause()  # not in a call: nobody tells it


def test_ranks_that_do_other_things_are_stopped():
    with pytest.raises(tutti.RankError, match="nothing there"):
        tutti.spawn(raises_alone, 3, method="fork")


def killed(comm):
    if comm.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    comm.barrier()


def test_a_rank_that_is_killed_is_named():
    with pytest.raises(tutti.RankError, match="signal 9") as caught:
        tutti.spawn(killed, 3, method="fork")
    assert caught.value.rank == 2


def test_a_function_that_cannot_be_brought_to_a_process_is_refused_with_a_remedy():
    with pytest.raises(tutti.InvalidArgumentError, match="threads=True"):
        tutti.spawn(lambda comm: comm.rank, 2)
    assert tutti.spawn(lambda comm: comm.rank, 2, method="fork") == [0, 1]


def unpicklable(comm):
    return lambda: 0


def test_a_result_that_cannot_travel_is_an_error():
    with pytest.raises(tutti.RankError, match="unpicklable"):
        tutti.spawn(unpicklable, 1, method="fork")


def test_threads_bring_any_result():
    assert tutti.spawn(unpicklable, 2, threads=True)[1]() == 0


def test_numbers_of_ranks():
    for ranks in (0, -1, "3"):
        with pytest.raises(tutti.InvalidArgumentError, match="at least one rank"):
            tutti.spawn(total, ranks)


def test_under_a_launcher_the_ranks_are_new_ones(monkeypatch):
    for name, value in (("TUTTI_RANK", "0"), ("TUTTI_SIZE", "7"), ("TUTTI_JOB", "other")):
        monkeypatch.setenv(name, value)
    assert tutti.spawn(total, 2, 0, method="fork") == [1, 1]


def test_a_script(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.stdout == "[([30], 3), ([30], 3), ([30], 3)]\n", done.stderr
