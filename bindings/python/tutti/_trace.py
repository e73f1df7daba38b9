"""Recording where a job's time goes, and spans of the program's own in it."""

import contextlib

from . import _core


class span(contextlib.ContextDecorator):
    """A part of the program with a name, in the trace of this rank; also around a function.

        with tutti.span("forward"):
            ...

    Spans of a thread nest. Where nothing is recorded they cost next to nothing.
    """

    __slots__ = ("name",)

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        _core.span_begin(self.name)
        return self

    def __exit__(self, *_):
        _core.span_end()


class Trace:
    """What a communicator's ranks record. `tutti run --trace FILE` and TUTTI_TRACE record a whole program."""

    def __init__(self, communicator):
        self._communicator = communicator

    def start(self, file, events=0):
        """Records all that follows, to become `file`; of each rank the last `events`, 0: 65536. All ranks call it."""
        self._communicator._trace_start(str(file), events)
        return self

    def stop(self):
        """Ends it; when it returns the file is there. All ranks call it."""
        self._communicator._trace_stop()

    @property
    def where(self):
        """The file that is recorded for, or None."""
        return self._communicator._trace_where() or None

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.stop()
