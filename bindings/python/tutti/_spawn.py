"""Ranks started from inside a script: as processes, or as threads of this one."""

import multiprocessing
import multiprocessing.connection
import os
import pickle
import secrets
import time
import traceback

from . import _core
from ._communicator import Communicator, init
from ._errors import AbortedError, Error, InvalidArgumentError, PeerFailedError, PeerLostError

# After a rank has failed the others have so long to say what they know, and are stopped then.
_GRACE_S = 2.0


class RankError(Error):
    """A rank raised, or its process died: `rank` is the first cause, `traceback` its words.

    `others` has (rank, words) of the ranks that failed, too; where the exception could be brought here it is __cause__.
    """

    code = "rank_failed"
    __module__ = "tutti"

    def __init__(self, message="", rank=None, words="", others=()):
        super().__init__(message, rank)
        self.traceback = words
        self.others = list(others)


class _Failure:
    """How a rank failed."""

    def __init__(self, rank, words, exception=None):
        self.rank, self.words, self.exception = rank, words, exception

    def is_consequence(self):
        return isinstance(self.exception, (PeerLostError, PeerFailedError, AbortedError))


def spawn(function, ranks, *args, threads=False, method="spawn", **options):
    """Runs function(comm, *args) on so many ranks of this machine; returns the list of their results.

    Ranks are processes, started by multiprocessing's `method`: "spawn" needs a function that can be imported and, in a
    script, `if __name__ == "__main__":` around the call; "fork" takes any, while this process has one thread. With
    threads=True they are threads of this process, which notebooks like. options are those of tutti.init().

    When a rank raises, the others are stopped, and RankError names the rank and shows its traceback.
    """
    if not isinstance(ranks, int) or ranks < 1:
        raise InvalidArgumentError(f"spawn: a group needs at least one rank, not {ranks!r}")
    if threads:
        if options:
            raise InvalidArgumentError("spawn: ranks that are threads take no options")
        return _run_threads(function, ranks, args)
    return _run_processes(function, ranks, args, method, options)


def _raise_first(failures):
    """The failure that the others follow from, as an exception."""
    first = next((failure for failure in failures if not failure.is_consequence()), failures[0])
    others = [(failure.rank, failure.words) for failure in failures if failure is not first]
    message = f"rank {first.rank} failed:\n{first.words.rstrip()}"
    if others:
        message += "\nafter it: " + "; ".join(f"rank {rank}: {words.strip().splitlines()[-1]}" for rank, words in others)
    raise RankError(message, first.rank, first.words, others) from first.exception


# ---- Threads.

def _run_threads(function, ranks, args):
    results = [None] * ranks
    failures = []

    def run_rank(group):
        with Communicator(group) as communicator:
            rank = communicator.rank
            try:
                results[rank] = function(communicator, *args)
            except BaseException as error:  # also SystemExit: a thread cannot pass it on
                failures.append(_Failure(rank, traceback.format_exc(), error))
                communicator._give_up()

    _core.run_ranks(ranks, run_rank)
    if failures:
        _raise_first(failures)
    return results


# ---- Processes.

def _rank_main(pipe, function, rank, ranks, place, args, options):
    for name in [name for name in os.environ if name.startswith("TUTTI_") and name in _LAUNCHER_NAMES]:
        del os.environ[name]  # of a launcher that started this program: the ranks here are others
    try:
        with init(rank=rank, world_size=ranks, rendezvous=place, job=place, **options) as communicator:
            answer = ("result", function(communicator, *args))
        packed = pickle.dumps(answer)
    except BaseException as error:
        words = traceback.format_exc()
        try:
            packed = pickle.dumps(("failure", words, error))
            pickle.loads(packed)  # an exception may lose what it needs on the way
        except Exception:
            packed = pickle.dumps(("failure", words, None))
    pipe.send_bytes(packed)
    pipe.close()


_LAUNCHER_NAMES = {"TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_SIZE", "TUTTI_LOBBY", "TUTTI_JOB",
                   "TUTTI_RENDEZVOUS", "TUTTI_TOKEN", "TUTTI_TOKEN_FILE"}


def _start(process, method):
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:  # what pickle raises differs by version
        if method == "fork":
            raise
        raise InvalidArgumentError(
            f"spawn: the function or an argument cannot be brought to a new process ({error}); define the function at "
            'the top level of a file, or pass threads=True or method="fork", which take any function'
        ) from error


def _run_processes(function, ranks, args, method, options):
    context = multiprocessing.get_context(method)
    place = f"unix:@tutti-spawn-{os.getpid()}-{secrets.token_hex(8)}"
    processes, pipes = [], []
    try:
        for rank in range(ranks):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_rank_main, name=f"rank {rank}",
                                      args=(theirs, function, rank, ranks, place, args, options))
            _start(process, method)
            theirs.close()
            processes.append(process)
            pipes.append(ours)
        return _collect(processes, pipes)
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
        for process in processes:
            process.join(_GRACE_S)
            if process.is_alive():
                process.kill()
                process.join()
        for pipe in pipes:
            pipe.close()


def _collect(processes, pipes):
    results = [None] * len(pipes)
    failures = []
    waiting = {pipe: rank for rank, pipe in enumerate(pipes)}
    deadline = None
    while waiting:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = multiprocessing.connection.wait(list(waiting), left)
        if not ready:
            break
        for pipe in ready:
            rank = waiting.pop(pipe)
            answer = _answer(pipe, processes[rank])
            if answer[0] == "result":
                results[rank] = answer[1]
            else:
                failures.append(_Failure(rank, answer[1], answer[2]))
        if failures and deadline is None:
            deadline = time.monotonic() + _GRACE_S
    if failures:
        _raise_first(failures)
    return results


def _answer(pipe, process):
    try:
        return pickle.loads(pipe.recv_bytes())
    except EOFError:
        process.join()
        code = process.exitcode
        words = f"its process was ended by signal {-code}" if code < 0 else f"its process ended with exit code {code}"
        return "failure", words, None
