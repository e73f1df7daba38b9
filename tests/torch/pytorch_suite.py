#!/usr/bin/env python3
"""Runs PyTorch's own tests of torch.distributed over Tutti and over Gloo, and compares.

  tests/torch/pytorch_suite.py --all                  both backends, every test; minutes
  tests/torch/pytorch_suite.py --subset               Tutti alone, the tests of suite_subset.txt, all of which must pass
  tests/torch/pytorch_suite.py --all --tests '*ddp*'  those that match
  tests/torch/pytorch_suite.py --backend gloo --all   one backend, only counted

With both backends it fails where Tutti fails a test that Gloo passes, and where Gloo runs a test that Tutti does not,
unless suite_exceptions.txt says why. PyTorch keeps many tests for backends by name ("only gloo supports ...") and skips
them for any other. They are counted as skipped; then they are run once more with that gate open, and counted apart.
"""

import argparse
import fnmatch
import io
import json
import os
import queue
import re
import select
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
BACKENDS = ("tutti", "gloo")
SKIPPED = 77  # what ctest takes for "skipped"
OPENED = "tutti, gates open"
# Reasons to skip that speak of a backend's name, not of what it can do; suite_case.py opens these.
KEPT_BY_NAME = re.compile(r"(?i)only (gloo|mpi) |only supported on mpi|gloo batch|requires backend \w+ to be .*'gloo'")
# A process ended before or behind the test itself. Besides a broken backend that is PyTorch's own barrier of files there,
# which gives up after ten seconds: too few on a machine that is stopped for a while.
OUTSIDE_THE_TEST = "Expected exit code 0 but got 1 "
# Three ranks as in PyTorch's own runs; a test that wants more ranks is run with more.
WORLD_SIZES = (3, 4, 8)


# ---- The worker: one process that runs tests by name, one at a time.


def run_one(case, name):
    text = io.StringIO()
    result = unittest.TextTestRunner(stream=text, verbosity=0).run(case(name))
    if result.skipped:
        return "skip", result.skipped[0][1]
    if result.failures or result.errors:
        return "fail", (result.failures + result.errors)[0][1]
    return "pass", ""


def worker():
    """Names come in by lines, results go out by lines; what tests print goes to the log."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # before the server starts, so that its children inherit it
    import suite_case

    print(json.dumps(suite_case.names()), file=answers)
    for line in sys.stdin:
        began = time.monotonic()
        outcome, words = run_one(suite_case.PytorchSuite, line.strip())
        print(json.dumps([outcome, words, time.monotonic() - began]), file=answers)


class Worker:
    """The other end of it. A worker that does not answer in time is ended, with all that it started."""

    def __init__(self, backend, ranks, opened, log, timeout):
        self.backend, self.ranks, self.opened, self.log, self.timeout = backend, ranks, opened, log, timeout
        self.process = None

    def start(self):
        environment = dict(os.environ, BACKEND=self.backend, WORLD_SIZE=str(self.ranks), CUDA_VISIBLE_DEVICES="",
                           SUITE_OPEN=str(int(self.opened)),
                           OMP_NUM_THREADS="1", DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(self.timeout),
                           PYTHONPATH=os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]))
        for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
            environment.pop(name, None)  # of a launcher that may have started us
        self.process = subprocess.Popen([sys.executable, __file__, "--worker"], env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        start_new_session=True)
        names = self.answer(300)
        if names is None:
            raise RuntimeError(f"the tests could not be loaded over {self.backend}: {self.log.name} says why")
        return names

    def answer(self, seconds):
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def run(self, name):
        if self.process is None:
            self.start()
        print(name, file=self.process.stdin, flush=True)
        # Some tests have longer limits of their own inside PyTorch.
        answer = self.answer(max(self.timeout, 500 if name in ("test_DistributedDataParallel",) else 0) + 60)
        if answer is None:
            self.stop()
            return ["fail", f"no answer within {self.timeout + 60} s", float(self.timeout + 60)]
        return answer

    def stop(self):
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)  # the session that was started above
            except ProcessLookupError:
                pass
            self.process.wait()
            self.process = None


# ---- Runs and reports.


def run_suite(backend, wanted, options, opened=False):
    """{name: [outcome, words, seconds]} of every test that `wanted` is true of."""
    results = {}
    for ranks in WORLD_SIZES:
        results.update(run_size(backend, ranks, opened,
                                lambda name: wanted(name) and wants_more_ranks(results.get(name)), options))
    return results


def run_backend(backend, wanted, options):
    """The same, and for Tutti what runs beyond that with open gates: two rows of the table."""
    results = {backend: run_suite(backend, wanted, options)}
    if backend == "tutti":
        kept = {name for name, (outcome, words, _) in results[backend].items()
                if outcome == "skip" and KEPT_BY_NAME.search(words)}
        results[OPENED] = run_suite(backend, lambda name: name in kept, options, opened=True) if kept else {}
    return results


def wants_more_ranks(result):
    return result is None or (result[0] == "skip" and ("world size" in result[1] or "worldsize" in result[1]))


def run_size(backend, ranks, opened, wanted, options):
    results, names, lock = {}, queue.Queue(), threading.Lock()
    options.logs.mkdir(parents=True, exist_ok=True)
    label = f"{OPENED if opened else backend}, {ranks} ranks"
    logs = [options.logs / f"{backend}{'_opened' if opened else ''}.{ranks}.{i}.log" for i in range(options.jobs)]
    workers = [Worker(backend, ranks, opened, log.open("w"), options.timeout) for log in logs]
    chosen = [name for name in workers[0].start() if wanted(name)]
    for name in chosen:
        names.put(name)

    def serve(own):
        while True:
            try:
                name = names.get_nowait()
            except queue.Empty:
                return
            answer = own.run(name)
            if answer[0] == "fail" and OUTSIDE_THE_TEST in answer[1]:
                print(f"\n{name}: its processes did not meet in time; once more", file=sys.stderr)
                answer = own.run(name)
            with lock:
                results[name] = answer
                show(f"{label}: {len(results)} of {len(chosen)}", name, answer)

    threads = [threading.Thread(target=serve, args=(own,), daemon=True) for own in workers]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:  # Ctrl-C, too
        for own in workers:
            own.stop()
            own.log.close()
    return results


def show(progress, name, answer):
    outcome, words, seconds = answer
    if sys.stderr.isatty():
        print(f"\r\033[K{progress}  {name}", end="", file=sys.stderr)
    if outcome == "fail":
        print(f"\n{progress}: {name} failed after {seconds:.0f} s: {gist_of(words)}", file=sys.stderr)


def gist_of(words):
    """The errors of a traceback; all of it is in the file that --json names."""
    errors = [line for line in words.splitlines() if re.match(r"\w+(\.\w+)*(Error|Exception)\b", line)]
    return "; ".join(dict.fromkeys(errors[1:] or errors)) or words[-300:]


def count(results):
    counts = {"pass": 0, "fail": 0, "skip": 0}
    for outcome, _, _ in results.values():
        counts[outcome] += 1
    counts["run"] = counts["pass"] + counts["fail"]
    return counts


def read_table(file):
    """`name: why` by lines; # begins a comment."""
    table = {}
    for line in file.read_text().splitlines():
        line = line.split("#")[0].strip()
        if line:
            name, _, why = line.partition(":")
            table[name.strip()] = why.strip()
    return table


