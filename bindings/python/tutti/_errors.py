"""The exceptions of Tutti: one class per code, each also the Python exception that its meaning suggests."""

import builtins


class Error(RuntimeError):
    """What failed, with the words of the library. `code` is its kind, `rank` the rank that caused it, or None."""

    code = "error"

    def __init__(self, message="", rank=None):
        super().__init__(message)
        self.rank = rank

    def __reduce__(self):
        return type(self), (str(self), self.rank)


class InvalidArgumentError(Error, ValueError):
    """A call that cannot be carried out as written. Nothing has moved, and the communicator goes on."""

    code = "invalid_argument"


class ArgumentTypeError(InvalidArgumentError, TypeError):
    """An argument of the wrong type: no piece of memory, or an array of Python objects."""


class UnsupportedError(Error, NotImplementedError):
    """The type lacks the operator, or the platform the feature."""

    code = "unsupported"


class TimeoutError(Error, builtins.TimeoutError):
    """A peer did not answer within the deadline, or a wait() took longer than it was given."""

    code = "timeout"


class PeerLostError(Error, ConnectionError):
    """A peer's process has ended."""

    code = "peer_lost"


class PeerFailedError(Error):
    """A peer gave up after an error of its own."""

    code = "peer_failed"


class MismatchError(Error):
    """Ranks called different operations; the message says what each of them called."""

    code = "mismatch"


class AbortedError(Error):
    """The communicator failed earlier, or was closed under the call; the message carries the first cause."""

    code = "aborted"


class SystemRefusedError(Error, OSError):
    """The operating system refused a request."""

    code = "system"


_CLASSES = {
    cls.code: cls
    for cls in (InvalidArgumentError, UnsupportedError, TimeoutError, PeerLostError, PeerFailedError, MismatchError,
                AbortedError, SystemRefusedError)
}
_CLASSES["argument_type"] = ArgumentTypeError
for _class in (Error, *_CLASSES.values()):
    _class.__module__ = "tutti"  # where people find it


def make(code, message, rank):
    """What the compiled module raises."""
    return _CLASSES.get(code, Error)(message, None if rank < 0 else rank)
