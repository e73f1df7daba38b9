"""What goes wrong is said, in the words of the library, as the exception that its meaning suggests."""

import builtins
import os
import pickle
import threading

import numpy as np
import pytest
import tutti


def failing(function, *args):
    with pytest.raises(tutti.Error) as caught:
        function(*args)
    return caught.value


def test_classes():
    assert issubclass(tutti.TimeoutError, builtins.TimeoutError)
    assert issubclass(tutti.InvalidArgumentError, ValueError)
    assert issubclass(tutti.ArgumentTypeError, TypeError)
    assert issubclass(tutti.PeerLostError, ConnectionError)
    assert issubclass(tutti.SystemRefusedError, OSError)
    assert issubclass(tutti.UnsupportedError, NotImplementedError)
    for cls in (tutti.TimeoutError, tutti.SystemRefusedError, tutti.MismatchError):
        error = pickle.loads(pickle.dumps(cls("some words", 3)))
        assert (type(error), str(error), error.rank, error.code) == (cls, "some words", 3, cls.code)


def test_lengths_that_differ_between_ranks(run):
    def job(comm):
        error = failing(comm.all_reduce, np.zeros(3 + comm.rank))
        assert isinstance(error, tutti.MismatchError) and error.code == "mismatch"
        again = failing(comm.all_reduce, np.zeros(1))
        assert isinstance(again, tutti.AbortedError)
        return str(error)
    words = " ".join(run(2, job))
    assert "3 float64" in words and "4 float64" in words


def test_types_that_differ_between_ranks(run):
    def job(comm):
        return str(failing(comm.all_reduce, np.zeros(4, "f4" if comm.rank else "i4")))
    assert any("float32" in words and "int32" in words for words in run(2, job))


def test_a_rank_that_does_not_come(run):
    def job(comm):
        if comm.rank == 0:
            comm.timeout = 0.3
            error = failing(comm.all_reduce, np.zeros(2))
            assert isinstance(error, builtins.TimeoutError) and error.rank == 1
            assert "rank 1" in str(error)
        else:
            assert isinstance(failing(comm.recv, np.zeros(1), 0), tutti.PeerFailedError)
    run(2, job)


def test_a_rank_that_died(run):
    def job(comm):
        if comm.rank == 1:
            os._exit(3)
        error = failing(comm.barrier)
        assert isinstance(error, ConnectionError) and error.rank == 1
        return "seen"
    with pytest.raises(tutti.RankError, match="rank 1 failed.*\n.*exit code 3") as caught:
        run(2, job)
    assert caught.value.rank == 1 and not caught.value.others


def test_roots_outside_the_group(run):
    def job(comm):
        for call in (comm.broadcast, lambda x, root: comm.reduce(x, root=root), comm.gather):
            assert isinstance(failing(call, np.zeros(2), 5), tutti.InvalidArgumentError)
        assert "out= on every rank but the root" in str(failing(comm.scatter, None, None, 1 - comm.rank))
        comm.barrier()
    run(2, job)


def test_use_after_close(run):
    def job(comm):
        comm.close()
        comm.close()
        for call in (lambda: comm.all_reduce(np.zeros(1)), comm.barrier, lambda: comm.rank, lambda: comm.timeout,
                     lambda: comm.empty(3), comm.duplicate, lambda: comm.recv(np.zeros(1), 0)):
            assert "was closed" in str(failing(call))
        assert repr(comm) == "<tutti.Communicator, closed>"
    run(1, job)


def test_a_context_closes():
    with tutti.init() as comm:
        assert (comm.rank, comm.size) == (0, 1)
    assert comm.closed


def test_options_that_are_not_there():
    for options, words in (({"check": "half"}, "no check 'half'"), ({"transport": "pigeon"}, "no transport 'pigeon'"),
                           ({"timeout": 0}, "more than nothing"), ({"rank": 0, "world_size": 2}, "where the 2 ranks meet")):
        with pytest.raises(tutti.Error, match=words):
            tutti.init(**options)


def test_a_forked_child_is_refused(run):
    def job(comm):
        work = comm.recv(np.zeros(1), comm.rank, async_op=True)
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            words = ""
            for call in (lambda: comm.all_reduce(np.zeros(1)), lambda: comm.rank, work.wait):
                try:
                    call()
                except tutti.InvalidArgumentError as error:
                    words += str(error) + "\n"
            comm.close()
            del work
            os.write(writing, words.encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as lines:
            assert lines.read().count("belongs to the process that was forked") == 3
        assert os.waitpid(child, 0)[1] == 0
        comm.send(np.zeros(1), comm.rank)
        assert work.wait().count == 1
        comm.send(np.ones(1), comm.rank)
        work.wait()
        assert comm.all_reduce(np.ones(1)).tolist() == [2.0]  # and the parent goes on
    run(2, job)


def test_two_threads_at_once_are_refused(run):
    run(2, two_threads)


def two_threads(comm):
    """Rank 0's thread waits for a message that rank 1 sends when rank 0's other communicator says so."""
    other = comm.duplicate()
    if comm.rank == 1:
        other.recv(np.zeros(1), 0)
        comm.send(np.zeros(1), 0)
        return
    waits = threading.Thread(target=comm.recv, args=(np.zeros(1), 1))
    waits.start()
    words = ""
    while "another thread" not in words:  # as soon as it is in its call
        try:
            comm.timeout
        except tutti.InvalidArgumentError as error:
            words = str(error)
    assert "comm.duplicate()" in words
    assert "another thread" in str(failing(comm.close))
    other.send(np.zeros(1), 1)
    waits.join()
    assert comm.timeout == 30


def test_a_communicator_cannot_be_pickled(run):
    def job(comm):
        with pytest.raises(TypeError, match="tutti.init"):
            pickle.dumps(comm)
    run(1, job)
