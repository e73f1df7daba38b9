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


def told_when_to_send(comm, place_of):
    """Rank 0: posted receives, and a function that asks rank 1 for one of them. Rank 1 returns when it is asked for -1."""
    call = np.zeros(1, int)
    if comm.rank == 1:
        while comm.recv(call, 0, tag=100) and call[0] >= 0:
            place_of(call[0]).send(call, 0, tag=call[0])
        return None, None
    return ([place_of(i).recv(np.zeros(1, int), 1, tag=i, async_op=True) for i in range(3)],
            lambda i: comm.send(np.array([i]), 1, tag=100))


@pytest.mark.parametrize("groups", [1, 3])
def test_the_first_of_several(run, transport, groups):
    def job(comm):
        places = [comm.duplicate() for _ in range(groups)]
        works, ask_for = told_when_to_send(comm, lambda i: places[i % groups])
        if works is None:
            return
        with pytest.raises(tutti.TimeoutError):
            tutti.wait_any(works, timeout=0.05)
        assert tutti.test_any(works) is None
        for i in (2, 0):
            ask_for(i)
            assert tutti.wait_any(works) == i and tutti.wait_some(iter(works)) == [i] and tutti.test_any(works) == i
            assert works[i].wait() == (1, i, 1)
            works[i] = None
        ask_for(1)
        assert tutti.wait_some(works, timeout=20) == [1] and works[1].done()
        assert tutti.wait_any([None]) is None and tutti.wait_some([]) == [] and tutti.test_any([None]) is None
        with pytest.raises(TypeError):
            tutti.wait_any([3])
        ask_for(-1)
    run(2, job, transport=transport)


def test_what_failed_counts_as_ended(run):
    def job(comm):
        twin = comm.duplicate()
        if comm.rank == 1:
            comm.recv(np.zeros(1), 0, 5)
            twin.close()
            return comm.send(np.zeros(1), 0)
        works = [comm.recv(np.zeros(1), 1, async_op=True), twin.recv(np.zeros(1), 1, async_op=True)]
        comm.send(np.zeros(1), 1, 5)
        assert 1 in (first := tutti.wait_some(works)) or tutti.wait_some([None, works[1]]) == [1], first
        with pytest.raises(tutti.PeerLostError):
            works[1].wait()
        assert works[0].wait().count == 1
    run(2, job)


def test_calls_under_way_outlive_close(run, transport):
    def job(comm):
        twin, out = comm.duplicate(), np.zeros(100_000)
        if comm.rank == 1:
            comm.recv(np.zeros(1), 0)  # its end is closed
            twin.send(np.ones(100_000), 0)
            with pytest.raises(tutti.PeerLostError):
                twin.recv(out, 0)  # it has left with its last call
            return comm.send(np.zeros(1), 0)
        first = twin.recv(out, 1, async_op=True)
        twin.close()
        assert twin.closed and not first.done()
        comm.send(np.zeros(1), 1)
        assert first.wait() == (1, 0, 100_000) and out.sum() == 100_000 and first.done()
        comm.recv(np.zeros(1), 1)
    run(2, job, transport=transport)


def test_close_waits_for_calls_whose_work_was_dropped(run, transport):
    def job(comm):
        twin = comm.duplicate()
        if comm.rank == 0:
            twin.send(np.arange(500_000), 1, async_op=True)
            return twin.close()
        out = np.zeros(500_000, int)
        twin.recv(out, 0)
        assert out[-1] == 499_999
    run(2, job, transport=transport)


def test_what_fails_in_close_is_raised(run):
    def job(comm):
        twin = comm.duplicate()
        if comm.rank == 0:
            twin.timeout = 0.2
            twin.recv(np.zeros(1), 1, async_op=True)  # which nobody sends
            with pytest.raises(tutti.TimeoutError, match="is rank 1 in the same call"):
                twin.close()
            assert twin.closed
        comm.barrier()
    run(2, job)


def test_an_exception_leaves_at_once(run):
    def job(comm):
        twin = comm.duplicate()
        if comm.rank == 1:
            with pytest.raises((tutti.PeerFailedError, tutti.PeerLostError)):
                twin.barrier()
            return
        with pytest.raises(KeyError):
            with twin:
                held = twin.recv(np.zeros(1), 1, async_op=True)
                twin.recv(np.zeros(1), 1, async_op=True)
                raise KeyError
        with pytest.raises(tutti.AbortedError):
            held.wait()
    run(2, job, timeout=60)


def start(rank, place, call, after="pass"):
    code = WAITS.format(rank=rank, place=place, call=call, after=after)
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


BLOCKED = 'print("in", flush=True); '


@pytest.mark.parametrize("rank, call", [
    (0, "comm.all_reduce(numpy.zeros(3))"),
    (0, "comm.recv(numpy.zeros(3), 1)"),
    (0, "comm.recv(numpy.zeros(3), 1, async_op=True).wait()"),
    (0, "tutti.wait_any([comm.recv(numpy.zeros(3), 1, async_op=True)])"),
    (0, "comm.recv(numpy.zeros(3), 1, async_op=True); comm.close()"),
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