def table_of(all_results):
    lines = [f"{'backend':18} {'run':>5} {'pass':>5} {'fail':>5} {'skip':>5} {'minutes of tests':>17}"]
    for backend, results in all_results.items():
        counts = count(results)
        minutes = sum(seconds for _, _, seconds in results.values()) / 60
        lines.append(f"{backend:18} " + " ".join(f"{counts[key]:5}" for key in ("run", "pass", "fail", "skip")) +
                     f" {minutes:17.1f}")
    return "\n".join(lines)


def compare(ours, opened, gloo, exceptions):
    """What is wrong, in words."""
    wrong = []
    for name in sorted(gloo):
        theirs, plain = gloo[name][0], ours[name][0]
        mine, words, _ = opened[name] if opened.get(name, ["skip"])[0] != "skip" else ours[name]
        if theirs != "skip" and plain == "skip":
            print(f"  only gloo runs {name} ({ours[name][1]}); with its gate open: {mine}. {exceptions.get(name, '')}")
        elif theirs == "skip" and mine != "skip":
            print(f"  only tutti runs {name}: {mine}")
        if theirs == "fail":
            print(f"  gloo fails {name} here; tutti: {mine}")
        if theirs == "pass" and mine != "pass" and name not in exceptions:
            wrong.append(f"gloo passes {name}; tutti: {mine}: {gist_of(words)}")
        if mine == "fail" and theirs == "skip" and name not in exceptions:
            wrong.append(f"tutti fails {name}, which gloo does not run: {gist_of(words)}")
        if name in exceptions and mine == "pass":
            wrong.append(f"{name} passes: take it out of suite_exceptions.txt")
    return wrong


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=BACKENDS, help="only this one; both otherwise")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--subset", action="store_true", help="Tutti alone, the tests of suite_subset.txt")
    which.add_argument("--all", action="store_true", help="every test (the default)")
    parser.add_argument("--tests", default="*", help="a pattern of names, e.g. '*all_reduce*'")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) // 2), help="tests at a time")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for a test (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write every result there")
    parser.add_argument("--logs", type=Path, default=Path("build/suite"), help="where logs go (default %(default)s)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def missing(backends):
    """Why the tests cannot run here, or nothing."""
    try:
        import expecttest  # noqa: F401  (PyTorch's tests need it)
        import numpy  # noqa: F401
        import torch.distributed  # noqa: F401
        if "tutti" in backends:
            import tutti.torch  # noqa: F401
    except ImportError as error:
        return f"{sys.executable}: {error}; TORCH_PYTHON names a python that has it"
    return None


def main():
    options = arguments()
    if options.worker:
        return worker()
    backends = [options.backend] if options.backend else ["tutti"] if options.subset else list(BACKENDS)
    why = missing(backends)
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    subset = read_table(HERE / "suite_subset.txt") if options.subset else None

    def wanted(name):
        return fnmatch.fnmatch(name, options.tests) and (subset is None or name in subset)

    all_results = {}
    for backend in backends:
        all_results.update(run_backend(backend, wanted, options))
    print("\n" + table_of(all_results))
    if options.json:
        options.json.write_text(json.dumps(all_results, indent=1))
    if options.subset:
        results = dict(all_results["tutti"], **all_results[OPENED])
        none = ["missing", "this PyTorch has no such test"]
        wrong = [f"{name}: {results.get(name, none)[0]}: {gist_of(results.get(name, none)[1])}" for name in subset
                 if fnmatch.fnmatch(name, options.tests) and results.get(name, none)[0] != "pass"]
    elif len(backends) == 2:
        wrong = compare(all_results["tutti"], all_results[OPENED], all_results["gloo"],
                        read_table(HERE / "suite_exceptions.txt"))
    else:
        wrong = [f"{name} fails: {gist_of(words)}" for results in all_results.values()
                 for name, (outcome, words, _) in results.items() if outcome == "fail"]
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
