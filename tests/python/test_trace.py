"""Traces from Python: what was called while one was recorded, and spans of the program's own."""

import json

import numpy as np
import pytest
import tutti


def of(trace, category):
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["cat"] == category]


@tutti.span("decorated")
def decorated(comm):
    comm.barrier()


def test_calls_and_spans(run, transport, tmp_path):
    file = tmp_path / "run.json"

    def job(comm):
        assert comm.trace().where is None
        with comm.trace().start(file) as trace:
            assert trace.where == str(file)
            with pytest.raises(tutti.InvalidArgumentError, match="already"):
                comm.trace().start(file)
            with tutti.span("forward"), tutti.span("inner"):
                comm.all_reduce(np.ones(3, "f4"))
            decorated(comm)
        assert comm.trace().where is None
        told = json.loads(file.read_text())
        assert [call["name"] for call in of(told, "call") if call["tid"] % 2 == comm.rank] == ["all_reduce", "barrier"]
        assert {call["args"]["bytes"] for call in of(told, "call")} == {0, 12}
        names = [span["name"] for span in of(told, "span") if span["tid"] % 2 == comm.rank]
        assert names == ["forward", "inner", "decorated"]
    run(2, job, transport=transport)


def test_spans_without_a_trace():
    with tutti.span("nobody records"):
        pass
