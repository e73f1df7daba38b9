"""Waiting for the first of several async calls, of one communicator or of several."""

from . import _core


def wait_any(works, timeout=None):
    """Waits until one of the works has ended, well or not, and returns its place; works[place].wait() says how it went.

    None among the works are passed over, so that those that are done can be replaced by it; where all are None, so is the
    result. timeout is in seconds: when it passes first, TimeoutError is raised.
    """
    ended = _core.wait_some(list(works), timeout)
    return ended[0] if ended else None


def wait_some(works, timeout=None):
    """As wait_any, and returns the list of the places of all that have ended."""
    return _core.wait_some(list(works), timeout)


def test_any(works):
    """The place of a work that has ended, well or not; None where none has. Does not wait, but takes them further."""
    return next((place for place, work in enumerate(works) if work is not None and work.done()), None)
