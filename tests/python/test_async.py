"""Async calls, other threads meanwhile, and Ctrl-C."""

import builtins
import gc
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tutti

WAITS = """
import sys, numpy, tutti
comm = tutti.init(rank={rank}, world_size=2, rendezvous="{place}", job="ctrl-c", timeout=60)
try:
    {call}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    {after}
"""


def test_calls_overlap_and_end_in_any_order(run, transport):
    def job(comm):
        arrays = [np.full(1000, comm.rank + i, float) for i in range(20)]
        works = [comm.all_reduce(x, async_op=True) for x in arrays]
        for i in reversed(range(20)):
            assert works[i].wait() is arrays[i]
            assert (arrays[i] == 3 * i + 3).all()
        assert all(work.done() for work in works)
    run(3, job, transport=transport)


def test_every_verb_has_an_async_form(run):
    def job(comm):
        x, root = np.arange(4.0) + comm.rank, 0
        everyone = [np.arange(4.0) + rank for rank in range(comm.size)]
        expected = {
            "all_reduce": sum(everyone), "broadcast": everyone[0], "scan": sum(everyone[:comm.rank + 1]),
            "all_gather": np.concatenate(everyone), "reduce_scatter": sum(everyone)[2 * comm.rank:][:2],
            "all_to_all": np.concatenate([array[2 * comm.rank:][:2] for array in everyone]),
        }
        for verb, result in expected.items():
            assert getattr(comm, verb)(x.copy(), async_op=True).wait().tolist() == result.tolist(), verb
        gathered = comm.gather(x, root, async_op=True).wait()
        assert gathered.tolist() == np.concatenate(everyone).tolist() if comm.rank == 0 else gathered is None
        out = comm.scatter(x if comm.rank == 0 else None, np.zeros(2), async_op=True).wait()
        assert out.tolist() == everyone[0][2 * comm.rank:][:2].tolist()
    run(2, job)


def test_wait_with_a_timeout_leaves_the_call_under_way(run):
    def job(comm):
        out = np.zeros(1)
        work = comm.recv(out, 1 - comm.rank, async_op=True)
        if comm.rank == 0:
            assert not work.done()
            with pytest.raises(builtins.TimeoutError, match="still under way") as caught:
                work.wait(timeout=0.05)
            assert caught.value.code == "timeout"
        with pytest.raises(ValueError):
            work.wait(timeout=-1)
        comm.barrier()
        comm.send(np.ones(1), 1 - comm.rank)
        assert work.wait(timeout=20).count == 1 and out[0] == 1
    run(2, job)


def test_handles_may_be_dropped(run):
    def job(comm):
        x = np.full(100_000, comm.rank + 1.0)
        comm.all_reduce(x, async_op=True)
        comm.all_reduce(np.ones(100_000), async_op=True)  # its array, too
        gc.collect()
        comm.barrier()
        comm.all_reduce(np.ones(1))
        while not (x == 3).all():
            comm.barrier()  # ends with the calls before it
    run(2, job)


def test_other_threads_run_while_a_call_waits(run):
    def job(comm):
        other = comm.duplicate()
        if comm.rank == 1:
            other.recv(np.zeros(1), 0)
            return comm.send(np.zeros(1), 0)
        counted = [0]

        def count_then_let_it_go():
            while True:  # until the call is under way
                try:
                    comm.timeout
                except tutti.InvalidArgumentError:
                    break
            while counted[0] < 100_000:
                counted[0] += 1
            other.send(np.zeros(1), 1)
        thread = threading.Thread(target=count_then_let_it_go)
        thread.start()
        comm.recv(np.zeros(1), 1)  # in vain if it kept the thread from running
        assert counted[0] == 100_000
        thread.join()
    run(2, job, timeout=20)


def start(rank, place, call, after="pass"):
    code = WAITS.format(rank=rank, place=place, call=call, after=after)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


BLOCKED = 'print("in", flush=True); '


@pytest.mark.parametrize("rank, call", [
    (0, "comm.all_reduce(numpy.zeros(3))"),
    (0, "comm.recv(numpy.zeros(3), 1)"),
    (0, "comm.recv(numpy.zeros(3), 1, async_op=True).wait()"),
    (0, "comm.split(0)"),
    (1, "comm.empty(1000)"),  # which waits for rank 0 to make it
])
def test_ctrl_c_ends_a_wait(rank, call):
    place = f"unix:@tutti-ctrl-c-{os.getpid()}-{time.monotonic_ns()}"
    peer = start(1 - rank, place, "import time; time.sleep(60)")
    waits = start(rank, place, BLOCKED + call)
    try:
        assert waits.stdout.readline() == "in\n"
        time.sleep(0.3)  # until it sleeps in the call; a signal that comes before is one in Python code
        sent = time.monotonic()
        waits.send_signal(signal.SIGINT)
        out, error = waits.communicate(timeout=30)
        assert time.monotonic() - sent < 10
        assert out == "interrupted\n" and waits.returncode == 0, error
    finally:
        peer.kill()
        waits.kill()
        peer.communicate()


def test_ctrl_c_ends_the_wait_for_ranks_that_do_not_come():
    place = f"unix:@tutti-ctrl-c-{os.getpid()}-{time.monotonic_ns()}"
    alone = subprocess.Popen(
        [sys.executable, "-c", "import tutti\nprint('in', flush=True)\ntry:\n"
         f"    tutti.init(rank=0, world_size=2, rendezvous='{place}', job='j')\n"
         "except KeyboardInterrupt:\n    print('interrupted', flush=True)\n"], stdout=subprocess.PIPE, text=True)
    try:
        assert alone.stdout.readline() == "in\n"
        time.sleep(0.3)
        alone.send_signal(signal.SIGINT)
        assert alone.communicate(timeout=30)[0] == "interrupted\n"
    finally:
        alone.kill()


def test_ctrl_c_leaves_an_async_call_under_way_and_tells_the_others_of_a_blocking_one():
    place = f"unix:@tutti-ctrl-c-{os.getpid()}-{time.monotonic_ns()}"
    after = ("x = numpy.zeros(1)\n    comm.send(x, 1, 5)\n    assert work.wait().count == 3\n"
             "    print('went on', flush=True)\n"
             "    try:\n        print('in', flush=True); comm.barrier()\n"
             "    except KeyboardInterrupt:\n        sys.exit(7)")
    first = start(0, place, "work = comm.recv(numpy.zeros(3), 1, async_op=True); print('in', flush=True); work.wait()",
                  after)
    second = start(1, place, "comm.recv(numpy.zeros(1), 0, 5); comm.send(numpy.zeros(3), 0); "
                             "comm.recv(numpy.zeros(1), 0, 6)")
    try:
        assert first.stdout.readline() == "in\n"
        time.sleep(0.3)
        first.send_signal(signal.SIGINT)
        assert [first.stdout.readline() for _ in range(3)] == ["interrupted\n", "went on\n", "in\n"]
        time.sleep(0.3)
        first.send_signal(signal.SIGINT)
        assert first.wait(30) == 7
        assert "rank 0" in second.communicate(timeout=30)[1] and second.returncode == 1
    finally:
        first.kill()
        second.kill()
        first.communicate()


def test_ctrl_c_stops_ranks_that_are_threads():
    code = ("import tutti, numpy\ndef job(comm):\n    if comm.rank == 0: print('in', flush=True)\n"
            "    comm.recv(numpy.zeros(1), (comm.rank + 1) % 3)\n"
            "try: tutti.spawn(job, 3, threads=True)\nexcept KeyboardInterrupt: print('interrupted', flush=True)\n")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "in\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0] == "interrupted\n"
    finally:
        process.kill()
